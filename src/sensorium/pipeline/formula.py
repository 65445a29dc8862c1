"""The formula of the fused step. Every implementation follows it bit by bit.

The Numba kernels (``kernels``) compute it on the CPU, the Warp kernels (``warp_snippets``) on the GPU. The tests
compare both with a plain NumPy reference (``tests/reference.py``). All arithmetic is IEEE float32 (float64 for sensors
of that dtype, and for times), one operation at a time in the order written here. Only comparisons and
``+ - * / sqrt rint floor ceil`` are used, and no fused multiply-add, so that every device gives the same bits.

**Random words.** A random number depends only on (seed, uuid, element, env, episode, sample in the episode). What
changes between samples (walk, drift, a filter with input noise, sticking) depends on the tick instead of the sample. A
tick is a step, or a substep for sensors that are captured at substeps. n counts the ticks of the episode: at a reset
it is 0, and at another restart it follows from the simulated time. j numbers the samples: sample j of a sensor with a
rate is captured at j / rate; without a rate j = n. ``(d0, d1)`` and ``(s0, s1)`` are the draws of the tick and of the
sample; they are computed once per tick and env, and with a rate once per sensor. ``key`` is an 8-byte BLAKE2b hash of
seed, uuid and element::

    (d0, d1) = threefry2x32_20((env, episode), (n, DRAW))
    (s0, s1) = threefry2x32_20((env, episode), (j, DRAW))
    (w0, w1) = threefry2x32_20(key, (d0, d1)), or of (s0, s1)

**Normals**, two from one pair of words (the Box-Muller transform on a quarter circle)::

    u = ((w0 >> 9) + 0.5) * 2^-23           in (0, 1), exact
    r = sqrt(-2 * log(u))                   log: exponent and a polynomial, see LOG
    q = ((w1 >> 9) + 0.5) * 2^-23
    n0 = r * sine(q)     sign: bit 0 of w1  sine(q) = sin(q * pi / 2) = q * polynomial(q * q), see SINE
    n1 = r * sine(1 - q) sign: bit 1 of w1

``(n0, n1)`` are the normals of the tick, and ``r0`` is the first one of the sample. Without a rate r0 = n0.

**Further words**, for columns with imperfections that need them, with the same key: ``(m0, m1)`` are the normals of
``(d0 ^ GAUSS_MARKOV, d1)``, ``(o0, o1)`` are the words of ``(s0 ^ OUTLIER, s1)``. At a reset, ``(e0, e1)`` are the
normals of ``(d0 ^ RESET, d1)``. Where a filter starts, ``(f0, f1)`` are the normals of ``(d0 ^ FILTER, d1)``.

**Timing**, per sensor and env, in float64. All times are in ticks of dt seconds, n is the tick, p = dt * rate::

    k        = floor(n * p + EPS)           the last sampling instant, k / rate
    j        = k; n without a rate, and if p > 1 - EPS
    due      = k > floor((n - 1) * p + EPS); always true without a rate, and if p > 1 - EPS
    offset   = max(n - k / p, 0)            time since the instant; 0 without a rate, and if p > 1 - EPS
    captured = due, and not dropout > (w1 >> 8) * 2^-24      words of the sensor's own key and of the sample
    stuck    = stuck or chance > (v0 >> 8) * 2^-24           words v of (d0 ^ GAUSS_MARKOV, d1)
    latency  = (delay + (w0 >> 8) * 2^-24 * jitter) * (1 / dt)
    arrives  = latency - offset             time from this tick to the arrival; rint of it if it is closer than EPS

where chance = 1 - exp(-dt * failures per s). ``arrives`` of a sample that was not captured is infinite. A sample of a
ticks ago has arrived if arrives <= a. The reading is the newest sample that has arrived. With ``interpolate`` it is
mixed from the snapshots of floor(late) and floor(late) + 1 ticks ago instead, where
late = min(latency, late of the previous tick + 1), and rint of it if it is closer than EPS. A snapshot without a sample
of its own holds the one before: its offset is that of the snapshot before + 1. The age of an interpolated reading is
mixed like the reading, from the ages of the two captures.

**Reading**, per column and env, from the measured signal ``x`` before the hardware stage::

    x       = x + 0                         turns -0 into 0
    x       = x + input_noise * n0          noise before the low-pass filter; both if the column has them
    y       = b0 * x + z1
    z1, z2  = (b1 * x - a1 * y) + z2, b2 * x - a2 * y
    x       = y + scale_error * y
    walk    = walk + random_walk * n1       random_walk is the option times sqrt(dt)
    x       = ((x + bias) + walk) + noise * r0
    drift   = (drift - decay * drift) + drift_size * sqrt(decay * (2 - decay)) * m0
    x       = ((x + offset) + drift) + temperature_drift * (temperature - 25)
    x       = x + outlier_size, or x - outlier_size where bit 0 of o1 is set, if outliers > (o0 >> 8) * 2^-24
    x       = 0 where |x| < deadband
    x       = rint(x / resolution) * resolution, where resolution > 0
    x       = min(max(x, low), high)
    reading = x if captured and not stuck, else the previous reading

At a reset walk is 0, offset = bias_spread * e0 and drift = drift_size * e1. The filter starts at rest at the signal x
before the input noise, plus its stationary response g to that noise. ``l`` is the Cholesky factor of the covariance of
(z1, z2) for an input of unit noise::

    s1, s2  = l11 * f0, l21 * f0 + l22 * f1
    g       = b0 * n0 + s1
    z1      = (1 - b0) * x + input_noise * ((b1 * n0 - a1 * g) + s2)
    z2      = (b2 - a2) * x + input_noise * (b2 * n0 - a2 * g)
    y       = x + input_noise * g

The filter also starts this way whenever z1 is NaN: at the first sample after its bandwidth was set, which makes z1 NaN,
and after a sample that was not finite.
"""

