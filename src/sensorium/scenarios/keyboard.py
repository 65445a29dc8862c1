"""Driving by the keyboard of a terminal."""

from __future__ import annotations

import atexit
import os
import select
import sys
from typing import Any

import numpy as np
from pydantic import Field

from sensorium import _system
from sensorium.errors import DeviceError
from sensorium.robots import Robot
from sensorium.scenarios.teleoperation import Teleoperation, TeleoperationOptions
from sensorium.worlds import Scene

HELP = "w/s or up/down: faster forward, backward   a/d or left/right: turn   z/c: sideways   space: stop   q: end"
"""What the keys do."""

_ARROWS = {b"A": b"w", b"B": b"s", b"C": b"d", b"D": b"a"}
_KEYS = {b"w": (0, 1), b"s": (0, -1), b"z": (1, 1), b"c": (1, -1), b"a": (2, 1), b"d": (2, -1)}
"""Key -> which of forward, left and turn it changes, and to which side."""


class KeyboardOptions(TeleoperationOptions):
    """Options of the scenario "keyboard"."""

    notch: float = Field(default=0.2, gt=0, le=1)
    """Part of the greatest speed that one stroke of a key adds."""


class Keyboard(Teleoperation[KeyboardOptions]):
    """Every stroke of a key makes the robot a notch faster or slower; space stops it, q ends.

    It takes the terminal for itself until the end: what is typed is not shown. Ctrl-C still interrupts.
    """

    name = "keyboard"
    options_type = KeyboardOptions

    def __init__(self, scene: Scene, robot: Robot, seed: int, options: KeyboardOptions) -> None:
        super().__init__(scene, robot, seed, options)
        try:
            import termios
            import tty
        except ModuleNotFoundError:
            raise _system.unsupported(
                "the scenario 'keyboard'", "a POSIX terminal (Linux, macOS)", "Drive by the scenario 'random-path'"
            ) from None
        if not sys.stdin.isatty():
            raise DeviceError("keyboard needs a terminal to read keys from, and standard input is none")
        self._terminal: int = sys.stdin.fileno()
        self._rest = b""
        self._saved: list[Any] | None = termios.tcgetattr(self._terminal)
        tty.setcbreak(self._terminal)
        atexit.register(self.close)
        print(HELP, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Give the terminal back."""
        if self._saved is not None:
            import termios

            termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._saved)
            self._saved = None
            atexit.unregister(self.close)

    def _listen(self) -> None:
        while select.select([self._terminal], [], [], 0)[0]:
            typed = os.read(self._terminal, 1024)
            if not typed:  # the terminal is gone
                self._ended = True
                return
            self._rest += typed
        for key in self._take():
            if key == b"q":
                self._ended = True
                self.close()
                return
            if key == b" ":
                self._wanted[:] = 0.0
            elif key in _KEYS:
                axis, sign = _KEYS[key]
                self._wanted[axis] = np.clip(self._wanted[axis] + sign * self.options.notch, -1.0, 1.0)

    def _take(self) -> list[bytes]:
        """The keys that were typed; an arrow is three bytes, which may come one by one."""
        keys, text = [], self._rest
        while text:
            if text[:1] == b"\x1b" and (len(text) == 1 or text[1:2] in (b"[", b"O")):
                if len(text) < 3:
                    break
                keys.append(_ARROWS.get(text[2:3], b""))
                text = text[3:]
            else:
                keys.append(text[:1].lower())
                text = text[1:]
        self._rest = text
        return keys
