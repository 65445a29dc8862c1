"""C++ of the compression stage: JPEG's transform, quantisation and chroma subsampling."""

from __future__ import annotations

import math


def _cosines(transposed: bool) -> str:
    """Return the matrix of the discrete cosine transform of 8 samples, as C++."""
    basis = [
        [math.cos((2 * j + 1) * i * math.pi / 16) * (0.5 if i else math.sqrt(0.125)) for j in range(8)]
        for i in range(8)
    ]
    rows = list(zip(*basis, strict=True)) if transposed else basis
    return ",".join("{" + ",".join(f"{value!r}f" for value in row) + "}" for row in rows)


# one 8x8 block of luma, or of blue or red difference; the blocks of an env are luma's, then blue's, then red's
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
const float offset = plane == 0 ? -128.0f : 0.0f;  // centres the samples on 0
auto sample = [&](int x, int y) -> float {{  // edge pixels are repeated beyond the edge
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

# one row of 8 pixels from the planes; chroma at half resolution is interpolated 3 to 1 along both axes
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
