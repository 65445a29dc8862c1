"""C++ of the hardware stage: one element of a column through its imperfections."""

from __future__ import annotations

from sensorium.pipeline import flags, formula
from sensorium.pipeline.warp_snippets.random import NORMALS, THREEFRY, literal, words
from sensorium.pipeline.warp_snippets.tables import COLUMN, N_EXTRA


def limits(own: str) -> str:
    """Return C++ of the last stages, dead band, resolution and saturation, in place on x.

    Args:
        own: C++ expression of parameter ``{p}`` of this element.
    """
    deadband, quantum = own.format(p=flags.P_DEADBAND), own.format(p=flags.P_RESOLUTION)
    low, high = own.format(p=flags.P_LOW), own.format(p=flags.P_HIGH)
    return f"""
if (bits_set & {flags.DEADBAND}) {{
    if ((x < (T)0 ? -x : x) < {deadband}) x = (T)0;
}}
if (bits_set & {flags.RESOLUTION}) {{
    float quantum = {quantum};
    if (quantum > 0.0f) x = wp::rint(x / quantum) * quantum + 0.0f;  // turns -0 into 0
}}
if (bits_set & {flags.SATURATION}) {{
    float low = {low}, high = {high};
    x = x < low ? (T)low : x;
    x = x > high ? (T)high : x;
}}
"""


HARDWARE_STAGE = f"""
const size_t cell = (size_t)c * n_envs + b;
const bool rated = k.timing_flags.data[s] & {flags.RATE};
const int* sample_draw = rated ? k.sample_draw.data + (size_t)(2 * s) * n_envs : k.draw.data;
float n0 = 0.0f, n1 = 0.0f;
if ((bits_set & {flags.WALK | flags.INPUT_NOISE}) || ((bits_set & {flags.NOISE}) && !rated)) {{
    const unsigned k0 = (unsigned)k.key.data[2 * c], k1 = (unsigned)k.key.data[2 * c + 1];
    const unsigned d0 = (unsigned)k.draw.data[b], d1 = (unsigned)k.draw.data[n_envs + b];
    {THREEFRY}
    {NORMALS}
}}
const float* own = k.parameters.data + cell;
x = x + 0.0f;  // turns -0 into 0
float* more = k.extra.data + (size_t)(t[{flags.EXTRA_ROW}] < 0 ? 0 : t[{flags.EXTRA_ROW}]) * {N_EXTRA} * n_envs + b;
if (FRESH && t[{flags.EXTRA_ROW}] >= 0) {{
    float start, adrift;
    {words("e", formula.RESET)}
    {NORMALS.replace("w0", "e0").replace("w1", "e1").replace("n0", "start").replace("n1", "adrift")}
    more[{flags.E_OFFSET} * n_envs] = more[{flags.E_SPREAD} * n_envs] * start;
    more[{flags.E_DRIFT} * n_envs] = more[{flags.E_DRIFT_SIZE} * n_envs] * adrift;
}}
const bool filters = bits_set & {flags.FILTER}, noisy = bits_set & {flags.INPUT_NOISE};
const bool starts = FRESH || (filters && more[{flags.E_Z1} * n_envs] != more[{flags.E_Z1} * n_envs]);
if (t[{flags.EXTRA_ROW}] >= 0 && starts && noisy) {{
    float f_left, f_right;
    {words("f", formula.FILTER)}
    {NORMALS.replace("w0", "f0").replace("w1", "f1").replace("n0", "f_left").replace("n1", "f_right")}
    const float b0 = more[{flags.E_B0} * n_envs], b1 = more[{flags.E_B1} * n_envs], b2 = more[{flags.E_B2} * n_envs];
    const float a1 = more[{flags.E_A1} * n_envs], a2 = more[{flags.E_A2} * n_envs];
    const float size = more[{flags.E_INPUT_NOISE} * n_envs], s1 = more[{flags.E_L11} * n_envs] * f_left;
    const float s2 = more[{flags.E_L21} * n_envs] * f_left + more[{flags.E_L22} * n_envs] * f_right;
    const float g = b0 * n0 + s1;
    more[{flags.E_Z1} * n_envs] = (float)((1.0f - b0) * x + size * ((b1 * n0 - a1 * g) + s2));
    more[{flags.E_Z2} * n_envs] = (float)((b2 - a2) * x + size * (b2 * n0 - a2 * g));
    x = x + size * g;
}} else if (t[{flags.EXTRA_ROW}] >= 0 && starts) {{
    more[{flags.E_Z1} * n_envs] = (float)((1.0f - more[{flags.E_B0} * n_envs]) * x);
    more[{flags.E_Z2} * n_envs] = (float)((more[{flags.E_B2} * n_envs] - more[{flags.E_A2} * n_envs]) * x);
}} else if (filters) {{
    if (noisy) x = x + more[{flags.E_INPUT_NOISE} * n_envs] * n0;
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
if (bits_set & {flags.NOISE}) {{
    if (rated) {{
        {words("s", 0, "sample_draw")}
        float n1;
        {NORMALS.replace("w0", "s0").replace("w1", "s1")}
    }}
    x = x + own[{flags.P_NOISE} * plane] * n0;
}}
if ((bits_set & {flags.DRIFT}) && !FRESH) {{
    float kick, unused;
    {words("m", formula.GAUSS_MARKOV)}
    {NORMALS.replace("w0", "m0").replace("w1", "m1").replace("n0", "kick").replace("n1", "unused")}
    float drift = more[{flags.E_DRIFT} * n_envs], decay = more[{flags.E_DECAY} * n_envs];
    float size = more[{flags.E_DRIFT_SIZE} * n_envs] * wp::sqrt(decay * (2.0f - decay));
    more[{flags.E_DRIFT} * n_envs] = (drift - decay * drift) + size * kick;
}}
if (bits_set & {flags.SPREAD | flags.DRIFT | flags.TEMPERATURE}) {{
    float heat = more[{flags.E_TEMPERATURE} * n_envs] - {literal(formula.TEMPERATURE)};
    heat = more[{flags.E_TEMPERATURE_DRIFT} * n_envs] * heat;
    x = ((x + more[{flags.E_OFFSET} * n_envs]) + more[{flags.E_DRIFT} * n_envs]) + heat;
}}
if (bits_set & {flags.OUTLIERS}) {{
    {words("o", formula.OUTLIER, "sample_draw")}
    if (more[{flags.E_OUTLIERS} * n_envs] > (float)(int)(o0 >> 8) * {2.0**-24!r}f) {{
        float size = more[{flags.E_OUTLIER_SIZE} * n_envs];
        x = o1 & 1u ? x - size : x + size;
    }}
}}
{limits("own[{p} * plane]")}
"""
"""One element, in place on x. In a reset, FRESH is true, and drift starts from 0."""

