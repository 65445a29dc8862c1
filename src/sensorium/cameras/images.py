"""``CameraImages``: the images of one camera, rendered, measured and captured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from sensorium._system import check_memory
from sensorium.cameras import derive
from sensorium.cameras.data import OUTPUT_SHAPES, CameraData
from sensorium.cameras.imager.exposure import Exposure, Shutter
from sensorium.cameras.imager.lens import Intrinsics
from sensorium.cameras.imager.motion import Motion
from sensorium.cameras.imager.profile import CameraProfile
from sensorium.cameras.mount import CameraMount
from sensorium.cameras.snapshots import Snapshots
from sensorium.errors import DeviceError
from sensorium.pipeline import SensorGroup
from sensorium.pipeline.describe import size
from sensorium.pipeline.formula import delay_slots

if TYPE_CHECKING:
    from sensorium.cameras.backend import CameraBackend
    from sensorium.cameras.camera import CameraSensor
    from sensorium.cameras.imager.imager import Imager
    from sensorium.cameras.render_pass import RenderPass


class CameraImages:
    """Memory and processing stages of one camera's images.

    ::

        renderer ──► caches ──► derived ──► rendered ──► (sub-frames) ──► lens and imager ──► measured ──► snapshots
                                               │                                                  │            │
                                       read_ground_truth()                              read(), untimed   read(), timed

    Without a profile, an exposure time and a rolling shutter, ``measured`` is ``rendered``. A lens that bends light
    from beyond the image's edges into the image needs overscan margins around the rendered image.

    Attributes:
        rendered: output -> (B, H, W, ...) as the renderer draws it, with overscan margins.
        truth: the same without the margins, as views.
        measured: output -> (B, H, W, ...) that ``read()`` returns.
        true_data: ``truth`` as ``CameraData``.
        data: ``measured`` as ``CameraData``.
        snapshots: captured frames of a timed camera (rate, delay, history, ...); None for an untimed one.
        entities: names of the entities, by their number in the output "instance".
    """

    def __init__(
        self,
        camera: CameraSensor,
        mount: CameraMount,
        render_pass: RenderPass,
        group: SensorGroup[CameraBackend],
    ) -> None:
        self._camera, self._mount, self._render_pass, self._group = camera, mount, render_pass, group
        self.view = mount.view
        self.snapshots: Snapshots | None = None
        self.rendered: dict[str, torch.Tensor] = {}
        self.entities, entity_of_body = derive.list_entities(group.world.model)
        self._entity_of_body = entity_of_body.to(group.device)
        self._all_envs = torch.arange(group.n_envs, device=group.device)
        self._rendered_since_capture = False
        profile = camera.options.profile
        self._motion: Motion | None = None
        exposure, rolling = mount.exposure, mount.rolling_shutter
        if exposure or rolling:
            self._motion = Motion(group.world, group.dt, exposure + rolling)
            profile = CameraProfile() if profile is None else profile
            self._shutter = Shutter(exposure, rolling, profile.motion_blur, profile.rolling_frames)
        self._profile: CameraProfile | None = profile
        self._measured_depth: dict[str, torch.Tensor] = {}
        self._rays: tuple[int, torch.Tensor, torch.Tensor] | None = None
        self.allocate()

    # -- memory -------------------------------------------------------------------------------------------------------

    def allocate(self) -> None:
        """Allocate images for all outputs of the camera, and keep those that exist."""
        view, outputs, available = self.view, self._camera.outputs, self._render_pass.outputs
        base = [name if name in available else derive.SOURCE[name] for name in outputs]
        view.caches = {name: self._image(name, True, view.caches.get(name)) for name in dict.fromkeys(base)}
        profile = self._profile
        # points are computed from measured depth, even if depth is not an output
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
        self._imager: Imager | None = None
        self._exposure: Exposure | None = None
        self._measured_depth = {name: self._image(name, False, self._measured_depth.get(name)) for name in hidden}
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
        rest, dtype = OUTPUT_SHAPES[output]
        width, height = (self.view.width, self.view.height) if margins else self._camera.options.resolution
        shape = (self._group.n_envs, height, width, *rest)
        if self._group.device.type == "cpu":
            what = f"the images {output!r} of the camera {self._camera.uuid!r}"
            check_memory("n_envs", self._group.n_envs, what, int(np.prod(shape[1:])) * dtype.itemsize)
        try:
            return torch.zeros(shape, dtype=dtype, device=self._group.device)
        except RuntimeError as error:
            if "memory" not in str(error).lower():
                raise
            each = size(int(np.prod(shape[1:])) * dtype.itemsize)
            raise DeviceError(
                f"Camera(uuid={self._camera.uuid!r}): cannot allocate the output {output!r} on {self._group.device}: "
                f"{each} per env for {self._group.n_envs} envs. Lower n_envs or the resolution, or remove outputs"
            ) from error

    def _make_imager(self, profile: CameraProfile) -> Imager:
        from sensorium.cameras.imager.imager import Imager  # imports Warp

        width, height = self._camera.options.resolution
        group, mount = self._group, self._mount
        where = (group.n_envs, group.seed, self._camera.uuid, group.device)
        return Imager(profile, width, height, self._camera.outputs, mount.intrinsics, *where, margins=mount.margins)

    @property
    def n_sub_frames(self) -> int:
        """Number of renders for a measured image while anything moves."""
        return 1 if self._exposure is None else self._exposure.n_sub_frames

    @property
    def n_bytes(self) -> int:
        """Memory of the images and their stages, bytes."""
        own = [*self.view.caches.values(), *self.rendered.values(), *self.measured.values()]
        own += [*self._developed.values(), *self._measured_depth.values()]
        own += [] if self._rays is None else self._rays[1:]
        images = {image.untyped_storage().data_ptr(): image.untyped_storage().nbytes() for image in own}
        stages = (self._imager, self._exposure, self.snapshots)
        return sum(images.values()) + sum(stage.n_bytes for stage in stages if stage is not None)

    # -- from the renderer to what is measured ------------------------------------------------------------------------

    def finish(self, envs: np.ndarray | None) -> None:
        """Compute everything that follows from the caches, which the renderer has filled for these envs (None: all)."""
        rows = None if envs is None else torch.from_numpy(envs).to(self._group.device)
        self._derive(rows)
        if self.snapshots is None and self._imager is not None:
            self._develop(rows)
        self._rendered_since_capture = True

    def _derive(
        self,
        envs: torch.Tensor | None,
        caches: dict[str, torch.Tensor] | None = None,
        images: dict[str, torch.Tensor] | None = None,
    ) -> None:
        """Fill derived outputs in ``images`` (default: ``rendered``) from ``caches`` (default: those of the view)."""
        rows: slice | torch.Tensor = slice(None) if envs is None else envs
        caches = self.view.caches if caches is None else caches
        for name, image in (self.rendered if images is None else images).items():
            if name in caches:
                continue
            source = caches[derive.SOURCE[name]][rows]
            out = image if envs is None else image[rows]
            if name == "instance":
                derive.fill_instance(source, self._entity_of_body, out)
            elif name == "points":
                derive.fill_points(self.view, source, rows, out)
            else:
                derive.fill_normals(self.view, source, rows, out)
            if envs is not None:
                image[rows] = out

    def _develop(self, envs: torch.Tensor | None) -> dict[str, torch.Tensor]:
        """Return the measured images: the rendered ones through shutter, lens and imager, for these envs."""
        if self._imager is None:
            return self.rendered
        images = self.rendered if self._exposure is None else self._expose(self._exposure, envs)
        measured, points = {**self._developed, **self._measured_depth}, None
        if self._measures_depth:
            points = measured.pop("points", None)
        self._imager.apply(images, measured, self._group.sample_draw(self._camera), envs)
        if points is not None:
            self._locate(measured["depth"], points, envs)
        return self._developed

    def _locate(self, depth: torch.Tensor, points: torch.Tensor, envs: torch.Tensor | None) -> None:
        """Compute points from measured depth, along the rays of the lens."""
        rows: slice | torch.Tensor = slice(None) if envs is None else envs
        x, y = self._lens_rays()
        if envs is not None and len(x) > 1:
            x, y = x[envs], y[envs]
        own = depth[rows]
        out = points if envs is None else points[rows]
        derive.unproject(self.view, x, y, own, (own > 0) & torch.isfinite(x), rows, out)
        if envs is not None:
            points[rows] = out

    def _lens_rays(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return x / z and y / z of the measured pixels, each (B, H, W), or (1, H, W) if all envs share them."""
        assert self._profile is not None
        if self._rays is None or self._rays[0] != self.view.lens_version:
            intrinsics = self._mount.intrinsics
            shared = all(bool((value == value[0]).all()) for value in intrinsics)
            chosen = Intrinsics(*(value[:1] for value in intrinsics)) if shared else intrinsics
            self._rays = (self.view.lens_version, *self._profile.rays(chosen, self._camera.options.resolution))
        return self._rays[1:]

    def _expose(self, exposure: Exposure, envs: torch.Tensor | None) -> dict[str, torch.Tensor]:
        """Return the rendered images as a shutter with an exposure time or rolling rows sees them."""

        def redraw(moving: torch.Tensor | None) -> None:
            self._mount.follow()
            self._render_pass.redraw(self._camera, None if moving is None else moving.numpy(force=True))

        try:
            return exposure.take(envs, redraw, self._derive)
        finally:
            self._mount.follow()

    # -- capture of timed cameras -------------------------------------------------------------------------------------

    @property
    def depends_on_past(self) -> bool:
        """Whether the images depend on earlier states, so that a reset must clear something."""
        return self.snapshots is not None or self._motion is not None

    def start_capture(self) -> None:
        """Make the camera timed: frames are captured at its sample times, and reads return captured frames."""
        outputs, group = self._camera.outputs, self._group
        timing = group.timing(self._camera)
        self._due, self._lag = timing.due, timing.lag
        if self.measured is self.truth:
            self.measured = {name: self._image(name, False) for name in outputs}
            self.data = CameraData(**self.measured)
        slots = delay_slots(self._camera.max_delay, group.dt) + 1
        self._developed = self.measured
        if slots > 1 and self._imager is not None:
            self._developed = {name: self._image(name, False) for name in outputs}
        history = self._camera.options.history_length or 0
        self.snapshots = Snapshots(self.measured, slots, history, group.n_envs, group.device)

    def due_envs(self) -> np.ndarray | None:
        """Return the mask (B,) of the envs to render in this step; None for no env.

        With a history it is all envs, since the history keeps the ground truth of every step.
        """
        assert self.snapshots is not None
        if self.snapshots.history_length:
            return np.ones(self._group.n_envs, bool)
        due: np.ndarray = self._due.numpy(force=True)
        return due if due.any() else None

    def record_motion(self) -> None:
        """Record the positions of this step, for motion blur and rolling shutters."""
        if self._motion is not None:
            self._motion.record()

    def capture(self) -> None:
        """Capture the envs that are due in this step; they have been rendered."""
        assert self.snapshots is not None
        step = self._group.step
        if bool(self._due.any()):
            envs = None if bool(self._due.all()) else self._due.nonzero().flatten()
            self.snapshots.capture(self._develop(envs), envs)
        self.snapshots.advance(step)
        if self.snapshots.history_length:
            self.snapshots.deliver(step, self._lag)
            self.snapshots.append_history(step, self.truth)
        self._rendered_since_capture = False

    def forget_motion(self, mask: np.ndarray) -> None:
        """Clear the recorded motion of the envs in ``mask``, which were reset."""
        if self._motion is not None:
            self._motion.restart(torch.from_numpy(np.flatnonzero(mask)).to(self._group.device))

    def restart(self, mask: np.ndarray | None) -> None:
        """Restart the capture from the current images, which have been rendered, in the envs of a mask (None: all)."""
        assert self.snapshots is not None
        envs = self._all_envs if mask is None else torch.from_numpy(np.flatnonzero(mask)).to(self._group.device)
        self.snapshots.restart(self._develop(envs), self.truth, envs)

    def deliver(self) -> None:
        """Fill ``data`` with the frames that have arrived by now."""
        assert self.snapshots is not None
        self.snapshots.deliver(self._group.step, self._lag)
        if self.snapshots.history_length:
            self.data = self.window(self.snapshots.history_length, truth=False)

    def latest_truth(self) -> CameraData:
        """Return the ground truth, which has been rendered; with a history, that of the last steps."""
        if self.snapshots is None or not self.snapshots.history_length:
            return self.true_data
        if self._rendered_since_capture:
            self.snapshots.amend_history(self._group.step, self.truth)
            self._rendered_since_capture = False
        return self.window(self.snapshots.history_length, truth=True)

    def window(self, length: int, truth: bool) -> CameraData:
        """Return the last ``length`` frames, newest first."""
        assert self.snapshots is not None
        return CameraData(**self.snapshots.window(self._group.step, length, truth))
