"""``TensorTransitions``: the transitions of an entity in a tensor task, on its device."""

from __future__ import annotations

import numpy as np
import torch

from sensorium._arguments import checked
from sensorium.entities.memory_choice import AnyMemory
from sensorium.entities.nesting import NestedRows, Rows
from sensorium.errors import OptionError


class TensorTransitions:
    """Fills a memory with the transitions of B envs that decide in every step.

    A :class:`Memory` on the device of the task is filled without a copy to the host, and without waiting for the
    device. Rewards of tensors are checked by ``task.log``, not here.

    Args:
        memory: the memory to fill.
        n_envs: B.
    """

    @checked
    def __init__(self, memory: AnyMemory, n_envs: int) -> None:
        self.memory, self.n_envs = memory, n_envs
        self._begun: tuple[NestedRows, Rows] | None = None

    def begin(self, observation: NestedRows, action: Rows) -> None:
        """Open a transition in all envs, by observations and actions (B, ...) that later steps do not change."""
        if len(action) != self.n_envs:
            raise OptionError(
                f"the memory has {self.n_envs} envs, and the task has {len(action)}; call start_memory(), which makes "
                "an empty one, or do not remember these steps"
            )
        self._begun = observation, action

    def add_step(self, reward: Rows, observation: NestedRows, terminated: Rows, truncated: Rows) -> None:
        """Store the transitions that a step of all B envs completes.

        Args:
            reward: (B,).
            observation: observation after the step; for episodes that ended in it, their last observation.
            terminated, truncated: (B,) bool.
        """
        if self._begun is None:
            return
        with torch.no_grad():
            self.memory.add(*self._begun, reward, observation, terminated, truncated)
        self._begun = None

    def discard(self) -> None:
        """Discard the open transitions."""
        self._begun = None


def check_all_decide(name: str, due: np.ndarray | None) -> None:
    """Raise OptionError if a mask of the envs that decide is given for a tensor task, in which all do."""
    if due is not None:
        raise OptionError(f"{name} must be None in a tensor task, where entities decide in every step, got {due!r:.80}")
