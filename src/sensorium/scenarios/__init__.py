"""Scenarios that drive robots (random paths, random acceleration, keyboard, gamepad), rooms and occupancy maps."""

from sensorium.scenarios.catalogue import make, names, options_of
from sensorium.scenarios.gamepad import Gamepad, GamepadOptions
from sensorium.scenarios.keyboard import Keyboard, KeyboardOptions
from sensorium.scenarios.occupancy import OccupancyMap
from sensorium.scenarios.planning import PathPlanner
from sensorium.scenarios.random_acceleration import RandomAcceleration, RandomAccelerationOptions
from sensorium.scenarios.random_path import RandomPath, RandomPathOptions
from sensorium.scenarios.room import Room, RoomOptions
from sensorium.scenarios.scenario import Scenario

__all__ = [
    "Gamepad",
    "GamepadOptions",
    "Keyboard",
    "KeyboardOptions",
    "OccupancyMap",
    "PathPlanner",
    "RandomAcceleration",
    "RandomAccelerationOptions",
    "RandomPath",
    "RandomPathOptions",
    "Room",
    "RoomOptions",
    "Scenario",
    "make",
    "names",
    "options_of",
]
