"""The fused step on the GPU: Warp kernels over the same storage as the Numba kernels, and to the same bits.

Their bodies are the C++ of ``warp_snippets.py``. They compile for Warp's CPU device too, where the tests hold them to
the Numba kernels without a GPU. Fused multiply-add is off (``fuse_fp``): it would round once where the formula rounds
twice.
"""

from typing import Any

import torch
import warp as wp

from sensorium.pipeline import warp_snippets
from sensorium.worlds import warp_init as warp_init

_OPTIONS = {"fuse_fp": False, "enable_backward": False, "fast_math": False}
wp.set_module_options(_OPTIONS)

RESIDENT = 7
"""Blocks of the fused step that must fit on a multiprocessor, which bounds its registers: measured."""

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
"""What C++ calls the dtypes that a sensor may return."""


@wp.struct
class ColumnArrays:
    """All of a block but its values: ``kernels.Columns`` and ``kernels.Timing``, flat, and what changes with a step."""

    table: _int
    sources: _int
    key: _int  # read as unsigned
    mix: _f32
    walk: _f32
    parameters: _f32
    extra: _f32
    timing_flags: _int
    timing_key: _int
    timing_parameters: _f64
    due: _bool
    lag: _int
    part: _f32
    stuck: _bool
    plain: _int  # (C,) the row of sensor data of a column that goes through the fused step four envs at a time, or -1
    keeps: _bool  # (C,) whether it is interpolated or keeps a history
    row: _int  # (C,) return row of each column, or -1
    data: _f32  # (n, B) the engine's sensor data
    steps: _int  # (B,) steps since reset
    counter: _int  # (2,) steps since build: before this one, and with it
    n_columns: int
    n_sensors: int
    n_envs: int
    dt: wp.float64
    per_dt: wp.float64


@wp.kernel
def tick(counter: _int):
    """One more step, where the fused step does not count it."""
    counter[0] = counter[0] + 1


@wp.func_native(warp_snippets.TIME)
def _time(k: ColumnArrays, ahead: int, tid: int): ...


@wp.kernel
def time_sensors(k: ColumnArrays, ahead: int):
    """When every sensor samples, and how late it is read; one thread a sensor and ``LANES`` envs."""
    _time(k, ahead, wp.tid())


@wp.kernel
def reset_timing(k: ColumnArrays, mask: _bool):
    """What is stuck comes loose, in some envs."""
    s, b = wp.tid()
    if mask[b]:
        k.stuck[s * k.n_envs + b] = False


def make_returns(dtype: torch.dtype) -> Any:
    """The struct of return storage of one dtype: ``kernels.Delivery``, flat."""
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
    """What works on columns of one dtype: the struct ``Values``, and the kernels sense, reset, gather and imperfect."""
    array = wp.array(dtype=wp.dtype_from_torch(dtype))
    typed = f"typedef {_NAMES[dtype]} T;"

    @wp.struct
    class Values:
        truth: array
        reading: array

    @wp.func_native(typed + "const bool LEAN = true;" + warp_snippets.SENSE)
    def sense_four_leanly(k: ColumnArrays, v: Values, r: returns, stride: int, tid: int): ...

    @wp.kernel(module="unique", module_options=_OPTIONS, launch_bounds=(warp_snippets.THREADS, RESIDENT))
    def sense_lean(k: ColumnArrays, v: Values, r: returns, stride: int):
        sense_four_leanly(k, v, r, stride, wp.tid())

    @wp.func_native(typed + "const bool LEAN = false;" + warp_snippets.SENSE)
    def sense_four(k: ColumnArrays, v: Values, r: returns, stride: int, tid: int): ...

    @wp.kernel(module="unique", module_options=_OPTIONS, launch_bounds=(warp_snippets.THREADS, RESIDENT))
    def sense(k: ColumnArrays, v: Values, r: returns, stride: int):
        sense_four(k, v, r, stride, wp.tid())

    @wp.func_native(typed + warp_snippets.SENSE_EACH)
    def sense_one(k: ColumnArrays, v: Values, r: returns, c: int, b: int): ...

    @wp.kernel(module="unique", module_options=_OPTIONS)
    def sense_each(k: ColumnArrays, v: Values, r: returns, columns: _int):
        i, b = wp.tid()
        sense_one(k, v, r, columns[i], b)

    @wp.func_native(typed + warp_snippets.RESET)
    def reset_one(k: ColumnArrays, v: Values, r: returns, c: int, b: int): ...

    @wp.kernel(module="unique", module_options=_OPTIONS)
    def reset(k: ColumnArrays, v: Values, r: returns, mask: _bool):
        c, b = wp.tid()
        if mask[b]:
            reset_one(k, v, r, c, b)

    @wp.func_native(typed + warp_snippets.GATHER)
    def gather_one(k: ColumnArrays, v: Values, c: int, b: int): ...

    @wp.kernel(module="unique", module_options=_OPTIONS)
    def gather(k: ColumnArrays, v: Values, offset: int):
        c, b = wp.tid()
        gather_one(k, v, c + offset, b)

    @wp.func_native(typed + warp_snippets.IMPERFECT)
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
    """The kernels that serve snapshots of one return dtype: deliver and reset."""
    array = wp.array(dtype=wp.dtype_from_torch(dtype))
    typed = f"typedef {_NAMES[dtype]} T;"
    interpolate = warp_snippets.INTERPOLATE if dtype.is_floating_point else "(void)older;"

    @wp.func_native(typed + warp_snippets.DELIVER.replace("INTERPOLATE", interpolate))
    def deliver_one(
        k: ColumnArrays, r: returns, measured: array, truth: array, serve: bool, remember: bool, row: int, b: int
    ): ...

    @wp.kernel(module="unique", module_options=_OPTIONS)
    def deliver(k: ColumnArrays, r: returns, measured: array, truth: array, first: int, serve: bool, remember: bool):
        row, b = wp.tid()
        deliver_one(k, r, measured, truth, serve, remember, row + first, b)

    @wp.func_native(typed + warp_snippets.RESET_DELIVERY)
    def reset_one(k: ColumnArrays, r: returns, measured: array, truth: array, row: int, b: int): ...

    @wp.kernel(module="unique", module_options=_OPTIONS)
    def reset(k: ColumnArrays, r: returns, measured: array, truth: array, mask: _bool, first: int):
        row, b = wp.tid()
        if mask[b]:
            reset_one(k, r, measured, truth, row + first, b)

    return {"deliver": deliver, "reset": reset}