MIX = f"""
if (bits_set & {flags.MIX}) {{
    const float* mixed = k.mix.data + ((size_t)t[{flags.MIX_ROW}] * 3) * n_envs + b;
    const int f = t[{flags.MIX_FIRST}];
    T x0 = gather(f, b), x1 = gather(f + 1, b), x2 = gather(f + 2, b);
    x = mixed[0] * x0 + mixed[n_envs] * x1 + mixed[2 * (size_t)n_envs] * x2;
}}
"""
"""Three columns, mixed into x by axis misalignment."""

IMPERFECT = f"""
{COLUMN}
T x = before.data[(size_t)(c - offset) * n_envs + b];
if (bits_set & {flags.MIX}) {{
    const float* mixed = k.mix.data + ((size_t)t[{flags.MIX_ROW}] * 3) * n_envs + b;
    const T* f = before.data + (size_t)(t[{flags.MIX_FIRST}] - offset) * n_envs + b;
    x = mixed[0] * f[0] + mixed[n_envs] * f[n_envs] + mixed[2 * (size_t)n_envs] * f[2 * (size_t)n_envs];
}}
{HARDWARE_STAGE}
if (FRESH) k.walk.data[cell] = 0.0f;
out.data[(size_t)(c - offset) * n_envs + b] = x;
"""
"""One element of the measured signal of a class with hooks."""
