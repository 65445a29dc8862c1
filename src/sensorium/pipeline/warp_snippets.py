"""The bodies of the Warp kernels, in C++: ``formula.py``, with its constants, as every device computes it.

Plain pointers instead of Warp's strided arrays, and several envs a thread where it matters, since the fused step would
be bound by looking up what a column is like, and by addresses, before it is bound by memory. Names in the snippets:
``k`` is the block, ``v`` its values, ``r`` where they return to (see ``warp_kernels.py``); ``T`` is the values' type.
"""

from __future__ import annotations

import numpy as np

from sensorium.pipeline import flags, formula

_COLUMNS, _RETURNS, _EXTRA = len(flags.COLUMN_NAMES), len(flags.RETURN_NAMES), len(flags.EXTRA_NAMES)


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


def _words(name: str, base: int) -> str:
    """C++ that draws further words of column c and env b, ``name`` 0 and 1; see formula.py."""
    return f"""
    unsigned {name}0, {name}1;
    {{
        unsigned k0 = (unsigned)k.key.data[2 * c], k1 = (unsigned)k.key.data[2 * c + 1];
        unsigned step = (unsigned)k.counter.data[1];
        {_threefry().replace("(unsigned)b", f"((unsigned)b + {base}u)")}
        {name}0 = w0; {name}1 = w1;
    }}
    """


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

