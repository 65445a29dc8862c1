"""``Brain``: the interface of the policy of an entity, and of one that learns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from gymnasium import spaces

from sensorium.entities.experience_layout import Transitions
from sensorium.entities.nesting import Rows
from sensorium.errors import OptionError, did_you_mean, shorten


class Brain(Protocol):
    """The policy of an entity.

    It is made from the observation and action spaces and receives only arrays: observations by uuid, nested as the
    space is. In a tensor task it receives tensors on the task's device, and may return tensors.

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

    def decide(self, observation: Mapping[str, Any], deterministic: bool = False) -> Rows:
        """Return the action (n,) for the observation of one env."""

    def decide_batch(self, observation: Mapping[str, Any], deterministic: bool = False) -> Rows:
        """Return the actions (B, n) for the observations of B envs."""


class TransitionSource(Protocol):
    """A source of batches of transitions: :class:`Memory` or :class:`VectorizedClusterBuffer`."""

    def sample(self, batch_size: int) -> Transitions:
        """Return a batch of random transitions."""


class LearningBrain(Brain, Protocol):
    """A brain that learns from a memory and can be saved."""

    def observe(self, observation: Mapping[str, Any]) -> None:
        """Update statistics (for example for normalisation) with the observations of B envs.

        It is called once per step, before ``decide_batch``.
        """

    def learn(self, memory: TransitionSource, gradient_steps: int) -> dict[str, float]:
        """Take gradient steps on batches of a memory, and return values to log."""

    def save(self, folder: str | Path) -> None:
        """Write the brain to a folder."""

    def restore(self, folder: str | Path) -> None:
        """Restore a saved brain: the same weights, and the same random numbers from then on."""


def required_brain(brain: Brain | None) -> Brain:
    """Return the brain of an entity.

    Raises:
        OptionError: it has none.
    """
    if brain is None:
        raise OptionError("the entity has no brain: give it one, for example brain=sn.SACMLPBrain")
    return brain


def with_device(brain: Callable[..., Brain], options: Mapping[str, Any], device: torch.device) -> dict[str, Any]:
    """Return the options of a brain, with a device if it has that option and none is given."""
    has_device = "device" in inspect.signature(brain).parameters
    return {"device": str(device), **options} if has_device else dict(options)


def make_brain(
    brain: Callable[..., Brain], observation_space: spaces.Dict, action_space: spaces.Box, options: Mapping[str, Any]
) -> Brain:
    """Return a new brain for these spaces of one env.

    Raises:
        OptionError: ``brain`` returns something else.
    """
    made = brain(observation_space, action_space, **options)
    if not callable(getattr(made, "decide_batch", None)):
        name = getattr(brain, "__name__", brain)
        raise OptionError(f"brain {name} must make an object with the method decide_batch(), got {made!r:.80}")
    return made


def check_brain(brain: object, options: Mapping[str, Any]) -> None:
    """Check that a brain accepts its options.

    Args:
        brain: function or class that makes the brain from (observation space, action space, **options), or None.
        options: the options.

    Raises:
        OptionError: ``brain`` is not callable, or does not have an option.
    """
    if brain is None:
        if options:
            raise OptionError(f"brain_options need a brain, and brain is None; got {shorten(options)}")
        return
    if not callable(brain):
        raise OptionError(
            f"brain must be a class or function that makes a brain, such as sn.SACMLPBrain; got {brain!r}"
        )
    known = inspect.signature(brain).parameters
    if any(each.kind == each.VAR_KEYWORD for each in known.values()):
        return
    names = list(known)[2:]
    for name in options:
        if name not in names:
            hint = did_you_mean(name, names) or f"; it has {shorten(names)}"
            raise OptionError(f"brain {getattr(brain, '__name__', brain)} has no option {name!r}{hint}")
