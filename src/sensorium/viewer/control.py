"""Requests of the user at a window, and the pace of simulated time against real time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

_WINDOW = 1.0
"""Seconds over which the real-time factor is averaged."""
_MAX_LAG = 0.25
"""Seconds of lag beyond which lost time is dropped instead of caught up."""

Request = bool | int | float | str
"""Value of a request: a switch, a number or a choice."""


class Control:
    """Pause, single steps, speed and requests. Any thread can set them; the thread that steps the scene acts on them.

    Attributes:
        paused: whether time is stopped.
        speed: simulated seconds per second; None for unlimited.
    """

    def __init__(self, speed: float | None = None) -> None:
        self.paused = False
        self.speed = speed
        self._steps = 0
        self._requests: dict[str, Request] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()

    def pause(self, paused: bool = True) -> None:
        """Stop time, or continue with ``paused=False``."""
        with self._lock:
            self.paused, self._steps = paused, 0
        self._wake.set()

    def step(self) -> None:
        """Pause; if already paused, let one step through."""
        with self._lock:
            self._steps = self._steps + 1 if self.paused else 0
            self.paused = True
        self._wake.set()

    def take_step(self) -> bool:
        """Return whether a single step was requested while paused, and count it as taken."""
        with self._lock:
            if self._steps:
                self._steps -= 1
                return True
            return False

    def set_speed(self, speed: float | None) -> None:
        """Set the simulated seconds per second; None removes the limit."""
        self.speed = speed
        self._wake.set()

    def ask(self, what: str, value: Request = True) -> None:
        """Leave a request for the thread that steps. A later request of the same name replaces it."""
        with self._lock:
            self._requests[what] = value
        self._wake.set()

    def take(self) -> dict[str, Request]:
        """Return the requests since the last call, and clear them."""
        with self._lock:
            requests, self._requests = self._requests, {}
        return requests

    def wait(self, seconds: float) -> None:
        """Sleep for some seconds, or until a request arrives."""
        self._wake.wait(seconds)
        self._wake.clear()

    def wake(self) -> None:
        """End a :meth:`wait`."""
        self._wake.set()


class Pace:
    """Counts steps, and computes how long to wait before the next one and the real-time factor.

    Args:
        dt: simulated seconds per step.
        clock: returns the current time in seconds.
    """

    def __init__(self, dt: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self.dt = dt
        self.clock = clock
        self.steps = 0
        self._marks: deque[tuple[float, int]] = deque([(clock(), 0)])
        self.restart()

    def restart(self) -> None:
        """Measure from now on: after a pause or a change of speed."""
        self._start, self._first = self.clock(), self.steps

    def tick(self) -> None:
        """Count a step."""
        self.steps += 1

    def delay(self, speed: float | None) -> float:
        """Return the seconds to wait after the last step for a speed; 0 for None."""
        if speed is None:
            return 0.0
        ahead = (self.steps - self._first) * self.dt / speed - (self.clock() - self._start)
        if ahead < -_MAX_LAG:
            self.restart()
        return max(0.0, ahead)

    def factor(self) -> float:
        """Return the real-time factor: simulated seconds per second, over about the last second."""
        now = self.clock()
        self._marks.append((now, self.steps))
        while len(self._marks) > 2 and now - self._marks[1][0] > _WINDOW:
            self._marks.popleft()
        then, steps = self._marks[0]
        return (self.steps - steps) * self.dt / (now - then) if now > then else 0.0
