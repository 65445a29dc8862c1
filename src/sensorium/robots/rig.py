"""``SensorRig``: the sensors of a robot, as options and as an editable YAML file."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeGuard

import mujoco
import numpy as np
from pydantic import Field, field_validator, model_validator

from sensorium._arguments import checked
from sensorium.errors import NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.files import write_whole
from sensorium.options import Options
from sensorium.pipeline import Imperfections
from sensorium.sensors.channels import channels
from sensorium.sensors.options import SensorOptions
from sensorium.tree import Module
from sensorium.worlds.compose import pose

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sensorium.worlds import Scene

RIGS = Path(__file__).parent / "rigs"
"""Folder of the rigs of the catalogue, one YAML file each."""

_NAME_OPTIONS = ("link", "relative_to", "exclude", "touching", "tracked", "left", "right", "reversed")
"""Options of sensors that name links, sites or joints."""
CAMERA_AXES = np.array([0.5, 0.5, -0.5, -0.5])
"""Quaternion (w, x, y, z) of a camera that looks along x with z up; MuJoCo's cameras look along -z with y up."""


class SensorMount(Options):
    """Pose of a sensor on its robot: x is forward, y left, z up, also for cameras."""

    link: str | None = None
    """Link of the robot that carries the sensor. Default: the base of the robot."""
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Position in the link's frame, m."""
    quat: tuple[float, float, float, float] | None = None
    """Orientation in the link's frame, (w, x, y, z). Default: aligned with the link."""
    euler: tuple[float, float, float] | None = None
    """Orientation in the link's frame as roll, pitch, yaw in radians, instead of ``quat``."""

    @model_validator(mode="after")
    def _check_pose(self) -> SensorMount:
        pose(self.pos, self.quat, self.euler)
        return self


class RigSensor(Options):
    """One sensor of a rig."""

    name: str = Field(pattern=r"^[A-Za-z_][\w-]*$")
    """Name in the component tree: ``robot.rig.NAME``."""
    type: str
    """Class of its options: a name in ``sensorium`` ("IMU", "Camera", ...), or ``package.module:Class`` of a module
    that the program has imported."""
    mount: SensorMount = SensorMount()
    """Pose on the robot."""
    options: dict[str, Any] = {}
    """All other options, as plain values. Channels are mappings or ``sn.Imperfections``."""

    @field_validator("options")
    @classmethod
    def _plain(cls, value: dict[str, Any]) -> dict[str, Any]:
        return {name: _as_plain(name, each) for name, each in value.items()}

    @model_validator(mode="after")
    def _check_options(self) -> RigSensor:
        if "uuid" in self.options:
            raise ValueError(f"{self.name}: remove uuid; it consists of the names of the robot and the sensor")
        try:
            kept = channels(sensor_type(self.type))  # FramePose has a channel ``pos``
            for name in ("pos", "quat", "euler", "lookat"):
                if name in self.options and name not in kept:
                    raise OptionError(f"{name} belongs under mount, not under options")
            self.resolve("robot", "base", ())
        except (OptionError, NameNotFoundError) as error:
            raise ValueError(f"{self.name}: {error}") from error
        return self

    def resolve(self, robot: str, base: str, own: Collection[str]) -> SensorOptions:
        """Return the options of the sensor on a robot of a scene.

        Args:
            robot: name of the robot in its scene.
            base: full name of the base link of the robot.
            own: names of the robot's links, sites and joints, which take precedence over other names.

        Raises:
            OptionError: the options or the mount do not fit the type.
            NameNotFoundError: there is no such type.
        """
        cls = sensor_type(self.type)
        fields, values = cls.model_fields, {"uuid": f"{robot}_{self.name}", **self.options}
        mount = self.mount
        if "link" in fields:
            values.setdefault("link", base)
            if mount.link is not None:
                values["link"] = mount.link
        elif mount.link is not None:
            raise OptionError(f"{self.type} is not mounted on a link; remove mount.link")
        if "robot" in fields:
            values.setdefault("robot", robot)
        if has_pose(cls):
            values["pos"], quat = mount.pos, pose(mount.pos, mount.quat, mount.euler)[1]
            if "lookat" in fields:
                mujoco.mju_mulQuat(quat, quat.copy(), CAMERA_AXES)
            values["quat"] = tuple(quat.tolist())
        elif mount != SensorMount(link=mount.link):
            raise OptionError(f"{self.type} has no pose; remove pos, quat and euler from its mount")
        for name in _NAME_OPTIONS:
            if name in values:
                values[name] = _qualify(values[name], robot, own)
        return cls(**values)


