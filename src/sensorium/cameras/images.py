"""The images of one camera: what is rendered, what is measured of it, and what has been captured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from sensorium.cameras import derive
from sensorium.cameras.imager.exposure import Exposure, Shutter
from sensorium.cameras.imager.lens import Intrinsics
from sensorium.cameras.imager.motion import Motion
from sensorium.cameras.imager.profile import CameraProfile
from sensorium.cameras.mount import CameraMount
from sensorium.cameras.renderer import BASE_OUTPUTS
from sensorium.cameras.snapshots import Snapshots
from sensorium.errors import DeviceError
from sensorium.pipeline import SensorGroup
from sensorium.pipeline.describe import size
from sensorium.pipeline.formula import delay_slots

if TYPE_CHECKING:
    from sensorium.cameras.camera import CameraSensor
    from sensorium.cameras.render_pass import RenderPass

_SHAPES: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
    **BASE_OUTPUTS,
    "instance": ((), torch.int32),
    "points": ((3,), torch.float32),
}


class CameraData(NamedTuple):
    """Images of a camera; None for what was not asked for. With a history, (B, N, H, W, ...)."""

    rgb: torch.Tensor | None = None
    """Colour, sRGB, (B, H, W, 3) uint8."""
    depth: torch.Tensor | None = None
    """Depth along the optical axis, m, (B, H, W) float32; inf where nothing lies before the far plane. With a profile
    that measures depth, 0 where there is no reading."""
    segmentation: torch.Tensor | None = None
    """(body id, geom id), (B, H, W, 2) int32; -1 where nothing was hit. ``segmentation_names`` names them."""
    instance: torch.Tensor | None = None
    """Entity, (B, H, W) int32: a number in ``instance_names``; -1 where nothing was hit."""
    normals: torch.Tensor | None = None
    """Unit normals of surfaces, towards the camera, in CV axes (x right, y down, z forward), (B, H, W, 3) float32; 0
    where nothing was hit."""
    points: torch.Tensor | None = None
    """Where each pixel's surface is in the world, m, (B, H, W, 3) float32; NaN where nothing was hit. With a profile
    that measures depth, what that depth and the camera's pose make of it; NaN where there is no reading."""


