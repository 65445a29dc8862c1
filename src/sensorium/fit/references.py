"""References: what a sensor should have read, from a pose log, another sensor or any trajectory, with the error."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike

from sensorium import poses, units
from sensorium._arguments import checked, checked_numbers
from sensorium.errors import OptionError
from sensorium.fit.logs import LogSource, SensorLog, as_log
from sensorium.fit.problems import Problem
from sensorium.fit.sampling import dropped_repeats, interpolation_step
from sensorium.fit.splines import SmoothingSpline
from sensorium.options import checked_integer

MAX_GAP = 0.1
"""Longest gap in a pose log that a spline bridges, s."""
MAX_STEP = 0.5
"""Longest time between poses whose derivatives are used, s."""
NOISE_WINDOW = 1.0
"""Length of the windows in which the noise of a reference is measured, s: motion capture is noisier in fast motion."""


class Expected(NamedTuple):
    """What a sensor should read, with the error of the reference. Rows are NaN where the reference has a gap."""

    values: np.ndarray
    """Expected readings, (n, k)."""
    std: np.ndarray
    """Standard deviation of their error, (n, k)."""


class Reference(Protocol):
    """What an IMU fit needs of a reference. All frames are the sensor's own, up to a constant rotation."""

    problems: list[Problem]

    def angular_rate(self, t: np.ndarray) -> Expected:
        """Return the angular rate at times (n,) s, (n, 3) rad/s."""
        ...

    def specific_force(self, t: np.ndarray, gravity: ArrayLike = units.STANDARD_GRAVITY) -> Expected:
        """Return the reading of an ideal accelerometer, (n, 3) m/s²."""
        ...

    def magnetic_field(self, t: np.ndarray, field: ArrayLike) -> Expected:
        """Return the magnetic field, (n, 3) in the unit of ``field``."""
        ...


