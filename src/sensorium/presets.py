"""Well-known parts by name, with the figures of their data sheets: ``sn.presets.imu("consumer_mems", link="base")``.

Every preset returns ordinary options, and takes options of that sensor on top, which win. Typical values are used; an
initial tolerance ("offset ±40 mg") is taken for the standard deviation of an offset drawn at every reset, and a bias
instability B for a Gauss-Markov drift whose Allan deviation peaks at B. What a data sheet says and Sensorium does not
model is named where it is quoted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sensorium.errors import OptionError, did_you_mean
from sensorium.sensors.rays.patterns import SphericalPattern
from sensorium.sensors.robot.imu import IMU
from sensorium.sensors.robot.joint_encoder import JointEncoder

if TYPE_CHECKING:
    from sensorium.sensors.rays.raycaster import Lidar

_G = 9.80665
_MG = 1e-3 * _G
_DPS = math.pi / 180
_PER_HOUR = _DPS / 3600
_TWINS = (("noise", "noise_density"), ("noise_density", "noise"), ("resolution", "counts_per_revolution"))
"""Options that are two names of one parameter, or ends of their names."""
_PEAK = 0.617
"""Allan deviation of a Gauss-Markov process at its peak (1.89 time constants), by its standard deviation."""

Preset = Callable[[], dict[str, Any]]


def _consumer_mems() -> dict[str, Any]:
    """Bosch BMI160, a phone-grade IMU, at 200 samples/s.

    Accelerometer: ±16 g at 2048 LSB/g; noise density 180 µg/√Hz; zero-g offset ±40 mg; its temperature coefficient
    ±1 mg/K; 3 dB cut-off 80 Hz at 200 Hz. Gyroscope: ±2000 °/s at 16.4 LSB/(°/s); noise density 0.007 °/s/√Hz;
    zero-rate offset ±3 °/s; temperature coefficient 0.05 °/s/K; bias stability 6 °/h; cut-off 74.6 Hz at 200 Hz. Not
    modelled: non-linearity (0.5% of full scale), temperature coefficient of the sensitivity (0.03 %/K).
    """
    return {
        "rate": 200.0,
        "acc_noise_density": 180e-3 * _MG,
        "acc_bias_spread": 40 * _MG,
        "acc_temperature_drift": 1.0 * _MG,
        "acc_resolution": _G / 2048,
        "acc_saturation": (-16 * _G, 16 * _G),
        "acc_bandwidth": 80.0,
        "gyro_noise_density": 0.007 * _DPS,
        "gyro_bias_spread": 3 * _DPS,
        "gyro_bias_instability": 6 * _PER_HOUR / _PEAK,
        "gyro_temperature_drift": 0.05 * _DPS,
        "gyro_resolution": _DPS / 16.4,
        "gyro_saturation": (-2000 * _DPS, 2000 * _DPS),
        "gyro_bandwidth": 74.6,
    }


def _automotive() -> dict[str, Any]:
    """ST ASM330LHH, an automotive-grade (AEC-Q100) IMU, at 208 samples/s.

    Accelerometer: ±4 g at 0.122 mg/LSB; noise density 60 µg/√Hz; zero-g offset ±20 mg; its change with temperature
    ±0.1 mg/°C; bias instability 40 µg; bandwidth half the data rate. Gyroscope: ±250 °/s at 8.75 m°/s/LSB; noise
    density 5 m°/s/√Hz; zero-rate level ±1 °/s; its change with temperature ±0.005 °/s/°C; bias instability 3 °/h. Not
    modelled: cross-axis sensitivity, change of the sensitivity with temperature.
    """
    return {
        "rate": 208.0,
        "acc_noise_density": 60e-3 * _MG,
        "acc_bias_spread": 20 * _MG,
        "acc_bias_instability": 40e-3 * _MG / _PEAK,
        "acc_temperature_drift": 0.1 * _MG,
        "acc_resolution": 0.122 * _MG,
        "acc_saturation": (-4 * _G, 4 * _G),
        "acc_bandwidth": 104.0,
        "gyro_noise_density": 5e-3 * _DPS,
        "gyro_bias_spread": 1.0 * _DPS,
        "gyro_bias_instability": 3 * _PER_HOUR / _PEAK,
        "gyro_temperature_drift": 0.005 * _DPS,
        "gyro_resolution": 8.75e-3 * _DPS,
        "gyro_saturation": (-250 * _DPS, 250 * _DPS),
    }


def _magnetic_14_bit() -> dict[str, Any]:
    """ams AS5048A, a magnetic angle sensor on the joint's axis.

    14 bits a turn (0.0219°); noise 0.06° rms; output sampled at 11.25 kHz. Not modelled: non-linearity (±0.8° with the
    magnet well placed) and the 0.1 ms until a sample is there, which is below the steps that most scenes take.
    """
    return {"counts_per_revolution": 2**14, "noise": 0.06 * _DPS, "rate": 11250.0}


def _16_line() -> dict[str, Any]:
    """Velodyne VLP-16, a spinning lidar of 16 lines, at 10 revolutions/s.

    16 channels from -15° to +15°, 2° apart; 360° around in steps of 0.2° at 10 Hz (here 1800 columns); up to 100 m;
    range accuracy ±3 cm (typical), taken for the noise's standard deviation; distances in steps of 2 mm; beams of
    3 mrad. Not modelled: firing order within a column, dual returns, the dependence of range on reflectivity.
    """
    return {
        "pattern": SphericalPattern(fov=(360, 30), n_points=(1800, 16)),
        "min_range": 0.5,
        "max_range": 100.0,
        "noise": 0.03,
        "resolution": 0.002,
        "divergence": 3e-3,
        "scan_rate": 10.0,
    }


def _2d() -> dict[str, Any]:
    """Hokuyo UTM-30LX, a scanner of one plane, at 40 scans/s.

    270° in steps of 0.25° (1081 rays), a scan in 25 ms; 0.1 m to 30 m; accuracy ±30 mm up to 10 m and ±50 mm up to
    30 m; repeated accuracy σ < 10 mm up to 10 m and < 30 mm up to 30 m, here 3 mm + 0.9 mm/m. Not modelled: the
    dependence on reflectivity, and the dead quarter of a revolution, so a scan is spread over all of its 25 ms.
    """
    return {
        "pattern": SphericalPattern(fov=(270, 0), n_points=(1081, 1)),
        "min_range": 0.1,
        "max_range": 30.0,
        "noise": 0.003,
        "noise_per_metre": 0.0009,
        "resolution": 0.001,
        "scan_rate": 40.0,
    }


_IMUS: dict[str, Preset] = {"consumer_mems": _consumer_mems, "automotive": _automotive}
_LIDARS: dict[str, Preset] = {"16_line": _16_line, "2d": _2d}
_ENCODERS: dict[str, Preset] = {"magnetic_14_bit": _magnetic_14_bit}


def imu(name: str, **options: Any) -> IMU:
    """Options of a well-known IMU: "consumer_mems" (Bosch BMI160) or "automotive" (ST ASM330LHH).

    Example:
        >>> imu = scene.add_sensor(sn.presets.imu("consumer_mems", link="base", delay=0.005))
    """
    return IMU(**_find("imu", name, _IMUS, options))


def lidar(name: str, **options: Any) -> Lidar:
    """Options of a well-known lidar: "16_line" (Velodyne VLP-16) or "2d" (Hokuyo UTM-30LX).

    Example:
        >>> lidar = scene.add_sensor(sn.presets.lidar("2d", link="base", pos=(0.2, 0, 0.1)))
    """
    from sensorium.sensors.rays.raycaster import Lidar

    return Lidar(**_find("lidar", name, _LIDARS, options))


def encoder(name: str, **options: Any) -> JointEncoder:
    """Options of a well-known joint encoder: "magnetic_14_bit" (ams AS5048A).

    Example:
        >>> encoder = scene.add_sensor(sn.presets.encoder("magnetic_14_bit", robot="arm"))
    """
    return JointEncoder(**_find("encoder", name, _ENCODERS, options))


def names() -> dict[str, dict[str, str]]:
    """Kind of sensor -> name of preset -> the figures it is made of, as quoted from its data sheet."""
    kinds = {"imu": _IMUS, "lidar": _LIDARS, "encoder": _ENCODERS}
    return {kind: {name: preset.__doc__ or "" for name, preset in known.items()} for kind, known in kinds.items()}


def _find(kind: str, name: str, known: dict[str, Preset], given: dict[str, Any]) -> dict[str, Any]:
    """The preset with the options given on top; one that has two names replaces the other, too."""
    if name not in known:
        hint = did_you_mean(str(name), known)
        raise OptionError(f"presets.{kind}: there is no part {name!r}{hint}; there are {', '.join(known)}")
    preset = known[name]()
    for option in given:
        for one, other in _TWINS:
            if option.endswith(one):
                preset.pop(option.removesuffix(one) + other, None)
    return preset | given
