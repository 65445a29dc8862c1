"""What the options of all sensors share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from sensorium.options import Options

if TYPE_CHECKING:
    from sensorium.pipeline import SensorManager
    from sensorium.sensors.base import Sensor


def _not_negative(value: float | tuple[float, ...]) -> float | tuple[float, ...]:
    if min(value if isinstance(value, tuple) else (value,)) < 0:
        raise ValueError("must not be negative")
    return value


def _ordered(value: tuple[float | None, float | None]) -> tuple[float | None, float | None]:
    if value[0] is not None and value[1] is not None and value[0] > value[1]:
        raise ValueError("must be (min, max) with min <= max")
    return value


PerAxis = float | tuple[float, ...]
"""One number for all axes, or one per axis."""
Spread = Annotated[PerAxis, AfterValidator(_not_negative)]
"""A PerAxis that is not negative: a standard deviation, a step, a width."""
Range = Annotated[tuple[float | None, float | None], AfterValidator(_ordered)]
"""(min, max); None leaves that side open."""


class SensorOptions(Options):
    """When a sensor samples, and when its samples arrive. All of it can be changed per env by ``sensor.set(...)``,
    except for what sizes memory (``max_delay``, ``history_length``) and ``interpolate``."""

    uuid: str | None = Field(default=None, min_length=1)
    """The sensor's key in observations and data sets, unique in its scene. Noise is drawn from it and the scene's seed:
    the same uuid gives the same noise. Default: made of the kind of sensor and its link."""
    rate: float | None = Field(default=None, gt=0)
    """Samples per second. Between the instants k / rate of simulated time the last sample is held. Default: every
    step."""
    delay: float = Field(default=0.0, ge=0)
    """Seconds from capture to arrival. A read at t shows the newest sample captured at or before t - delay - jitter."""
    jitter: float = Field(default=0.0, ge=0)
    """Seconds of random extra delay, drawn per env and step from U[0, jitter). At most ``delay``."""
    max_delay: float | None = Field(default=None, ge=0)
    """Seconds of delay + jitter to allocate memory for, for a later ``set(delay=...)``. Default: delay + jitter."""
    interpolate: bool = False
    """When late, interpolate linearly between the snapshots of two steps instead of taking the older one. With a
    ``rate``, what is held between samples stays held."""
    history_length: int | None = Field(default=None, ge=1)
    """Steps of history to keep: ``read()`` then returns (B, history_length, ...), newest first."""
    dropout: float = Field(default=0.0, ge=0, le=1)
    """Probability that a sample is lost; the one before it is held."""
    stuck: float = Field(default=0.0, ge=0)
    """Failures per second after which the reading stays what it was until the env is reset. A huge rate (1e9) sticks at
    once."""

    draw_debug: bool = False
    """Whether pictures of the scene (``scene.snapshot()``) show what the sensor looks at and feels."""

    @model_validator(mode="after")
    def _check_noise(self) -> SensorOptions:
        for name in type(self).model_fields:
            noise = name.removesuffix("_density")
            twins = noise.endswith("noise") and noise != name and getattr(self, name) is not None
            if twins and getattr(self, noise, 0.0) != 0.0:
                raise ValueError(f"{noise} and {name} are two names of one parameter; give one")
        return self

    @model_validator(mode="after")
    def _check_delays(self) -> SensorOptions:
        if self.jitter > self.delay:
            raise ValueError(f"jitter must not exceed delay, got jitter={self.jitter:g} with delay={self.delay:g}")
        if self.max_delay is not None and self.max_delay < self.delay + self.jitter:
            raise ValueError(
                f"max_delay must be at least delay + jitter, got max_delay={self.max_delay:g} with "
                f"delay={self.delay:g} and jitter={self.jitter:g}"
            )
        if self.uuid is not None and "." in self.uuid:
            raise ValueError(f"uuid must not contain '.', got {self.uuid!r}")
        return self

    def make_sensor(self, taken: set[str]) -> Sensor[Any]:
        """The sensor that these options describe; its uuid is not one of ``taken`` unless it was given."""
        from sensorium.sensors.base import sensor_class

        cls = sensor_class(type(self))
        uuid = self.uuid
        if uuid is None:
            link = getattr(self, "link", None)
            stem = cls.kind if link is None else f"{cls.kind}_{link}".replace("/", "_").replace(".", "_")
            uuid, number = stem, 1
            while uuid in taken:
                number += 1
                uuid = f"{stem}_{number}"
        return cls(self, uuid)

    def make_sensing(self) -> SensorManager:
        """The pipeline that runs sensors of this kind."""
        from sensorium.pipeline import SensorManager

        return SensorManager()


class SimpleSensorOptions(SensorOptions):
    """The generic imperfections, in the sensor's own unit; a number, or one per axis. They act on the measured branch
    after the response model, in this order: low-pass filter, scale, bias and walk, noise, slow drifts, outliers, dead
    band, resolution, saturation.

    All can be changed per env by ``sensor.set(...)``. Those from ``scale_error`` on take memory of their own, which is
    allocated when at least one of them is given at construction, be it as 0.
    """

    noise: Spread = 0.0
    """Standard deviation of white noise per sample."""
    bias: PerAxis = 0.0
    """Constant offset."""
    random_walk: Spread = 0.0
    """Drift: a random walk that spreads by this much per √s, whatever dt is. It starts from 0 at every reset."""
    resolution: Spread = 0.0
    """Step between neighbouring values (quantisation); 0: none."""
    saturation: Range | None = None
    """(min, max) that the sensor can show."""
    deadband: Spread = 0.0
    """Values smaller than this in magnitude read as 0."""
    noise_density: Spread | None = None
    """White noise as data sheets give it, per √Hz: another way to give ``noise``, which becomes this times √(f / 2) at
    f samples per second (``rate``, or every step)."""
    scale_error: PerAxis = 0.0
    """Relative error of the scale factor: 0.01 reads 1% too much."""
    bias_spread: Spread = 0.0
    """Standard deviation of an offset that is drawn anew at every reset, and stays for the episode (turn-on bias)."""
    bias_instability: Spread = 0.0
    """Standard deviation of a first-order Gauss-Markov drift (in-run bias)."""
    correlation_time: float = Field(default=100.0, gt=0)
    """Time constant of that drift, s."""
    temperature_drift: PerAxis = 0.0
    """Offset per °C away from 25 °C."""
    temperature: float = 25.0
    """Temperature of the sensor, °C; change it by ``set`` as the robot warms up."""
    outliers: float = Field(default=0.0, ge=0, le=1)
    """Probability that a sample is an outlier."""
    outlier_size: Spread = 0.0
    """How far an outlier lies off, to either side."""
    bandwidth: float | None = Field(default=None, gt=0)
    """Frequency in Hz at which the sensor's low-pass response has fallen by 3 dB. Default: no filter."""
    filter_order: Literal[1, 2] = 2
    """Order of that filter: 1, or 2 (Butterworth)."""


class Mounted(Options):
    """Where a sensor sits: a link, and a pose in that link's frame."""

    link: str
    """The link (MuJoCo body) that carries the sensor: ``name`` of a primitive, ``entity/link`` or just ``link`` of a
    model."""
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Position of the sensor in the link's frame, m."""
    quat: tuple[float, float, float, float] | None = None
    """Orientation of the sensor in the link's frame, (w, x, y, z). Default: aligned with the link."""
    euler: tuple[float, float, float] | None = None
    """The same as roll, pitch, yaw in radians."""

    @model_validator(mode="after")
    def _check_pose(self) -> Mounted:
        from sensorium.worlds.compose import pose

        pose(self.pos, self.quat, self.euler)
        return self
