"""A page of recorded data: the scene at any step, its images, and plots of what was sensed."""

from __future__ import annotations

import html
import threading
import time
from pathlib import Path
from typing import Any

import torch

from sensorium.cameras import CameraSensor
from sensorium.cameras.plotting import as_picture
from sensorium.datasets.dataset import ABOUT, Dataset
from sensorium.datasets.episode import Episode
from sensorium.errors import DatasetError, DeviceError, OptionError, SensoriumError, did_you_mean, shorten
from sensorium.viewer.base import FRAME
from sensorium.viewer.control import Control
from sensorium.viewer.data_source import Source
from sensorium.viewer.opening import find_port
from sensorium.worlds import Painter, Scene

_PANEL = 0.1
"""Seconds between two updates of images and plots while it plays."""
_LISTED = 200
"""Episodes that the list has at once."""
_SPEEDS = {"0.1 ×": 0.1, "0.25 ×": 0.25, "0.5 ×": 0.5, "real time": 1.0, "2 ×": 2.0, "5 ×": 5.0}


def open_data(path: str | Path, port: int | None, host: str, open_browser: bool) -> DataViewer:
    """See :func:`sensorium.datasets.view`."""
    try:
        import viser  # noqa: F401
    except ImportError as error:
        raise DeviceError("the page in the browser needs viser: pip install 'sensorium[view]'") from error
    free = find_port(host, port)
    return DataViewer(open_source(Path(path)), host, free, open_browser)


def open_source(folder: Path) -> Source:
    """What is in a folder, to be looked at.

    Raises:
        DatasetError: it is neither a data set nor a recording, or is damaged.
    """
    if not folder.is_dir():
        raise DatasetError(f"there is no folder {folder}; give that of a data set or of a recording")
    if (folder / ABOUT).is_file():
        from sensorium.viewer.data_episodes import EpisodeSource

        return EpisodeSource(Dataset(folder))
    if (folder / "config.json").is_file():
        from sensorium.viewer.data_runs import RunSource

        return RunSource(Episode(folder))
    held = [each for each in sorted(folder.iterdir()) if (each / ABOUT).is_file() or (each / "config.json").is_file()]
    hint = f"; in it are {shorten([str(each) for each in held])}" if held else ""
    raise DatasetError(
        f"{folder} is neither a data set (it has no {ABOUT}) nor a recording (it has no config.json){hint}"
    )


