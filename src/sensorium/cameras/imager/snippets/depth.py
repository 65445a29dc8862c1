"""C++ of the depth stage: stereo shadows, drop-outs, noise and range."""

from __future__ import annotations

from sensorium.cameras.imager.snippets.common import NEAREST, PIXELS, draw_words
from sensorium.pipeline.warp_snippets import NORMALS

NO_SURFACE = -1
"""Value of shadow maps where no surface is seen."""
DISPARITY_STEPS = 256
"""Steps per pixel of the disparities in shadow maps."""

# the nearest surface (largest disparity) that each pixel of the second imager sees; one thread per source pixel
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
const int value = (int)((disparity < 0.0f ? -disparity : disparity) * {DISPARITY_STEPS}.0f);
const int at = (int)wp::floor((float)x - disparity + 0.5f);
mark(at, value);
if (x + 1 < SW && z[x + 1] > 0.0f && z[x + 1] < 1e30f) {{  // no gaps in a surface that appears stretched
    const float other = reach / z[x + 1];
    if ((int)wp::floor((float)(x + 1) - other + 0.5f) == at + 2 && other - disparity < 1.0f && disparity - other < 1.0f)
        mark(at + 1, value);
}}
"""

DEPTH = (
    PIXELS
    + NEAREST
    + f"""
const unsigned key0 = (unsigned)d.key0 ^ (unsigned)k.draw.data[2 * env];
const unsigned key1 = (unsigned)d.key1 ^ (unsigned)k.draw.data[2 * env + 1];
const float* in = src.data + source;
float normal[LANES];
if (d.noisy) {{
    for (int i = 0; i < n; ++i) {{
        {draw_words("0", "y * W + x0 + i")}
        float n0, n1;
        {NORMALS}
        normal[i] = n0;
    }}
}}
const float fx = k.intrinsics.data[4 * env], focal = d.focal > 0.0f ? d.focal : fx;
const float reach = fx * d.baseline;  // disparity times depth, in pixels of the image
const float far = focal * (d.baseline < 0.0f ? -d.baseline : d.baseline);  // the same in pixels of the imager
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
            {draw_words("1", "y * W + x0 + i")}
            if (d.edge_dropout > (float)(int)(w0 >> 8) * {2.0**-24!r}f) continue;
        }}
    }}
    if (d.shadowed) {{
        const float disparity = reach / z;
        const int other = (int)wp::floor((float)px - disparity + 0.5f);
        if (other < k.left || other >= k.left + W) continue;  // beyond the edge of the second image
        const float own = (disparity < 0.0f ? -disparity : disparity) * {DISPARITY_STEPS}.0f;
        if ((float)shadow.data[source + (size_t)py * SW + other] > own + {DISPARITY_STEPS}.0f) continue;
    }}
    if (d.noisy) z = z + (d.constant + z * (d.linear + z * square)) * normal[i];
    if (d.disparity_step > 0.0f) z = far / (wp::rint(far / z / d.disparity_step) * d.disparity_step);
    if (z > 0.0f && z < 1e30f && z >= d.min_range && z <= d.max_range) *reading = z;
}}
"""
)
