"""Timing parameters (rate, delay, jitter, drop-outs): checked, written per sensor and env; the counterpart of
``parameters.py`` for columns."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import torch

from sensorium.errors import OptionError
from sensorium.pipeline.flags import DELAYED, DROPOUT, HELD, LINEAR, RATE, SAME, STUCK
from sensorium.pipeline.parameters import Write, broadcast, check
from sensorium.pipeline.storage import TimingStore
from sensorium.worlds import upload


class TimingParameters:
    """The timing of all sensors, with the flags that let the kernels skip what is not used.

    Args:
        store: one row a sensor.
        max_late: seconds of delay and jitter that each sensor's ring has room for.
        linear: whether each sensor interpolates when it is late.
        dt: seconds of a step.
    """

    def __init__(self, store: TimingStore, max_late: list[float], linear: list[bool], dt: float) -> None:
        self._dt = dt
        self._store = store
        self._max_late = max_late
        self._linear = linear
        self._n_envs = store.due.shape[1]
        self._device = store.due.device
        self._used: set[tuple[int, str]] = set()
        self._varied: set[tuple[int, str]] = set()
        self._told: dict[tuple[int, str], float | None] = {}  # of all envs; None where that is not known
        self.flags = [0] * len(max_late)

    @property
    def timed(self) -> bool:
        """Whether any sensor has a rate, a delay, drop-outs or sticks."""
        return any(flags & (HELD | DELAYED) for flags in self.flags)

    def write(self, row: int, name: str, option: str, value: Any, index: torch.Tensor | None) -> Write:
        """The checked write of one parameter of one sensor; None means none of it."""
        n_envs = self._n_envs if index is None else len(index)
        given = broadcast(option, 0.0 if value is None else value, 1, n_envs)
        check(option, given, least=0.0, most=1.0 if name == "dropout" else None)
        if name == "rate" and value is not None and given.device.type == "cpu" and bool((given == 0).any()):
            raise OptionError(f"{option} must be greater than 0, or None for every step; got {value!r}")
        if name == "stuck":  # a rate per second, kept as a probability per step
            given = -torch.expm1(-given * self._dt)
        return Write(self._store.parameter(name), slice(row, row + 1), index, given, lambda: None)

    def check(self, row: int, owner: str, values: Mapping[str, Any], index: torch.Tensor | None) -> None:
        """A new delay and jitter must fit each other and the ring. What only a GPU knows passes: lags are cut off."""
        if not {"delay", "jitter"} & values.keys():
            return
        n_envs = self._n_envs if index is None else len(index)
        late = {name: self._late(row, name, values, index, n_envs) for name in ("delay", "jitter")}
        delay, jitter = late["delay"], late["jitter"]
        if delay is not None and jitter is not None and bool((jitter > delay).any()):
            worst = int((jitter - delay).argmax())
            raise OptionError(
                f"{owner}.jitter must not exceed delay: got jitter {jitter[worst]:g} s with delay {delay[worst]:g} s"
            )
        known = sum((each for each in (delay, jitter) if each is not None), torch.zeros(1))
        most = float(known.max()) if known.numel() else 0.0
        if self._max_late[row] == 0 and any(name in values and late[name] is None for name in late):
            raise OptionError(
                f"{owner}.delay: no memory was allocated for a delay; construct the sensor with max_delay"
            )
        if most > self._max_late[row] + 1e-9:
            raise OptionError(
                f"{owner}.delay: delay + jitter of {most:g} s exceeds the {self._max_late[row]:g} s that were "
                f"allocated; construct the sensor with max_delay={most:g}"
            )

    def _late(
        self, row: int, name: str, values: Mapping[str, Any], index: torch.Tensor | None, n_envs: int
    ) -> torch.Tensor | None:
        """Seconds of delay or jitter in each of the envs ``index``, on the host; None where only the GPU knows."""
        if name in values:
            given = broadcast(name, 0.0 if values[name] is None else values[name], 1, n_envs)[0]
            given = given.cpu() if self._device.type == "cpu" else given
            return given.expand(n_envs) if given.device.type == "cpu" else None
        if self._device.type == "cpu":
            now = self._store.parameter(name)[row]
            return now if index is None else now[index]
        told = self._told.get((row, name))
        return None if told is None else torch.full((n_envs,), told, dtype=torch.float64)

    def note(self, row: int, values: Mapping[str, Any], index: torch.Tensor | None = None) -> None:
        """Renew the flags of a sensor after ``values`` were written to the envs ``index``.

        They tell what is there, or on a GPU, where looking would wait, what ever was.
        """
        self._used |= {(row, name) for name, value in values.items() if value is not None and not _is_zero(value)}
        for name, value in values.items():
            same = index is None and (value is None or isinstance(value, Real))
            (self._varied.discard if same else self._varied.add)((row, name))
            self._told[row, name] = float(value or 0.0) if same else None
        flags = (DELAYED if self._max_late[row] > 0 else 0) | (LINEAR if self._linear[row] else 0)
        flags |= 0 if any(varied == row for varied, _ in self._varied) else SAME
        for name, bit in (("rate", RATE), ("dropout", DROPOUT), ("stuck", STUCK)):
            if self._device.type == "cpu":
                used = bool((self._store.parameter(name)[row] > 0).any())
                used |= name == "stuck" and bool(self._store.stuck[row].any())  # until the reset
            else:
                used = (row, name) in self._used
            flags |= bit if used else 0
        if flags != self.flags[row]:
            self.flags[row] = flags
            if not flags & HELD:
                self._store.due[row] = True  # no step renews it from now on
            self._store.flags[row : row + 1] = upload(torch.tensor([flags], dtype=torch.int32), self._device)


def _is_zero(value: Any) -> bool:
    return isinstance(value, Real) and value == 0
