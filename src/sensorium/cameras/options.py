"""The options of cameras."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from sensorium.cameras.imager.profile import CameraProfile
from sensorium.cameras.renderer import Output, Quality, renderer_names
from sensorium.cameras.tone import ToneMapper
from sensorium.errors import did_you_mean
from sensorium.sensors.options import SensorOptions

OUTPUTS: tuple[Output, ...] = ("rgb", "depth", "segmentation", "instance", "normals", "points")
"""Everything that a camera can give, in the order of its fields."""


class Camera(SensorOptions):
    """A camera: on a link, or standing in the world.

    Example:
        >>> hand = scene.add_sensor(sn.Camera(link="hand", resolution=(224, 224), fov=60, outputs=("rgb", "depth")))
        >>> room = scene.add_sensor(sn.Camera(pos=(1.5, 0, 1.2), lookat=(0, 0, 0.4)))

    Nothing is rendered before somebody reads. With ``rate``, ``delay``, ``dropout``, ``stuck`` or ``history_length``
    the camera has a shutter: then a step that contains one of its instants renders it (with a history, every step).
    """

    link: str | None = None
    """The link that carries the camera. Default: none, it stands in the world."""
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Position in the frame of the link, or of the world, m."""
    quat: tuple[float, float, float, float] | None = None
    """Orientation (w, x, y, z) in that frame, in GL axes as of MuJoCo's cameras: the camera looks along its -z, its y
    is up in the image. Default: the axes of the frame."""
    euler: tuple[float, float, float] | None = None
    """The same as roll, pitch, yaw in radians."""
    lookat: tuple[float, float, float] | None = None
    """A point of that frame to look at, instead of ``quat``."""
    up: tuple[float, float, float] = (0.0, 0.0, 1.0)
    """With ``lookat``: what points up in the image, in that frame."""
    resolution: tuple[int, int] = (320, 240)
    """Width and height in pixels."""
    fov: float | None = Field(default=None, gt=0, lt=180)
    """Vertical field of view, degrees. Default: 45, unless ``focal_length`` is given."""
    focal_length: float | tuple[float, float] | None = None
    """Focal length in pixels, or one each along x and y."""
    principal_point: tuple[float, float] | None = None
    """Where the optical axis meets the image, in pixels from the top left corner. Default: the centre."""
    outputs: tuple[Output, ...] = ("rgb",)
    """What to render: "rgb", "depth", "segmentation", "instance", "normals", "points"."""
    near: float = Field(default=0.01, gt=0)
    """Distance of the near plane, m: what is nearer is not seen."""
    far: float = Field(default=100.0, gt=0)
    """Distance of the far plane, m: what is farther is not seen."""
    renderer: str = "auto"
    """"raster" (MuJoCo's OpenGL), "batch" (MuJoCo Warp), "pathtrace" (Mitsuba), or "auto": by the device, and what runs
    on this machine."""
    quality: Quality | None = None
    """"fast" (no shadows), "balanced" or "high". All cameras of a renderer share one. Default: "fast" where the CPU
    draws; on a GPU "high" with OpenGL, and "balanced" with "batch"."""
    anti_aliasing: int | None = Field(default=None, ge=0, le=16)
    """Samples a pixel for smooth edges; shared likewise. Default: by quality."""
    profile: CameraProfile | None = None
    """Lens and imager, by name ("rgbd", "action", "machine_vision") or as a ``CameraProfile``; acts on ``read()``
    alone. Default: a perfect camera."""
    exposure: float | None = Field(default=None, ge=0)
    """Seconds that the shutter is open, for motion blur. Default: what the profile says, else none."""
    rolling_shutter: float | None = Field(default=None, ge=0)
    """Seconds from the capture of the top row to that of the bottom row. Default: likewise."""

    @field_validator("resolution")
    @classmethod
    def _resolution(cls, value: tuple[int, int]) -> tuple[int, int]:
        if min(value) < 1:
            raise ValueError("width and height must be at least 1 pixel")
        return value

    @field_validator("outputs", mode="before")
    @classmethod
    def _outputs(cls, value: Any) -> Any:
        names = [value] if isinstance(value, str) else list(value)
        if not names:
            raise ValueError("name at least one output")
        return tuple(dict.fromkeys(names))

    @field_validator("renderer")
    @classmethod
    def _renderer(cls, value: str) -> str:
        names = ["auto", *renderer_names()]
        if value not in names:
            raise ValueError(f"there is no such renderer{did_you_mean(value, names)}; there are {', '.join(names)}")
        return value

    @field_validator("profile", mode="before")
    @classmethod
    def _profile(cls, value: Any) -> Any:
        return CameraProfile.named(value) if isinstance(value, str) else value

    @field_validator("focal_length")
    @classmethod
    def _focal_length(cls, value: float | tuple[float, float] | None) -> float | tuple[float, float] | None:
        if value is not None and min(value if isinstance(value, tuple) else (value,)) <= 0:
            raise ValueError("must be greater than 0")
        return value

    @model_validator(mode="after")
    def _check_camera(self) -> Camera:
        from sensorium.worlds.compose import pose

        pose(self.pos, self.quat, self.euler)
        if self.lookat is not None:
            if self.quat is not None or self.euler is not None:
                raise ValueError("give lookat, quat or euler, not several")
            if np.linalg.norm(np.subtract(self.lookat, self.pos)) < 1e-9:
                raise ValueError("lookat must not be the position of the camera itself")
            if np.linalg.norm(self.up) < 1e-9:
                raise ValueError("up must not be zero")
        if self.far <= self.near:
            raise ValueError(f"far must be greater than near, got far={self.far:g} with near={self.near:g}")
        if self.fov is not None and self.focal_length is not None:
            raise ValueError("fov and focal_length are two names of one parameter; give one")
        if self.interpolate:
            raise ValueError("images cannot be interpolated; leave interpolate out")
        return self


