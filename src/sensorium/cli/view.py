"""``sensorium view``: a model in a live window, or recorded data."""

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
class ViewCommand:
    """Show a model, a data set or a recording in the browser, until Ctrl-C.

    A model is simulated in real time; of recorded data, any step can be looked at.

    Example: sensorium view robot.xml

    Example: sensorium view data/pick
    """

    path: Annotated[Path, tyro.conf.Positional]
    """MJCF or URDF file; or folder of a data set, a recording or a replay."""
    port: int | None = None
    """Where to serve the window. Default: 8080, or the next that is free."""
    host: str = "127.0.0.1"
    """Address to serve it at. The default is reached from this machine alone, and through ssh -L."""
    native: bool = False
    """Of a model: open MuJoCo's own viewer instead, which needs a display."""
    open_browser: bool = False
    """Open the window in this machine's browser too."""
    paused: bool = False
    """Of a model: start paused."""
    ground: bool = True
    """Of a model: put it on a plane, if it has no ground of its own."""
    dt: float = 0.01
    """Of a model: seconds of a step."""

    def run(self) -> None:
        """Open the window, and serve it until it is closed."""
        if not self.path.exists():
            raise sn.OptionError(f"there is no {self.path}; give a model file, or the folder of recorded data")
        if self.path.is_dir():
            self._show_data()
        else:
            self._simulate()

    def _show_data(self) -> None:
        if self.native:
            raise sn.OptionError(f"--native shows models, and {self.path} is a folder; leave it out")
        with (
            suppress(KeyboardInterrupt),  # which may come as soon as the address is printed, in view()
            sn.datasets.view(self.path, port=self.port, host=self.host, open_browser=self.open_browser) as page,
        ):
            page.run()

    def _simulate(self) -> None:
        scene, model = sn.Scene(dt=self.dt), load_spec(self.path)
        scene.add_robot(model, name="model")
        grounds = (mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_HFIELD)
        if self.ground and not any(geom.type in grounds for geom in model.geoms):
            scene.add_terrain(sn.Plane(), name="ground")
        scene.build()
        with suppress(KeyboardInterrupt):  # likewise
            viewer = scene.view(port=self.port, host=self.host, native=self.native, open_browser=self.open_browser)
            if self.paused:
                viewer.control.pause()
            viewer.run()
        scene.close()
