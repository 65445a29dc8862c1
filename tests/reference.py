"""The formula of the fused step (sensorium/pipeline/formula.py) in plain NumPy, written from its text.

It is slow and simple on purpose. It handles one sensor with C columns and B envs. Lists hold the whole past, so there
are no rings, indices or flags that could be wrong in the same way as in the kernels.
"""

import hashlib

import numpy as np

F = np.float32
U = np.uint32


def key(seed, uuid, element):
    digest = hashlib.blake2b(f"{seed}\0{uuid}\0{element}".encode(), digest_size=8).digest()
    return np.frombuffer(digest, "<u4")


def rotate(x, n):
    return (x << U(n)) | (x >> U(32 - n))


def threefry(k, c0, c1):
    """Return the Threefry2x32-20 words of arrays of uint32 counters."""
    with np.errstate(over="ignore"):
        k0, k1 = np.asarray(k[0], U), np.asarray(k[1], U)
        schedule = [k0, k1, k0 ^ k1 ^ U(0x1BD11BDA)]
        x0, x1 = c0 + k0, c1 + k1
        rotations = [13, 15, 26, 6, 17, 29, 16, 24]
        for r in range(20):
            x0 = x0 + x1
            x1 = rotate(x1, rotations[r % 8]) ^ x0
            if r % 4 == 3:
                i = r // 4 + 1
                x0 = x0 + schedule[i % 3]
                x1 = x1 + schedule[(i + 1) % 3] + U(i)
    return x0, x1


def horner(coefficients, z):
    p = np.full_like(z, F(coefficients[-1]))
    for c in reversed(coefficients[:-1]):
        p = p * z + F(c)
    return p


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
SINE = (1.5707963705062866, -0.6459637880325317, 0.07968991994857788, -0.004674143623560667, 0.00015167170204222202)


def log(u):
    mantissa, exponent = np.frexp(u)  # in [0.5, 1)
    small = mantissa < F(0.7071067690849304)
    mantissa = np.where(small, mantissa + mantissa, mantissa)
    exponent = np.where(small, exponent - 1, exponent).astype(F)
    z = mantissa - F(1)
    return horner(LOG, z) * z + exponent * F(0.6931471824645996)


def sine(q):
    return horner(SINE, q * q) * q


def normals(w0, w1):
    u = ((w0 >> U(9)).astype(F) + F(0.5)) * F(2.0**-23)
    q = ((w1 >> U(9)).astype(F) + F(0.5)) * F(2.0**-23)
    r = np.sqrt(F(-2) * log(u))
    n0, n1 = r * sine(q), r * sine(F(1) - q)
    return np.where(w1 & U(1), -n0, n0), np.where(w1 & U(2), -n1, n1)


def uniform(w):
    return (w >> U(8)).astype(np.float64) * 2.0**-24


def low_pass(bandwidth, order, dt, dtype=F):
    """Return coefficients of a first-order or Butterworth low-pass filter, by the bilinear transform."""
    if bandwidth is None or bandwidth * dt > 0.45:
        return None
    k = np.tan(np.pi * bandwidth * dt)
    if order == 1:
        taps = (k / (1 + k), k / (1 + k), 0.0, (k - 1) / (1 + k), 0.0)
    else:
        d = 1 + np.sqrt(2) * k + k**2
        taps = (k**2 / d, 2 * k**2 / d, k**2 / d, 2 * (k**2 - 1) / d, (1 - np.sqrt(2) * k + k**2) / d)
    return tuple(dtype(tap) for tap in taps)


def filter_start(bandwidth, order, dt):
    """Return the Cholesky factor (l11, l21, l22) of the covariance of the filter's state, for unit white noise.

    The covariance is the sum over all past inputs, until their effect has decayed.
    """
    taps = low_pass(bandwidth, order, dt, np.float64)
    if taps is None:
        return F(0), F(0), F(0)
    b0, b1, b2, a1, a2 = taps
    transition = np.array([[-a1, 1.0], [-a2, 0.0]])
    state = np.array([b1 - a1 * b0, b2 - a2 * b0])
    covariance = np.zeros((2, 2))
    while np.abs(state).max() > 1e-20:
        covariance += np.outer(state, state)
        state = transition @ state
    l11 = np.sqrt(covariance[0, 0])
    l21 = covariance[1, 0] / l11
    return F(l11), F(l21), F(np.sqrt(max(covariance[1, 1] - l21**2, 0.0)))


