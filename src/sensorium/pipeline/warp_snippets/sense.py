"""C++ of the fused step: one column from the engine's sensor data to the return cache."""

from __future__ import annotations

from sensorium.pipeline import flags
from sensorium.pipeline.warp_snippets.delivery import DELIVER_ONE, INTERPOLATE
from sensorium.pipeline.warp_snippets.gather import GATHER_FUNCTION
from sensorium.pipeline.warp_snippets.hardware import HARDWARE_STAGE, MIX, limits
from sensorium.pipeline.warp_snippets.random import NORMALS, THREEFRY
from sensorium.pipeline.warp_snippets.tables import COLUMN, LANES, N_COLUMN_FIELDS, N_RETURN_FIELDS

# One column that copies a row of sensor data. A thread handles four neighbouring envs at once, and again the envs
# ``stride`` threads further on, so that it looks up the properties of the column once for all of them. It loads values
# before it computes random numbers, which hides the latency of the loads, and prefetches those of the next round. Older
# snapshots are loaded later, since their addresses depend on the lag.
# The snippet is compiled twice. With LEAN it handles columns that have at most noise, bias, walk and a delay, the same
# in all envs, so that the compiler spends neither registers nor instructions on anything else. Without LEAN it handles
# the others. Each skips the columns of the other.
SENSE = f"""
const int W = {LANES};
const int c = (int)((unsigned)tid / (unsigned)stride), q0 = tid - c * stride;
if (tid == 0) k.counter.data[0] = k.counter.data[1];  // see TIME
const int from = k.plain.data[c];
if (from < 0) return;
{COLUMN}
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
    const int* d = r.table.data + row * {N_RETURN_FIELDS};
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
    Ints first_word = {{}}, second_word = {{}};
    if (bits_set & {flags.NOISE | flags.WALK}) {{
        first_word = *(const Ints*)(k.draw.data + b0);
        second_word = *(const Ints*)(k.draw.data + n_envs + b0);
    }}
    const bool rated = !LEAN && (timing & {flags.RATE});  // columns with a rate are held, so never lean
    const int* sample_draw = k.sample_draw.data + (size_t)(2 * s) * n_envs + b0;
    Ints lag = {{}};
    if (late) lag = *(const Ints*)(k.lag.data + late_at);

    // the hardware stage
    Values all;
    for (int i = 0; i < W; ++i) all.f[i] = (T)true_ones.f[i];
    if (!LEAN && (bits_set & {flags.MIX})) {{
        const float* m = k.mix.data + ((size_t)t[{flags.MIX_ROW}] * 3) * n_envs + b0;
        const int* f = k.table.data + t[{flags.MIX_FIRST}] * {N_COLUMN_FIELDS} + {flags.FIRST};
        const float* x0 = k.data.data + (size_t)k.sources.data[f[0]] * n_envs + b0;
        const float* x1 = k.data.data + (size_t)k.sources.data[f[{N_COLUMN_FIELDS}]] * n_envs + b0;
        const float* x2 = k.data.data + (size_t)k.sources.data[f[{2 * N_COLUMN_FIELDS}]] * n_envs + b0;
        for (int i = 0; i < W; ++i)
            all.f[i] = m[i] * (T)x0[i] + m[n_envs + i] * (T)x1[i] + m[2 * (size_t)n_envs + i] * (T)x2[i];
    }}
    const bool same = LEAN || (bits_set & {flags.UNIFORM});
    const float* own = k.parameters.data + cell;
    for (int i = 0; i < W; ++i) {{
        float n0 = 0.0f, n1 = 0.0f;
        if ((bits_set & {flags.WALK}) || ((bits_set & {flags.NOISE}) && !rated)) {{
            const unsigned d0 = (unsigned)first_word.f[i], d1 = (unsigned)second_word.f[i];
            {THREEFRY}
            {NORMALS}
        }}
        T x = all.f[i] + 0.0f;  // turns -0 into 0
        if (bits_set & {flags.BIAS}) x = x + (same ? p_bias : own[{flags.P_BIAS} * plane + i]);
        if (bits_set & {flags.WALK}) {{
            drift.f[i] = drift.f[i] + (same ? p_walk : own[{flags.P_RANDOM_WALK} * plane + i]) * n1;
            x = x + drift.f[i];
        }}
        if (rated && (bits_set & {flags.NOISE})) {{
            const unsigned d0 = (unsigned)sample_draw[i], d1 = (unsigned)sample_draw[n_envs + i];
            float n1;
            {THREEFRY}
            {NORMALS}
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
            {limits("limits[{p} * plane + e]")}
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
        const int* d = r.table.data + row * {N_RETURN_FIELDS};
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
{COLUMN}{GATHER_FUNCTION}
if (c == 0 && b == 0) k.counter.data[0] = k.counter.data[1];  // see TIME
const int timing = k.timing_flags.data[s], row = k.row.data[c];
T x = gather(c, b);
const T true_value = x;
v.truth.data[(size_t)c * n_envs + b] = x;
{MIX}
{HARDWARE_STAGE}
if ((timing & {flags.HELD}) && !k.due.data[(size_t)s * n_envs + b]) x = v.reading.data[cell];
v.reading.data[cell] = x;
if (row >= 0) {{
    const T value = x;
    const bool serve = true, remember = true;
    {DELIVER_ONE.replace("INTERPOLATE", INTERPOLATE)}
}}
"""

# one element of a fused column, at the reset of its env
RESET = f"""
const bool FRESH = true;
{COLUMN}{GATHER_FUNCTION}
T x = gather(c, b);
v.truth.data[(size_t)c * n_envs + b] = x;
{MIX}
{HARDWARE_STAGE}
k.walk.data[cell] = 0.0f;
v.reading.data[cell] = x;
const int row = k.row.data[c];
if (row >= 0) {{
    const int* d = r.table.data + row * {N_RETURN_FIELDS};
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
