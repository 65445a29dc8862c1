"""Files of sensors and cameras that replay adds to a recording."""

from __future__ import annotations

from pathlib import Path

from sensorium._arguments import checked
from sensorium.errors import OptionError, SensoriumError
from sensorium.recording.recording import Recording
from sensorium.robots import Robot
from sensorium.robots.rig import RigSensor, sensor_type
from sensorium.sensors.options import SensorOptions


@checked
def load_sensors(path: str | Path, source: str | Path | None = None) -> list[SensorOptions]:
    """Return the sensors in a YAML or JSON file: a list, or a mapping with the list under ``sensors``.

    Each entry is a mapping of its ``type`` ("Camera", "Lidar", ..., or ``package.module:Class``) and its options::

        - {type: Camera, uuid: top, pos: [0, 0, 6], lookat: [0, 0.01, 0], resolution: [640, 480]}
        - {type: Lidar, uuid: roof, link: robot/base, pos: [0, 0, 0.5], pattern: {kind: RingPattern}}

    A rig file, as ``sensorium record --rig`` and ``generate --rig`` take it, has entries with a ``name`` and a
    ``mount``. They are mounted on the robot of ``source``::

        sensors:
          - {name: lidar, type: Lidar, mount: {pos: [0, 0, 0.3]}, options: {noise: 0.01}}

    Args:
        path: the file.
        source: folder of the recording that is replayed; needed for rig files.

    Raises:
        OptionError: the file does not exist, cannot be parsed, or an entry is invalid; or it is a rig file, and the
            recording does not have exactly one robot.
    """
    path = Path(path)
    if not path.is_file():
        raise OptionError(f"the sensor file {str(path)!r} does not exist")
    try:
        from sensorium import yaml_files  # imports PyYAML

        entries = yaml_files.read(path)
    except ValueError as error:
        raise OptionError(f"cannot read {path}: {error}") from error
    if isinstance(entries, dict):
        entries = entries.get("sensors")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise OptionError(f"{path}: expected a list of sensors, each a mapping of its type and its options")
    found = []
    rig = [entry for entry in entries if "name" in entry or "mount" in entry]
    mount = _robot_mount(path, source) if rig else None
    for number, entry in enumerate(entries):
        values = dict(entry)
        if mount is not None and entry in rig:
            try:
                found.append(RigSensor(**values).resolve(*mount))
            except (SensoriumError, TypeError) as error:
                raise OptionError(f"{path}: entry {number}: {error}") from error
            continue
        kind = values.pop("type", None)
        if not isinstance(kind, str):
            raise OptionError(f"{path}: entry {number} needs a type, such as type: Camera")
        try:
            found.append(sensor_type(kind)(**values))
        except (SensoriumError, TypeError) as error:
            raise OptionError(f"{path}: entry {number}: {error}") from error
    return found


def _robot_mount(path: Path, source: str | Path | None) -> tuple[str, str, set[str]]:
    """Return the name of the robot of a recording, the full name of its base, and the names of its own elements."""
    if source is None:
        raise OptionError(f"{path} is a rig file: pass the folder of the recording too, load_sensors(path, source)")
    modules = Recording(source).load_scene().modules
    robots = {name: module for name, module in modules.items() if isinstance(module, Robot)}
    if len(robots) != 1:
        raise OptionError(f"{path} is a rig file, for a recording with one robot; {source} has {len(robots)}")
    ((name, robot),) = robots.items()
    return name, f"{name}/{robot.options.base}", robot._own
