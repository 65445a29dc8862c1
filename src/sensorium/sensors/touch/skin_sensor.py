"""``SkinSensor``: base class of the sensors whose probes lie under a tactile skin."""

from __future__ import annotations

from typing import Protocol

import torch

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.launch import replayable
from sensorium.sensors.base import DataT
from sensorium.sensors.touch.probe_sensor import ProbeSensor
from sensorium.sensors.touch.tactile_realism import realism_parameters


class SkinBackend(Protocol):
    """Sensors of one scene with a skin, on one engine."""

    def update(self, out: torch.Tensor) -> None:
        """Fill ``out`` (columns, B) with the signal below the skin."""

    def imperfect(self, data: torch.Tensor) -> None:
        """Apply the imperfections of skin and hardware in place on ``data`` (columns, B)."""


class SkinSensor(ProbeSensor[DataT]):
    """Base of the sensors with the imperfections of tactile skins; ``_build_group`` returns a :class:`SkinBackend`."""

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return realism_parameters()

    @classmethod
    @replayable
    def _update_raw_data(cls, group: SensorGroup[SkinBackend], out: torch.Tensor) -> None:
        group.backend.update(out)

    @classmethod
    @replayable
    def _apply_hardware_imperfections(cls, group: SensorGroup[SkinBackend], data: torch.Tensor) -> None:
        group.backend.imperfect(data)
