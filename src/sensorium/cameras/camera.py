"""``CameraSensor``: a camera of a scene, rendered when it is read."""

from __future__ import annotations

from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import mujoco
import numpy as np
import torch

from sensorium.cameras.geometry import GL_TO_CV, camera_to_world, intrinsic_matrix, world_to_camera
from sensorium.cameras.images import CameraData, Images
from sensorium.cameras.mount import CameraMount
from sensorium.cameras.options import OUTPUTS, Camera
from sensorium.cameras.picking import Picked, pick
from sensorium.cameras.render_pass import RenderPass
from sensorium.cameras.renderer import CameraView, RendererChoice
from sensorium.cameras.switches import OutputSwitches
from sensorium.errors import OptionError
from sensorium.pipeline import SensorGroup
from sensorium.pipeline.describe import size
from sensorium.sensors.base import Sensor
from sensorium.tree import Buffer
from sensorium.worlds import Changes, Envs, Names, Painter, env_index

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TIMED = ("rate", "delay", "jitter", "dropout", "stuck")
_NEVER = Changes(1)
"""What a camera that is not built compares its version with."""


class CameraSensor(OutputSwitches, Sensor[CameraData], options=Camera):
    """A camera. ``step()`` renders nothing: the first read after anything changed renders all cameras of the renderer,
    for all envs whose state changed, in one pass; further reads are a look-up.

    Buffers: one an output ("rgb", ...) of what ``read()`` returns, and ``ground_truth_rgb``, ...; tagged with the
    output, "camera", and "measured" or "ground_truth". Looking at one renders what is stale.

    Attributes:
        view: the camera as the renderer sees it.
        renderer_choice: which renderer draws it, and why.
    """

    Data: ClassVar[Any] = CameraData
    uses_ring_pipeline: ClassVar[bool] = False
    capturable: ClassVar[bool] = False

    options: Camera
    view: CameraView

    def __init__(self, options: Camera, uuid: str) -> None:
        self._block: RenderPass | None = None
        self._drawn = False  # since the last capture
        self._images: Images
        self._outputs: list[str] = []
        super().__init__(options, uuid)
        del self.measured, self.ground_truth
        for output in options.outputs:
            self._add_output(output)

    # -- what users call ----------------------------------------------------------------------------------------------

    def read(self, envs: Envs = None, history_length: int | None = None) -> CameraData:
        """The image as the robot's software gets it: through lens and imager, late, held between captures.

        Renders what is stale first, of all cameras that share the renderer. The same memory at every step, except for
        windows of a history. Copy what must outlast the step. Arguments as those of other sensors. Several threads may
        read between two steps.
        """
        if self._served == self._changes.version and envs is None and history_length is None:
            return self._shown
        self._serve()
        return self._pick(self._shown, envs, history_length, truth=False)

    def read_ground_truth(self, envs: Envs = None, history_length: int | None = None) -> CameraData:
        """The image as the renderer draws it of the world as it is now: never late, without lens and imager."""
        if self._fresh == self._changes.version and envs is None and history_length is None:
            return self._true
        self._refresh()
        return self._pick(self._true, envs, history_length, truth=True)

    def set(self, envs: Envs = None, **parameters: Any) -> None:
        """Change rate, delay, jitter, dropout or stuck while running; see :meth:`Sensor.set`."""
        super().set(envs, **parameters)
        if self._images.snapshots is None and any(value is not None for value in parameters.values()):
            self._open_shutter()

    def set_pose(
        self, pos: Any = None, quat: Any = None, lookat: Any = None, envs: Envs = None, up: Any = None
    ) -> None:
        """Put the camera somewhere in the world; it leaves its link in these envs.

        The next read shows it; ``read()`` of a camera with a rate, a delay or a history, which shows what was captured,
        shows it from the next capture on.

        Args:
            pos: position in the world, m, (3,) or one row per env (n, 3); None keeps it.
            quat: orientation (w, x, y, z) in GL axes, (4,) or (n, 4); or
            lookat: a point in the world to look at, (3,) or (n, 3). Neither keeps the orientation.
            envs: which envs; None for all.
            up: with ``lookat``: what points up in the image; default: the option ``up``.
        """
        self._built("set_pose")
        self._mount.place(pos, quat, lookat, up, envs)
        self._tell("set_pose", pos=pos, quat=quat, lookat=lookat, envs=envs, up=up)
        self._outdate(self._mount.ids(envs))

    update_camera_pose = set_pose

    def attach(self, link: str | None = None, envs: Envs = None) -> None:
        """Put the camera (back) on a link in these envs, at the pose of its options there.

        Args:
            link: which link; default: that of the options.
            envs: which envs; None for all.
        """
        self._built("attach")
        self._mount.attach(link, envs)
        self._tell("attach", link=link, envs=envs)
        self._outdate(self._mount.ids(envs))

    def set_intrinsics(
        self, fov: Any = None, focal_length: Any = None, principal_point: Any = None, envs: Envs = None
    ) -> None:
        """Change what the lens maps where, in these envs.

        Args:
            fov: vertical field of view in degrees, a number or one per env (n,); or
            focal_length: in pixels: a number, (2,) along x and y, or (n, 2).
            principal_point: in pixels from the top left corner, (2,) or (n, 2).
            envs: which envs; None for all.

        Where a lens then needs wider margins than were allocated, images are allocated anew, and the renderer is
        started again: randomise from the widest field of view downwards.
        """
        self._built("set_intrinsics")
        assert self._block is not None
        with self._block.lock:
            if self._mount.focus(fov, focal_length, principal_point, envs):
                self.view.caches, self._images.rendered = {}, {}
                self._images.allocate()
                self._block.renew()
                self._outdate(None)
                if self._images.snapshots is not None:
                    self._open_shutter()
            else:
                self._outdate(self._mount.ids(envs))
        self._tell("set_intrinsics", fov=fov, focal_length=focal_length, principal_point=principal_point, envs=envs)

    def pick_pixel(self, env: int, x: float, y: float) -> Picked:
        """What the pixel (column x, row y) of ``read()`` would show in one env now: the first surface along its ray,
        through the lens if it has one.

        Whole numbers mean the pixel's centre, as all do with a lens.
        """
        view = self._now("pick_pixel")
        if not isinstance(env, Integral) or not 0 <= env < self.group.n_envs:
            raise OptionError(f"env must be an integer in [0, {self.group.n_envs}), got {env!r}")
        width, height = self.options.resolution
        if not (0 <= x < width and 0 <= y < height):
            raise OptionError(f"x and y must lie in [0, {width}) and [0, {height}), got {x!r} and {y!r}")
        return pick(self.group.world, view, self._mount.intrinsics, int(env), x, y)

    def plot(self, env: int = 0, path: str | Path | None = None) -> Figure:
        """Draw its images in one env, ground truth beside what is measured."""
        from sensorium.cameras.plotting import plot_camera

        self._built("plot")
        return plot_camera(self, env, path)

    # -- facts --------------------------------------------------------------------------------------------------------

    @property
    def outputs(self) -> tuple[str, ...]:
        """What it gives now."""
        return tuple(name for name in OUTPUTS if name in self._outputs)

    @property
    def renderer_choice(self) -> RendererChoice:
        """Which renderer draws it, and why."""
        self._built("renderer_choice")
        assert self._block is not None
        return self._block.choice

    @property
    def intrinsics(self) -> torch.Tensor:
        """Camera matrices (B, 3, 3), in pixels; the centre of the top left pixel lies at (0.5, 0.5)."""
        self._built("intrinsics")
        return intrinsic_matrix(*self._mount.intrinsics)

    @property
    def resolution(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.options.resolution

    @property
    def fov(self) -> torch.Tensor:
        """Vertical field of view in degrees, (B,)."""
        self._built("fov")
        return torch.rad2deg(2 * torch.atan(self.resolution[1] / (2 * self._mount.intrinsics.fy)))

    @property
    def focal_length(self) -> torch.Tensor:
        """Focal lengths along x and y in pixels, (B, 2)."""
        self._built("focal_length")
        return torch.stack([self._mount.intrinsics.fx, self._mount.intrinsics.fy], dim=1)

    @property
    def principal_point(self) -> torch.Tensor:
        """Where the optical axis meets the image, pixels from its top left corner, (B, 2)."""
        self._built("principal_point")
        return torch.stack([self._mount.intrinsics.cx, self._mount.intrinsics.cy], dim=1)

    @property
    def extrinsics_gl(self) -> torch.Tensor:
        """World to camera in GL axes (x right, y up, z backward), (B, 3, 4), now."""
        view = self._now("extrinsics_gl")
        return world_to_camera(view.position, view.rotation)

    @property
    def extrinsics_cv(self) -> torch.Tensor:
        """World to camera in CV axes (x right, y down, z forward), (B, 3, 4), now."""
        view = self._now("extrinsics_cv")
        return world_to_camera(view.position, view.rotation @ GL_TO_CV.to(view.rotation))

    @property
    def cam2world_cv(self) -> torch.Tensor:
        """Camera in CV axes to world, (B, 4, 4), now."""
        view = self._now("cam2world_cv")
        return camera_to_world(view.position, view.rotation @ GL_TO_CV.to(view.rotation))

    @property
    def cam2world_gl(self) -> torch.Tensor:
        """Camera in GL axes (x right, y up, z backward) to world, (B, 4, 4), now."""
        view = self._now("cam2world_gl")
        return camera_to_world(view.position, view.rotation)

    @property
    def segmentation_names(self) -> dict[int, str]:
        """Body id -> name."""
        self._built("segmentation_names")
        model = self.group.world.model
        return {body: model.body(body).name for body in range(model.nbody)}

    @property
    def geom_names(self) -> dict[int, str]:
        """Geom id -> name; empty where the model gives none."""
        self._built("geom_names")
        model = self.group.world.model
        return {geom: model.geom(geom).name for geom in range(model.ngeom)}

    @property
    def instance_names(self) -> list[str]:
        """Names of the entities, by their number in "instance"."""
        self._built("instance_names")
        return list(self._images.entities)

    # -- build --------------------------------------------------------------------------------------------------------

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        link = self.options.link
        self._link = None if link is None else names.body(link, f"Camera(uuid={self.uuid!r}).link").name

    @classmethod
    def _build_group(cls, group: SensorGroup) -> None:
        blocks: dict[str, RenderPass] = {}
        for camera in group.sensors:
            kind = camera.options.renderer
            if kind not in blocks:
                block = RenderPass(kind, group.world, group.seed)
                # "auto" and a name may mean the same renderer
                blocks[kind] = next((one for one in blocks.values() if one.choice.name == block.choice.name), block)
            camera._join(blocks[kind])
        group.blocks = list(dict.fromkeys(blocks.values()))  # type: ignore[attr-defined]
        for block in group.blocks:  # type: ignore[attr-defined]
            block.start()
        for camera in group.sensors:
            if camera._has_shutter():
                camera._images.open_shutter()

    def _join(self, block: RenderPass) -> None:
        """Attach to the block of a renderer: the view, and memory for images."""
        world = self.group.world
        self._mount = CameraMount(self.options, self.uuid, self._link, world)
        self.view = self._mount.view
        self._block = block
        block.attach(self)
        self._images = Images(self, self._mount, block, self.group)
        self._readings = self._images.data  # which says that it can be read
        self._changes = world.changes

    def _detach(self) -> None:
        super()._detach()
        self._changes, self._served, self._fresh = _NEVER, -1, -1
        self._shown = self._true = CameraData()
        block, self._block = self._block, None
        if block is not None:
            block.close()
            self.__dict__.pop("_images", None)

    def _has_shutter(self) -> bool:
        options = self.options
        timed = any(getattr(options, name) for name in _TIMED)
        return timed or self.max_delay > 0 or options.history_length is not None

    def _switch(self, output: str, on: bool) -> None:
        if on == (output in self._outputs):
            return
        if on:
            self._add_output(output)
        else:
            self._outputs.remove(output)
            delattr(self, output)
            delattr(self, f"ground_truth_{output}")
        if self._block is not None:
            self._images.allocate()
            self._outdate(None)
            if self._images.snapshots is not None:
                self._open_shutter()

    def _add_output(self, output: str) -> None:
        self._outputs.append(output)
        for name, truth in ((output, False), (f"ground_truth_{output}", True)):
            tags = {self.kind, output, "ground_truth" if truth else "measured"}

            def look(output: str = output, truth: bool = truth) -> torch.Tensor | None:
                if self._block is None:
                    return None
                return getattr(self.read_ground_truth() if truth else self.read(), output)  # type: ignore[no-any-return]

            setattr(self, name, Buffer(get=look, tags=tags, derived=True))

    # -- rendering ----------------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Bring ground truth up to date."""
        self._built("read")
        assert self._block is not None
        with self._block.lock:
            if self._fresh != self._changes.version:
                self._block.render()
                for camera in self._block.cameras:
                    camera._is_fresh()

    def _is_fresh(self) -> None:
        """Everything that is wanted was rendered."""
        snapshots = self._images.snapshots
        self._true = self._images.true_data
        if snapshots is None:
            self._shown = self._images.data
            self._served = self._changes.version
        elif snapshots.history_length:
            if self._drawn:
                snapshots.amend(self.group.step, self._images.truth)
                self._drawn = False
            self._true = self._images.window(snapshots.history_length, truth=True)
        self._fresh = self._changes.version  # last: another thread may look

    def _serve(self) -> None:
        """Bring what ``read()`` shows up to date."""
        self._built("read")
        assert self._block is not None
        with self._block.lock:
            if self._served == self._changes.version:
                return
            if self._images.snapshots is None:
                self._refresh()  # which brings this up to date as well
            else:
                self._images.serve()
                self._shown = self._images.data
                self._served = self._changes.version

    def _pick(self, now: CameraData, envs: Envs, history_length: int | None, truth: bool) -> CameraData:
        snapshots = self._images.snapshots
        length = 0 if snapshots is None else snapshots.history_length
        if history_length is not None:
            if not isinstance(history_length, Integral) or not 1 <= history_length <= length:
                raise OptionError(
                    f"read(history_length={history_length}) on {self.uuid!r}: {length or 'none'} were allocated; ask "
                    "for 1 or more, and construct the camera with as large a history_length"
                )
            now = self._images.window(int(history_length), truth)
        if envs is None and history_length is None:
            return now
        index = env_index(envs, self.group.n_envs, self.group.device)
        return CameraData(*(None if each is None else each.clone() if index is None else each[index] for each in now))

    def _outdate(self, envs: np.ndarray | None) -> None:
        assert self._block is not None
        self._block.outdate(self, envs)
        self._served = self._fresh = -1

    # -- the shutter --------------------------------------------------------------------------------------------------

    def _open_shutter(self) -> None:
        """Capture from now on, beginning with what is there now."""
        self._images.open_shutter()
        self._restart({self: None})

    @classmethod
    def _update_shared_cache(cls, group: SensorGroup, ground_truth: torch.Tensor, measured: torch.Tensor) -> None:
        for block in group.blocks:  # type: ignore[attr-defined]
            wanted: dict[CameraSensor, np.ndarray | None] = {}
            for camera in block.cameras:
                camera._images.record()
                if camera._images.snapshots is not None and (mask := camera._images.wanted()) is not None:
                    wanted[camera] = mask
            if wanted:
                block.render(wanted)
            for camera in block.cameras:
                if camera._images.snapshots is not None:
                    camera._images.capture()
                    camera._drawn = False

    @classmethod
    def _reset_group(cls, group: SensorGroup, mask: torch.Tensor) -> None:
        blocks = group.blocks  # type: ignore[attr-defined]
        if not any(camera._has_past for block in blocks for camera in block.cameras):
            return  # without waiting for the device
        envs = mask.numpy(force=True)
        for block in blocks:
            for camera in block.cameras:
                camera._images.stand_still(envs)
            shutters: dict[CameraSensor, np.ndarray | None] = {
                camera: envs for camera in block.cameras if camera._images.snapshots is not None
            }
            if shutters:
                cls._restart(shutters)

    @staticmethod
    def _restart(cameras: dict[CameraSensor, np.ndarray | None]) -> None:
        """Begin anew with the images of the state as it is, for the envs of these masks."""
        block = next(iter(cameras))._block
        assert block is not None
        block.render(cameras)
        for camera, mask in cameras.items():
            camera._images.restart(mask)
            camera._served = -1

    @property
    def _has_past(self) -> bool:
        """Whether its images depend on earlier states."""
        return self._images.snapshots is not None or self._mount.exposure > 0 or self._mount.rolling_shutter > 0

    def _tell(self, method: str, **arguments: Any) -> None:
        assert self._manager is not None
        self._manager.on_change(self.uuid, method, arguments)

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _now(self, call: str) -> CameraView:
        view = self._built(call)
        self.group.world.settle()
        self._mount.follow()
        return view

    def _built(self, call: str) -> CameraView:
        if self._block is None:
            self._unbuilt(call)
        return self.view

    def _describe(self) -> dict[str, str]:
        if self._block is None:
            return {}
        images = self._images
        return {
            "shape": " ".join(f"{name} {tuple(image.shape)}" for name, image in images.measured.items()),
            "dtype": " ".join(dict.fromkeys(str(i.dtype).removeprefix("torch.") for i in images.measured.values())),
            "memory": size(images.n_bytes),
            "runs": f"on {'read' if images.snapshots is None else 'capture'}, {self._block.choice}",
        }

    def _draw(self, painter: Painter, env: int) -> None:
        view = self._now("draw")
        position, turned = (each[env].numpy(force=True).astype(float) for each in (view.position, view.rotation))
        painter.frame(position, turned)
        corners = [position + turned @ corner / 3 for corner in self._mount.corners(env)]  # to a third of a metre
        for here, there in zip(corners, [*corners[1:], corners[0]], strict=True):
            painter.line(position, here)
            painter.line(here, there)
