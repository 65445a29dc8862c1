"""Conversion between the sensor options of an entity and the sensor rig of its robot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch

from sensorium import poses
from sensorium.errors import OptionError
from sensorium.robots import RigSensor, SensorMount, SensorRig
from sensorium.robots.rig import CAMERA_AXES, sensor_type
from sensorium.sensors.base import sensor_class
from sensorium.sensors.channels import channels
from sensorium.sensors.options import SensorOptions
from sensorium.worlds.compose import pose

if TYPE_CHECKING:
    from sensorium.cameras import Camera

_MOUNT = ("link", "pos", "quat", "euler")


def rig_of(sensors: Sequence[SensorOptions] | SensorRig, taken: Iterable[str] = ()) -> SensorRig:
    """Return sensor options as the rig of a robot.

    Links and joints are those of the robot. A sensor without a link is on its base. A sensor is named by its ``uuid``,
    or by its kind: "imu", "imu_2", ...

    Args:
        sensors: the options. A rig is returned unchanged.
        taken: names that other sensors have.

    Raises:
        OptionError: an element is not sensor options, or a uuid occurs twice.
    """
    if isinstance(sensors, SensorRig):
        return sensors
    entries: list[RigSensor] = []
    for options in sensors:
        if not isinstance(options, SensorOptions):
            raise OptionError(f"sensors must be sensor options such as sn.IMU(...), got {options!r}")
        values = options.model_dump(exclude_unset=True)
        uuid = values.pop("uuid", None)
        used = [*taken, *(entry.name for entry in entries)]
        if uuid in used:
            raise OptionError(f"two sensors have the uuid {uuid!r}; rename one of them")
        if "lookat" in type(options).model_fields:
            _convert_camera_pose(cast("Camera", options), values)
        mounted = [
            key for key in _MOUNT if key in values and key not in channels(type(options))
        ]  # FramePose.pos is one
        mount = SensorMount(**{key: values.pop(key) for key in mounted})
        name = uuid or default_name(type(options), used)
        entries.append(RigSensor(name=name, type=type_name(type(options)), mount=mount, options=values))
    return SensorRig(sensors=tuple(entries))


def options_of(entry: RigSensor) -> dict[str, Any]:
    """Return the options of a sensor of a rig as plain values, so that :func:`rig_of` converts them back to it."""
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
    """Return the name of a class in files: its name in ``sensorium``, or ``package.module:Class``."""
    import sensorium

    if cls.__name__ in sensorium.__all__ and getattr(sensorium, cls.__name__) is cls:
        return cls.__name__
    return f"{cls.__module__}:{cls.__qualname__}"


def _convert_camera_pose(options: Camera, values: dict[str, Any]) -> None:
    """Convert the orientation of a camera, in GL axes, to that of a mount, whose x axis is forward.

    A camera without an orientation looks forward.
    """
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