import hashlib
import math

LOG = (
    1.0,
    -0.4999999701976776,
    0.33334192633628845,
    -0.250013530254364,
    0.19955933094024658,
    -0.1657799333333969,
    0.14977401494979858,
    -0.14269258081912994,
    0.08533313125371933,
)
"""log(1 + z) / z on [sqrt(1/2) - 1, sqrt(2) - 1], coefficients of 1, z, z², ...; error below 1.3e-7."""

SINE = (
    1.5707963705062866,
    -0.6459637880325317,
    0.07968991994857788,
    -0.004674143623560667,
    0.00015167170204222202,
)
"""sin(q * pi / 2) / q as a polynomial in q² on [0, 1]; error below 1.4e-7."""

SQRT_HALF = 0.7071067690849304
LOG_2 = 0.6931471824645996
ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
"""Rotation constants of Threefry2x32; round r uses number r % 8."""
PARITY = 0x1BD11BDA
"""Threefry's key-schedule constant."""
EPS = 1e-6
"""Tolerance in ticks for the rounding of times, so that a sampling instant is not missed."""

DRAW = 0x5E450
"""Second word of the counter from which the draw of a tick or a sample is computed."""
GAUSS_MARKOV, OUTLIER, RESET, FILTER = 1 << 31, 1 << 30, 3 << 30, 1 << 29
"""Bits that are flipped in the first word of the draw for further words."""
TEMPERATURE = 25.0
"""Temperature in °C at which the temperature drift is 0."""

TIMING = -1
"""Element number of a sensor's timing (jitter, drop-outs, sticking) in its random key. Columns are 0, 1, ..."""


def key(seed: int, uuid: str, element: int | str) -> tuple[int, int]:
    """Return the Threefry key of one element of one sensor: two 32-bit words.

    Args:
        seed: the scene's seed.
        uuid: the sensor's uuid.
        element: number of the column, ``TIMING``, or a name for draws of a sensor class.
    """
    digest = hashlib.blake2b(f"{seed}\0{uuid}\0{element}".encode(), digest_size=8).digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")


def delay_slots(latency: float, dt: float) -> int:
    """Return the age in ticks at which a sample with a latency of ``latency`` seconds is first read."""
    return max(0, math.ceil(latency / dt - EPS))
