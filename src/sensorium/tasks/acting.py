"""What a task must know of a policy, and of an entity."""

from __future__ import annotations

from typing import Protocol

from sensorium.robots import Robot
from sensorium.suites import ObservationSensor, SensorSuite
from sensorium.worlds import Envs


class Acting(Protocol):
    """Something that acts in a task: it is told of resets, and contributes sensors. See :mod:`sensorium.policies`."""

    def reset(self, envs: Envs = None) -> None:
        """Some envs have begun an episode."""

    def create_policy_sensors(self) -> list[ObservationSensor]:
        """What it contributes to the suite."""


class Embodied(Protocol):
    """Something that has a body and senses of its own. See :mod:`sensorium.entities`."""

    def make_robot(self) -> Robot:
        """Its body, for a scene."""

    def bind(self, robot: Robot, n_envs: int) -> SensorSuite:
        """Sense with that body, which is in a scene that was built."""
