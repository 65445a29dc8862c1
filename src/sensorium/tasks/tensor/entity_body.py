"""The bodies of entities in tensor tasks, and the options that follow from an entity."""

from __future__ import annotations

from collections.abc import Iterable

from sensorium.errors import OptionError
from sensorium.robots import Robot
from sensorium.tasks import rig_cameras
from sensorium.tasks.protocols import EntityLike
from sensorium.tasks.shared_task import period_of

_OF_ENTITIES = {
    "rig": "its sensors",
    "observe": "its sensors, all of which it observes",
    "observe_cameras": "its sensors, without cameras",
    "ground_truth": "its sensors; give it privileged ones",
    "history": "its sensors; set their history_length",
}
"""Options of tensor tasks that an entity decides itself -> by what."""


def check_options(options: Iterable[str]) -> None:
    """Raise OptionError if one of the options that were given follows from the entity."""
    for name in options:
        if name in _OF_ENTITIES:
            raise OptionError(f"{name}: with an entity, this follows from {_OF_ENTITIES[name]}; remove {name}")


def without_cameras(body: Robot, name: str = "entity") -> Robot:
    """Return the body of an entity.

    Args:
        body: the body.
        name: name of the entity, for messages.

    Raises:
        OptionError: it has cameras.
    """
    if len(rig_cameras.choose_cameras(body, False).options.rig.sensors) < len(body.options.rig.sensors):
        raise OptionError(f"{name}: entities with cameras act in tasks on arrays only; remove its cameras")
    return body


def check_rate(entity: EntityLike, dt: float, name: str = "entity", otherwise: str = "") -> None:
    """Raise OptionError if an entity does not decide in every step.

    Args:
        entity: the entity.
        dt: duration of a step, s.
        name: its name, for messages.
        otherwise: what else could be done.
    """
    if period_of(name, entity, dt) != 1:
        raise OptionError(
            f"{name}: it decides {entity.rate:g} times per second, but a step of the task takes {dt:g} s; "
            f"make the task with dt={1 / (entity.rate or 1):g}{otherwise}"
        )
