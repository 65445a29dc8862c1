"""``LostSamples``: the timing of sensors whose hook raised, as if the sample of that tick had been dropped."""

from __future__ import annotations

from typing import Any

import torch

from sensorium.pipeline.flags import DELAYED, HELD, LINEAR
from sensorium.pipeline.group import SensorGroup
from sensorium.pipeline.layout import Layout
from sensorium.pipeline.storage import TimingStore


class LostSamples:
    """Takes back the samples of a tick in which a hook raised, on the CPU.

    Timing is updated before the hooks run, so it already counts a sample that then fails.

    Args:
        layout: storage of the sensors.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._timing: TimingStore = layout.timing
        self._lag, self._part = torch.empty_like(self._timing.lag), torch.empty_like(self._timing.part)
        self._untimed: list[int] = []  # sensors with a lost sample whose timing no tick updates

    def begin(self) -> None:
        """Keep the ages of all readings before a tick."""
        self._lag.copy_(self._timing.lag)
        self._part.copy_(self._timing.part)
        for row in self._untimed:
            self._timing.due[row], self._timing.lag[row], self._timing.part[row] = True, 0, 0.0
        self._untimed.clear()

    def lose(self, group: SensorGroup[Any], count: int) -> None:
        """Lose the samples of a group.

        Args:
            group: the group.
            count: ticks since build, with this one.
        """
        for sensor in group.sensors:
            self._lose(self._layout.rows[sensor.uuid], count)

    def _lose(self, row: int, count: int) -> None:
        timing, flags = self._timing, self._layout.timing_parameters.flags[row]
        timing.due[row] = False
        if not flags & DELAYED:
            timing.lag[row], timing.part[row] = self._lag[row] + 1, self._part[row]
            if not flags & HELD:
                self._untimed.append(row)
            return
        first, slots = (int(value) for value in timing.table[row])
        head = first + count % slots
        timing.arrives[head] = torch.inf
        if flags & LINEAR:
            timing.offset[head] = timing.offset[first + (count - 1) % slots] + 1
        else:
            self._receive(row, count, first, slots)

    def _receive(self, row: int, count: int, first: int, slots: int) -> None:
        """Find the youngest sample that has arrived and is younger than the one that was read before."""
        before = self._lag[row]
        lag, part = before + 1, self._part[row].clone()
        for age in reversed(range(1, slots)):
            slot = first + (count - age) % slots
            arrived = (self._timing.arrives[slot] <= age) & (age <= before)
            lag, part = torch.where(arrived, age, lag), torch.where(arrived, self._timing.offset[slot], part)
        self._timing.lag[row], self._timing.part[row] = lag, part
