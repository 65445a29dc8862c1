"""The base of all viewers: when they draw, and how they pause and drive the scene."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from sensorium.errors import OptionError
from sensorium.viewer.control import Control, Pace, Request

if TYPE_CHECKING:
    from sensorium.worlds import Scene

FRAME = 1 / 30
"""Seconds between two frames."""
_UNWATCHED = 1.0
"""Seconds between two frames while no client is connected."""


class Viewer:
    """A window on a running scene, opened by ``scene.view()``.

    The thread that steps the scene draws it, after a step, at most 30 times a second. While paused, ``scene.step()``
    does not return.

    Attributes:
        scene: the scene.
        env: the env that is shown.
        control: pause, single steps and speed.
    """

    env: int

    def __init__(self, scene: Scene, env: int) -> None:
        if not isinstance(env, int) or isinstance(env, bool) or not 0 <= env < scene.n_envs:
            raise OptionError(f"env must be an integer in [0, {scene.n_envs}), got {env!r}")
        self.scene = scene
        self.env = env
        self.control = Control()
        self._pace = Pace(scene.dt)
        self._due = 0.0
        self._closed = False
        self._drawing = threading.RLock()

    # -- called by users ----------------------------------------------------------------------------------------------

    def update(self) -> None:
        """Show the current state of the scene. Steps do this automatically; call it after changes without a step."""
        self._show(everything=True)

    def _show(self, everything: bool) -> None:
        with self._drawing:
            if self.closed:
                return
            self._serve()
            self._draw(everything)
            self._due = self._pace.clock() + (FRAME if self._watched() else _UNWATCHED)

    def run(self) -> None:
        """Step the scene until the window is closed, in real time unless another speed is set."""
        if self.control.speed is None:
            self.set_speed(1.0)
        self._pace.restart()
        while not self.closed:
            self.scene.step()

    def set_speed(self, speed: float | None) -> None:
        """Set the simulated seconds per second, also for steps of your program; None removes the limit.

        Raises:
            OptionError: the speed is not finite and positive.
        """
        if speed is not None and not 0 < speed < float("inf"):
            raise OptionError(f"speed must be finite and > 0, or None, got {speed!r}")
        self.control.set_speed(speed)
        self._pace.restart()

    def add_sliders(self) -> None:
        """Add sliders for joints and actuators to the window, if it has none of its own."""

    def close(self) -> None:
        """Close the window. The scene continues without it."""
        if self._closed:
            return
        self._closed = True
        self.control.wake()  # releases a paused step at once
        with self._drawing:
            self.scene._viewer = None
            self._shut()

    @property
    def closed(self) -> bool:
        """Whether the window was closed, by the program or by the user."""
        return self._closed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- called by the scene ------------------------------------------------------------------------------------------

    def after_step(self) -> None:
        """Draw if a frame is due, and wait if the window is paused or has a speed. The scene calls it after a step."""
        self._pace.tick()
        self._record()
        if self._pace.clock() >= self._due:
            self._show(self._watched())
        if self.control.paused or self.control.speed is not None:
            self._hold()

    def after_restart(self) -> None:
        """Draw if a frame is due. The scene calls it after envs were reset or their state was written."""
        if self._pace.clock() >= self._due:
            self._show(self._watched())

    def _hold(self) -> None:
        """Wait until the next step may start, and keep drawing meanwhile."""
        control, was_paused = self.control, False
        while not self.closed:
            if control.paused:
                was_paused = True
                if control.take_step():
                    break
                seconds = FRAME
            else:
                if was_paused:
                    break
                seconds = self._pace.delay(control.speed)
                if seconds <= 0:
                    return
            if self._pace.clock() >= self._due:
                self._show(self._watched())
            control.wait(min(seconds, FRAME))
        self._pace.restart()

    # -- implemented by windows ---------------------------------------------------------------------------------------

    def _draw(self, everything: bool) -> None:
        """Show the current state of the scene; camera images, which are expensive, only with ``everything``."""
        raise NotImplementedError

    def _shut(self) -> None:
        """Free the resources of the window."""
        raise NotImplementedError

    def _record(self) -> None:
        """Record what plots need. Called after every step."""

    def _serve(self) -> None:
        """Act on the requests of the user. Called by the thread that steps."""
        requests = self.control.take()
        if "reset" in requests:
            self.scene.reset(envs=[self.env])
        for what in requests.keys() - {"reset"}:
            self._answer(what, requests[what])

    def _answer(self, what: str, value: Request) -> None:
        """Act on a request that is specific to the window."""

    def _watched(self) -> bool:
        """Return whether a user is looking at the window."""
        return True
