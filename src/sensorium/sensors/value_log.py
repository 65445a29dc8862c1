"""``ValueLog``: values of many tensors over time, copied in one piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch

from sensorium.errors import OptionError

_Kind: TypeAlias = tuple[torch.dtype, torch.device]


class _Place(NamedTuple):
    """Where the values of a tensor are: in the row of a kind, from an element on."""

    kind: _Kind
    start: int
    shape: torch.Size


class ValueLog:
    """Values of tensors at several times. Adding them does not wait for a GPU.

    All values of a type make one row per time: copies of each by itself would be a kernel and 512 bytes each on a GPU.
    """

    def __init__(self) -> None:
        self._places: list[_Place] = []
        self._rows: list[dict[_Kind, torch.Tensor]] = []
        self._first: list[tuple[torch.dtype, torch.device, torch.Size]] = []
        self._n_on_host = 0

    def __len__(self) -> int:
        """Return the number of times."""
        return len(self._rows)

    def add(self, values: Sequence[torch.Tensor]) -> None:
        """Copy the current values of tensors, which have the same types and shapes each time.

        Raises:
            OptionError: they have others than at the first time.
        """
        now = [(value.dtype, value.device, value.shape) for value in values]
        if self._rows and now != self._first:
            raise OptionError(
                f"the values of a trace must keep their number, types and shapes, first {self._first}, got {now}; make "
                "another trace"
            )
        self._first = now
        kinds: dict[_Kind, list[torch.Tensor]] = {}
        for value in values:
            kinds.setdefault((value.dtype, value.device), []).append(value.reshape(-1))
        if not self._places:
            ends = dict.fromkeys(kinds, 0)
            for value in values:
                kind = value.dtype, value.device
                self._places.append(_Place(kind, ends[kind], value.shape))
                ends[kind] += value.numel()
        self._rows.append({kind: torch.cat(each) for kind, each in kinds.items()})

    def column(self, number: int) -> list[np.ndarray]:
        """Return the values of a tensor at each time. Waits for a GPU; from now on they are kept on the host.

        Args:
            number: its place in the argument of :meth:`add`.
        """
        if not self._rows:
            return []
        for time in range(self._n_on_host, len(self._rows)):
            self._rows[time] = {kind: row.cpu() for kind, row in self._rows[time].items()}
        self._n_on_host = len(self._rows)
        (dtype, device), start, shape = self._places[number]
        stop = start + shape.numel()
        return [rows[dtype, device][start:stop].view(shape).numpy() for rows in self._rows]
