"""``SampleHold``: the measured output of ``_post_process`` changes only where a sample is due.

The hook runs in every tick for all envs. Afterwards, its output and the states that it changed are restored in the envs
where no sample is due, so that a filter in the hook advances once per sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch

from sensorium._arguments import checked
from sensorium.pipeline.group import SensorGroup
from sensorium.pipeline.launch import launch
from sensorium.pipeline.storage import storage

HookT = TypeVar("HookT", bound=Callable[..., object])


@checked
def holds_output(hook: HookT) -> HookT:
    """Mark a ``_post_process`` whose output cannot change where no sample is due, which saves two copies per tick.

    This holds if the output depends on ``data`` alone, or if the hook itself checks ``group.timing(sensor).due``.
    """
    hook.holds_output = hook  # type: ignore[attr-defined]  # as for ``replayable``: a copied mark must not count
    return hook


def does_hold_output(hook: object) -> bool:
    """Return whether a hook itself is marked by :func:`holds_output`."""
    function = getattr(hook, "__func__", hook)
    return function is not None and getattr(function, "holds_output", None) is function


class SampleHold:
    """Runs the measured ``_post_process`` of one group, and holds its output and states where no sample is due.

    Args:
        group: the group.
        rows: row of each sensor of the group in ``due``.
        due: (rows of all sensors, B) bool, live.
        is_gpu: whether torch operations are used, which a CUDA graph can capture, instead of compiled kernels.
    """

    def __init__(self, group: SensorGroup[Any], rows: Sequence[int], due: torch.Tensor, is_gpu: bool) -> None:
        self._group, self._rows, self._due, self._is_gpu = group, rows, due, is_gpu
        self._sensor_rows: dict[int, torch.Tensor | None] = {}
        self._buffers: dict[int, torch.Tensor] = {}

    def __call__(self, hook: Callable[[], None]) -> None:
        """Run the hook, which changes the group's snapshot and states."""
        saved = [(tensor, self._save(tensor)) for tensor in self._tensors()]
        hook()
        known = {id(tensor) for tensor, _ in saved}
        # a state that the hook has just allocated had its fill value before
        saved += [
            (state, torch.full_like(state, fill)) for state, fill in self._group.states() if id(state) not in known
        ]
        for tensor, before in saved:
            self._restore(tensor, before)

    def _tensors(self) -> list[torch.Tensor]:
        return [self._group.snapshot, *(state for state, _ in self._group.states())]

    def _save(self, tensor: torch.Tensor) -> torch.Tensor:
        if self._is_gpu:
            return tensor.clone()
        from sensorium.pipeline.kernels.hardware import copy  # imports Numba

        if id(tensor) not in self._buffers:
            self._buffers[id(tensor)] = torch.empty_like(tensor)
        buffer = self._buffers[id(tensor)]
        launch(copy, storage(tensor).numpy(), storage(buffer).numpy())
        return buffer

    def _restore(self, tensor: torch.Tensor, saved: torch.Tensor) -> None:
        rows = self._rows_of(len(tensor))
        if rows is None:
            return
        if self._is_gpu:
            torch.where(self._due[rows], tensor, saved, out=tensor)
            return
        from sensorium.pipeline.kernels.hold import restore  # imports Numba

        arrays = (rows, self._due, storage(saved), storage(tensor))
        launch(restore, *(array.numpy() for array in arrays))

    def _rows_of(self, count: int) -> torch.Tensor | None:
        """Return the sensor, as a row of ``due``, of each row of a tensor; None if it cannot be known."""
        if count not in self._sensor_rows:
            repeats = self._repeats(count)
            rows = None if repeats is None else torch.from_numpy(np.repeat(self._rows, repeats)).to(self._due.device)
            self._sensor_rows[count] = rows
        return self._sensor_rows[count]

    def _repeats(self, count: int) -> list[int] | None:
        """Return how many of ``count`` rows belong to each sensor."""
        group = self._group
        for slices in (group.return_slices, group.slices):
            if count == slices[-1].stop:
                return [part.stop - part.start for part in slices]
        each, rest = divmod(count, len(group.sensors))
        return None if rest else [each] * len(group.sensors)
