"""MultiTask: several tasks as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import Field, field_validator

from sensorium.errors import OptionError
from sensorium.options import Options
from sensorium.robots import Robot, make
from sensorium.suites import SensorSuite, merge
from sensorium.tasks.checks import checked_seed
from sensorium.tasks.config import TaskConfig
from sensorium.tasks.objects import look_up
from sensorium.tasks.task import Task

_OWN = ("robot", "n_envs", "seed", "use_sensors", "autoreset", "keep_history", "keep_images")
"""Options that are given once, for all."""


class SubTask(Options):
    """One of the tasks of a :class:`MultiTask`."""

    name: str
    """Which: a name of ``sn.tasks.names()``."""
    options: dict[str, Any] = {}
    """Its own options, as ``{"lift": 0.15}``."""

    @field_validator("options")
    @classmethod
    def _own(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if name in _OWN:
                raise ValueError(f"{name} is one for all tasks; give it to the multi task itself")
        return value


class MultiTaskConfig(TaskConfig):
    """Options of :class:`MultiTask`. Those of all tasks, where given, hold for each of its tasks; else each has its own
    defaults."""

    tasks: tuple[SubTask, ...] = Field(default=(SubTask(name="pick"), SubTask(name="pick_and_place")), min_length=1)
    """What is to be done: names of tasks, or ``{"name": ..., "options": {...}}``."""

    @field_validator("tasks", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        if isinstance(value, str) or not hasattr(value, "__iter__"):
            return value
        return tuple({"name": each} if isinstance(each, str) else each for each in value)


class MultiTask(Task[MultiTaskConfig]):
    """Several tasks with one robot, one observation space and one action space.

    Env i does task i mod n, always: each task has a scene of its own, with its share of the envs, and what they observe
    is put together. What an env's task does not observe is zeros there, or ``{}``; ``task_info`` says which task it is.
    There is no scene of the whole: see ``tasks[k].scene``.

    What the tasks draw comes from seeds of their own, which depend on the seed and the number of the task alone.

    Attributes:
        tasks: the tasks, each of its own envs.
        envs_of: of each, which envs those are.

    Example:
        >>> task = sn.tasks.make("multi", tasks=("pick", "pick_and_place"), n_envs=8)
        >>> task.envs_of[1], task.tasks[1].name
        (array([1, 3, 5, 7]), 'pick_and_place')
    """

    name = "multi"
    config_type = MultiTaskConfig

    def __init__(self, config: MultiTaskConfig, robot: Robot | None = None) -> None:
        from sensorium.tasks.catalogue import TASKS  # which has this task too

        self.config = config
        self.n_envs = config.n_envs
        count = len(config.tasks)
        known = {name: cls for name, cls in TASKS.items() if name != self.name}
        look_up("task", [part.name for part in config.tasks], known)
        if self.n_envs < count:
            raise OptionError(f"n_envs must be at least {count}, one for each of the tasks, got {self.n_envs}")
        model = make(config.robot) if robot is None else robot
        shared = {name: getattr(config, name) for name in config.model_fields_set - {"tasks", *_OWN}}
        self.envs_of = [np.arange(number, self.n_envs, count) for number in range(count)]
        self.tasks: list[Task[Any]] = []
        for number, (part, envs) in enumerate(zip(config.tasks, self.envs_of, strict=True)):
            cls = known[part.name]
            sub = cls.config_type(
                **shared | part.options,
                robot=config.robot,
                n_envs=len(envs),
                seed=_seed(config.seed, number),
                use_sensors=config.use_sensors,
                keep_history=False,
            )
            self.tasks.append(cls(sub, type(model)(model.options)))
        spans = {task.config.dt for task in self.tasks}
        if len(spans) > 1:
            raise OptionError(f"the tasks have steps of {sorted(spans)} s: give dt, which holds for all of them")
        self.robot = self.tasks[0].robot
        self.cameras = self.tasks[0].cameras
        self._start_episodes()
        self.suite = None
        if config.use_sensors:
            parts = [(task.suite.values(), envs) for task, envs in self._shares() if task.suite is not None]
            self.suite = SensorSuite(self.n_envs, merge(parts, self.n_envs), f"task {self.name!r}")

    def _shares(self) -> list[tuple[Task[Any], np.ndarray]]:
        return list(zip(self.tasks, self.envs_of, strict=True))

    def reseed(self, seed: int) -> None:
        self.seed = checked_seed(seed)
        for number, task in enumerate(self.tasks):
            task.reseed(_seed(self.seed, number))
        self.episode[:] = -1

    def set_sensor_step(self, step: int) -> None:
        for task in self.tasks:
            task.set_sensor_step(step)

    def _reset(self, ids: np.ndarray, numbers: Sequence[int] | None = None) -> None:
        for task, envs in self._shares():
            own = np.flatnonzero(np.isin(envs, ids)).astype(np.int32)
            if len(own):
                places = np.searchsorted(ids, envs[own])
                task._reset(own, None if numbers is None else [numbers[place] for place in places])
        self._mirror()
        if self.suite is not None:
            self.suite.reset(ids)
        if self.policy is not None:
            self.policy.reset(ids)

    def _advance(self, told: np.ndarray, acting: np.ndarray) -> dict[int, str]:
        failed: dict[int, str] = {}
        for task, envs in self._shares():
            if acting[envs].any():
                broken = task._advance(told[envs], acting[envs])
                failed |= {int(envs[env]): text for env, text in broken.items()}
        self._mirror()
        return failed

    def _mirror(self) -> None:
        """Take over how far the tasks are."""
        for task, envs in self._shares():
            for name in ("terminated", "truncated", "succeeded", "step_count", "episode"):
                getattr(self, name)[envs] = getattr(task, name)

    def _hold(self, ids: np.ndarray) -> None:
        for task, envs in self._shares():
            own = np.flatnonzero(np.isin(envs, ids)).astype(np.int32)
            if len(own):
                task._hold(own)

    def _reward(self) -> np.ndarray:
        reward = np.zeros(self.n_envs, np.float32)
        for task, envs in self._shares():
            reward[envs] = task._reward()
        return reward

    def describe_env(self, env: int) -> dict[str, Any]:
        """What its task says of an env, and which it is."""
        own, number = divmod(env, len(self.tasks))
        return {"task": self.tasks[number].name, **self.tasks[number].describe_env(own)}

    def describe_scene(self, env: int) -> dict[str, Any]:
        """What there is in one env, in the scene of its task."""
        own, number = divmod(env, len(self.tasks))
        return self.tasks[number].describe_scene(own)

    def render(self, env: int = 0) -> np.ndarray:
        """A picture of one env, in the scene of its task."""
        own, number = divmod(env, len(self.tasks))
        return self.tasks[number].render(own)

    def close(self) -> None:
        """Free the scenes."""
        for task in self.tasks:
            task.close()


def _seed(seed: int, number: int) -> int:
    """The seed of one of the tasks."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
