"""Presets: sensors of well-known parts, with the figures of their data sheets.

Example:
    >>> imu = sn.presets.imu("consumer_mems", link="base", delay=0.005)
    >>> imu = sn.presets.load("my_imu.yaml", link="base")  # a file that `sensorium fit` wrote
    >>> sn.IMU(link="base", acc=sn.presets.BMI160_ACCELEROMETER | sn.Imperfections(noise=0.05))

A preset returns ordinary options of the sensor. Options given on top of it win. Typical values are used. An initial
tolerance ("offset ±40 mg") is taken as the standard deviation of an offset drawn at every reset (``bias_spread``).
Noise densities are one-sided and act before the filter. A bias instability is the floor of the Allan deviation.
``drift_time``, which data sheets do not give, is chosen such that the drift is at most 1.5 times the floor. Figures of
a data sheet that Sensorium does not model are named where the data sheet is quoted.
"""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sensorium import units
from sensorium._arguments import checked
from sensorium.errors import OptionError, did_you_mean, shorten
from sensorium.pipeline import AxisImperfections, Imperfections
from sensorium.pipeline.imperfections import TWINS
from sensorium.sensors.channels import channels, fold
from sensorium.sensors.rays.patterns import SphericalPattern
from sensorium.sensors.robot.imu import IMU
from sensorium.sensors.robot.joint_encoder import JointEncoder

if TYPE_CHECKING:
    from sensorium.sensors.options import SensorOptions
    from sensorium.sensors.rays.raycaster import Lidar

__all__ = [
    "ASM330LHH_ACCELEROMETER",
    "ASM330LHH_GYROSCOPE",
    "BMI160_ACCELEROMETER",
    "BMI160_GYROSCOPE",
    "encoder",
    "imu",
    "lidar",
    "load",
    "names",
]

OptionsT = TypeVar("OptionsT", bound="SensorOptions")

_G = units.STANDARD_GRAVITY
_MG = 1e-3 * _G
_DPS = math.pi / 180
_TWINS = {**TWINS, "resolution": "counts_per_revolution"}
"""Option -> the one that it replaces, since both set one parameter."""

_TYPES = {
    "Barometer": "robot.barometer",
    "DepthCamera": "rays.depth_camera",
    "ForceTorque": "robot.force_torque",
    "GPS": "robot.gps",
    "IMU": "robot.imu",
    "JointEncoder": "robot.joint_encoder",
    "Lidar": "rays.raycaster",
    "Magnetometer": "robot.magnetometer",
    "Raycaster": "rays.raycaster",
}
"""Type of a sensor in a preset file -> module of ``sensorium.sensors`` that has it."""

BMI160_ACCELEROMETER = Imperfections(
    noise_density=units.from_ug_per_sqrt_hz(180),
    bias_spread=40 * _MG,
    temperature_drift=1.0 * _MG,
    resolution=_G / 2048,
    saturation=(-16 * _G, 16 * _G),
    bandwidth=80.0,
)
"""Accelerometer of the Bosch BMI160, m/s²: see ``imu("consumer_mems")``."""
BMI160_GYROSCOPE = Imperfections(
    noise_density=units.from_dps_per_sqrt_hz(0.007),
    bias_spread=3 * _DPS,
    bias_instability=units.from_deg_per_hour(6),
    temperature_drift=0.05 * _DPS,
    resolution=_DPS / 16.4,
    saturation=(-2000 * _DPS, 2000 * _DPS),
    bandwidth=74.6,
)
"""Gyroscope of the Bosch BMI160, rad/s."""
ASM330LHH_ACCELEROMETER = Imperfections(
    noise_density=units.from_ug_per_sqrt_hz(60),
    bias_spread=20 * _MG,
    bias_instability=units.from_ug(40),
    drift_time=15.0,
    temperature_drift=0.1 * _MG,
    resolution=0.122 * _MG,
    saturation=(-4 * _G, 4 * _G),
    bandwidth=104.0,
)
"""Accelerometer of the ST ASM330LHH, m/s²: see ``imu("automotive")``."""
ASM330LHH_GYROSCOPE = Imperfections(
    noise_density=units.from_dps_per_sqrt_hz(0.005),
    bias_spread=1.0 * _DPS,
    bias_instability=units.from_deg_per_hour(3),
    temperature_drift=0.005 * _DPS,
    resolution=8.75e-3 * _DPS,
    saturation=(-250 * _DPS, 250 * _DPS),
)
"""Gyroscope of the ST ASM330LHH, rad/s."""


@dataclass(frozen=True)
class Preset:
    """A well-known sensor: its data sheet, and the options that follow from it."""

    data_sheet: str
    options: dict[str, Any]


