"""Backends of contact probes on the CPU and on the GPU."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.launch import launch
from sensorium.sensors.touch.skin_sensor import SkinBackend


class DepthProbesBackend(SkinBackend, Protocol):
    """Probes of one scene that read depths, on one engine."""

    def update(self, out: torch.Tensor) -> None:
        """Fill ``out`` (probes, B) with depths, m."""


class SwitchProbesBackend(DepthProbesBackend, Protocol):
    """Probes of one scene that read switches, on one engine.

    Each sensor has the states of its switches behind its depths: columns are (2 * probes, B).
    """

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        """Fill ``out`` (probes, B) bool with the states of the switches."""


def _thresholds(group: SensorGroup[DepthProbesBackend]) -> np.ndarray:
    """Return the depths at which the switches of each sensor close and open, (sensors, 2) m."""
    options = [sensor.options for sensor in group.sensors]
    closes = [o.contact_threshold for o in options]
    opens = [o.contact_threshold if o.release_threshold is None else o.release_threshold for o in options]
    return np.array([closes, opens], np.float32).T.copy()


def _switches(group: SensorGroup[DepthProbesBackend]) -> tuple[torch.Tensor, torch.Tensor]:
    """Allocate the states of the switches on both branches, ground truth and measured, (probes, B)."""
    return group.state("truth", group.n_columns // 2), group.state("measured", group.n_columns // 2)


class CpuDepthProbes:
    """Probes that read depths, on the CPU engine."""

    def __init__(self, group: SensorGroup[DepthProbesBackend]) -> None:
        from sensorium.sensors.touch import probe_kernels
        from sensorium.sensors.touch.probe_field import ProbeField
        from sensorium.sensors.touch.skin import Skin

        self._kernels, self._array, self._field = probe_kernels, group.array, ProbeField(group)
        self._skin = Skin(group, [sensor._local()[0] for sensor in group.sensors], width=1)

    def update(self, out: torch.Tensor) -> None:
        self._field.update()
        launch(self._kernels.fill_depths, self._field.sensors, self._field.depth, 1, self._array(out))

    def imperfect(self, data: torch.Tensor) -> None:
        self._skin.imperfect(data)


class CpuSwitchProbes(CpuDepthProbes):
    """Probes that read switches, on the CPU engine."""

    def __init__(self, group: SensorGroup[DepthProbesBackend]) -> None:
        super().__init__(group)
        self._thresholds = _thresholds(group)
        self._true_states, self._states = (states.numpy() for states in _switches(group))

    def update(self, out: torch.Tensor) -> None:
        self._field.update()
        array, sensors, kernels = self._array(out), self._field.sensors, self._kernels
        launch(kernels.fill_depths, sensors, self._field.depth, 2, array)
        launch(kernels.switch, sensors, self._thresholds, self._true_states, array)

    def imperfect(self, data: torch.Tensor) -> None:
        super().imperfect(data)
        launch(self._kernels.switch, self._field.sensors, self._thresholds, self._states, self._array(data))

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        launch(self._kernels.show_switches, self._field.sensors, self._array(data), self._array(out))


class GpuDepthProbes:
    """Probes that read depths, on the GPU engine."""

    _columns_per_probe = 1

    def __init__(self, group: SensorGroup[DepthProbesBackend]) -> None:
        from sensorium.sensors.touch import warp_probe_kernels
        from sensorium.sensors.touch.gpu_probe_field import GpuProbeField
        from sensorium.sensors.touch.gpu_skin import GpuSkin

        self._kernels, self._field = warp_probe_kernels, GpuProbeField(group)
        self._skin = GpuSkin(group, [sensor._local()[0] for sensor in group.sensors], width=1)

    def update(self, out: torch.Tensor) -> None:
        field = self._field
        field.update()
        field.launch(self._kernels.fill_depths, field.struct, field.depth, self._columns_per_probe, out)

    def imperfect(self, data: torch.Tensor) -> None:
        self._skin.imperfect(data)


class GpuSwitchProbes(GpuDepthProbes):
    """Probes that read switches, on the GPU engine."""

    _columns_per_probe = 2

    def __init__(self, group: SensorGroup[DepthProbesBackend]) -> None:
        super().__init__(group)
        self._thresholds = self._field.upload(_thresholds(group))
        self._true_states, self._states = _switches(group)

    def update(self, out: torch.Tensor) -> None:
        super().update(out)
        self._switch(self._true_states, out)

    def imperfect(self, data: torch.Tensor) -> None:
        super().imperfect(data)
        self._switch(self._states, data)

    def _switch(self, states: torch.Tensor, data: torch.Tensor) -> None:
        self._field.launch(self._kernels.switch, self._field.struct, self._thresholds, states, data)

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        self._field.launch(self._kernels.show_switches, self._field.struct, data, out)
