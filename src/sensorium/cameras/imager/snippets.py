"""The bodies of the imager's kernels, in C++: one source for the CPU, where a thread does ``LANES`` pixels of a row in
loops that the compiler turns into vector instructions, and for the GPU, where it does one.

All arithmetic is float32 ``+ - * / sqrt rint``, without fused multiply-add, and tables, so every device gives the same
bits. ``k`` is the frame (see ``kernels.py``); a thread does ``n`` pixels from column ``x0`` of row ``y`` of env
``env``.
"""

from __future__ import annotations

import math

from sensorium.cameras.imager.lens import FIELDS
from sensorium.pipeline.warp_snippets import NORMALS, THREEFRY

LANES = 64
"""Pixels a thread on the CPU."""
DARK = 16
"""Electrons below which shot noise is drawn from Poisson's distribution itself."""
MOST = 63
"""Electrons that are never exceeded where ``DARK`` are expected: chance 1e-17."""
LINEAR_STEPS = 4095
"""Cells of the table from linear light to sRGB."""
NO_PIXEL = -1
"""What shadow maps hold where nothing is seen."""
DISPARITY_BITS = 256
"""Fractions of a pixel in shadow maps."""

_PIXELS = f"""
const int W = k.width, H = k.height;
const int env = row / H, y = row % H;
if (!k.mask.data[env]) return;
#if defined(__CUDA_ARCH__)
const int LANES = 1;
#else
const int LANES = {LANES};
#endif
const int x0 = chunk * LANES;
const int n = W - x0 < LANES ? W - x0 : LANES;
const int SW = k.source_width, SH = k.source_height;
const size_t source = (size_t)env * SH * SW, target = ((size_t)env * H + y) * W + x0;
const float* map = k.map.data + (size_t)env * k.map_stride + (size_t)(y * W + x0) * {FIELDS};
"""

_ENCODE = f"""
auto encode = [&](float light) -> unsigned char {{
    light = light < 0.0f ? 0.0f : (light > 1.0f ? 1.0f : light);
    int code = k.guess.data[(int)(light * {LINEAR_STEPS}.0f)];
    return (unsigned char)(code + (light >= k.thresholds.data[code] ? 1 : 0));
}};
"""

# where an output pixel lies in the source: px, py; false where it shows nothing
_NEAREST = f"""
auto nearest = [&](int i, int& px, int& py) -> bool {{
    if (!k.moved) {{ px = x0 + i + k.left; py = y + k.top; return true; }}
    const float fx = map[{FIELDS} * i], fy = map[{FIELDS} * i + 1];
    if (fx < -1.0f) return false;
    px = (int)(fx + 0.5f); py = (int)(fy + 0.5f);
    px = px > SW - 1 ? SW - 1 : px; py = py > SH - 1 ? SH - 1 : py;
    return true;
}};
"""


def _words(call: str, pixel: str) -> str:
    """C++ that draws (w0, w1) of this env, step and pixel; ``call`` tells draws for the same pixel apart."""
    return f"""
    const unsigned k0 = key0 + (unsigned)env, k1 = key1 + (unsigned)({call});
    const unsigned b = (unsigned)({pixel});
    {THREEFRY}
    """


