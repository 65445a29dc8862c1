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

# Sensor 0 of an env also sets the clock. No other thread reads it in this kernel.
RESET_TIME = f"""
if (s == 0) {{
    k.tick.data[b] = k.steps.data[b] * k.ticks_per_step;
    {_DRAW}
}}
if (s >= k.n_sensors) return;
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

# One sensor in one env. The tick counter is two numbers, so that no kernel reads what it writes: this kernel, the
# first of a tick, reads the first number and writes the second. The fused step and everything after it read the second
# number, and the fused step writes the first.
TIME = f"""
const int n_envs = k.n_envs;
const int s = (int)((unsigned)tid / (unsigned)n_envs), b = tid - s * n_envs;
const unsigned count = (unsigned)k.counter.data[0] + ahead;
if (tid == 0) k.counter.data[1] = (int)count;
if (s >= k.n_sensors) return;
const int set = k.timing_flags.data[s];
if (!(set & {flags.HELD | flags.DELAYED})) return;
{_SNAP}
const size_t plane = (size_t)k.n_sensors * n_envs;
const unsigned k0 = (unsigned)k.timing_key.data[2 * s], k1 = (unsigned)k.timing_key.data[2 * s + 1];
const int first = k.timing_table.data[2 * s + {flags.S_FIRST}], slots = k.timing_table.data[2 * s + {flags.S_SLOTS}];
const int head = slots > 0 ? (int)(count % (unsigned)slots) : 0;
const size_t cell = (size_t)s * n_envs + b;
// neighbouring threads read the same address where all envs have the same parameters
const double* p = k.timing_parameters.data + (set & {flags.SAME} ? (size_t)s * n_envs : cell);
bool taken = true;
double since = 0.0;
if (set & {flags.RATE}) {{
    const double per_tick = k.dt * p[{flags.T_RATE} * plane], n = (double)k.tick.data[b];
    const double instant = wp::floor(n * per_tick + {formula.EPS!r});
    const bool every = per_tick > 1.0 - {formula.EPS!r} || per_tick == 0.0;
    taken = every || instant > wp::floor((n - 1.0) * per_tick + {formula.EPS!r});
    since = every ? 0.0 : n - instant / per_tick;
    since = since > 0.0 ? since : 0.0;
}}
const unsigned d0 = (unsigned)k.draw.data[b], d1 = (unsigned)k.draw.data[n_envs + b];
const double jitter = set & {flags.DELAYED} ? p[{flags.T_JITTER} * plane] : 0.0;
double random = 0.0;
if ((set & {flags.DROPOUT}) || jitter != 0.0) {{
    {THREEFRY}
    random = (double)(int)(w0 >> 8) * {2.0**-24!r};
    if ((set & {flags.DROPOUT}) && p[{flags.T_DROPOUT} * plane] > (double)(int)(w1 >> 8) * {2.0**-24!r})
        taken = false;
}}
int lag = k.lag.data[cell];
if (set & {flags.DELAYED}) {{
    const double latency = (p[{flags.T_DELAY} * plane] + random * jitter) * k.per_dt;
    const size_t at = (size_t)(first + head) * n_envs + b;
    k.arrives.data[at] = taken ? (float)snapped(latency - since) : 1.0f / 0.0f;
    if (set & {flags.RATE}) k.offset.data[at] = (float)since;  // 0 otherwise: this flag stays set
    if (set & {flags.LINEAR}) {{
        const double before = (double)lag + (double)k.part.data[cell] + 1.0;
        double late = snapped(latency < before ? latency : before);
        late = late > 0.0 ? late : 0.0;
        const double whole = wp::floor(late);
        lag = (int)(whole < 1e9 ? whole : 1e9);  // bounds values that were never validated
        k.part.data[cell] = (float)(late - whole);
    }} else {{
        const int oldest = lag < slots - 1 ? lag : slots - 1;
        lag = lag + 1;
        for (int age = 0; age <= oldest; ++age) {{
            const size_t from = (size_t)(first + (age > head ? head - age + slots : head - age)) * n_envs + b;
            if (k.arrives.data[from] <= (float)age) {{
                lag = age;
                if (set & {flags.RATE}) k.part.data[cell] = k.offset.data[from];
                break;
            }}
        }}
    }}
}} else if (taken) {{
    lag = 0;
    k.part.data[cell] = (float)since;
}} else lag = lag + 1;
k.lag.data[cell] = lag;
if (set & {flags.STUCK}) {{
    {{
        const unsigned e0 = d0 ^ {formula.GAUSS_MARKOV}u;
        const unsigned d0 = e0;
        {THREEFRY}
        if (p[{flags.T_STUCK} * plane] > (double)(int)(w0 >> 8) * {2.0**-24!r}) k.stuck.data[cell] = true;
    }}
    taken = taken && !k.stuck.data[cell];
}}
if (set & {flags.HELD}) k.due.data[cell] = taken;
"""
