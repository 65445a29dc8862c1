"""The one link from the lower layers to ``sensorium.viewer``, which lies above them.

``scene.view()`` and ``sn.datasets.view()`` open windows of a package that itself imports scenes and datasets. The
viewer is therefore named here by text and imported when a window opens, and the layers below see only the protocols of
this module.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, Self, cast

if TYPE_CHECKING:
    from pathlib import Path


class ViewerControl(Protocol):
    """Pause, single steps and speed of a window."""

    paused: bool
    """Whether the window is paused."""

    def pause(self, paused: bool = True) -> None:
        """Pause, or continue with ``paused=False``."""
        ...

    def step(self) -> None:
        """Make one step, then stay paused."""
        ...


class Window(Protocol):
    """Interface of all viewer windows; a context manager that closes the window."""

    @property
    def closed(self) -> bool:
        """Whether the window was closed, by the program or by the user."""
        ...

    def run(self) -> None:
        """Keep the window open until it is closed."""
        ...

    def close(self) -> None:
        """Close the window."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class SceneViewer(Window, Protocol):
    """A window on a running scene, as ``scene.view()`` returns it."""

    env: int
    """The env that is shown."""

    @property
    def control(self) -> ViewerControl:
        """Pause, single steps and speed."""
        ...

    def update(self) -> None:
        """Show the current state. Call it after changes made without a step."""
        ...

    def set_speed(self, speed: float | None) -> None:
        """Set the simulated seconds per second of real time; None removes the limit."""
        ...

    def add_sliders(self) -> None:
        """Add sliders for joints and actuators to the window, if it has none of its own."""
        ...

    def after_step(self) -> None:
        """Update the window after a step, and block while it is paused. The scene calls it."""
        ...

    def after_restart(self) -> None:
        """Update the window after envs were reset or their state was written. The scene calls it."""
        ...


class DataWindow(Window, Protocol):
    """A page of recorded data, as ``sn.datasets.view()`` returns it."""

    address: str
    """Address of the page, e.g. "http://127.0.0.1:8080"."""
    step: int
    """The step that is shown."""

    @property
    def control(self) -> ViewerControl:
        """Pause and speed of playback."""
        ...

    def show(self, episode: int | None = None, step: int = 0, array: str | None = None) -> None:
        """Show one step of an episode."""
        ...


def scene_viewer() -> Callable[..., SceneViewer]:
    """Return the function that opens a window on a built scene.

    It takes ``(scene, port, host, env, open_browser, native)`` and raises :class:`~sensorium.DeviceError` if viser is
    not installed (unless ``native``).
    """
    return cast("Callable[..., SceneViewer]", importlib.import_module("sensorium.viewer").open_viewer)


def data_viewer() -> Callable[[str | Path, int | None, str, bool], DataWindow]:
    """Return the function that opens a page on a folder of recorded data.

    It takes ``(path, port, host, open_browser)`` and raises :class:`~sensorium.DeviceError` if viser is not installed.
    """
    opener = importlib.import_module("sensorium.viewer.data_opening").open_data
    return cast("Callable[[str | Path, int | None, str, bool], DataWindow]", opener)
