"""Options of the soft actor-critic brain."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sensorium.options import Options


class SACOptions(Options):
    """Options of :class:`sensorium.entities.SACMLPBrain`."""

    seed: int = Field(default=0, ge=0, lt=2**32)
    """Seed of the networks, of exploration and of sampling."""
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(256, 256), min_length=1)
    """Units of the hidden layers."""
    layer_norm: bool = False
    """Whether hidden layers are normalised, which reduces overestimation by the critics in rarely seen states."""
    learning_rate: float = Field(default=3e-4, gt=0)
    """Learning rate of actor, critics and temperature."""
    gamma: float = Field(default=0.99, gt=0, le=1)
    """Discount factor per step."""
    tau: float = Field(default=0.005, gt=0, le=1)
    """Update rate of the target critics per gradient step."""
    batch_size: int = Field(default=256, ge=1)
    """Transitions per gradient step."""
    target_entropy: float | None = None
    """Target entropy of the policy, nats. Default: minus the number of actions."""
    privileged: tuple[str, ...] = ()
    """Patterns of keys of the observation space that only the critics receive, besides those of that purpose."""