class SensorRig(Options):
    """The sensors of a robot, in order.

    Example:
        >>> rig = sn.robots.SensorRig.load("my_rig.yaml")
        >>> robot = scene.add_robot("diffdrive", rig=rig)
        >>> robot.rig["imu"].read()
    """

    sensors: tuple[RigSensor, ...] = ()
    """The sensors."""
    provenance: dict[str, Any] = {}
    """Where the figures come from, e.g. the log and the intervals of a fit. It has no effect."""

    @field_validator("sensors")
    @classmethod
    def _names(cls, value: tuple[RigSensor, ...]) -> tuple[RigSensor, ...]:
        names = [sensor.name for sensor in value]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"two sensors are named {twice[0]!r}; rename one")
        return value

    @classmethod
    @checked
    def named(cls, name: str) -> Self:
        """Return the rig of a robot of the catalogue."""
        names = sorted(file.stem for file in RIGS.glob("*.yaml"))
        if name not in names:
            hint = did_you_mean(name, names) or f"; there are {shorten(names)}"
            raise NameNotFoundError(f"there is no rig named {name!r}{hint}; a rig file must end in .yaml")
        return cls.load(RIGS / f"{name}.yaml")

    @classmethod
    @checked
    def load(cls, file: str | os.PathLike[str]) -> Self:
        """Return the rig of a YAML file.

        Raises:
            OptionError: the file does not exist or is invalid; the message names the file and the problem.
        """
        import yaml

        from sensorium import yaml_files

        path = Path(file)
        if not os.path.isfile(path):
            raise OptionError(f"there is no rig file {os.fspath(file)!r}")
        try:
            values = yaml_files.load(path.read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise OptionError(f"{path} is not valid YAML: {error}") from error
        if not isinstance(values, dict):
            raise OptionError(f"{path}: expected a mapping with the key 'sensors', got {type(values).__name__}")
        try:
            entries = values.get("sensors")
            if isinstance(entries, list):  # one by one, so that an error is about one sensor
                values["sensors"] = [RigSensor(**each) if isinstance(each, dict) else each for each in entries]
            return cls(**{str(name): value for name, value in values.items()})
        except (OptionError, TypeError) as error:
            raise OptionError(f"{path}: {error}") from error

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the rig to a YAML file that :meth:`load` reads."""
        import yaml

        from sensorium import yaml_files

        values = self.model_dump(mode="json", exclude_unset=True)
        text = yaml.dump(values, Dumper=yaml_files.Dumper, sort_keys=False, allow_unicode=True)
        write_whole(Path(file), text.encode())


class Rig(Module):
    """The sensors of a robot in a scene, each a child under its name: ``robot.rig["imu"].read()``.

    Args:
        rig: the options of the sensors.
        scene: the scene to add them to.
        robot: name of the robot.
        base: full name of its base link.
        own: names of its links, sites and joints.
    """

    @checked
    def __init__(self, rig: SensorRig, scene: Scene, robot: str, base: str, own: Collection[str]) -> None:
        for entry in rig.sensors:
            self.add_child(entry.name, scene.add_sensor(entry.resolve(robot, base, own)))

    def __getitem__(self, name: str) -> Any:
        """Return the sensor of that name."""
        sensors = dict(self._slots())
        if name not in sensors:
            hint = did_you_mean(name, sensors) or f"; it has {shorten(sensors)}"
            raise NameNotFoundError(f"the rig has no sensor {name!r}{hint}")
        return sensors[name]

    def __contains__(self, name: object) -> bool:
        """Return whether there is a sensor of that name."""
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the sensors, in order."""
        return iter(self.names)

    @property
    def names(self) -> list[str]:
        """Names of the sensors, in order."""
        return [name for name, _ in self._slots()]


def sensor_type(name: str) -> type[SensorOptions]:
    """Return the options class of a sensor, by its name in ``sensorium`` or by ``package.module:Class``.

    Raises:
        NameNotFoundError: there is no such class, or its module is not imported.
    """
    import sensorium

    if ":" in name:
        module, _, attribute = name.partition(":")
        if module not in sys.modules:  # a file must not choose which code is imported
            raise NameNotFoundError(f"there is no sensor type {name!r}: import the module {module!r} first")
        found = getattr(sys.modules[module], attribute, None)
    else:
        found = getattr(sensorium, name) if name in sensorium.__all__ else None
        if not _is_sensor(found):  # loading all classes is slow: only for the error message
            classes = [each for each in sensorium.__all__ if each[0].isupper()]
            known = [each for each in classes if _is_sensor(getattr(sensorium, each))]
            hint = did_you_mean(name, known) or f"; there are {shorten(known, 40)}"
            raise NameNotFoundError(f"there is no sensor type {name!r}{hint}")
    if not _is_sensor(found):
        raise NameNotFoundError(f"{name!r} is not a sensor type: it must be derived from sn.sensors.SensorOptions")
    return found


def has_pose(options: type[SensorOptions]) -> bool:
    """Return whether a sensor has a mounting pose: options ``pos`` and ``quat``."""
    return "quat" in options.model_fields


def _is_sensor(value: object) -> TypeGuard[type[SensorOptions]]:
    return isinstance(value, type) and issubclass(value, SensorOptions)


def _as_plain(name: str, value: object) -> object:
    """Return ``value`` as YAML would load it; raise ValueError if it has no such form."""
    if isinstance(value, dict):
        return {str(key): _as_plain(name, each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_plain(name, each) for each in value]
    if isinstance(value, Imperfections):
        return _as_plain(name, value.model_dump(exclude_unset=True))
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"{name} must be a plain value (number, text, list or mapping), got {type(value).__name__}")


def _qualify(value: object, robot: str, own: Collection[str]) -> object:
    """Return names with the prefix of the robot if they are the robot's own."""
    if isinstance(value, str):
        return f"{robot}/{value}" if value in own else value
    return tuple(_qualify(each, robot, own) for each in value) if isinstance(value, list | tuple) else value
