"""The bodies of the Warp kernels, in C++: ``formula.py``, with its constants, as every device computes it.

Plain pointers instead of Warp's strided arrays, and several envs a thread where it matters, since the fused step would
be bound by looking up what a column is like, and by addresses, before it is bound by memory. Names in the snippets:
``k`` is the block, ``v`` its values, ``r`` where they return to (see ``warp_kernels.py``); ``T`` is the values' type.
"""

from __future__ import annotations

import numpy as np

from sensorium.pipeline import flags, formula

_COLUMNS, _RETURNS = len(flags.COLUMN_NAMES), len(flags.RETURN_NAMES)


def _literal(value: float) -> str:
    return f"{float(np.float32(value))!r}f"


def _horner(coefficients: tuple[float, ...], z: str) -> str:
    text = _literal(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        text = f"({text} * {z} + {_literal(coefficient)})"
    return text


def _threefry() -> str:
    """C++ that turns key (k0, k1) and counter (b, step) into words (w0, w1)."""
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
const int n_envs = k.n_envs;
const int* t = k.table.data + c * {_COLUMNS};
const int bits_set = t[{flags.FLAGS}], s = t[{flags.SENSOR}];
const size_t plane = (size_t)k.n_columns * n_envs;
"""

# one element of the raw signal: column j, env b
_GATHER = f"""
auto gather = [&](int j, int b) -> T {{
    const int* g = k.table.data + j * {_COLUMNS};
    const int op = g[{flags.OP}], count = g[{flags.COUNT}];
    const int* from = k.sources.data + g[{flags.FIRST}];
    const float* env = k.data.data + b;
    if (op == {flags.GATHER_NONE}) return v.truth.data[(size_t)j * n_envs + b];
    if (op == {flags.GATHER_COPY}) return (T)env[(size_t)from[0] * n_envs];
    if (op == {flags.GATHER_ROTATE}) {{
        float fx = 0.0f, fy = 0.0f, fz = 0.0f;
        for (int i = 0; i < count; ++i) {{
            const float* f = env + (size_t)from[i] * n_envs;
            fx += f[0]; fy += f[n_envs]; fz += f[2 * (size_t)n_envs];
        }}
        const float* o = env + (size_t)g[{flags.QUAT}] * n_envs;
        float w = o[0], x = o[n_envs], y = o[2 * (size_t)n_envs], z = o[3 * (size_t)n_envs];
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
"""


def _limits(own: str) -> str:
    """C++ of the hardware stage from the dead band on, in place on x; ``own`` is parameter ``{p}`` of this element."""
    deadband, quantum = own.format(p=flags.P_DEADBAND), own.format(p=flags.P_RESOLUTION)
    low, high = own.format(p=flags.P_LOW), own.format(p=flags.P_HIGH)
    return f"""
if (bits_set & {flags.DEADBAND}) {{
    if ((x < (T)0 ? -x : x) < {deadband}) x = x * 0.0f;
}}
if (bits_set & {flags.RESOLUTION}) {{
    float quantum = {quantum};
    if (quantum > 0.0f) x = wp::rint(x / quantum) * quantum;
}}
if (bits_set & {flags.SATURATION}) {{
    float low = {low}, high = {high};
    x = x < low ? (T)low : x;
    x = x > high ? (T)high : x;
}}
"""


# one element through the hardware stage, in place on x; FRESH: a reset, where drift starts from 0
_HARDWARE = f"""
const size_t cell = (size_t)c * n_envs + b;
float n0 = 0.0f, n1 = 0.0f;
if (bits_set & {flags.NOISE | flags.WALK}) {{
    unsigned k0 = (unsigned)k.key.data[2 * c], k1 = (unsigned)k.key.data[2 * c + 1], step = (unsigned)k.counter.data[0];
    {_threefry()}
    {_NORMALS}
}}
const float* own = k.parameters.data + cell;
x = x + 0.0f;  // no zero is negative
if (bits_set & {flags.BIAS}) x = x + own[{flags.P_BIAS} * plane];
if (bits_set & {flags.WALK}) {{
    float drift = FRESH ? 0.0f : k.walk.data[cell] + own[{flags.P_RANDOM_WALK} * plane] * n1;
    k.walk.data[cell] = drift;
    x = x + drift;
}}
if (bits_set & {flags.NOISE}) x = x + own[{flags.P_NOISE} * plane] * n0;
{_limits("own[{p} * plane]")}
"""

LANES, ROUNDS = 4, 4
"""Envs that a thread of the fused step handles at once (one 16-byte access), and how many times it does so."""

# One column, four neighbouring envs at once, four times over: what the column is like is looked up once for all of
# them. Loops run over all lanes, so that lanes stay in registers. All loads are issued before the random numbers are
# made, which hides their latency, and before the first store, past which the compiler would not move them.
SENSE = f"""
const int W = {LANES};
const int stride = (k.n_envs + W * {ROUNDS} - 1) / (W * {ROUNDS});
const int c = (int)((unsigned)tid / (unsigned)stride), q0 = tid - c * stride;
{_COLUMN}
const bool whole = (n_envs & (W - 1)) == 0;
const bool same = bits_set & {flags.UNIFORM};
const int* g = k.table.data + c * {_COLUMNS};
const bool copied = g[{flags.OP}] == {flags.GATHER_COPY};
const float* raw = k.data.data + (size_t)k.sources.data[g[{flags.FIRST}]] * n_envs;
const float* uniform = k.parameters.data + (size_t)c * n_envs;
const float p_bias = uniform[{flags.P_BIAS} * plane], p_walk = uniform[{flags.P_RANDOM_WALK} * plane];
const float p_noise = uniform[{flags.P_NOISE} * plane];
const unsigned k0 = (unsigned)k.key.data[2 * c], k1 = (unsigned)k.key.data[2 * c + 1];
const unsigned step = (unsigned)k.counter.data[0];
const int timing = k.timing_flags.data[s], row = k.row.data[c];
int first = -1, slots = 1, head = 0, linear = 0, length = 0, place = 0, history = 0;
size_t jump = 0;
if (row >= 0) {{
    const int* d = r.table.data + row * {_RETURNS};
    first = d[{flags.R_RING_FIRST}]; slots = d[{flags.R_RING_SLOTS}]; linear = d[{flags.R_LINEAR}];
    length = d[{flags.R_HISTORY_LENGTH}]; history = d[{flags.R_HISTORY_FIRST}];
    jump = (size_t)d[{flags.R_STRIDE}] * n_envs;
    head = r.heads.data[2 * row]; place = r.heads.data[2 * row + 1];
}}
const bool late = first >= 0 && (timing & {flags.DELAYED});
struct alignas(16) Values {{ T f[W]; }};
struct alignas(16) Floats {{ float f[W]; }};
struct alignas(16) Ints {{ int f[W]; }};
{_GATHER}
_Pragma("unroll 1")
for (int round = 0; round < {ROUNDS}; ++round) {{
    const int b0 = (q0 + round * stride) * W;
    if (b0 >= n_envs) break;
    const int lanes = n_envs - b0 < W ? n_envs - b0 : W;
    const size_t cell = (size_t)c * n_envs + b0, late_at = (size_t)s * n_envs + b0;
    auto load_floats = [&](const float* from) -> Floats {{
        if (whole) return *(const Floats*)from;
        Floats a = {{}};
        for (int i = 0; i < W; ++i) if (i < lanes) a.f[i] = from[i];
        return a;
    }};
    auto store = [&](T* to, const Values& a) {{
        if (whole) *(Values*)to = a;
        else for (int i = 0; i < W; ++i) if (i < lanes) to[i] = a.f[i];
    }};
    auto gather_all = [&](int j) -> Values {{
        Values a = {{}};
        for (int i = 0; i < W; ++i) if (i < lanes) a.f[i] = gather(j, b0 + i);
        return a;
    }};

    // loads
    Values all = {{}};
    if (copied) {{
        Floats one = load_floats(raw + b0);
        for (int i = 0; i < W; ++i) all.f[i] = (T)one.f[i];
    }} else all = gather_all(c);
    Floats drift = {{}};
    if (bits_set & {flags.WALK}) drift = load_floats(k.walk.data + cell);
    Ints lag = {{}};
    if (late) {{
        if (whole) lag = *(const Ints*)(k.lag.data + late_at);
        else for (int i = 0; i < W; ++i) if (i < lanes) lag.f[i] = k.lag.data[late_at + i];
    }}
    const Values true_ones = all;
    if (bits_set & {flags.MIX}) {{
        const float* mixed = k.mix.data + ((size_t)t[{flags.MIX_ROW}] * 3) * n_envs + b0;
        const int f = t[{flags.MIX_FIRST}];
        Values x0 = gather_all(f), x1 = gather_all(f + 1), x2 = gather_all(f + 2);
        Floats m0 = load_floats(mixed), m1 = load_floats(mixed + n_envs), m2 = load_floats(mixed + 2 * (size_t)n_envs);
        for (int i = 0; i < W; ++i) all.f[i] = m0.f[i] * x0.f[i] + m1.f[i] * x1.f[i] + m2.f[i] * x2.f[i];
    }}

    // random numbers
    Floats white = {{}}, steps = {{}};
    if (bits_set & {flags.NOISE | flags.WALK}) {{
        for (int i = 0; i < W; ++i) {{
            const int b = b0 + i;
            float n0, n1;
            {_threefry()}
            {_NORMALS}
            white.f[i] = n0; steps.f[i] = n1;
        }}
    }}

    // older snapshots, which the new one does not touch
    T* slot = r.ring.data + (size_t)first * n_envs + b0;
    Values served = {{}}, older = {{}};
    if (late) {{
        for (int i = 0; i < W; ++i) {{
            lag.f[i] = lag.f[i] > slots - 1 ? slots - 1 : lag.f[i];
            int n = head - lag.f[i];
            if (i < lanes && lag.f[i] > 0) served.f[i] = slot[(n < 0 ? n + slots : n) * jump + i];
        }}
        if (linear) {{
            for (int i = 0; i < W; ++i) {{
                int n = head - (lag.f[i] + 1 > slots - 1 ? slots - 1 : lag.f[i] + 1);
                if (i < lanes) older.f[i] = slot[(n < 0 ? n + slots : n) * jump + i];
            }}
        }}
    }}

    // the hardware stage; no zero is negative
    for (int i = 0; i < W; ++i) all.f[i] = all.f[i] + 0.0f;
    const float* own = k.parameters.data + cell;
    auto parameter = [&](int p, float value) -> Floats {{
        if (!same) return load_floats(own + p * plane);
        Floats a;
        for (int i = 0; i < W; ++i) a.f[i] = value;
        return a;
    }};
    if (bits_set & {flags.BIAS}) {{
        Floats p = parameter({flags.P_BIAS}, p_bias);
        for (int i = 0; i < W; ++i) all.f[i] = all.f[i] + p.f[i];
    }}
    if (bits_set & {flags.WALK}) {{
        Floats p = parameter({flags.P_RANDOM_WALK}, p_walk);
        for (int i = 0; i < W; ++i) {{
            drift.f[i] = drift.f[i] + p.f[i] * steps.f[i];
            all.f[i] = all.f[i] + drift.f[i];
        }}
    }}
    if (bits_set & {flags.NOISE}) {{
        Floats p = parameter({flags.P_NOISE}, p_noise);
        for (int i = 0; i < W; ++i) all.f[i] = all.f[i] + p.f[i] * white.f[i];
    }}
    if (bits_set & {flags.DEADBAND | flags.RESOLUTION | flags.SATURATION}) {{
        for (int i = 0; i < W; ++i) if (i < lanes) {{
            T x = all.f[i];
            {_limits("own[{p} * plane + i]")}
            all.f[i] = x;
        }}
    }}
    if (timing & {flags.RATE | flags.DROPOUT}) {{
        const bool* due = k.due.data + late_at;
        for (int i = 0; i < W; ++i) if (i < lanes && !due[i]) all.f[i] = v.reading.data[cell + i];
    }}
    for (int i = 0; i < W; ++i) if (!late || lag.f[i] == 0) served.f[i] = all.f[i];
    if (late && linear) {{
        for (int i = 0; i < W; ++i) if (i < lanes) {{
            // a ring as short as the lag repeats its oldest snapshot, which may be the new one
            T old = slots == 1 ? all.f[i] : older.f[i];
            float part = k.part.data[late_at + i];
            served.f[i] = served.f[i] * (1.0f - part) + old * part;
        }}
    }}

    // stores
    store(v.truth.data + cell, true_ones);
    if (bits_set & {flags.WALK}) {{
        if (whole) *(Floats*)(k.walk.data + cell) = drift;
        else for (int i = 0; i < W; ++i) if (i < lanes) k.walk.data[cell + i] = drift.f[i];
    }}
    store(v.reading.data + cell, all);
    if (row >= 0) {{
        if (first >= 0) store(slot + head * jump, all);
        store(r.cache.data + (size_t)row * n_envs + b0, served);
        if (length > 0) {{
            const size_t a = (size_t)history * n_envs + b0 + place * jump;
            store(r.history.data + a, served); store(r.history.data + a + length * jump, served);
            store(r.truth_history.data + a, true_ones); store(r.truth_history.data + a + length * jump, true_ones);
        }}
    }}
}}
"""

# one element of a fused column, at the reset of its env
RESET = f"""
const bool FRESH = true;
{_COLUMN}{_GATHER}
T x = gather(c, b);
v.truth.data[(size_t)c * n_envs + b] = x;
if (bits_set & {flags.MIX}) {{
    const float* mixed = k.mix.data + ((size_t)t[{flags.MIX_ROW}] * 3) * n_envs + b;
    const int f = t[{flags.MIX_FIRST}];
    T x0 = gather(f, b), x1 = gather(f + 1, b), x2 = gather(f + 2, b);
    x = mixed[0] * x0 + mixed[n_envs] * x1 + mixed[2 * (size_t)n_envs] * x2;
}}
{_HARDWARE}
k.walk.data[cell] = 0.0f;
v.reading.data[cell] = x;
const int row = k.row.data[c];
if (row >= 0) {{
    const int* d = r.table.data + row * {_RETURNS};
    const size_t jump = (size_t)d[{flags.R_STRIDE}] * n_envs;
    r.cache.data[(size_t)row * n_envs + b] = x;
    if (d[{flags.R_RING_FIRST}] >= 0) {{
        T* slot = r.ring.data + (size_t)d[{flags.R_RING_FIRST}] * n_envs + b;
        for (int i = 0; i < d[{flags.R_RING_SLOTS}]; ++i) slot[i * jump] = x;
    }}
    for (int i = 0; i < 2 * d[{flags.R_HISTORY_LENGTH}]; ++i) {{
        const size_t a = (size_t)d[{flags.R_HISTORY_FIRST}] * n_envs + b + i * jump;
        r.history.data[a] = x;
        r.truth_history.data[a] = v.truth.data[cell];
    }}
}}
"""

# one element of the raw signal of a class with hooks
GATHER = f"{_COLUMN}{_GATHER}v.truth.data[(size_t)c * n_envs + b] = gather(c, b); (void)bits_set; (void)s; (void)plane;"

# one element of the measured signal of a class with hooks, through the hardware stage
IMPERFECT = f"""
{_COLUMN}
T x = before.data[(size_t)(c - offset) * n_envs + b];
if (bits_set & {flags.MIX}) {{
    const float* mixed = k.mix.data + ((size_t)t[{flags.MIX_ROW}] * 3) * n_envs + b;
    const T* f = before.data + (size_t)(t[{flags.MIX_FIRST}] - offset) * n_envs + b;
    x = mixed[0] * f[0] + mixed[n_envs] * f[n_envs] + mixed[2 * (size_t)n_envs] * f[2 * (size_t)n_envs];
}}
{_HARDWARE}
if (FRESH) k.walk.data[cell] = 0.0f;
out.data[(size_t)(c - offset) * n_envs + b] = x;
"""

# when one sensor samples in one env, and how late it is read
TIME = f"""
const int n_envs = k.n_envs;
const int s = (int)((unsigned)tid / (unsigned)n_envs), b = tid - s * n_envs;
const int set = k.timing_flags.data[s];
const size_t cell = (size_t)s * n_envs + b, plane = (size_t)k.n_sensors * n_envs;
const double* p = k.timing_parameters.data + cell;
if (set & {flags.RATE | flags.DROPOUT}) {{
    bool taken = true;
    if (set & {flags.RATE}) {{
        double per_step = k.dt * p[{flags.T_RATE} * plane], n = (double)k.steps.data[b];
        taken = wp::floor(n * per_step + {formula.EPS!r}) > wp::floor((n - 1.0) * per_step + {formula.EPS!r});
        taken = taken || per_step >= 1.0 || per_step == 0.0;
    }}
    k.due.data[cell] = taken;
}}
if (set & {flags.DROPOUT | flags.DELAYED}) {{
    unsigned k0 = (unsigned)k.timing_key.data[2 * s], k1 = (unsigned)k.timing_key.data[2 * s + 1];
    unsigned step = (unsigned)k.counter.data[0];
    {_threefry()}
    if ((set & {flags.DROPOUT}) && p[{flags.T_DROPOUT} * plane] > (double)(int)(w1 >> 8) * {2.0**-24!r})
        k.due.data[cell] = false;
    if (set & {flags.DELAYED}) {{
        double random = (double)(int)(w0 >> 8) * {2.0**-24!r};
        double late = (p[{flags.T_DELAY} * plane] + random * p[{flags.T_JITTER} * plane]) * k.per_dt;
        if (set & {flags.LINEAR}) {{
            double whole = wp::floor(late + {formula.EPS!r});
            k.lag.data[cell] = (int)whole;
            k.part.data[cell] = (float)(late > whole ? late - whole : 0.0);
        }} else {{
            double whole = wp::ceil(late - {formula.EPS!r});
            k.lag.data[cell] = whole > 0.0 ? (int)whole : 0;
        }}
    }}
}}
"""

# one element of a snapshot into ring, cache and history
DELIVER = f"""
const int n_envs = k.n_envs;
const int* d = r.table.data + row * {_RETURNS};
const int s = d[{flags.R_SENSOR}], first = d[{flags.R_RING_FIRST}], slots = d[{flags.R_RING_SLOTS}];
const size_t from = (size_t)d[{flags.R_SOURCE}] * n_envs + b, out = (size_t)row * n_envs + b;
const size_t jump = (size_t)d[{flags.R_STRIDE}] * n_envs;
T served = serve ? measured.data[from] : r.cache.data[out];
if (first >= 0) {{
    T* slot = r.ring.data + (size_t)first * n_envs + b;
    const int head = r.heads.data[2 * row];
    slot[head * jump] = measured.data[from];
    if (serve && (k.timing_flags.data[s] & {flags.DELAYED})) {{
        const size_t late_at = (size_t)s * n_envs + b;
        int lag = k.lag.data[late_at];
        if (lag > slots - 1) lag = slots - 1;
        int n = head - lag;
        served = slot[(n < 0 ? n + slots : n) * jump];
        if (d[{flags.R_LINEAR}]) {{
            n = head - (lag + 1 > slots - 1 ? slots - 1 : lag + 1);
            T older = slot[(n < 0 ? n + slots : n) * jump];
            INTERPOLATE
        }}
    }}
}}
r.cache.data[out] = served;
const int length = d[{flags.R_HISTORY_LENGTH}];
if (remember && length > 0) {{
    const size_t a = (size_t)d[{flags.R_HISTORY_FIRST}] * n_envs + b + r.heads.data[2 * row + 1] * jump;
    r.history.data[a] = served; r.history.data[a + length * jump] = served;
    r.truth_history.data[a] = truth.data[from]; r.truth_history.data[a + length * jump] = truth.data[from];
}}
"""

INTERPOLATE = "served = served * (1.0f - k.part.data[late_at]) + older * k.part.data[late_at];"

# one element of the first snapshot after a reset, into all of ring, cache and history
RESET_DELIVERY = f"""
const int n_envs = k.n_envs;
const int* d = r.table.data + row * {_RETURNS};
const size_t from = (size_t)d[{flags.R_SOURCE}] * n_envs + b, jump = (size_t)d[{flags.R_STRIDE}] * n_envs;
const T value = measured.data[from];
r.cache.data[(size_t)row * n_envs + b] = value;
if (d[{flags.R_RING_FIRST}] >= 0) {{
    T* slot = r.ring.data + (size_t)d[{flags.R_RING_FIRST}] * n_envs + b;
    for (int i = 0; i < d[{flags.R_RING_SLOTS}]; ++i) slot[i * jump] = value;
}}
for (int i = 0; i < 2 * d[{flags.R_HISTORY_LENGTH}]; ++i) {{
    const size_t a = (size_t)d[{flags.R_HISTORY_FIRST}] * n_envs + b + i * jump;
    r.history.data[a] = value;
    r.truth_history.data[a] = truth.data[from];
}}
"""
