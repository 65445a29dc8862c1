"""Numba kernels of the imperfections of tactile skins.

``table`` (S, 5): first column, first taxel, number of taxels, numbers per taxel, and blocks of each sensor.
"""

from __future__ import annotations

import numpy as np

from sensorium.jit import kernel
from sensorium.pipeline import kernels

NEGLIGIBLE = np.float32(1e-20)
"""Smaller memories of the skin are set to 0, because arithmetic with denormal numbers is slow."""


@kernel
def draw_taxels(keys: np.ndarray, env_ids: np.ndarray, normal: np.ndarray, uniform: np.ndarray) -> None:
    """Draw a standard normal and a uniform number in [0, 1) per taxel and env, from counters (id, 0) and (id, 1)."""
    for i in range(keys.shape[0]):
        for b in range(env_ids.shape[0]):
            env = np.uint32(env_ids[b])
            w0, w1 = kernels.threefry(keys[i, 0], keys[i, 1], env, np.uint32(0))
            normal[i, b] = kernels.normals(w0, w1)[0]
            w0, w1 = kernels.threefry(keys[i, 0], keys[i, 1], env, np.uint32(1))
            uniform[i, b] = np.float32(w0 >> np.uint32(8)) * np.float32(2.0**-24)


@kernel
def respond(
    table: np.ndarray,
    heard: np.ndarray,
    weight: np.ndarray,
    starts: np.ndarray,
    fraction: np.ndarray,
    time: np.ndarray,
    spread: np.ndarray,
    gain: np.ndarray,
    memory: np.ndarray,
    mixed: np.ndarray,
    dt: float,
    data: np.ndarray,
) -> None:
    """Apply viscoelasticity, crosstalk and gains in place on ``data`` (columns, B)."""
    steps = np.empty(data.shape[1], np.float32)
    for s in range(table.shape[0]):
        start, taxel, n, width, blocks = table[s, 0], table[s, 1], table[s, 2], table[s, 3], table[s, 4]
        for env in range(data.shape[1]):
            steps[env] = 1.0 - np.exp(-dt / time[s, env])
        for c in range(start, start + n * width * blocks):
            for env in range(data.shape[1]):
                x, share = data[c, env], fraction[s, env]
                z = x if share == 0 or np.isnan(memory[c, env]) else memory[c, env]
                data[c, env] = x + share * (x - z)
                z = z + steps[env] * (x - z)  # the dashpot, for a constant load until the next step
                memory[c, env] = z if abs(z) > NEGLIGIBLE else np.float32(0)
        for env in range(data.shape[1]):
            for block in range(blocks):
                first = start + block * n * width
                if starts[s, 0] > 0:
                    mixed[: n * width] = 0
                    for j in range(n):
                        source = first + j * width
                        silent = True
                        for k in range(width):
                            silent = silent and data[source + k, env] == 0
                        if silent:
                            continue
                        for entry in range(starts[s, 1 + j], starts[s, 2 + j]):
                            place = heard[entry] * width
                            for k in range(width):
                                mixed[place + k] += weight[entry] * data[source + k, env]
                    for c in range(n * width):
                        data[first + c, env] = mixed[c]
                if spread[s, env] > 0:
                    for i in range(n):
                        own = np.float32(1) + spread[s, env] * gain[taxel + i, env]
                        for k in range(width):
                            data[first + i * width + k, env] *= own


@kernel
def mute(table: np.ndarray, fixed: np.ndarray, fraction: np.ndarray, fate: np.ndarray, data: np.ndarray) -> None:
    """Set dead taxels to 0."""
    for s in range(table.shape[0]):
        start, taxel, n, width, blocks = table[s, 0], table[s, 1], table[s, 2], table[s, 3], table[s, 4]
        for i in range(n):
            for env in range(data.shape[1]):
                if fixed[taxel + i] or fate[taxel + i, env] < fraction[s, env]:
                    for block in range(blocks):
                        for k in range(width):
                            data[start + (block * n + i) * width + k, env] = 0


@kernel
def respond_and_mute(
    table: np.ndarray,
    heard: np.ndarray,
    weight: np.ndarray,
    starts: np.ndarray,
    fraction: np.ndarray,
    time: np.ndarray,
    spread: np.ndarray,
    gain: np.ndarray,
    memory: np.ndarray,
    mixed: np.ndarray,
    dt: float,
    fixed: np.ndarray,
    dead: np.ndarray,
    fate: np.ndarray,
    data: np.ndarray,
) -> None:
    """Apply both in one call, because with one env a call costs more than the work."""
    respond(table, heard, weight, starts, fraction, time, spread, gain, memory, mixed, dt, data)
    mute(table, fixed, dead, fate, data)
