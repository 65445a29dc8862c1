"""C++ of delivery: one element of a snapshot into ring, cache and history."""

from __future__ import annotations

from sensorium.pipeline import flags
from sensorium.pipeline.warp_snippets.tables import N_RETURN_FIELDS

DELIVER_ONE = f"""
const int* d = r.table.data + row * {N_RETURN_FIELDS};
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
"""Deliver ``value``, whose ground truth is ``true_value``. INTERPOLATE is to be replaced."""

INTERPOLATE = "served = served * (1.0f - k.part.data[late_at]) + older * k.part.data[late_at];"
"""The replacement of INTERPOLATE for dtypes that can be interpolated."""

DELIVER = f"""
const int n_envs = k.n_envs;
const size_t from = (size_t)r.table.data[row * {N_RETURN_FIELDS} + {flags.R_SOURCE}] * n_envs + b;
const T value = measured.data[from], true_value = truth.data[from];
{DELIVER_ONE}
"""
"""One element of a snapshot of a class with hooks or a post-process."""

RESET_DELIVERY = f"""
const int n_envs = k.n_envs;
const int* d = r.table.data + row * {N_RETURN_FIELDS};
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
"""One element of the first snapshot after a reset, into all of ring, cache and history."""
