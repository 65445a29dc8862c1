"""Sizes and prologues that the snippets of all stages share."""

from __future__ import annotations

from sensorium.pipeline import flags

N_COLUMN_FIELDS, N_RETURN_FIELDS, N_EXTRA = map(len, (flags.COLUMN_NAMES, flags.RETURN_NAMES, flags.EXTRA_NAMES))

LANES, THREADS = 4, 128
"""Envs that a thread of the fused step handles at once (one 16-byte access), and threads in a block of it."""

COLUMN = f"""
const int n_envs = k.n_envs;
const int* t = k.table.data + c * {N_COLUMN_FIELDS};
const int bits_set = t[{flags.FLAGS}], s = t[{flags.SENSOR}];
const size_t plane = (size_t)k.n_columns * n_envs;
"""
"""Look-ups at the start of every snippet of a column c."""
