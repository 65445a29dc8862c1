"""MuJoCo's own viewer as a window on one env."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import mujoco.viewer

from sensorium.errors import DeviceError
from sensorium.viewer.base import Viewer
from sensorium.viewer.mirror import Mirror
from sensorium.worlds import Painter

if TYPE_CHECKING:
    from sensorium.worlds import Scene

_SPACE, _RIGHT, _BACKSPACE = 32, 262, 259


class NativeViewer(Viewer):
    """MuJoCo's passive viewer. Space pauses and resumes, the right arrow makes one step, backspace resets the env."""

    def __init__(self, scene: Scene, env: int) -> None:
        super().__init__(scene, env)
        self._mirror = Mirror(scene.world)
        self._mirror.update_model(env)
        self._mirror.update(env)
        try:
            self._window = mujoco.viewer.launch_passive(self._mirror.model, self._mirror.data, key_callback=self._key)
        except RuntimeError as error:
            raise DeviceError(f"cannot open MuJoCo's viewer: {error}; use scene.view() for the browser") from error

    @property
    def closed(self) -> bool:
        return self._closed or not self._window.is_running()

    def _key(self, code: int) -> None:
        if code == _SPACE:
            self.control.pause(not self.control.paused)
        elif code == _RIGHT:
            self.control.step()
        elif code == _BACKSPACE:
            self.control.ask("reset")

    def _draw(self, everything: bool) -> None:
        painter = Painter()
        self.scene.draw_debug(painter, self.env)
        with self._window.lock():
            self._mirror.update_model(self.env)
            self._mirror.update(self.env)
            mujoco.mj_forward(self._mirror.model, self._mirror.data)  # contacts and forces, which the viewer can show
            self._window.user_scn.ngeom = 0
            painter.add_to(self._window.user_scn)
        self._window.sync()

    def _shut(self) -> None:
        self._window.close()