class SignalReference:
    """Trajectory of any signal, e.g. joint positions or known distances, through a smoothing spline.

    Args:
        time: time stamps, (n,) s. Rows with NaN are skipped.
        values: (n, k) or (n,).
        max_gap: longest gap that is bridged, s.
        cutoff: smoothing frequency, Hz. Default: selected by cross-validation.

    Example:
        >>> joints = SignalReference(time, joint_pos)
        >>> velocity, error = joints(t, derivative=1)
    """

    @checked
    def __init__(
        self, time: ArrayLike, values: ArrayLike, max_gap: float = MAX_GAP, cutoff: float | None = None
    ) -> None:
        stamps, samples = checked_numbers("time", time), checked_numbers("values", values)
        if stamps.ndim != 1 or samples.ndim < 1:
            raise OptionError(f"a reference needs time (n,) and values (n, k), got {stamps.shape} and {samples.shape}")
        samples = samples.reshape(len(samples), math.prod(samples.shape[1:]))
        if len(stamps) != len(samples):
            raise OptionError(f"a reference needs one time stamp per row, got {len(stamps)} for {len(samples)} rows")
        self.problems: list[Problem] = []
        complete = np.isfinite(samples).all(axis=1) & np.isfinite(stamps)
        stamps, samples = stamps[complete], samples[complete]
        order = np.argsort(stamps, kind="stable")
        keep = order[np.r_[True, np.diff(stamps[order]) > 0]] if len(order) else order
        if len(keep) < 16:
            raise OptionError(f"a reference needs at least 16 complete rows, got {len(keep)}")
        stamps, samples = dropped_repeats(stamps[keep], samples[keep], self.problems)
        self.step = float(np.median(np.diff(stamps)))
        """Time between samples, s."""
        self.interpolated = interpolation_step(stamps, samples)
        """Time between the samples that the log was interpolated from linearly, s; None if it was not."""
        # linear interpolation of white noise has 1.5 times the density of noise of the same variance and step
        correlated = None if self.interpolated is None else 1.5 * self.interpolated
        self.spline = SmoothingSpline(stamps, samples, cutoff, correlated)
        self.max_gap = max(max_gap, 3 * self.step)
        gap = np.diff(stamps) > self.max_gap
        self.gaps = np.stack([stamps[:-1][gap], stamps[1:][gap]], axis=1)
        """Start and end of each gap that is not bridged, (m, 2) s."""
        self._level = self._noise_level()

    @property
    def time(self) -> np.ndarray:
        """Time stamps of the samples, (n,) s."""
        return self.spline.time

    def __call__(self, t: ArrayLike, derivative: int = 0) -> Expected:
        """Return the signal or its derivative 1 or 2 at times (n,) s, with its error; NaN in gaps."""
        values = np.where(self.valid(t)[:, None], self.smooth(t, derivative), np.nan)
        return Expected(values, self.level(t)[:, None] * self.spline.std(derivative))

    def level(self, t: ArrayLike) -> np.ndarray:
        """Return the noise around times (n,) s, relative to that of the whole reference, (n,)."""
        return np.interp(checked_numbers("t", t, ("n",)), *self._level)

    def smooth(self, t: ArrayLike, derivative: int = 0) -> np.ndarray:
        """Return the spline at times (n,) s, also in gaps, (n, k)."""
        t, derivative = checked_numbers("t", t, ("n",)), checked_integer("derivative", derivative, 0, 2)
        values = self.spline(t, derivative)
        if self.interpolated is not None:
            # linear interpolation adds h² / 12 times the second derivative on average: it cuts corners
            values -= self.interpolated**2 / 12 * self.spline(t, derivative + 2)
        return values

    def valid(self, t: ArrayLike) -> np.ndarray:
        """Return at which times the reference has samples on both sides, (n,) bool."""
        t = checked_numbers("t", t, ("n",))
        margin = 0.5 / self.spline.cutoff  # the error of a spline grows towards its ends
        inside = (t >= self.time[0] + margin) & (t <= self.time[-1] - margin)
        for start, stop in self.gaps:
            inside &= (t < start - margin) | (t > stop + margin)
        return np.asarray(inside)

    def _noise_level(self) -> tuple[np.ndarray, np.ndarray]:
        """Return times, and the size of the residuals in windows of 1 s around them, relative to all residuals."""
        parts = max(1, int(min((self.time[-1] - self.time[0]) / NOISE_WINDOW, len(self.time))))
        squares = np.mean((self.spline.residuals / np.maximum(self.spline.noise, 1e-30)) ** 2, axis=1)
        groups = [group for group in np.array_split(np.arange(len(squares)), parts) if len(group)]
        size = np.sqrt([squares[group].mean() for group in groups])
        total = np.sqrt(squares.mean()) or 1.0
        return np.array([self.time[group].mean() for group in groups]), np.clip(size / total, 0.2, 5.0)


