"""Views of past values and of sample times, as the hooks of a class get them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from sensorium.pipeline.group import SensorGroup


class Slots:
    """A ring of past values, (columns, B) each: ``slots.at(0)`` is the value of this tick, ``slots.at(k)`` that of k
    ticks ago. ``slots[k]`` is the same.

    Args:
        ring: storage, (slots, columns, B).
        group: the group whose tick counter moves the ring.
        shifts: whether :meth:`advance` moves data instead of an index. Then ``slots[0]`` is always the same memory,
            which a CUDA graph needs of tensors that hooks work on.
    """

    def __init__(self, ring: torch.Tensor, group: SensorGroup[Any], shifts: bool = False) -> None:
        self.ring = ring
        self.shifts = shifts
        self._group = group

    def advance(self) -> None:
        """Make room for the value of a new tick."""
        if self.shifts:
            self.ring[1:] = self.ring[:-1].clone()

    def __len__(self) -> int:
        return self.ring.shape[0]

    def at(self, age: int) -> torch.Tensor:
        """Return the value of ``age`` ticks ago, (columns, B), live.

        Raises:
            IndexError: the ring does not hold as many ticks.
        """
        if not 0 <= age < len(self):
            raise IndexError(
                f"{self._group.cls.__name__}: age must lie in [0, {len(self)}), the ticks that this ring holds, got "
                f"{age}; a class sets timeline_depth to keep more ticks in its timelines"
            )
        return self.ring[age if self.shifts else (self._group.step - age) % len(self)]

    def __getitem__(self, age: int) -> torch.Tensor:
        return self.at(age)


class SampleTiming(NamedTuple):
    """Views of the timing of one sensor, live. Times are in ticks."""

    due: torch.Tensor
    """(B,) bool: whether its reading takes a new value in this tick."""
    lag: torch.Tensor
    """(B,) int32: ticks since the sample that is read was taken."""
    part: torch.Tensor
    """(B,): how much older the sample is than ``lag``. With ``interpolate``, the weight of the next older snapshot."""
    arrives: torch.Tensor
    """(slots, B): from the tick of each sample to its arrival; infinite without a sample. Tick k is in row
    k % slots."""
    offset: torch.Tensor
    """(slots, B): from the capture of each sample to its tick. With ``interpolate``, in ticks without a sample: from
    the capture of the sample that is held."""