_IMUS = {
    "consumer_mems": Preset(
        """Bosch BMI160, a phone-grade IMU, at 200 samples/s.

        Accelerometer: ±16 g at 2048 LSB/g; noise density 180 µg/√Hz; zero-g offset ±40 mg; its temperature coefficient
        ±1 mg/K; 3 dB cut-off 80 Hz at 200 Hz. Gyroscope: ±2000 °/s at 16.4 LSB/(°/s); noise density 0.007 °/s/√Hz;
        zero-rate offset ±3 °/s; temperature coefficient 0.05 °/s/K; bias stability 6 °/h; cut-off 74.6 Hz at 200 Hz.
        Not modelled: non-linearity (0.5% of full scale), temperature coefficient of the sensitivity (0.03 %/K).
        """,
        {"rate": 200.0, "acc": BMI160_ACCELEROMETER, "gyro": BMI160_GYROSCOPE},
    ),
    "automotive": Preset(
        """ST ASM330LHH, an automotive-grade (AEC-Q100) IMU, at 208 samples/s.

        Accelerometer: ±4 g at 0.122 mg/LSB; noise density 60 µg/√Hz; zero-g offset ±20 mg; its change with temperature
        ±0.1 mg/°C; bias instability 40 µg; bandwidth half the data rate. Gyroscope: ±250 °/s at 8.75 m°/s/LSB; noise
        density 5 m°/s/√Hz; zero-rate level ±1 °/s; its change with temperature ±0.005 °/s/°C; bias instability 3 °/h.
        Not modelled: cross-axis sensitivity, change of the sensitivity with temperature.
        """,
        {"rate": 208.0, "acc": ASM330LHH_ACCELEROMETER, "gyro": ASM330LHH_GYROSCOPE},
    ),
}
_LIDARS = {
    "16_line": Preset(
        """Velodyne VLP-16, a spinning lidar of 16 lines, at 10 revolutions/s.

        16 channels from -15° to +15°, 2° apart; 360° in steps of 0.2° at 10 Hz (here 1800 columns); up to 100 m; range
        accuracy ±3 cm (typical), taken as the standard deviation of the noise; distances in steps of 2 mm; beams of
        3 mrad. Not modelled: firing order within a column, dual returns, the dependence of range on reflectivity.
        """,
        {
            "pattern": SphericalPattern(fov=(360, 30), n_points=(1800, 16)),
            "min_range": 0.5,
            "max_range": 100.0,
            "noise": 0.03,
            "resolution": 0.002,
            "divergence": 3e-3,
            "scan_rate": 10.0,
        },
    ),
    "2d": Preset(
        """Hokuyo UTM-30LX, a scanner of one plane, at 40 scans/s.

        270° in steps of 0.25° (1081 rays), a scan in 25 ms; 0.1 m to 30 m; accuracy ±30 mm up to 10 m and ±50 mm up to
        30 m; repeated accuracy σ < 10 mm up to 10 m and < 30 mm up to 30 m, here 3 mm + 0.9 mm/m. Not modelled: the
        dependence on reflectivity, and the dead quarter of a revolution: a scan is spread over all of its 25 ms.
        """,
        {
            "pattern": SphericalPattern(fov=(270, 0), n_points=(1081, 1)),
            "min_range": 0.1,
            "max_range": 30.0,
            "noise": 0.003,
            "noise_per_metre": 0.0009,
            "resolution": 0.001,
            "scan_rate": 40.0,
        },
    ),
}
_ENCODERS = {
    "magnetic_14_bit": Preset(
        """ams AS5048A, a magnetic angle sensor on the joint's axis.

        14 bits per turn (0.0219°); noise 0.06° rms; output sampled at 11.25 kHz, here once per step. Not modelled:
        non-linearity (±0.8° with a well-placed magnet) and the 0.1 ms latency of a sample, which is below the time step
        of most scenes.
        """,
        {"counts_per_revolution": 2**14, "noise": 0.06 * _DPS},
    ),
}


@checked
def imu(name: str, **options: Any) -> IMU:
    """Return options of a well-known IMU: "consumer_mems" (Bosch BMI160) or "automotive" (ST ASM330LHH).

    Args:
        name: the preset.
        **options: options of :class:`sn.IMU`, which win over the preset's.

    Raises:
        OptionError: there is no such preset, or an option is not allowed.

    Example:
        >>> imu = scene.add_sensor(sn.presets.imu("consumer_mems", link="base", delay=0.005))
    """
    return _make("imu", IMU, name, _IMUS, options)


@checked
def lidar(name: str, **options: Any) -> Lidar:
    """Return options of a well-known lidar: "16_line" (Velodyne VLP-16) or "2d" (Hokuyo UTM-30LX).

    Args:
        name: the preset.
        **options: options of :class:`sn.Lidar`, which win over the preset's.

    Raises:
        OptionError: there is no such preset, or an option is not allowed.

    Example:
        >>> lidar = scene.add_sensor(sn.presets.lidar("2d", link="base", pos=(0.2, 0, 0.1)))
    """
    from sensorium.sensors.rays.raycaster import Lidar

    return _make("lidar", Lidar, name, _LIDARS, options)


