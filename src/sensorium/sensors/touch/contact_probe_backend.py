"""Backends of contact probes on the CPU."""

from __future__ import annotations

import numpy as np
import torch

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.launch import launch
from sensorium.sensors.touch import probe_kernels
from sensorium.sensors.touch.probe_field import ProbeField
from sensorium.sensors.touch.skin import Skin


class CpuDepthProbes:
    """Probes of one scene that read depths."""

    def __init__(self, group: SensorGroup[CpuDepthProbes]) -> None:
        self._array, self._field = group.array, ProbeField(group)
        self._skin = Skin(group, [sensor._local()[0] for sensor in group.sensors], width=1)

    def update(self, out: torch.Tensor) -> None:
        """Fill ``out`` (probes, B) with depths, m."""
        self._field.update()
        launch(probe_kernels.fill_depths, self._field.sensors, self._field.depth, 1, self._array(out))

    def imperfect(self, data: torch.Tensor) -> None:
        """Apply the imperfections of skin and hardware in place on ``data`` (columns, B)."""
        self._skin.imperfect(data)


class CpuSwitchProbes(CpuDepthProbes):
    """Probes of one scene that read switches. Each sensor has the states of its switches behind its depths."""

    def __init__(self, group: SensorGroup[CpuDepthProbes]) -> None:
        super().__init__(group)
        options = [sensor.options for sensor in group.sensors]
        closes = [o.contact_threshold for o in options]
        opens = [o.contact_threshold if o.release_threshold is None else o.release_threshold for o in options]
        self._thresholds = np.array([closes, opens], np.float32).T.copy()
        self._true_states, self._states = (
            group.state(branch, group.n_columns // 2).numpy() for branch in ("truth", "measured")
        )

    def update(self, out: torch.Tensor) -> None:
        """Fill ``out`` (2 * probes, B) with depths (m) and states of the switches (0 or 1)."""
        self._field.update()
        array, sensors = self._array(out), self._field.sensors
        launch(probe_kernels.fill_depths, sensors, self._field.depth, 2, array)
        launch(probe_kernels.switch, sensors, self._thresholds, self._true_states, array)

    def imperfect(self, data: torch.Tensor) -> None:
        super().imperfect(data)
        launch(probe_kernels.switch, self._field.sensors, self._thresholds, self._states, self._array(data))

    def post_process(self, data: torch.Tensor, out: torch.Tensor) -> None:
        """Fill ``out`` (probes, B) bool with the states of the switches."""
        launch(probe_kernels.show_switches, self._field.sensors, self._array(data), self._array(out))
