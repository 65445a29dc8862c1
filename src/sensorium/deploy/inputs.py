"""Inputs of a policy: the samples of sensors in the order of their arrival, and values of the caller per decision."""

from __future__ import annotations

import numpy as np

from sensorium.deploy.contract import VECTOR, ObservationTerm
from sensorium.deploy.messages import Message, converter
from sensorium.errors import OptionError, SensoriumError, StaleInputError

SAME_TIME = 1e-6
"""Times that differ by less count as equal, s: a sample arrives in time for a decision at that instant."""
_N_UNUSED = 64
"""Number of samples that no decision needs anymore, from which on they are removed."""
DEFAULT_PERIODS = 2.5
"""A term is stale if it is older than its largest latency and this many sample periods."""


class SensorInput:
    """The samples of one term, newest last. Samples that were captured before one that arrived earlier are ignored.

    Args:
        term: the term.
        topic: topic of its messages on the robot.
        limit: age at which it is stale, s. Default: its largest latency in training and 2.5 sample periods.

    Attributes:
        limit: age at which it is stale, s.
        count: number of messages so far.
    """

    def __init__(self, term: ObservationTerm, topic: str, limit: float | None = None) -> None:
        self.term, self.topic = term, topic
        self.limit = term.latency.max + DEFAULT_PERIODS / term.rate if limit is None else limit
        self._convert = converter(term)
        self._kept = max(term.ages) + max(self.limit, 1.0)
        self._identity = term.scale == 1.0 and term.offset == 0.0 and term.clip is None
        self.clear()

    def clear(self) -> None:
        """Forget all samples."""
        self.count = self._n_not_finite = 0
        self._arrivals: list[float] = []
        self._captures: list[float] = []
        self._values: list[np.ndarray] = []

    def read(self, message: Message, arrival: float) -> np.ndarray | None:
        """Return the values of a message for :meth:`add`; None if it is a JointState of other joints.

        Raises:
            OptionError: the message has another shape or type, or arrived before the message before it.
            NameNotFoundError: the message lacks the field, or some of the joints.
        """
        self.count += 1
        if self._arrivals and arrival < self._arrivals[-1]:
            raise OptionError(
                f"{self._describe()}: message {self.count} arrived at {arrival:.6f} s, before the message before it at "
                f"{self._arrivals[-1]:.6f} s; call reset() if the clock was set back"
            )
        try:
            return self._convert(message)
        except SensoriumError as error:
            raise type(error)(f"{self._describe()}, message {self.count}: {error}") from None
        except (KeyError, AttributeError, IndexError, TypeError, ValueError, OverflowError, RuntimeError) as error:
            raise OptionError(
                f"{self._describe()}, message {self.count}: the field {self.term.field!r} cannot be read: {error!r}"
            ) from None

    def add(self, values: np.ndarray, capture: float, arrival: float) -> None:
        """Add a sample. One with a value that is not finite counts as lost, as if it had not arrived."""
        if self.term.no_return is not None:
            values = np.where(np.isfinite(values), values, np.float32(self.term.no_return))
        if not np.isfinite(values).all():
            self._n_not_finite += 1
            return
        if self._captures and capture < self._captures[-1]:
            return
        self._n_not_finite = 0
        if not self._identity:
            values = values * np.float32(self.term.scale) + np.float32(self.term.offset)
            if self.term.clip is not None:
                low, high = self.term.clip
                values = np.clip(values, low, high)
        self._arrivals.append(arrival)
        self._captures.append(capture)
        self._values.append(values.reshape(-1) if self.term.input == VECTOR else values)
        if len(self._arrivals) > _N_UNUSED and self._arrivals[_N_UNUSED] < arrival - self._kept:
            for each in (self._arrivals, self._captures, self._values):
                del each[:_N_UNUSED]

    @property
    def has_sample(self) -> bool:
        """Whether a sample has arrived."""
        return bool(self._arrivals)

    def age(self, now: float) -> float | None:
        """Return the time since the capture of the newest sample that has arrived, s, or None if there is none."""
        index = self._newest(now)
        return None if index < 0 else now - self._captures[index]

    def fill(self, now: float, out: np.ndarray) -> None:
        """Write the readings at the ages of the term into ``out``, (history, size).

        Readings before the first sample are that sample, as after a reset in training.

        Raises:
            StaleInputError: no sample has arrived, or the newest one is too old.
        """
        index = self._newest(now)
        if index < 0:
            raise StaleInputError(
                f"{self._describe()}: no message has arrived{self._lost()}; publish {self.term.message} there, or pass "
                f"topics={{{self.term.topic!r}: ...}}",
                self.term.name,
                self.topic,
                None,
                self.limit,
            )
        age = now - self._captures[index]
        if age > self.limit + SAME_TIME:
            raise StaleInputError(
                f"{self._describe()} is stale: its newest sample is {age:.3f} s old, and the limit is {self.limit:.3f} "
                f"s{self._lost()}; check that it is published at {self.term.rate:g} Hz, or raise stale_after",
                self.term.name,
                self.topic,
                age,
                self.limit,
            )
        arrivals, values, newest, last = self._arrivals, self._values, index, 0.0
        for row, before in enumerate(self.term.ages):
            if before < last:
                index = newest
            last, latest = before, now - before + SAME_TIME
            while index > 0 and arrivals[index] > latest:
                index -= 1
            out[row] = values[index]

    def image(self, now: float) -> np.ndarray:
        """Return the newest image, with the checks of :meth:`fill`."""
        out = np.empty((1, *self.term.shape), self.term.dtype)
        self.fill(now, out)
        return out

    def _newest(self, now: float) -> int:
        index = len(self._arrivals) - 1
        while index >= 0 and self._arrivals[index] > now + SAME_TIME:
            index -= 1
        return index

    def _lost(self) -> str:
        n = self._n_not_finite
        return f" ({n} message{'s' * (n > 1)} with NaN, infinity or no unit quaternion not counted)" if n else ""

    def _describe(self) -> str:
        return f"the term {self.term.name!r} of the topic {self.topic!r}"


class DecisionInput:
    """Values of one term that are given at each decision: a command, or the action of the decision before.

    Args:
        term: the term.
        rate: decisions per second, Hz.
    """

    def __init__(self, term: ObservationTerm, rate: float) -> None:
        self.term = term
        self._rows = [round(age * rate) for age in term.ages]
        self.clear()

    def clear(self) -> None:
        """Forget all values."""
        self._values: list[np.ndarray] = []

    def read(self, value: object) -> np.ndarray:
        """Return the value of a decision as an array for :meth:`fill`.

        Raises:
            OptionError: it has another shape or is not finite.
        """
        term = self.term
        try:
            values = np.asarray(value, dtype=np.float32).reshape(-1)
        except (TypeError, ValueError, OverflowError, RuntimeError):  # RuntimeError: a tensor that requires a gradient
            values = np.zeros(0, np.float32)
        if len(values) != term.size or not np.isfinite(values).all():
            parts = f" ({', '.join(term.names)})" if term.names else ""
            raise OptionError(f"{term.name!r} must be {term.size} finite values{parts}, got {value!r:.80}")
        return values

    def fill(self, values: np.ndarray, out: np.ndarray) -> None:
        """Write the values of this decision and those before it into ``out``, (history, size)."""
        self._values = [values, *self._values[: max(self._rows)]]
        for row, step in enumerate(self._rows):
            out[row] = self._values[min(step, len(self._values) - 1)]
