"""DoorOpening: open the door of a room."""

from __future__ import annotations

from sensorium.tasks.furniture import OPENABLE_PARTS, OpenablePart
from sensorium.tasks.opening import OpenPartConfig, OpenPartTask


class DoorOpeningConfig(OpenPartConfig):
    """Options of :class:`DoorOpening`."""


class DoorOpening(OpenPartTask[DoorOpeningConfig]):
    """Open the door of a room, 0.8 m wide and 15 kg, and release its handle.

    Example:
        >>> task = sn.tasks.make("door_opening", robot="mobile_franka", open_fraction=0.9)
    """

    name = "door_opening"
    config_type = DoorOpeningConfig
    pedestal = 0.55

    def _openable_parts(self) -> tuple[OpenablePart, ...]:
        return OPENABLE_PARTS["room_door"]
