"""What a task must know of a policy, and of an entity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces

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

    rate: float | None
    """Decisions per second; None for one in every step."""
    observation_space: spaces.Dict
    """Of one env."""
    action_space: spaces.Box
    """Of one env."""

    def make_robot(self) -> Robot:
        """Its body, for a scene."""

    def bind(self, robot: Robot, n_envs: int) -> SensorSuite:
        """Sense with that body, which is in a scene that was built."""

    def choose(
        self, observation: Mapping[str, Any], due: np.ndarray, deterministic: bool = False, remember: bool = True
    ) -> np.ndarray:
        """Actions (B, n): decided now in the envs that are due, (B,) bool."""

    def experience(
        self,
        reward: np.ndarray,
        observation: Mapping[str, Any],
        terminated: np.ndarray,
        truncated: np.ndarray,
        due: np.ndarray,
    ) -> None:
        """What came of a step, and in which envs it decides now."""

    def interrupt(self, envs: Envs = None) -> None:
        """Episodes of some envs begin anew before they ended."""
