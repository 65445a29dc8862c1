"""The fused step on the GPU: Warp kernels over the same storage as the Numba kernels, with bit-identical results.

Their bodies are the C++ of ``warp_snippets``. They also compile for Warp's CPU device, where the tests compare them
with the Numba kernels without a GPU. Fused multiply-add is off (``fuse_fp``), since it rounds once where the formula
rounds twice.
"""

from typing import Any

import torch
import warp as wp

from sensorium.pipeline.warp_snippets.delivery import DELIVER, INTERPOLATE, RESET_DELIVERY
from sensorium.pipeline.warp_snippets.gather import GATHER
from sensorium.pipeline.warp_snippets.hardware import IMPERFECT
from sensorium.pipeline.warp_snippets.sense import RESET, SENSE, SENSE_EACH
from sensorium.pipeline.warp_snippets.tables import LANES, THREADS
from sensorium.pipeline.warp_snippets.timing import ADVANCE, RESET_TIME, TIME
from sensorium.worlds import warp_init as warp_init

_OPTIONS = {"fuse_fp": False, "enable_backward": False, "fast_math": False}
wp.set_module_options(_OPTIONS)

RESIDENT = 7
"""Thread blocks of the fused step that must fit on a multiprocessor, which limits its registers. The value was
found by measurement."""

_int, _bool, _f32, _f64 = (wp.array(dtype=t) for t in (wp.int32, wp.bool, wp.float32, wp.float64))
"""Types of flat arrays."""

_NAMES = {
    torch.float32: "float",
    torch.float64: "double",
    torch.int32: "int",
    torch.int64: "long long",
    torch.int16: "short",
    torch.int8: "signed char",
    torch.uint8: "unsigned char",
    torch.bool: "bool",
}
"""C++ types of the dtypes that a sensor may return."""


@wp.struct
class ColumnArrays:
    """A block without its values: ``Columns`` and ``Timing`` of ``kernels/arrays.py``, flat, and what a step
    changes."""

    table: _int
    sources: _int
    key: _int  # read as unsigned
    mix: _f32
    walk: _f32
    parameters: _f32
    extra: _f32
    timing_flags: _int
    timing_table: _int
    timing_key: _int
    timing_parameters: _f64
    due: _bool
    lag: _int
    part: _f32
    stuck: _bool
    arrives: _f32
    offset: _f32
    env: _int
    episode: _int
    tick: _int
    draw: _int  # read as unsigned
    sample_draw: _int  # read as unsigned
    plain: _int  # (C,) the row of sensor data of a column that SENSE handles LANES envs at a time, or -1
    keeps: _bool  # (C,) whether the column is interpolated or keeps a history
    row: _int  # (C,) return row of each column, or -1
    data: _f32  # (n, B) the engine's sensor data
    steps: _int  # (B,) steps of simulated time, kept by the world
    counter: _int  # (2,) ticks since build: before this one, and with it
    n_columns: int
    n_sensors: int
    n_envs: int
    ticks_per_step: int
    dt: wp.float64  # of a tick
    per_dt: wp.float64


@wp.kernel
def tick(counter: _int):
    """Count one more step, in scenes without a fused step that counts it."""
    counter[0] = counter[0] + 1


@wp.func_native("const int W = 1;" + TIME)
def _time(k: ColumnArrays, ahead: int, tid: int): ...


@wp.func_native(f"const int W = {LANES};" + TIME)
def _time_lanes(k: ColumnArrays, ahead: int, tid: int): ...


@wp.func_native(ADVANCE)
def _advance(k: ColumnArrays, b: int): ...


@wp.kernel
def advance(k: ColumnArrays):
    """Advance the clock of every env by a tick."""
    _advance(k, wp.tid())


@wp.kernel
def time_sensors(k: ColumnArrays, ahead: int):
    """Update when every sensor samples and which of its samples has arrived. One thread handles one sensor and env."""
    _time(k, ahead, wp.tid())


@wp.kernel
def time_sensors_by_lanes(k: ColumnArrays, ahead: int):
    """Do the same with one thread for a sensor and ``LANES`` envs, of which there must be a multiple of ``LANES``."""
    _time_lanes(k, ahead, wp.tid())


@wp.func_native(RESET_TIME)
def _reset_time(k: ColumnArrays, s: int, b: int): ...


@wp.kernel
def reset_timing(k: ColumnArrays, mask: _bool):
    """Start the clock of the envs in ``mask``, with one sample that has arrived. Thread 0 of an env sets the clock."""
    s, b = wp.tid()
    if mask[b]:
        _reset_time(k, s, b)


