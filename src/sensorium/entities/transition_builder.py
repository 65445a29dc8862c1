"""``TransitionBuilder``: the transitions of an entity from each decision to the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sensorium._arguments import as_array, checked
from sensorium.entities.argument_values import checked_mask
from sensorium.entities.memory_choice import AnyMemory
from sensorium.entities.nesting import Rows, flat_observation
from sensorium.errors import OptionError, shorten


class TransitionBuilder:
    """Fills a memory with the transitions of B envs, which may decide in different steps.

    A decision opens a transition of its env. The rewards of the following steps are summed. The env's next decision, or
    the end of its episode, completes the transition::

        step        0    1    2    3    4      an env that decides in every second step
        decision    a0        a1        a2
        reward      r0   r1   r2   r3
        stored      (o0, a0, r0 + r1, o2)  (o2, a1, r2 + r3, o4)

    A memory is written B transitions at a time: completed transitions wait until there are B, in the order in which
    they were completed.

    Args:
        memory: the memory to fill.
        n_envs: B. A :class:`Memory` has the same number.

    Raises:
        OptionError: the memory has another number of envs.
    """

    @checked
    def __init__(self, memory: AnyMemory, n_envs: int) -> None:
        self.memory, self.n_envs = memory, n_envs
        rows = getattr(memory, "n_envs", n_envs)
        if rows != n_envs:
            raise OptionError(f"n_envs must be that of the memory, {rows}, got {n_envs}")
        layout = memory.layout
        self._keys = layout.keys
        count = len(self._keys)
        # at most B - 1 transitions wait, and a step completes at most B
        self._waiting = [np.zeros((2 * rows, *field.shape), field.dtype) for field in layout.fields]
        self._n_waiting = 0
        first = [block[:rows] for block in self._waiting]
        self._block: dict[str, Any] = {
            "observation": dict(zip(self._keys, first[:count], strict=True)),
            "action": first[count],
            "reward": first[count + 1],
            "next_observation": dict(zip(self._keys, first[count + 2 : -2], strict=True)),
            "terminated": first[-2],
            "truncated": first[-1],
        }
        self._begun = [np.zeros((rows, *field.shape), field.dtype) for field in layout.fields[: count + 1]]
        self._shapes = [block.shape for block in self._begun[:-1]]
        self._reward = np.zeros(rows, np.float32)
        self._open = np.zeros(rows, bool)

    def begin(self, observation: Mapping[str, Any], action: np.ndarray, due: np.ndarray) -> None:
        """Open a transition in the envs that decide.

        Args:
            observation: of all B envs.
            action: (B, n).
            due: (B,) bool, the envs that decide.

        Raises:
            OptionError: the number of rows is not that of the memory's envs, or an observation does not fit.
        """
        due, action = checked_mask("due", due), as_array(action)
        self._check_rows(len(due))
        values = [*self._fitting(observation), action]
        if action.shape != self._begun[-1].shape:
            raise OptionError(f"action must have shape {self._begun[-1].shape}, got {action.shape}")
        try:
            for block, value in zip(self._begun, values, strict=True):
                block[due] = value[due]
        except (TypeError, ValueError) as error:  # they are no numbers
            self._open[due] = False
            raise OptionError(f"observations must be numbers: {error}") from error
        self._reward[due] = 0.0
        self._open |= due

    def add_step(
        self,
        reward: Rows,
        observation: Mapping[str, Any],
        terminated: Rows,
        truncated: Rows,
        due: np.ndarray | None = None,
    ) -> None:
        """Add the result of a step of all B envs, and store the transitions that it completes.

        Args:
            reward: (B,).
            observation: observation after the step; for episodes that ended in it, their last observation.
            terminated, truncated: (B,) bool.
            due: (B,) bool, the envs that decide next. Default: all.

        Raises:
            OptionError: a reward is not finite, the number of rows is not that of the memory's envs, or an observation
                does not fit. Nothing is stored.
        """
        reward = as_array(reward)
        if reward.ndim != 1 or reward.dtype.kind not in "fiub":
            raise OptionError(f"reward must be numbers of shape ({self.n_envs},), got {reward!r:.80}")
        self._check_rows(len(reward))
        if not np.isfinite(reward).all():
            raise OptionError(f"rewards must be finite, got {reward[~np.isfinite(reward)][0]}")
        terminated = checked_mask("terminated", terminated, self.n_envs)
        truncated = checked_mask("truncated", truncated, self.n_envs)
        if due is None:
            complete = self._open.copy()
        else:
            complete = self._open & (checked_mask("due", due, self.n_envs) | terminated | truncated)
        n_new = int(np.count_nonzero(complete))
        if not n_new:
            self._reward += reward
            return
        total = self._reward + reward
        values = (*self._begun, total, *self._fitting(observation), terminated, truncated)
        start, stop = self._n_waiting, self._n_waiting + n_new
        try:
            for block, value in zip(self._waiting, values, strict=True):
                block[start:stop] = value[complete]
        except (TypeError, ValueError) as error:
            raise OptionError(f"observations must be numbers: {error}") from error
        self._reward[:] = total
        self._open &= ~complete
        rows = self.n_envs
        if stop >= rows:
            self.memory.add(**self._block)
            stop -= rows
            for block in self._waiting:
                block[:stop] = block[rows : rows + stop]
        self._n_waiting = stop

    def discard(self, envs: np.ndarray | slice) -> None:
        """Discard the open transitions of envs whose episodes are reset."""
        self._open[envs] = False

    def _fitting(self, observation: Mapping[str, Any]) -> list[np.ndarray]:
        """Return the values of an observation in the order of the memory's fields.

        Raises:
            OptionError: one is missing, or has another shape.
        """
        flat = flat_observation(observation)
        try:
            values = [flat[key] for key in self._keys]
        except KeyError as error:
            raise OptionError(f"the observation lacks {error}; it has {shorten(flat)}") from None
        if [value.shape for value in values] != self._shapes:
            for key, value, shape in zip(self._keys, values, self._shapes, strict=True):
                if value.shape != shape:
                    raise OptionError(f"the observation {key!r} must have shape {shape}, got {value.shape}")
        return values

    def _check_rows(self, rows: int) -> None:
        if rows != self.n_envs:
            raise OptionError(
                f"the memory has {self.n_envs} envs, and the task has {rows}: pass remember=False, or call "
                f"start_memory(memory, n_envs={rows}), which deletes all transitions"
            )
