"""Files of sensors and cameras that replay adds to a recording."""

from __future__ import annotations

import json
from pathlib import Path

from sensorium.errors import OptionError, SensoriumError
from sensorium.robots.rig import sensor_type
from sensorium.sensors.options import SensorOptions


def load_sensors(path: str | Path) -> list[SensorOptions]:
    """Return the sensors in a YAML or JSON file: a list, or a mapping with the list under ``sensors``.

    Each entry is a mapping of its ``type`` ("Camera", "Lidar", ..., or ``package.module:Class``) and its options::

        - {type: Camera, uuid: top, pos: [0, 0, 6], lookat: [0, 0.01, 0], resolution: [640, 480]}
        - {type: Lidar, uuid: roof, link: robot/base, pos: [0, 0, 0.5], pattern: {kind: RingPattern}}

    Raises:
        OptionError: the file does not exist, cannot be parsed, or an entry is invalid.
    """
    path = Path(path)
    if not path.is_file():
        raise OptionError(f"the sensor file {str(path)!r} does not exist")
    try:
        entries = _read(path)
    except ValueError as error:
        raise OptionError(f"cannot read {path}: {error}") from error
    if isinstance(entries, dict):
        entries = entries.get("sensors")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise OptionError(f"{path}: expected a list of sensors, each a mapping of its type and its options")
    found = []
    for number, entry in enumerate(entries):
        values = dict(entry)
        kind = values.pop("type", None)
        if not isinstance(kind, str):
            raise OptionError(f"{path}: entry {number} needs a type, such as type: Camera")
        try:
            found.append(sensor_type(kind)(**values))
        except (SensoriumError, TypeError) as error:
            raise OptionError(f"{path}: entry {number}: {error}") from error
    return found


def _read(path: Path) -> object:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return json.loads(text)
    import yaml

    from sensorium import yaml_files

    try:
        return yaml_files.load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
