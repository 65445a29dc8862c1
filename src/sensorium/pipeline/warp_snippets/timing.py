"""C++ of timing: when a sensor samples, and which of its samples has arrived."""

from __future__ import annotations

from sensorium.pipeline import flags, formula
from sensorium.pipeline.warp_snippets.random import THREEFRY

_DRAW = f"""
    const unsigned k0 = (unsigned)k.env.data[b], k1 = (unsigned)k.episode.data[b];
    const unsigned d0 = (unsigned)k.tick.data[b], d1 = {formula.DRAW}u;
    {THREEFRY}
    k.draw.data[b] = (int)w0; k.draw.data[k.n_envs + b] = (int)w1;
"""

ADVANCE = f"""
k.tick.data[b] = k.tick.data[b] + 1;
{_DRAW}
"""
"""One env: count a tick, and compute the draw of all its random numbers."""

_SAMPLE = f"""
auto number_sample = [&](int s, int b, double n, double per_tick) {{
    // the draw of the newest sample of sensor s in env b, at tick n
    const bool every = per_tick > 1.0 - {formula.EPS!r} || per_tick == 0.0;
    const unsigned k0 = (unsigned)k.env.data[b], k1 = (unsigned)k.episode.data[b];
    const unsigned d0 = (unsigned)(int)(every ? n : wp::floor(n * per_tick + {formula.EPS!r})), d1 = {formula.DRAW}u;
    {THREEFRY}
    int* own = k.sample_draw.data + (size_t)(2 * s) * k.n_envs + b;
    own[0] = (int)w0; own[k.n_envs] = (int)w1;
}};
"""

# Sensor 0 of an env also sets the clock. No other thread reads it in this kernel.
RESET_TIME = f"""
const int tick = k.steps.data[b] * k.ticks_per_step;
if (s == 0) {{
    k.tick.data[b] = tick;
    {_DRAW}
}}
if (s >= k.n_sensors) return;
{_SAMPLE}
if (k.timing_flags.data[s] & {flags.RATE}) {{
    const size_t rate = ((size_t){flags.T_RATE} * k.n_sensors + s) * k.n_envs + b;
    number_sample(s, b, (double)tick, k.dt * k.timing_parameters.data[rate]);
}}
const size_t cell = (size_t)s * k.n_envs + b;
k.stuck.data[cell] = false; k.lag.data[cell] = 0; k.part.data[cell] = 0.0f;
const int first = k.timing_table.data[2 * s + {flags.S_FIRST}], slots = k.timing_table.data[2 * s + {flags.S_SLOTS}];
for (int i = 0; i < slots; ++i) {{
    const size_t at = (size_t)(first + i) * k.n_envs + b;
    k.arrives.data[at] = i == (int)((unsigned)k.counter.data[0] % (unsigned)slots) ? 0.0f : 1.0f / 0.0f;
    k.offset.data[at] = 0.0f;
}}
"""
"""One sensor in one env, at a reset."""

_SNAP = f"""
auto snapped = [](double ticks) -> double {{
    const double whole = wp::rint(ticks), off = ticks - whole;
    return (off < 0.0 ? -off : off) < {formula.EPS!r} ? whole : ticks;
}};
"""

_EARLY = 3
"""Number of older samples whose arrival is loaded before it is known whether it matters."""

