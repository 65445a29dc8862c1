"""C++ of gathering: the raw signal of a column from the engine's sensor data."""

from __future__ import annotations

from sensorium.pipeline import flags
from sensorium.pipeline.warp_snippets.tables import COLUMN, N_COLUMN_FIELDS

GATHER_FUNCTION = f"""
auto gather = [&](int j, int b) -> T {{
    const int* g = k.table.data + j * {N_COLUMN_FIELDS};
    const int op = g[{flags.OP}], count = g[{flags.COUNT}];
    const int* from = k.sources.data + g[{flags.FIRST}];
    const float* env = k.data.data + b;
    if (op == {flags.GATHER_NONE}) return v.truth.data[(size_t)j * n_envs + b];
    if (op == {flags.GATHER_COPY}) return (T)env[(size_t)from[0] * n_envs];
    if (op == {flags.GATHER_TIME}) return (T)((double)k.tick.data[b] * k.dt);
    if (op == {flags.GATHER_ROTATE}) {{
        float fx = 0.0f, fy = 0.0f, fz = 0.0f;
        for (int i = 0; i < count; ++i) {{
            const float* f = env + (size_t)from[i] * n_envs;
            fx += f[0]; fy += f[n_envs]; fz += f[2 * (size_t)n_envs];
        }}
        const float* o = env + (size_t)g[{flags.QUAT}] * n_envs;
        float w = o[0], x = o[n_envs], y = o[2 * (size_t)n_envs], z = o[3 * (size_t)n_envs];
        if (g[{flags.AXIS}] == 0)
            return (T)((1.0f - 2 * (y * y + z * z)) * fx + 2 * (x * y + w * z) * fy + 2 * (x * z - w * y) * fz);
        if (g[{flags.AXIS}] == 1)
            return (T)(2 * (x * y - w * z) * fx + (1.0f - 2 * (x * x + z * z)) * fy + 2 * (y * z + w * x) * fz);
        return (T)(2 * (x * z + w * y) * fx + 2 * (y * z - w * x) * fy + (1.0f - 2 * (x * x + y * y)) * fz);
    }}
    float value = env[(size_t)from[0] * n_envs];
    for (int i = 1; i < count; ++i) value = value + env[(size_t)from[i] * n_envs];
    return (T)value;
}};
"""
"""A function that returns the raw signal of column j and env b."""

GATHER = (
    f"{COLUMN}{GATHER_FUNCTION}"
    "v.truth.data[(size_t)c * n_envs + b] = gather(c, b); (void)bits_set; (void)s; (void)plane;"
)
"""One element of the raw signal of a class with hooks."""
