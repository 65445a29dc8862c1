"""What an entity lives through, as transitions from each decision to the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sensorium.entities.brain import flat_observation
from sensorium.entities.memory import Memory
from sensorium.errors import OptionError


class Experience:
    """Fills a memory with the transitions of B envs, which need not decide in the same steps.

    A decision opens a transition of its env; the rewards of the steps that follow are summed; the env's next decision,
    or the end of its episode, completes it:

    ```
    step        0    1    2    3    4      an env that decides in every second step
    decides     a0        a1        a2
    reward      r0   r1   r2   r3
    remembered  (o0, a0, r0 + r1, o2)  (o2, a1, r2 + r3, o4)
    ```

    A memory is written B transitions at a time: those that are complete wait until they are B, in the order in which
    they were completed.

    Args:
        memory: what to fill; its number of envs is B.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        layout, rows = memory.layout, memory.n_envs
        self._keys = layout.keys
        count = len(self._keys)
        # at most B - 1 wait, and at most B come in a step
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
        self._reward = np.zeros(rows, np.float32)
        self._open = np.zeros(rows, bool)

    def decided(self, observation: Mapping[str, Any], action: np.ndarray, due: np.ndarray) -> None:
        """The envs of the mask ``due`` (B,) have decided: their rows of the action (B, n) for what B envs observed."""
        flat = flat_observation(observation)
        self._check(len(action))
        for block, value in zip(self._begun, (*(flat[key] for key in self._keys), action), strict=True):
            block[due] = value[due]
        self._reward[due] = 0.0
        self._open |= due

    def followed(
        self,
        reward: np.ndarray,
        observation: Mapping[str, Any],
        terminated: np.ndarray,
        truncated: np.ndarray,
        due: np.ndarray,
    ) -> None:
        """What came of a step, of all B envs.

        Args:
            reward: (B,).
            observation: after the step; of episodes that ended in it, the last one.
            terminated, truncated: (B,) bool.
            due: (B,) bool, which envs decide now.
        """
        self._check(len(reward))
        if not np.isfinite(reward).all():
            raise OptionError(f"rewards must be finite, got {reward[~np.isfinite(reward)][0]}")
        self._reward += reward
        complete = self._open & (due | terminated | truncated)
        n_new = int(complete.sum())
        if not n_new:
            return
        flat = flat_observation(observation)
        values = (*self._begun, self._reward, *(flat[key] for key in self._keys), terminated, truncated)
        start, stop = self._n_waiting, self._n_waiting + n_new
        for block, value in zip(self._waiting, values, strict=True):
            block[start:stop] = value[complete]
        self._open &= ~complete
        rows = self.memory.n_envs
        if stop >= rows:
            self.memory.add(**self._block)
            stop -= rows
            for block in self._waiting:
                block[:stop] = block[rows : rows + stop]
        self._n_waiting = stop

    def interrupted(self, envs: np.ndarray | slice) -> None:
        """Episodes of some envs begin anew: what was under way in them is no transition."""
        self._open[envs] = False

    def _check(self, rows: int) -> None:
        if rows != self.memory.n_envs:
            raise OptionError(
                f"the memory is one of {self.memory.n_envs} envs, and these are {rows}: choose with remember=False, or "
                f"forget all by start_memory(capacity, n_envs={rows})"
            )
