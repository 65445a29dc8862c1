"""Opening the right window, and the errors if none can be opened."""

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
_MAX_TRIED = 100
"""Number of ports that are tried."""


def open_viewer(scene: Scene, port: int | None, host: str, env: int, open_browser: bool, native: bool) -> Viewer:
    """Open a window on a built scene; see :meth:`sensorium.Scene.view`."""
    if native:
        _check_display()
        from sensorium.viewer.native import NativeViewer

        return NativeViewer(scene, env)
    try:
        import viser  # noqa: F401
    except ImportError as error:
        raise DeviceError("the browser viewer needs viser: pip install 'sensorium[view]'") from error
    from sensorium.viewer.browser import BrowserViewer

    return BrowserViewer(scene, env, host, find_port(host, port), open_browser)


def find_port(host: str, port: int | None) -> int:
    """Return a free port: the given one, or the first free one from 8080 on.

    Raises:
        OptionError: the host is not an address, or the port is invalid or in use.
    """
    if not isinstance(host, str) or not host:  # None and "" mean all interfaces
        raise OptionError(f'host must be an address, e.g. "127.0.0.1", or "0.0.0.0" for all interfaces, got {host!r}')
    if port is not None:
        if not isinstance(port, int) or not 1 <= port <= 65535:
            raise OptionError(f"port must be an integer in [1, 65535], got {port!r}")
        problem = _problem(host, port)
        if problem is not None:
            raise OptionError(
                f"port {port} of {host} cannot be used: {problem}; choose another port, or omit it to find a free one"
            )
        return port
    for candidate in range(_PORT, _PORT + _MAX_TRIED):
        problem = _problem(host, candidate)
        if problem is None:
            return candidate
    raise OptionError(
        f"no port from {_PORT} to {_PORT + _MAX_TRIED - 1} of {host} can be used: {problem}; choose a port"
    )


def _problem(host: str, port: int) -> str | None:
    """Return why a port cannot be listened on, or None if it can."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # like the server: recently closed ports are ok
            trial.bind(address)
    except OSError as error:
        return error.strerror or str(error)
    return None


def _check_display() -> None:
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise DeviceError(
            "MuJoCo's viewer needs a display, but neither DISPLAY nor WAYLAND_DISPLAY is set; "
            "use scene.view() without native, and open the printed address in a browser"
        )
