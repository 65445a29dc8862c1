"""``TensorEpisodes``: a tensor task with a sensor suite and one numbered episode per env, for datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from sensorium.errors import EpisodeOverError, OptionError
from sensorium.options import checked_integer
from sensorium.robots import GroupHandle, Robot
from sensorium.suites import (
    ActionRecord,
    ArraySensor,
    DictSensor,
    ObservationSensor,
    SensorSuite,
    env_states,
    robot_state,
)
from sensorium.suites.observation import PRIVILEGED
from sensorium.tasks import descriptions, rig_cameras
from sensorium.tasks.checks import sorted_numbers
from sensorium.tasks.protocols import PolicyLike
from sensorium.tasks.tensor.task import TensorTask
from sensorium.worlds import Envs


class TaskActions(NamedTuple):
    """The actions of a task that are not those of its robot, and the robot's move groups."""

    n_actions: int
    action_names: list[str]
    groups: Mapping[str, GroupHandle]


class TensorEpisodes:
    """A tensor task as generation, policies and viewers use tasks; see :class:`sensorium.tasks.Task`.

    An env whose episode has ended holds still until the next :meth:`reset`. An episode succeeds if it lasts
    ``max_steps`` steps without a failure and, for a task with the metric "reached", if that is 1 at its end.

    The suite has the images and parameters of ``cameras``, ``qpos``, ``qvel``, ``robot_base_pose``, ``env_states``,
    ``task_info``, the joint targets as ``actions/joint_pos`` and ``actions/joint_pos_rel``, what the task observes
    besides the robot's sensors ("command", ...), what only critics observe ("privileged/height", ...) and the sensors
    of the robot's rig.

    Args:
        task: a tensor task on the CPU, which is used here only.
        use_sensors: whether there is a suite. Without it, observations are empty.

    Raises:
        OptionError: the task runs on a GPU.

    Attributes:
        task: the task.
        robot: its robot; only the actions and move groups if the task has more or fewer actions than the robot.
        suite: the observation sensors; None without sensors.
        terminated, truncated, succeeded: (B,) bool, state of each env's episode.
        step_count: (B,) steps of each env's episode so far.
        episode: (B,) number of each env's episode; -1 before the first reset.
    """

    robot: Robot | TaskActions

    def __init__(self, task: TensorTask[Any], use_sensors: bool = True) -> None:
        if task.scene.world.is_gpu:
            raise OptionError(f"device: datasets are generated on the CPU, got {str(task.device)!r}; remove device")
        self.task, self.name, self.config = task, task.name, task.config
        self.n_envs, self.scene, self.seed = task.n_envs, task.scene, task.config.seed
        self.single_action_space = task.single_action_space
        count = int(task.single_action_space.shape[0])
        own = TaskActions(count, [f"action_{number}" for number in range(count)], task.robot.groups)
        self.robot = task.robot if task.robot.n_actions == count else own
        task.autoreset = False
        self.policy: PolicyLike | None = None
        self.terminated, self.truncated, self.succeeded = np.zeros((3, self.n_envs), bool)
        self.step_count = np.zeros(self.n_envs, np.int64)
        self.episode = np.full(self.n_envs, -1, np.int64)
        self._targets = ActionRecord(task.robot, self.n_envs, task.config.dt)
        self._no_action = np.zeros((self.n_envs, task.robot.n_actions))
        self.suite: SensorSuite | None = None
        if use_sensors:
            self.suite = SensorSuite(self.n_envs, self._sensors(), f"task {task.name!r}")
            robot_sensors = rig_cameras.as_observations(task.robot.create_robot_sensors())
            self.suite.extend(robot_sensors, f"robot {task.config.robot!r}")

    def _sensors(self) -> list[ObservationSensor]:
        task = self.task
        sensors = descriptions.camera_sensors(task.config.cameras, task.cameras)
        sensors += robot_state(task.robot)
        sensors += [env_states(task.scene), DictSensor("task_info", self.task_info)]
        # without the action in the units of the robot's controllers, which a tensor task may not use
        sensors += [each for each in self._targets.sensors(None) if not each.uuid.endswith("commanded_action")]
        own = set(task.observe())
        known = {*own, *task.robot.rig.names}  # which the critic observes too, without noise
        views = task.observation_views().items()
        sensors += [
            _array_sensor(uuid, view)
            for uuid, view in views
            if uuid in own or uuid.removeprefix(PRIVILEGED) not in known
        ]
        return sensors

    # -- episodes -----------------------------------------------------------------------------------------------------

    def set_sensor_step(self, step: int) -> None:
        """Set the step count on which the noise of the robot's actions depends."""
        self.task.robot.set_noise_step(checked_integer("step", step))

    def register_policy(self, policy: PolicyLike) -> None:
        """Add the sensors of a policy to the suite, and call its ``reset`` when episodes begin.

        Raises:
            OptionError: the task has a policy already, or this one was made for another task.
        """
        descriptions.check_policy(self, policy)
        if self.suite is not None:
            self.suite.extend(policy.create_policy_sensors(), f"policy {type(policy).__name__}")
        self.policy = policy

    def reset(self, envs: Envs = None, numbers: Sequence[int] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin an episode in every env, at the full difficulty.

        Args:
            envs: None, or all envs.
            numbers: episode numbers, one for each env. Default: the next ones.

        Returns:
            The observation of the suite, and info: ``{"episode": (B,)}``.

        Raises:
            OptionError: ``envs`` are not all of them.
        """
        if envs is not None and len(set(np.asarray(envs).tolist())) < self.n_envs:
            raise OptionError(f"envs: the episodes of a tensor task begin together in all {self.n_envs} envs")
        self.task.difficulty.fill_(1.0)
        self.task.reset(None if numbers is None else sorted_numbers(numbers, envs, self.n_envs))
        self.episode[:] = self.task.episode.numpy()
        for values in (self.terminated, self.truncated, self.succeeded, self.step_count):
            values[:] = 0
        self._targets.reset()
        if self.suite is not None:
            self.suite.reset()
        if self.policy is not None:
            self.policy.reset()
        return self._observe(), {"episode": self.episode.copy()}

    def step(self, action: np.ndarray) -> tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Apply an action for ``dt`` seconds in the envs that are not done.

        Args:
            action: (B, n). Rows of envs that are done are ignored.

        Returns:
            observation, reward (B,) float32, terminated (B,), truncated (B,), and ``{"success": (B,)}``.

        Raises:
            EpisodeOverError: every env is done.
            OptionError: the action has the wrong shape or is not finite.
            SensoriumError: a reward is NaN or infinite; names the term, the env and the step.
        """
        running = ~self.is_done()
        if not running.any():
            raise EpisodeOverError("every env is done: call reset()")
        task, before = self.task, self._targets.group_state()
        values = torch.as_tensor(np.asarray(action, np.float32))
        task.step_in_place(torch.where(torch.from_numpy(running)[:, None], values, 0.0))
        self._targets.record(self._no_action, before, running)
        self.step_count += running
        self.terminated |= running & task.terminated.numpy()
        self.truncated |= running & task.truncated.numpy()
        reached = task.last_metrics().get("reached")
        lasted = running & self.truncated & (task.scene.world.diverged == 0).numpy()
        self.succeeded |= lasted if reached is None else lasted & (reached > 0.5).numpy()
        ended = running & self.is_done()
        self._targets.terminal |= ended
        observation = self._observe()
        if ended.any():
            self.scene.hold(np.flatnonzero(ended).astype(np.int32))
        reward = np.where(running, task.reward.numpy(), 0.0).astype(np.float32)
        task.log.check_reward(reward)
        return observation, reward, self.terminated.copy(), self.truncated.copy(), {"success": self.succeeded.copy()}

    def _observe(self) -> dict[str, Any]:
        return {} if self.suite is None else self.suite.read()

    def is_done(self) -> np.ndarray:
        """Return which envs are terminated or truncated, (B,) bool."""
        return self.terminated | self.truncated

    def judge_success(self) -> np.ndarray:
        """Return which episodes have succeeded, (B,) bool."""
        return self.succeeded.copy()

    # -- descriptions -------------------------------------------------------------------------------------------------

    def describe_env(self, env: int) -> dict[str, Any]:
        """Return what ``task_info`` says about one env besides the task and the episode."""
        return {"instruction": self.task.instruction or self.name}

    def task_info(self) -> list[dict[str, Any]]:
        """Return one dict per env: the task, its instruction, and the episode, step and success."""
        return descriptions.task_info(self)

    def describe_scene(self, env: int) -> dict[str, Any]:
        """Return a JSON-able description of one env: the task, its objects and cameras, and its options."""
        rig = {camera.uuid: camera for camera in rig_cameras.find_cameras(self.task.robot).values()}
        options = {uuid: camera.options.model_dump(mode="json") for uuid, camera in rig.items()}
        return descriptions.scene_info(self, env, self.task.robot, (), [*self.task.cameras, *rig], options)

    def close(self) -> None:
        """Free the scene."""
        self.task.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.task!r}>"


def _array_sensor(uuid: str, view: torch.Tensor | Mapping[str, torch.Tensor]) -> ArraySensor:
    """Return a sensor that reads live tensors (B, ...)."""
    if isinstance(view, Mapping):
        parts = {name: each.numpy() for name, each in view.items()}
        return ArraySensor(uuid, lambda: parts, {name: each.shape[1:] for name, each in parts.items()})
    array = view.numpy()
    return ArraySensor(uuid, lambda: array, array.shape[1:])
