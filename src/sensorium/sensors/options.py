"""Options that all sensors share: timing, faults, channels, mounting pose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from sensorium.options import Options
from sensorium.pipeline.imperfections import Imperfections
from sensorium.sensors.channels import fold, short_forms, signature

if TYPE_CHECKING:
    from sensorium.pipeline import SensorManager
    from sensorium.sensors.base import Sensor


class SensorOptions(Options):
    """Timing and faults of a sensor: when it samples, when samples arrive, which are lost.

    ``sensor.set(...)`` changes ``rate``, ``delay``, ``jitter``, ``dropout`` and ``stuck`` at run time, per env.
    """

    unavailable: ClassVar[Mapping[str, str]] = {}
    """Inherited options that the sensor does not have -> what to use instead."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**fold(type(self), values))

    def __init_subclass__(cls, init: bool = True, **kwargs: Any) -> None:
        """``init=False`` has no effect at run time. It tells type checkers (PEP 681) to use the constructor above,
        which takes short forms of channels, instead of one made of the fields alone."""
        super().__init_subclass__(**kwargs)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        cls.__signature__ = signature(cls, cls.unavailable.keys())

    @classmethod
    def __pydantic_on_complete__(cls) -> None:
        super().__pydantic_on_complete__()
        cls.__signature__ = signature(cls, cls.unavailable.keys())  # pydantic has just set one without short forms

    uuid: str | None = Field(default=None, min_length=1)
    """Key of the sensor in observations and datasets, unique in its scene. It seeds the noise, together with the seed
    of the scene: the same uuid gives the same noise. Default: kind of sensor and link, e.g. ``imu_torso``."""
    rate: float | None = Field(default=None, gt=0)
    """Sample rate, Hz. The sensor samples at k / rate of simulated time and holds the sample in between. A rate above
    one sample per step is captured at physics substeps. Default: one sample per step."""
    substeps: bool = False
    """Capture at physics substeps: in the substep that contains each sampling instant, and without ``rate`` in every
    substep. Delay, jitter and history then count in substeps. A rate above one sample per step has the same effect."""
    delay: float = Field(default=0.0, ge=0)
    """Latency from capture to arrival, s. A read at t returns the newest sample that has arrived by t."""
    jitter: float = Field(default=0.0, ge=0)
    """Random extra latency, s: drawn once per sample from U[0, jitter). At most ``delay``."""
    max_delay: float | None = Field(default=None, ge=0)
    """Delay plus jitter to allocate memory for, s, so that ``set(delay=...)`` can raise it. Default: delay + jitter."""
    interpolate: bool = False
    """Interpolate a delayed reading linearly between the snapshots of two steps, instead of returning the older one.
    With a ``rate``, the held samples are interpolated."""
    history_length: int | None = Field(default=None, ge=0)
    """Number of readings to keep: ``read()`` then returns (B, history_length, ...), newest first. Default: none, as
    with 0."""
    dropout: float = Field(default=0.0, ge=0, le=1)
    """Probability that a sample is lost. The sample before it is then held."""
    stuck: float = Field(default=0.0, ge=0)
    """Failure rate, 1/s: after a failure, samples repeat the last value until the env is reset. 1e9 makes it stick at
    once."""

    draw_debug: bool = False
    """Whether pictures of the scene (``scene.snapshot()``) show what the sensor observes."""

    @classmethod
    def option_names(cls) -> list[str]:
        """Return the names that the constructor takes: options, and short forms of those of channels."""
        return [name for name in (*cls.model_fields, *short_forms(cls)) if name not in cls.unavailable]

    @field_validator("history_length")
    @classmethod
    def _zero_is_none(cls, length: int | None) -> int | None:
        return length or None

    @model_validator(mode="after")
    def _check_available(self) -> SensorOptions:
        for name, instead in self.unavailable.items():
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} is not available for this sensor; {instead}")
        return self

    @model_validator(mode="after")
    def _check_delays(self) -> SensorOptions:
        if self.jitter > self.delay:
            raise ValueError(f"jitter must be <= delay, got jitter={self.jitter:g} with delay={self.delay:g}")
        if self.max_delay is not None and self.max_delay < self.delay + self.jitter:
            raise ValueError(
                f"max_delay must be >= delay + jitter, got max_delay={self.max_delay:g} with "
                f"delay={self.delay:g} and jitter={self.jitter:g}"
            )
        if self.uuid is not None and ("." in self.uuid or not self.uuid.isprintable()):
            raise ValueError(f"uuid must not contain '.' or control characters, got {self.uuid!r}")
        return self

    def make_sensor(self, taken: set[str]) -> Sensor[Any]:
        """Return the sensor that these options describe; a default uuid is not one of ``taken``."""
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
        """Return the manager that runs sensors of this kind."""
        from sensorium.pipeline import SensorManager

        return SensorManager()


class ChannelOptions(SensorOptions, init=False):
    """Options that all channels of a sensor share. Derive from it to give a sensor channels.

    Example:
        >>> class Scale(sn.sensors.ChannelOptions, init=False):  # type checkers then accept the short forms
        ...     mass: sn.Imperfections = sn.Imperfections()  # kg; short forms mass_noise, mass_bias, ...
    """

    window: Literal["instant", "mean"] = "instant"
    """What a sample is: the signal at the instant, or its mean over the interval since the instant before, over all
    physics substeps in it, as integrating hardware reports forces and accelerations. Ground truth is averaged too.
    Means add up to exact integrals if ``rate`` divides the rate of the physics substeps; if not, a warning says so."""
    temperature: float = 25.0
    """Temperature of the sensor, °C; change it with ``set`` as the robot warms up. See ``temperature_drift``."""
    filter_order: Literal[1, 2] = 2
    """Order of the low-pass filters that ``bandwidth`` sets: 1, or 2 (Butterworth)."""


class SimpleSensorOptions(ChannelOptions, Imperfections, init=False):
    """Options of a sensor whose main channel needs no name: the generic imperfections are options of the sensor itself.

    See :class:`~sensorium.pipeline.Imperfections` for what each does, and in which order.
    """


class Mounted(Options):
    """Mounting pose of a sensor: a link, and a pose in the link's frame."""

    link: str = Field(min_length=1)
    """Link (MuJoCo body) that carries the sensor: the ``name`` of a primitive, or ``entity/link`` or ``link`` of a
    model."""
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Position of the sensor in the link's frame, m."""
    quat: tuple[float, float, float, float] | None = None
    """Orientation of the sensor in the link's frame, (w, x, y, z). Default: aligned with the link."""
    euler: tuple[float, float, float] | None = None
    """Orientation as roll, pitch, yaw, rad: another way to set ``quat``."""

    @model_validator(mode="after")
    def _check_pose(self) -> Mounted:
        from sensorium.worlds.compose import pose

        pose(self.pos, self.quat, self.euler)
        return self
