"""``RenderPass``: all cameras of a scene that use one renderer, and the one call that renders their stale images."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from sensorium.cameras.renderer import Renderer, RendererChoice, RenderSettings, choose_renderer
from sensorium.errors import OptionError
from sensorium.worlds import World

if TYPE_CHECKING:
    from sensorium.cameras.camera import CameraSensor

EnvMasks = dict["CameraSensor", np.ndarray | None]
"""Camera -> mask (B,) of envs; None for all envs."""


class RenderPass:
    """The cameras of one renderer. Cameras attach in the order in which they were added; then :meth:`start` is called.

    Args:
        renderer: name of the renderer, or "auto".
        world: the running engine.
        seed: seed of the scene.

    Attributes:
        choice: the renderer that was chosen, and why.
        cameras: the cameras, in the order in which they were added.
        passes: number of times that the renderer was called.
        lock: held while images are rendered or delivered, since several threads may read cameras.
    """

    def __init__(self, renderer: str, world: World, seed: int) -> None:
        self._cls, self._initial_choice = choose_renderer(renderer, world.device)
        self.choice = self._initial_choice
        self.world = world
        self.cameras: list[CameraSensor] = []
        self._renderer: Renderer | None = None
        self._seed = seed
        self._stale = np.zeros((0, world.n_envs), bool)
        self._seen_version: list[int] = []
        self.passes = 0
        self.lock = threading.RLock()

    @property
    def outputs(self) -> frozenset[str]:
        """Base outputs that the renderer provides."""
        return self._cls.outputs

    def attach(self, camera: CameraSensor) -> None:
        """Add a camera.

        Raises:
            OptionError: its resolution is too large, or its quality or anti-aliasing differs from another camera's.
        """
        limit, view, resolution = self._cls.max_resolution, camera.view, camera.options.resolution
        if max(view.width, view.height) > limit:
            drawn = (view.width, view.height)
            margins = "" if drawn == resolution else f" ({drawn} with the overscan margins of its lens)"
            raise OptionError(
                f"Camera(uuid={camera.uuid!r}).resolution must be at most {limit} pixels per side for the renderer "
                f"{self.choice.name!r}, got {resolution}{margins}"
            )
        for option in ("quality", "anti_aliasing"):
            value = getattr(camera.options, option)
            for other in self.cameras:
                other_value = getattr(other.options, option)
                if None not in (value, other_value) and value != other_value:
                    raise OptionError(
                        f"{option} must be the same for all cameras of one renderer, got {other_value!r} for "
                        f"{other.uuid!r} and {value!r} for {camera.uuid!r}; set the same value, or another renderer"
                    )
        self.cameras.append(camera)

    def start(self) -> None:
        """Start the renderer for all attached cameras."""
        options = [camera.options for camera in self.cameras]
        quality = next((one.quality for one in options if one.quality is not None), None)
        samples = next((one.anti_aliasing for one in options if one.anti_aliasing is not None), None)
        self._stale = np.ones((len(self.cameras), self.world.n_envs), bool)
        self._seen_version = [self.world.changes.version] * len(self.cameras)
        settings = RenderSettings(quality=quality, lights=self.world.lights, samples=samples, seed=self._seed)
        renderer = self._cls()
        runs_on = renderer.build(self.world, [camera.view for camera in self.cameras], settings)
        self._renderer = renderer
        self.choice = RendererChoice(self._initial_choice.name, f"{self._initial_choice.why}: {runs_on}")

    def mark_stale(self, camera: CameraSensor, envs: np.ndarray | None = None) -> None:
        """Mark the images of a camera in these envs (None: all) as stale, because its pose or lens has changed."""
        self._stale[self.cameras.index(camera), slice(None) if envs is None else envs] = True

    def render(self, wanted: EnvMasks | None = None) -> None:
        """Render the stale images in one call of the renderer.

        Args:
            wanted: cameras to render, each in the envs of its mask (None: all envs). Default: all cameras.
        """
        changes = self.world.changes
        self.world.settle()
        targets = dict.fromkeys(self.cameras) if wanted is None else wanted
        todo: list[CameraSensor] = []
        union = np.zeros(self.world.n_envs, bool)
        for number, camera in enumerate(self.cameras):
            ids = changes.since(self._seen_version[number])
            self._seen_version[number] = changes.version
            stale = self._stale[number]
            stale[slice(None) if ids is None else ids] = True
            if camera not in targets or not camera.view.caches:
                continue
            mask = targets[camera]
            needed = stale if mask is None else stale & mask
            if needed.any():
                todo.append(camera)
                union |= needed
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

    def restart(self, cameras: EnvMasks) -> None:
        """Render these timed cameras, and restart their captures with the images, in the envs of their masks."""
        self.render(cameras)
        for camera, mask in cameras.items():
            camera._images.restart(mask)
            camera._mark_measured_stale()

    def rebuild(self) -> None:
        """Start the renderer again, for views whose size has changed."""
        self.close()
        self.start()

    def redraw(self, camera: CameraSensor, envs: np.ndarray | None) -> None:
        """Render one camera from the world's temporary state, without changing what is stale."""
        assert self._renderer is not None
        self._renderer.render([camera.view], envs)

    def close(self) -> None:
        """Stop the renderer."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None