class RasterizerCamera(Camera):
    """A camera that MuJoCo's OpenGL renderer draws."""

    renderer: Literal["raster"] = "raster"
    """Fixed."""


class BatchRendererCamera(Camera):
    """A camera that MuJoCo Warp's batched ray tracer draws."""

    renderer: Literal["batch"] = "batch"
    """Fixed."""


class RaytracerCamera(Camera):
    """A camera that the path tracer draws.

    Example:
        >>> photo = scene.add_sensor(sn.RaytracerCamera(pos=(2, 0, 1), lookat=(0, 0, 0), samples=64, denoise=True))

    A profile with ``f_number`` blurs what is out of focus, in ground truth too.

    Cameras of one scene share ``environment``, ``environment_rotation``, ``environment_multiplier`` and ``bounces``.
    """

    renderer: Literal["pathtrace"] = "pathtrace"
    """Fixed."""
    samples: int | None = Field(default=None, ge=1, le=65536)
    """Random paths of light a pixel, which smooth edges too: noise falls with their square root, time grows with them.
    Default: by ``quality``, 16 ("fast"), 64 ("balanced", also where none is given) or 256 ("high")."""
    bounces: int = Field(default=6, ge=1, le=64)
    """How often light may be reflected on its way to the camera."""
    denoise: bool | Literal["oidn", "atrous"] = False
    """Whether and how noise is removed from the image: "oidn" (Open Image Denoise, Linux x86-64 alone), "atrous" (an
    edge-avoiding wavelet filter, on every platform), or True: "oidn" where it is installed, else "atrous". "atrous"
    traces 12% more paths with LLVM, in the pixels with the most noise."""
    tone_mapper: ToneMapper = "filmic"
    """How radiance becomes colour: "linear" (cut off at white), "reinhard" or "filmic" (as ACES)."""
    environment: str | None = Field(default=None, min_length=1)
    """File of an environment map in latitude and longitude (HDR, EXR, ...), which is seen behind everything and lights
    the scene. Default: the scene's sky, else its ambient light."""
    environment_rotation: float = 0.0
    """Degrees by which the environment is turned about the vertical, counter-clockwise from above."""
    environment_multiplier: float = Field(default=1.0, ge=0)
    """What the radiance of environment, sky or ambient light is multiplied with."""
