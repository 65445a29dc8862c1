"""The shared block of a renderer: all cameras of a scene that use it, what of their images is stale, and the one pass
that renews it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from sensorium.cameras.renderer import Renderer, RendererChoice, RenderSettings, choose
from sensorium.errors import OptionError
from sensorium.worlds import World

if TYPE_CHECKING:
    from sensorium.cameras.camera import CameraSensor


class RenderPass:
    """The cameras of one renderer. They attach in the order in which they were added; :meth:`start` comes last."""

    def __init__(self, kind: str, world: World, seed: int) -> None:
        self._cls, self.choice = choose(kind, world.device)
        self.world = world
        self.cameras: list[CameraSensor] = []
        self._renderer: Renderer | None = None
        self._seed = seed
        self._stale = np.zeros((0, world.n_envs), bool)
        self._seen: list[int] = []
        self.passes = 0
        """Times that the renderer was asked to draw."""
        self.lock = threading.RLock()
        """Held by whoever renders or serves images: cameras may be read by several threads."""

    @property
    def outputs(self) -> frozenset[str]:
        """The base outputs that the renderer gives."""
        return self._cls.outputs

    def attach(self, camera: CameraSensor) -> None:
        """Take one more camera."""
        most, view = self._cls.max_resolution, camera.view
        if max(view.width, view.height) > most:
            drawn = (view.width, view.height)
            margins = "" if drawn == camera.options.resolution else f", with the margins that its lens needs {drawn}"
            raise OptionError(
                f"Camera(uuid={camera.uuid!r}).resolution: the renderer {self.choice.name!r} draws at most {most} "
                f"pixels a side, got {camera.options.resolution}{margins}"
            )
        for option in ("quality", "anti_aliasing"):
            wanted = getattr(camera.options, option)
            for other in self.cameras:
                theirs = getattr(other.options, option)
                if None not in (wanted, theirs) and wanted != theirs:
                    raise OptionError(
                        f"{option}: the cameras of one renderer share one, but {other.uuid!r} wants {theirs!r} and "
                        f"{camera.uuid!r} wants {wanted!r}; give both the same, or another renderer"
                    )
        self.cameras.append(camera)

    def start(self) -> None:
        """Start the renderer, for all cameras that are there."""
        options = [camera.options for camera in self.cameras]
        quality = next((one.quality for one in options if one.quality is not None), None)
        samples = next((one.anti_aliasing for one in options if one.anti_aliasing is not None), None)
        self._stale = np.ones((len(self.cameras), self.world.n_envs), bool)
        self._seen = [self.world.changes.version] * len(self.cameras)
        look = RenderSettings(quality=quality, lights=self.world.lights, samples=samples, seed=self._seed)
        renderer = self._cls()
        about = renderer.build(self.world, [camera.view for camera in self.cameras], look)
        self._renderer = renderer
        self.choice = RendererChoice(self.choice.name, f"{self.choice.why}: {about}")

    def outdate(self, camera: CameraSensor, envs: np.ndarray | None = None) -> None:
        """The images of a camera in these envs (None: all) are not what it would see now."""
        self._stale[self.cameras.index(camera), slice(None) if envs is None else envs] = True

    def render(self, wanted: dict[CameraSensor, np.ndarray | None] | None = None) -> None:
        """Renew what is stale, in one pass.

        Args:
            wanted: only these cameras, in the envs of these masks (None: all). Default: everything.
        """
        changes = self.world.changes
        self.world.settle()
        targets = dict.fromkeys(self.cameras) if wanted is None else wanted
        todo: list[CameraSensor] = []
        union = np.zeros(self.world.n_envs, bool)
        for number, camera in enumerate(self.cameras):
            ids = changes.since(self._seen[number])
            self._seen[number] = changes.version
            stale = self._stale[number]
            stale[slice(None) if ids is None else ids] = True
            if camera not in targets or not camera.view.caches:
                continue
            mask = targets[camera]
            asked = stale if mask is None else stale & mask
            if asked.any():
                todo.append(camera)
                union |= asked
        if not todo:
            return
        envs = None if union.all() else np.flatnonzero(union)
        for camera in todo:
            camera._mount.follow()
        assert self._renderer is not None
        self._renderer.render([camera.view for camera in todo], envs)
        self.passes += 1
        for camera in todo:
            self._stale[self.cameras.index(camera), slice(None) if envs is None else envs] = False
            camera._images.finish(envs)
            camera._drawn = True

    def renew(self) -> None:
        """Start the renderer anew, for views whose size has changed."""
        self.close()
        self.choice = RendererChoice(self.choice.name, self.choice.why.split(": ")[0])
        self.start()

    def redraw(self, camera: CameraSensor, envs: np.ndarray | None) -> None:
        """Draw one camera once more, of the world as it is for the moment."""
        assert self._renderer is not None
        self._renderer.render([camera.view], envs)

    def close(self) -> None:
        """Stop the renderer."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None
