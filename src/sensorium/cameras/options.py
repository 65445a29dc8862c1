"""Options of cameras: ``Camera``, and one subclass per renderer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from sensorium.cameras.imager.profile import CameraProfile
from sensorium.cameras.registry import check_renderer
from sensorium.cameras.renderer import Output, Quality
from sensorium.sensors.field_of_view import check_names, focal_lengths
from sensorium.sensors.options import SensorOptions

OUTPUTS: tuple[Output, ...] = ("rgb", "depth", "segmentation", "instance", "normals", "points")
"""All outputs of a camera, in the order of the fields of ``CameraData``."""

ToneMapper = Literal["linear", "reinhard", "filmic"]
"""How the path tracer compresses radiance to [0, 1].

============ ===============================================================================================
``linear``   unchanged; radiance above 1 becomes white
``reinhard`` divided by 1 + y, where y is the luminance; never reaches white
``filmic``   the S-curve x (2.51 x + 0.03) / (x (2.43 x + 0.59) + 0.14), a fit of the ACES film curve
============ ===============================================================================================
"""


class Camera(SensorOptions):
    """Options of a camera that is mounted on a link or fixed in the world.

    Example:
        >>> hand = scene.add_sensor(sn.Camera(link="hand", resolution=(224, 224), vfov=60, outputs=("rgb", "depth")))
        >>> room = scene.add_sensor(sn.Camera(pos=(1.5, 0, 1.2), lookat=(0, 0, 0.4)))

    The camera is rendered when it is read. If ``rate``, ``delay``, ``dropout``, ``stuck`` or ``history_length`` is set,
    the camera is timed: every step that contains one of its sample times renders it (with ``history_length``, every
    step), and ``read()`` returns the captured frames.
    """

    link: str | None = None
    """Link that carries the camera. Default: the camera is fixed in the world."""
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Position in the frame of the link, or of the world, m."""
    quat: tuple[float, float, float, float] | None = None
    """Orientation (w, x, y, z) in that frame, in GL axes like MuJoCo's cameras: the camera looks along its -z, and its
    y points up in the image. Default: the axes of the frame."""
    euler: tuple[float, float, float] | None = None
    """Orientation as roll, pitch, yaw in radians, instead of ``quat``."""
    lookat: tuple[float, float, float] | None = None
    """Point in that frame that the camera looks at, m, instead of ``quat``."""
    up: tuple[float, float, float] = (0.0, 0.0, 1.0)
    """With ``lookat``: direction in that frame that points up in the image."""
    resolution: tuple[int, int] = (320, 240)
    """Width and height in pixels."""
    fov: float | None = Field(default=None, gt=0, lt=180)
    """The same as ``vfov``. In ``sn.DepthCamera``, ``fov`` is the horizontal field of view."""
    hfov: float | None = Field(default=None, gt=0, lt=180)
    """Horizontal field of view from the left to the right edge of the image, degrees; pixels are square. ``vfov`` may
    be set too, if both fit the aspect ratio within 5%."""
    vfov: float | None = Field(default=None, gt=0, lt=180)
    """Vertical field of view from the top to the bottom edge of the image, degrees; pixels are square. Default: 45,
    unless ``hfov`` or ``focal_length`` is set."""
    focal_length: float | tuple[float, float] | None = None
    """Focal length in pixels, instead of angles: one number, or (fx, fy)."""
    principal_point: tuple[float, float] | None = None
    """Intersection of the optical axis with the image, pixels from the top left corner. Default: the image centre."""
    outputs: tuple[Output, ...] = ("rgb",)
    """Images to render: any of "rgb", "depth", "segmentation", "instance", "normals", "points"."""
    near: float = Field(default=0.01, gt=0)
    """Distance of the near plane, m. Surfaces nearer than this are not rendered."""
    far: float = Field(default=100.0, gt=0)
    """Distance of the far plane, m. Surfaces farther than this are not rendered."""
    renderer: str = "auto"
    """"raster" (MuJoCo's OpenGL), "batch" (MuJoCo Warp), "pathtrace" (Mitsuba), a renderer of another package, or
    "auto", which chooses by the device and by what is available on this machine."""
    quality: Quality | None = None
    """"fast" (no shadows), "balanced" or "high". All cameras of one renderer share it. Default: "fast" when the CPU
    renders; on a GPU "high" with OpenGL and "balanced" with "batch"."""
    anti_aliasing: int | None = Field(default=None, ge=0, le=16)
    """Samples per pixel for smooth edges. All cameras of one renderer share it. Default: set by ``quality``."""
    profile: CameraProfile | None = None
    """Lens and image sensor, by name ("rgbd", "action", "machine_vision") or as a ``CameraProfile``. It changes
    ``read()``, not the ground truth. Default: an ideal camera."""
    exposure: float | None = Field(default=None, ge=0)
    """Exposure time for motion blur, s. Default: that of the profile, otherwise 0 (no blur)."""
    rolling_shutter: float | None = Field(default=None, ge=0)
    """Time from the capture of the top row to that of the bottom row, s. Default: that of the profile, otherwise 0 (a
    global shutter)."""

    @field_validator("resolution")
    @classmethod
    def _resolution(cls, value: tuple[int, int]) -> tuple[int, int]:
        if min(value) < 1:
            raise ValueError("width and height must be >= 1 pixel")
        return value

    @field_validator("outputs", mode="before")
    @classmethod
    def _outputs(cls, value: object) -> object:
        if not isinstance(value, Iterable):
            raise ValueError(f"must be a tuple of names: {', '.join(map(repr, OUTPUTS))}")
        try:
            names = (value,) if isinstance(value, str) else tuple(value)
        except RuntimeError:  # a nested tensor
            raise ValueError(f"must be a tuple of names: {', '.join(map(repr, OUTPUTS))}") from None
        if not names:
            raise ValueError(f"must name at least one of {', '.join(map(repr, OUTPUTS))}")
        return tuple(dict.fromkeys(names)) if all(isinstance(name, str) for name in names) else names

    @field_validator("renderer")
    @classmethod
    def _renderer(cls, value: str) -> str:
        check_renderer(value)
        return value

    @field_validator("profile", mode="before")
    @classmethod
    def _profile(cls, value: object) -> object:
        return CameraProfile.named(value) if isinstance(value, str) else value

    @field_validator("focal_length")
    @classmethod
    def _focal_length(cls, value: float | tuple[float, float] | None) -> float | tuple[float, float] | None:
        if value is not None and min(value if isinstance(value, tuple) else (value,)) <= 0:
            raise ValueError("must be > 0")
        return value

    @model_validator(mode="after")
    def _check_camera(self) -> Camera:
        from sensorium.worlds.compose import pose

        pose(self.pos, self.quat, self.euler)
        if self.lookat is not None:
            if self.quat is not None or self.euler is not None:
                raise ValueError("set only one of lookat, quat and euler")
            if np.linalg.norm(np.subtract(self.lookat, self.pos)) < 1e-9:
                raise ValueError(f"lookat must differ from pos, got {self.lookat} for both")
            if np.linalg.norm(self.up) < 1e-9:
                raise ValueError(f"up must not be zero, got {self.up}")
        if self.far <= self.near:
            raise ValueError(f"far must be > near, got far={self.far:g} with near={self.near:g}")
        angles = {name: getattr(self, name) is not None for name in ("fov", "hfov", "vfov")}
        check_names("vertical", angles, "focal_length", self.focal_length is not None)
        self.focal_lengths()
        if self.interpolate:
            raise ValueError("interpolate must be False for a camera: images are not interpolated")
        return self

    def focal_lengths(self) -> tuple[float, float]:
        """Return the focal lengths (fx, fy) in pixels that ``fov``, ``hfov``, ``vfov`` or ``focal_length`` set."""
        focal = self.focal_length
        if focal is not None:
            return focal if isinstance(focal, tuple) else (focal, focal)
        vfov = 45.0 if self.fov is None and self.hfov is None and self.vfov is None else self.vfov
        given = focal_lengths("vertical", self.resolution, self.fov, self.hfov, vfov, "focal_length=(fx, fy)")
        assert given is not None
        return given


