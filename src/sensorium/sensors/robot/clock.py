"""Clock: time stamps with offset, drift and jitter."""

from __future__ import annotations

from typing import Any

import mujoco
import torch

from sensorium.pipeline import SignalSource
from sensorium.pipeline.imperfections import Spread
from sensorium.pipeline.parameters import as_numbers
from sensorium.sensors.base import Format, SimpleSensor
from sensorium.sensors.options import SensorOptions
from sensorium.worlds import Names


class Clock(SensorOptions):
    """Options of a clock.

    stamp = offset + (1 + drift / 10⁶) · t + noise, where t is the simulated time since the env's reset in seconds.

    Example:
        >>> clock = scene.add_sensor(sn.Clock(offset=0.012, drift=20.0))
        >>> clock.read()   # (B, 1) s, float64
    """

    offset: float = 0.0
    """Stamp at t = 0, s. Stored in float32 (seven digits): do not use it for seconds since 1970."""
    drift: float = 0.0
    """Relative rate error, parts per million; positive runs fast. 20 ppm gain 1.7 s per day."""
    noise: Spread = 0.0
    """White jitter of the stamps, s."""
    resolution: Spread = 0.0
    """Step between neighbouring stamps, s; 0: none. Kept to seven digits: a day of 1 ms steps is off by 4 ms."""


class ClockSensor(SimpleSensor[torch.Tensor], options=Clock):
    """Clock sensor. See :class:`Clock`. Reads (B, 1) s, float64; ground truth is simulated time."""

    units = {"value": "s"}

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        spec.add_sensor(name=f"{self.uuid}:clock", type=mujoco.mjtSensor.mjSENS_CLOCK)

    def _sources(self) -> list[SignalSource]:
        return [SignalSource((f"{self.uuid}:clock",))]

    def _get_return_format(self) -> Format:
        return (1,)

    def _extra_parts(self) -> list[slice]:
        return [slice(0, 1)]  # drift is a scale error

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return {"offset": ("bias", slice(0, 1)), "drift": ("scale_error", slice(0, 1))}

    def _translate(self, name: str, value: Any) -> tuple[str, Any]:
        return (name, 1e-6 * as_numbers("Clock.drift", value)) if name == "drift" else (name, value)

    @classmethod
    def _get_intermediate_dtype(cls) -> torch.dtype:
        return torch.float64

    @classmethod
    def _get_cache_dtype(cls) -> torch.dtype:
        return torch.float64
