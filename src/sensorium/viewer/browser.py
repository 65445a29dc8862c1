"""The viewer in the browser: a viser server with the scene in 3D and a panel of controls, images and plots."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import viser

from sensorium import _notebook
from sensorium.cameras import CameraSensor
from sensorium.cameras.plotting import as_picture
from sensorium.sensors.base import Sensor
from sensorium.sensors.rays.ray_sensor import RaySensor
from sensorium.viewer import page
from sensorium.viewer.base import Viewer
from sensorium.viewer.control import Request
from sensorium.viewer.mirror import Mirror
from sensorium.viewer.plots import SensorHistory, add_plot, fields_of, first_plot, update_plot
from sensorium.viewer.sliders import Sliders
from sensorium.viewer.stage import Stage
from sensorium.worlds import Painter

if TYPE_CHECKING:
    from sensorium.worlds import Scene

_PANEL = 0.1
"""Seconds between two updates of the panel."""
_MAX_IMAGE_SHARE = 0.25
"""Maximum fraction of the time that is spent on camera images."""
_MODEL = 1.0
"""Seconds between two updates of the model fields that have values per env."""
_SPEEDS: dict[str, float | None] = {
    "0.1 ×": 0.1,
    "0.25 ×": 0.25,
    "0.5 ×": 0.5,
    "real time": 1.0,
    "2 ×": 2.0,
    "as fast as it goes": None,
}


class BrowserViewer(Viewer):
    """A window in the browser.

    Attributes:
        address: address of the page, e.g. "http://127.0.0.1:8080".
    """

    def __init__(self, scene: Scene, env: int, host: str, port: int, open_browser: bool) -> None:
        super().__init__(scene, env)
        self._mirror = Mirror(scene.world)
        self._mirror.update_model(env)
        self._mirror.update(env)
        sensors = scene.sensors.values()
        self._cameras = [sensor for sensor in sensors if isinstance(sensor, CameraSensor)]
        self._plotted = {
            sensor.uuid: sensor
            for sensor in sensors
            if isinstance(sensor, Sensor) and not isinstance(sensor, CameraSensor)
        }
        # rays that are drawn for debugging need no points
        self._lidars = [each for each in sensors if isinstance(each, RaySensor) and not each.options.draw_debug]
        self._sliders: Sliders | None = None
        self._follow = -1
        self._panel_due = self._images_due = self._model_due = 0.0
        self._history: SensorHistory | None = None
        self._recorded = False
        self._plot: viser.GuiImageHandle | viser.GuiUplotHandle | None = None
        self._server = page.start_server(host, port)
        self.address = f"http://{host}:{self._server.get_port()}"
        try:
            self._stage = Stage(self._server, self._mirror, self._cameras)
            page.arrange(self._server, self._stage)
            self._build_panel()
            self.update()
        except BaseException:
            self._shut()
            raise
        page.print_address("the scene", self.address, open_browser)

    def _repr_html_(self) -> str:
        """Return the page, embedded in a notebook that runs in a browser of this machine."""
        return _notebook.frame(self.address)

    def set_speed(self, speed: float | None) -> None:
        super().set_speed(speed)
        if speed not in self._speeds.values():
            self._speeds[f"{speed:g} ×"] = speed
            self._speed.options = tuple(self._speeds)
        self._speed.value = next(label for label, value in self._speeds.items() if value == speed)

    def add_sliders(self) -> None:
        """Add sliders for the joints and actuators of the scene to the panel. They change the env that is shown."""
        if self._sliders is None:
            self._sliders = Sliders(self._server.gui, self.scene, self.control)

    # -- the panel ----------------------------------------------------------------------------------------------------

    def _build_panel(self) -> None:
        self._status = self._server.gui.add_html("")
        with self._server.gui.add_folder("Simulation"):  # elements outside of folders are hidden by the scroll bar
            self._build_controls()
        self._build_plot()
        self._build_images()
        self._build_switches()

    def _build_controls(self) -> None:
        gui, control = self._server.gui, self.control
        acts: dict[str, Callable[[], None]] = {
            "Run": lambda: control.pause(False),
            "Pause": control.pause,
            "Step": control.step,
            "Reset": lambda: control.ask("reset"),
        }
        buttons = gui.add_button_group("Time", tuple(acts))
        buttons.on_click(lambda event: acts[event.target.value]())
        self._speeds = dict(_SPEEDS)
        self._speed = gui.add_dropdown("Speed", tuple(_SPEEDS), initial_value="as fast as it goes")
        self._speed.on_update(lambda event: control.set_speed(self._speeds[event.target.value]))
        if self.scene.n_envs > 1:
            choice = gui.add_number("Env", self.env, min=0, max=self.scene.n_envs - 1, step=1)
            choice.on_update(lambda event: control.ask("env", int(event.target.value)))
        bodies = page.bodies_to_follow(self.scene.model)
        if bodies:
            follow = gui.add_dropdown("Follow", ("nothing", *bodies), initial_value="nothing")
            follow.on_update(lambda event: control.ask("follow", bodies.get(event.target.value, -1)))

    def _build_switches(self) -> None:
        gui, stage = self._server.gui, self._stage
        with gui.add_folder("Show", expand_by_default=False):
            for label, name in (
                ("Sensor frames", "show_sensors"),
                ("What sensors draw", "show_debug"),
                ("Lidar returns", "show_returns"),
                ("Opaque walls", "show_walls"),
                ("Collision geoms", "show_collision"),
            ):
                switch = gui.add_checkbox(label, getattr(stage, name))
                switch.on_update(lambda event, name=name: self.control.ask(name, bool(event.target.value)))

    def _build_images(self) -> None:
        self._images: list[tuple[CameraSensor, str, viser.GuiImageHandle]] = []
        if not self._cameras:
            return
        self._image_folder = self._server.gui.add_folder("Cameras")
        with self._image_folder:
            self._images_on = self._server.gui.add_checkbox("Live images", True)
        self._list_images()

    def _list_images(self) -> None:
        """Add an image for each current output of the cameras, which can be switched on and off while running."""
        wanted = [(camera, output) for camera in self._cameras for output in camera.outputs]
        if [(camera, output) for camera, output, _ in self._images] == wanted:
            return
        for _, _, element in self._images:
            element.remove()
        self._images = []
        with self._image_folder:
            for camera, output in wanted:
                width, height = camera.options.resolution
                blank = np.full((height, width, 3), 200, np.uint8)
                label = camera.uuid if output == "rgb" else f"{camera.uuid}, {output}"
                self._images.append((camera, output, self._server.gui.add_image(blank, label=label, format="jpeg")))

    def _build_plot(self) -> None:
        if not self._plotted:
            return
        gui = self._server.gui
        self._plot_folder = gui.add_folder("Plot")
        with self._plot_folder:
            names = tuple(self._plotted)
            first, field = first_plot(self._plotted)
            self._sensor = gui.add_dropdown("Sensor", names, initial_value=first)
            self._field = gui.add_dropdown("Field", tuple(fields_of(self._plotted[first])), initial_value=field)
        self._sensor.on_update(lambda event: self.control.ask("sensor", event.target.value))
        self._field.on_update(lambda event: self.control.ask("field", event.target.value))
        self._start_plot()

    def _start_plot(self) -> None:
        """Record and plot the chosen field from now on."""
        sensor = self._plotted[self._sensor.value]
        fields = fields_of(sensor)
        if tuple(self._field.options) != tuple(fields):
            self._field.options = tuple(fields)
            self._field.value = first_plot({sensor.uuid: sensor})[1]
        field = self._field.value if self._field.value in fields else fields[0]
        old = self._history
        if old is not None and (old.sensor, old.field, old.env) == (sensor, field, self.env):
            return
        if self._plot is not None:
            self._plot.remove()
        self._history = SensorHistory(sensor, field, self.env, self.scene.dt)
        self._history.take()
        with self._plot_folder:
            self._plot = add_plot(self._server.gui, self._history)

    # -- called by the thread that steps ------------------------------------------------------------------------------

    def _record(self) -> None:
        if self._history is not None and self._recorded:
            self._history.take()

    def _watched(self) -> bool:
        return bool(self._server.get_clients())

    def _answer(self, what: str, value: Request) -> None:
        if what == "env":
            self.env = min(max(int(value), 0), self.scene.n_envs - 1)
            self._model_due = 0.0
            if self._history is not None:
                self._start_plot()
        elif what == "follow":
            self._follow = int(value)
            page.zoom(self._server, self._stage, self._mirror, self._follow)
        elif what.startswith(("joint ", "actuator ")) and self._sliders is not None:
            self._sliders.apply(what, float(value), self.env)
        elif what in ("sensor", "field"):
            self._start_plot()
        elif what.startswith("show_"):
            setattr(self._stage, what, bool(value))
            self._stage.set_visible()
        self._panel_due = self._images_due = 0.0  # update the panel at once

    def _draw(self, everything: bool) -> None:
        now = self._pace.clock()
        self._recorded = self._watched()
        if now >= self._model_due:
            if self._mirror.update_model(self.env):
                self._stage.build_geoms()
            self._model_due = now + _MODEL
        self._mirror.update(self.env)
        painter = Painter()
        if self._stage.show_debug:
            self.scene.draw_debug(painter, self.env)
        with self._server.atomic():
            self._stage.draw(self.env, painter, self._follow)
            if self._stage.show_returns:
                self._stage.draw_returns({each.uuid: each.returns_in_world(self.env) for each in self._lidars})
        if now >= self._panel_due:
            self._draw_panel()
            self._panel_due = now + _PANEL
        if everything and self._cameras and now >= self._images_due and self._images_on.value:
            self._draw_images()
            duration = self._pace.clock() - now
            self._images_due = self._pace.clock() + max(_PANEL, duration * (1 / _MAX_IMAGE_SHARE - 1))

    def _draw_panel(self) -> None:
        paused = self.control.paused
        rate = "paused" if paused else f"{self._pace.factor():.2f} × real time"
        of = f"env {self.env} of {self.scene.n_envs}"
        failed = self.scene.failed.get(self.env)
        text = f"<b>{self._mirror.data.time:.3f} s</b> &nbsp;·&nbsp; {rate} &nbsp;·&nbsp; {of}"
        if failed is not None:
            text += f"<br><span style='color:#b3261e'>physics failed: {html.escape(failed)}</span>"
        self._status.content = f"<div style='padding:0.5em 1em;font-size:0.9em'>{text}</div>"
        if self._history is not None:
            update_plot(self._plot, self._history)
        if self._sliders is not None:
            self._sliders.update(self._mirror.data)

    def _draw_images(self) -> None:
        self._list_images()
        for camera, output, element in self._images:
            own = getattr(camera.read(), output)[self.env]
            element.image = page.displayed(as_picture(output, own[0] if camera.options.history_length else own))

    def _shut(self) -> None:
        page.stop_server(self._server)
