"""Which window opens, and what is wrong when none can."""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING

from sensorium.errors import DeviceError, OptionError
from sensorium.viewer.base import Viewer

if TYPE_CHECKING:
    from sensorium.worlds import Scene

_PORT = 8080
_TRIED = 100
"""Ports that are tried one after the other."""


def open_viewer(scene: Scene, port: int | None, host: str, env: int, open_browser: bool, native: bool) -> Viewer:
    """Open a window on a built scene; see :meth:`sensorium.Scene.view`."""
    if native:
        _check_display()
        from sensorium.viewer.native import NativeViewer

        return NativeViewer(scene, env)
    try:
        import viser  # noqa: F401
    except ImportError as error:
        raise DeviceError("the window in the browser needs viser: pip install 'sensorium[view]'") from error
    from sensorium.viewer.browser import BrowserViewer

    return BrowserViewer(scene, env, host, find_port(host, port), open_browser)


def find_port(host: str, port: int | None) -> int:
    """A port that is free: the one that was asked for, or the next from 8080 on."""
    if port is not None:
        if not isinstance(port, int) or not 1 <= port <= 65535:
            raise OptionError(f"port must be an integer in [1, 65535], got {port!r}")
        problem = _problem(host, port)
        if problem is not None:
            raise OptionError(
                f"port {port} of {host} cannot be used: {problem}; give another, or none to find a free one"
            )
        return port
    for candidate in range(_PORT, _PORT + _TRIED):
        problem = _problem(host, candidate)
        if problem is None:
            return candidate
    raise OptionError(f"no port from {_PORT} to {_PORT + _TRIED - 1} of {host} can be used: {problem}; give a port")


def _problem(host: str, port: int) -> str | None:
    """Why a port cannot be listened on; None if it can."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does: not those just left
            trial.bind(address)
    except OSError as error:
        return error.strerror or str(error)
    return None


def _check_display() -> None:
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise DeviceError(
            "MuJoCo's viewer needs a display, and this machine has none (neither DISPLAY nor WAYLAND_DISPLAY is set); "
            "use scene.view(), and open the address that it prints in a browser"
        )
