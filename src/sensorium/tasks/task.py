"""``Task``: a robot with something to do, in B envs, in the manner of Gymnasium."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from gymnasium import spaces

from sensorium.errors import DivergenceError, EpisodeOverError, OptionError
from sensorium.robots import Manipulator, Robot, make
from sensorium.sensors import Sensor
from sensorium.suites import ActionRecord, ObservationSensor, SensorSuite, pick_env
from sensorium.tasks import views
from sensorium.tasks.acting import Acting, Embodied
from sensorium.tasks.checks import checked_action, checked_seed, sorted_numbers
from sensorium.tasks.config import TaskConfig
from sensorium.tasks.core import get_core_sensors
from sensorium.tasks.history import History
from sensorium.worlds import Envs, Plane, Scene, env_ids

ConfigT = TypeVar("ConfigT", bound=TaskConfig)


class Task(Generic[ConfigT]):
    """What tasks have in common. Derive from it and define the hooks below; :func:`sensorium.tasks.make` makes them.

    All arrays have B rows. An env that is done holds still until ``reset(envs)``; with ``autoreset`` it is reset at
    once.

    Attributes:
        scene: the scene, built.
        robot: the robot in it.
        suite: what is observed; None without sensors.
        cameras: the cameras by name.
        action_space: of all envs, (B, n) float32; ``single_action_space`` of one.

    Example:
        >>> task = sn.tasks.make("pick", n_envs=4)
        >>> observation, info = task.reset()
        >>> observation, reward, terminated, truncated, info = task.step(task.action_space.sample())
    """

    name: ClassVar[str] = ""
    """What it is called in ``tasks.make``."""
    config_type: ClassVar[type[TaskConfig]] = TaskConfig
    ends_on_success: ClassVar[bool] = True
    """Whether an episode ends when the goal is reached; or goes on to its last step."""
    roles: ClassVar[tuple[str, ...]] = ()
    """What parts the things of the task play: "pickup_obj", ..."""
    robot_type: ClassVar[type[Robot]] = Manipulator
    """What robot it needs."""
    needs_groups: ClassVar[bool] = True
    """Whether the robot must have move groups."""

    shareable: ClassVar[bool] = False
    """Whether several entities can do it in one scene, each about an ``origin`` of its own."""

    def __init__(self, config: ConfigT, robot: Robot | None = None, entity: Embodied | None = None) -> None:
        scene = Scene(dt=config.dt, substeps=config.substeps, **self._scene_options())
        self._prepare(config, make(config.robot) if robot is None else robot, scene)
        light(scene)
        self._add_scene(scene)
        self._enter(views.ROBOT)
        self.cameras.update(views.add_cameras(self))
        scene.build(n_envs=config.n_envs, seed=config.seed, threads=config.threads)
        self._wake(entity)

    def _prepare(self, config: ConfigT, robot: Robot, scene: Scene, origin: Sequence[float] = (0.0, 0.0)) -> None:
        """Take a robot and a scene that is not built yet."""
        self.config: ConfigT = config
        self.n_envs = config.n_envs
        self.scene = scene
        self.origin = np.array(origin)
        """Where it takes place, (2,) m in the world."""
        self.cameras: dict[str, Any] = {}
        # a part is in one scene: the robot that was given may be in another
        robot = type(robot)(robot.options)
        if not isinstance(robot, self.robot_type) or (self.needs_groups and not robot.groups):
            arms = "arms as " if self.robot_type is Manipulator else ""
            raise OptionError(f"the task {self.name!r} needs a robot with {arms}move groups; {config.robot!r} has none")
        self.robot: Any = self._place_robot(robot)
        """What acts: of ``robot_type``."""

    def _enter(self, name: str) -> None:
        """Add the robot to the scene under a name, and the sensors that the task itself needs."""
        self.scene.add_robot(self.robot, name=name)
        self._add_sensors(self.scene)

    def _wake(self, entity: Embodied | None) -> None:
        """Begin, in the scene that was built."""
        config = self.config
        self._start_episodes()
        self.actions = ActionRecord(self.robot, self.n_envs, config.dt)
        self._start()
        self.suite: SensorSuite | None = None
        if entity is not None:
            self.suite = entity.bind(self.robot, self.n_envs)
        elif config.use_sensors:
            self.suite = SensorSuite(self.n_envs, self._create_sensor_suite_from_config(config), f"task {self.name!r}")
            self.suite.extend(self.create_robot_sensors(), f"robot {config.robot!r}")

    def _start_episodes(self) -> None:
        """Make what counts episodes and steps, and the spaces of actions."""
        self.seed = self.config.seed
        """What is drawn comes from it; see :meth:`reseed`."""
        self.policy: Acting | None = None
        self.terminated, self.truncated, self.succeeded = np.zeros((3, self.n_envs), bool)
        self.step_count = np.zeros(self.n_envs, np.int64)
        """Steps of each env's episode so far."""
        self.episode = np.full(self.n_envs, -1, np.int64)
        """Number of each env's episode, from 0; -1 before the first reset."""
        least, greatest = self.robot.action_limits.numpy().T.astype(np.float32)
        self.single_action_space = spaces.Box(least, greatest, dtype=np.float32)
        shape = (self.n_envs, 1)
        self.action_space = spaces.Box(np.tile(least, shape), np.tile(greatest, shape), dtype=np.float32)
        self.history = History(self.config.keep_images)
        self._observation: dict[str, Any] = {}

    # -- hooks of tasks -----------------------------------------------------------------------------------------------

    def _scene_options(self) -> dict[str, Any]:
        return {"integrator": "implicitfast", "cone": "elliptic", "impratio": 10.0}

    def _place_robot(self, robot: Any) -> Any:
        """The robot as the task wants it to stand."""
        return robot

    def _add_scene(self, scene: Scene) -> None:
        """Add all that is there besides the robot, before build."""
        scene.add_object(Plane(rgba=(0.45, 0.45, 0.45, 1.0)), name="floor")

    def _add_sensors(self, scene: Scene) -> None:
        """Add sensors of the scene that the task itself needs, before build."""

    def _start(self) -> None:
        """Find things in the scene, which was built."""

    def _begin(self, envs: np.ndarray, draws: Sequence[np.random.Generator]) -> None:
        """Put everything where it is to be at the start of an episode, in these envs; ``draws`` has one generator for
        each. The robot is at home."""

    def _judge(self) -> np.ndarray:
        """Which envs have reached the goal now, (B,) bool."""
        raise TypeError(f"{type(self).__name__} must define _judge()")

    def _is_lost(self) -> np.ndarray:
        """In which envs the goal cannot be reached any more, which ends their episodes, (B,) bool."""
        return np.zeros(self.n_envs, bool)

    def _reward(self) -> np.ndarray:
        """Reward of the step, (B,). Default: 1 where the goal was reached in it."""
        return self.succeeded.astype(np.float32)

    @property
    def max_return(self) -> float | None:
        """The greatest sum of an episode's rewards; None if it is not known."""
        return None

    def role_bodies(self) -> np.ndarray:
        """Ids of the root links that play the task's roles in each env, (B, len(roles))."""
        return np.zeros((self.n_envs, 0), np.int64)

    def describe_env(self, env: int) -> dict[str, Any]:
        """What ``task_info`` says of one env, besides what it says of every task."""
        return {}

    def _create_sensor_suite_from_config(self, config: ConfigT) -> list[ObservationSensor]:
        """What the task contributes, starting from ``get_core_sensors(config)``."""
        return self.get_core_sensors(config)

    # -- what it sees -------------------------------------------------------------------------------------------------

    def get_core_sensors(self, config: ConfigT) -> list[ObservationSensor]:
        """The sensors of every task; see :func:`sensorium.tasks.core.get_core_sensors`."""
        return get_core_sensors(self, config)

    def create_robot_sensors(self) -> list[ObservationSensor | Sensor[Any]]:
        """What the robot contributes: where its tools are, and the sensors of its rig."""
        return self.robot.create_robot_sensors()

    def register_policy(self, policy: Acting) -> None:
        """Add what a policy contributes to the suite, and tell it of resets from now on.

        Raises:
            OptionError: (a ValueError) there is one already.
        """
        if self.policy is not None:
            raise OptionError(
                f"the task has the policy {type(self.policy).__name__} already; make another task for another policy"
            )
        if not hasattr(policy, "create_policy_sensors") or getattr(policy, "task", self) is not self:
            raise OptionError(f"a policy must be made for this task, as policies.make('planner', task); got {policy!r}")
        if self.suite is not None:
            self.suite.extend(policy.create_policy_sensors(), f"policy {type(policy).__name__}")
        self.policy = policy
        running = np.flatnonzero((self.episode >= 0) & ~self.is_done())
        if len(running):
            policy.reset(running)

    # -- running ------------------------------------------------------------------------------------------------------

    def reset(self, envs: Envs = None, numbers: Sequence[int] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin an episode in some envs (default: all).

        What is drawn depends on the seed, the env, and how many episodes it has had, alone; or, with ``numbers``, on
        the seed and the number alone, in whichever env.

        Args:
            envs: which envs.
            numbers: of the episodes, one for each of those envs.

        Returns:
            The observation of all envs, and info: ``{"episode": (B,)}``.
        """
        ids = env_ids(envs, self.n_envs)
        if ids is None:
            ids = np.arange(self.n_envs, dtype=np.int32)
        if numbers is not None:
            numbers = sorted_numbers(numbers, envs, len(ids))
        self._reset(ids, numbers)
        self._observation = self._observe()
        if len(ids) == self.n_envs:
            self.history.clear()
        if self.config.keep_history and self.suite is not None:
            self.history.begin(self._observation, self.suite)
        return self._observation, {"episode": self.episode.copy()}

    def reseed(self, seed: int) -> None:
        """Draw all that comes from now on as a task made with this seed would; call ``reset()`` after it.

        Noise of sensors begins anew, from the seed with which the task was made.
        """
        self.seed = checked_seed(seed)
        self.episode[:] = -1
        self.set_sensor_step(0)

    def set_sensor_step(self, step: int) -> None:
        """Let the noise of sensors and actions, which depends on the seed and a count of steps, go on from another one.
        Reset all envs after it."""
        self.scene.step_count = step
        self.robot.set_noise_step(step)

    def _reset(self, ids: np.ndarray, numbers: Sequence[int] | None = None) -> None:
        draws = self._draws(ids, numbers)
        self.scene.reset(ids)
        self._set_up(ids, draws)
        self.scene.forward(ids)
        self._restart(ids, draws)

    def _draws(self, ids: np.ndarray, numbers: Sequence[int] | None = None) -> list[np.random.Generator]:
        """Count one more episode of these envs; what it is drawn from."""
        if numbers is None:
            self.episode[ids] += 1
            keys: list[tuple[int, ...]] = [(int(env), int(self.episode[env])) for env in ids]
        else:
            self.episode[ids] = numbers
            keys = [(int(number),) for number in numbers]
        return [np.random.default_rng([self.seed, *key]) for key in keys]

    def _set_up(self, ids: np.ndarray, draws: Sequence[np.random.Generator]) -> None:
        """Put the robot and all that the task has where an episode begins, after ``scene.reset(ids)``."""
        self.robot.set_home(ids)
        self._begin(ids, draws)
        wobble = self.config.randomize.robot
        if wobble:
            self.robot.disturb(ids, wobble, draws)

    def _restart(self, ids: np.ndarray, draws: Sequence[np.random.Generator]) -> None:
        """Count from 0 again, after ``scene.forward(ids)``."""
        for flags in (self.terminated, self.truncated, self.succeeded):
            flags[ids] = False
        self.step_count[ids] = 0
        self.actions.reset(ids)
        views.renew(self, ids, draws)
        if self.suite is not None:
            self.suite.reset(ids)
        if self.policy is not None:
            self.policy.reset(ids)

    def step(self, action: Any) -> tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Let the robot act, for ``dt`` seconds, in all envs that are not done.

        Args:
            action: (B, n) numbers in the units of the robot's controllers (rows of envs that are done do not count), or
                a dict of move group -> (B, n).

        Returns:
            observation, reward (B,) float32, terminated (B,), truncated (B,), and info: ``{"success": (B,)}``; with
            ``autoreset`` also "final_obs", what all envs observed last, and "_final_obs" (B,), which of them ended.

        Raises:
            EpisodeOverError: every env is done; or there was no reset yet.
            OptionError: the action has another shape or type, or is not finite. Nothing was done.
        """
        done = self.is_done()
        if (self.episode < 0).any():
            raise EpisodeOverError("call reset() before the first step()")
        if done.all():
            raise EpisodeOverError(
                "every env is done: call reset(), or reset(envs) for some; or make the task with autoreset=True"
            )
        told = self._checked(action)
        failed = self._advance(told, ~done)
        ended = self.is_done() & ~done
        reward = np.where(done, 0.0, self._reward()).astype(np.float32)
        reward[list(failed)] = 0.0  # the state that they were put to was not reached
        self._observation = self._observe()
        terminated, truncated = self.terminated.copy(), self.truncated.copy()
        info: dict[str, Any] = {"success": self.succeeded.copy()}
        if failed:
            info["failed"] = failed
        if self.config.keep_history:
            self.history.add(self._observation, told, reward, terminated, truncated, self.succeeded, self.suite)
        if ended.any():
            ids = np.flatnonzero(ended).astype(np.int32)
            if self.config.autoreset:
                info |= {"final_obs": self._observation, "_final_obs": ended}
                self._reset(ids)
                self._observation = self._observe()
            else:
                self._hold(ids)
        return self._observation, reward, terminated, truncated, info

    def _advance(self, told: np.ndarray, acting: np.ndarray) -> dict[int, str]:
        """Act in the envs of a mask, and judge how it went; env -> message of those whose physics failed."""
        self._tell(told, acting)
        failed = step(self.scene)
        self._assess(acting, failed)
        return failed

    def _tell(self, told: np.ndarray, acting: np.ndarray) -> None:
        """Tell the robot in the envs of a mask what to do from now on."""
        ids = np.flatnonzero(acting).astype(np.int32)
        before = self.actions.before()
        self.robot.act(told[ids], None if len(ids) == self.n_envs else ids)
        self.actions.note(told, before, acting)

    def _assess(self, acting: np.ndarray, failed: Mapping[int, str]) -> None:
        """Judge a step that the envs of a mask have made."""
        self.step_count[acting] += 1
        self.succeeded[acting] = self._judge()[acting]
        broken = np.isin(np.arange(self.n_envs), list(failed))
        self.succeeded &= ~broken
        if self.ends_on_success:
            self.terminated |= self.succeeded
        self.terminated[acting] |= self._is_lost()[acting]
        self.truncated |= ~self.terminated & (broken | (self.step_count >= self.config.max_steps))
        self.actions.terminal[acting & self.is_done()] = True

    def _hold(self, ids: np.ndarray) -> None:
        """Let envs that have ended hold still."""
        self.scene.hold(ids)

    def _checked(self, action: Any) -> np.ndarray:
        """An action as (B, n) float64."""
        return checked_action(action, self.robot.action_slices, self.robot.n_actions, ~self.is_done())

    def _observe(self) -> dict[str, Any]:
        return {} if self.suite is None else self.suite.read()

    # -- how it went --------------------------------------------------------------------------------------------------

    def is_done(self) -> np.ndarray:
        """Which envs have ended, (B,) bool."""
        return self.terminated | self.truncated

    def judge_success(self) -> np.ndarray:
        """Which envs have reached the goal, (B,) bool."""
        return self.succeeded.copy()

    def get_history(self) -> dict[str, Any]:
        """All steps since the last ``reset()`` of all envs; see :class:`sensorium.tasks.history.History`."""
        return self.history.get()

    def task_info(self) -> list[dict[str, Any]]:
        """Of each env: the task, what it says of the env, its episode, and how far it is."""
        known = (values.tolist() for values in (self.episode, self.step_count, self.succeeded))
        return [
            {"task": self.name, **self.describe_env(env), "episode": episode, "step": step, "success": success}
            for env, (episode, step, success) in enumerate(zip(*known, strict=True))
        ]

    def describe_scene(self, env: int) -> dict[str, Any]:
        """What there is in one env, as a JSON-able dict: the task, its things, its cameras, and how it was made."""
        return {
            "task": self.name,
            **self.describe_env(env),
            "robot": self.config.robot,
            "move_groups": {name: list(group.description.joints) for name, group in self.robot.groups.items()},
            "entities": list(self.scene.entities),
            "roles": list(self.roles),
            "cameras": [camera.name for camera in self.config.cameras],
            "bodies": [self.scene.model.body(body).name for body in range(self.scene.model.nbody)],
            "config": self.config.model_dump(mode="json"),
        }

    def observation_of(self, env: int) -> dict[str, Any]:
        """What one env observed last."""
        return {uuid: pick_env(value, env) for uuid, value in self._observation.items()}

    def body_poses(self, bodies: np.ndarray) -> np.ndarray:
        """Poses (B, 7) in the world frame of one link in each env, (B,) ids."""
        world, rows, pose = self.scene.world, np.arange(self.n_envs), np.empty((self.n_envs, 7))
        pose[:, :3] = world.bind("xpos").numpy()[rows, bodies]
        pose[:, 3:] = world.bind("xquat").numpy()[rows, bodies]
        return pose

    def as_gymnasium(self, vector: bool = True, **options: Any) -> Any:
        """The task as a ``gymnasium.vector.VectorEnv``; or, of one env, as a plain ``gymnasium.Env``.

        Args:
            vector: False for a plain one.
            **options: see :func:`sensorium.tasks.as_vector` and :func:`sensorium.tasks.as_gym`.
        """
        from sensorium.tasks.gym import as_gym, as_vector

        return as_vector(self, **options) if vector else as_gym(self, **options)

    def render(self, env: int = 0) -> np.ndarray:
        """A picture of one env to look at, (480, 640, 3) uint8."""
        return views.picture(self.scene, [self.robot], env)

    def close(self) -> None:
        """Free the scene."""
        self.scene.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.n_envs} envs, robot {self.config.robot!r}>"


def light(scene: Scene) -> None:
    """The light of all tasks."""
    scene.add_light("directional", direction=(-0.3, 0.2, -1.0))


def step(scene: Scene) -> dict[int, str]:
    """Let a scene go on by one step; env -> message of those whose physics failed in it."""
    try:
        scene.step()
    except DivergenceError as error:
        return error.messages
    return {}
