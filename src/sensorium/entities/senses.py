"""The sensors of an entity: options as in a data sheet, turned into the rig of its robot and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from sensorium import poses
from sensorium.errors import OptionError
from sensorium.robots import RigSensor, SensorMount, SensorRig
from sensorium.robots.rig import CAMERA_AXES, sensor_type
from sensorium.sensors.base import sensor_class
from sensorium.sensors.options import SensorOptions
from sensorium.worlds.compose import pose

_MOUNT = ("link", "pos", "quat", "euler")


def rig_of(sensors: Sequence[SensorOptions] | SensorRig, taken: Iterable[str] = ()) -> SensorRig:
    """Options of sensors as the rig of a robot. Links and joints are the robot's own; without a link, its base.

    A sensor is called by its ``uuid``, or by its kind ("imu", "imu_2", ...).

    Args:
        sensors: the options; a rig is left as it is.
        taken: names that others have.
    """
    if isinstance(sensors, SensorRig):
        return sensors
    entries: list[RigSensor] = []
    for options in sensors:
        if not isinstance(options, SensorOptions):
            raise OptionError(f"sensors must be options as sn.IMU(...), got {options!r}")
        values = options.model_dump(exclude_unset=True)
        uuid = values.pop("uuid", None)
        used = [*taken, *(entry.name for entry in entries)]
        if uuid in used:
            raise OptionError(f"two sensors have the uuid {uuid!r}; give one of the two another")
        if "lookat" in type(options).model_fields:
            _turn_camera(options, values)
        mount = SensorMount(**{key: values.pop(key) for key in _MOUNT if key in values})
        name = uuid or default_name(type(options), used)
        entries.append(RigSensor(name=name, type=type_name(type(options)), mount=mount, options=values))
    return SensorRig(sensors=tuple(entries))


def options_of(entry: RigSensor) -> dict[str, Any]:
    """The options of one sensor of a rig that :func:`rig_of` turns into it, as plain values."""
    mount = entry.mount.model_dump(exclude_unset=True)
    if "lookat" in sensor_type(entry.type).model_fields and {"quat", "euler"} & set(mount):
        turn = pose(entry.mount.pos, mount.pop("quat", None), mount.pop("euler", None))[1]
        mount["quat"] = poses.multiply(turn, CAMERA_AXES).tolist()
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in mount.items()}
    return {"uuid": entry.name, **plain, **entry.options}


def default_name(options: type[SensorOptions], used: Sequence[str]) -> str:
    """Return the name of a sensor without a uuid: its kind, as in a scene, numbered if it is used already."""
    stem = sensor_class(options).kind
    return next(name for name in (stem, *(f"{stem}_{number}" for number in range(2, 10_000))) if name not in used)


def type_name(cls: type) -> str:
    """How a file names a class: by its name in ``sensorium``, or by ``package.module:Class``."""
    import sensorium

    if cls.__name__ in sensorium.__all__ and getattr(sensorium, cls.__name__) is cls:
        return cls.__name__
    return f"{cls.__module__}:{cls.__qualname__}"


def _turn_camera(options: Any, values: dict[str, Any]) -> None:
    """Orientations of cameras are in GL axes, those of mounts have x forward; a camera without one looks forward."""
    lookat, _ = values.pop("lookat", None), values.pop("up", None)
    if lookat is not None:
        from sensorium.cameras.geometry import look_at

        place, target, up = (torch.tensor(each, dtype=torch.float64) for each in (options.pos, lookat, options.up))
        turn = poses.from_axes(*look_at(place, target, up).numpy().T)
    elif options.quat is None and options.euler is None:
        return
    else:
        turn = pose(options.pos, options.quat, options.euler)[1]
    values.pop("euler", None)
    values["quat"] = tuple(poses.multiply(turn, poses.conjugate(CAMERA_AXES)).tolist())
