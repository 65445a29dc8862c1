"""Tasks by name."""

from __future__ import annotations

from typing import Any

from sensorium.robots import Robot
from sensorium.tasks.multi import MultiTask
from sensorium.tasks.nav import NavToObj
from sensorium.tasks.objects import look_up
from sensorium.tasks.pick import Pick
from sensorium.tasks.pick_and_place import PickAndPlace
from sensorium.tasks.task import Task

TASKS: dict[str, type[Task[Any]]] = {each.name: each for each in (Pick, PickAndPlace, NavToObj, MultiTask)}
"""The tasks, by name."""


def names() -> list[str]:
    """Names of the tasks."""
    return list(TASKS)


def make(name: str, robot: str | Robot | None = None, **options: Any) -> Task[Any]:
    """A task, ready to be reset.

    Args:
        name: which: "pick", "pick_and_place", ...; see :func:`names`.
        robot: a name of ``sn.robots.names()``, or a robot of your own with move groups. Default: the task's own.
        **options: of the task, as ``n_envs``, ``seed``, ``max_steps``, ``cameras``; see the task's ``config_type``.

    Example:
        >>> task = sn.tasks.make("pick", robot="franka", n_envs=4, seed=0)
    """
    look_up("task", [name], TASKS)
    cls = TASKS[name]
    if isinstance(robot, Robot):
        return cls(cls.config_type(robot="own", **options), robot)
    return cls(cls.config_type(**options) if robot is None else cls.config_type(robot=robot, **options))
