"""A sensor whose true signal is given step by step: stands for any sensor of which only one channel is known."""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field

from sensorium.pipeline import AxisImperfections, Imperfections, SensorGroup
from sensorium.sensors.base import Format, SimpleSensor
from sensorium.sensors.options import ChannelOptions


class ReplayedChannel(ChannelOptions, init=False):
    """Options of a sensor that reads a given signal with the imperfections ``value``."""

    axes: int = Field(ge=1)
    """Number of axes."""
    value: Imperfections = Imperfections()
    """Imperfections of the signal."""


class ReplayedVector(ReplayedChannel, init=False):
    """The same for three axes, which may be misaligned."""

    axes: int = Field(default=3, ge=3, le=3)
    """Number of axes."""
    value: AxisImperfections = AxisImperfections()
    """Imperfections of the signal."""


class ReplayedChannelSensor(SimpleSensor[torch.Tensor], options=ReplayedChannel):
    """Reads (B, axes). ``signal`` is the true value, (axes,), which the next step samples."""

    signal: torch.Tensor

    def __init__(self, options: ReplayedChannel, uuid: str) -> None:
        super().__init__(options, uuid)
        self.signal = torch.zeros(options.axes, dtype=torch.float64)

    def _get_return_format(self) -> Format:
        return (self.options.axes,)

    def _channels(self) -> dict[str, slice]:
        return {"value": slice(0, self.options.axes)}

    @classmethod
    def _get_cache_dtype(cls) -> torch.dtype:
        return torch.float64

    @classmethod
    def _get_intermediate_dtype(cls) -> torch.dtype:
        return torch.float64

    @classmethod
    def _update_raw_data(cls, group: SensorGroup[Any], out: torch.Tensor) -> None:
        for sensor, part in zip(group.sensors, group.slices, strict=True):
            out[part] = sensor.signal[:, None]
