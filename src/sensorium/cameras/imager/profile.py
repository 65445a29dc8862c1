"""``CameraProfile``: options of a real camera's lens, image sensor, shutter and compression."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal, Self

import torch
from pydantic import Field, model_validator

from sensorium._arguments import checked
from sensorium.cameras.imager.lens import Intrinsics, Margins, margins, rays
from sensorium.errors import DatasetError, NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.files import read_file, write_whole
from sensorium.json_files import load_json
from sensorium.options import Options

PROFILES = Path(__file__).parent / "profiles"
"""Folder of the named profiles, one JSON file each."""

DAYLIGHT = 6500.0
"""Colour temperature of the renderers' white, K."""

_Gain = Annotated[float, Field(gt=0)]
_Deviation = Annotated[float, Field(ge=0)]


class CameraProfile(Options):
    """Options of a real camera's lens, image sensor, shutter and compression.

    A profile changes what ``camera.read()`` returns. Every effect is off by default: a profile without options changes
    no bit. Named profiles are JSON files of these options, see :meth:`named`. docs/camera_profiles.md gives the
    formulas.

    Example:
        >>> lens = sn.CameraProfile(k1=-0.25, k2=0.06, vignette=0.6, full_well=10000, read_noise=3, iso=400)
        >>> camera = scene.add_sensor(sn.Camera(link="hand", profile=lens))
    """

    description: str = ""
    """Which camera this is, and where its figures come from."""

    projection: Literal["pinhole", "fisheye"] = "pinhole"
    """Lens model: "pinhole" (Brown's distortion with k1 to k3, p1, p2) or "fisheye" (Kannala and Brandt's with k1 to
    k4), both as OpenCV defines them."""
    k1: float = 0.0
    """Radial coefficient of r² (fisheye: of θ²). Negative values give barrel distortion."""
    k2: float = 0.0
    """Radial coefficient of r⁴ (fisheye: of θ⁴)."""
    k3: float = 0.0
    """Radial coefficient of r⁶ (fisheye: of θ⁶)."""
    k4: float = 0.0
    """Radial coefficient of θ⁸; fisheye only."""
    p1: float = 0.0
    """Tangential coefficient, vertical; pinhole only."""
    p2: float = 0.0
    """Tangential coefficient, horizontal; pinhole only."""
    vignette: float = Field(default=0.0, ge=0, le=1)
    """Strength of the cos⁴ law: light at the angle θ off the axis is scaled by 1 - vignette (1 - cos⁴ θ)."""
    chromatic_aberration: tuple[float, float] = (0.0, 0.0)
    """Relative magnification of red and of blue about the principal point, compared with green; 0.001 is large."""
    focal_length: float | None = Field(default=None, gt=0)
    """Focal length of the lens, m. With ``f_number`` it gives the aperture, for renderers with depth of field. The
    field of view is an option of the camera."""
    f_number: float | None = Field(default=None, gt=0)
    """Focal length divided by the diameter of the aperture; needs ``focal_length``. Default: everything is in focus."""
    focus_distance: float | None = Field(default=None, gt=0)
    """Distance that is in focus, m. Default: far away."""

    exposure: float = Field(default=0.0, ge=-20, le=20)
    """Brightness relative to the rendered image, in stops (EV); +1 doubles it. For an exposure time t and a sensitivity
    S, where t₀ and ISO 100 give the rendered brightness, it is log₂(t S / (100 t₀))."""
    exposure_time: float = Field(default=0.0, ge=0)
    """Time that the shutter is open, s: the length of motion blur. Only colour is blurred."""
    motion_blur: int = Field(default=1, ge=1, le=64)
    """Sub-frames that are rendered over ``exposure_time`` and averaged in linear light; 1: no blur."""
    rolling_shutter: float = Field(default=0.0, ge=0)
    """Time from the capture of the first row to that of the last, s; 0: a global shutter."""
    rolling_frames: int = Field(default=8, ge=2, le=64)
    """Sub-frames that are rendered over ``rolling_shutter``; each row is taken from the one nearest to its time. With
    motion blur too, rows share sub-frames: ``rolling_frames + motion_blur - 1`` are rendered over both times
    together."""
    rolling_depth: bool = True
    """Whether the rolling shutter acts on all outputs. False: on rgb only; depth and other outputs are those of the
    time at which the exposure of the last row ends, as in an RGB-D camera with global-shutter depth imagers."""

    iso: float = Field(default=100.0, gt=0)
    """Sensitivity. At ISO 100, the renderer's white fills ``full_well``. At ISO S it fills 100/S of it: brightness
    stays the same (``exposure`` changes it), and noise grows."""
    full_well: float | None = Field(default=None, gt=0)
    """Maximum number of electrons in a pixel. Default: electrons are not modelled: no shot noise, no read noise."""
    read_noise: float = Field(default=0.0, ge=0)
    """Standard deviation of the read noise, electrons; needs ``full_well``."""
    bit_depth: int = Field(default=12, ge=8, le=16)
    """Bits of the analogue-to-digital converter, before conversion to 8-bit sRGB; used with ``full_well``."""
    color_temperature: float = Field(default=DAYLIGHT, ge=1667, le=25000)
    """Colour temperature that the camera assumes for white, K. 6500 is correct, 3200 makes the image blue, 9000
    orange."""
    white_balance: tuple[_Gain, _Gain, _Gain] = (1.0, 1.0, 1.0)
    """Gains of red, green and blue, in addition to ``color_temperature``."""

    jpeg_quality: int | None = Field(default=None, ge=1, le=100)
    """Quality of JPEG compression. Default: no compression."""
    jpeg_subsampling: Literal["4:2:0", "4:4:4"] = "4:2:0"
    """Chroma at half the resolution along both axes ("4:2:0"), or at full resolution ("4:4:4")."""

    baseline: float = 0.0
    """Distance of the depth camera's second imager or projector along the rows, m; positive: to the right."""
    depth_noise: tuple[_Deviation, _Deviation, _Deviation] = (0.0, 0.0, 0.0)
    """(a, b, c) of the standard deviation a + b z + c z² of a depth z, in m, 1 and 1/m."""
    disparity_noise: float = Field(default=0.0, ge=0)
    """Standard deviation of the disparity, pixels. It adds z² disparity_noise / (f baseline) to the standard deviation
    of depth, where f is ``disparity_focal_length``."""
    disparity_step: float = Field(default=0.0, ge=0)
    """Step to which the disparity is rounded, pixels; 0: no rounding."""
    disparity_focal_length: float | None = Field(default=None, gt=0)
    """Focal length of the imagers that measure disparity, in their pixels. ``disparity_noise`` and ``disparity_step``
    are in these pixels, so the depth error depends neither on the resolution nor on the field of view of the camera.
    Default: that of the image (fx), as if the imagers had its resolution."""
    stereo_shadow: bool = False
    """Whether pixels have no reading if the second imager or projector does not see their surface."""
    edge_dropout: float = Field(default=0.0, ge=0, le=1)
    """Probability that a pixel beside a depth discontinuity has no reading."""
    edge_width: int = Field(default=1, ge=1, le=8)
    """Number of pixels beside a discontinuity that can drop out."""
    edge_threshold: float = Field(default=0.05, gt=0)
    """Minimum depth jump of a discontinuity, relative to the nearer side."""
    min_range: float = Field(default=0.0, ge=0)
    """Minimum depth, m; there is no reading below it."""
    max_range: float | None = Field(default=None, gt=0)
    """Maximum depth, m; there is no reading above it. Default: no limit."""

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.projection == "fisheye" and (self.p1 or self.p2):
            raise ValueError("p1 and p2 need projection='pinhole'; a fisheye has only k1 to k4")
        if self.projection == "pinhole" and self.k4:
            raise ValueError("k4 needs projection='fisheye'; a pinhole has only k1 to k3, p1 and p2")
        if min(self.chromatic_aberration) <= -0.5:
            raise ValueError(f"chromatic_aberration must be > -0.5, got {self.chromatic_aberration}")
        if self.f_number is not None and self.focal_length is None:
            raise ValueError("f_number needs focal_length (metres), because the aperture is computed from both")
        if self.motion_blur > 1 and not self.exposure_time:
            raise ValueError(f"motion_blur={self.motion_blur} needs exposure_time (seconds) to average over")
        if self.read_noise and self.full_well is None:
            raise ValueError("read_noise is in electrons, so it needs full_well (electrons in a full pixel)")
        for name in ("disparity_noise", "disparity_step", "disparity_focal_length", "stereo_shadow"):
            if getattr(self, name) and not self.baseline:
                raise ValueError(f"{name} needs baseline (metres between the two imagers)")
        if self.max_range is not None and self.max_range <= self.min_range:
            raise ValueError(f"max_range must be > min_range, got {self.max_range} with min_range={self.min_range}")
        return self

    # -- files --------------------------------------------------------------------------------------------------------

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of the profiles that Sensorium includes."""
        return sorted(path.stem for path in PROFILES.glob("*.json"))

    @classmethod
    @checked
    def named(cls, name: str) -> Self:
        """Return a profile that Sensorium includes, by name; see :meth:`names`.

        Raises:
            NameNotFoundError: there is no profile of that name.
        """
        if name not in (names := cls.names()):
            hint = did_you_mean(name, names) or f"; there are {shorten(names)}"
            raise NameNotFoundError(
                f"there is no camera profile {name!r}{hint}; to read a file, use CameraProfile.load"
            )
        return cls.load(PROFILES / f"{name}.json")

    @classmethod
    @checked
    def load(cls, path: str | Path) -> Self:
        """Read a profile from a JSON file of its options.

        Raises:
            OptionError: the file cannot be read, is not JSON, or has invalid options.
        """
        try:
            values = load_json(read_file(Path(path)).decode())
        except OSError as error:
            raise OptionError(f"camera profile {str(path)!r} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise OptionError(f"camera profile {str(path)!r} is not JSON: {error}") from None
        if not isinstance(values, dict):
            raise OptionError(
                f"camera profile {str(path)!r} must be a JSON object of options, got a {type(values).__name__}"
            )
        try:
            return cls(**values)
        except OptionError as error:
            raise OptionError(f"camera profile {str(path)!r}: {error}") from None

    @checked
    def save(self, path: str | Path) -> None:
        """Write the options that differ from their defaults to a JSON file.

        Raises:
            OptionError: the file cannot be written.
        """
        values = self.model_dump(mode="json", exclude_defaults=True)
        try:
            write_whole(Path(path), f"{json.dumps(values, indent=2, ensure_ascii=False)}\n".encode())
        except DatasetError as error:
            raise OptionError(f"camera profile: {error}") from None

    # -- what follows from the options --------------------------------------------------------------------------------

    @property
    def distorts(self) -> bool:
        """Whether the lens distorts the image."""
        return self.projection == "fisheye" or any((self.k1, self.k2, self.k3, self.p1, self.p2))

    @property
    def measures_depth(self) -> bool:
        """Whether the profile models depth measurement; then a depth of 0 means no reading."""
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
        """Gains of red, green and blue in linear light, from colour temperature and white balance."""
        (r0, g0, b0), (r, g, b) = _planckian(DAYLIGHT), _planckian(self.color_temperature)
        seen = (r0 / r, g0 / g, b0 / b)  # white under the assumed light is white in the image
        red, green, blue = self.white_balance
        return seen[0] / seen[1] * red, green, seen[2] / seen[1] * blue

    @property
    def aperture_radius(self) -> float:
        """Radius of the aperture, m; 0 for a lens with everything in focus."""
        if self.f_number is None or self.focal_length is None:
            return 0.0
        return self.focal_length / (2 * self.f_number)

    @checked
    def overscan(self, intrinsics: Intrinsics, size: tuple[int, int], limit: float = 1.0) -> Margins:
        """Return how many pixels to render beyond each edge of an image, so that the lens shows no black border.

        Args:
            intrinsics: intrinsics of the camera, in pixels; the result is the largest margin over all envs.
            size: width and height of the image.
            limit: maximum margin, relative to the image's side. Without it, a fisheye of 180° would need an infinite
                image.
        """
        return margins(self, intrinsics, size, limit)

    @checked
    def rays(self, intrinsics: Intrinsics, size: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the rays of all pixels of a (width, height) image; with a measured depth they give points.

        Returns:
            x / z and y / z in camera axes (x right, y down), each (B, H, W); NaN if no ray reaches the pixel.
        """
        x, y, reached = rays(self, intrinsics, size)
        return torch.where(reached, x, torch.nan).float(), torch.where(reached, y, torch.nan).float()


def _planckian(kelvin: float) -> tuple[float, float, float]:
    """Return the linear sRGB of a black body at luminance 1, by Kim's cubic fits of the locus in CIE 1931."""
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
    floor = 1e-3  # below 1900 K, blue is outside the gamut
    return red, max(green, floor), max(blue, floor)
