"""Numba kernel of the action noise of :mod:`sensorium.robots.manipulator`."""

from __future__ import annotations

import numpy as np

from sensorium.jit import kernel
from sensorium.pipeline.kernels import normals, threefry

_U = np.uint32


@kernel
def add_noise(action: np.ndarray, keys: np.ndarray, envs: np.ndarray, draws: np.ndarray, sigma: np.ndarray) -> None:
    """Add normal noise to actions; each number depends on its key, env and draw only.

    Args:
        action: (m, n), changed in place.
        keys: (n, 2).
        envs: the env of each row, (m,).
        draws: number of previous draws of each env, (B,).
        sigma: standard deviations, (n,).
    """
    for row in range(action.shape[0]):
        env = envs[row]
        for column in range(action.shape[1]):
            w0, w1 = threefry(keys[column, 0], keys[column, 1], _U(env), _U(draws[env]))
            action[row, column] += sigma[column] * normals(w0, w1)[0]
