"""``Brain``: what decides, and may learn."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces

from sensorium.errors import OptionError, did_you_mean, shorten


class Brain(Protocol):
    """A policy of any kind. It is made of spaces, and is handed arrays: observations by uuid, nested as the space is.

    Example:
        >>> class Still:
        ...     def __init__(self, observation_space, action_space):
        ...         self.shape = action_space.shape
        ...
        ...     def decide(self, observation, deterministic=False):
        ...         return np.zeros(self.shape)
        ...
        ...     def decide_batch(self, observation, deterministic=False):
        ...         return np.zeros((len(observation["imu"]["lin_acc"]), *self.shape))
    """

    def decide(self, observation: Mapping[str, Any], deterministic: bool = False) -> np.ndarray:
        """The action (n,) for what one env observes."""

    def decide_batch(self, observation: Mapping[str, Any], deterministic: bool = False) -> np.ndarray:
        """The actions (B, n) for what B envs observe."""


class LearningBrain(Brain, Protocol):
    """A brain that learns from a memory, and can be kept."""

    def observe(self, observation: Mapping[str, Any]) -> None:
        """Take notice of what B envs observe, to normalise by it, say. Called once a step, before ``decide_batch``."""

    def learn(self, memory: Any, gradient_steps: int) -> dict[str, float]:
        """Take steps of learning; returns what there is to log."""

    def save(self, folder: str | Path) -> None:
        """Write it to a folder."""

    def restore(self, folder: str | Path) -> None:
        """Be as the one that was written there: the same weights, and the same draws from now on."""


def check_brain(brain: Any, options: Mapping[str, Any]) -> None:
    """Whether a brain has the options that it is given."""
    if brain is None:
        if options:
            raise OptionError(f"brain_options are for a brain, and there is none; got {shorten(options)}")
        return
    if not callable(brain):
        raise OptionError(f"brain must make a brain from spaces, as sn.SACMLPBrain, got {brain!r}")
    known = inspect.signature(brain).parameters
    if any(each.kind == each.VAR_KEYWORD for each in known.values()):
        return
    names = list(known)[2:]
    for name in options:
        if name not in names:
            hint = did_you_mean(name, names) or f"; it has {shorten(names)}"
            raise OptionError(f"brain {getattr(brain, '__name__', brain)} has no option {name!r}{hint}")


def flat_space(space: spaces.Space[Any], name: str = "") -> dict[str, spaces.Box]:
    """Boxes of a space, however nested, by dotted names."""
    if isinstance(space, spaces.Dict):
        result: dict[str, spaces.Box] = {}
        for key, inner in space.spaces.items():
            result |= flat_space(inner, f"{name}.{key}" if name else key)
        return result
    if not isinstance(space, spaces.Box):
        raise TypeError(f"{name!r} is {space}, and a brain takes boxes alone")
    return {name: space}


def flat_observation(observation: Any, name: str = "") -> dict[str, np.ndarray]:
    """Arrays of an observation, by the same names."""
    if isinstance(observation, Mapping):
        result: dict[str, np.ndarray] = {}
        for key, inner in observation.items():
            result |= flat_observation(inner, f"{name}.{key}" if name else key)
        return result
    return {name: np.asarray(observation)}
