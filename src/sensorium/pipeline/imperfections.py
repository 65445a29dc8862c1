"""``Imperfections``: noise, bias and other errors of one channel of a sensor, the same options for all sensors.

From options to kernel: a channel is a field of a sensor's options (``IMU.acc``) or the options themselves
(``SimpleSensorOptions``). :meth:`Imperfections.parameters` gives its values to
:class:`~sensorium.pipeline.parameters.ColumnParameters`, which validates them and writes them to the columns of the
channel in :class:`~sensorium.pipeline.storage.ColumnStore`. The hardware stage of the fused step reads them there.
"""

from __future__ import annotations

from typing import Annotated, Self, TypeVar

from pydantic import AfterValidator, Field, model_validator

from sensorium.options import Options

MAX_MAGNITUDE = 1e30
"""Upper bound of imperfections in the unit of the signal: readings are float32, whose largest number is 3.4e38."""


def _not_negative(value: float | tuple[float, ...]) -> float | tuple[float, ...]:
    if any(one < 0 for one in (value if isinstance(value, tuple) else (value,))):
        raise ValueError("must be >= 0")
    return value


def _representable(value: float | tuple[float, ...]) -> float | tuple[float, ...]:
    if any(abs(one) > MAX_MAGNITUDE for one in (value if isinstance(value, tuple) else (value,))):
        raise ValueError(f"must be in [-{MAX_MAGNITUDE:g}, {MAX_MAGNITUDE:g}], so that readings are finite in float32")
    return value


def _ordered(value: tuple[float | None, float | None]) -> tuple[float | None, float | None]:
    if value[0] is not None and value[1] is not None and value[0] > value[1]:
        raise ValueError("must be (min, max) with min <= max")
    return value


PerAxis = Annotated[float | tuple[float, ...], AfterValidator(_representable)]
"""One number for all axes, or one per axis."""
Spread = Annotated[PerAxis, AfterValidator(_not_negative)]
"""A PerAxis that is not negative: a standard deviation, a step, a width."""
Range = Annotated[tuple[float | None, float | None], AfterValidator(_ordered)]
"""(min, max); None leaves that side open."""
Matrix3 = tuple[tuple[float, float, float], tuple[float, float, float], tuple[float, float, float]]
"""A 3 x 3 matrix, by rows."""

TWINS = {
    "noise": "noise_density",
    "noise_density": "noise",
    "drift": "bias_instability",
    "bias_instability": "drift",
}
"""Field -> another field that sets the same parameter in another unit."""

ImperfectionsT = TypeVar("ImperfectionsT", bound="Imperfections")


