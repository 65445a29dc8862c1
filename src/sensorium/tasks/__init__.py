"""Robot tasks in B envs at once: ``sn.tasks.make("pick", robot="franka", n_envs=4)``."""

from sensorium.tasks.balance import Balance, BalanceConfig
from sensorium.tasks.camera_files import load_cameras
from sensorium.tasks.catalogue import CAMERA_VIEWS, TASKS, TENSOR_TASKS, camera_views, default_robot, make, names
from sensorium.tasks.config import Randomize, TaskConfig
from sensorium.tasks.core_sensors import get_core_sensors
from sensorium.tasks.door_opening import DoorOpening, DoorOpeningConfig
from sensorium.tasks.floor_plan import FURNITURE, FloorPlan, Footprint
from sensorium.tasks.furniture import OPENABLE_PARTS, OpenablePart
from sensorium.tasks.gym import GymView, VectorView, as_gym, as_vector, register
from sensorium.tasks.history import History
from sensorium.tasks.multi import MultiTask, MultiTaskConfig, SubTask
from sensorium.tasks.nav import NavToObj, NavToObjConfig
from sensorium.tasks.objects import OBJECTS, TaskObject
from sensorium.tasks.opening import DoorState, Opening, OpeningConfig, OpenPartConfig, OpenPartTask
from sensorium.tasks.pick import Pick, PickConfig
from sensorium.tasks.pick_and_place import PickAndPlace, PickAndPlaceConfig
from sensorium.tasks.reach import Reach, ReachConfig
from sensorium.tasks.shared_task import SharedTask
from sensorium.tasks.table import TableConfig, TableTask
from sensorium.tasks.task import Task
from sensorium.tasks.task_camera import TaskCamera
from sensorium.tasks.tensor import Lift, LiftConfig, SharedTensorTask, TensorTask, TensorTaskConfig, Walk, WalkConfig

register()

__all__ = [
    "CAMERA_VIEWS",
    "FURNITURE",
    "OBJECTS",
    "OPENABLE_PARTS",
    "TASKS",
    "TENSOR_TASKS",
    "Balance",
    "BalanceConfig",
    "DoorOpening",
    "DoorOpeningConfig",
    "DoorState",
    "FloorPlan",
    "Footprint",
    "GymView",
    "History",
    "Lift",
    "LiftConfig",
    "MultiTask",
    "MultiTaskConfig",
    "NavToObj",
    "NavToObjConfig",
    "OpenPartConfig",
    "OpenPartTask",
    "OpenablePart",
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
    "SharedTensorTask",
    "SubTask",
    "TableConfig",
    "TableTask",
    "Task",
    "TaskCamera",
    "TaskConfig",
    "TaskObject",
    "TensorTask",
    "TensorTaskConfig",
    "VectorView",
    "Walk",
    "WalkConfig",
    "as_gym",
    "as_vector",
    "camera_views",
    "default_robot",
    "get_core_sensors",
    "load_cameras",
    "make",
    "names",
    "register",
]
