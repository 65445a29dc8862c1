"""Numba kernels of contact switches, contact probes and proximity probes.

``sensors`` (S, 5) is that of :class:`~sensorium.sensors.touch.probe_layout.ProbeLayout`: link, first probe, end of its
probes, first surface, end of its surfaces.
"""

from __future__ import annotations

import numpy as np

from sensorium.jit import kernel


@kernel
def exceed(values: np.ndarray, thresholds: np.ndarray, out: np.ndarray) -> None:
    """Test whether each of (n, B) values is above its threshold."""
    for i in range(values.shape[0]):
        for b in range(values.shape[1]):
            out[i, b] = values[i, b] > thresholds[i, b]


@kernel
def fill_depths(sensors: np.ndarray, depth: np.ndarray, per_probe: int, out: np.ndarray) -> None:
    """Write the depths of each sensor to the start of its columns, of which it has ``per_probe`` per probe."""
    for s in range(sensors.shape[0]):
        first, last = sensors[s, 1], sensors[s, 2]
        for i in range(first, last):
            for env in range(out.shape[1]):
                out[(per_probe - 1) * first + i, env] = depth[env, i]


@kernel
def switch(sensors: np.ndarray, thresholds: np.ndarray, closed: np.ndarray, data: np.ndarray) -> None:
    """Write the states of each sensor's switches behind its depths; ``closed`` holds them from step to step."""
    for s in range(sensors.shape[0]):
        first, last = sensors[s, 1], sensors[s, 2]
        for i in range(first, last):
            for env in range(data.shape[1]):
                depth = data[first + i, env]
                threshold = thresholds[s, 1] if closed[i, env] > 0 else thresholds[s, 0]
                closed[i, env] = 1.0 if depth >= threshold and depth > 0 else 0.0
                data[last + i, env] = closed[i, env]


@kernel
def show_switches(sensors: np.ndarray, data: np.ndarray, out: np.ndarray) -> None:
    """Write the states of the switches alone."""
    for s in range(sensors.shape[0]):
        for i in range(sensors[s, 1], sensors[s, 2]):
            for env in range(out.shape[1]):
                out[i, env] = data[sensors[s, 2] + i, env] > 0


@kernel
def fill_distances(
    sensors: np.ndarray,
    frames: np.ndarray,
    xpos: np.ndarray,
    xmat: np.ndarray,
    distance: np.ndarray,
    point: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write distances and nearest points of each sensor, in the world frame or in the sensor's.

    ``frames`` (S, 13): position and rotation in the link's frame, and whether to use the sensor's frame.
    """
    for env in range(out.shape[1]):
        for s in range(sensors.shape[0]):
            link, first, last = sensors[s, 0], sensors[s, 1], sensors[s, 2]
            start, count = 4 * first, last - first
            m, f = xmat[env, link], frames[s]
            for i in range(count):
                out[start + i, env] = distance[env, first + i]
                x, y, z = point[env, first + i, 0], point[env, first + i, 1], point[env, first + i, 2]
                if f[12] > 0:  # world to link to sensor
                    x, y, z = x - xpos[env, link, 0], y - xpos[env, link, 1], z - xpos[env, link, 2]
                    lx = m[0] * x + m[3] * y + m[6] * z - f[0]
                    ly = m[1] * x + m[4] * y + m[7] * z - f[1]
                    lz = m[2] * x + m[5] * y + m[8] * z - f[2]
                    x = f[3] * lx + f[6] * ly + f[9] * lz
                    y = f[4] * lx + f[7] * ly + f[10] * lz
                    z = f[5] * lx + f[8] * ly + f[11] * lz
                column = start + count + 3 * i
                out[column, env], out[column + 1, env], out[column + 2, env] = x, y, z
