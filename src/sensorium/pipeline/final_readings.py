"""``FinalReadings``: the last readings of episodes that ended, which the first of the next ones replace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch

from sensorium.pipeline.group import SensorGroup
from sensorium.worlds import GpuWorld, World


class FinalReadings:
    """Copies of the readings of all groups, updated where an episode ends.

    Args:
        groups: the groups of all pipelines.
        world: the engine. On a GPU, a graph copies only if some episode ended: most steps end none, and the readings
            of lidars are many.
    """

    def __init__(self, groups: Sequence[SensorGroup[Any]], world: World) -> None:
        # caches and ground truth of the groups are views of few tensors
        shown = [tensor for group in groups if group.in_pipeline for tensor in (group.cache, group.return_truth)]
        bases = {id(base): base for base in map(_base, shown)}
        self._copies = {key: (base, torch.zeros_like(base)) for key, base in bases.items()}
        self._mask = torch.zeros(world.n_envs, dtype=torch.bool, device=world.device)
        self._copy: Callable[[], None] = self._copy_now
        if world.is_gpu:
            gpu = cast("GpuWorld", world)
            gpu.run(self._copy_now)  # loads the kernels
            self._copy = gpu.record(self._copy_now, if_any=self._mask)

    def keep(self, mask: torch.Tensor) -> None:
        """Copy the current readings of the envs of a mask, (B,) bool."""
        self._mask.copy_(mask)
        self._copy()

    def _copy_now(self) -> None:
        for base, final in self._copies.values():
            torch.where(self._mask, base, final, out=final)

    def of(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the final values of some rows of a group's cache or ground truth, as a view."""
        base, final = self._copies[id(_base(rows))]
        return final.as_strided(rows.size(), rows.stride(), rows.storage_offset() - base.storage_offset())


def _base(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor._base is None else tensor._base
