"""A page of recorded data: the scene at any step, images, and plots of the recorded arrays."""

from __future__ import annotations

import threading
import time
from typing import Self

from sensorium.cameras import CameraSensor
from sensorium.errors import OptionError, SensoriumError, did_you_mean, shorten
from sensorium.viewer import page
from sensorium.viewer.base import FRAME
from sensorium.viewer.control import Control, Request
from sensorium.viewer.data_panel import SPEEDS, SWITCHED_ON, SWITCHES, Panel
from sensorium.viewer.data_source import PageSource
from sensorium.viewer.mirror import Mirror
from sensorium.viewer.stage import Stage
from sensorium.worlds import Painter, Scene

_PANEL = 0.1
"""Seconds between two updates of images and plots during playback."""


class DataViewer:
    """A page that shows a dataset or a recording, opened by ``sn.datasets.view(folder)``.

    A separate thread draws it and plays it.

    Attributes:
        address: address of the page, e.g. "http://127.0.0.1:8080".
        step: the step that is shown.
        control: pause and speed of playback.
    """

    def __init__(self, source: PageSource, host: str, port: int, open_browser: bool) -> None:
        self._source = source
        self.control = Control(speed=1.0)
        self.control.pause()
        self.step = 0
        self._drawing = threading.RLock()
        self._closed = threading.Event()
        self._staged: Scene | None = None
        self._mirror: Mirror
        self._stage: Stage
        self._switches = {name: name in SWITCHED_ON for name in SWITCHES}
        self._follow = -1
        self._panel_due = 0.0
        self._start, self._first = 0.0, 0
        try:
            self._server = page.start_server(host, port)
        except BaseException:
            source.close()
            raise
        self.address = f"http://{host}:{self._server.get_port()}"
        try:
            self._panel = Panel(self._server.gui, source, self.control)
            self._enter()
            page.arrange(self._server, self._stage)
        except BaseException:
            self._free()
            raise
        self._thread = threading.Thread(target=self._run, name="sensorium-view", daemon=True)
        self._thread.start()
        page.print_address(source.title, self.address, open_browser)

    # -- called by users ----------------------------------------------------------------------------------------------

    @property
    def episode(self) -> int:
        """Number of the episode that is shown; for a recording, of the env."""
        return self._source.key

    @property
    def n_steps(self) -> int:
        """Number of steps of the episode, including the first."""
        return self._source.n_steps

    def show(self, episode: int | None = None, step: int = 0, array: str | None = None) -> None:
        """Show a step and pause.

        Args:
            episode: number of the episode, or of the env of a recording. Default: the one that is shown.
            step: number of the step, from 0; negative numbers count from the end.
            array: name of the array to plot, as in the list of the page. Default: unchanged.

        Raises:
            OptionError: there is no such episode, step or array. The page is unchanged.
        """
        with self._drawing:
            source, before = self._source, self._source.key
            key = before if episode is None else episode
            if key not in source.keys:
                known = shorten([str(each) for each in source.keys])
                raise OptionError(f"{source.title} has no {source.kind.lower()} {key!r}; it has {known}")
            if key != before:
                source.choose(key)
            problem = self._problem(step, array)
            if problem:
                if key != before:
                    source.choose(before)
                raise OptionError(problem)
            self.control.pause()
            self._enter(step % source.n_steps, array)

    def _problem(self, step: int, array: str | None) -> str:
        source, count = self._source, self._source.n_steps
        where = f"{source.kind.lower()} {source.key} of {source.title}"
        if not isinstance(step, int) or not -count <= step < count:
            return f"step must be an integer in [{-count}, {count}) for {where}, got {step!r}"
        if array is not None and array not in source.names:
            return f"{where} has no array {array!r}{did_you_mean(array, source.names)}"
        return ""

    def run(self) -> None:
        """Wait until the page is closed."""
        while not self._closed.wait(1.0):
            pass

    def close(self) -> None:
        """Close the page."""
        if self._closed.is_set():
            return
        self._closed.set()
        self.control.wake()
        self._thread.join()
        self._free()

    def _free(self) -> None:
        page.stop_server(self._server)
        self._source.close()

    @property
    def closed(self) -> bool:
        """Whether the page was closed."""
        return self._closed.is_set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- in the thread that draws -------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            self.control.wait(1.0 if self.control.paused else FRAME)
            if self._closed.is_set():
                return
            with self._drawing:
                try:
                    self._serve()
                except (
                    SensoriumError,
                    OSError,
                    ValueError,
                    KeyError,
                ) as error:  # damaged files do not end the thread
                    self.control.pause()
                    self._panel.set_status(self.step, str(error))

    def _serve(self) -> None:
        requests = self.control.take()
        for what, value in requests.items():
            self._answer(what, value)
        if not self.control.paused:
            self._play()
        elif requests:
            self._draw()

    def _answer(self, what: str, value: Request) -> None:
        source = self._source
        if what == "choice":
            self._choose(self._panel.number_of(str(value)))
        elif what == "number":
            self._choose(min(source.keys, key=lambda key: abs(key - int(value))))
        elif what == "step":  # the slider itself is not set: it may have moved on
            self._go(int(value))
        elif what == "button":
            self._press(str(value))
        elif what == "speed":
            self.control.set_speed(SPEEDS[str(value)])
            self._go(self.step)
        elif what == "follow":
            self._follow = page.bodies_to_follow(source.scene.model).get(str(value), -1)
            page.zoom(self._server, self._stage, self._mirror, self._follow)
        elif what == "array":
            self._panel.show_array(str(value))
        else:
            self._switches[what] = bool(value)
            self._switch()

    def _choose(self, key: int | None) -> None:
        if key is not None and key != self._source.key:
            self._source.choose(key)
            self._enter()

    def _press(self, button: str) -> None:
        self.control.pause(button != "Play")
        if button == "Play":
            self._go(0 if self.step == self.n_steps - 1 else self.step)
        elif button != "Pause":
            self._go(self.step + (1 if button == "Next" else -1))
        self._panel.set_step(self.step)

    def _go(self, step: int) -> None:
        """Go to a step. Playback continues from there."""
        self.step = min(max(step, 0), self.n_steps - 1)
        self._start, self._first = time.perf_counter(), self.step

    def _play(self) -> None:
        passed = (time.perf_counter() - self._start) * (self.control.speed or 1.0)
        self.step = min(self._first + int(passed / self._source.dt), self.n_steps - 1)
        self._panel.set_step(self.step)
        if self.step == self.n_steps - 1:
            self.control.pause()
        self._draw()

    # -- drawing ------------------------------------------------------------------------------------------------------

    def _enter(self, step: int = 0, array: str | None = None) -> None:
        """Show the chosen episode."""
        self._go(step)
        self._panel.enter(array)
        self._panel.set_step(self.step)
        self._draw()

    def _draw(self) -> None:
        """Show the current step: always the scene, and images and plots at a lower rate during playback."""
        source, now = self._source, time.perf_counter()
        source.pose(self.step)
        self._set_up_stage()
        self._mirror.update(source.env)
        with self._server.atomic():
            self._stage.draw(source.env, Painter(), self._follow)
            if self._switches["show_returns"]:
                self._stage.draw_returns(source.returns(self.step))
        if self.control.paused or now >= self._panel_due:
            self._panel_due = now + _PANEL
            self._panel.draw(self.step)

    def _set_up_stage(self) -> None:
        """Put the source's scene on the stage, with the model values of its env."""
        source = self._source
        if self._staged is source.scene:
            if self._mirror.update_model(source.env):
                self._stage.build_geoms()
            return
        self._server.scene.reset()
        self._staged, self._mirror = source.scene, Mirror(source.scene.world)
        self._mirror.update_model(source.env)
        self._mirror.update(source.env)
        sensors = source.scene.sensors.items()
        cameras = [each for uuid, each in sensors if isinstance(each, CameraSensor) and uuid not in source.hidden]
        self._stage = Stage(self._server, self._mirror, cameras, self._mirror.visible_region())
        self._switch()
        self._follow = -1
        self._panel.list_bodies(list(page.bodies_to_follow(source.scene.model)))

    def _switch(self) -> None:
        for name, on in self._switches.items():
            setattr(self._stage, name, on)
        self._stage.set_visible()
