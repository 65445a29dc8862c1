"""C++ of the random numbers: Threefry words, and normals from them, as ``formula.py`` defines them."""

from __future__ import annotations

import numpy as np

from sensorium.pipeline import formula


def literal(value: float) -> str:
    """Return a C++ literal of the float32 nearest to a value."""
    return f"{float(np.float32(value))!r}f"


def _horner(coefficients: tuple[float, ...], z: str) -> str:
    """Return C++ that evaluates a polynomial, with the coefficient of 1 first, at the expression ``z``."""
    text = literal(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        text = f"({text} * {z} + {literal(coefficient)})"
    return text


def _threefry() -> str:
    """C++ that turns key (k0, k1) and counter (d0, d1) into words (w0, w1)."""
    lines = [f"unsigned k2 = k0 ^ k1 ^ {formula.PARITY}u;", "unsigned w0 = d0 + k0, w1 = d1 + k1;"]
    for turn in range(20):
        r = formula.ROTATIONS[turn % 8]
        lines.append(f"w0 += w1; w1 = ((w1 << {r}) | (w1 >> {32 - r})) ^ w0;")
        if turn % 4 == 3:
            i = turn // 4 + 1
            lines.append(f"w0 += k{i % 3}; w1 += k{(i + 1) % 3} + {i}u;")
    return "\n".join(lines)


def words(name: str, lane: int, draw: str = "k.draw.data") -> str:
    """Return C++ that computes further words of column c and env b, called ``name`` 0 and 1; see ``formula.py``.

    Args:
        name: name of the words.
        lane: bits that are flipped in the first word of the draw.
        draw: C++ expression of the draws, (2, B): of this tick, or of the newest sample.
    """
    return f"""
    unsigned {name}0, {name}1;
    {{
        const unsigned k0 = (unsigned)k.key.data[2 * c], k1 = (unsigned)k.key.data[2 * c + 1];
        const unsigned d0 = (unsigned)({draw})[b] ^ {lane}u, d1 = (unsigned)({draw})[n_envs + b];
        {THREEFRY}
        {name}0 = w0; {name}1 = w1;
    }}
    """


NORMALS = f"""
float u = ((float)(int)(w0 >> 9) + 0.5f) * {2.0**-23!r}f;
float q = ((float)(int)(w1 >> 9) + 0.5f) * {2.0**-23!r}f;
union {{ float f; int i; }} bits;
bits.f = u;
int exponent = (bits.i >> 23) - 126;
bits.i = (bits.i & 0x7FFFFF) | 0x3F000000;
float m = bits.f;
if (m < {literal(formula.SQRT_HALF)}) {{ m = m + m; exponent -= 1; }}
float z = m - 1.0f;
float log_u = {_horner(formula.LOG, "z")} * z + (float)exponent * {literal(formula.LOG_2)};
float radius = wp::sqrt(-2.0f * log_u);
float q1 = 1.0f - q, t0 = q * q, t1 = q1 * q1;
n0 = radius * ({_horner(formula.SINE, "t0")} * q);
n1 = radius * ({_horner(formula.SINE, "t1")} * q1);
if (w1 & 1u) n0 = -n0;
if (w1 & 2u) n1 = -n1;
"""
"""C++ that turns the words (w0, w1) into the normals n0 and n1, which must be declared before."""

THREEFRY = _threefry()
"""C++ that turns the key (k0, k1) and the counter (d0, d1) into the words (w0, w1)."""
