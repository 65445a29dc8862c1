"""``Task``: a robot with a goal, in B envs, with the interface of Gymnasium's vector environments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from sensorium._arguments import checked, checked_flag
from sensorium.errors import OptionError
from sensorium.options import checked_integer
from sensorium.robots import Manipulator, Robot, make
from sensorium.sensors import Sensor
from sensorium.suites import ActionRecord, ObservationSensor, SensorSuite, pick_env
from sensorium.tasks import descriptions, hook_results, rig_cameras, task_cameras
from sensorium.tasks.core_sensors import get_core_sensors
from sensorium.tasks.episodes import EpisodeLoop
from sensorium.tasks.hooks import ConfigT
from sensorium.tasks.protocols import EntityLike, PolicyLike
from sensorium.worlds import Scene

if TYPE_CHECKING:
    from sensorium.tasks.gym import GymView, VectorView
    from sensorium.tasks.sb3 import TaskVecEnv


class Task(EpisodeLoop[ConfigT]):
    """The base of all tasks. :func:`sensorium.tasks.make` makes them.

    To write a task, derive from this class and define the hooks of :class:`~sensorium.tasks.hooks.TaskHooks`.

    All arrays have B rows. An env that is done holds still until ``reset(envs)``. With ``autoreset`` it is reset in the
    same step.

    Attributes:
        scene: the built scene.
        robot: the robot in it.
        suite: the observation sensors; None without sensors.
        cameras: the cameras by name, those of the robot's rig by uuid.
        action_space: space of the actions of all envs, (B, n) float32; ``single_action_space`` is that of one env.
        terminated: (B,) bool, whether each env's episode has ended by success or failure.
        truncated: (B,) bool, whether it was cut off, by its length or because the physics diverged.
        succeeded: (B,) bool, whether it has reached the goal.
        reward_terms: the terms of the reward of the last step by name, each (B,).
        step_count: (B,) steps of each env's episode so far.
        episode: (B,) number of each env's episode, counted from 0; -1 before the first reset.
        seed: seed of the episodes; see :meth:`reseed`.

    Example:
        >>> task = sn.tasks.make("pick", n_envs=4)
        >>> observation, info = task.reset()
        >>> observation, reward, terminated, truncated, info = task.step(task.action_space.sample())
    """

    @checked
    def __init__(self, config: ConfigT, robot: Robot | None = None, entity: EntityLike | None = None) -> None:
        options = hook_results.checked_scene_options(self, "scene_options", self.scene_options())
        scene = Scene(dt=config.dt, substeps=config.substeps, **options)
        body = make(config.robot) if robot is None else robot
        self._use(config, body if entity is not None else rig_cameras.choose_cameras(body, config.rig_cameras), scene)
        add_light(scene)
        self.add_scene(scene)
        self._add_robot(task_cameras.ROBOT)
        self.cameras.update(task_cameras.add_cameras(self, self.roles))
        scene.build(n_envs=config.n_envs, seed=config.seed, threads=config.threads)
        self._bind(entity)

    def _use(self, config: ConfigT, robot: Robot, scene: Scene, origin: Sequence[float] = (0.0, 0.0)) -> None:
        """Set the options, the robot and the scene, which is not built yet."""
        self.config = config
        self.n_envs = config.n_envs
        self.scene = scene
        self.origin = np.array(origin)
        self.cameras = {}
        # A robot belongs to one scene, and the one given here may be in another scene: use a copy.
        robot = type(robot)(robot.options)
        if not isinstance(robot, self.robot_type) or (self.needs_groups and not robot.groups):
            needed = "arms as move groups" if self.robot_type is Manipulator else "move groups"
            raise OptionError(f"the task {self.name!r} needs a robot with {needed}; {config.robot!r} has none")
        self.robot = hook_results.checked_robot(self, "place_robot", self.place_robot(robot))

    def _add_robot(self, name: str) -> None:
        """Add the robot to the scene under a name, and the sensors that the task itself needs."""
        self.scene.add_robot(self.robot, name=name)
        self.add_sensors(self.scene)

    def _bind(self, entity: EntityLike | None) -> None:
        """Set up everything that needs the built scene."""
        config = self.config
        self._init_episodes()
        self.actions = ActionRecord(self.robot, self.n_envs, config.dt)
        self.on_build()
        self.suite = None
        if entity is not None:
            self.suite = entity.bind(self.robot, self.n_envs)
        elif config.use_sensors:
            rig_cameras.add_to_task(self)
            self.suite = self._as_suite(self.create_task_sensors(config))
            self.suite.extend(self.create_robot_sensors(), f"robot {config.robot!r}")

    # -- sensors and policy -------------------------------------------------------------------------------------------

    def get_core_sensors(self, config: ConfigT) -> list[ObservationSensor]:
        """Return the sensors of every task; see :func:`sensorium.tasks.core_sensors.get_core_sensors`."""
        return get_core_sensors(self, config)

    def create_task_sensors(self, config: ConfigT) -> list[ObservationSensor] | SensorSuite:
        return self.get_core_sensors(config)

    def _as_suite(self, made: object) -> SensorSuite:
        """Return the suite of a task, given the result of ``create_task_sensors``."""
        label = f"{type(self).__name__}.create_task_sensors"
        if not isinstance(made, SensorSuite):
            if isinstance(made, str | Mapping) or not isinstance(made, Iterable):
                raise OptionError(f"{label} must return a list of sensors or a SensorSuite, got {made!r}")
            suite = SensorSuite(self.n_envs)
            suite.extend(made, f"task {self.name!r}")
            return suite
        if made.n_envs != self.n_envs:
            raise OptionError(
                f"{label}: the suite is for {made.n_envs} envs and the task has {self.n_envs}; make it with "
                "SensorSuite(self.n_envs, ...)"
            )
        return made

    def create_robot_sensors(self) -> list[ObservationSensor | Sensor[Any]]:
        """Return the sensors that the robot contributes: its tool poses and the sensors of its rig.

        The cameras of the rig are observed like those of the task: UUID, UUID_depth, ... and sensor_param_UUID.
        """
        return rig_cameras.as_observations(self.robot.create_robot_sensors())

    def register_policy(self, policy: PolicyLike) -> None:
        """Add the sensors of a policy to the suite, and call its ``reset`` when episodes begin.

        Args:
            policy: a policy that was made for this task.

        Raises:
            OptionError: (a ValueError) the task has a policy already, or this one was made for another task.
        """
        descriptions.check_policy(self, policy)
        if self.suite is not None:
            self.suite.extend(policy.create_policy_sensors(), f"policy {type(policy).__name__}")
        self.policy = policy
        running = np.flatnonzero((self.episode >= 0) & ~self.is_done())
        if len(running):
            policy.reset(running)

    # -- descriptions -------------------------------------------------------------------------------------------------

    def task_info(self) -> list[dict[str, Any]]:
        """Return one dict per env: the task, its description of the env, and the episode, step and success."""
        return descriptions.task_info(self)

    def describe_scene(self, env: int) -> dict[str, Any]:
        """Return a JSON-able description of one env: the task, its objects and cameras, and its options."""
        rig = rig_cameras.describe(self)
        return descriptions.scene_info(self, env, self.robot, self.roles, self.cameras, rig)

    def observation_of(self, env: int) -> dict[str, Any]:
        """Return the last observation of one env."""
        env = checked_integer("env", env, 0, self.n_envs - 1)
        return {uuid: pick_env(value, env) for uuid, value in self._observation.items()}

    # -- views --------------------------------------------------------------------------------------------------------

    @overload
    def as_gymnasium(
        self,
        vector: Literal[True] = True,
        *,
        keys: Sequence[str] | None = None,
        flatten: bool = False,
        render_mode: str | None = None,
        output: Literal["numpy", "torch"] = "numpy",
    ) -> VectorView: ...
    @overload
    def as_gymnasium(
        self,
        vector: Literal[False],
        *,
        keys: Sequence[str] | None = None,
        flatten: bool = False,
        render_mode: str | None = None,
    ) -> GymView: ...
    def as_gymnasium(
        self,
        vector: bool = True,
        *,
        keys: Sequence[str] | None = None,
        flatten: bool = False,
        render_mode: str | None = None,
        output: Literal["numpy", "torch"] = "numpy",
    ) -> VectorView | GymView:
        """Return the task as a ``gymnasium.vector.VectorEnv``, or a task of one env as a ``gymnasium.Env``.

        Args:
            vector: False for a ``gymnasium.Env``.
            keys, flatten, render_mode: see :func:`sensorium.tasks.as_gym`.
            output: see :func:`sensorium.tasks.as_vector`; only for a vector.
        """
        from sensorium.tasks.gym import as_gym, as_vector

        if checked_flag("vector", vector):
            return as_vector(self, keys, flatten, render_mode, output)
        if output != "numpy":
            raise OptionError(f"output is an option of vector views, got output={output!r} with vector=False")
        return as_gym(self, keys, flatten, render_mode)

    def as_sb3(self, keys: Sequence[str] | None = None, flatten: bool = True) -> TaskVecEnv:
        """Return the task as a ``VecEnv`` of Stable-Baselines3 with B envs, which are reset when they are done.

        Args:
            keys: uuids to observe, in order. Default: all that read as arrays; if ``flatten``, without images.
            flatten: True for one float32 array per env ("MlpPolicy"); False for a dict with one array per uuid
                ("MultiInputPolicy", also for images).

        Raises:
            OptionError: Stable-Baselines3 is not installed, or the keys cannot be used.
            NameNotFoundError: a key is not in the suite.

        Example:
            >>> env = sn.tasks.make("reach", n_envs=8, keep_history=False).as_sb3()
            >>> PPO("MlpPolicy", env).learn(100_000)
        """
        try:
            from sensorium.tasks.sb3 import TaskVecEnv
        except ImportError:
            raise OptionError("as_sb3 needs Stable-Baselines3: pip install 'sensorium[train]'") from None
        return TaskVecEnv(self, keys, flatten)

    def render(self, env: int = 0) -> np.ndarray:
        """Return an image of one env with its robot in view, (480, 640, 3) uint8."""
        return task_cameras.render_env(self.scene, [self.robot], env)

    def close(self) -> None:
        """Free the scene."""
        self.scene.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.n_envs} envs, robot {self.config.robot!r}>"


def add_light(scene: Scene) -> None:
    """Add the light that all tasks have."""
    scene.add_light("directional", direction=(-0.3, 0.2, -1.0))
