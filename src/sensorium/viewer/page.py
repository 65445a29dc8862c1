"""Common parts of the pages in the browser: the server, the initial camera, and displayable images."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import mujoco
import numpy as np
import rich
import viser

from sensorium.viewer.stage import Stage


def start_server(host: str, port: int) -> viser.ViserServer:
    """Start a server with an empty page."""
    with _quiet():
        return viser.ViserServer(host=host, port=port, label="Sensorium", verbose=False)


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
    camera.position = stage.center + stage.extent * np.array([1.1, -1.1, 0.8])
    camera.look_at = stage.center
    camera.fov = np.deg2rad(45.0)
    camera.near, camera.far = stage.extent / 200, stage.extent * 200


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