class PoseReference:
    """Poses over time, from motion capture or a better sensor: rates and forces by smoothing splines.

    Args:
        time: time stamps, (n,) s, on the clock of the log.
        quat: orientations in the world, (n, 4) as (w, x, y, z). Rows with NaN are gaps.
        pos: positions in the world, (n, 3) m. Default: none; accelerations are then not available.
        quat_order: "wxyz" or "xyzw".
        max_gap: longest gap that a spline bridges, s.

    Example:
        >>> pose = PoseReference(time, quat, pos)
        >>> rate, error = pose.angular_rate(log.time)
    """

    @checked
    def __init__(
        self,
        time: ArrayLike,
        quat: ArrayLike,
        pos: ArrayLike | None = None,
        quat_order: str = "wxyz",
        max_gap: float = MAX_GAP,
    ) -> None:
        turns = checked_numbers("quat", quat, ("n", 4))
        stamps = checked_numbers("time", time, (len(turns),))
        if quat_order not in ("wxyz", "xyzw"):
            raise OptionError(f"quat_order must be 'wxyz' or 'xyzw', got {quat_order!r}")
        if quat_order == "xyzw":
            turns = np.roll(turns, 1, axis=1)
        self.quat_order = quat_order
        norm = np.linalg.norm(turns, axis=1)
        complete = np.isfinite(turns).all(axis=1) & (norm > 0.5)
        if not complete.any():
            raise OptionError("reference: quat has no row with a unit quaternion")
        self.problems: list[Problem] = []
        off = float(np.abs(norm[complete] - 1).max())
        if off > 0.01:
            text = f"quaternions have norms up to {off:.2g} away from 1; they are normalised"
            self.problems.append(Problem("reference.norm", text, "check the columns of quat"))
        turns = turns[complete] / norm[complete][:, None]
        flips = np.where(np.sum(turns[1:] * turns[:-1], axis=1) < 0, -1.0, 1.0)
        turns[1:] *= np.cumprod(flips)[:, None]
        self._turn = SignalReference(stamps[complete], turns, max_gap)
        self._place = None if pos is None else SignalReference(stamps, pos, max_gap)
        self._turn_noise = self._orientation_noise()
        self.problems += self._turn.problems
        if self._turn.step > MAX_STEP:
            text = f"the poses are {self._turn.step:.3g} s apart, which is too slow to differentiate them"
            fix = 'log poses at 50 Hz or more, or name the unit: units={"time": "ms"}, --reference-units time=ms'
            self.problems.append(Problem("reference.rate", text, fix, "reference"))
        self._note_gaps(stamps, complete)
        if self.interpolated is not None:
            rate = 1 / self.interpolated
            text = (
                f"the poses were interpolated linearly from {rate:.4g} Hz; the lost amplitude is corrected on average"
            )
            self.problems.append(Problem("reference.interpolated", text, "log the poses at their own rate"))

    @property
    def time(self) -> np.ndarray:
        """Time stamps of the complete poses, (n,) s."""
        return self._turn.time

    @property
    def interpolated(self) -> float | None:
        """Time between the poses that the log was interpolated from linearly, s; None if it was not."""
        return self._turn.interpolated

    @property
    def cutoff(self) -> float:
        """Frequency at which the smoothing of orientations halves a signal, Hz."""
        return self._turn.spline.cutoff

    @property
    def position_cutoff(self) -> float:
        """Frequency at which the smoothing of positions halves a signal, Hz."""
        return self._positions().spline.cutoff

    @property
    def has_position(self) -> bool:
        """Whether positions, and with them accelerations, are available."""
        return self._place is not None

    def valid(self, t: np.ndarray) -> np.ndarray:
        """Return at which times there are poses on both sides, (n,) bool."""
        return self._turn.valid(t) if self._place is None else self._turn.valid(t) & self._place.valid(t)

    def orientation(self, t: np.ndarray) -> np.ndarray:
        """Return unit quaternions (w, x, y, z), (n, 4), also in gaps."""
        turns = self._turn.smooth(t)
        return np.asarray(turns / np.linalg.norm(turns, axis=1, keepdims=True))

    def position(self, t: np.ndarray) -> np.ndarray:
        """Return positions, (n, 3) m, also in gaps."""
        return self._positions().smooth(t)

    def acceleration(self, t: np.ndarray) -> np.ndarray:
        """Return accelerations in the world, (n, 3) m/s², also in gaps."""
        return self._positions().smooth(t, 2)

    def angular_rate(self, t: np.ndarray) -> Expected:
        """Return the angular rate in the body frame at times (n,) s, (n, 3) rad/s; NaN in gaps."""
        times = checked_numbers("t", t, ("n",))
        values = np.where(self._turn.valid(times)[:, None], self._rotation(times, 1), np.nan)
        return Expected(values, self._turn.level(times)[:, None] * self._turn_noise * self._turn.spline.gain(1))

    def smooth_angular_rate(self, t: np.ndarray) -> np.ndarray:
        """Return the angular rate in the body frame, (n, 3) rad/s, also in gaps."""
        return self._rotation(t, 1)

    def angular_acceleration(self, t: np.ndarray) -> np.ndarray:
        """Return the angular acceleration in the body frame, (n, 3) rad/s², also in gaps."""
        return self._rotation(t, 2)

    def specific_force(
        self, t: np.ndarray, gravity: ArrayLike = units.STANDARD_GRAVITY, lever: ArrayLike | None = None
    ) -> Expected:
        """Return the reading of an ideal accelerometer on the body at times (n,) s, (n, 3) m/s²; NaN in gaps.

        Args:
            t: times, s.
            gravity: magnitude of gravity, m/s², with z up in the world; or the upward vector that an accelerometer
                reads at rest in the world, (3,).
            lever: position of the accelerometer relative to the tracked point, in the body frame, (3,) m.

        Raises:
            OptionError: the reference has no positions, or an argument has another shape.
        """
        times, place = checked_numbers("t", t, ("n",)), self._positions()
        up = checked_numbers("gravity", gravity, finite=True)
        up = checked_numbers("gravity", [0.0, 0.0, up] if up.ndim == 0 else up, (3,))
        arm = np.zeros(3) if lever is None else checked_numbers("lever", lever, (3,), finite=True)
        back = poses.conjugate(self.orientation(times))
        values = poses.rotate(back, place.smooth(times, 2) + up)
        if lever is not None:
            values = values + self.lever_matrix(times) @ arm
        values = np.where(self.valid(times)[:, None], values, np.nan)
        shake = float(np.sqrt(np.mean(place.spline.std(2) ** 2))) * place.level(times)
        noise = np.hypot(shake, self._tilt(times) * float(np.linalg.norm(up)))
        return Expected(values, np.repeat(noise[:, None], 3, axis=1))

    def lever_matrix(self, t: np.ndarray) -> np.ndarray:
        """Return K, (n, 3, 3) 1/s²: a lever arm r in the body frame adds K r to the specific force."""
        times = checked_numbers("t", t, ("n",))
        rate, change = self._rotation(times, 1), self._rotation(times, 2)
        turn = _cross_matrix(rate)
        return _cross_matrix(change) + turn @ turn

    def magnetic_field(self, t: np.ndarray, field: ArrayLike) -> Expected:
        """Return a constant field of the world, (3,), in the body frame at times (n,) s, (n, 3); NaN in gaps."""
        times, world = checked_numbers("t", t, ("n",)), checked_numbers("field", field, (3,), finite=True)
        values = poses.rotate(poses.conjugate(self.orientation(times)), world)
        values = np.where(self._turn.valid(times)[:, None], values, np.nan)
        noise = self._tilt(times) * float(np.linalg.norm(world))
        return Expected(values, np.repeat(noise[:, None], 3, axis=1))

    def _positions(self) -> SignalReference:
        if self._place is None:
            raise OptionError("the reference has no positions; add pos to it for the accelerometer")
        return self._place

    def _rotation(self, t: np.ndarray, derivative: int) -> np.ndarray:
        """Return the angular rate (1) or acceleration (2) in the body frame: twice the vector of q⁻¹ times dq/dt."""
        turns = self._turn.smooth(t)
        length = np.linalg.norm(turns, axis=1, keepdims=True)
        back = poses.conjugate(turns / length)
        return 2 * poses.multiply(back, self._turn.smooth(t, derivative) / length)[:, 1:]

    def _tilt(self, t: np.ndarray) -> np.ndarray:
        """Return the error of the smoothed orientation about an axis, (n,) rad."""
        return float(np.sqrt(np.mean(self._turn_noise**2))) * self._turn.spline.gain(0) * self._turn.level(t)

    def _orientation_noise(self) -> np.ndarray:
        """Return the standard deviation of the noise of the orientations about the body's axes, (3,) rad."""
        spline = self._turn.spline
        turns = spline(spline.time)
        tilt = 2 * poses.multiply(poses.conjugate(turns), spline.residuals)[:, 1:]
        scale = np.linalg.norm(spline.noise) / max(float(np.sqrt(np.mean(spline.residuals**2) * 4)), 1e-30)
        return np.sqrt(np.mean(tilt**2, axis=0)) * scale

    def _note_gaps(self, stamps: np.ndarray, complete: np.ndarray) -> None:
        gaps = self._turn.gaps
        missing = float(np.mean(~complete))
        if missing == 0 and len(gaps) == 0:
            return
        ends = max(0.0, float(self.time[0] - stamps[0])) + max(0.0, float(stamps[-1] - self.time[-1]))
        text = f"{100 * missing:.1f} % of the poses are missing"
        if ends > self._turn.max_gap:
            text += f", {ends:.1f} s at the ends, which are not used"
        if len(gaps):
            longest = max(float(stop - start) for start, stop in gaps)
            text += f", {len(gaps)} gaps of up to {longest:.2f} s, which are not used"
        else:
            text += f"; gaps inside are at most {self._turn.max_gap:.2g} s long and are bridged"
        self.problems.append(Problem("reference.gaps", text, "keep the markers in view of the cameras"))