class Reference:
    """The readings of a sensor, computed from its ground truth. Parameters are arrays that broadcast to (C, B)."""

    def __init__(self, *, seed, uuid, shape, dt, dtype=F, **parameters):
        self.seed, self.uuid, self.shape, self.dt, self.dtype = seed, uuid, shape, dt, dtype
        defaults = {
            "noise": 0,
            "bias": 0,
            "random_walk": 0,
            "resolution": 0,
            "deadband": 0,
            "low": -np.inf,
            "high": np.inf,
        }
        further = {
            "scale_error": 0,
            "bias_spread": 0,
            "drift_size": 0,
            "drift_time": 100.0,
            "input_noise": 0,
            "temperature_drift": 0,
            "temperature": 25.0,
            "outliers": 0,
            "outlier_size": 0,
        }
        timing = {"rate": 0, "delay": 0, "jitter": 0, "dropout": 0, "stuck": 0}
        for name, value in (defaults | {k: v for k, v in parameters.items() if k in defaults}).items():
            scale = np.float64(dt) ** 0.5 if name == "random_walk" else 1.0
            value = np.asarray(value, np.float64) * scale
            setattr(self, name, np.broadcast_to(value, shape).astype(F))
        for name, value in (timing | {k: v for k, v in parameters.items() if k in timing}).items():
            setattr(self, name, np.broadcast_to(np.asarray(value, np.float64), shape[1:]))
        for name, value in (further | {k: v for k, v in parameters.items() if k in further}).items():
            value = np.asarray(value, np.float64)
            value = -np.expm1(-dt / value) if name == "drift_time" else value
            setattr(self, name, np.broadcast_to(value, shape).astype(F))
        self.decay = self.drift_time
        self.stuck = -np.expm1(-self.stuck * dt)
        self.filter = low_pass(parameters.get("bandwidth"), parameters.get("filter_order", 2), dt)
        self.start = filter_start(parameters.get("bandwidth"), parameters.get("filter_order", 2), dt)
        self.linear = parameters.get("interpolate", False) and bool((self.delay > 0).any())
        self.mix = parameters.get("mix")

    def reset(self, truth, episode, tick=0):
        """Begin an episode at a tick; returns the first reading."""
        n_envs = self.shape[1]
        self.episode, self.tick = episode, tick
        self.walk = np.zeros(self.shape, F)
        self.is_stuck = np.zeros(n_envs, bool)
        self.reading = self._sample(truth, advance=False)
        self.past = [[self.reading[:, b].copy()] * 400 for b in range(n_envs)]
        # per env: (tick, time of capture in ticks, time of arrival in ticks, value) of every sample
        self.samples = [[(tick, float(tick), float(tick), self.reading[:, b].copy())] for b in range(n_envs)]
        self.late = np.zeros(n_envs)
        self.captures = [[float(tick)] * 400 for _ in range(n_envs)]  # of the reading that is held, per tick
        return self.reading.copy()

    def samples_taken(self):
        """Return the number of the newest sample in the episode, per env."""
        per_tick = self.dt * self.rate
        every = (per_tick == 0) | (per_tick > 1 - 1e-6)
        return np.where(every, self.tick, np.floor(self.tick * per_tick + 1e-6)).astype(U)

    def words(self, element, lane=0, of_sample=False):
        envs = np.arange(self.shape[1], dtype=U)
        number = self.samples_taken() if of_sample else np.full_like(envs, self.tick)
        d0, d1 = threefry((envs, U(self.episode)), number, np.full_like(envs, 0x5E450))
        return threefry(key(self.seed, self.uuid, element), d0 ^ U(lane), d1)

    def age(self):
        """Return the age of what the last step returned, in seconds."""
        return np.array([self.tick - sample[1] for sample in self.read_from]) * self.dt

    def _sample(self, truth, advance):
        x = truth.astype(self.dtype)
        if self.mix is not None:
            m = np.asarray(self.mix, F)[..., None]
            x = np.stack([m[i, 0] * x[0] + m[i, 1] * x[1] + m[i, 2] * x[2] for i in range(3)])
        out = np.empty(self.shape, self.dtype)
        n0, f0, f1 = np.zeros((3, *self.shape), F)
        for c in range(self.shape[0]):
            n0[c], _ = normals(*self.words(c))
            f0[c], f1[c] = normals(*self.words(c, 2**29))
        x = self._respond(x + self.dtype(0), advance, n0, f0, f1)
        if not advance:
            self.offset, self.drift = np.zeros(self.shape, F), np.zeros(self.shape, F)
        for c in range(self.shape[0]):
            _, n1 = normals(*self.words(c))
            r0, _ = normals(*self.words(c, of_sample=True))
            x[c] = x[c] + self.scale_error[c] * x[c]
            if advance:
                self.walk[c] = self.walk[c] + self.random_walk[c] * n1
                m0, _ = normals(*self.words(c, 2**31))
                kick = self.drift_size[c] * np.sqrt(self.decay[c] * (F(2) - self.decay[c]))
                self.drift[c] = (self.drift[c] - self.decay[c] * self.drift[c]) + kick * m0
            else:
                e0, e1 = normals(*self.words(c, 3 * 2**30))
                self.offset[c], self.drift[c] = self.bias_spread[c] * e0, self.drift_size[c] * e1
            out[c] = ((x[c] + self.bias[c]) + self.walk[c]) + self.noise[c] * r0
            heat = self.temperature_drift[c] * (self.temperature[c] - F(25))
            out[c] = ((out[c] + self.offset[c]) + self.drift[c]) + heat
            o0, o1 = self.words(c, 2**30, of_sample=True)
            spike = np.where(o1 & U(1), -self.outlier_size[c], self.outlier_size[c])
            out[c] = np.where(self.outliers[c] > uniform(o0), out[c] + spike, out[c])
        out = np.where(np.abs(out) < self.deadband, self.dtype(0), out)
        with np.errstate(divide="ignore", invalid="ignore"):
            quantised = np.rint(out / self.resolution) * self.resolution
        out = np.where(self.resolution > 0, quantised, out).astype(self.dtype)
        return np.minimum(np.maximum(out, self.low), self.high).astype(self.dtype)

    def _respond(self, x, advance, n0, f0, f1):
        if self.filter is None:
            return x
        b0, b1, b2, a1, a2 = self.filter
        if not advance:
            self.z1 = self.z2 = np.full(x.shape, np.nan, F)
        starts, (l11, l21, l22) = np.isnan(self.z1), self.start
        noise, s1, s2 = self.input_noise, l11 * f0, l21 * f0 + l22 * f1
        g = b0 * n0 + s1
        v = x + noise * n0
        y = np.where(starts, x + noise * g, b0 * v + self.z1)
        z1 = np.where(starts, (F(1) - b0) * x + noise * ((b1 * n0 - a1 * g) + s2), (b1 * v - a1 * y) + self.z2)
        z2 = np.where(starts, (b2 - a2) * x + noise * (b2 * n0 - a2 * g), b2 * v - a2 * y)
        self.z1, self.z2 = z1.astype(F), z2.astype(F)
        return y

    def step(self, truth):
        """Make a tick; returns the reading."""
        self.tick += 1
        n = self.tick
        w0, w1 = self.words(-1, of_sample=True)
        v0, _ = self.words(-1, 2**31)
        sample = self._sample(truth, advance=True)
        out = np.empty(self.shape, self.dtype)
        self.read_from = []
        for b in range(self.shape[1]):
            p = self.dt * self.rate[b]
            every = p == 0 or p > 1 - 1e-6
            instant = np.floor(n * p + 1e-6)
            captured = every or instant > np.floor((n - 1) * p + 1e-6)
            captured = captured and not self.dropout[b] > uniform(w1[b])
            self.is_stuck[b] |= self.stuck[b] > uniform(v0[b])
            if captured and not self.is_stuck[b]:
                self.reading[:, b] = sample[:, b]
            self.past[b].append(self.reading[:, b].copy())
            latency = (self.delay[b] + uniform(w0[b]) * self.jitter[b]) * (1.0 / self.dt)
            if captured:
                offset = 0.0 if every else max(n - instant / p, 0.0)
                arrival = float(F(snapped(latency - offset)))
                self.samples[b].append((n, n - offset, n + arrival, self.reading[:, b].copy()))
                self.captures[b].append(n - offset)
            else:
                self.captures[b].append(self.captures[b][-1])
            if self.linear:
                late = max(snapped(min(latency, float(self.late[b]) + 1)), 0.0)
                whole = int(np.floor(late))
                part = F(late - whole)
                self.late[b] = whole + float(part)
                out[:, b] = self.past[b][-1 - whole] * (F(1) - part) + self.past[b][-2 - whole] * part
                newer, older = self.captures[b][-1 - whole], self.captures[b][-2 - whole]
                self.read_from.append((None, newer * (1 - float(part)) + older * float(part), None, None))
            else:
                newest = max((one for one in self.samples[b] if one[2] <= n), key=lambda one: one[0])
                out[:, b] = newest[3]
                self.read_from.append(newest)
        return out


def snapped(ticks):
    return np.rint(ticks) if abs(ticks - np.rint(ticks)) < 1e-6 else ticks
