"""The arrays that the kernels take, by stage. The fields are those of the stores in ``storage.py``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Columns(NamedTuple):
    """One dtype's block of columns. Shapes: C columns, B envs, S gather sources, M mixed columns, E extra rows."""

    table: np.ndarray  # (C, 10) int32, see COLUMN_NAMES in flags.py
    sources: np.ndarray  # (S,) addresses in the engine's sensor data
    key: np.ndarray  # (C, 2) uint32
    mix: np.ndarray | None  # (M, 3, B) weights of misaligned axes
    truth: np.ndarray  # (C, B) ground truth
    reading: np.ndarray  # (C, B) measured
    walk: np.ndarray  # (C, B) random walk so far
    parameters: np.ndarray  # (7, C, B), see PARAMETERS in storage.py
    extra: np.ndarray | None  # (E, 21, B) parameters and state of further imperfections, see EXTRA_NAMES


class Timing(NamedTuple):
    """When each of S sensors samples, and the age of its readings, per env; and the clock of every env.

    Times are in ticks. ``arrives`` and ``offset`` are rings of samples, for sensors with a delay: the sample of tick k
    lies in row ``first + k % slots`` of its sensor.
    """

    flags: np.ndarray  # (S,)
    table: np.ndarray  # (S, 2) int32, see SENSOR_NAMES in flags.py
    key: np.ndarray  # (S, 2) uint32
    parameters: np.ndarray  # (5, S, B) float64, see TIMING_PARAMETERS in storage.py
    due: np.ndarray  # (S, B) bool: whether the reading takes a new value in this tick
    lag: np.ndarray  # (S, B) int32 ticks since the sample was taken that is read
    part: np.ndarray  # (S, B) how much older it is; with linear interpolation, the weight of the next older snapshot
    stuck: np.ndarray  # (S, B) bool: whether it is stuck since the last reset
    arrives: np.ndarray  # (rows, B) from the tick of a sample to its arrival; infinite without a sample
    offset: np.ndarray  # (rows, B) from the capture of a sample to its tick; with interpolation, also of a held one
    env: np.ndarray  # (B,) int32: the env whose random numbers are drawn
    episode: np.ndarray  # (B,) int32: the episode whose random numbers are drawn
    tick: np.ndarray  # (B,) int32 ticks of simulated time
    draw: np.ndarray  # (2, B) uint32: the counter of the random numbers of this tick
    sample_draw: np.ndarray  # (S, 2, B) uint32: the counter of those of the newest sample; only for sensors with a rate


class Delivery(NamedTuple):
    """Rings of snapshots, return caches and histories of R return columns of one dtype."""

    table: np.ndarray  # (R, 8) int32, see RETURN_NAMES in flags.py
    ring: np.ndarray  # (rows, B)
    cache: np.ndarray  # (R, B)
    history: np.ndarray  # (rows, B)
    truth_history: np.ndarray  # (rows, B)
