"""``Gamepad``: drive robots with a gamepad through Linux's joystick device, ``/dev/input/js0``."""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys

import numpy as np
from pydantic import Field

from sensorium import _system
from sensorium._arguments import checked
from sensorium.errors import DeviceError
from sensorium.robots import Robot
from sensorium.scenarios.teleoperation import Teleoperation, TeleoperationOptions
from sensorium.worlds import Scene

_EVENT = struct.Struct("=IhBB")
"""Event of the kernel's joystick interface: milliseconds, value, type, number."""
_BUTTON, _AXIS, _INITIAL = 1, 2, 128
_MAX_VALUE = 32767.0
"""Value of an axis at its end."""


class GamepadOptions(TeleoperationOptions):
    """Options of the scenario "gamepad"."""

    device: str = "/dev/input/js0"
    """The joystick device."""
    forward_axis: int = Field(default=1, ge=0)
    """Axis for driving forward: on most gamepads the left stick, up and down. Up is forward."""
    left_axis: int = Field(default=0, ge=0)
    """Axis for driving sideways, if the robot can: the left stick, left and right."""
    turn_axis: int = Field(default=3, ge=0)
    """Axis for turning: the right stick, left and right."""
    end_button: int = Field(default=1, ge=0)
    """Button that ends the scenario."""
    dead_zone: float = Field(default=0.1, ge=0, lt=1)
    """Fraction of the range of a stick that counts as released."""


class Gamepad(Teleoperation[GamepadOptions]):
    """The sticks of a gamepad set the speed and the yaw rate of the robot.

    Raises:
        DeviceError: there is no gamepad, or the platform is not Linux.
    """

    name = "gamepad"
    options_type = GamepadOptions

    @checked
    def __init__(self, scene: Scene, robot: Robot, seed: int, options: GamepadOptions) -> None:
        super().__init__(scene, robot, seed, options)
        self._file: int | None = None
        self._rest = b""
        if sys.platform != "linux":
            raise _system.unsupported(
                "the scenario 'gamepad'", "Linux's joystick device", "Use 'random-path', or 'keyboard' on macOS"
            )
        try:
            self._file = os.open(options.device, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            raise DeviceError(
                f"there is no gamepad at {options.device} ({error.strerror}): plug one in, give another device "
                "(device='/dev/input/js1'), or use the scenario 'keyboard'"
            ) from error
        if stat.S_ISREG(os.fstat(self._file).st_mode) or stat.S_ISDIR(os.fstat(self._file).st_mode):
            self.close()
            raise DeviceError(f"{options.device} is a file, not a gamepad")

    def close(self) -> None:
        """Close the device."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _listen(self) -> None:
        options = self.options
        axes = {options.forward_axis: 0, options.left_axis: 1, options.turn_axis: 2}
        for value, kind, number in self._events():
            if kind == _AXIS and number in axes:
                position = float(np.clip(-value / _MAX_VALUE, -1.0, 1.0))  # up and left are negative
                over = max(0.0, abs(position) - options.dead_zone) / (1 - options.dead_zone)
                self._wanted[axes[number]] = np.copysign(over, position)
            elif kind == _BUTTON and number == options.end_button and value:
                self._ended = True

    def _events(self) -> list[tuple[int, int, int]]:
        """Return value, type and number of the events since the last step."""
        assert self._file is not None
        while True:
            try:
                read = os.read(self._file, 64 * _EVENT.size)
            except BlockingIOError:
                break
            except OSError as error:
                self._wanted[:] = 0.0
                reason = "it was unplugged" if error.errno == errno.ENODEV else error.strerror
                raise DeviceError(f"cannot read the gamepad {self.options.device}: {reason}") from error
            if not read:
                break
            self._rest += read
        whole = len(self._rest) // _EVENT.size * _EVENT.size
        taken, self._rest = self._rest[:whole], self._rest[whole:]
        return [(value, kind & ~_INITIAL, number) for _, value, kind, number in _EVENT.iter_unpack(taken)]
