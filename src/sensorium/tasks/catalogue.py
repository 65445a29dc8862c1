"""Tasks by name: ``make``, and the camera views of the tasks at a table."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, overload

from sensorium._arguments import checked
from sensorium.errors import OptionError
from sensorium.robots import Robot
from sensorium.tasks.balance import Balance
from sensorium.tasks.checks import check_names, checked_class
from sensorium.tasks.door_opening import DoorOpening
from sensorium.tasks.multi import MultiTask
from sensorium.tasks.nav import NavToObj
from sensorium.tasks.opening import Opening
from sensorium.tasks.pick import Pick
from sensorium.tasks.pick_and_place import PickAndPlace
from sensorium.tasks.protocols import EntityLike
from sensorium.tasks.reach import Reach
from sensorium.tasks.shared_task import SharedTask
from sensorium.tasks.task import Task
from sensorium.tasks.tensor import Lift, SharedTensorTask, TensorBalance, TensorReach, TensorTask, Walk
from sensorium.tasks.tensor.entity_body import check_options, check_rate, without_cameras

_ALL: tuple[type[Task[Any]], ...] = (Pick, PickAndPlace, Opening, DoorOpening, NavToObj, MultiTask, Balance, Reach)
TASKS: dict[str, type[Task[Any]]] = {each.name: each for each in _ALL}
"""Task classes, by name."""
_TENSOR: tuple[type[TensorTask[Any]], ...] = (Walk, TensorBalance, TensorReach, Lift)
TENSOR_TASKS: dict[str, type[TensorTask[Any]]] = {each.name: each for each in _TENSOR}
"""Classes of tasks that run on the CPU or on a GPU, by name. Names that are in :data:`TASKS`, too, are tensor tasks if
``device`` is given to :func:`make`."""
CAMERA_VIEWS: dict[str, dict[str, Any]] = {
    "front": {"pos": (1.18, 0.36, 1.38), "lookat": (0.28, 0.0, 0.64)},
    "side": {"pos": (0.6, 1.3, 1.0), "lookat": (0.4, 0.0, 0.5)},
    "wrist": {"link": "hand", "pos": (0.07, 0.0, 0.02), "lookat": (0.03, 0.0, 0.2)},
}
"""Camera poses that suit the tasks at a table, by name."""


def names() -> list[str]:
    """Return the names of the tasks."""
    return list(dict.fromkeys((*TASKS, *TENSOR_TASKS)))


def find(name: str) -> type[Task[Any]]:
    """Return the class of a task.

    Raises:
        NameNotFoundError: there is no task of that name.
    """
    check_names("task", [name], names())
    if name not in TASKS:
        raise OptionError(f"the task {name!r} is a tensor task, which has no planner")
    return TASKS[name]


def is_tensor_task(name: str, options: Container[str]) -> bool:
    """Return whether :func:`make` makes a tensor task, given the name and the options."""
    return name in TENSOR_TASKS and (name not in TASKS or "device" in options)


@overload
def make(
    name: str, *, entities: Mapping[str, EntityLike], spacing: float = 1.0, device: str, **options: Any
) -> SharedTensorTask: ...
@overload
def make(name: str, *, entities: Mapping[str, EntityLike], spacing: float = 1.0, **options: Any) -> SharedTask: ...
@overload
def make(
    name: str, robot: str | Robot | None = None, *, entity: EntityLike | None = None, **options: Any
) -> Task[Any]: ...
def make(
    name: str,
    robot: str | Robot | None = None,
    *,
    entity: EntityLike | None = None,
    entities: Mapping[str, EntityLike] | None = None,
    spacing: float = 1.0,
    **options: Any,
) -> Task[Any] | TensorTask[Any] | SharedTask | SharedTensorTask:
    """Make a task. Call ``reset()`` before the first step.

    Args:
        name: name of the task: "pick", "pick_and_place", ...; see :func:`names`.
        robot: a name of ``sn.robots.names()``, or a robot object with move groups. Default: the task's own robot.
        entity: a ``TrainableEntity`` that acts instead of a robot. Its own sensors are the only observations; a tensor
            task adds what it observes itself, such as a command.
        entities: several entities by name, in one scene; see :class:`sensorium.tasks.SharedTask`, and
            :class:`sensorium.tasks.SharedTensorTask` for "walk", and "balance" with ``device``.
        spacing: distance between neighbouring entities, m.
        **options: options of the task, for example ``n_envs``, ``seed``, ``max_steps``, ``cameras``; see the task's
            ``config_type``. With ``device`` ("cpu", "cuda", ...), tasks that have both forms, "balance" and "reach",
            are tensor tasks.

    Raises:
        NameNotFoundError: there is no task or robot of that name.
        OptionError: an option is unknown or cannot be used, or a task of your own is entered under a name that is not
            that of its class.

    Example:
        >>> task = sn.tasks.make("pick", robot="franka", n_envs=4, seed=0)
        >>> tensors = sn.tasks.make("balance", n_envs=4096, device="cuda")
    """
    if not isinstance(name, str):
        raise OptionError(f"name must be the name of a task, got {name!r:.80}")
    if entities is None and (not isinstance(spacing, int | float) or spacing != 1.0):
        raise OptionError(f"spacing is the distance between several entities, got {spacing!r}; remove it")
    if entities is not None and (robot is not None or entity is not None):
        raise OptionError("entities have their own robots: do not pass robot or entity")
    if is_tensor_task(name, options):
        tensor_cls = checked_class("TENSOR_TASKS", name, TENSOR_TASKS[name], TensorTask)
        if "autoreset" in options:
            raise OptionError(
                f"autoreset: the task {name!r} on tensors begins new episodes by itself; remove the option, or set "
                "task.autoreset = False afterwards"
            )
        if entities is not None:
            return SharedTensorTask(tensor_cls, tensor_cls.config_type(**options), entities, spacing)
        if entity is not None:
            return _make_entity_task(tensor_cls, robot, entity, options)
        return _make_tensor_task(tensor_cls, robot, options)
    cls = checked_class("TASKS", name, find(name), Task)
    if str(options.pop("device", "cpu")) != "cpu":
        raise OptionError(
            f"device: the task {name!r} runs on the CPU only, since its planners and suite do; tasks that run on a GPU "
            f"are {', '.join(TENSOR_TASKS)}"
        )
    if entities is not None:
        return SharedTask(cls, cls.config_type(**options), entities, spacing)
    if entity is not None:
        body = _body_of(entity, robot)
        # An entity's steps are stored in its memory. A history would grow without bound while single envs are reset.
        config = cls.config_type(robot=body.options.kind or "own", **{"keep_history": False, **options})
        check_rate(
            entity, config.dt, otherwise=", or with entities={'name': entity}, which holds actions between decisions"
        )
        return cls(config, body, entity)
    if isinstance(robot, Robot):
        return cls(cls.config_type(robot=robot.options.kind or "own", **options), robot)
    return cls(cls.config_type(**options) if robot is None else cls.config_type(robot=robot, **options))


def _body_of(entity: EntityLike, robot: object) -> Robot:
    """Return the body of an entity that acts instead of a robot."""
    if robot is not None:
        raise OptionError("an entity has its own robot: do not pass robot")
    if not hasattr(entity, "make_robot"):
        raise OptionError(f"entity must be a TrainableEntity, got {entity!r}; pass a robot as robot=...")
    return entity.make_robot()


def _make_entity_task(
    cls: type[TensorTask[Any]], robot: object, entity: EntityLike, options: dict[str, Any]
) -> TensorTask[Any]:
    """Return a tensor task in which an entity acts."""
    body = without_cameras(_body_of(entity, robot))
    check_options(options)
    config = cls.config_type(robot=body.options.kind or "own", **options)
    check_rate(entity, config.dt)
    return cls(config, body, entity)


def _make_tensor_task(
    cls: type[TensorTask[Any]], robot: str | Robot | None, options: dict[str, Any]
) -> TensorTask[Any]:
    if isinstance(robot, Robot):
        return cls(cls.config_type(robot=robot.options.kind or "own", **options), robot)
    return cls(cls.config_type(**options) if robot is None else cls.config_type(robot=robot, **options))


@checked
def default_robot(name: str) -> str:
    """Return the name of a task's default robot."""
    options = TENSOR_TASKS[name].config_type if name in TENSOR_TASKS and name not in TASKS else find(name).config_type
    return str(options.model_fields["robot"].default)


@checked
def camera_views(names: Sequence[str], resolution: tuple[int, int], depth: bool = False) -> list[dict[str, Any]]:
    """Return camera options at named poses that suit the tasks at a table.

    Args:
        names: names of :data:`CAMERA_VIEWS`.
        resolution: width and height in pixels.
        depth: whether depth is observed too.

    Raises:
        NameNotFoundError: there is no view of that name.

    Example:
        >>> task = sn.tasks.make("pick", cameras=sn.tasks.camera_views(["front", "wrist"], (96, 64)))
    """
    check_names("camera view", names, CAMERA_VIEWS)
    return [{"name": view, **CAMERA_VIEWS[view], "resolution": resolution, "depth": depth} for view in names]
