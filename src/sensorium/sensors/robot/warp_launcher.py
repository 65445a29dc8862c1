"""Launches of Warp kernels over all sensors of a group and all envs."""

from __future__ import annotations

import numpy as np
import torch
import warp as wp

from sensorium.pipeline import SensorGroup


class WarpLauncher:
    """Launches Warp kernels on a group's device, one thread per sensor and env.

    Args:
        group: the group whose backend launches; only its sizes, device and reset mask are used.
    """

    def __init__(self, group: SensorGroup) -> None:
        self._group = group
        self._dim = (len(group.sensors), group.n_envs)
        self._all_envs = torch.ones(group.n_envs, dtype=torch.bool, device=group.device)

    def upload(self, values: np.ndarray) -> torch.Tensor:
        """Copy an array to the device; integers become int32, floats keep their type."""
        values = values.astype(np.int32) if values.dtype.kind in "iu" else values
        return torch.from_numpy(np.ascontiguousarray(values)).to(self._group.device)

    def launch(self, kernel: object, *inputs: object) -> None:
        """Launch a kernel of dimension (sensors, B).

        Tensors are passed without a copy, and numbers of type float as float64: generic kernels would take float32.
        """
        arguments = [_argument(value) for value in inputs]
        wp.launch(kernel, dim=self._dim, inputs=arguments, device=str(self._group.device))

    def envs(self) -> tuple[bool, torch.Tensor]:
        """Return whether this is a reset, and the mask (B,) of the envs that the reset or the step concerns."""
        mask = self._group.restarting
        return mask is not None, self._all_envs if mask is None else mask


def _argument(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return wp.from_torch(value)
    return wp.float64(value) if isinstance(value, float) else value
