"""MultiTask: several tasks in one, each in its own share of the envs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import Field, field_validator

from sensorium._arguments import checked
from sensorium.errors import OptionError
from sensorium.options import Options, checked_integer
from sensorium.robots import Robot, make
from sensorium.suites import SensorSuite, merge
from sensorium.tasks import hook_results
from sensorium.tasks.checks import check_names, checked_seed
from sensorium.tasks.config import TaskConfig
from sensorium.tasks.protocols import EntityLike
from sensorium.tasks.task import Task

_COMMON = ("robot", "n_envs", "seed", "use_sensors", "autoreset", "keep_history", "keep_images")
"""Options of the multi task itself, which a sub-task cannot override."""


class SubTask(Options):
    """Options of one of the tasks of a :class:`MultiTask`."""

    name: str
    """Name of the task, one of ``sn.tasks.names()``."""
    options: dict[str, Any] = {}
    """Options of this task only, for example ``{"lift": 0.15}``."""

    @field_validator("options")
    @classmethod
    def _check_options(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if name in _COMMON:
                raise ValueError(f"{name} must be the same for all tasks; pass it to the multi task itself")
        return value


class MultiTaskConfig(TaskConfig):
    """Options of :class:`MultiTask`.

    Options of :class:`TaskConfig` that are set hold for each of its tasks. For those that are not set, each task has
    its own default.
    """

    tasks: tuple[SubTask, ...] = Field(default=(SubTask(name="pick"), SubTask(name="pick_and_place")), min_length=1)
    """The tasks: names, or ``{"name": ..., "options": {...}}``."""

    @field_validator("tasks", mode="before")
    @classmethod
    def _from_names(cls, value: object) -> object:
        if isinstance(value, str) or not hasattr(value, "__iter__"):
            return value
        return tuple({"name": each} if isinstance(each, str) else each for each in value)


class MultiTask(Task[MultiTaskConfig]):
    """Several tasks with one robot, one observation space and one action space.

    Env i always runs task i mod n. Each task has its own scene with its share of the envs, and their observations are
    merged. Observations that the task of an env does not have are zeros there, or ``{}``. ``task_info`` names the task.
    There is no common scene: use ``tasks[k].scene``.

    Each task has its own seed, which depends only on the seed and the position of the task.

    Attributes:
        tasks: the tasks.
        envs_of: ids of the envs of each task.

    Example:
        >>> task = sn.tasks.make("multi", tasks=("pick", "pick_and_place"), n_envs=8)
        >>> task.envs_of[1], task.tasks[1].name
        (array([1, 3, 5, 7]), 'pick_and_place')
    """

    name = "multi"
    config_type = MultiTaskConfig

    @checked
    def __init__(self, config: MultiTaskConfig, robot: Robot | None = None, entity: EntityLike | None = None) -> None:
        if entity is not None:
            raise OptionError(
                "the task 'multi' has one scene per task, and an entity has one body in one scene; make each task with "
                "an entity of its own: sn.tasks.make('pick', entity=...)"
            )
        from sensorium.tasks.catalogue import TASKS  # the catalogue imports this module

        self.config = config
        self.n_envs = config.n_envs
        count = len(config.tasks)
        known = {name: cls for name, cls in TASKS.items() if name != self.name}
        check_names("task", [part.name for part in config.tasks], known)
        if self.n_envs < count:
            raise OptionError(f"n_envs must be >= {count}, the number of tasks, got {self.n_envs}")
        model = make(config.robot) if robot is None else robot
        shared = {name: getattr(config, name) for name in config.model_fields_set - {"tasks", *_COMMON}}
        self.envs_of = [np.arange(number, self.n_envs, count) for number in range(count)]
        self.tasks: list[Task[Any]] = []
        for number, (part, envs) in enumerate(zip(config.tasks, self.envs_of, strict=True)):
            cls = known[part.name]
            options = cls.config_type(
                **shared | part.options,
                robot=config.robot,
                n_envs=len(envs),
                seed=_task_seed(config.seed, number),
                use_sensors=config.use_sensors,
                keep_history=False,
            )
            self.tasks.append(cls(options, type(model)(model.options)))
        durations = {task.config.dt for task in self.tasks}
        if len(durations) > 1:
            raise OptionError(
                f"all tasks must have the same dt, and these have {sorted(durations)} s; set dt, which holds for all"
            )
        self.robot = self.tasks[0].robot
        self.cameras = self.tasks[0].cameras
        self._init_episodes()
        self.suite = None
        if config.use_sensors:
            parts = [(task.suite.values(), envs) for task, envs in self._shares() if task.suite is not None]
            self.suite = SensorSuite(self.n_envs, merge(parts, self.n_envs), f"task {self.name!r}")

    def _shares(self) -> list[tuple[Task[Any], np.ndarray]]:
        return list(zip(self.tasks, self.envs_of, strict=True))

    def reseed(self, seed: int) -> None:
        self.seed = checked_seed(seed)
        for number, task in enumerate(self.tasks):
            task.reseed(_task_seed(self.seed, number))
        self.episode[:] = -1

    def set_sensor_step(self, step: int) -> None:
        checked_integer("step", step)  # before any of the tasks changes
        for task in self.tasks:
            task.set_sensor_step(step)

    def _reset(self, ids: np.ndarray, numbers: Sequence[int] | None = None) -> None:
        for task, envs in self._shares():
            own = np.flatnonzero(np.isin(envs, ids)).astype(np.int32)
            if len(own):
                places = np.searchsorted(ids, envs[own])
                task._reset(own, None if numbers is None else [numbers[place] for place in places])
        self._copy_episode_state()
        if self.suite is not None:
            self.suite.reset(ids)
        if self.policy is not None:
            self.policy.reset(ids)

    def _advance(self, command: np.ndarray, acting: np.ndarray) -> dict[int, str]:
        failed: dict[int, str] = {}
        for task, envs in self._shares():
            if acting[envs].any():
                diverged = task._advance(command[envs], acting[envs])
                failed |= {int(envs[env]): text for env, text in diverged.items()}
        self._copy_episode_state()
        return failed

    def _copy_episode_state(self) -> None:
        """Copy the episode state of the tasks to that of the whole."""
        for task, envs in self._shares():
            for name in ("terminated", "truncated", "succeeded", "step_count", "episode"):
                getattr(self, name)[envs] = getattr(task, name)

    def _hold(self, ids: np.ndarray) -> None:
        for task, envs in self._shares():
            own = np.flatnonzero(np.isin(envs, ids)).astype(np.int32)
            if len(own):
                task._hold(own)

    def _sum_rewards(self) -> np.ndarray:
        total = np.zeros(self.n_envs)
        self.reward_terms = {}
        for task, envs in self._shares():
            total[envs] = task._sum_rewards()
            for name, value in task.reward_terms.items():
                self.reward_terms.setdefault(name, np.zeros(self.n_envs))[envs] = value
        return total

    def describe_env(self, env: int) -> dict[str, Any]:
        """Return the description of an env by its task, with the name of that task."""
        own, number = divmod(checked_integer("env", env, 0, self.n_envs - 1), len(self.tasks))
        return {"task": self.tasks[number].name, **hook_results.description_of(self.tasks[number], own)}

    def describe_scene(self, env: int) -> dict[str, Any]:
        """Return the description of one env in the scene of its task."""
        own, number = divmod(checked_integer("env", env, 0, self.n_envs - 1), len(self.tasks))
        return self.tasks[number].describe_scene(own)

    def body_poses(self, bodies: np.ndarray) -> np.ndarray:
        """Raise OptionError: ids of links differ from scene to scene."""
        raise OptionError(
            "'multi' has one scene per task: use task.tasks[k].body_poses(ids), whose envs are envs_of[k]"
        )

    def render(self, env: int = 0) -> np.ndarray:
        """Return an image of one env in the scene of its task, (480, 640, 3) uint8."""
        own, number = divmod(checked_integer("env", env, 0, self.n_envs - 1), len(self.tasks))
        return self.tasks[number].render(own)

    def close(self) -> None:
        """Free the scenes."""
        for task in self.tasks:
            task.close()


def _task_seed(seed: int, number: int) -> int:
    """Return the seed of task ``number``."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
