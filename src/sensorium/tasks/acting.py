"""What a task must know of a policy."""

from __future__ import annotations

from typing import Protocol

from sensorium.suites import ObservationSensor
from sensorium.worlds import Envs


class Acting(Protocol):
    """Something that acts in a task: it is told of resets, and contributes sensors. See :mod:`sensorium.policies`."""

    def reset(self, envs: Envs = None) -> None:
        """Some envs have begun an episode."""

    def create_policy_sensors(self) -> list[ObservationSensor]:
        """What it contributes to the suite."""
