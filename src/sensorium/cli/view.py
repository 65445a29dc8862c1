"""``sensorium view``: show a model, a dataset or a recording in the browser."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

import sensorium as sn
from sensorium.cli.arguments import default


@dataclass
class View:
    """Show a model, a dataset or a recording in the browser.

    Serves a page until Ctrl-C. A model is simulated in real time, with sliders for its joints and actuators. Of
    recorded data, any step can be shown.

    Examples:
        sensorium view robot.xml
        sensorium view data/pick
        sensorium view runs/a --port 9000
    """

    path: Annotated[Path, tyro.conf.Positional]
    """MJCF or URDF file, or the folder of a dataset, a recording or a replay."""
    port: Annotated[int | None, default("8080, or the next free one")] = None
    """Port of the page."""
    host: str = "127.0.0.1"
    """Address to serve the page at. The default is reachable only from this machine, and through ssh -L."""
    native: bool = False
    """Models: open MuJoCo's own viewer instead, which needs a display."""
    open_browser: bool = False
    """Open the page in the browser of this machine."""
    paused: bool = False
    """Models: start paused."""
    ground: bool = True
    """Models: add a ground plane if the model has no ground."""
    dt: float = 0.01
    """Models: duration of a step in seconds."""

    def run(self) -> int:
        """Open the page and serve it until it is closed."""
        if not self.path.exists():
            raise sn.OptionError(f"{self.path} does not exist; give a model file or the folder of recorded data")
        if self.path.is_dir():
            self._show_data()
        else:
            self._simulate()
        return 0

    def _show_data(self) -> None:
        if self.native:
            raise sn.OptionError(f"--native is for models, but {self.path} is a folder; remove the option")
        with sn.datasets.view(self.path, port=self.port, host=self.host, open_browser=self.open_browser) as page:
            page.run()

    def _simulate(self) -> None:
        import mujoco

        from sensorium.worlds.compose import load_whole

        scene, model = sn.Scene(dt=self.dt), load_whole(self.path)
        scene.add_robot(model, name="model")
        grounds = (mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_HFIELD)
        if self.ground and not any(geom.type in grounds for geom in model.geoms):
            scene.add_terrain(sn.Plane(), name="ground")
        scene.build()
        try:
            viewer = scene.view(port=self.port, host=self.host, native=self.native, open_browser=self.open_browser)
            viewer.add_sliders()
            if self.paused:
                viewer.control.pause()
            viewer.run()
        finally:
            scene.close()

    @property
    def interrupted(self) -> str:
        """What the end of the command closes."""
        return "the page is closed"