# One sensor in W neighbouring envs. All loads whose addresses are known come first, so that they wait for memory
# together. The tick counter is two numbers, so that no kernel reads what it writes: this kernel, the first of a tick,
# reads the first number and writes the second. The fused step and everything after it read the second number, and the
# fused step writes the first.
TIME = f"""
const int n_envs = k.n_envs, wide = n_envs / W;
const int s = (int)((unsigned)tid / (unsigned)wide), b0 = (tid - s * wide) * W;
const unsigned count = (unsigned)k.counter.data[0] + ahead;
if (tid == 0) k.counter.data[1] = (int)count;
if (s >= k.n_sensors) return;
struct alignas(4 * W) Floats {{ float f[W]; }};
struct alignas(4 * W) Ints {{ int f[W]; }};
const size_t plane = (size_t)k.n_sensors * n_envs, cell = (size_t)s * n_envs + b0;
const int set = k.timing_flags.data[s];
const unsigned k0 = (unsigned)k.timing_key.data[2 * s], k1 = (unsigned)k.timing_key.data[2 * s + 1];
const int first = k.timing_table.data[2 * s + {flags.S_FIRST}], slots = k.timing_table.data[2 * s + {flags.S_SLOTS}];
const Ints first_word = *(const Ints*)(k.draw.data + b0), second_word = *(const Ints*)(k.draw.data + n_envs + b0);
Ints lag = *(const Ints*)(k.lag.data + cell);
if (!(set & {flags.HELD | flags.DELAYED})) return;
{_SNAP}
{_SAMPLE}
const float never = 1.0f / 0.0f;
const bool delayed = set & {flags.DELAYED}, searches = delayed && !(set & {flags.LINEAR});
const int head = slots > 0 ? (int)(count % (unsigned)slots) : 0;
const size_t ring = (size_t)first * n_envs + b0;
auto slot = [&](int age) -> size_t {{ return ring + (size_t)(age > head ? head - age + slots : head - age) * n_envs; }};
Floats early[{_EARLY}];
for (int i = 0; i < {_EARLY}; ++i)
    if (searches && i + 1 < slots) early[i] = *(const Floats*)(k.arrives.data + slot(i + 1));
// parameters that are the same in all envs are loaded once
const int own = set & {flags.SAME} ? 0 : 1;
const double* p = k.timing_parameters.data + (own ? cell : (size_t)s * n_envs);
const double delay0 = p[{flags.T_DELAY} * plane], jitter0 = p[{flags.T_JITTER} * plane];
Floats newest;
bool taken[W];
for (int i = 0; i < W; ++i) {{
    const int mine = own * i;
    taken[i] = true;
    double since = 0.0;
    if (set & {flags.RATE}) {{
        const double per_tick = k.dt * p[{flags.T_RATE} * plane + mine], n = (double)k.tick.data[b0 + i];
        const double instant = wp::floor(n * per_tick + {formula.EPS!r});
        const bool every = per_tick > 1.0 - {formula.EPS!r} || per_tick == 0.0;
        taken[i] = every || instant > wp::floor((n - 1.0) * per_tick + {formula.EPS!r});
        since = every ? 0.0 : n - instant / per_tick;
        since = since > 0.0 ? since : 0.0;
        number_sample(s, b0 + i, n, per_tick);
    }}
    const int* own_draw = k.sample_draw.data + (size_t)(2 * s) * n_envs + b0 + i;
    const double jitter = !delayed ? 0.0 : own ? p[{flags.T_JITTER} * plane + i] : jitter0;
    double random = 0.0;
    if ((set & {flags.DROPOUT}) || jitter != 0.0) {{
        const bool rated = set & {flags.RATE};
        const unsigned d0 = (unsigned)(rated ? own_draw[0] : first_word.f[i]);
        const unsigned d1 = (unsigned)(rated ? own_draw[n_envs] : second_word.f[i]);
        {THREEFRY}
        random = (double)(int)(w0 >> 8) * {2.0**-24!r};
        if ((set & {flags.DROPOUT}) && p[{flags.T_DROPOUT} * plane + mine] > (double)(int)(w1 >> 8) * {2.0**-24!r})
            taken[i] = false;
    }}
    if (delayed) {{
        const double latency = ((own ? p[{flags.T_DELAY} * plane + i] : delay0) + random * jitter) * k.per_dt;
        newest.f[i] = taken[i] ? (float)snapped(latency - since) : never;
        if (set & {flags.RATE}) k.offset.data[slot(0) + i] = (float)since;  // 0 otherwise: this flag stays set
        if (set & {flags.LINEAR}) {{
            // in a tick without a sample: the age of the reading that is held
            k.offset.data[slot(0) + i] = taken[i] ? (float)since : k.offset.data[slot(1) + i] + 1.0f;
            const double before = (double)lag.f[i] + (double)k.part.data[cell + i] + 1.0;
            double late = snapped(latency < before ? latency : before);
            late = late > 0.0 ? late : 0.0;
            const double whole = wp::floor(late);
            lag.f[i] = (int)(whole < 1e9 ? whole : 1e9);  // bounds values that were never validated
            k.part.data[cell + i] = (float)(late - whole);
        }} else {{
            const int oldest = lag.f[i] < slots - 1 ? lag.f[i] : slots - 1;
            int found = -1;
            for (int a = {_EARLY}; a > 0; --a) if (a <= oldest && early[a - 1].f[i] <= (float)a) found = a;
            if (newest.f[i] <= 0.0f) found = 0;
            for (int age = {_EARLY} + 1; found < 0 && age <= oldest; ++age)
                if (k.arrives.data[slot(age) + i] <= (float)age) found = age;
            if (found >= 0 && (set & {flags.RATE})) k.part.data[cell + i] = k.offset.data[slot(found) + i];
            lag.f[i] = found < 0 ? lag.f[i] + 1 : found;
        }}
    }} else if (taken[i]) {{
        lag.f[i] = 0;
        k.part.data[cell + i] = (float)since;
    }} else lag.f[i] = lag.f[i] + 1;
    if (set & {flags.STUCK}) {{
        {{
            const unsigned d0 = (unsigned)first_word.f[i] ^ {formula.GAUSS_MARKOV}u, d1 = (unsigned)second_word.f[i];
            {THREEFRY}
            if (p[{flags.T_STUCK} * plane + mine] > (double)(int)(w0 >> 8) * {2.0**-24!r})
                k.stuck.data[cell + i] = true;
        }}
        taken[i] = taken[i] && !k.stuck.data[cell + i];
    }}
    if (set & {flags.HELD}) k.due.data[cell + i] = taken[i];
}}
*(Ints*)(k.lag.data + cell) = lag;
if (delayed) *(Floats*)(k.arrives.data + slot(0)) = newest;
"""
