"""C++ of timing: when a sensor samples, and the latency of its readings."""

from __future__ import annotations

from sensorium.pipeline import flags, formula
from sensorium.pipeline.warp_snippets.random import THREEFRY
from sensorium.pipeline.warp_snippets.tables import LANES

# One sensor in LANES envs. The step counter is two numbers, so that no kernel reads what it writes: this kernel, the
# first of a step, reads the first number and writes the second. The fused step and everything after it read the second
# number, and the fused step writes the first.
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
        {THREEFRY.replace("(unsigned)b", f"((unsigned)b + {formula.GAUSS_MARKOV}u)")}
        if (p[{flags.T_STUCK} * plane] > (double)(int)(w0 >> 8) * {2.0**-24!r}) k.stuck.data[cell] = true;
        if (k.stuck.data[cell]) k.due.data[cell] = false;
    }}
    if (!(set & {flags.DROPOUT | flags.DELAYED})) continue;
    {THREEFRY}
    if ((set & {flags.DROPOUT}) && p[{flags.T_DROPOUT} * plane] > (double)(int)(w1 >> 8) * {2.0**-24!r})
        k.due.data[cell] = false;
    if (set & {flags.DELAYED}) {{
        double random = (double)(int)(w0 >> 8) * {2.0**-24!r};
        double late = (delay + random * jitter) * k.per_dt;
        if (set & {flags.LINEAR}) {{
            double whole = wp::floor(late + {formula.EPS!r});
            k.part.data[cell] = (float)(whole >= 0.0 && late > whole ? late - whole : 0.0);
            lags.f[i] = whole > 0.0 ? (int)(whole < 1e9 ? whole : 1e9) : 0;  // bounds values that were never validated
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