class Imperfections(Options):
    """Generic imperfections of one channel, in the channel's unit; a number, or one per axis.

    They act on the measured branch after the response model, in this order: axis matrix, noise density and low-pass
    filter, scale error, bias and random walk, noise, slow drifts, outliers, dead band, resolution, saturation.

    ``sensor.set(...)`` changes each of them at run time, per env. The fields from ``scale_error`` on use memory of
    their own, which is allocated if at least one of them is set at construction (0 is allowed).

    Example:
        >>> accelerometer = sn.Imperfections(noise=0.02, bias=(0.1, 0, 0))
        >>> sn.IMU(link="torso", acc=accelerometer, gyro=sn.Imperfections(noise=0.005))
        >>> sn.IMU(link="torso", acc_noise=0.02, acc_bias=(0.1, 0, 0), gyro_noise=0.005)  # the same, in short form
    """

    noise: Spread = 0.0
    """Standard deviation of white noise per sample, in the unit of the signal."""
    bias: PerAxis = 0.0
    """Constant offset."""
    random_walk: Spread = 0.0
    """Drift: standard deviation of a random walk after 1 s, i.e. per √s, independent of dt. It starts at 0 after a
    reset."""
    resolution: Spread = 0.0
    """Step between neighbouring values (quantisation); 0 disables it."""
    saturation: Range | None = None
    """(min, max) of the reading. Default: unlimited."""
    deadband: Spread = 0.0
    """Magnitude below which a value reads as 0."""
    noise_density: Spread | None = None
    """White noise per √Hz, as data sheets specify it: the one-sided density. It acts before the filter that
    ``bandwidth`` sets. Without ``bandwidth``, noise = noise_density * √(f / 2) at f samples per second (``rate``, or
    one per step). Set this or ``noise``, not both. ``sn.units`` converts other units."""
    scale_error: PerAxis = 0.0
    """Relative error of the scale factor: 0.01 reads 1% too much."""
    bias_spread: Spread = 0.0
    """Standard deviation of an offset that is drawn at every reset and constant in an episode (turn-on bias)."""
    drift: Spread = 0.0
    """Standard deviation of a first-order Gauss-Markov drift (in-run bias)."""
    drift_time: float = Field(default=100.0, gt=0)
    """Time constant of the Gauss-Markov drift, s."""
    bias_instability: Spread | None = None
    """In-run bias as data sheets specify it: the floor (lowest value) of the Allan deviation of noise and drift
    together, 0.664 times the coefficient B of IEEE 952. The drift that gives it follows from the noise and
    ``drift_time``. Set this or ``drift``, not both."""
    temperature_drift: PerAxis = 0.0
    """Offset per °C of the sensor's ``temperature`` above 25 °C."""
    outliers: float = Field(default=0.0, ge=0, le=1)
    """Probability that a sample is an outlier."""
    outlier_size: Spread = 0.0
    """Distance of an outlier from the value without it, to either side."""
    bandwidth: float | None = Field(default=None, gt=0)
    """-3 dB frequency of the low-pass filter, Hz. It filters the signal and ``noise_density``, not ``noise``. Default:
    no filter."""

    @model_validator(mode="after")
    def _check_noise(self) -> Imperfections:
        if self.noise_density is not None and self.noise != 0.0:
            raise ValueError("set noise or noise_density, not both: they are two units of one parameter")
        if self.bias_instability is not None and self.drift != 0.0:
            raise ValueError("set drift or bias_instability, not both: they are two measures of one drift")
        return self

    def __or__(self, other: ImperfectionsT) -> Self | ImperfectionsT:
        """Return these imperfections with the fields that ``other`` sets replaced by those of ``other``.

        The result has the class of ``other`` if that is the more specific one, e.g. ``AxisImperfections``.

        Example:
            >>> sn.presets.BMI160_GYROSCOPE | sn.Imperfections(noise=0.01)
        """
        if not isinstance(other, Imperfections):
            return NotImplemented
        mine = {name: getattr(self, name) for name in self.model_fields_set}
        theirs = {name: getattr(other, name) for name in other.model_fields_set}
        for name, twin in TWINS.items():
            if name in theirs:  # the newer one wins
                mine.pop(twin, None)
        kind = type(other) if issubclass(type(other), type(self)) else type(self)
        return kind(**{**mine, **theirs})

    def parameters(self) -> dict[str, object]:
        """Return field -> value, as :class:`~sensorium.pipeline.parameters.ColumnParameters` takes them."""
        return {
            "noise": self.noise,
            "bias": self.bias,
            "random_walk": self.random_walk,
            "resolution": self.resolution,
            "saturation": self.saturation,
            "deadband": self.deadband,
            "noise_density": self.noise_density,
            "scale_error": self.scale_error,
            "bias_spread": self.bias_spread,
            "drift": self.drift,
            "drift_time": self.drift_time,
            "bias_instability": self.bias_instability,
            "temperature_drift": self.temperature_drift,
            "outliers": self.outliers,
            "outlier_size": self.outlier_size,
            "bandwidth": self.bandwidth,
        }


class AxisImperfections(Imperfections):
    """Imperfections of a channel with three axes, which may be misaligned.

    Example:
        >>> sn.IMU(link="torso", gyro=sn.AxisImperfections(misalignment=((1, 0.01, 0), (0, 1, 0), (0, 0, 1))))
    """

    misalignment: Matrix3 | None = None
    """Axis matrix: measured = matrix @ signal. Off-diagonal elements are axis skew and cross-coupling, diagonal ones
    scale. Default: the identity."""

    def with_three_axes(self) -> AxisImperfections:
        """Return these imperfections.

        Raises:
            ValueError: one has neither one number nor three.
        """
        for name in sorted(self.model_fields_set - {"saturation", "misalignment"}):
            value = getattr(self, name)
            if isinstance(value, tuple) and len(value) != 3:
                raise ValueError(f"{name} must be a number or one per axis, 3 numbers, got {value!r}")
        return self

    def parameters(self) -> dict[str, object]:
        """Return field -> value, the axis matrix included."""
        return {**super().parameters(), "misalignment": self.misalignment}