class DataViewer:
    """A page that shows a data set or a recording. Made by ``sn.datasets.view(folder)``.

    A thread of its own draws it, and plays; nothing has to be called for it.

    Attributes:
        address: where it is, e.g. "http://127.0.0.1:8080".
        episode: number of the episode that is shown; of a recording, the env.
        step: which step of it.
    """

    def __init__(self, source: Source, host: str, port: int, open_browser: bool) -> None:
        from sensorium.viewer import page  # which needs viser

        self._page, self._source = page, source
        self.control = Control(speed=1.0)
        self.control.paused = True
        self.step = 0
        self._drawing = threading.RLock()
        self._closed = threading.Event()
        self._staged: Scene | None = None
        self._follow = -1
        self._problem = ""
        self._panel_due = self._played = 0.0
        self._images: dict[str, Any] = {}
        self._listed: list[int] = []
        self._labels: dict[str, int] = {}
        self._switches = {"show_sensors": True, "show_collision": False}
        try:
            self._server = page.start_server(host, port)
        except BaseException:
            source.close()
            raise
        self.address = f"http://{host}:{self._server.get_port()}"
        try:
            self._build_panel()
            self._enter()
            page.arrange(self._server, self._stage)
        except BaseException:
            self._free()
            raise
        self._thread = threading.Thread(target=self._run, name="sensorium-view", daemon=True)
        self._thread.start()
        page.tell_address(source.title, self.address, open_browser)

    # -- what users call ----------------------------------------------------------------------------------------------

    @property
    def episode(self) -> int:
        """Number of the episode that is shown; of a recording, the env."""
        return self._source.key

    @property
    def n_steps(self) -> int:
        """How many steps it has, the first included."""
        return self._source.n_steps

    def show(self, episode: int | None = None, step: int = 0, array: str | None = None) -> None:
        """Go to a step, and stay there.

        Args:
            episode: number of the episode, or of the env of a recording; None for the one that is shown.
            step: which of its steps, from 0; negative ones count from the end.
            array: name of what is plotted, as in the list; None leaves it.

        Raises:
            OptionError: there is no such episode, step or array. The page stays as it was.
        """
        with self._drawing:
            source, before = self._source, self._source.key
            key = before if episode is None else episode
            if key not in source.keys:
                raise OptionError(f"{source.title} has no {source.kind.lower()} {key!r}; it has {_range(source.keys)}")
            if key != before:
                source.choose(key)
            problem = self._wrong(step, array)
            if problem:
                if key != before:
                    source.choose(before)
                raise OptionError(problem)
            self.control.pause()
            self.step = step % source.n_steps
            self._slider.value = self.step
            if key != before:
                self._enter(array)
            else:
                if array is not None:
                    self._choose_array(array)
                self._draw()

    def _wrong(self, step: int, array: str | None) -> str:
        source, count = self._source, self._source.n_steps
        where = f"{source.kind.lower()} {source.key} of {source.title}"
        if not isinstance(step, int) or not -count <= step < count:
            return f"step must be an integer in [{-count}, {count}) for {where}, got {step!r}"
        if array is not None and array not in source.names:
            return f"{where} has no array {array!r}{did_you_mean(array, source.names)}"
        return ""

    def run(self) -> None:
        """Wait until it is closed."""
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
        self._page.stop_server(self._server)
        self._source.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed.is_set()

    def __enter__(self) -> DataViewer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the panel ----------------------------------------------------------------------------------------------------

    def _build_panel(self) -> None:
        from sensorium.viewer.data_plots import Plot

        gui, control, source = self._server.gui, self.control, self._source

        def asked(element: Any, what: str) -> None:
            """Leave what the person chose to the thread that draws; what this program sets is none of that."""

            def ask(event: Any) -> None:
                if event.client is not None:
                    control.ask(what, event.target.value)

            element.on_update(ask)

        self._status = gui.add_html("")
        with gui.add_folder(source.kind):
            self._choice = gui.add_dropdown(source.kind, ("",))
            asked(self._choice, "choice")
            self._number: Any = None
            if len(source.keys) > _LISTED:
                self._number = gui.add_number("Number", source.key, min=source.keys[0], max=source.keys[-1], step=1)
                asked(self._number, "number")
        with gui.add_folder("Time"):
            self._slider = gui.add_slider("Step", 0, max(source.n_steps - 1, 1), 1, 0)
            asked(self._slider, "step")
            buttons = gui.add_button_group("Playback", ("Play", "Pause", "Back", "Next"))
            buttons.on_click(lambda event: control.ask("button", event.target.value))
            speed = gui.add_dropdown("Speed", tuple(_SPEEDS), initial_value="real time")
            asked(speed, "speed")
            self._bodies = gui.add_dropdown("Follow", ("nothing",))
            asked(self._bodies, "follow")
        folder = gui.add_folder("Plot")
        with folder:
            self._array = gui.add_dropdown("Array", ("",))
            asked(self._array, "array")
        self._plot = Plot(gui, folder)
        self._image_folder = gui.add_folder("Cameras")
        with gui.add_folder("Show", expand_by_default=False):
            for label, name in (("Sensor frames", "show_sensors"), ("Collision geoms", "show_collision")):
                asked(gui.add_checkbox(label, self._switches[name]), name)

    def _enter(self, array: str | None = None) -> None:
        """Show another episode: what depends on it is made anew."""
        source = self._source
        self.step = min(self.step, source.n_steps - 1)
        self._list()
        with self._server.atomic():
            self._slider.max = max(source.n_steps - 1, 1)
            self._slider.value = self.step
        self._list_images()
        chosen = array or self._array.value
        chosen = chosen if chosen in source.names else source.names[0]
        if tuple(self._array.options) != tuple(source.names):
            self._array.options = tuple(source.names)
        self._choose_array(chosen)
        self._draw()

    def _list(self) -> None:
        """The episodes around the present one."""
        keys, key = self._source.keys, self._source.key
        first = keys.index(key) // _LISTED * _LISTED
        listed = keys[first : first + _LISTED]
        if listed != self._listed:
            self._listed = listed
            self._labels = {self._source.label(each): each for each in listed}
            self._choice.options = tuple(self._labels)
        self._choice.value = next(label for label, each in self._labels.items() if each == key)
        if self._number is not None:
            self._number.value = key

    def _list_images(self) -> None:
        if self._images.keys() == self._source.images.keys():
            return
        for element in self._images.values():
            element.remove()
        self._images = {}

    def _choose_array(self, name: str) -> None:
        self._array.value = name
        self._plot.show(self._source.series(name))

    # -- the thread that draws ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closed.is_set():
            self.control.wait(1.0 if self.control.paused else FRAME)
            if self._closed.is_set():
                return
            with self._drawing:
                try:
                    self._serve()
                except (SensoriumError, OSError, ValueError, KeyError) as error:  # a damaged file must not end the page
                    self.control.pause()
                    self._problem = str(error)
                    self._tell()

    def _serve(self) -> None:
        asked = self.control.take()
        for what, value in asked.items():
            self._answer(what, value)
        if not self.control.paused:
            self._play()
        elif asked:
            self._draw()

    def _answer(self, what: str, value: Any) -> None:
        source = self._source
        if what in ("choice", "number"):
            key = self._labels.get(value) if what == "choice" else _nearest(source.keys, int(value))
            if key is not None and key != source.key:
                source.choose(key)
                self.step = 0
                self._enter()
        elif what == "step":  # the slider is there already, and may be further: it is not set back
            self.step = min(max(int(value), 0), source.n_steps - 1)
            self._begin_play()
        elif what == "button":
            self._press(value)
        elif what == "speed":
            self.control.set_speed(_SPEEDS[value])
            self._begin_play()
        elif what == "follow":
            self._follow = self._page.bodies_to_follow(source.scene.model).get(value, -1)
        elif what == "array":
            self._choose_array(value)
        else:
            self._switches[what] = bool(value)
            setattr(self._stage, what, bool(value))
            self._stage.set_visible()

    def _press(self, button: str) -> None:
        last = self._source.n_steps - 1
        if button == "Play":
            if self.step == last:
                self.step = 0
            self.control.pause(False)
            self._begin_play()
            return
        self.control.pause()
        if button in ("Back", "Next"):
            self.step = min(max(self.step + (1 if button == "Next" else -1), 0), last)
            self._slider.value = self.step

    def _begin_play(self) -> None:
        """Time goes on from the present step."""
        self._played, self._from = time.perf_counter(), self.step

    def _play(self) -> None:
        last = self._source.n_steps - 1
        passed = (time.perf_counter() - self._played) * (self.control.speed or 1.0)
        self.step = min(self._from + int(passed / self._source.dt), last)
        self._slider.value = self.step
        if self.step == last:
            self.control.pause()
        self._draw()

    # -- drawing ------------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        """Show the present step: the scene always, images and plots now and then while it plays."""
        source, now = self._source, time.perf_counter()
        source.pose(self.step)
        self._put_on_stage()
        with self._server.atomic():
            self._stage.draw(source.env, Painter(), self._follow)
        self._problem = ""
        if self.control.paused or now >= self._panel_due:
            self._panel_due = now + _PANEL
            self._plot.mark(self.step, self.step * source.dt)
            self._tell()
            self._draw_images()

    def _put_on_stage(self) -> None:
        from sensorium.viewer.mirror import Mirror
        from sensorium.viewer.stage import Stage

        source = self._source
        if self._staged is not source.scene:
            self._server.scene.reset()
            self._staged, self._mirror = source.scene, Mirror(source.scene.world)
            self._mirror.update_model(source.env)
            self._mirror.update(source.env)
            sensors = source.scene.sensors.items()
            cameras = [each for uuid, each in sensors if isinstance(each, CameraSensor) and uuid not in source.hidden]
            self._stage = Stage(self._server, self._mirror, cameras, self._mirror.middle())
            for name, on in self._switches.items():
                setattr(self._stage, name, on)
            self._stage.set_visible()
            self._follow = -1
            self._bodies.options = ("nothing", *self._page.bodies_to_follow(source.scene.model))
            self._bodies.value = "nothing"
        elif self._mirror.update_model(source.env):
            self._stage.build_geoms()
        self._mirror.update(source.env)

    def _draw_images(self) -> None:
        for name, kind in self._source.images.items():
            picture = self._page.displayed(as_picture(kind, torch.from_numpy(self._source.image(name, self.step))))
            if name in self._images:
                self._images[name].image = picture
            else:
                with self._image_folder:
                    self._images[name] = self._server.gui.add_image(picture, label=name, format="jpeg")

    def _tell(self) -> None:
        source = self._source
        text = f"<b>{self.step * source.dt:.3f} s</b> &nbsp;·&nbsp; step {self.step} of {source.n_steps - 1}"
        text += f"<br>{source.kind.lower()} {html.escape(self._choice.value)}"
        if self._problem:
            text += f"<br><span style='color:#b3261e'>{html.escape(self._problem)}</span>"
        self._status.content = f"<div style='padding:0.5em 1em;font-size:0.9em'>{text}</div>"


def _nearest(keys: list[int], number: int) -> int:
    return min(keys, key=lambda key: abs(key - number))


def _range(keys: list[int]) -> str:
    return shorten([str(key) for key in keys])
