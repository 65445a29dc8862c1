"""Timing parameters of sensors (rate, delay, jitter, drop-outs): checks, and writes per sensor and env.

The counterpart of ``parameters.py``, which does this for columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real

import torch

from sensorium.errors import OptionError
from sensorium.pipeline.flags import DELAYED, DROPOUT, HELD, LINEAR, RATE, SAME, STUCK
from sensorium.pipeline.parameters import Write, broadcast, check
from sensorium.pipeline.storage import TimingStore
from sensorium.worlds import upload

LIVE_TIMING = ("rate", "delay", "jitter", "dropout")
"""Timing parameters whose stored values are those of the options."""
RATE_TOLERANCE = 1e-6
"""Relative excess of a sample rate over the rate of ticks that counts as rounding."""


class TimingParameters:
    """Writes the timing of all sensors, and the flags by which the kernels skip unused stages.

    Args:
        store: tensors, one row per sensor.
        max_latency: seconds of delay and jitter that the ring of each sensor can hold.
        delayed: whether each sensor has a ring of sample times.
        linear: whether each sensor interpolates delayed readings.
        dt: seconds of one tick.

    Attributes:
        flags: flags of each sensor, as in ``store.flags``.
    """

    def __init__(
        self, store: TimingStore, max_latency: list[float], delayed: list[bool], linear: list[bool], dt: float
    ) -> None:
        self._dt = dt
        self._store = store
        self._max_latency = max_latency
        self._delayed = delayed
        self._linear = linear
        self._n_envs = store.due.shape[1]
        self._device = store.due.device
        self._used: set[tuple[int, str]] = set()
        self._varied: set[tuple[int, str]] = set()
        self._live: set[tuple[int, str]] = set()
        self._uniform: dict[tuple[int, str], float | None] = {}  # the value in all envs; None if it is not known
        self.flags = [0] * len(max_latency)

    def write(self, row: int, name: str, option: str, value: object, index: torch.Tensor | None) -> Write:
        """Return the checked write of one parameter of one sensor.

        Args:
            row: row of the sensor.
            name: one of ``TIMING_PARAMETERS``.
            option: name of the option, for error messages.
            value: a number, or one per env; None for 0.
            index: ids of the envs, (n,) int64; None for all.

        Raises:
            OptionError: the value cannot be used.
        """
        n_envs = self._n_envs if index is None else len(index)
        values = broadcast(option, 0.0 if value is None else value, 1, n_envs)
        check(option, values, lower=0.0, upper=1.0 if name == "dropout" else None)
        if name == "rate" and value is not None and values.device.type == "cpu":
            self._check_rate(option, values, value)
        if name == "stuck":  # failures per second, stored as the probability per tick
            values = -torch.expm1(-values * self._dt)
        return Write(self._store.parameter(name), slice(row, row + 1), index, values, lambda: None)

    def _check_rate(self, option: str, values: torch.Tensor, value: object) -> None:
        if bool((values == 0).any()):
            raise OptionError(f"{option} must be > 0, or None to sample in every step; got {value!r}")
        if float(values.max()) * self._dt > 1 + RATE_TOLERANCE:
            raise OptionError(
                f"{option}={float(values.max()):g} exceeds the {1 / self._dt:g} Hz at which this sensor is captured; "
                "construct it with a rate that is as high as the highest that you will set"
            )

    def check(self, row: int, owner: str, values: Mapping[str, object], index: torch.Tensor | None) -> None:
        """Check that new values of delay and jitter fit each other and the ring.

        Values that only the GPU knows are not validated. The kernels limit the lag to the ring.

        Args:
            row: row of the sensor.
            owner: name of the options class, for error messages.
            values: the parameters that are set.
            index: ids of the envs, (n,) int64; None for all.

        Raises:
            OptionError: jitter exceeds delay, or their sum exceeds the ring.
        """
        if not {"delay", "jitter"} & values.keys():
            return
        n_envs = self._n_envs if index is None else len(index)
        latency = {name: self._seconds(row, name, values, index, n_envs) for name in ("delay", "jitter")}
        delay, jitter = latency["delay"], latency["jitter"]
        if delay is not None and jitter is not None and bool((jitter > delay).any()):
            worst = int((jitter - delay).argmax())
            raise OptionError(
                f"{owner}.jitter must be <= delay, got jitter {jitter[worst]:g} s with delay {delay[worst]:g} s"
            )
        known = sum((each for each in (delay, jitter) if each is not None), torch.zeros(1))
        needed = float(known.max()) if known.numel() else 0.0
        if self._max_latency[row] == 0 and any(name in values and latency[name] is None for name in latency):
            raise OptionError(
                f"{owner}.delay: no memory was allocated for a delay; construct the sensor with max_delay"
            )
        if needed > self._max_latency[row] + 1e-9:
            raise OptionError(
                f"{owner}.delay: delay + jitter of {needed:g} s exceeds the {self._max_latency[row]:g} s that were "
                f"allocated; construct the sensor with max_delay={needed:g}"
            )

    def _seconds(
        self, row: int, name: str, values: Mapping[str, object], index: torch.Tensor | None, n_envs: int
    ) -> torch.Tensor | None:
        """Return seconds of delay or jitter in each of the envs ``index``, on the host; None if only the GPU knows."""
        if name in values:
            given = broadcast(name, 0.0 if values[name] is None else values[name], 1, n_envs)[0]
            given = given.cpu() if self._device.type == "cpu" else given
            return given.expand(n_envs) if given.device.type == "cpu" else None
        if self._device.type == "cpu":
            now = self._store.parameter(name)[row]
            return now if index is None else now[index]
        uniform = self._uniform.get((row, name))
        return None if uniform is None else torch.full((n_envs,), uniform, dtype=torch.float64)

    def live(self, row: int, name: str) -> torch.Tensor:
        """Return the live values of a parameter of one sensor, (1, B) float64, which may be written in place.

        From then on the kernels assume that they differ per env and are not 0, until ``note`` is told of other values.
        """
        self._live.add((row, name))
        self._varied.add((row, name))
        self._uniform[row, name] = None
        self._refresh(row)
        return self._store.parameter(name)[row : row + 1]

    def note(self, row: int, values: Mapping[str, object], index: torch.Tensor | None = None) -> None:
        """Update the flags of a sensor after ``values`` were written to the envs ``index``.

        On the CPU, flags say what the current values use. On the GPU, where reading them would synchronise, flags say
        what any values so far have used.
        """
        self._used |= {(row, name) for name, value in values.items() if value is not None and not _is_zero(value)}
        for name, value in values.items():
            number = float(value) if isinstance(value, Real) else 0.0 if value is None else None
            uniform = number if index is None else None
            (self._varied.add if uniform is None else self._varied.discard)((row, name))
            self._uniform[row, name] = uniform
            self._live.discard((row, name))
        self._refresh(row)

    def _refresh(self, row: int) -> None:
        """Update the flags of a sensor."""
        flags = (DELAYED if self._delayed[row] else 0) | (LINEAR if self._linear[row] else 0)
        flags |= 0 if any(varied == row for varied, _ in self._varied) else SAME
        for name, bit in (("rate", RATE), ("dropout", DROPOUT), ("stuck", STUCK)):
            if self._device.type == "cpu":
                used = bool((self._store.parameter(name)[row] > 0).any())
                used |= name == "stuck" and bool(self._store.stuck[row].any())  # until the reset
            else:
                used = (row, name) in self._used
            flags |= bit if used or (row, name) in self._live else 0
        if flags != self.flags[row]:
            self.flags[row] = flags
            if not flags & HELD:
                self._store.due[row] = True  # ticks no longer update it
            if not flags & (HELD | DELAYED):
                self._store.lag[row] = 0
                self._store.part[row] = 0.0
            self._store.flags[row : row + 1] = upload(torch.tensor([flags], dtype=torch.int32), self._device)


def _is_zero(value: object) -> bool:
    return isinstance(value, Real) and value == 0