class Images:
    """Memory and stages of one camera's images.

    ::

        renderer ──► caches ──► derived ──► rendered ──► (sub-frames) ──► lens and imager ──► measured ──► snapshots
                                               │                                                  │            │
                                       read_ground_truth()                            read(), no shutter    read()

    Without profile and shutter ``measured`` is ``rendered``. What a lens bends inwards lies beyond the edges of the
    image, so with such a profile more is rendered than is shown.

    Attributes:
        rendered: output -> (B, H, W, ...) as the renderer draws it, with margins.
        truth: the same without margins, as views.
        measured: output -> (B, H, W, ...) that ``read()`` shows.
        snapshots: what the shutter has captured; None for a camera without one.
    """

    def __init__(self, camera: CameraSensor, mount: CameraMount, block: RenderPass, group: SensorGroup) -> None:
        self._camera, self._mount, self._block, self._group = camera, mount, block, group
        self.view = mount.view
        self.snapshots: Snapshots | None = None
        self.rendered: dict[str, torch.Tensor] = {}
        self.entities, of_body = derive.instances(group.world.model)
        self._entity_of_body = of_body.to(group.device)
        self._everyone = torch.arange(group.n_envs, device=group.device)
        profile = camera.options.profile
        self._motion: Motion | None = None
        exposure, rolling = mount.exposure, mount.rolling_shutter
        if exposure or rolling:
            self._motion = Motion(group.world, group.dt, exposure + rolling)
            profile = CameraProfile() if profile is None else profile
            self._shutter = Shutter(exposure, rolling, profile.motion_blur, profile.rolling_frames)
        self._profile: CameraProfile | None = profile
        self._ranging: dict[str, torch.Tensor] = {}
        self._rays: tuple[int, torch.Tensor, torch.Tensor] | None = None
        self.allocate()

    # -- memory -------------------------------------------------------------------------------------------------------

    def allocate(self) -> None:
        """Memory for all outputs of the camera; what there is of it is kept."""
        view, outputs, given = self.view, self._camera.outputs, self._block.outputs
        base = [name if name in given else derive.SOURCE[name] for name in outputs]
        view.caches = {name: self._image(name, True, view.caches.get(name)) for name in dict.fromkeys(base)}
        profile = self._profile
        # points are made of measured depth, also where nobody asked for that
        hidden = ["depth"] if "points" in outputs and "depth" not in outputs and self._measures_depth else []
        old = self.rendered
        self.rendered = {
            name: view.caches[name] if name in view.caches else self._image(name, True, old.get(name))
            for name in (*outputs, *hidden)
        }
        left, top, right, bottom = self._mount.margins
        rows, columns = slice(top, view.height - bottom), slice(left, view.width - right)
        self.truth = {name: self.rendered[name][:, rows, columns] for name in outputs}
        self.measured = self.truth
        self._imager: Any = None
        self._exposure: Exposure | None = None
        self._ranging = {name: self._image(name, False, self._ranging.get(name)) for name in hidden}
        if profile is not None:
            self.measured = {name: self._image(name, False) for name in outputs}
            self._imager = self._make_imager(profile)
            if self._motion is not None:
                parts = (self._shutter, self._motion, self._imager, view, self.rendered)
                self._exposure = Exposure(*parts, profile.rolling_depth)
        self._developed = self.measured
        self.true_data, self.data = CameraData(**self.truth), CameraData(**self.measured)

    @property
    def _measures_depth(self) -> bool:
        return self._profile is not None and self._profile.measures_depth

    def _image(self, output: str, margins: bool, old: torch.Tensor | None = None) -> torch.Tensor:
        if old is not None:
            return old
        rest, dtype = _SHAPES[output]
        width, height = (self.view.width, self.view.height) if margins else self._camera.options.resolution
        shape = (self._group.n_envs, height, width, *rest)
        try:
            return torch.zeros(shape, dtype=dtype, device=self._group.device)
        except RuntimeError as error:
            if "memory" not in str(error).lower():
                raise
            each = size(int(np.prod(shape[1:])) * dtype.itemsize)
            raise DeviceError(
                f"Camera(uuid={self._camera.uuid!r}): there is no memory on {self._group.device} for {output} of "
                f"{self._group.n_envs} envs, {each} an env. Lower n_envs or the resolution, or leave outputs out"
            ) from error

    def _make_imager(self, profile: CameraProfile) -> Any:
        from sensorium.cameras.imager.imager import Imager  # which starts Warp

        width, height = self._camera.options.resolution
        group, mount = self._group, self._mount
        where = (group.n_envs, group.seed, self._camera.uuid, group.device)
        return Imager(profile, width, height, self._camera.outputs, mount.intrinsics, *where, margins=mount.margins)

    @property
    def n_bytes(self) -> int:
        """Memory that the images take."""
        own = [*self.view.caches.values(), *self.rendered.values(), *self.measured.values()]
        own += [*self._developed.values(), *self._ranging.values(), *(() if self._rays is None else self._rays[1:])]
        images = {image.untyped_storage().data_ptr(): image.untyped_storage().nbytes() for image in own}
        stages = (self._imager, self._exposure, self.snapshots)
        return sum(images.values()) + sum(stage.n_bytes for stage in stages if stage is not None)

    # -- from the renderer to what is measured ------------------------------------------------------------------------

    def finish(self, envs: np.ndarray | None) -> None:
        """The renderer has filled the caches for these envs: make what follows from them."""
        rows = None if envs is None else torch.from_numpy(envs).to(self._group.device)
        self._derive(rows)
        if self.snapshots is None and self._imager is not None:
            self._develop(rows)

    def _derive(
        self,
        envs: torch.Tensor | None,
        caches: dict[str, torch.Tensor] | None = None,
        images: dict[str, torch.Tensor] | None = None,
    ) -> None:
        """Fill ``images`` (default: those rendered) with what follows from ``caches`` (default: those of the view)."""
        rows: Any = slice(None) if envs is None else envs
        caches = self.view.caches if caches is None else caches
        for name, image in (self.rendered if images is None else images).items():
            if name in caches:
                continue
            source = caches[derive.SOURCE[name]][rows]
            out = image if envs is None else image[rows]
            if name == "instance":
                derive.instance(source, self._entity_of_body, out)
            elif name == "points":
                derive.points(self.view, source, rows, out)
            else:
                derive.normals(self.view, source, rows, out)
            if envs is not None:
                image[rows] = out

    def _develop(self, envs: torch.Tensor | None) -> dict[str, torch.Tensor]:
        """What is measured of the rendered images, through shutter, lens and imager, for these envs."""
        if self._imager is None:
            return self.rendered
        images = self.rendered if self._exposure is None else self._expose(self._exposure, envs)
        measured, points = {**self._developed, **self._ranging}, None
        if self._measures_depth:
            points = measured.pop("points", None)
        self._imager.apply(images, measured, self._group.step, envs)
        if points is not None:
            self._locate(measured["depth"], points, envs)
        return self._developed

    def _locate(self, depth: torch.Tensor, points: torch.Tensor, envs: torch.Tensor | None) -> None:
        """Points of a measured depth, along the rays of the lens."""
        rows: Any = slice(None) if envs is None else envs
        x, y = self._lens_rays()
        if envs is not None and len(x) > 1:
            x, y = x[envs], y[envs]
        own = depth[rows]
        out = points if envs is None else points[rows]
        derive.unproject(self.view, x, y, own, (own > 0) & torch.isfinite(x), rows, out)
        if envs is not None:
            points[rows] = out

    def _lens_rays(self) -> tuple[torch.Tensor, torch.Tensor]:
        """x / z and y / z of the measured pixels, each (B, H, W), or (1, H, W) where all envs have the same."""
        assert self._profile is not None
        if self._rays is None or self._rays[0] != self.view.lens:
            given = self._mount.intrinsics
            shared = all(bool((value == value[0]).all()) for value in given)
            chosen = Intrinsics(*(value[:1] for value in given)) if shared else given
            self._rays = (self.view.lens, *self._profile.rays(chosen, self._camera.options.resolution))
        return self._rays[1:]

    def _expose(self, exposure: Exposure, envs: torch.Tensor | None) -> dict[str, torch.Tensor]:
        """The rendered images as a shutter that takes its time sees them."""
        ids = None if envs is None else envs.numpy(force=True)

        def redraw() -> None:
            self._mount.follow()
            self._block.redraw(self._camera, ids)

        try:
            return exposure.take(envs, redraw, lambda caches, images: self._derive(envs, caches, images))
        finally:
            self._mount.follow()

    # -- the shutter --------------------------------------------------------------------------------------------------

    def open_shutter(self) -> None:
        """From now on images are captured at their instants, and reads show captured ones."""
        outputs, group = self._camera.outputs, self._group
        self.due, self.lag = group.timing(self._camera)
        if self.measured is self.truth:
            self.measured = {name: self._image(name, False) for name in outputs}
            self.data = CameraData(**self.measured)
        slots = delay_slots(self._camera.max_delay, group.dt) + 1
        self._developed = self.measured
        if slots > 1 and self._imager is not None:
            self._developed = {name: self._image(name, False) for name in outputs}
        history = self._camera.options.history_length or 0
        self.snapshots = Snapshots(self.measured, slots, history, group.n_envs, group.device)

    def wanted(self) -> np.ndarray | None:
        """Envs (a mask) that must be rendered in this step; with a history all, since ground truth is kept as well."""
        assert self.snapshots is not None
        if self.snapshots.history_length:
            return np.ones(self._group.n_envs, bool)
        due: np.ndarray = self.due.numpy(force=True)
        return due if due.any() else None

    def record(self) -> None:
        """A step was made."""
        if self._motion is not None:
            self._motion.record()

    def capture(self) -> None:
        """Take what is due in this step; it was rendered."""
        assert self.snapshots is not None
        step = self._group.step
        if bool(self.due.any()):
            envs = None if bool(self.due.all()) else self.due.nonzero().flatten()
            self.snapshots.take(self._develop(envs), envs)
        self.snapshots.advance(step)
        if self.snapshots.history_length:
            self.snapshots.serve(step, self.lag)
            self.snapshots.remember(step, self.truth)

    def stand_still(self, mask: np.ndarray) -> None:
        """These envs were reset: nothing has moved."""
        if self._motion is not None:
            self._motion.restart(torch.from_numpy(np.flatnonzero(mask)).to(self._group.device))

    def restart(self, mask: np.ndarray | None) -> None:
        """Begin anew with the images of the state as it is, which were rendered, for these envs."""
        assert self.snapshots is not None
        envs = self._everyone if mask is None else torch.from_numpy(np.flatnonzero(mask)).to(self._group.device)
        self.snapshots.restart(self._develop(envs), self.truth, envs)

    def serve(self) -> None:
        """Let ``data`` be what arrives now."""
        assert self.snapshots is not None
        self.snapshots.serve(self._group.step, self.lag)
        if self.snapshots.history_length:
            self.data = self.window(self.snapshots.history_length, truth=False)

    def window(self, length: int, truth: bool) -> CameraData:
        """The last images, newest first."""
        assert self.snapshots is not None
        return CameraData(**self.snapshots.window(self._group.step, length, truth))