class SensorReference:
    """A better sensor on the same body: its gyroscope, accelerometer and magnetometer, smoothed.

    Args:
        log: log of the sensor, on the clock of the other one.

    Example:
        >>> twin = sn.fit.imu(cheap_imu, reference=sn.fit.SensorReference(sn.fit.as_log("good_imu.h5")))
    """

    @checked
    def __init__(self, log: SensorLog) -> None:
        self.log, self.problems = log, list(log.problems)
        self._signals: dict[str, SignalReference] = {}

    def angular_rate(self, t: np.ndarray) -> Expected:
        """Return its angular rate at times (n,) s, (n, 3) rad/s."""
        return self._signal("gyro")(t)

    def specific_force(self, t: np.ndarray, gravity: ArrayLike = units.STANDARD_GRAVITY) -> Expected:
        """Return its acceleration at times (n,) s, (n, 3) m/s²; gravity is part of its readings."""
        return self._signal("acc")(t)

    def magnetic_field(self, t: np.ndarray, field: ArrayLike) -> Expected:
        """Return its magnetic field at times (n,) s, (n, 3); the field of the world is part of its readings."""
        return self._signal("mag")(t)

    def _signal(self, channel: str) -> SignalReference:
        if channel not in self._signals:
            self._signals[channel] = SignalReference(self.log.time, self.log.need(channel))
        return self._signals[channel]


