"""The fused step on the GPU: Warp kernels whose bodies are C++, over the same storage as the Numba kernels.

They implement ``formula.py``, take its constants, and give the same bits. One thread handles one column of one env,
from the engine's sensor data to the return cache, so nothing passes between threads. The bodies are native snippets
because that saves integer work: plain pointers instead of strided arrays. They compile for Warp's CPU device too, where
the tests hold them to the Numba kernels without a GPU.

Fused multiply-add is off (``fuse_fp``): it would round once where the formula rounds twice.
"""

from typing import Any

import numpy as np
import torch
import warp as wp

from sensorium.pipeline import flags, formula

_level, wp.config.log_level = wp.config.log_level, wp.LOG_ERROR  # no banner, and no warning where there is no GPU
wp.init()
wp.config.log_level = max(_level, wp.LOG_WARNING)
_OPTIONS = {"fuse_fp": False, "enable_backward": False, "fast_math": False}
wp.set_module_options(_OPTIONS)


def _literal(value: float) -> str:
    return f"{float(np.float32(value))!r}f"


def _horner(coefficients: tuple[float, ...], z: str) -> str:
    text = _literal(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        text = f"({text} * {z} + {_literal(coefficient)})"
    return text


def _threefry() -> str:
    """C++ that turns key (k0, k1) and counter (env, step) into words (w0, w1)."""
    lines = [f"unsigned k2 = k0 ^ k1 ^ {formula.PARITY}u;", "unsigned w0 = (unsigned)b + k0, w1 = step + k1;"]
    for turn in range(20):
        r = formula.ROTATIONS[turn % 8]
        lines.append(f"w0 += w1; w1 = ((w1 << {r}) | (w1 >> {32 - r})) ^ w0;")
        if turn % 4 == 3:
            i = turn // 4 + 1
            lines.append(f"w0 += k{i % 3}; w1 += k{(i + 1) % 3} + {i}u;")
    return "\n".join(lines)


_NORMALS = f"""
float u = ((float)(int)(w0 >> 9) + 0.5f) * {2.0**-23!r}f;
float q = ((float)(int)(w1 >> 9) + 0.5f) * {2.0**-23!r}f;
union {{ float f; int i; }} bits;
bits.f = u;
int exponent = (bits.i >> 23) - 126;
bits.i = (bits.i & 0x7FFFFF) | 0x3F000000;
float m = bits.f;
if (m < {_literal(formula.SQRT_HALF)}) {{ m = m + m; exponent -= 1; }}
float z = m - 1.0f;
float log_u = {_horner(formula.LOG, "z")} * z + (float)exponent * {_literal(formula.LOG_2)};
float radius = wp::sqrt(-2.0f * log_u);
float q1 = 1.0f - q, t0 = q * q, t1 = q1 * q1;
n0 = radius * ({_horner(formula.SINE, "t0")} * q);
n1 = radius * ({_horner(formula.SINE, "t1")} * q1);
if (w1 & 1u) n0 = -n0;
if (w1 & 2u) n1 = -n1;
"""

_COLUMN = f"""
const int* t = table.data + c * {len(flags.COLUMN_NAMES)};
const int bits_set = t[{flags.FLAGS}], s = t[{flags.SENSOR}];
const size_t cell = (size_t)c * n_envs + b, plane = (size_t)n_columns * n_envs;
"""

_GATHER = f"""
auto gather = [&](int k) -> T {{
    const int* g = table.data + k * {len(flags.COLUMN_NAMES)};
    const int op = g[{flags.OP}], count = g[{flags.COUNT}];
    const int* from = sources.data + g[{flags.FIRST}];
    const float* env = data.data + b;
    if (op == {flags.GATHER_NONE}) return truth.data[(size_t)k * n_envs + b];
    if (op == {flags.GATHER_COPY}) return (T)env[(size_t)from[0] * n_envs];
    if (op == {flags.GATHER_ROTATE}) {{
        float fx = 0.0f, fy = 0.0f, fz = 0.0f;
        for (int i = 0; i < count; ++i) {{
            const float* f = env + (size_t)from[i] * n_envs;
            fx += f[0]; fy += f[n_envs]; fz += f[2 * (size_t)n_envs];
        }}
        const float* r = env + (size_t)g[{flags.QUAT}] * n_envs;
        float w = r[0], x = r[n_envs], y = r[2 * (size_t)n_envs], z = r[3 * (size_t)n_envs];
        if (g[{flags.AXIS}] == 0)
            return (T)((1.0f - 2 * (y * y + z * z)) * fx + 2 * (x * y + w * z) * fy + 2 * (x * z - w * y) * fz);
        if (g[{flags.AXIS}] == 1)
            return (T)(2 * (x * y - w * z) * fx + (1.0f - 2 * (x * x + z * z)) * fy + 2 * (y * z + w * x) * fz);
        return (T)(2 * (x * z + w * y) * fx + 2 * (y * z - w * x) * fy + (1.0f - 2 * (x * x + y * y)) * fz);
    }}
    float value = env[(size_t)from[0] * n_envs];
    for (int i = 1; i < count; ++i) value = value + env[(size_t)from[i] * n_envs];
    return (T)value;
}};
T x = gather(c);
truth.data[cell] = x;
if (bits_set & {flags.MIX}) {{
    const float* mixed = mix.data + ((size_t)t[{flags.MIX_ROW}] * 3) * n_envs + b;
    const int f = t[{flags.MIX_FIRST}];
    T x0 = gather(f), x1 = gather(f + 1), x2 = gather(f + 2);
    x = mixed[0] * x0 + mixed[n_envs] * x1 + mixed[2 * (size_t)n_envs] * x2;
}}
"""

_BEFORE = f"""
T x = before.data[(size_t)(c - offset) * n_envs + b];
if (bits_set & {flags.MIX}) {{
    const float* mixed = mix.data + ((size_t)t[{flags.MIX_ROW}] * 3) * n_envs + b;
    const T* f = before.data + (size_t)(t[{flags.MIX_FIRST}] - offset) * n_envs + b;
    x = mixed[0] * f[0] + mixed[n_envs] * f[n_envs] + mixed[2 * (size_t)n_envs] * f[2 * (size_t)n_envs];
}}
"""

_HARDWARE = f"""
float n0 = 0.0f, n1 = 0.0f;
if (bits_set & {flags.NOISE | flags.WALK}) {{
    unsigned k0 = (unsigned)key.data[2 * c], k1 = (unsigned)key.data[2 * c + 1], step = (unsigned)counter.data[0];
    {_threefry()}
    {_NORMALS}
}}
const float* shared = parameters.data + ((bits_set & {flags.UNIFORM}) ? (size_t)c * n_envs : cell);
const float* own = parameters.data + cell;
if (bits_set & {flags.BIAS}) x = x + shared[{flags.P_BIAS} * plane];
if (bits_set & {flags.WALK}) {{
    float drift = FRESH ? 0.0f : walk.data[cell] + shared[{flags.P_RANDOM_WALK} * plane] * n1;
    walk.data[cell] = drift;
    x = x + drift;
}}
if (bits_set & {flags.NOISE}) x = x + shared[{flags.P_NOISE} * plane] * n0;
if (bits_set & {flags.DEADBAND}) {{
    float width = own[{flags.P_DEADBAND} * plane];
    if ((x < (T)0 ? -x : x) < width) x = x * 0.0f;
}}
if (bits_set & {flags.RESOLUTION}) {{
    float step_size = own[{flags.P_RESOLUTION} * plane];
    if (step_size > 0.0f) x = wp::rint(x / step_size) * step_size;
}}
if (bits_set & {flags.SATURATION}) {{
    float low = own[{flags.P_LOW} * plane], high = own[{flags.P_HIGH} * plane];
    x = x < low ? (T)low : x;
    x = x > high ? (T)high : x;
}}
"""

_HOLD = f"""
if (timing_flags.data[s] & {flags.RATE | flags.DROPOUT}) {{
    if (!due.data[(size_t)s * n_envs + b]) x = reading.data[cell];
}}
reading.data[cell] = x;
"""

_RETURN = f"""
const int r = row.data[c];
if (r >= 0) {{
    const int* d = returns.data + r * {len(flags.RETURN_NAMES)};
    const int first = d[{flags.R_RING_FIRST}], slots = d[{flags.R_RING_SLOTS}], stride = d[{flags.R_STRIDE}];
    const size_t out = (size_t)r * n_envs + b;
    T served = x;
    if (first >= 0) {{
        T* slot = ring.data + (size_t)first * n_envs + b;
        const size_t jump = (size_t)stride * n_envs;
        const int head = heads.data[2 * r];
        slot[head * jump] = x;
        if (timing_flags.data[s] & {flags.DELAYED}) {{
            const size_t cell_s = (size_t)s * n_envs + b;
            int late = lag.data[cell_s];
            if (late > slots - 1) late = slots - 1;
            int k = head - late;
            if (late > 0) served = slot[(k < 0 ? k + slots : k) * jump];
            if (d[{flags.R_LINEAR}]) {{
                k = head - (late + 1 > slots - 1 ? slots - 1 : late + 1);
                T older = slot[(k < 0 ? k + slots : k) * jump];
                served = served * (1.0f - part.data[cell_s]) + older * part.data[cell_s];
            }}
        }}
    }}
    cache.data[out] = served;
    const int length = d[{flags.R_HISTORY_LENGTH}];
    if (length > 0) {{
        const size_t a = (size_t)(d[{flags.R_HISTORY_FIRST}] + heads.data[2 * r + 1] * stride) * n_envs + b;
        const size_t again = a + (size_t)length * stride * n_envs;
        history.data[a] = served; history.data[again] = served;
        truth_history.data[a] = truth.data[cell]; truth_history.data[again] = truth.data[cell];
    }}
}}
"""

_RESET_RETURN = f"""
reading.data[cell] = x;
if (!(bits_set & {flags.WALK})) walk.data[cell] = 0.0f;
const int r = row.data[c];
if (r >= 0) {{
    const int* d = returns.data + r * {len(flags.RETURN_NAMES)};
    const size_t jump = (size_t)d[{flags.R_STRIDE}] * n_envs;
    cache.data[(size_t)r * n_envs + b] = x;
    if (d[{flags.R_RING_FIRST}] >= 0) {{
        T* slot = ring.data + (size_t)d[{flags.R_RING_FIRST}] * n_envs + b;
        for (int k = 0; k < d[{flags.R_RING_SLOTS}]; ++k) slot[k * jump] = x;
    }}
    for (int k = 0; k < 2 * d[{flags.R_HISTORY_LENGTH}]; ++k) {{
        const size_t a = (size_t)d[{flags.R_HISTORY_FIRST}] * n_envs + b + k * jump;
        history.data[a] = x;
        truth_history.data[a] = truth.data[cell];
    }}
}}
"""

_TIME = f"""
const int set = timing_flags.data[s];
const size_t cell = (size_t)s * n_envs + b, plane = (size_t)n_sensors * n_envs;
const double* p = timing_parameters.data + cell;
bool taken = true;
if (set & {flags.RATE}) {{
    double per_step = dt * p[{flags.T_RATE} * plane], k = (double)steps.data[b];
    taken = wp::floor(k * per_step + {formula.EPS!r}) > wp::floor((k - 1.0) * per_step + {formula.EPS!r});
    taken = taken || per_step >= 1.0 || per_step == 0.0;
}}
if (set & {flags.DROPOUT | flags.DELAYED}) {{
    unsigned k0 = (unsigned)timing_key.data[2 * s], k1 = (unsigned)timing_key.data[2 * s + 1];
    unsigned step = (unsigned)counter.data[0];
    {_threefry()}
    if (set & {flags.DROPOUT})
        taken = taken && !(p[{flags.T_DROPOUT} * plane] > (double)(int)(w1 >> 8) * {2.0**-24!r});
    double random = (double)(int)(w0 >> 8) * {2.0**-24!r};
    double late = (p[{flags.T_DELAY} * plane] + random * p[{flags.T_JITTER} * plane]) / dt;
    if (set & {flags.LINEAR}) {{
        double whole = wp::floor(late + {formula.EPS!r});
        lag.data[cell] = (int)whole;
        part.data[cell] = (float)(late > whole ? late - whole : 0.0);
    }} else {{
        double whole = wp::ceil(late - {formula.EPS!r});
        lag.data[cell] = whole > 0.0 ? (int)whole : 0;
    }}
}}
due.data[cell] = taken;
"""

_DELIVER = f"""
const int* d = returns.data + r * {len(flags.RETURN_NAMES)};
const int s = d[{flags.R_SENSOR}], first = d[{flags.R_RING_FIRST}], slots = d[{flags.R_RING_SLOTS}];
const size_t from = (size_t)d[{flags.R_SOURCE}] * n_envs + b, out = (size_t)r * n_envs + b;
const size_t jump = (size_t)d[{flags.R_STRIDE}] * n_envs;
T served = serve ? measured.data[from] : cache.data[out];
if (first >= 0) {{
    T* slot = ring.data + (size_t)first * n_envs + b;
    const int head = heads.data[2 * r];
    slot[head * jump] = measured.data[from];
    if (serve && (timing_flags.data[s] & {flags.DELAYED})) {{
        const size_t late_at = (size_t)s * n_envs + b;
        int late = lag.data[late_at];
        if (late > slots - 1) late = slots - 1;
        int k = head - late;
        served = slot[(k < 0 ? k + slots : k) * jump];
        if (d[{flags.R_LINEAR}]) {{
            k = head - (late + 1 > slots - 1 ? slots - 1 : late + 1);
            T older = slot[(k < 0 ? k + slots : k) * jump];
            INTERPOLATE
        }}
    }}
}}
cache.data[out] = served;
const int length = d[{flags.R_HISTORY_LENGTH}];
if (remember && length > 0) {{
    const size_t a = (size_t)d[{flags.R_HISTORY_FIRST}] * n_envs + b + heads.data[2 * r + 1] * jump;
    history.data[a] = served; history.data[a + length * jump] = served;
    truth_history.data[a] = truth.data[from]; truth_history.data[a + length * jump] = truth.data[from];
}}
"""

_RESET_DELIVERY = f"""
const int* d = returns.data + r * {len(flags.RETURN_NAMES)};
const size_t from = (size_t)d[{flags.R_SOURCE}] * n_envs + b, jump = (size_t)d[{flags.R_STRIDE}] * n_envs;
const T value = measured.data[from];
cache.data[(size_t)r * n_envs + b] = value;
if (d[{flags.R_RING_FIRST}] >= 0) {{
    T* slot = ring.data + (size_t)d[{flags.R_RING_FIRST}] * n_envs + b;
    for (int k = 0; k < d[{flags.R_RING_SLOTS}]; ++k) slot[k * jump] = value;
}}
for (int k = 0; k < 2 * d[{flags.R_HISTORY_LENGTH}]; ++k) {{
    const size_t a = (size_t)d[{flags.R_HISTORY_FIRST}] * n_envs + b + k * jump;
    history.data[a] = value;
    truth_history.data[a] = truth.data[from];
}}
"""

_int, _bool, _f32, _f64 = (wp.array(dtype=t) for t in (wp.int32, wp.bool, wp.float32, wp.float64))
"""Types of flat arrays, as the kernels take them."""


@wp.kernel
def tick(returns: _int, n_rows: int, heads: _int, counter: _int, advance: bool):
    """One more step: the counter of random numbers (where asked), and where rings and histories stand."""
    r = wp.tid()
    if advance and r == 0:
        counter[0] = counter[0] + 1
    if r < n_rows:
        slots = returns[r * wp.static(len(flags.RETURN_NAMES)) + wp.static(flags.R_RING_SLOTS)]
        length = returns[r * wp.static(len(flags.RETURN_NAMES)) + wp.static(flags.R_HISTORY_LENGTH)]
        head = heads[2 * r] + 1
        heads[2 * r] = wp.where(head >= slots, 0, head)
        place = heads[2 * r + 1] - 1
        heads[2 * r + 1] = wp.where(place < 0, length - 1, place)


@wp.func_native(_TIME)
def _time_one(
    timing_flags: _int,
    timing_key: _int,
    timing_parameters: _f64,
    due: _bool,
    lag: _int,
    part: _f32,
    steps: _int,
    counter: _int,
    dt: wp.float64,
    n_sensors: int,
    n_envs: int,
    s: int,
    b: int,
): ...


@wp.kernel
def time_sensors(
    timing_flags: _int,
    timing_key: _int,
    timing_parameters: _f64,
    due: _bool,
    lag: _int,
    part: _f32,
    steps: _int,
    counter: _int,
    dt: wp.float64,
    n_sensors: int,
    n_envs: int,
):
    """When every sensor samples, and how late it is read."""
    s, b = wp.tid()
    _time_one(
        timing_flags,
        timing_key,
        timing_parameters,
        due,
        lag,
        part,
        steps,
        counter,
        dt,
        n_sensors,
        n_envs,
        s,
        b,
    )


def make_column_kernels(dtype: torch.dtype) -> dict[str, Any]:
    """The kernels that work on columns of one dtype: ``sense``, ``reset`` and ``imperfect``."""
    name, scalar = {torch.float32: ("float", wp.float32), torch.float64: ("double", wp.float64)}[dtype]
    typed = f"typedef {name} T;\n"
    values = wp.array(dtype=scalar)

    @wp.func_native(f"{typed}const bool FRESH = false;\n{_COLUMN}{_GATHER}{_HARDWARE}{_HOLD}{_RETURN}")
    def sense_one(
        table: _int,
        sources: _int,
        key: _int,
        mix: _f32,
        truth: values,
        reading: values,
        walk: _f32,
        parameters: _f32,
        timing_flags: _int,
        due: _bool,
        lag: _int,
        part: _f32,
        returns: _int,
        row: _int,
        heads: _int,
        ring: values,
        cache: values,
        history: values,
        truth_history: values,
        data: _f32,
        counter: _int,
        n_columns: int,
        n_envs: int,
        c: int,
        b: int,
    ): ...

    @wp.kernel(module="unique", module_options=_OPTIONS)
    def sense(
        table: _int,
        sources: _int,
        key: _int,
        mix: _f32,
        truth: values,
        reading: values,
        walk: _f32,
        parameters: _f32,
        timing_flags: _int,
        due: _bool,
        lag: _int,
        part: _f32,
        returns: _int,
        row: _int,
        heads: _int,
        ring: values,
        cache: values,
        history: values,
        truth_history: values,
        data: _f32,
        counter: _int,
        n_columns: int,
        n_envs: int,
    ):
        c, b = wp.tid()
        sense_one(
            table,
            sources,
            key,
            mix,
            truth,
            reading,
            walk,
            parameters,
            timing_flags,
            due,
            lag,
            part,
            returns,
            row,
            heads,
            ring,
            cache,
            history,
            truth_history,
            data,
            counter,
            n_columns,
            n_envs,
            c,
            b,
        )

    @wp.func_native(f"{typed}const bool FRESH = true;\n{_COLUMN}{_GATHER}{_HARDWARE}{_RESET_RETURN}")
    def reset_one(
        table: _int,
        sources: _int,
        key: _int,
        mix: _f32,
        truth: values,
        reading: values,
        walk: _f32,
        parameters: _f32,
        returns: _int,
        row: _int,
        ring: values,
        cache: values,
        history: values,
        truth_history: values,
        data: _f32,
        counter: _int,
        n_columns: int,
        n_envs: int,
        c: int,
        b: int,
    ): ...

    @wp.kernel(module="unique", module_options=_OPTIONS)
    def reset(
        table: _int,
        sources: _int,
        key: _int,
        mix: _f32,
        truth: values,
        reading: values,
        walk: _f32,
        parameters: _f32,
        returns: _int,
        row: _int,
        ring: values,
        cache: values,
        history: values,
        truth_history: values,
        data: _f32,
        counter: _int,
        mask: _bool,
        n_columns: int,
        n_envs: int,
    ):
        c, b = wp.tid()
        if mask[b]:
            reset_one(
                table,
                sources,
                key,
                mix,
                truth,
                reading,
                walk,
                parameters,
                returns,
                row,
                ring,
                cache,
                history,
                truth_history,
                data,
                counter,
                n_columns,
                n_envs,
                c,
                b,
            )

    @wp.func_native(f"{typed}{_COLUMN}{_GATHER}")
    def gather_one(
        table: _int,
        sources: _int,
        mix: _f32,
        truth: values,
        data: _f32,
        n_columns: int,
        n_envs: int,
        c: int,
        b: int,
    ): ...

    @wp.kernel(module="unique", module_options=_OPTIONS)
    def gather(
        table: _int, sources: _int, mix: _f32, truth: values, data: _f32, n_columns: int, n_envs: int, offset: int
    ):
        k, b = wp.tid()
        gather_one(table, sources, mix, truth, data, n_columns, n_envs, k + offset, b)

    imperfect_body = f"{_COLUMN}{_BEFORE}{_HARDWARE}out.data[(size_t)(c - offset) * n_envs + b] = x;"

    @wp.func_native(f"{typed}{imperfect_body}")
    def imperfect_one(
        table: _int,
        key: _int,
        mix: _f32,
        walk: _f32,
        parameters: _f32,
        before: values,
        out: values,
        counter: _int,
        n_columns: int,
        n_envs: int,
        offset: int,
        FRESH: bool,  # noqa: N803 (the snippets name it so)
        c: int,
        b: int,
    ): ...

    @wp.kernel(module="unique", module_options=_OPTIONS)
    def imperfect(
        table: _int,
        key: _int,
        mix: _f32,
        walk: _f32,
        parameters: _f32,
        before: values,
        out: values,
        counter: _int,
        mask: _bool,
        n_columns: int,
        n_envs: int,
        offset: int,
        fresh: bool,
    ):
        k, b = wp.tid()
        if fresh and not mask[b]:
            return
        imperfect_one(
            table,
            key,
            mix,
            walk,
            parameters,
            before,
            out,
            counter,
            n_columns,
            n_envs,
            offset,
            fresh,
            k + offset,
            b,
        )

    return {"sense": sense, "reset": reset, "gather": gather, "imperfect": imperfect}


def make_delivery_kernels(dtype: torch.dtype) -> dict[str, Any]:
    """The kernels that serve snapshots of one return dtype: ``deliver`` and ``reset``."""
    scalar = wp.dtype_from_torch(dtype)
    values = wp.array(dtype=scalar)
    linear = dtype in (torch.float32, torch.float64)
    interpolate = (
        "served = served * (1.0f - part.data[late_at]) + older * part.data[late_at];" if linear else "(void)older;"
    )
    typed = f"typedef {_C_NAMES[dtype]} T;\n"

    @wp.func_native(typed + _DELIVER.replace("INTERPOLATE", interpolate))
    def deliver_one(
        returns: _int,
        heads: _int,
        ring: values,
        cache: values,
        history: values,
        truth_history: values,
        measured: values,
        truth: values,
        timing_flags: _int,
        lag: _int,
        part: _f32,
        n_envs: int,
        serve: bool,
        remember: bool,
        r: int,
        b: int,
    ): ...

    @wp.kernel(module="unique", module_options=_OPTIONS)
    def deliver(
        returns: _int,
        heads: _int,
        ring: values,
        cache: values,
        history: values,
        truth_history: values,
        measured: values,
        truth: values,
        timing_flags: _int,
        lag: _int,
        part: _f32,
        n_envs: int,
        first_row: int,
        serve: bool,
        remember: bool,
    ):
        k, b = wp.tid()
        deliver_one(
            returns,
            heads,
            ring,
            cache,
            history,
            truth_history,
            measured,
            truth,
            timing_flags,
            lag,
            part,
            n_envs,
            serve,
            remember,
            k + first_row,
            b,
        )

    @wp.func_native(typed + _RESET_DELIVERY)
    def reset_one(
        returns: _int,
        ring: values,
        cache: values,
        history: values,
        truth_history: values,
        measured: values,
        truth: values,
        n_envs: int,
        r: int,
        b: int,
    ): ...

    @wp.kernel(module="unique", module_options=_OPTIONS)
    def reset(
        returns: _int,
        ring: values,
        cache: values,
        history: values,
        truth_history: values,
        measured: values,
        truth: values,
        mask: _bool,
        n_envs: int,
        first_row: int,
    ):
        k, b = wp.tid()
        if mask[b]:
            reset_one(returns, ring, cache, history, truth_history, measured, truth, n_envs, k + first_row, b)

    return {"deliver": deliver, "reset": reset}


_C_NAMES = {
    torch.float32: "float",
    torch.float64: "double",
    torch.int32: "int",
    torch.int64: "long long",
    torch.int16: "short",
    torch.int8: "signed char",
    torch.uint8: "unsigned char",
    torch.bool: "bool",
}
