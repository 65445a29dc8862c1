"""Depth camera: an image of depth along the optical axis, with one ray per pixel."""

from __future__ import annotations

import torch
from pydantic import Field, model_validator

from sensorium.sensors.base import Format
from sensorium.sensors.rays.patterns import PinholePattern
from sensorium.sensors.rays.ray_rig import RayRig
from sensorium.sensors.rays.ray_sensor import RayOptions, RaySensor


class DepthCamera(RayOptions):
    """Options of a depth camera: an ideal pinhole that looks along the sensor's x axis, with y to its left and z up.

    Range limits and imperfections apply to the depth along the optical axis. One ray is cast through the centre of each
    pixel.

    Example:
        >>> camera = scene.add_sensor(sn.DepthCamera(link="head", width=64, height=48, hfov=87, max_range=5.0))
        >>> camera.read()   # (B, 48, 64) m
    """

    width: int = Field(default=64, ge=1)
    """Number of pixel columns."""
    height: int = Field(default=48, ge=1)
    """Number of pixel rows."""
    fov: float | None = Field(default=None, gt=0, lt=180)
    """The same as ``hfov``. In ``sn.Camera``, ``fov`` is the vertical field of view."""
    hfov: float | None = Field(default=None, gt=0, lt=180)
    """Horizontal field of view, degrees; pixels are square. Default: 90, unless ``vfov`` is set."""
    vfov: float | None = Field(default=None, gt=0, lt=180)
    """Vertical field of view, degrees; pixels are square. ``hfov`` may be set too, if both fit the aspect ratio within
    5%."""
    intrinsics: tuple[float, float, float, float] | None = None
    """Instead of angles: (fx, fy, cx, cy) of a calibration, in pixels; (0, 0) is the image's upper left corner."""
    max_range: float = Field(default=10.0, gt=0)
    """Maximum depth, m."""

    @model_validator(mode="after")
    def _check_lens(self) -> DepthCamera:
        self.pattern()
        return self

    def pattern(self) -> PinholePattern:
        """Return the rays through the pixels."""
        names = ("width", "height", "fov", "hfov", "vfov", "intrinsics")
        return PinholePattern(**{name: getattr(self, name) for name in names})


class DepthCameraSensor(RaySensor[torch.Tensor], options=DepthCamera):
    """Depth camera. See :class:`DepthCamera`.

    Reads (B, height, width) m, rows from the top, columns from the left.
    """

    kind = "depth_camera"
    units = {"value": "m"}

    def _make_rig(self) -> RayRig:
        pattern = self.options.pattern()
        return RayRig(pattern=pattern, pattern_shape=pattern.shape, is_depth=True)

    def _get_return_format(self) -> Format:
        return self._rig.shape