def _exp_minus() -> str:
    """C++ of exp(-x) for x in [0, 100]: the power of two by the exponent's bits, the rest by Taylor's series."""
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
    _PIXELS
    + _ENCODE
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
    const unsigned key0 = (unsigned)k.key0, key1 = (unsigned)k.key1, step = (unsigned)k.step.data[0];
    const float reading = k.read_noise;
    float normal[4][LANES];
    for (int call = 0; call < 2; ++call) {{
        for (int i = 0; i < n; ++i) {{
            {_words("call", "y * W + x0 + i")}
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
                {_words("call", "y * W + x0 + i")}
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
                while (chance > sum && count < {MOST}) {{
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
        const float light = v[c][i] > 1.0f ? 1.0f : v[c][i];  // the imager is full before the gains
        o[3 * i + c] = encode(light * gain);
    }}
}}
"""
)

# values of 32 bits of any kind, `components` a pixel
MOVE = (
    _PIXELS
    + _NEAREST
    + """
for (int i = 0; i < n; ++i) {
    int px, py;
    const bool seen = nearest(i, px, py);
    for (int c = 0; c < components; ++c)
        out.data[(target + i) * components + c] =
            seen ? src.data[(source + (size_t)py * SW + px) * components + c] : fill;
}
"""
)

# the nearest surface (largest disparity) that each pixel of the second imager sees, by row of the source
SHADOW = f"""
const int SW = k.source_width, SH = k.source_height;
const int env = row / SH;
if (!k.mask.data[env]) return;
const float reach = k.intrinsics.data[4 * env] * d.baseline;
const float* z = src.data + (size_t)row * SW;
int* seen = shadow.data + (size_t)row * SW;
if (!(z[x] > 0.0f) || z[x] > 1e30f) return;
auto mark = [&](int at, int value) {{
    if (at < 0 || at >= SW) return;
#if defined(__CUDA_ARCH__)
    atomicMax(seen + at, value);
#else
    seen[at] = seen[at] > value ? seen[at] : value;
#endif
}};
const float disparity = reach / z[x];
const int value = (int)((disparity < 0.0f ? -disparity : disparity) * {DISPARITY_BITS}.0f);
const int at = (int)wp::floor((float)x - disparity + 0.5f);
mark(at, value);
if (x + 1 < SW && z[x + 1] > 0.0f && z[x + 1] < 1e30f) {{  // a surface that is seen stretched has no gaps
    const float other = reach / z[x + 1];
    if ((int)wp::floor((float)(x + 1) - other + 0.5f) == at + 2 && other - disparity < 1.0f && disparity - other < 1.0f)
        mark(at + 1, value);
}}
"""

DEPTH = (
    _PIXELS
    + _NEAREST
    + f"""
const unsigned key0 = (unsigned)d.key0, key1 = (unsigned)d.key1, step = (unsigned)k.step.data[0];
const float* in = src.data + source;
float normal[LANES];
if (d.noisy) {{
    for (int i = 0; i < n; ++i) {{
        {_words("0", "y * W + x0 + i")}
        float n0, n1;
        {NORMALS}
        normal[i] = n0;
    }}
}}
const float reach = k.intrinsics.data[4 * env] * d.baseline, far = reach < 0.0f ? -reach : reach;
const float square = d.square + (d.disparity_noise > 0.0f ? d.disparity_noise / far : 0.0f);
for (int i = 0; i < n; ++i) {{
    float* reading = out.data + target + i;
    *reading = 0.0f;
    int px, py;
    if (!nearest(i, px, py)) continue;
    const float* at = in + (size_t)py * SW + px;
    float z = *at;
    if (!(z > 0.0f) || z > 1e30f) continue;
    if (d.edge_dropout > 0.0f) {{
        bool edge = false;
        for (int s = 1; s <= d.edge_width; ++s) {{
            auto jumps = [&](float other) -> bool {{
                const float nearer = z < other ? z : other, gap = z < other ? other - z : z - other;
                return gap > nearer * d.edge_threshold;
            }};
            edge |= px >= s && jumps(at[-s]);
            edge |= px + s < SW && jumps(at[s]);
            edge |= py >= s && jumps(at[-(long long)s * SW]);
            edge |= py + s < SH && jumps(at[(long long)s * SW]);
        }}
        if (edge) {{
            {_words("1", "y * W + x0 + i")}
            if (d.edge_dropout > (float)(int)(w0 >> 8) * {2.0**-24!r}f) continue;
        }}
    }}
    if (d.shadowed) {{
        const float disparity = reach / z;
        const int other = (int)wp::floor((float)px - disparity + 0.5f);
        if (other < k.left || other >= k.left + W) continue;  // beyond the edge of the second image
        const float own = (disparity < 0.0f ? -disparity : disparity) * {DISPARITY_BITS}.0f;
        if ((float)shadow.data[source + (size_t)py * SW + other] > own + {DISPARITY_BITS}.0f) continue;
    }}
    if (d.noisy) z = z + (d.constant + z * (d.linear + z * square)) * normal[i];
    if (d.disparity_step > 0.0f) z = far / (wp::rint(far / z / d.disparity_step) * d.disparity_step);
    if (z > 0.0f && z < 1e30f && z >= d.min_range && z <= d.max_range) *reading = z;
}}
"""
)

# -- compression -------------------------------------------------------------------------------------------------------


def _cosines(transposed: bool) -> str:
    """The matrix of the discrete cosine transform of 8 samples, as C++."""
    basis = [
        [math.cos((2 * j + 1) * i * math.pi / 16) * (0.5 if i else math.sqrt(0.125)) for j in range(8)]
        for i in range(8)
    ]
    rows = list(zip(*basis, strict=True)) if transposed else basis
    return ",".join("{" + ",".join(f"{value!r}f" for value in row) + "}" for row in rows)


# one 8x8 block of luma, or of blue or red difference; blocks of an env: luma's, then blue's, then red's
BLOCK = f"""
const float C[8][8] = {{{_cosines(False)}}}, D[8][8] = {{{_cosines(True)}}};
const int W = j.width, H = j.height;
if (!j.mask.data[env]) return;
const int luma_wide = (W + 7) / 8, luma = luma_wide * ((H + 7) / 8);
const int half = j.half, plane_wide = half ? (W + 1) / 2 : W, plane_high = half ? (H + 1) / 2 : H;
const int wide = (plane_wide + 7) / 8, many = wide * ((plane_high + 7) / 8);
const int plane = block < luma ? 0 : (block < luma + many ? 1 : 2);
const int own = plane == 0 ? block : (block - luma) % many, across = plane == 0 ? luma_wide : wide;
const int bx = own % across, by = own / across;
const unsigned char* in = image.data + (size_t)env * H * W * 3;
const float red = plane == 0 ? 0.299f : (plane == 1 ? -0.168735892f : 0.5f);
const float green = plane == 0 ? 0.587f : (plane == 1 ? -0.331264108f : -0.418687589f);
const float blue = plane == 0 ? 0.114f : (plane == 1 ? 0.5f : -0.081312411f);
const float offset = plane == 0 ? -128.0f : 0.0f;  // of samples around 0
auto sample = [&](int x, int y) -> float {{  // beyond the edge, the edge again
    const unsigned char* p = in + ((size_t)(y < H ? y : H - 1) * W + (x < W ? x : W - 1)) * 3;
    return wp::rint((red * (float)p[0] + green * (float)p[1]) + blue * (float)p[2]) + offset;
}};
float a[8][8], t[8][8];
if (plane == 0 || !half) {{
    for (int y = 0; y < 8; ++y)
        for (int x = 0; x < 8; ++x) a[y][x] = sample(bx * 8 + x, by * 8 + y);
}} else {{
    for (int y = 0; y < 8; ++y) {{
        const int sy = 2 * (by * 8 + y);
        for (int x = 0; x < 8; ++x) {{
            const int sx = 2 * (bx * 8 + x);
            const float sum = (sample(sx, sy) + sample(sx + 1, sy)) + (sample(sx, sy + 1) + sample(sx + 1, sy + 1));
            a[y][x] = wp::floor((sum + (float)(1 + (x & 1))) * 0.25f);
        }}
    }}
}}
const float* q = j.quantum.data + (plane == 0 ? 0 : 64);
for (int u = 0; u < 8; ++u) {{
    for (int x = 0; x < 8; ++x) t[u][x] = 0.0f;
    for (int y = 0; y < 8; ++y)
        for (int x = 0; x < 8; ++x) t[u][x] += C[u][y] * a[y][x];
}}
for (int u = 0; u < 8; ++u) {{
    float f[8];
    for (int w = 0; w < 8; ++w) f[w] = 0.0f;
    for (int x = 0; x < 8; ++x)
        for (int w = 0; w < 8; ++w) f[w] += t[u][x] * D[x][w];
    for (int w = 0; w < 8; ++w) a[u][w] = wp::rint(f[w] / q[8 * u + w]) * q[8 * u + w];
}}
for (int y = 0; y < 8; ++y) {{
    for (int w = 0; w < 8; ++w) t[y][w] = 0.0f;
    for (int u = 0; u < 8; ++u)
        for (int w = 0; w < 8; ++w) t[y][w] += C[u][y] * a[u][w];
}}
for (int y = 0; y < 8; ++y) {{
    for (int x = 0; x < 8; ++x) a[y][x] = 0.0f;
    for (int w = 0; w < 8; ++w)
        for (int x = 0; x < 8; ++x) a[y][x] += t[y][w] * C[w][x];
}}
unsigned char* o = planes.data + ((size_t)env * (luma + 2 * many) + block) * 64;
for (int y = 0; y < 8; ++y) {{
    for (int x = 0; x < 8; ++x) {{
        float s = wp::rint(a[y][x] + 128.0f);
        s = s < 0.0f ? 0.0f : (s > 255.0f ? 255.0f : s);
        o[8 * y + x] = (unsigned char)s;
    }}
}}
"""

# one row of 8 pixels from the planes; half resolution is interpolated 3 to 1 along both axes
EXPAND = """
const int W = j.width, H = j.height;
const int env = row / H, y = row % H;
if (!j.mask.data[env]) return;
const int luma_wide = (W + 7) / 8, luma = luma_wide * ((H + 7) / 8);
const int half = j.half, plane_wide = half ? (W + 1) / 2 : W, plane_high = half ? (H + 1) / 2 : H;
const int wide = (plane_wide + 7) / 8, many = wide * ((plane_high + 7) / 8);
const unsigned char* base = planes.data + (size_t)env * (luma + 2 * many) * 64;
const unsigned char* blue = base + (size_t)luma * 64;
const unsigned char* red = blue + (size_t)many * 64;
const unsigned char* lines = base + ((size_t)(y / 8) * luma_wide + chunk) * 64 + (y % 8) * 8;
unsigned char* o = image.data + (((size_t)env * H + y) * W + chunk * 8) * 3;
const int n = W - chunk * 8 < 8 ? W - chunk * 8 : 8;
for (int i = 0; i < n; ++i) {
    const int x = chunk * 8 + i;
    float cb, cr;
    if (half) {
        const int cx = x / 2, cy = y / 2;
        int nx = x & 1 ? cx + 1 : cx - 1, ny = y & 1 ? cy + 1 : cy - 1;
        nx = nx < 0 ? 0 : (nx < plane_wide ? nx : plane_wide - 1);
        ny = ny < 0 ? 0 : (ny < plane_high ? ny : plane_high - 1);
        auto place = [&](int px, int py) -> int { return ((py / 8) * wide + px / 8) * 64 + (py % 8) * 8 + px % 8; };
        const int p00 = place(cx, cy), p10 = place(nx, cy), p01 = place(cx, ny), p11 = place(nx, ny);
        const int round = x & 1 ? 7 : 8;
        cb = (float)((9 * blue[p00] + 3 * (blue[p10] + blue[p01]) + blue[p11] + round) >> 4);
        cr = (float)((9 * red[p00] + 3 * (red[p10] + red[p01]) + red[p11] + round) >> 4);
    } else {
        const int place = ((y / 8) * wide + chunk) * 64 + (y % 8) * 8 + i;
        cb = (float)blue[place];
        cr = (float)red[place];
    }
    cb -= 128.0f; cr -= 128.0f;
    const float light = (float)lines[i];
    float color[3] = {light + 1.402f * cr, light - 0.344136286f * cb - 0.714136286f * cr, light + 1.772f * cb};
    for (int c = 0; c < 3; ++c) {
        float s = wp::rint(color[c]);
        s = s < 0.0f ? 0.0f : (s > 255.0f ? 255.0f : s);
        o[3 * i + c] = (unsigned char)s;
    }
}
"""

# -- shutter: frames of the renderer, averaged -------------------------------------------------------------------------

# a thread does `many` values of one row; `length` values are a row, `height` rows an env
_ROW = """
const long long start = (long long)t * many, row = start / length;
if (!mask.data[row / height]) return;
"""

ACCUMULATE = (
    _ROW
    + """
const float weight = weights.data[row % height];
if (!first && weight == 0.0f) return;
for (long long i = start; i < start + many; ++i) {
    const float light = decode.data[frame.data[i]] * weight;
    total.data[i] = first ? light : total.data[i] + light;
}
"""
)

DEVELOP = (
    _ENCODE
    + _ROW
    + """
for (long long i = start; i < start + many; ++i) out.data[i] = encode(total.data[i]);
"""
)
