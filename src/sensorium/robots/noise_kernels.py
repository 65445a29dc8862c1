"""Numba kernel of the action noise of :mod:`sensorium.robots.manipulator`."""

from __future__ import annotations

from typing import Any

import numpy as np

from sensorium.jit import kernel
from sensorium.pipeline.kernels import normals, threefry

_U = np.uint32


@kernel
def add_noise(action: Any, keys: Any, envs: Any, draws: Any, sigma: Any) -> None:
    """Add normal numbers to actions (m, n) of ``envs`` (m,): each depends on its key (n, 2), env and draw alone.

    Args:
        draws: (B,), how often each env has drawn before.
        sigma: standard deviations, (n,).
    """
    for row in range(action.shape[0]):
        env = envs[row]
        for column in range(action.shape[1]):
            w0, w1 = threefry(keys[column, 0], keys[column, 1], _U(env), _U(draws[env]))
            action[row, column] += sigma[column] * normals(w0, w1)[0]
