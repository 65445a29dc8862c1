"""C++ of the colour stage: lens, exposure, shot and read noise, quantisation, white balance."""

from __future__ import annotations

import math

from sensorium.cameras.imager.lens import FIELDS
from sensorium.cameras.imager.snippets.common import ENCODE, PIXELS, draw_words
from sensorium.pipeline.warp_snippets import NORMALS

DARK = 16
"""Number of electrons below which shot noise is drawn from the Poisson distribution itself."""
MAX_DARK = 63
"""Maximum number of electrons that is drawn if fewer than ``DARK`` are expected; more has a probability of 1e-17."""


def _exp_minus() -> str:
    """Return C++ of exp(-x) for x in [0, 100]: a power of two by the exponent bits, the rest by a Taylor series."""
    terms = [(-math.log(2)) ** i / math.factorial(i) for i in range(9)]
    series = repr(terms[-1]) + "f"
    for term in reversed(terms[:-1]):
        series = f"({series} * part + {term!r}f)"
    return f"""
auto exp_minus = [](float x) -> float {{
    float twos = x * {1 / math.log(2)!r}f;
    int whole = (int)twos;
    float part = twos - (float)whole;
    union {{ int i; float f; }} power;
    power.i = (127 - whole) << 23;
    return {series} * power.f;
}};
"""


COLOR = (
    PIXELS
    + ENCODE
    + _exp_minus()
    + f"""
const float* over = k.reciprocal.data;
const unsigned char* in = src.data + source * 3;
unsigned char* o = out.data + target * 3;
const float* decode = k.decode.data;
float v[3][LANES];
if (k.moved) {{
    const float cx = k.intrinsics.data[4 * env + 2], cy = k.intrinsics.data[4 * env + 3];
    const bool one = k.red == 0.0f && k.blue == 0.0f;
    int corner[LANES], right[LANES], below[LANES];
    float w[4][LANES];
    for (int c = 0; c < 3; ++c) {{
        const float more = c == 0 ? k.red : (c == 2 ? k.blue : 0.0f);
        if (c == 0 || !one) {{
            for (int i = 0; i < n; ++i) {{
                const float mx = map[{FIELDS} * i], my = map[{FIELDS} * i + 1];
                float px = mx + (mx - cx) * more, py = my + (my - cy) * more;
                const bool seen = (px >= -0.5f) & (px < (float)SW - 0.5f) & (py >= -0.5f) & (py < (float)SH - 0.5f);
                px = px < 0.0f ? 0.0f : (px > (float)(SW - 1) ? (float)(SW - 1) : px);
                py = py < 0.0f ? 0.0f : (py > (float)(SH - 1) ? (float)(SH - 1) : py);
                const int left = (int)px, top = (int)py;
                const float fx = px - (float)left, fy = py - (float)top, light = seen ? 1.0f : 0.0f;
                corner[i] = (top * SW + left) * 3;
                right[i] = left + 1 < SW ? 3 : 0;
                below[i] = top + 1 < SH ? SW * 3 : 0;
                w[0][i] = (1.0f - fx) * (1.0f - fy) * light;
                w[1][i] = fx * (1.0f - fy) * light;
                w[2][i] = (1.0f - fx) * fy * light;
                w[3][i] = fx * fy * light;
            }}
        }}
        for (int i = 0; i < n; ++i) {{
            const unsigned char* a = in + corner[i] + c;
            const unsigned char* d = a + below[i];
            v[c][i] = ((decode[a[0]] * w[0][i] + decode[a[right[i]]] * w[1][i]) + decode[d[0]] * w[2][i])
                + decode[d[right[i]]] * w[3][i];
        }}
    }}
}} else {{
    const unsigned char* line = in + ((size_t)(y + k.top) * SW + k.left + x0) * 3;
    for (int c = 0; c < 3; ++c)
        for (int i = 0; i < n; ++i) v[c][i] = decode[line[3 * i + c]];
}}
for (int c = 0; c < 3; ++c)
    for (int i = 0; i < n; ++i) v[c][i] = v[c][i] * k.exposure;
if (k.shaded) {{
    for (int c = 0; c < 3; ++c)
        for (int i = 0; i < n; ++i) v[c][i] = v[c][i] * map[{FIELDS} * i + 2];
}}
if (k.noisy) {{
    const unsigned key0 = (unsigned)k.key0 ^ (unsigned)k.draw.data[2 * env];
    const unsigned key1 = (unsigned)k.key1 ^ (unsigned)k.draw.data[2 * env + 1];
    const float reading = k.read_noise;
    float normal[4][LANES];
    for (int call = 0; call < 2; ++call) {{
        for (int i = 0; i < n; ++i) {{
            {draw_words("call", "y * W + x0 + i")}
            float n0, n1;
            {NORMALS}
            normal[2 * call][i] = n0;
            normal[2 * call + 1][i] = n1;
        }}
    }}
    float mean[3][LANES];
    int dark = 0;
    for (int c = 0; c < 3; ++c) {{
        for (int i = 0; i < n; ++i) {{
            const float e = v[c][i] * k.electrons, g = normal[c][i];
            const float variance = e + reading * reading;
            mean[c][i] = e;
            dark |= e < {DARK}.0f ? 1 : 0;
            v[c][i] = (e + wp::sqrt(variance) * g) + e / (6.0f * variance) * (g * g - 1.0f);
        }}
    }}
    if (dark) {{
        unsigned word[4][LANES];
        for (int call = 2; call < 4; ++call) {{
            for (int i = 0; i < n; ++i) {{
                {draw_words("call", "y * W + x0 + i")}
                word[2 * call - 4][i] = w0;
                word[2 * call - 3][i] = w1;
            }}
        }}
        for (int c = 0; c < 3; ++c) {{
            float none[LANES];
            for (int i = 0; i < n; ++i) none[i] = exp_minus(mean[c][i] < {DARK}.0f ? mean[c][i] : 0.0f);
            for (int i = 0; i < n; ++i) {{
                const float e = mean[c][i];
                if (e >= {DARK}.0f) continue;
                const float chance = ((float)(int)(word[c][i] >> 8) + 0.5f) * {2.0**-24!r}f;
                float p = none[i], sum = p;
                int count = 0;
                while (chance > sum && count < {MAX_DARK}) {{
                    count += 1;
                    p = p * (e * over[count]);
                    sum = sum + p;
                }}
                v[c][i] = (float)count + reading * normal[c][i];
            }}
        }}
    }}
    for (int c = 0; c < 3; ++c) {{
        for (int i = 0; i < n; ++i) {{
            float number = wp::rint(v[c][i] * k.per_electron);
            number = number < 0.0f ? 0.0f : (number > k.full_scale ? k.full_scale : number);
            v[c][i] = number / k.full_scale;
        }}
    }}
}}
for (int c = 0; c < 3; ++c) {{
    const float gain = c == 0 ? k.gain_red : (c == 1 ? k.gain_green : k.gain_blue);
    for (int i = 0; i < n; ++i) {{
        const float light = v[c][i] > 1.0f ? 1.0f : v[c][i];  // pixels saturate before the gains
        o[3 * i + c] = encode(light * gain);
    }}
}}
"""
)
