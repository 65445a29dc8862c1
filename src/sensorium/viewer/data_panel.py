"""The panel beside recorded data: choice of the episode and the step, plots and images."""

from __future__ import annotations

import html
from typing import TypeVar

import torch
import viser

from sensorium.cameras.plotting import as_picture
from sensorium.viewer import page
from sensorium.viewer.control import Control
from sensorium.viewer.data_plots import PlotPanel, first_lines
from sensorium.viewer.data_source import PageSource

LISTED = 200
"""Number of episodes in the list at a time."""
SPEEDS = {"0.1 ×": 0.1, "0.25 ×": 0.25, "0.5 ×": 0.5, "real time": 1.0, "2 ×": 2.0, "5 ×": 5.0}
SWITCHES = {
    "show_sensors": "Sensor frames",
    "show_returns": "Lidar returns",
    "show_walls": "Opaque walls",
    "show_collision": "Collision geoms",
}
"""Attribute of the stage -> label."""
SWITCHED_ON = ("show_sensors", "show_returns")
"""Switches that are on at the start."""

InputT = TypeVar("InputT")
"""An input element of viser."""


class Panel:
    """The elements of the panel. Choices of the user become requests to ``control``.

    The requests are "choice" and "number" (of an episode), "step", "button", "speed", "follow", "array", and the
    switches.

    Args:
        gui: the panel of a viser server.
        source: the recorded data.
        control: receives the requests.
    """

    def __init__(self, gui: viser.GuiApi, source: PageSource, control: Control) -> None:
        self._gui, self._source, self._control = gui, source, control
        self._listed: list[int] = []
        self._numbers: dict[str, int] = {}
        self._images: dict[str, viser.GuiImageHandle] = {}
        self._status = gui.add_html("")
        self._build_choice()
        self._build_time()
        folder = gui.add_folder("Plot")
        with folder:
            self._array = self._asking("array", gui.add_dropdown("Array", ("",)))
        self.plot = PlotPanel(gui, folder)
        self._image_folder = gui.add_folder("Cameras")
        with gui.add_folder("Show", expand_by_default=False):
            for name, label in SWITCHES.items():
                self._asking(name, gui.add_checkbox(label, name in SWITCHED_ON))

    def _asking(self, what: str, element: InputT) -> InputT:
        """Turn changes of an element by the user, but not by the program, into requests."""

        def ask(event: viser.GuiEvent) -> None:
            if event.client is not None:
                self._control.ask(what, event.target.value)

        element.on_update(ask)  # type: ignore[attr-defined]
        return element

    def _build_choice(self) -> None:
        gui, source = self._gui, self._source
        with gui.add_folder(source.kind):
            self._choice = self._asking("choice", gui.add_dropdown(source.kind, ("",)))
            self._number: viser.GuiInputHandle | None = None
            if len(source.keys) > LISTED:
                first, last = source.keys[0], source.keys[-1]
                number = gui.add_number("Number", source.key, min=first, max=last, step=1)
                self._number = self._asking("number", number)

    def _build_time(self) -> None:
        gui, control = self._gui, self._control
        with gui.add_folder("Time"):
            self._slider = self._asking("step", gui.add_slider("Step", 0, 1, 1, 0))
            buttons = gui.add_button_group("Playback", ("Play", "Pause", "Back", "Next"))
            buttons.on_click(lambda event: control.ask("button", event.target.value))
            self._asking("speed", gui.add_dropdown("Speed", tuple(SPEEDS), initial_value="real time"))
            self._follow = self._asking("follow", gui.add_dropdown("Follow", ("nothing",)))

    # -- content ------------------------------------------------------------------------------------------------------

    def number_of(self, choice: str) -> int | None:
        """Return the number of the episode of a line of the list."""
        return self._numbers.get(choice)

    def enter(self, array: str | None) -> None:
        """Show another episode, with a plot of ``array``, or of the same array as before."""
        source = self._source
        self._list()
        self._slider.max = max(source.n_steps - 1, 1)
        if self._images.keys() != source.images.keys():
            for element in self._images.values():
                element.remove()
            self._images = {}
        self._image_folder.visible = bool(source.images)
        array = array or self._array.value  # before the options change, which selects the first one
        if tuple(self._array.options) != tuple(source.names):
            self._array.options = tuple(source.names)
        self.show_array(array if array in source.names else first_lines(source))

    def _list(self) -> None:
        """List the episodes around the current one."""
        keys, key = self._source.keys, self._source.key
        first = keys.index(key) // LISTED * LISTED
        listed = keys[first : first + LISTED]
        if listed != self._listed:
            self._listed = listed
            self._numbers = {self._source.label(each): each for each in listed}
            self._choice.options = tuple(self._numbers)
        self._choice.value = next(label for label, each in self._numbers.items() if each == key)
        if self._number is not None:
            self._number.value = key

    def list_bodies(self, names: list[str]) -> None:
        """List the bodies that can be followed, and follow none."""
        self._follow.options = ("nothing", *names)
        self._follow.value = "nothing"

    def show_array(self, name: str) -> None:
        """Plot another array."""
        self._array.value = name
        self.plot.show(self._source.series(name))

    def set_step(self, step: int) -> None:
        """Set the slider to a step."""
        self._slider.value = step

    def set_status(self, step: int, problem: str = "") -> None:
        """Show the step, the time, the episode and a problem."""
        source = self._source
        text = f"<b>{step * source.dt:.3f} s</b> &nbsp;·&nbsp; step {step} of {source.n_steps - 1}"
        text += f"<br>{source.kind.lower()} {html.escape(self._choice.value)}"
        if problem:
            text += f"<br><span style='color:#b3261e'>{html.escape(problem)}</span>"
        self._status.content = f"<div style='padding:0.5em 1em;font-size:0.9em'>{text}</div>"

    def draw(self, step: int) -> None:
        """Show the plot and the images of a step."""
        self.plot.mark(step, step * self._source.dt)
        self.set_status(step)
        for name, kind in self._source.images.items():
            picture = page.displayed(as_picture(kind, torch.from_numpy(self._source.image(name, step))))
            if name in self._images:
                self._images[name].image = picture
            else:
                with self._image_folder:
                    self._images[name] = self._gui.add_image(picture, label=name, format="jpeg")
