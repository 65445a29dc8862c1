"""``CameraProfile``: what a real camera's lens, imager, shutter and compression do to the image of a renderer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal, Self

import torch
from pydantic import Field, model_validator

from sensorium.cameras.imager.lens import Intrinsics, Margins, margins, rays
from sensorium.errors import NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.options import Options

PROFILES = Path(__file__).parent / "profiles"
"""Where the named profiles lie, one JSON file each."""

DAYLIGHT = 6500.0
"""K; colour temperature of the light that renderers take for white."""

_Gain = Annotated[float, Field(gt=0)]
_Deviation = Annotated[float, Field(ge=0)]


class CameraProfile(Options):
    """A camera as it is built: ``sn.Camera(..., profile=sn.CameraProfile(k1=-0.2, full_well=8000))``.

    Every effect is off by default: the profile without options changes no bit. Named profiles are JSON files of these
    options: ``sn.CameraProfile.named("rgbd")``. docs/camera_profiles.md gives the formulas.

    Example:
        >>> sn.CameraProfile(k1=-0.25, k2=0.06, vignette=0.6, full_well=10000, read_noise=3, iso=400, jpeg_quality=80)
    """

    description: str = ""
    """What camera this is, and where its figures come from."""

    projection: Literal["pinhole", "fisheye"] = "pinhole"
    """The lens: "pinhole" with Brown's distortion k1 to k3, p1, p2, or "fisheye" (Kannala and Brandt's) with k1 to k4.
    Both as OpenCV defines them."""
    k1: float = 0.0
    """Radial coefficient of r² (fisheye: of θ²). Negative is barrel distortion."""
    k2: float = 0.0
    """Radial coefficient of r⁴ (fisheye: of θ⁴)."""
    k3: float = 0.0
    """Radial coefficient of r⁶ (fisheye: of θ⁶)."""
    k4: float = 0.0
    """Coefficient of θ⁸; fisheye only."""
    p1: float = 0.0
    """Tangential coefficient, vertical; pinhole only."""
    p2: float = 0.0
    """Tangential coefficient, horizontal; pinhole only."""
    vignette: float = Field(default=0.0, ge=0, le=1)
    """How much of the cos⁴ law a lens shows: light off axis by θ falls to 1 - vignette (1 - cos⁴ θ)."""
    chromatic_aberration: tuple[float, float] = (0.0, 0.0)
    """By which fraction red and blue are magnified about the principal point, relative to green; 0.001 is much."""
    focal_length: float | None = Field(default=None, gt=0)
    """Focal length of the lens in metres: with ``f_number``, the size of its aperture, for renderers with depth of
    field. The field of view is the camera's own option."""
    f_number: float | None = Field(default=None, gt=0)
    """Focal length over diameter of the aperture; needs ``focal_length``. Default: everything is in focus."""
    focus_distance: float | None = Field(default=None, gt=0)
    """Distance in metres that is in focus; default: far away."""

    exposure: float = Field(default=0.0, ge=-20, le=20)
    """EV: brightness in stops relative to the renderer's image; +1 doubles it. With time t and sensitivity S other than
    the t₀ and ISO 100 at which the render is right, it is log₂(t S / (100 t₀))."""
    exposure_time: float = Field(default=0.0, ge=0)
    """Seconds that the shutter is open: how far motion blur reaches. Colour alone is blurred."""
    motion_blur: int = Field(default=1, ge=1, le=64)
    """Sub-frames rendered over ``exposure_time`` and averaged in linear light; 1: no blur."""
    rolling_shutter: float = Field(default=0.0, ge=0)
    """Seconds from the capture of the first row to that of the last; 0: a global shutter."""
    rolling_frames: int = Field(default=8, ge=2, le=64)
    """Sub-frames rendered over ``rolling_shutter``; each row comes from the one nearest to its time. With motion blur
    as well, rows share sub-frames: ``rolling_frames + motion_blur - 1`` are rendered over both times together."""
    rolling_depth: bool = True
    """Whether the rolling shutter is that of all outputs. False: of rgb alone; depth and the rest are those of the
    time at which the last row's exposure ends, as with an RGB-D camera whose depth imagers have global shutters."""

    iso: float = Field(default=100.0, gt=0)
    """Sensitivity. At ISO 100 white of the renderer fills ``full_well``; at ISO S it takes 100/S of these electrons, so
    that brightness stays (``exposure`` changes that) and noise grows."""
    full_well: float | None = Field(default=None, gt=0)
    """Electrons that a pixel holds. Default: electrons are not modelled, there is neither shot nor read noise."""
    read_noise: float = Field(default=0.0, ge=0)
    """Standard deviation of the noise of reading a pixel, electrons; needs ``full_well``."""
    bit_depth: int = Field(default=12, ge=8, le=16)
    """Bits of the converter from electrons to numbers, before the image is made 8-bit sRGB; with ``full_well``."""
    color_temperature: float = Field(default=DAYLIGHT, ge=1667, le=25000)
    """K that the camera takes for white, where 6500 is right: 3200 makes the image blue, 9000 orange."""
    white_balance: tuple[_Gain, _Gain, _Gain] = (1.0, 1.0, 1.0)
    """Gains of red, green and blue, on top of ``color_temperature``."""

    jpeg_quality: int | None = Field(default=None, ge=1, le=100)
    """Compress and expand as JPEG of this quality. Default: no compression."""
    jpeg_subsampling: Literal["4:2:0", "4:4:4"] = "4:2:0"
    """Colour at half the resolution along both axes, or at full resolution."""

    baseline: float = 0.0
    """Metres from the depth camera to its second imager or projector, along the rows; positive: to the right of it."""
    depth_noise: tuple[_Deviation, _Deviation, _Deviation] = (0.0, 0.0, 0.0)
    """(a, b, c) of the standard deviation a + b z + c z² of depth z, in m, 1 and 1/m."""
    disparity_noise: float = Field(default=0.0, ge=0)
    """Standard deviation of the disparity, pixels: adds to the standard deviation of depth what triangulation makes of
    it, z² disparity_noise / (fx baseline)."""
    disparity_step: float = Field(default=0.0, ge=0)
    """Pixels to which the disparity is rounded; 0: not at all."""
    stereo_shadow: bool = False
    """Whether there is no reading where the second imager or projector does not see the surface."""
    edge_dropout: float = Field(default=0.0, ge=0, le=1)
    """Probability of no reading beside a depth discontinuity."""
    edge_width: int = Field(default=1, ge=1, le=8)
    """Pixels beside a discontinuity that can drop out."""
    edge_threshold: float = Field(default=0.05, gt=0)
    """Jump of depth, relative to the nearer side, that makes a discontinuity."""
    min_range: float = Field(default=0.0, ge=0)
    """Depth in metres below which there is no reading."""
    max_range: float | None = Field(default=None, gt=0)
    """Depth in metres above which there is no reading; default: no limit."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.projection == "fisheye" and (self.p1 or self.p2):
            raise ValueError("p1 and p2 belong to projection='pinhole'; a fisheye has k1 to k4")
        if self.projection == "pinhole" and self.k4:
            raise ValueError("k4 belongs to projection='fisheye'; a pinhole has k1 to k3, p1 and p2")
        if min(self.chromatic_aberration) <= -0.5:
            raise ValueError(f"chromatic_aberration must be above -0.5, got {self.chromatic_aberration}")
        if self.f_number is not None and self.focal_length is None:
            raise ValueError("f_number needs focal_length (metres), from which the size of the aperture follows")
        if self.motion_blur > 1 and not self.exposure_time:
            raise ValueError(f"motion_blur={self.motion_blur} needs exposure_time (seconds) to average over")
        if self.read_noise and self.full_well is None:
            raise ValueError("read_noise is in electrons, so it needs full_well (electrons of a full pixel)")
        for name in ("disparity_noise", "disparity_step", "stereo_shadow"):
            if getattr(self, name) and not self.baseline:
                raise ValueError(f"{name} needs baseline (metres between the two imagers)")
        if self.max_range is not None and self.max_range <= self.min_range:
            raise ValueError(f"max_range ({self.max_range}) must be above min_range ({self.min_range})")
        return self

    # -- files --------------------------------------------------------------------------------------------------------

    @classmethod
    def names(cls) -> list[str]:
        """The profiles that come with Sensorium."""
        return sorted(path.stem for path in PROFILES.glob("*.json"))

    @classmethod
    def named(cls, name: str) -> Self:
        """The profile of that name, see :meth:`names`."""
        if name not in (names := cls.names()):
            hint = did_you_mean(name, names) or f"; there are {shorten(names)}"
            raise NameNotFoundError(
                f"there is no camera profile {name!r}{hint}; CameraProfile.load reads your own files"
            )
        return cls.load(PROFILES / f"{name}.json")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """A profile from a JSON file of its options."""
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise OptionError(f"camera profile {str(path)!r} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise OptionError(f"camera profile {str(path)!r} is not JSON: {error}") from None
        if not isinstance(values, dict):
            raise OptionError(f"camera profile {str(path)!r} must be a JSON object of options")
        try:
            return cls(**values)
        except OptionError as error:
            raise OptionError(f"camera profile {str(path)!r}: {error}") from None

    def save(self, path: str | Path) -> None:
        """Write the options that differ from their defaults as JSON."""
        values = self.model_dump(mode="json", exclude_defaults=True)
        try:
            Path(path).write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise OptionError(f"camera profile {str(path)!r} cannot be written: {error.strerror}") from None

    # -- what follows from the options --------------------------------------------------------------------------------

    @property
    def distorts(self) -> bool:
        """Whether the lens moves anything."""
        return self.projection == "fisheye" or any((self.k1, self.k2, self.k3, self.p1, self.p2))

    @property
    def measures_depth(self) -> bool:
        """Whether depth is other than the renderer's; then no reading is 0."""
        return bool(
            any(self.depth_noise)
            or self.disparity_noise
            or self.disparity_step
            or self.stereo_shadow
            or self.edge_dropout
            or self.min_range
            or self.max_range
        )

    @property
    def gains(self) -> tuple[float, float, float]:
        """Gains of red, green and blue that colour temperature and white balance make, in linear light."""
        (r0, g0, b0), (r, g, b) = _planckian(DAYLIGHT), _planckian(self.color_temperature)
        seen = (r0 / r, g0 / g, b0 / b)  # white in the light that the camera believes in is white in its image
        red, green, blue = self.white_balance
        return seen[0] / seen[1] * red, green, seen[2] / seen[1] * blue

    @property
    def aperture_radius(self) -> float:
        """Metres; 0 for a lens that has everything in focus."""
        if self.f_number is None or self.focal_length is None:
            return 0.0
        return self.focal_length / (2 * self.f_number)

    def overscan(self, intrinsics: Intrinsics, size: tuple[int, int], limit: float = 1.0) -> Margins:
        """Pixels to render beyond each edge of a (width, height) image so that the lens sees no black border.

        Args:
            intrinsics: of the camera, in pixels; the largest margin of all envs is taken.
            size: width and height of the camera's image.
            limit: the most, as a part of the image's side: a fisheye of 180° would ask for an endless image.
        """
        return margins(self, intrinsics, size, limit)

    def rays(self, intrinsics: Intrinsics, size: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
        """What the pixels of a (width, height) image show: x / z and y / z in camera axes (x right, y down), each
        (B, H, W); NaN where the lens lets nothing through. With a measured depth they give points."""
        x, y, reached = rays(self, intrinsics, size)
        return torch.where(reached, x, torch.nan).float(), torch.where(reached, y, torch.nan).float()


def _planckian(kelvin: float) -> tuple[float, float, float]:
    """Linear sRGB of a black body, at luminance 1: Kim's cubic fits of the locus in CIE 1931 chromaticity."""
    t = 1000.0 / kelvin
    if kelvin <= 4000:
        x = ((-0.2661239 * t - 0.2343589) * t + 0.8776956) * t + 0.179910
    else:
        x = ((-3.0258469 * t + 2.1070379) * t + 0.2226347) * t + 0.240390
    if kelvin <= 2222:
        y = ((-1.1063814 * x - 1.34811020) * x + 2.18555832) * x - 0.20219683
    elif kelvin <= 4000:
        y = ((-0.9549476 * x - 1.37418593) * x + 2.09137015) * x - 0.16748867
    else:
        y = ((3.0817580 * x - 5.87338670) * x + 3.75112997) * x - 0.37001483
    big_x, big_z = x / y, (1 - x - y) / y
    red = 3.2406 * big_x - 1.5372 - 0.4986 * big_z
    green = -0.9689 * big_x + 1.8758 + 0.0415 * big_z
    blue = 0.0557 * big_x - 0.2040 + 1.0570 * big_z
    floor = 1e-3  # below 1900 K blue leaves the gamut
    return red, max(green, floor), max(blue, floor)