def make_returns(dtype: torch.dtype) -> Any:
    """Return the struct of return storage of one dtype: ``Delivery`` of ``kernels/arrays.py``, flat."""
    array = wp.array(dtype=wp.dtype_from_torch(dtype))

    @wp.struct
    class Returns:
        table: _int
        ring: array
        cache: array
        history: array
        truth_history: array

    return Returns


def make_column_kernels(dtype: torch.dtype, returns: Any) -> dict[str, Any]:
    """Return the struct ``Values`` of columns of one dtype, and the kernels that work on them, by name."""
    array = wp.array(dtype=wp.dtype_from_torch(dtype))
    typed = f"typedef {_NAMES[dtype]} T;"

    @wp.struct
    class Values:
        truth: array
        reading: array

    @wp.func_native(typed + "const bool LEAN = true;" + SENSE)
    def sense_four_leanly(k: ColumnArrays, v: Values, r: returns, stride: int, tid: int): ...

    @wp.kernel(module="unique", module_options=_OPTIONS, launch_bounds=(THREADS, RESIDENT))
    def sense_lean(k: ColumnArrays, v: Values, r: returns, stride: int):
        sense_four_leanly(k, v, r, stride, wp.tid())

    @wp.func_native(typed + "const bool LEAN = false;" + SENSE)
    def sense_four(k: ColumnArrays, v: Values, r: returns, stride: int, tid: int): ...

    @wp.kernel(module="unique", module_options=_OPTIONS, launch_bounds=(THREADS, RESIDENT))
    def sense(k: ColumnArrays, v: Values, r: returns, stride: int):
        sense_four(k, v, r, stride, wp.tid())

    @wp.func_native(typed + SENSE_EACH)
    def sense_one(k: ColumnArrays, v: Values, r: returns, c: int, b: int): ...

    @wp.kernel(module="unique", module_options=_OPTIONS)
    def sense_each(k: ColumnArrays, v: Values, r: returns, columns: _int):
        i, b = wp.tid()
        sense_one(k, v, r, columns[i], b)

    @wp.func_native(typed + RESET)
    def reset_one(k: ColumnArrays, v: Values, r: returns, c: int, b: int): ...

    @wp.kernel(module="unique", module_options=_OPTIONS)
    def reset(k: ColumnArrays, v: Values, r: returns, mask: _bool):
        c, b = wp.tid()
        if mask[b]:
            reset_one(k, v, r, c, b)

    @wp.func_native(typed + GATHER)
    def gather_one(k: ColumnArrays, v: Values, c: int, b: int): ...

    @wp.kernel(module="unique", module_options=_OPTIONS)
    def gather(k: ColumnArrays, v: Values, offset: int):
        c, b = wp.tid()
        gather_one(k, v, c + offset, b)

    @wp.func_native(typed + IMPERFECT)
    def imperfect_one(k: ColumnArrays, before: array, out: array, offset: int, FRESH: bool, c: int, b: int): ...  # noqa: N803

    @wp.kernel(module="unique", module_options=_OPTIONS)
    def imperfect(k: ColumnArrays, before: array, out: array, mask: _bool, offset: int, fresh: bool):
        c, b = wp.tid()
        if not fresh or mask[b]:
            imperfect_one(k, before, out, offset, fresh, c + offset, b)

    return {
        "Values": Values,
        "sense_lean": sense_lean,
        "sense": sense,
        "sense_each": sense_each,
        "reset": reset,
        "gather": gather,
        "imperfect": imperfect,
    }


def make_delivery_kernels(dtype: torch.dtype, returns: Any) -> dict[str, Any]:
    """Return the kernels ``deliver`` and ``reset`` for snapshots of one return dtype."""
    array = wp.array(dtype=wp.dtype_from_torch(dtype))
    typed = f"typedef {_NAMES[dtype]} T;"
    interpolate = INTERPOLATE if dtype.is_floating_point else "(void)older;"

    @wp.func_native(typed + DELIVER.replace("INTERPOLATE", interpolate))
    def deliver_one(
        k: ColumnArrays, r: returns, measured: array, truth: array, serve: bool, remember: bool, row: int, b: int
    ): ...

    @wp.kernel(module="unique", module_options=_OPTIONS)
    def deliver(k: ColumnArrays, r: returns, measured: array, truth: array, first: int, serve: bool, remember: bool):
        row, b = wp.tid()
        deliver_one(k, r, measured, truth, serve, remember, row + first, b)

    @wp.func_native(typed + RESET_DELIVERY)
    def reset_one(k: ColumnArrays, r: returns, measured: array, truth: array, row: int, b: int): ...

    @wp.kernel(module="unique", module_options=_OPTIONS)
    def reset(k: ColumnArrays, r: returns, measured: array, truth: array, mask: _bool, first: int):
        row, b = wp.tid()
        if mask[b]:
            reset_one(k, r, measured, truth, row + first, b)

    return {"deliver": deliver, "reset": reset}
