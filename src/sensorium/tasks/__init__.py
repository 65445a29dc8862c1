"""Tasks for robots, in B envs at once: ``sn.tasks.make("pick", robot="franka", n_envs=4)``."""

from sensorium.tasks.balance import Balance, BalanceConfig
from sensorium.tasks.catalogue import TASKS, VIEWS, default_robot, make, names, views_named
from sensorium.tasks.config import Randomize, TaskCamera, TaskConfig
from sensorium.tasks.core import get_core_sensors
from sensorium.tasks.door_opening import DoorOpening, DoorOpeningConfig
from sensorium.tasks.floor_plan import FURNITURE, FloorPlan, Footprint
from sensorium.tasks.furniture import LEAVES, Leaf
from sensorium.tasks.gym import GymView, VectorView, as_gym, as_vector, register
from sensorium.tasks.history import History
from sensorium.tasks.multi import MultiTask, MultiTaskConfig, SubTask
from sensorium.tasks.nav import NavToObj, NavToObjConfig
from sensorium.tasks.objects import THINGS, Thing
from sensorium.tasks.opening import DoorState, LeafConfig, LeafTask, Opening, OpeningConfig
from sensorium.tasks.pick import Pick, PickConfig
from sensorium.tasks.pick_and_place import PickAndPlace, PickAndPlaceConfig
from sensorium.tasks.reach import Reach, ReachConfig
from sensorium.tasks.shared import SharedTask
from sensorium.tasks.table import TableConfig, TableTask
from sensorium.tasks.task import Task

__all__ = [
    "FURNITURE",
    "LEAVES",
    "TASKS",
    "THINGS",
    "VIEWS",
    "Balance",
    "BalanceConfig",
    "DoorOpening",
    "DoorOpeningConfig",
    "DoorState",
    "FloorPlan",
    "Footprint",
    "GymView",
    "History",
    "Leaf",
    "LeafConfig",
    "LeafTask",
    "MultiTask",
    "MultiTaskConfig",
    "NavToObj",
    "NavToObjConfig",
    "Opening",
    "OpeningConfig",
    "Pick",
    "PickAndPlace",
    "PickAndPlaceConfig",
    "PickConfig",
    "Randomize",
    "Reach",
    "ReachConfig",
    "SharedTask",
    "SubTask",
    "TableConfig",
    "TableTask",
    "Task",
    "TaskCamera",
    "TaskConfig",
    "Thing",
    "VectorView",
    "as_gym",
    "as_vector",
    "default_robot",
    "get_core_sensors",
    "make",
    "names",
    "register",
    "views_named",
]