THREEFRY, NORMALS = _threefry(), _NORMALS
"""C++ for other kernels: words (w0, w1) of key (k0, k1) and counter (b, step); two normals n0, n1 of such words."""

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
    if (op == {flags.GATHER_TIME}) return (T)((double)k.steps.data[b] * k.dt);
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
    unsigned k0 = (unsigned)k.key.data[2 * c], k1 = (unsigned)k.key.data[2 * c + 1], step = (unsigned)k.counter.data[1];
    {_threefry()}
    {_NORMALS}
}}
const float* own = k.parameters.data + cell;
x = x + 0.0f;  // no zero is negative
float* more = k.extra.data + (size_t)(t[{flags.EXTRA_ROW}] < 0 ? 0 : t[{flags.EXTRA_ROW}]) * {_EXTRA} * n_envs + b;
if (FRESH && t[{flags.EXTRA_ROW}] >= 0) {{
    float start, adrift;
    {_words("e", formula.RESET)}
    {_NORMALS.replace("w0", "e0").replace("w1", "e1").replace("n0", "start").replace("n1", "adrift")}
    more[{flags.E_OFFSET} * n_envs] = more[{flags.E_SPREAD} * n_envs] * start;
    more[{flags.E_DRIFT} * n_envs] = more[{flags.E_INSTABILITY} * n_envs] * adrift;
}}
const bool filters = bits_set & {flags.FILTER};
if (t[{flags.EXTRA_ROW}] >= 0 && (FRESH || (filters && more[{flags.E_Z1} * n_envs] != more[{flags.E_Z1} * n_envs]))) {{
    more[{flags.E_Z1} * n_envs] = (float)((1.0f - more[{flags.E_B0} * n_envs]) * x);
    more[{flags.E_Z2} * n_envs] = (float)((more[{flags.E_B2} * n_envs] - more[{flags.E_A2} * n_envs]) * x);
}} else if (filters) {{
    T y = more[{flags.E_B0} * n_envs] * x + more[{flags.E_Z1} * n_envs];
    more[{flags.E_Z1} * n_envs]
        = (float)((more[{flags.E_B1} * n_envs] * x - more[{flags.E_A1} * n_envs] * y) + more[{flags.E_Z2} * n_envs]);
    more[{flags.E_Z2} * n_envs] = (float)(more[{flags.E_B2} * n_envs] * x - more[{flags.E_A2} * n_envs] * y);
    x = y;
}}
if (bits_set & {flags.SCALE}) x = x + more[{flags.E_SCALE} * n_envs] * x;
if (bits_set & {flags.BIAS}) x = x + own[{flags.P_BIAS} * plane];
if (bits_set & {flags.WALK}) {{
    float drift = FRESH ? 0.0f : k.walk.data[cell] + own[{flags.P_RANDOM_WALK} * plane] * n1;
    k.walk.data[cell] = drift;
    x = x + drift;
}}
if (bits_set & {flags.NOISE}) x = x + own[{flags.P_NOISE} * plane] * n0;
if ((bits_set & {flags.INSTABILITY}) && !FRESH) {{
    float kick, unused;
    {_words("m", formula.GAUSS_MARKOV)}
    {_NORMALS.replace("w0", "m0").replace("w1", "m1").replace("n0", "kick").replace("n1", "unused")}
    float drift = more[{flags.E_DRIFT} * n_envs], decay = more[{flags.E_DECAY} * n_envs];
    float size = more[{flags.E_INSTABILITY} * n_envs] * wp::sqrt(decay * (2.0f - decay));
    more[{flags.E_DRIFT} * n_envs] = (drift - decay * drift) + size * kick;
}}
if (bits_set & {flags.SPREAD | flags.INSTABILITY | flags.TEMPERATURE}) {{
    float heat = more[{flags.E_TEMPERATURE} * n_envs] - {_literal(formula.TEMPERATURE)};
    heat = more[{flags.E_TEMPERATURE_DRIFT} * n_envs] * heat;
    x = ((x + more[{flags.E_OFFSET} * n_envs]) + more[{flags.E_DRIFT} * n_envs]) + heat;
}}
if (bits_set & {flags.OUTLIERS}) {{
    {_words("o", formula.OUTLIER)}
    if (more[{flags.E_OUTLIERS} * n_envs] > (float)(int)(o0 >> 8) * {2.0**-24!r}f) {{
        float size = more[{flags.E_OUTLIER_SIZE} * n_envs];
        x = o1 & 1u ? x - size : x + size;
    }}
}}
{_limits("own[{p} * plane]")}
"""

# three columns, mixed into x by axis misalignment
_MIX = f"""
if (bits_set & {flags.MIX}) {{
    const float* mixed = k.mix.data + ((size_t)t[{flags.MIX_ROW}] * 3) * n_envs + b;
    const int f = t[{flags.MIX_FIRST}];
    T x0 = gather(f, b), x1 = gather(f + 1, b), x2 = gather(f + 2, b);
    x = mixed[0] * x0 + mixed[n_envs] * x1 + mixed[2 * (size_t)n_envs] * x2;
}}
"""

# one element of a snapshot, ``value`` of ``true_value``, into ring, cache and history
_DELIVER = f"""
const int* d = r.table.data + row * {_RETURNS};
const int first = d[{flags.R_RING_FIRST}], slots = d[{flags.R_RING_SLOTS}], length = d[{flags.R_HISTORY_LENGTH}];
const size_t jump = (size_t)d[{flags.R_STRIDE}] * n_envs, late_at = (size_t)d[{flags.R_SENSOR}] * n_envs + b;
T served = value;
if (first >= 0) {{
    T* slot = r.ring.data + (size_t)first * n_envs + b;
    const int head = (int)((unsigned)k.counter.data[1] % (unsigned)slots);
    slot[head * jump] = value;
    if (k.timing_flags.data[d[{flags.R_SENSOR}]] & {flags.DELAYED}) {{
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
T* cached = r.cache.data + (size_t)row * n_envs + b;
if (!serve) served = *cached;
*cached = served;
if (remember && length > 0) {{
    const size_t place = length - 1 - (unsigned)k.counter.data[1] % (unsigned)length;
    const size_t a = (size_t)d[{flags.R_HISTORY_FIRST}] * n_envs + b + place * jump;
    r.history.data[a] = served; r.history.data[a + length * jump] = served;
    r.truth_history.data[a] = true_value; r.truth_history.data[a + length * jump] = true_value;
}}
"""

INTERPOLATE = "served = served * (1.0f - k.part.data[late_at]) + older * k.part.data[late_at];"

LANES, THREADS = 4, 128
"""Envs that a thread of the fused step handles at once (one 16-byte access), and threads in a block of it."""

# One column that is plainly copied, four neighbouring envs at once, and again ``stride`` threads further on: what the
# column is like is looked up once for all of them. Loads are issued before the random numbers are made, which hides
# their latency, and the next round's are announced; those of older snapshots, which wait for the lag, come after.
# Compiled twice, each leaving the other's columns alone: LEAN for those with noise, bias, walk and a delay at most,
# alike in all envs, for which the compiler then spends neither registers nor instructions on the rest.
SENSE = f"""
const int W = {LANES};
const int c = (int)((unsigned)tid / (unsigned)stride), q0 = tid - c * stride;
if (tid == 0) k.counter.data[0] = k.counter.data[1];  // see TIME
const int from = k.plain.data[c];
if (from < 0) return;
{_COLUMN}
const int timing = k.timing_flags.data[s], row = k.row.data[c];
const int LIMITED = {flags.DEADBAND | flags.RESOLUTION | flags.SATURATION};
const bool simple = (bits_set & {flags.UNIFORM}) && !(bits_set & (LIMITED | {flags.MIX})) && !(timing & {flags.HELD});
if (LEAN != (simple && !k.keeps.data[c])) return;
const float* raw = k.data.data + (size_t)from * n_envs;
const unsigned k0 = (unsigned)k.key.data[2 * c], k1 = (unsigned)k.key.data[2 * c + 1];
const unsigned step = (unsigned)k.counter.data[1];
const float* uniform = k.parameters.data + (size_t)c * n_envs;
const float p_bias = uniform[{flags.P_BIAS} * plane], p_walk = uniform[{flags.P_RANDOM_WALK} * plane];
const float p_noise = uniform[{flags.P_NOISE} * plane];
int first = -1, slots = 1, head = 0;
unsigned jump = 0;
if (row >= 0) {{
    const int* d = r.table.data + row * {_RETURNS};
    first = d[{flags.R_RING_FIRST}]; slots = d[{flags.R_RING_SLOTS}];
    jump = (unsigned)d[{flags.R_STRIDE}] * n_envs;
    head = first >= 0 ? (int)(step % (unsigned)slots) : 0;
}}
const bool late = first >= 0 && (timing & {flags.DELAYED});
struct alignas(16) Values {{ T f[W]; }};
struct alignas(16) Floats {{ float f[W]; }};
struct alignas(16) Ints {{ int f[W]; }};
#ifdef __CUDA_ARCH__
auto announce = [](const void* at) {{ asm volatile("prefetch.global.L2 [%0];" :: "l"(at)); }};
#else
auto announce = [](const void*) {{}};
#endif
_Pragma("unroll 1")
for (int b0 = q0 * W; b0 < n_envs; b0 += stride * W) {{
    const size_t cell = (size_t)c * n_envs + b0, late_at = (size_t)s * n_envs + b0;
    auto slot = [&](int lag, int i) -> T {{
        int n = head - (lag > slots - 1 ? slots - 1 : lag);
        return r.ring.data[(size_t)first * n_envs + b0 + (size_t)(n < 0 ? n + slots : n) * jump + i];
    }};
    if (b0 + stride * W < n_envs) {{
        announce(raw + b0 + stride * W);
        announce(k.walk.data + cell + stride * W);
    }}
    const Floats true_ones = *(const Floats*)(raw + b0);
    Floats drift = {{}};
    if (bits_set & {flags.WALK}) drift = *(const Floats*)(k.walk.data + cell);
    Ints lag = {{}};
    if (late) lag = *(const Ints*)(k.lag.data + late_at);

    // the hardware stage
    Values all;
    for (int i = 0; i < W; ++i) all.f[i] = (T)true_ones.f[i];
    if (!LEAN && (bits_set & {flags.MIX})) {{
        const float* m = k.mix.data + ((size_t)t[{flags.MIX_ROW}] * 3) * n_envs + b0;
        const int* f = k.table.data + t[{flags.MIX_FIRST}] * {_COLUMNS} + {flags.FIRST};
        const float* x0 = k.data.data + (size_t)k.sources.data[f[0]] * n_envs + b0;
        const float* x1 = k.data.data + (size_t)k.sources.data[f[{_COLUMNS}]] * n_envs + b0;
        const float* x2 = k.data.data + (size_t)k.sources.data[f[{2 * _COLUMNS}]] * n_envs + b0;
        for (int i = 0; i < W; ++i)
            all.f[i] = m[i] * (T)x0[i] + m[n_envs + i] * (T)x1[i] + m[2 * (size_t)n_envs + i] * (T)x2[i];
    }}
    const bool same = LEAN || (bits_set & {flags.UNIFORM});
    const float* own = k.parameters.data + cell;
    for (int i = 0; i < W; ++i) {{
        const int b = b0 + i;
        float n0 = 0.0f, n1 = 0.0f;
        if (bits_set & {flags.NOISE | flags.WALK}) {{
            {_threefry()}
            {_NORMALS}
        }}
        T x = all.f[i] + 0.0f;  // no zero is negative
        if (bits_set & {flags.BIAS}) x = x + (same ? p_bias : own[{flags.P_BIAS} * plane + i]);
        if (bits_set & {flags.WALK}) {{
            drift.f[i] = drift.f[i] + (same ? p_walk : own[{flags.P_RANDOM_WALK} * plane + i]) * n1;
            x = x + drift.f[i];
        }}
        if (bits_set & {flags.NOISE}) x = x + (same ? p_noise : own[{flags.P_NOISE} * plane + i]) * n0;
        all.f[i] = x;
    }}
    Values served = {{}};  // older snapshots; a lag of 0 is served with the new one, not with the one it overwrites
    if (late) {{
        for (int i = 0; i < W; ++i) served.f[i] = slot(lag.f[i], i);
    }}
    if (!LEAN && (bits_set & LIMITED)) {{
        const bool alike = bits_set & {flags.ALIKE};
        const float* limits = alike ? uniform : own;
        for (int i = 0; i < W; ++i) {{
            T x = all.f[i];
            const int e = alike ? 0 : i;
            {_limits("limits[{p} * plane + e]")}
            all.f[i] = x;
        }}
    }}
    if (!LEAN && (timing & {flags.HELD})) {{
        for (int i = 0; i < W; ++i) if (!k.due.data[late_at + i]) all.f[i] = v.reading.data[cell + i];
    }}
    for (int i = 0; i < W; ++i) if (!late || lag.f[i] == 0) served.f[i] = all.f[i];

    // stores
    Values truth;
    for (int i = 0; i < W; ++i) truth.f[i] = (T)true_ones.f[i];
    *(Values*)(v.truth.data + cell) = truth;
    if (bits_set & {flags.WALK}) *(Floats*)(k.walk.data + cell) = drift;
    *(Values*)(v.reading.data + cell) = all;
    if (row >= 0) {{
        if (first >= 0) *(Values*)(r.ring.data + (size_t)first * n_envs + b0 + (size_t)head * jump) = all;
        const int* d = r.table.data + row * {_RETURNS};
        if (!LEAN && late && d[{flags.R_LINEAR}]) {{
            for (int i = 0; i < W; ++i) {{
                const float part = k.part.data[late_at + i];
                served.f[i] = served.f[i] * (1.0f - part) + slot(lag.f[i] + 1, i) * part;
            }}
        }}
        *(Values*)(r.cache.data + (size_t)row * n_envs + b0) = served;
        const int length = LEAN ? 0 : d[{flags.R_HISTORY_LENGTH}];
        if (length > 0) {{
            const size_t index = length - 1 - step % (unsigned)length;
            const size_t place = (size_t)d[{flags.R_HISTORY_FIRST}] * n_envs + b0 + index * jump;
            const size_t again = place + (size_t)length * jump;
            *(Values*)(r.history.data + place) = served; *(Values*)(r.history.data + again) = served;
            *(Values*)(r.truth_history.data + place) = truth; *(Values*)(r.truth_history.data + again) = truth;
        }}
    }}
}}
"""

# one element of any other fused column
SENSE_EACH = f"""
const bool FRESH = false;
{_COLUMN}{_GATHER}
if (c == 0 && b == 0) k.counter.data[0] = k.counter.data[1];  // see TIME
const int timing = k.timing_flags.data[s], row = k.row.data[c];
T x = gather(c, b);
const T true_value = x;
v.truth.data[(size_t)c * n_envs + b] = x;
{_MIX}
{_HARDWARE}
if ((timing & {flags.HELD}) && !k.due.data[(size_t)s * n_envs + b]) x = v.reading.data[cell];
v.reading.data[cell] = x;
if (row >= 0) {{
    const T value = x;
    const bool serve = true, remember = true;
    {_DELIVER.replace("INTERPOLATE", INTERPOLATE)}
}}
"""

# one element of a fused column, at the reset of its env
RESET = f"""
const bool FRESH = true;
{_COLUMN}{_GATHER}
T x = gather(c, b);
v.truth.data[(size_t)c * n_envs + b] = x;
{_MIX}
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

# When one sensor samples in LANES envs, and how late it is read. The step counter is two numbers, so that no kernel
# reads what it writes: this one, the first of a step, reads the first and writes the second; the fused step and
# whatever runs after it read the second, and the fused step writes the first.
TIME = f"""
const int n_envs = k.n_envs;
const int stride = (n_envs + {LANES - 1}) / {LANES};
const int s = (int)((unsigned)tid / (unsigned)stride), b0 = (tid - s * stride) * {LANES};
const unsigned step = (unsigned)k.counter.data[0] + ahead;
if (tid == 0) k.counter.data[1] = (int)step;
if (s >= k.n_sensors) return;
const int set = k.timing_flags.data[s];
if (!(set & {flags.HELD | flags.DELAYED})) return;
const size_t plane = (size_t)k.n_sensors * n_envs;
const unsigned k0 = (unsigned)k.timing_key.data[2 * s], k1 = (unsigned)k.timing_key.data[2 * s + 1];
struct alignas(16) Ints {{ int f[{LANES}]; }} lags;
double rate = 0.0, delay = 0.0, jitter = 0.0;  // looked up once where they are the same in every env
_Pragma("unroll")
for (int i = 0; i < {LANES}; ++i) {{
    const int b = b0 + i;
    if (b >= n_envs) break;
    const size_t cell = (size_t)s * n_envs + b;
    const double* p = k.timing_parameters.data + (set & {flags.SAME} ? (size_t)s * n_envs : cell);
    if (i == 0 || !(set & {flags.SAME})) {{
        if (set & {flags.RATE}) rate = p[{flags.T_RATE} * plane];
        if (set & {flags.DELAYED}) {{ delay = p[{flags.T_DELAY} * plane]; jitter = p[{flags.T_JITTER} * plane]; }}
    }}
    if (set & {flags.HELD}) {{
        bool taken = true;
        if (set & {flags.RATE}) {{
            double per_step = k.dt * rate, n = (double)k.steps.data[b];
            taken = wp::floor(n * per_step + {formula.EPS!r}) > wp::floor((n - 1.0) * per_step + {formula.EPS!r});
            taken = taken || per_step >= 1.0 || per_step == 0.0;
        }}
        k.due.data[cell] = taken;
    }}
    if (set & {flags.STUCK}) {{
        {_threefry().replace("(unsigned)b", f"((unsigned)b + {formula.GAUSS_MARKOV}u)")}
        if (p[{flags.T_STUCK} * plane] > (double)(int)(w0 >> 8) * {2.0**-24!r}) k.stuck.data[cell] = true;
        if (k.stuck.data[cell]) k.due.data[cell] = false;
    }}
    if (!(set & {flags.DROPOUT | flags.DELAYED})) continue;
    {_threefry()}
    if ((set & {flags.DROPOUT}) && p[{flags.T_DROPOUT} * plane] > (double)(int)(w1 >> 8) * {2.0**-24!r})
        k.due.data[cell] = false;
    if (set & {flags.DELAYED}) {{
        double random = (double)(int)(w0 >> 8) * {2.0**-24!r};
        double late = (delay + random * jitter) * k.per_dt;
        if (set & {flags.LINEAR}) {{
            double whole = wp::floor(late + {formula.EPS!r});
            k.part.data[cell] = (float)(whole >= 0.0 && late > whole ? late - whole : 0.0);
            lags.f[i] = whole > 0.0 ? (int)(whole < 1e9 ? whole : 1e9) : 0;  // also of what nobody has looked at
        }} else {{
            double whole = wp::ceil(late - {formula.EPS!r});
            lags.f[i] = whole > 0.0 ? (int)(whole < 1e9 ? whole : 1e9) : 0;
        }}
    }}
}}
if (set & {flags.DELAYED}) {{
    int* to = k.lag.data + (size_t)s * n_envs + b0;
    if (n_envs % {LANES} == 0) *(Ints*)to = lags;
    else for (int i = 0; i < {LANES}; ++i) if (b0 + i < n_envs) to[i] = lags.f[i];
}}
"""

# one element of a snapshot of a class with hooks or a post-process
DELIVER = f"""
const int n_envs = k.n_envs;
const size_t from = (size_t)r.table.data[row * {_RETURNS} + {flags.R_SOURCE}] * n_envs + b;
const T value = measured.data[from], true_value = truth.data[from];
{_DELIVER}
"""

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