def as_reference(source: object, quat_order: str = "wxyz") -> PoseReference | SensorReference:
    """Return a reference of an IMU: poses if the source has quaternions, otherwise another sensor.

    Args:
        source: a reference, which is returned as it is; a log, arrays or a file, as :func:`as_log` takes them.
        quat_order: order of the quaternions in the source, "wxyz" or "xyzw".

    Raises:
        OptionError: the source has neither poses nor readings of an IMU.
    """
    if isinstance(source, PoseReference | SensorReference):
        return source
    log = as_log(cast("LogSource", source))  # as_log checks its type
    if "quat" in log.channels:
        return PoseReference(log.time, log.channels["quat"], log.channels.get("pos"), quat_order)
    if {"gyro", "acc", "mag"} & log.channels.keys():
        return SensorReference(log)
    raise OptionError(
        f"reference: {log.source} has neither 'quat' nor 'gyro', 'acc' or 'mag'; it has {', '.join(log.channels)}"
    )


def _cross_matrix(vectors: np.ndarray) -> np.ndarray:
    """Return the matrices (n, 3, 3) whose product with a vector is the cross product."""
    x, y, z = vectors[:, 0], vectors[:, 1], vectors[:, 2]
    zero = np.zeros_like(x)
    return np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=1).reshape(-1, 3, 3)
