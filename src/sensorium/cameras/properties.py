"""``CameraProperties``: calibration, pose and names of a camera, and the surface that a pixel shows."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING

import torch

from sensorium.cameras.geometry import GL_TO_CV, camera_to_world, intrinsic_matrix, world_to_camera
from sensorium.cameras.mount import CameraMount
from sensorium.cameras.options import Camera
from sensorium.cameras.picking import PickedSurface, pick
from sensorium.cameras.renderer import CameraView
from sensorium.errors import OptionError
from sensorium.pipeline import SensorGroup
from sensorium.tree import Module
from sensorium.worlds import Painter

if TYPE_CHECKING:
    from sensorium.cameras.render_pass import RenderPass


class CameraProperties(Module):
    """Base class of ``CameraSensor`` with its read-only properties.

    All of them except :attr:`resolution` raise ``NotBuiltError`` before ``scene.build()``. Poses are those of the
    current state.
    """

    options: Camera
    group: SensorGroup

    def _get_mount(self, call: str) -> CameraMount:
        """Return the mount; ``call`` is the name that the error shows if the camera is not built."""
        raise NotImplementedError

    def _get_pass(self, call: str) -> RenderPass:
        """Return the render pass; ``call`` as in :meth:`_get_mount`."""
        raise NotImplementedError

    def _current_view(self, call: str) -> CameraView:
        """Return the view with its pose up to date; ``call`` as in :meth:`_get_mount`."""
        raise NotImplementedError

    @property
    def resolution(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.options.resolution

    @property
    def intrinsics(self) -> torch.Tensor:
        """Camera matrices (B, 3, 3), in pixels; the centre of the top left pixel is (0.5, 0.5)."""
        return intrinsic_matrix(*self._get_mount("intrinsics").intrinsics)

    @property
    def hfov(self) -> torch.Tensor:
        """Horizontal field of view in degrees, (B,)."""
        return _angles(self._get_mount("hfov").intrinsics.fx, self.resolution[0])

    @property
    def vfov(self) -> torch.Tensor:
        """Vertical field of view in degrees, (B,)."""
        return _angles(self._get_mount("vfov").intrinsics.fy, self.resolution[1])

    @property
    def fov(self) -> torch.Tensor:
        """The same as :attr:`vfov`."""
        return self.vfov

    @property
    def focal_length(self) -> torch.Tensor:
        """Focal lengths along x and y in pixels, (B, 2)."""
        intrinsics = self._get_mount("focal_length").intrinsics
        return torch.stack([intrinsics.fx, intrinsics.fy], dim=1)

    @property
    def principal_point(self) -> torch.Tensor:
        """Intersection of the optical axis with the image, pixels from the top left corner, (B, 2)."""
        intrinsics = self._get_mount("principal_point").intrinsics
        return torch.stack([intrinsics.cx, intrinsics.cy], dim=1)

    @property
    def extrinsics_gl(self) -> torch.Tensor:
        """World to camera in GL axes (x right, y up, z backward), (B, 3, 4)."""
        view = self._current_view("extrinsics_gl")
        return world_to_camera(view.position, view.rotation)

    @property
    def extrinsics_cv(self) -> torch.Tensor:
        """World to camera in CV axes (x right, y down, z forward), (B, 3, 4)."""
        view = self._current_view("extrinsics_cv")
        return world_to_camera(view.position, view.rotation @ GL_TO_CV.to(view.rotation))

    @property
    def cam2world_cv(self) -> torch.Tensor:
        """Camera in CV axes (x right, y down, z forward) to world, (B, 4, 4)."""
        view = self._current_view("cam2world_cv")
        return camera_to_world(view.position, view.rotation @ GL_TO_CV.to(view.rotation))

    @property
    def cam2world_gl(self) -> torch.Tensor:
        """Camera in GL axes (x right, y up, z backward) to world, (B, 4, 4)."""
        view = self._current_view("cam2world_gl")
        return camera_to_world(view.position, view.rotation)

    @property
    def segmentation_names(self) -> dict[int, str]:
        """Body id -> name, for the first channel of "segmentation"."""
        self._get_mount("segmentation_names")
        model = self.group.world.model
        return {body: model.body(body).name for body in range(model.nbody)}

    @property
    def geom_names(self) -> dict[int, str]:
        """Geom id -> name, for the second channel of "segmentation"; "" for geoms without a name."""
        self._get_mount("geom_names")
        model = self.group.world.model
        return {geom: model.geom(geom).name for geom in range(model.ngeom)}

    @property
    def render_count(self) -> torch.Tensor:
        """How often each env was rendered for this camera since ``scene.build()``, (B,) int64 on the CPU.

        Each sub-frame of an exposure time or a rolling shutter counts. Envs count if they were asked for: on a GPU,
        ``batch`` draws all envs of a camera at once.

        Example:
            >>> before = camera.render_count
            >>> scene.step()
            >>> camera.read()
            >>> camera.render_count - before  # 1 for each env that was rendered
        """
        return torch.from_numpy(self._get_pass("render_count").count(self))  # type: ignore[arg-type]

    def pick_pixel(self, env: int, x: float, y: float) -> PickedSurface:
        """Return the surface that a pixel of the image shows in the current state of one env.

        The first surface along the pixel's ray is found by ray casting, through the lens of the profile, if any.

        Args:
            env: id of the env.
            x: column in [0, width). A whole number means the centre of the pixel. With a lens, every number means the
                centre of its pixel.
            y: row in [0, height), likewise.

        Raises:
            NotBuiltError: the scene is not built.
            OptionError: ``env``, ``x`` or ``y`` is out of range.
        """
        view = self._current_view("pick_pixel")
        if not isinstance(env, Integral) or not 0 <= env < self.group.n_envs:
            raise OptionError(f"pick_pixel: env must be an integer in [0, {self.group.n_envs}), got {env!r}")
        width, height = self.options.resolution
        numbers = isinstance(x, Real) and isinstance(y, Real)
        if not (numbers and 0 <= x < width and 0 <= y < height):
            raise OptionError(f"pick_pixel: x and y must lie in [0, {width}) and [0, {height}), got {x!r} and {y!r}")
        return pick(self.group.world, view, self._get_mount("pick_pixel").intrinsics, int(env), x, y)

    def _draw(self, painter: Painter, env: int) -> None:
        view = self._current_view("draw")
        position, rotation = (each[env].numpy(force=True).astype(float) for each in (view.position, view.rotation))
        painter.frame(position, rotation)
        # the image's corners, a third of a metre along the optical axis
        corners = [position + rotation @ corner / 3 for corner in self._get_mount("draw").corners(env)]
        for here, there in zip(corners, [*corners[1:], corners[0]], strict=True):
            painter.line(position, here)
            painter.line(here, there)


def _angles(focal: torch.Tensor, pixels: int) -> torch.Tensor:
    """Return the field of view in degrees of focal lengths in pixels."""
    return torch.rad2deg(2 * torch.atan(pixels / (2 * focal)))
