"""Options of a lidar's beam and receiver: returned power, detection, echoes, atmosphere, surfaces."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from sensorium.options import Options
from sensorium.sensors.rays.ray_rig import PowerModel

Echo = Literal["first", "second", "last", "strongest"]


class LidarReceiver(Options):
    """Power that a lidar receives, and the returns that it detects.

    The power of a return is (ρ cos θ + g cos⁴ θ) η(r) exp(-2 α r) / r² with the distance r and the incidence angle θ.
    It is 1 for a white surface at 1 m that faces the sensor. ρ is ``reflectivity``, g the gain of ``retro_reflectors``,
    η(r) = 1 - exp(-(r / ``near_range``)²) the share that the lens collects, and α is ``extinction``.

    By default, every surface in range is detected. If ``threshold``, ``extinction`` or ``echoes`` is given, the lidar
    detects *echoes*: each beam is ``rays_per_beam`` rays of the same power over its ``divergence``, and hits at similar
    distances are one echo.
    """

    threshold: float = Field(default=0.0, ge=0)
    """Power below which an echo is lost. A lidar that sees a surface of reflectivity ρ up to the distance r, facing it,
    has ρ / r²."""
    extinction: float = Field(default=0.0, ge=0)
    """Extinction coefficient of the air, 1/m, by which light fades on its way there and back. ``sn.units`` converts the
    visibility in fog and the rate of rain."""
    near_range: float = Field(default=0.0, ge=0)
    """Distance below which the lens collects less light than 1 / r², because near targets are out of focus, m."""
    reflectivity: dict[str, float] = Field(default_factory=dict)
    """Entity, link or geom -> its diffuse reflectivity at the lidar's wavelength, 0 to 1. The narrower name wins.
    Default: the mean of the red, green and blue of the geom, or of its material if it has no colour of its own."""
    retro_reflectors: dict[str, float] = Field(default_factory=dict)
    """Entity, link or geom -> power that its retro-reflecting surface returns at right angles, in units of a white
    diffuse one. A sheet of R cd/lx/m² has π R, for example 785 for 250 cd/lx/m²."""
    echoes: tuple[Echo, ...] | None = None
    """Echoes to report of each beam: "first", "second", "last" (the first if there is only one), "strongest". With more
    than one, readings have the shape ``(B, echoes, *shape)``. Default: the nearest surface, or the first echo."""
    echo_separation: float = Field(default=0.5, ge=0)
    """Distance between two hits of a beam from which they are two echoes, m: half the length of the pulse."""
    rays_per_beam: int = Field(default=16, ge=4, le=1024)
    """Rays that a beam with ``divergence`` is cast as, if echoes are detected."""

    @field_validator("reflectivity", "retro_reflectors")
    @classmethod
    def _not_negative(cls, value: dict[str, float]) -> dict[str, float]:
        for name, each in value.items():
            if each < 0:
                raise ValueError(f"must be >= 0, got {each:g} for {name!r}")
        return value

    @field_validator("reflectivity")
    @classmethod
    def _diffuse(cls, value: dict[str, float]) -> dict[str, float]:
        for name, each in value.items():
            if each > 1:
                raise ValueError(f"must be <= 1, got {each:g} for {name!r}; for a reflector, use retro_reflectors")
        return value

    @field_validator("echoes")
    @classmethod
    def _different(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value is not None and not 1 <= len(value) == len(set(value)):
            raise ValueError("must name at least one echo, and each at most once")
        return value

    @model_validator(mode="after")
    def _check_echoes(self) -> LidarReceiver:
        if len(self.echoes or ()) > 1 and getattr(self, "divergence", 0.0) == 0.0:
            raise ValueError("several echoes need a beam with a footprint; set divergence, e.g. divergence=3e-3")
        return self

    @property
    def detects_echoes(self) -> bool:
        """Whether returns are echoes that are detected by their power."""
        return self.echoes is not None or self.threshold > 0 or self.extinction > 0

    def power_model(self) -> PowerModel:
        """Return the options as the kernels need them."""
        return PowerModel(
            near_range=self.near_range,
            reflectivity=self.reflectivity,
            retro_reflectors=self.retro_reflectors,
            echoes=(self.echoes or ("first",)) if self.detects_echoes else (),
            separation=self.echo_separation,
            rays_per_beam=self.rays_per_beam,
        )
