"""Tasks by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

from sensorium.errors import OptionError
from sensorium.robots import Robot
from sensorium.tasks.acting import Embodied
from sensorium.tasks.balance import Balance
from sensorium.tasks.door_opening import DoorOpening
from sensorium.tasks.multi import MultiTask
from sensorium.tasks.nav import NavToObj
from sensorium.tasks.objects import look_up
from sensorium.tasks.opening import Opening
from sensorium.tasks.pick import Pick
from sensorium.tasks.pick_and_place import PickAndPlace
from sensorium.tasks.reach import Reach
from sensorium.tasks.shared import SharedTask, period_of
from sensorium.tasks.task import Task

_ALL: tuple[type[Task[Any]], ...] = (Pick, PickAndPlace, Opening, DoorOpening, NavToObj, MultiTask, Balance, Reach)
TASKS: dict[str, type[Task[Any]]] = {each.name: each for each in _ALL}
"""The tasks, by name."""
VIEWS: dict[str, dict[str, Any]] = {
    "front": {"pos": (1.5, 0.0, 1.1), "lookat": (0.4, 0.0, 0.5)},
    "side": {"pos": (0.6, 1.3, 1.0), "lookat": (0.4, 0.0, 0.5)},
    "wrist": {"link": "hand", "pos": (0.07, 0.0, 0.02), "lookat": (0.03, 0.0, 0.2)},
}
"""Where cameras may stand, by name."""


def names() -> list[str]:
    """Names of the tasks."""
    return list(TASKS)


def find(name: str) -> type[Task[Any]]:
    """The class of a task."""
    look_up("task", [name], TASKS)
    return TASKS[name]


@overload
def make(name: str, *, entities: Mapping[str, Embodied], spacing: float = 1.0, **options: Any) -> SharedTask: ...
@overload
def make(
    name: str, robot: str | Robot | None = None, *, entity: Embodied | None = None, **options: Any
) -> Task[Any]: ...
def make(
    name: str,
    robot: str | Robot | None = None,
    *,
    entity: Embodied | None = None,
    entities: Mapping[str, Embodied] | None = None,
    spacing: float = 1.0,
    **options: Any,
) -> Task[Any] | SharedTask:
    """A task, ready to be reset.

    Args:
        name: which: "pick", "pick_and_place", ...; see :func:`names`.
        robot: a name of ``sn.robots.names()``, or a robot of your own with move groups. Default: the task's own.
        entity: who acts (a ``TrainableEntity``), instead of a robot: what it senses is all that is observed.
        entities: several of them, by name, in one scene: see :class:`sensorium.tasks.SharedTask`.
        spacing: of several entities: metres from one to the next.
        **options: of the task, as ``n_envs``, ``seed``, ``max_steps``, ``cameras``; see the task's ``config_type``.

    Example:
        >>> task = sn.tasks.make("pick", robot="franka", n_envs=4, seed=0)
    """
    cls = find(name)
    if entities is not None:
        if robot is not None or entity is not None:
            raise OptionError("entities bring their robots along; leave robot and entity out")
        return SharedTask(cls, cls.config_type(**options), entities, spacing)
    if entity is not None:
        if robot is not None:
            raise OptionError("an entity brings its robot along; leave robot out")
        if not hasattr(entity, "make_robot"):
            raise OptionError(f"entity must be a TrainableEntity, got {entity!r}; a robot is given as robot=...")
        body = entity.make_robot()
        # what it lives through is for its memory: a history grows as long as envs are reset one by one
        config = cls.config_type(robot=body.options.kind or "own", **{"keep_history": False, **options})
        if period_of("entity", entity, config.dt) != 1:
            raise OptionError(
                f"the entity decides {entity.rate:g} times per second, and a step of the task takes {config.dt:g} s: "
                f"make it with dt={1 / (entity.rate or 1):g}, or as entities={{'name': entity}}, which holds actions"
            )
        return cls(config, body, entity)
    if isinstance(robot, Robot):
        return cls(cls.config_type(robot=robot.options.kind or "own", **options), robot)
    return cls(cls.config_type(**options) if robot is None else cls.config_type(robot=robot, **options))


def default_robot(name: str) -> str:
    """The robot that a task takes where none is named."""
    return str(find(name).config_type.model_fields["robot"].default)


def views_named(names: Sequence[str], resolution: tuple[int, int], depth: bool = False) -> list[dict[str, Any]]:
    """Options of cameras at places that suit the tasks at a table."""
    look_up("view", names, VIEWS)
    return [{"name": view, **VIEWS[view], "resolution": resolution, "depth": depth} for view in names]
