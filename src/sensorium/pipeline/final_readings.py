"""``FinalReadings``: the last readings of episodes that ended, which the first of the next ones replace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from sensorium.pipeline.group import SensorGroup


class FinalReadings:
    """Copies of the readings of all groups, updated where an episode ends.

    Args:
        groups: the groups of all pipelines.
    """

    def __init__(self, groups: Sequence[SensorGroup[Any]]) -> None:
        # caches and ground truth of the groups are views of few tensors
        shown = [tensor for group in groups if group.in_pipeline for tensor in (group.cache, group.return_truth)]
        bases = {id(base): base for base in map(_base, shown)}
        self._copies = {key: (base, torch.zeros_like(base)) for key, base in bases.items()}

    def keep(self, mask: torch.Tensor) -> None:
        """Copy the current readings of the envs of a mask, (B,) bool."""
        for base, final in self._copies.values():
            torch.where(mask, base, final, out=final)

    def of(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the final values of some rows of a group's cache or ground truth, as a view."""
        base, final = self._copies[id(_base(rows))]
        return final.as_strided(rows.size(), rows.stride(), rows.storage_offset() - base.storage_offset())


def _base(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor._base is None else tensor._base
