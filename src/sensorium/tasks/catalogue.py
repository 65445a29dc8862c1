"""Tasks by name."""

from __future__ import annotations

from typing import Any

from sensorium.errors import NameNotFoundError, did_you_mean, shorten
from sensorium.robots import Manipulator
from sensorium.tasks.door_opening import DoorOpening
from sensorium.tasks.opening import Opening
from sensorium.tasks.pick import Pick
from sensorium.tasks.pick_and_place import PickAndPlace
from sensorium.tasks.task import Task

TASKS: dict[str, type[Task[Any]]] = {each.name: each for each in (Pick, PickAndPlace, Opening, DoorOpening)}
"""The tasks, by name."""


def names() -> list[str]:
    """Names of the tasks."""
    return list(TASKS)


def make(name: str, robot: str | Manipulator = "franka", **options: Any) -> Task[Any]:
    """A task, ready to be reset.

    Args:
        name: which: "pick", "pick_and_place", ...; see :func:`names`.
        robot: a name of ``sn.robots.names()``, or a robot of your own with move groups.
        **options: of the task, as ``n_envs``, ``seed``, ``max_steps``, ``cameras``; see the task's ``config_type``.

    Example:
        >>> task = sn.tasks.make("pick", robot="franka", n_envs=4, seed=0)
    """
    if name not in TASKS:
        raise NameNotFoundError(
            f"there is no task {name!r}{did_you_mean(name, TASKS) or f'; there are {shorten(TASKS)}'}"
        )
    cls = TASKS[name]
    if isinstance(robot, str):
        return cls(cls.config_type(robot=robot, **options))
    return cls(cls.config_type(robot="own", **options), robot)
