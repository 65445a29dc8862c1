"""What the options of all sensors share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from sensorium.options import Options
from sensorium.pipeline.imperfections import Imperfections
from sensorium.sensors.channels import fold, short_forms, signature

if TYPE_CHECKING:
    from sensorium.pipeline import SensorManager
    from sensorium.sensors.base import Sensor


class SensorOptions(Options):
    """When a sensor samples, and when its samples arrive. All of it can be changed per env by ``sensor.set(...)``,
    except for what sizes memory (``max_delay``, ``history_length``) and ``interpolate``."""

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

    @classmethod
    def option_names(cls) -> list[str]:
        """Return the names that the constructor takes: options, and short forms of those of channels."""
        return [name for name in (*cls.model_fields, *short_forms(cls)) if name not in cls.unavailable]

    @model_validator(mode="after")
    def _check_available(self) -> SensorOptions:
        for name, instead in self.unavailable.items():
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} is not available for this sensor; {instead}")
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


class ChannelOptions(SensorOptions, init=False):
    """Options that all channels of a sensor share. Derive from it to give a sensor channels.

    Example:
        >>> class Scale(sn.sensors.ChannelOptions, init=False):  # type checkers then accept the short forms
        ...     mass: sn.Imperfections = sn.Imperfections()  # kg; short forms mass_noise, mass_bias, ...
    """

    temperature: float = 25.0
    """Temperature of the sensor, °C; change it with ``set`` as the robot warms up. See ``temperature_drift``."""
    filter_order: Literal[1, 2] = 2
    """Order of the low-pass filters that ``bandwidth`` sets: 1, or 2 (Butterworth)."""


class SimpleSensorOptions(ChannelOptions, Imperfections, init=False):
    """Options of a sensor whose main channel needs no name: the generic imperfections are options of the sensor itself.

    See :class:`~sensorium.pipeline.Imperfections` for what each does, and in which order.
    """


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
