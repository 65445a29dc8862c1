"""``Keyboard``: drive robots with the keyboard of a terminal."""

from __future__ import annotations

import atexit
import os
import select
import sys

import numpy as np
from pydantic import Field

from sensorium import _system
from sensorium._arguments import checked
from sensorium.errors import DeviceError
from sensorium.robots import Robot
from sensorium.scenarios.teleoperation import Teleoperation, TeleoperationOptions
from sensorium.worlds import Scene

HELP = "w/s or up/down: faster forward, backward   a/d or left/right: turn   z/c: sideways   space: stop   q: end"
"""Help text of the keys."""

_ARROWS = {b"A": b"w", b"B": b"s", b"C": b"d", b"D": b"a"}
_KEYS = {b"w": (0, 1), b"s": (0, -1), b"z": (1, 1), b"c": (1, -1), b"a": (2, 1), b"d": (2, -1)}
"""Key -> index of forward, left or turn, and sign of the change."""


class KeyboardOptions(TeleoperationOptions):
    """Options of the scenario "keyboard"."""

    notch: float = Field(default=0.2, gt=0, le=1)
    """Fraction of the max speed that one key press adds."""


class Keyboard(Teleoperation[KeyboardOptions]):
    """Each key press makes the robot one notch faster or slower; space stops it, q ends the scenario.

    The terminal does not echo keys until the scenario is closed. Ctrl-C still interrupts.

    Raises:
        DeviceError: standard input is not a terminal, or the platform has no POSIX terminals.
    """

    name = "keyboard"
    options_type = KeyboardOptions

    @checked
    def __init__(self, scene: Scene, robot: Robot, seed: int, options: KeyboardOptions) -> None:
        super().__init__(scene, robot, seed, options)
        try:
            import termios
            import tty
        except ModuleNotFoundError:
            raise _system.unsupported(
                "the scenario 'keyboard'", "a POSIX terminal (Linux, macOS)", "Use the scenario 'random-path'"
            ) from None
        if not sys.stdin.isatty():
            raise DeviceError("keyboard needs a terminal to read keys from, but standard input is not a terminal")
        self._terminal: int = sys.stdin.fileno()
        self._rest = b""
        self._saved: list[int | list[bytes | int]] | None = termios.tcgetattr(self._terminal)
        tty.setcbreak(self._terminal)
        atexit.register(self.close)
        print(HELP, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Restore the terminal."""
        if self._saved is not None:
            import termios

            termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._saved)
            self._saved = None
            atexit.unregister(self.close)

    def _listen(self) -> None:
        while select.select([self._terminal], [], [], 0)[0]:
            typed = os.read(self._terminal, 1024)
            if not typed:  # the terminal was closed
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
        """Return the keys that were typed. An arrow key is three bytes, which may arrive one by one."""
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