class RasterizerCamera(Camera):
    """Options of a camera that MuJoCo's OpenGL renderer draws."""

    renderer: Literal["raster"] = "raster"
    """Always "raster"."""


class BatchRendererCamera(Camera):
    """Options of a camera that MuJoCo Warp's batch ray tracer draws."""

    renderer: Literal["batch"] = "batch"
    """Always "batch"."""


class RaytracerCamera(Camera):
    """Options of a camera that the path tracer draws.

    Example:
        >>> photo = scene.add_sensor(sn.RaytracerCamera(pos=(2, 0, 1), lookat=(0, 0, 0), samples=64, denoise=True))

    A profile with ``f_number`` gives depth of field, in the ground truth too.

    All path-traced cameras of a scene share ``environment``, ``environment_rotation``, ``environment_multiplier`` and
    ``bounces``.
    """

    renderer: Literal["pathtrace"] = "pathtrace"
    """Always "pathtrace"."""
    samples: int | None = Field(default=None, ge=1, le=65536)
    """Random light paths per pixel. They anti-alias edges too. Noise falls with their square root, and the time grows
    in proportion. Default: set by ``quality``: 16 ("fast"), 64 ("balanced", also when no quality is set) or 256
    ("high")."""
    bounces: int = Field(default=6, ge=1, le=64)
    """Maximum number of reflections on the way from a light to the camera."""
    denoise: bool | Literal["oidn", "atrous"] = False
    """How noise is removed from the image: "oidn" (Open Image Denoise, Linux x86-64 only), "atrous" (an edge-avoiding
    wavelet filter, on every platform), True ("oidn" if it is installed, otherwise "atrous"), or False (not at all).
    With LLVM, "atrous" traces 12% more paths, in the pixels with the most noise."""
    tone_mapper: ToneMapper = "filmic"
    """How radiance becomes colour: "linear" (clipped at white), "reinhard" or "filmic" (like ACES)."""
    environment: str | None = Field(default=None, min_length=1)
    """File of an environment map in latitude-longitude format (HDR, EXR, ...). It is the background and lights the
    scene. Default: the scene's sky, or its ambient light if there is no sky."""
    environment_rotation: float = 0.0
    """Rotation of the environment about the vertical, degrees, counter-clockwise seen from above."""
    environment_multiplier: float = Field(default=1.0, ge=0)
    """Factor for the radiance of the environment, sky or ambient light."""
