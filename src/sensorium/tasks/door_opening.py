"""DoorOpening: open a room's door."""

from __future__ import annotations

from sensorium.tasks.furniture import LEAVES, Leaf
from sensorium.tasks.opening import LeafConfig, LeafTask


class DoorOpeningConfig(LeafConfig):
    """Options of :class:`DoorOpening`."""


class DoorOpening(LeafTask[DoorOpeningConfig]):
    """Open a room's door, 0.8 m wide and 15 kg, and let go of its handle."""

    name = "door_opening"
    config_type = DoorOpeningConfig
    pedestal = 0.55

    def _leaves(self) -> tuple[Leaf, ...]:
        return LEAVES["room_door"]
