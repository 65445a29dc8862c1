"""Backends of the contact switch on the CPU and on the GPU."""

from __future__ import annotations

from typing import Protocol

import torch

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.launch import launch


class ContactBackend(Protocol):
    """Contact switches of one scene on one engine."""

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        """Fill ``out`` (sensors, B) bool with whether the forces ``data`` (N) exceed the thresholds."""


def _thresholds(group: SensorGroup[ContactBackend]) -> torch.Tensor:
    """Allocate the parameter ``threshold`` (sensors, B), which ``sensor.set`` writes."""
    thresholds = torch.zeros(len(group.sensors), group.n_envs, device=group.device)
    group.parameters["threshold"] = thresholds
    return thresholds


class CpuContact:
    """Contact switches on the CPU engine. With one env, torch would take several times as long."""

    def __init__(self, group: SensorGroup[ContactBackend]) -> None:
        from sensorium.sensors.touch import probe_kernels

        self._kernel, self._array = probe_kernels.exceed, group.array
        self._thresholds = _thresholds(group).numpy()

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        launch(self._kernel, self._array(data), self._thresholds, self._array(out))


class GpuContact:
    """Contact switches on the GPU engine."""

    def __init__(self, group: SensorGroup[ContactBackend]) -> None:
        self._thresholds = _thresholds(group)

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        torch.gt(data, self._thresholds, out=out)
