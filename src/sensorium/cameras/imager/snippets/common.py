"""C++ that several stages share: a thread's pixels, the lens map, sRGB encoding, random words."""

from __future__ import annotations

from sensorium.cameras.imager.lens import FIELDS
from sensorium.pipeline.warp_snippets import THREEFRY

LANES = 64
"""Pixels per thread on the CPU."""
LINEAR_STEPS = 4095
"""Cells of the table from linear light to sRGB."""

# indices of the thread's pixels; returns from the kernel if the env is not selected
PIXELS = f"""
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

# encode(light): the sRGB value of linear light, by the table and one comparison
ENCODE = f"""
auto encode = [&](float light) -> unsigned char {{
    light = light < 0.0f ? 0.0f : (light > 1.0f ? 1.0f : light);
    int code = k.guess.data[(int)(light * {LINEAR_STEPS}.0f)];
    return (unsigned char)(code + (light >= k.thresholds.data[code] ? 1 : 0));
}};
"""

# nearest(i, px, py): the source pixel (px, py) that the output pixel x0 + i shows; false if it shows nothing
NEAREST = f"""
auto nearest = [&](int i, int& px, int& py) -> bool {{
    if (!k.moved) {{ px = x0 + i + k.left; py = y + k.top; return true; }}
    const float fx = map[{FIELDS} * i], fy = map[{FIELDS} * i + 1];
    if (fx < -1.0f) return false;
    px = (int)(fx + 0.5f); py = (int)(fy + 0.5f);
    px = px > SW - 1 ? SW - 1 : px; py = py > SH - 1 ? SH - 1 : py;
    return true;
}};
"""


def draw_words(call: str, pixel: str) -> str:
    """Return C++ that draws the random words (w0, w1) of this env, its current draw, and pixel.

    ``call`` distinguishes several draws for the same pixel.
    """
    return f"""
    const unsigned k0 = key0, k1 = key1 + (unsigned)({call});
    const unsigned d0 = (unsigned)({pixel}), d1 = 0;
    {THREEFRY}
    """
