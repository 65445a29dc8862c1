"""Conversions of figures from data sheets, weather reports and other software to the units of Sensorium's options.

Sensorium's ``noise_density`` is one-sided: white noise of density D has the variance D² Δf in a band of Δf, and
D² f / 2 when it is sampled at f. This is what spectrum analysers and most data sheets mean by "/√Hz". Random-walk
coefficients (°/√h, m/s/√h, IEEE 952) and the noise of Kalibr and similar tools are two-sided: their variance at f
samples per second is N² f. One figure is √2 times the other: D = √2 N.

Example:
    >>> gyro = sn.Imperfections(
    ...     noise_density=sn.units.from_deg_per_sqrt_hour(0.3),
    ...     bias_instability=sn.units.from_deg_per_hour(6.0),
    ... )
"""

from __future__ import annotations

import math
from numbers import Real

from sensorium.errors import OptionError

__all__ = [
    "STANDARD_GRAVITY",
    "from_continuous_noise",
    "from_deg_per_hour",
    "from_deg_per_sqrt_hour",
    "from_discrete_noise",
    "from_dps_per_sqrt_hz",
    "from_mps_per_sqrt_hour",
    "from_rain_rate",
    "from_ug",
    "from_ug_per_sqrt_hz",
    "from_visibility",
    "from_walk_per_step",
]

STANDARD_GRAVITY = 9.80665
"""1 g, m/s²."""


def _finite(name: str, value: float) -> float:
    """Return a figure, checked."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise OptionError(f"{name} must be a finite number, got {value!r}")
    return float(value)


def _size(name: str, value: float) -> float:
    """Return a figure that must be >= 0, checked."""
    if _finite(name, value) < 0:
        raise OptionError(f"{name} must be >= 0, got {value!r}")
    return float(value)


def _divisor(name: str, value: float) -> float:
    """Return a figure that must be > 0, checked."""
    if _finite(name, value) <= 0:
        raise OptionError(f"{name} must be > 0, got {value!r}")
    return float(value)


def from_deg_per_sqrt_hour(angle_random_walk: float) -> float:
    """Return the ``noise_density`` (rad/s/√Hz) of a gyroscope with an angle random walk in °/√h.

    An angle random walk N is two-sided, hence the factor √2; 1 °/√h is 1/60 °/√s.

    Example:
        >>> round(sn.units.from_deg_per_sqrt_hour(0.3), 9)
        0.000123413
    """
    return math.sqrt(2) * math.radians(_size("angle_random_walk", angle_random_walk)) / 60


def from_mps_per_sqrt_hour(velocity_random_walk: float) -> float:
    """Return the ``noise_density`` (m/s²/√Hz) of an accelerometer with a velocity random walk in m/s/√h.

    A velocity random walk N is two-sided, hence the factor √2; 1 m/s/√h is 1/60 m/s/√s.

    Example:
        >>> round(sn.units.from_mps_per_sqrt_hour(0.06), 9)
        0.001414214
    """
    return math.sqrt(2) * _size("velocity_random_walk", velocity_random_walk) / 60


def from_continuous_noise(sigma: float) -> float:
    """Return the ``noise_density`` of a continuous-time noise density in the convention of Kalibr, per √Hz.

    There the noise of a sample is sigma * √f at f samples per second: the density is two-sided. The continuous-time
    random walk of Kalibr (``gyroscope_random_walk``) is ``random_walk`` as it is.

    Args:
        sigma: e.g. ``gyroscope_noise_density`` of Kalibr's imu.yaml, rad/s/√Hz.

    Example:
        >>> round(sn.units.from_continuous_noise(0.001), 9)
        0.001414214
    """
    return math.sqrt(2) * _size("sigma", sigma)


def from_discrete_noise(sigma: float, rate: float) -> float:
    """Return the ``noise_density`` (per √Hz) of noise with the standard deviation ``sigma`` per sample.

    Use it for noise that was measured or specified at another rate than yours; at the same rate, set ``noise=sigma``.

    Args:
        sigma: standard deviation of a sample.
        rate: samples per second at which ``sigma`` holds, Hz.

    Example:
        >>> round(sn.units.from_discrete_noise(0.02, rate=200.0), 9)
        0.002
    """
    return _size("sigma", sigma) * math.sqrt(2 / _divisor("rate", rate))


def from_walk_per_step(sigma: float, dt: float) -> float:
    """Return the ``random_walk`` (per √s) of a walk whose increments have the standard deviation ``sigma`` per step.

    Args:
        sigma: standard deviation of the change of the bias in one step or sample, as other simulators specify it.
        dt: seconds of that step or sample.

    Example:
        >>> round(sn.units.from_walk_per_step(1e-4, dt=0.005), 9)
        0.001414214
    """
    return _size("sigma", sigma) / math.sqrt(_divisor("dt", dt))


def from_ug(micro_g: float) -> float:
    """Return an acceleration in µg as m/s².

    Example:
        >>> round(sn.units.from_ug(40.0), 9)
        0.000392266
    """
    return _finite("micro_g", micro_g) * 1e-6 * STANDARD_GRAVITY


def from_ug_per_sqrt_hz(density: float) -> float:
    """Return a noise density in µg/√Hz as m/s²/√Hz.

    Example:
        >>> round(sn.units.from_ug_per_sqrt_hz(180.0), 9)
        0.001765197
    """
    return from_ug(_size("density", density))


def from_dps_per_sqrt_hz(density: float) -> float:
    """Return a noise density in °/s/√Hz as rad/s/√Hz.

    Example:
        >>> round(sn.units.from_dps_per_sqrt_hz(0.007), 9)
        0.000122173
    """
    return math.radians(_size("density", density))


def from_deg_per_hour(rate: float) -> float:
    """Return an angular rate in °/h, such as a bias instability, as rad/s.

    Example:
        >>> round(sn.units.from_deg_per_hour(6.0), 9)
        2.9089e-05
    """
    return math.radians(_finite("rate", rate)) / 3600


def from_visibility(distance: float) -> float:
    """Return the ``extinction`` (1/m) of fog or haze in which the visibility is a distance in m.

    Visibility is the meteorological optical range of the WMO, at which 5 % of the light is left: α = ln(20) / V.

    Example:
        >>> round(sn.units.from_visibility(100.0), 6)
        0.029957
    """
    return math.log(20.0) / _divisor("distance", distance)


def from_rain_rate(rate: float) -> float:
    """Return the ``extinction`` (1/m) of rain of a rate in mm/h.

    Rain attenuates light by 1.076 R^0.67 dB/km (ITU-R P.1814, after Carbonneau).

    Example:
        >>> round(sn.units.from_rain_rate(25.0), 6)
        0.002141
    """
    return 1.076 * _size("rate", rate) ** 0.67 * math.log(10.0) / 10.0 / 1000.0
