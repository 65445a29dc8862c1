"""C++ of the shutter stage: weighted averages of sub-frames in linear light."""

from __future__ import annotations

from sensorium.cameras.imager.snippets.common import ENCODE

# a thread processes `many` values of one row; a row has `length` values, an env has `height` rows
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
    ENCODE
    + _ROW
    + """
for (long long i = start; i < start + many; ++i) out.data[i] = encode(total.data[i]);
"""
)
