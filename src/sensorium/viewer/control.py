"""What the person at the window asks for, and how simulated time goes with the time on the wall."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

_WINDOW = 1.0
"""Seconds over which the real-time factor is taken."""
_LOST = 0.25
"""Seconds of lag from which on lost time is given up rather than caught up with."""


class Control:
    """Pause, step, speed and choices. Any thread may set them; the thread that steps the scene acts on them.

    Attributes:
        paused: whether time stands still.
        speed: simulated seconds a second; None for as fast as it goes.
    """

    def __init__(self, speed: float | None = None) -> None:
        self.paused = False
        self.speed = speed
        self._steps = 0
        self._asked: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()

    def pause(self, paused: bool = True) -> None:
        """Stop time, or let it go on."""
        with self._lock:
            self.paused, self._steps = paused, 0
        self._wake.set()

    def step(self) -> None:
        """Stop time, but for one step."""
        with self._lock:
            self._steps = self._steps + 1 if self.paused else 0
            self.paused = True
        self._wake.set()

    def take_step(self) -> bool:
        """Whether one step was asked for while paused; it counts as taken."""
        with self._lock:
            if self._steps:
                self._steps -= 1
                return True
            return False

    def set_speed(self, speed: float | None) -> None:
        """Simulated seconds a second from now on; None for as fast as it goes."""
        self.speed = speed
        self._wake.set()

    def ask(self, what: str, value: Any = True) -> None:
        """Leave a request for the thread that steps; a later one of the same name replaces it."""
        with self._lock:
            self._asked[what] = value
        self._wake.set()

    def take(self) -> dict[str, Any]:
        """The requests that were left since the last call."""
        with self._lock:
            asked, self._asked = self._asked, {}
        return asked

    def wait(self, seconds: float) -> None:
        """Sleep, until anything is asked for."""
        self._wake.wait(seconds)
        self._wake.clear()

    def wake(self) -> None:
        """End a :meth:`wait`."""
        self._wake.set()


class Pace:
    """Counts steps, and says how long the next one has to wait, and how fast simulated time goes."""

    def __init__(self, dt: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self.dt = dt
        self.clock = clock
        self.steps = 0
        self._marks: deque[tuple[float, int]] = deque([(clock(), 0)])
        self.restart()

    def restart(self) -> None:
        """Time stood still, or goes at another speed from now on."""
        self._start, self._first = self.clock(), self.steps

    def tick(self) -> None:
        """A step was taken."""
        self.steps += 1

    def delay(self, speed: float | None) -> float:
        """Seconds until the step that was taken is over at that speed."""
        if speed is None:
            return 0.0
        ahead = (self.steps - self._first) * self.dt / speed - (self.clock() - self._start)
        if ahead < -_LOST:
            self.restart()
        return max(0.0, ahead)

    def factor(self) -> float:
        """Simulated seconds a second, over the last second or so."""
        now = self.clock()
        self._marks.append((now, self.steps))
        while len(self._marks) > 2 and now - self._marks[1][0] > _WINDOW:
            self._marks.popleft()
        then, steps = self._marks[0]
        return (self.steps - steps) * self.dt / (now - then) if now > then else 0.0
