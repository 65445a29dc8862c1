"""``EpisodeLog``: means over the episodes of a tensor task that ended, kept on the device."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from sensorium.errors import SensoriumError

LOGGED = ("episodes", "return", "length")
"""Names of what the log adds to rewards and metrics."""
REASON = "ended/"
"""Prefix of the reasons of failures."""


class EpisodeLog:
    """Sums of rewards and metrics of the running episodes, and their means over those that ended.

    Nothing is read from the device until :meth:`take`.

    Args:
        n_envs: number of envs, B.
        device: device of the tensors.
    """

    def __init__(self, n_envs: int, device: torch.device) -> None:
        self._device = device
        self._n_envs = n_envs
        self._names: list[str] = []
        self._n_terms = 0
        self._reasons: list[str] = []
        self._running = self._ended = self._why = self._first_bad = torch.zeros(0)

    def add(
        self,
        terms: Mapping[str, torch.Tensor],
        metrics: Mapping[str, torch.Tensor],
        failures: Mapping[str, torch.Tensor],
        reward: torch.Tensor,
        step_count: torch.Tensor,
        ended: torch.Tensor,
        diverged: torch.Tensor,
        over: torch.Tensor,
    ) -> None:
        """Add a step. Called in a captured function; the names are the same each time.

        Envs in which no episode runs, because the last one is ``over`` (B,) bool, are not counted.
        """
        values = {**terms, **metrics}
        if not self._names:
            self._n_terms = len(terms)
            self._allocate(list(values), [*failures, "diverged"])
        # the values of diverged envs are not meaningful
        rows = torch.where(diverged | over, 0.0, torch.stack([*values.values(), reward]))
        self._running.add_(rows)
        # the difference is NaN where a value is NaN or infinite: two kernels on a GPU, where isfinite() takes four
        new = (rows - rows != 0.0) & (self._first_bad < 0)
        torch.where(new, step_count, self._first_bad, out=self._first_bad)
        length = step_count.float()
        each = torch.cat((self._running[:-1] / length, self._running[-1:], length[None], torch.ones_like(length)[None]))
        self._ended.add_(torch.where(ended, each, 0.0).sum(dim=1))
        self._why.add_((torch.stack([*failures.values(), diverged]) & ~over).sum(dim=1))
        self._running.masked_fill_(ended, 0.0)

    @torch.inference_mode(False)  # otherwise the tensors could not be changed outside of a caller's inference mode
    def _allocate(self, names: list[str], reasons: list[str]) -> None:
        self._names, self._reasons = names, reasons
        self._running = torch.zeros(len(names) + 1, self._n_envs, device=self._device)
        # sums over episodes of each value, the return, the length, and the number of episodes
        self._ended = torch.zeros(len(names) + 3, device=self._device)
        self._why = torch.zeros(len(reasons), device=self._device)
        self._first_bad = torch.full((len(names) + 1, self._n_envs), -1, dtype=torch.int64, device=self._device)

    def take(self) -> dict[str, float]:
        """Return the means over the episodes that ended since the last call. Waits for the device.

        Returns:
            ``rewards and metrics`` per step by name, ``return``, ``length`` in steps, the number of ``episodes``, and
            for each reason of a failure ``ended/REASON``, the number of envs. Only ``episodes`` if none ended.

        Raises:
            SensoriumError: a term or a metric was NaN or infinite; names it, the env and the step.
        """
        if not self._names:
            return {"episodes": 0.0}
        self.check()
        *sums, total, length, count = self._ended.tolist()
        found = {"episodes": count}
        if count:
            found |= {name: value / count for name, value in zip(self._names, sums, strict=True)}
            found |= {"return": total / count, "length": length / count}
            found |= {f"{REASON}{reason}": n for reason, n in zip(self._reasons, self._why.tolist(), strict=True)}
        self._ended.zero_()
        self._why.zero_()
        return found

    def check(self) -> None:
        """Raise SensoriumError if a term or a metric was NaN or infinite since the last :meth:`clear`.

        Waits for the device.
        """
        found = (self._first_bad >= 0).nonzero().tolist()
        if not found:
            return
        reward = len(self._names)
        found = [each for each in found if each[0] != reward] or found  # the reward is not finite where a term is not
        row, env = found[0]
        if row == reward:
            what = "the sum of the terms of the reward"
        elif row < self._n_terms:
            what = f"the term {self._names[row]!r} of the reward"
        else:
            what = f"the metric {self._names[row]!r}"
        more = f", and in {len(found) - 1} more envs or values" if len(found) > 1 else ""
        raise SensoriumError(
            f"{what} was NaN or infinite in env {env} at step {int(self._first_bad[row, env])} of its episode{more}"
        )

    def check_reward(self, reward: np.ndarray) -> None:
        """Raise the error of :meth:`check` if a reward of the last step, (B,), is NaN or infinite."""
        if not np.isfinite(reward).all():
            self.check()

    def clear(self) -> None:
        """Forget everything, for new episodes in all envs."""
        for tensor in (self._running, self._ended, self._why):
            tensor.zero_()
        self._first_bad.fill_(-1)
