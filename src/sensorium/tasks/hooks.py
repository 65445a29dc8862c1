"""``TaskHooks``: the class attributes and methods that a task class defines, with their defaults."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from sensorium._arguments import as_array
from sensorium.errors import OptionError
from sensorium.robots import Manipulator, Robot
from sensorium.suites import ObservationSensor, SensorSuite
from sensorium.tasks.config import TaskConfig
from sensorium.worlds import Plane, Scene

if TYPE_CHECKING:
    from sensorium.cameras.camera import CameraSensor

ConfigT = TypeVar("ConfigT", bound=TaskConfig)


class TaskHooks(Generic[ConfigT]):
    """The hooks of a task class. :class:`~sensorium.tasks.Task` calls them; derive task classes from ``Task``.

    The hooks run in this order: ``scene_options``, ``place_robot``, ``add_scene`` and ``add_sensors`` before the scene
    is built, ``on_build`` and ``create_task_sensors`` once after it, ``begin_episodes`` at each reset, and ``judge``,
    ``failures`` and ``rewards`` after each step, in this order.
    """

    name: ClassVar[str] = ""
    """Name of the task in ``tasks.make``."""
    config_type: ClassVar[type[TaskConfig]] = TaskConfig
    """Class of its options."""
    ends_on_success: ClassVar[bool] = True
    """Whether an episode terminates when the goal is reached. If False, it runs for ``max_steps`` steps."""
    roles: ClassVar[tuple[str, ...]] = ()
    """Roles of objects in the task, for example "pickup_obj"."""
    robot_type: ClassVar[type[Robot]] = Manipulator
    """Class of robot that the task needs."""
    needs_groups: ClassVar[bool] = True
    """Whether the robot must have move groups."""
    shareable: ClassVar[bool] = False
    """Whether several entities can do the task in one scene, each around its own ``origin``."""

    config: ConfigT
    """The options."""
    n_envs: int
    """Number of envs, B."""
    scene: Scene
    """The scene."""
    robot: Robot
    """The robot, an instance of ``robot_type``."""
    cameras: dict[str, CameraSensor]
    """The cameras of the options by name, and those of the robot's rig by uuid."""
    origin: np.ndarray
    """Where the task takes place, (2,) m in the world frame."""
    succeeded: np.ndarray
    """Whether each env has reached the goal, (B,) bool."""
    step_count: np.ndarray
    """Steps of each env's episode so far, (B,) int."""
    seed: int
    """Seed of the episodes."""

    # -- scene --------------------------------------------------------------------------------------------------------

    def scene_options(self) -> dict[str, Any]:
        """Return options of the scene besides ``dt`` and ``substeps``."""
        return {"integrator": "implicitfast", "cone": "elliptic", "impratio": 10.0}

    def place_robot(self, robot: Robot) -> Robot:
        """Return the robot, or a copy of it with the options (position, rig) that the task needs."""
        return robot

    def add_scene(self, scene: Scene) -> None:
        """Add everything except the robot to the scene, before it is built."""
        scene.add_object(Plane(rgba=(0.45, 0.45, 0.45, 1.0)), name="floor")

    def add_sensors(self, scene: Scene) -> None:
        """Add the scene sensors that the task itself needs, before the scene is built."""

    def on_build(self) -> None:
        """Look up bodies and allocate state after the scene is built."""

    # -- episodes -----------------------------------------------------------------------------------------------------

    def begin_episodes(self, envs: np.ndarray, rngs: Sequence[np.random.Generator]) -> None:
        """Place everything for the start of an episode. The robot is at home already.

        Args:
            envs: (n,) ids of the envs.
            rngs: one random generator per env.
        """

    def judge(self) -> np.ndarray:
        """Return which envs are at the goal now, (B,) bool. Called once per step, so that it may count steps."""
        raise TypeError(f"{type(self).__name__} must define judge()")

    def failures(self) -> dict[str, np.ndarray]:
        """Return where the goal cannot be reached any more, by reason: each (B,) bool. These episodes terminate."""
        return {}

    def rewards(self) -> dict[str, np.ndarray]:
        """Return the terms of the reward of the step, each (B,). Their sum is the reward.

        Default: "success", 1 where the goal is reached, else 0.
        """
        return {"success": self.succeeded.astype(np.float32)}

    @property
    def max_return(self) -> float | None:
        """The maximum return of an episode, or None if it is unknown."""
        return None

    # -- descriptions and observations --------------------------------------------------------------------------------

    def role_bodies(self) -> np.ndarray:
        """Return the ids of the root links that play the task's roles in each env, (B, len(roles))."""
        return np.zeros((self.n_envs, 0), np.int64)

    def body_poses(self, bodies: np.ndarray) -> np.ndarray:
        """Return the poses (B, 7) in the world frame of one link per env, given by ids (B,).

        Raises:
            OptionError: ``bodies`` are not B ids of links.
        """
        links, count = as_array(bodies), self.scene.model.nbody
        if links.shape != (self.n_envs,) or links.dtype.kind not in "iu" or links.min() < 0 or links.max() >= count:
            raise OptionError(f"bodies must be {self.n_envs} ids of links in [0, {count}), got {bodies!r:.80}")
        rows, pose = np.arange(self.n_envs), np.empty((self.n_envs, 7))
        positions, orientations = self._link_poses
        pose[:, :3] = positions[rows, links]
        pose[:, 3:] = orientations[rows, links]
        return pose

    @cached_property
    def _link_poses(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions (B, n, 3) and orientations (B, n, 4) of all links, which the engine keeps current."""
        world = self.scene.world
        return world.bind("xpos").numpy(), world.bind("xquat").numpy()

    def describe_env(self, env: int) -> dict[str, Any]:
        """Return the task-specific part of ``task_info`` for one env, JSON-able."""
        return {}

    def create_task_sensors(self, config: ConfigT) -> list[ObservationSensor] | SensorSuite:
        """Return the sensors that the task contributes: a list of them, or a suite, which the task then extends.

        Start from ``get_core_sensors(config)``.
        """
        raise TypeError(f"{type(self).__name__} must define create_task_sensors(config)")
