"""Timing parameters (rate, delay, jitter, drop-outs): checked, written per sensor and env; the counterpart of
``parameters.py`` for columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from sensorium.errors import OptionError
from sensorium.pipeline.flags import DELAYED, DROPOUT, HELD, LINEAR, RATE, SAME, STUCK
from sensorium.pipeline.parameters import Write, broadcast, check, upload
from sensorium.pipeline.storage import TimingStore


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
        """A new delay and jitter must fit each other and the ring. On a GPU they pass unseen, and lags are cut off."""
        if not {"delay", "jitter"} & values.keys() or self._device.type != "cpu":
            return
        n_envs = self._n_envs if index is None else len(index)
        late = {}
        for name in ("delay", "jitter"):
            now = self._store.parameter(name)[row]
            now = now if index is None else now[index]
            given = 0.0 if values.get(name) is None else values[name]
            late[name] = broadcast(name, given, 1, n_envs)[0].to(now.device).expand(n_envs) if name in values else now
        if bool((late["jitter"] > late["delay"]).any()):
            worst = int((late["jitter"] - late["delay"]).argmax())
            raise OptionError(
                f"{owner}.jitter must not exceed delay: got jitter {late['jitter'][worst]:g} s with delay "
                f"{late['delay'][worst]:g} s"
            )
        most = float((late["delay"] + late["jitter"]).max())
        if most > self._max_late[row] + 1e-9:
            raise OptionError(
                f"{owner}.delay: delay + jitter of {most:g} s exceeds the {self._max_late[row]:g} s that were "
                f"allocated; construct the sensor with max_delay={most:g}"
            )

    def note(self, row: int, values: Mapping[str, Any], index: torch.Tensor | None = None) -> None:
        """Renew the flags of a sensor after ``values`` were written to the envs ``index``.

        They tell what is there, or on a GPU, where looking would wait, what ever was.
        """
        self._used |= {(row, name) for name, value in values.items() if value is not None and not _is_zero(value)}
        for name, value in values.items():
            same = index is None and (value is None or isinstance(value, int | float))
            (self._varied.discard if same else self._varied.add)((row, name))
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
    return isinstance(value, int | float) and value == 0
