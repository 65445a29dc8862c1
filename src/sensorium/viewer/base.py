"""What all windows share: when they are drawn, and how they hold and drive the scene."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from sensorium.errors import OptionError
from sensorium.viewer.control import Control, Pace

if TYPE_CHECKING:
    from sensorium.worlds import Scene

FRAME = 1 / 30
"""Seconds between two pictures."""
_UNWATCHED = 1.0
"""The same, when nobody is looking."""


class Viewer:
    """A window on a scene. Made by ``scene.view()``.

    It is drawn by the thread that steps the scene, after a step, at most 30 times a second. While paused,
    ``scene.step()`` does not return.

    Attributes:
        env: the env that is shown.
        control: pause, step and speed.
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

    # -- what users call ----------------------------------------------------------------------------------------------

    def update(self) -> None:
        """Show the scene as it is now. Called after steps by itself; call it after changes without a step."""
        self._show(everything=True)

    def _show(self, everything: bool) -> None:
        with self._drawing:
            if self.closed:
                return
            self._serve()
            self._draw(everything)
            self._due = self._pace.clock() + (FRAME if self._watched() else _UNWATCHED)

    def run(self) -> None:
        """Step the scene, in real time unless another speed was chosen, until the window is closed."""
        if self.control.speed is None:
            self.set_speed(1.0)
        self._pace.restart()
        while not self.closed:
            self.scene.step()

    def set_speed(self, speed: float | None) -> None:
        """Simulated seconds a second from now on, also where a program of yours steps; None: as fast as it goes."""
        if speed is not None and not 0 < speed < float("inf"):
            raise OptionError(f"speed must be finite and greater than 0, or None, got {speed!r}")
        self.control.set_speed(speed)
        self._pace.restart()

    def close(self) -> None:
        """Close the window; the scene goes on without it."""
        if self._closed:
            return
        self._closed = True
        self.control.wake()  # lets a held step go at once
        with self._drawing:
            self.scene._viewer = None
            self._shut()

    @property
    def closed(self) -> bool:
        """Whether it was closed, here or by the person at the window."""
        return self._closed

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- called by the scene ------------------------------------------------------------------------------------------

    def after_step(self) -> None:
        """A step was taken: show it if it is time, and wait where the person at the window wants it."""
        self._pace.tick()
        self._record()
        if self._pace.clock() >= self._due:
            self._show(self._watched())
        if self.control.paused or self.control.speed is not None:
            self._hold()

    def after_restart(self) -> None:
        """Envs were reset, or their state was written."""
        if self._pace.clock() >= self._due:
            self._show(self._watched())

    def _hold(self) -> None:
        """Wait until the next step may come; meanwhile, serve the window."""
        control, stood = self.control, False
        while not self.closed:
            if control.paused:
                stood = True
                if control.take_step():
                    break
                seconds = FRAME
            else:
                if stood:
                    break
                seconds = self._pace.delay(control.speed)
                if seconds <= 0:
                    return
            if self._pace.clock() >= self._due:
                self._show(self._watched())
            control.wait(min(seconds, FRAME))
        self._pace.restart()

    # -- what a window fills in ---------------------------------------------------------------------------------------

    def _draw(self, everything: bool) -> None:
        """Show the scene as it is now; without what is dear (images) unless ``everything``."""
        raise NotImplementedError

    def _shut(self) -> None:
        """Free what the window holds."""
        raise NotImplementedError

    def _record(self) -> None:
        """Called after every step."""

    def _serve(self) -> None:
        """Act on what was asked for; called by the thread that steps."""
        asked = self.control.take()
        if "reset" in asked:
            self.scene.reset(envs=[self.env])
        for what in asked.keys() - {"reset"}:
            self._answer(what, asked[what])

    def _answer(self, what: str, value: object) -> None:
        """Act on a request of the window's own."""

    def _watched(self) -> bool:
        """Whether anybody is looking."""
        return True
