"""C++ of the lens alone, for 32-bit values of any kind that cannot be mixed, ``components`` per pixel."""

from __future__ import annotations

from sensorium.cameras.imager.snippets.common import NEAREST, PIXELS

REMAP = (
    PIXELS
    + NEAREST
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
