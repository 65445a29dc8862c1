"""The interfaces of policies and entities that tasks use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import torch
from gymnasium import spaces

from sensorium.robots import Robot
from sensorium.suites import ObservationSensor, SensorSuite
from sensorium.worlds import Envs


class PolicyLike(Protocol):
    """A policy as a task sees it; see :class:`sensorium.policies.Policy`."""

    def reset(self, envs: Envs = None) -> None:
        """Handle the start of an episode in some envs."""

    def create_policy_sensors(self) -> list[ObservationSensor]:
        """Return the sensors that the policy contributes to the suite."""


class EntityLike(Protocol):
    """An entity as a task sees it; see :class:`sensorium.entities.TrainableEntity`."""

    rate: float | None
    """Decisions per second; None for one in every step."""
    observation_space: spaces.Dict
    """Space of one env's observation."""
    action_space: spaces.Box
    """Space of one env's action."""

    def make_robot(self) -> Robot:
        """Return the body of the entity, to be added to a scene."""

    def bind(self, robot: Robot, n_envs: int) -> SensorSuite:
        """Connect the entity to its body in a built scene, and return its suite."""

    def prepare_tensors(
        self,
        robot: Robot,
        n_envs: int,
        observation_space: spaces.Dict,
        action_space: spaces.Box,
        device: torch.device,
        read: Callable[[], Mapping[str, Any]],
    ) -> Callable[[], None]:
        """Return a function that connects the entity to its body in a tensor task, with the task's spaces and a
        function that observes."""

    @property
    def sensors(self) -> tuple[list[str], list[str]]:
        """Names of its own sensors, and of those whose ground truth is for critics and teachers."""

    def choose(
        self,
        observation: Mapping[str, Any],
        due: np.ndarray | None = None,
        deterministic: bool = False,
        remember: bool = True,
    ) -> np.ndarray | torch.Tensor:
        """Return actions (B, n), with new decisions in the envs of the mask ``due`` (B,)."""

    def experience(
        self,
        reward: np.ndarray,
        observation: Mapping[str, Any],
        terminated: np.ndarray,
        truncated: np.ndarray,
        due: np.ndarray | None = None,
    ) -> None:
        """Store the result of a step; ``due`` (B,) are the envs in which the entity decides next."""

    def interrupt(self, envs: Envs = None) -> None:
        """Discard the open transitions of envs whose episodes are reset before they ended."""
