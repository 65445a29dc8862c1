"""Data of the GPU engine's sensors at substeps.

After step k + 1 of the engine, sensors of positions and velocities hold the values of time k, since a step begins with
the stages that compute them, while sensors of accelerations and forces hold those of substep k + 1.
"""

from __future__ import annotations

import mujoco
import torch
import warp as wp

from sensorium.worlds.watch_kernels import show_substep

_ACC = int(mujoco.mjtStage.mjSTAGE_ACC)


class SubstepData:
    """The data of the engine's sensors, (n, B) float32, as sensors that are captured at substeps see it.

    Args:
        model: the compiled model.
        sensed: the engine's sensor data, (n, B), live.

    Attributes:
        shown: the data of the substep that is sensed.
    """

    def __init__(self, model: mujoco.MjModel, sensed: torch.Tensor) -> None:
        is_acc = torch.zeros(len(sensed), dtype=torch.bool)
        for stage, first, size in zip(model.sensor_needstage, model.sensor_adr, model.sensor_dim, strict=True):
            is_acc[first : first + size] = bool(stage == _ACC)
        self.shown = sensed.clone()
        self._sensed, self._kept = sensed, torch.zeros_like(sensed)
        self._is_acc = is_acc.to(sensed.device)
        tensors = (self._is_acc, sensed, self._kept, self.shown)
        self._arrays = [wp.from_torch(tensor) for tensor in tensors]

    def copy(self) -> None:
        """Show the data of now."""
        wp.copy(self._arrays[3], self._arrays[1])

    def keep(self) -> None:
        """Keep the data of now for the next :meth:`show`."""
        wp.copy(self._arrays[2], self._arrays[1])

    def show(self) -> None:
        """Show the data of the substep before this one, and keep that of now."""
        shape = tuple(self._sensed.shape)
        wp.launch(show_substep, dim=shape, inputs=self._arrays, device=str(self._sensed.device))
