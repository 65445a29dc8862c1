"""``sensorium view``: a model in a live window."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import mujoco
import tyro

import sensorium as sn
from sensorium.worlds.compose import load_spec


@dataclass
class View:
    """Show a model in a live window, and simulate it in real time until Ctrl-C.

    Example: sensorium view robot.xml
    """

    model: Annotated[Path, tyro.conf.Positional]
    """MJCF or URDF file."""
    port: int | None = None
    """Where to serve the window. Default: 8080, or the next that is free."""
    host: str = "127.0.0.1"
    """Address to serve it at. The default is reached from this machine alone, and through ssh -L."""
    native: bool = False
    """Open MuJoCo's own viewer instead, which needs a display."""
    open_browser: bool = False
    """Open the window in this machine's browser too."""
    paused: bool = False
    """Start paused."""
    ground: bool = True
    """Put the model on a plane, if it has no ground of its own."""
    dt: float = 0.01
    """Seconds of a step."""

    def run(self) -> None:
        """Open the window, and simulate until it is closed."""
        scene, model = sn.Scene(dt=self.dt), load_spec(self.model)
        scene.add_robot(model, name="model")
        grounds = (mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_HFIELD)
        if self.ground and not any(geom.type in grounds for geom in model.geoms):
            scene.add_terrain(sn.Plane(), name="ground")
        scene.build()
        viewer = scene.view(port=self.port, host=self.host, native=self.native, open_browser=self.open_browser)
        if self.paused:
            viewer.control.pause()
        with suppress(KeyboardInterrupt):
            viewer.run()
        scene.close()
