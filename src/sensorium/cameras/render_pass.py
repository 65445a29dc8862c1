"""``RenderPass``: all cameras of a scene that use one renderer, and the call that renders their stale images."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from sensorium.cameras.derive import SOURCE
from sensorium.cameras.options import OUTPUTS
from sensorium.cameras.registry import RendererChoice, choose_renderer
from sensorium.cameras.renderer import Renderer, RenderSettings
from sensorium.errors import OptionError
from sensorium.worlds import World
from sensorium.worlds.forks import check_not_forked, fork_depth

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
        passes: number of times that the renderer was called for images of the current state.
        lock: held while images are rendered or delivered, since several threads may read cameras.
    """

    def __init__(self, renderer: str, world: World, seed: int) -> None:
        self._cls, self._initial_choice = choose_renderer(renderer, world.device)
        self.choice = self._initial_choice
        self.world = world
        self.cameras: list[CameraSensor] = []
        self._renderer: Renderer | None = None
        self._seed, self._fork_depth = seed, fork_depth()
        self._stale = np.zeros((0, world.n_envs), bool)
        self._counts = np.zeros((0, world.n_envs), np.int64)
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
            OptionError: the renderer lacks one of its outputs, its resolution is too large, or its quality or
                anti-aliasing differs from another camera's.
        """
        for output in camera.outputs:
            self.check_output(camera.uuid, output)
        limit, view, resolution = self._cls.max_resolution, camera.view, camera.options.resolution
        if max(view.width, view.height) > limit:
            drawn = (view.width, view.height)
            margins = "" if drawn == resolution else f" ({drawn} with the overscan margins of its lens)"
            raise OptionError(
                f"Camera(uuid={camera.uuid!r}).resolution must be <= {limit} pixels per side for the renderer "
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
        self._counts = np.concatenate([self._counts, np.zeros((1, self.world.n_envs), np.int64)])

    def check_output(self, uuid: str, output: str) -> None:
        """Check that the renderer provides an output of a camera, or what it is computed from.

        Raises:
            OptionError: it does not.
        """
        source = SOURCE.get(output, output)
        if output in self.outputs or source in self.outputs:
            return
        why = "" if source == output else f", which is computed from {source!r}"
        provided = ", ".join(repr(name) for name in OUTPUTS if {name, SOURCE.get(name, name)} & self.outputs)
        raise OptionError(
            f"Camera(uuid={uuid!r}).outputs: the renderer {self.choice.name!r} does not provide {output!r}{why}. It "
            f"provides {provided}; remove the output, or set another renderer"
        )

    def start(self) -> None:
        """Start the renderer for all attached cameras."""
        options = [camera.options for camera in self.cameras]
        quality = next((one.quality for one in options if one.quality is not None), None)
        samples = next((one.anti_aliasing for one in options if one.anti_aliasing is not None), None)
        self._stale = np.ones((len(self.cameras), self.world.n_envs), bool)
        self._seen_version = [self.world.changes.version] * len(self.cameras)
        settings = RenderSettings(
            quality=quality,
            lights=self.world.lights,
            environments=self.world.environments,
            samples=samples,
            seed=self._seed,
        )
        renderer = self._cls()
        runs_on = renderer.build(self.world, [camera.view for camera in self.cameras], settings)
        self._renderer = renderer
        self.choice = RendererChoice(self._initial_choice.name, f"{self._initial_choice.why}: {runs_on}")

    def mark_stale(self, camera: CameraSensor, envs: np.ndarray | None = None) -> None:
        """Mark the images of a camera in these envs (None: all) as stale, because its pose or lens has changed."""
        self._stale[self.cameras.index(camera), slice(None) if envs is None else envs] = True

    def update(self, camera: CameraSensor) -> list[CameraSensor]:
        """Render the stale images of a camera and of all untimed cameras, and return these cameras.

        Other timed cameras are skipped: they are rendered at their sample times, see ``CameraBackend.capture``.
        """
        current = [one for one in self.cameras if one is camera or one._images.snapshots is None]
        self.render(dict.fromkeys(current))
        return current

    def render(self, wanted: EnvMasks) -> None:
        """Render stale images, with one call of the renderer for all cameras that need the same envs.

        Args:
            wanted: cameras to render, each in the envs of its mask (None: all envs). Images that are up to date are not
                rendered.
        """
        check_not_forked(self._fork_depth, "the renderer")
        changes = self.world.changes
        self.world.settle()
        groups: dict[bytes, tuple[np.ndarray, list[CameraSensor]]] = {}
        for number, camera in enumerate(self.cameras):
            ids = changes.since(self._seen_version[number])
            self._seen_version[number] = changes.version
            stale = self._stale[number]
            stale[slice(None) if ids is None else ids] = True
            if camera not in wanted or not camera.view.caches:
                continue
            mask = wanted[camera]
            needed = stale.copy() if mask is None else stale & mask
            if needed.any():
                groups.setdefault(needed.tobytes(), (needed, []))[1].append(camera)
        for mask, cameras in groups.values():
            self._render_group(cameras, None if mask.all() else np.flatnonzero(mask))

    def _render_group(self, cameras: list[CameraSensor], envs: np.ndarray | None) -> None:
        for camera in cameras:
            camera._mount.follow()
        assert self._renderer is not None
        self._renderer.render([camera.view for camera in cameras], envs)
        self.passes += 1
        for camera in cameras:
            self._stale[self.cameras.index(camera), slice(None) if envs is None else envs] = False
            self._count(camera, envs)
            camera._images.finish(envs)

    def count(self, camera: CameraSensor) -> np.ndarray:
        """Return how often a camera was rendered in each env, (B,) int64, sub-frames of its shutter included."""
        return self._counts[self.cameras.index(camera)].copy()

    def _count(self, camera: CameraSensor, envs: np.ndarray | None) -> None:
        self._counts[self.cameras.index(camera), slice(None) if envs is None else envs] += 1

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
        self._count(camera, envs)

    def close(self) -> None:
        """Stop the renderer."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None