@checked
def encoder(name: str, **options: Any) -> JointEncoder:
    """Return options of a well-known joint encoder: "magnetic_14_bit" (ams AS5048A).

    Args:
        name: the preset.
        **options: options of :class:`sn.JointEncoder`, which win over the preset's.

    Raises:
        OptionError: there is no such preset, or an option is not allowed.

    Example:
        >>> encoder = scene.add_sensor(sn.presets.encoder("magnetic_14_bit", robot="arm"))
    """
    return _make("encoder", JointEncoder, name, _ENCODERS, options)


@checked
def load(path: str | os.PathLike[str], name: str | None = None, **options: object) -> Any:
    """Return the options of a sensor from a preset file, which ``twin.save(path)`` or ``sensorium fit`` wrote.

    The file is a rig file with one sensor; a rig file with several needs ``name``. Its provenance is not used.

    Args:
        path: YAML file.
        name: name of the sensor in the file. Default: the only one.
        **options: options of the sensor, which win over those of the file.

    Returns:
        Options such as :class:`sn.IMU`; :class:`sn.AxisImperfections` for a file of one channel.

    Raises:
        OptionError: there is no such file, it is not a preset, or an option is not allowed.

    Example:
        >>> imu = scene.add_sensor(sn.presets.load("my_imu.yaml", link="torso"))
    """
    from sensorium import yaml_files

    file = Path(path)
    if not file.is_file():
        raise OptionError(f"there is no preset file {os.fspath(path)!r}")
    try:
        content = yaml_files.read(file)
    except ValueError as error:
        raise OptionError(f"{file} is not valid YAML: {error}") from error
    content = content if isinstance(content, dict) else {}
    if "imperfections" in content:
        if not isinstance(content["imperfections"], dict):
            raise OptionError(f"{file} is not a preset: imperfections must be a mapping")
        return AxisImperfections(**{**{str(key): value for key, value in content["imperfections"].items()}, **options})
    sensors = content.get("sensors")
    if not isinstance(sensors, list) or not all(map(_is_entry, sensors)):
        raise OptionError(f"{file} is not a preset: expected the key 'sensors' with a list of sensors")
    found = {str(each.get("name", each["type"])): each for each in sensors}
    if name is None and len(found) != 1:
        raise OptionError(f"{file} has {len(found)} sensors; pass name= one of {shorten(found)}")
    chosen = next(iter(found)) if name is None else name
    if chosen not in found:
        raise OptionError(f"{file} has no sensor {chosen!r}{did_you_mean(chosen, found)}; it has {shorten(found)}")
    kind = str(found[chosen]["type"])
    if kind not in _TYPES:
        raise OptionError(f"{file}: there is no preset of the type {kind!r}{did_you_mean(kind, _TYPES)}")
    cls = getattr(importlib.import_module(f"sensorium.sensors.{_TYPES[kind]}"), kind)
    mount = {key: value for key, value in found[chosen].get("mount", {}).items() if key not in options}
    return _merge(cls, fold(cls, {**mount, **found[chosen].get("options", {})}), options)


def _is_entry(entry: object) -> bool:
    """Return whether an entry of a preset file names its type, and has mappings of text to its other values."""
    if not isinstance(entry, dict) or "type" not in entry:
        return False
    parts = [entry.get(key, {}) for key in ("mount", "options")]
    return all(isinstance(part, dict) and all(isinstance(key, str) for key in part) for part in parts)


def names() -> dict[str, dict[str, str]]:
    """Return kind of sensor -> preset -> the figures of its data sheet that it is made of."""
    kinds = {"imu": _IMUS, "lidar": _LIDARS, "encoder": _ENCODERS}
    return {kind: {name: preset.data_sheet for name, preset in known.items()} for kind, known in kinds.items()}


def _make(kind: str, cls: type[OptionsT], name: str, known: dict[str, Preset], given: dict[str, Any]) -> OptionsT:
    """Return a preset of a table with the given options in place of its own."""
    if name not in known:
        hint = did_you_mean(str(name), known)
        raise OptionError(f"presets.{kind}: there is no preset {name!r}{hint}; there are {', '.join(known)}")
    return _merge(cls, known[name].options, given)


def _merge(cls: type[OptionsT], preset: Mapping[str, Any], given: dict[str, Any]) -> OptionsT:
    """Return options of a preset with the given ones in place of its own, field by field within a channel."""
    preset = dict(preset)
    top = fold(cls, given)
    for option in top:
        preset.pop(_TWINS.get(option, ""), None)
    for channel in channels(cls).keys() & preset.keys() & top.keys():
        top[channel] = preset[channel] | top[channel]
    return cls(**{**preset, **top})
