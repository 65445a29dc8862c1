"""Common parts of the pages in the browser: the server, the initial camera, and displayable images."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import mujoco
import numpy as np
import rich
import viser

from sensorium.viewer.mirror import Mirror
from sensorium.viewer.stage import Stage

if TYPE_CHECKING:
    from websockets.asyncio.server import ServerConnection
    from websockets.http11 import Request

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_starting = threading.Lock()
_VIEW = np.array([0.66, -0.66, 0.85])
"""Position of the initial camera from the center of the scene, as multiples of its extent: from above, over walls."""
_CLOSE = 7.0
"""Distance at which a followed body is shown, as a multiple of the size of its robot."""


def start_server(host: str, port: int) -> viser.ViserServer:
    """Start a server with an empty page. It refuses connections that pages of other sites open."""
    with _quiet(), _same_origin(host):
        return viser.ViserServer(host=host, port=port, label="Sensorium", verbose=False)


def is_foreign(headers: Mapping[str, str], loopback: bool) -> bool:
    """Return whether a page of another site opens a connection, by the headers of the request.

    Args:
        headers: headers "Origin" and "Host". A program that is not a browser sends no origin.
        loopback: whether the server listens on this machine only. Then the host must be a name of this machine: a site
            could let its own name point here.
    """
    origin, host = headers.get("Origin"), headers.get("Host") or ""
    if loopback and urlsplit(f"//{host}").hostname not in _LOOPBACK:
        return True
    return origin is not None and urlsplit(origin).netloc != host


@contextmanager
def _same_origin(host: str) -> Iterator[None]:
    """Let viser refuse foreign pages, in servers that are started in the block.

    viser has no option for that. It passes ``process_request`` to ``websockets.asyncio.server.serve``, which is
    replaced here until the server runs (checked with viser 1.1 and websockets 15).
    """
    from websockets.asyncio import server as module

    serve = module.serve

    def guarded(*arguments: object, process_request: Callable[..., object] | None = None, **options: object) -> object:
        async def check(connection: ServerConnection, request: Request) -> object:
            if is_foreign(request.headers, host in _LOOPBACK):
                return connection.respond(HTTPStatus.FORBIDDEN, "Refused: the page is of another origin.\n")
            answer = None if process_request is None else process_request(connection, request)
            return await answer if inspect.isawaitable(answer) else answer

        return serve(*arguments, process_request=check, **options)  # type: ignore[arg-type]

    with _starting:
        module.serve = guarded  # type: ignore[assignment,misc]
        try:
            yield
        finally:
            module.serve = serve  # type: ignore[misc]


def stop_server(server: viser.ViserServer) -> None:
    """Stop a server."""
    with _quiet():
        server.stop()


def print_address(what: str, address: str, open_browser: bool) -> None:
    """Print the address of a page; with ``open_browser`` also open it in the browser of this machine."""
    print(f"Sensorium: {what} is shown at {address}", flush=True)
    if open_browser:
        import webbrowser

        webbrowser.open(address)


def arrange(server: viser.ViserServer, stage: Stage) -> None:
    """Set lights, theme and the initial camera."""
    server.gui.configure_theme(control_width="large", show_logo=False, show_share_button=False)
    server.gui.main_panel.dock_right()
    server.scene.configure_default_lights(cast_shadow=True)
    camera = server.initial_camera
    camera.position = stage.center + stage.extent * _VIEW
    camera.look_at = stage.center
    camera.fov = np.deg2rad(45.0)
    camera.near, camera.far = stage.extent / 200, stage.extent * 200


def zoom(server: viser.ViserServer, stage: Stage, mirror: Mirror, body: int) -> None:
    """Move all cameras to a body that is followed, from the side at which they are; back to the start for -1.

    Args:
        server: the server.
        stage: the scene, which moves so that the body is at its center.
        mirror: the env that is shown.
        body: id of the body, or -1.
    """
    for client in server.get_clients().values():
        camera = client.camera
        if body < 0:
            offset = stage.extent * _VIEW
        else:
            offset = np.asarray(camera.position) - np.asarray(camera.look_at)
            offset[2] = max(offset[2], float(np.linalg.norm(offset[:2])))  # from above, over what stands around it
            offset *= _CLOSE * mirror.tree_size(body) / max(float(np.linalg.norm(offset)), 1e-9)
        with client.atomic():
            camera.position = stage.center + offset  # it also moves look_at
            camera.look_at = stage.center


def bodies_to_follow(model: mujoco.MjModel) -> dict[str, int]:
    """Return the named bodies: name -> id."""
    return {model.body(i).name: i for i in range(1, model.nbody) if model.body(i).name}


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the terminal output of viser during the block."""
    console = rich.get_console()
    quiet, console.quiet = console.quiet, True
    try:
        yield
    finally:
        console.quiet = quiet


def displayed(picture: np.ndarray) -> np.ndarray:
    """Return the result of ``as_picture`` as (H, W, 3) uint8. Depth is coloured, white where it is not finite."""
    if picture.dtype == np.uint8:
        return picture
    if picture.ndim == 2:
        from matplotlib import colormaps

        finite = picture[np.isfinite(picture)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
        coloured = colormaps["viridis_r"]((picture - low) / max(high - low, 1e-9))[..., :3]
        coloured[~np.isfinite(picture)] = 1.0
        picture = coloured
    return (np.clip(np.nan_to_num(picture), 0, 1) * 255).astype(np.uint8)
