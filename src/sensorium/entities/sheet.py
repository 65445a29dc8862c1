"""An entity as a YAML file that reads like a data sheet.

```yaml
robot: balancer
rate: 50                          # decisions per second
sensors:
  - IMU: {link: torso, rate: 200, acc_noise: 0.05}
  - JointEncoder: {joints: [0, 1], noise: 0.002}
privileged:                       # ground truth, for critics and teachers
  - FramePose: {link: torso}
brain:
  SACMLPBrain: {hidden: [64, 64]}
memory: 100000                    # transitions
```
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from sensorium.entities.senses import default_name, options_of, rig_of, type_name
from sensorium.errors import NameNotFoundError, OptionError, SensoriumError, did_you_mean, shorten
from sensorium.robots import RigSensor
from sensorium.robots.rig import sensor_type
from sensorium.sensors.options import SensorOptions

KEYS = ("robot", "robot_options", "rate", "sensors", "privileged", "landmarks", "brain", "memory")
"""What a sheet may say."""
_AS_THEY_ARE = ("robot_options", "rate", "landmarks", "memory")
BRAINS = ("SACMLPBrain",)
"""Brains of ours, by name."""


class Sheet:
    """A YAML text with the lines on which its values stand; read by the safe loader, without aliases.

    Args:
        source: a file (a path, or text that ends in .yaml or .yml), or the YAML text itself.
    """

    def __init__(self, source: str | os.PathLike[str]) -> None:
        import yaml

        from sensorium import yaml_files

        is_file = not isinstance(source, str) or ("\n" not in source and source.endswith((".yaml", ".yml")))
        self.folder = Path(source).parent if is_file else None
        self._name = os.fspath(source) if is_file else "YAML"
        if is_file and not Path(source).is_file():
            raise OptionError(f"there is no file {self._name!r}")
        try:
            text = Path(source).read_text(encoding="utf-8") if is_file else os.fspath(source)
            aliases = [event for event in yaml.parse(text, yaml_files.Loader) if isinstance(event, yaml.AliasEvent)]
            if aliases:
                line = aliases[0].start_mark.line + 1
                raise OptionError(f"{self._name}:{line}: aliases (*{aliases[0].anchor}) are not read; write it out")
            self._root = yaml.compose(text, yaml_files.Loader)
            self.values = yaml_files.load(text)
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            if isinstance(error, OptionError):
                raise
            raise OptionError(f"{self._name}: this is no YAML: {error}") from error
        self._check_twice(self._root)

    def fail(self, message: str, *path: str | int) -> NoReturn:
        """Raise an OptionError that names the file and the line of what lies at a path."""
        raise OptionError(f"{self._name}:{self._line(path)}: {message}")

    def _line(self, path: Sequence[str | int]) -> int:
        node, line = self._root, 1
        for step in path:
            found = None
            if isinstance(step, int):
                found = at = node.value[step]
            else:
                for key, value in node.value:
                    if key.value == step:
                        found, at = value, key
            if found is None:
                break
            node, line = found, at.start_mark.line + 1
        return line

    def _check_twice(self, node: Any) -> None:
        """The safe loader takes the last of two values of one key, and says nothing."""
        if node is None or node.id == "scalar":
            return
        pairs = node.value if node.id == "mapping" else [(None, value) for value in node.value]
        names: set[str] = set()
        for key, value in pairs:
            if key is not None:
                if key.value in names:
                    raise OptionError(f"{self._name}:{key.start_mark.line + 1}: {key.value!r} is given twice")
                names.add(key.value)
            self._check_twice(value)

    # -- what it says -------------------------------------------------------------------------------------------------

    def arguments(self) -> dict[str, Any]:
        """Arguments of ``TrainableEntity``."""
        if not isinstance(self.values, dict):
            self.fail(f"expected a mapping with the key 'robot', got {type(self.values).__name__}")
        for key in self.values:
            if key not in KEYS:
                hint = did_you_mean(str(key), KEYS) or f"; it has {shorten(KEYS)}"
                self.fail(f"an entity has no {key!r}{hint}", str(key))
        if not isinstance(self.values.get("robot"), str):
            self.fail(f"robot must be the name of a robot or a model file, got {self.values.get('robot')!r}", "robot")
        found: dict[str, Any] = {"robot": self._model(self.values["robot"])}
        for key in ("sensors", "privileged"):
            found[key] = self._sensors(key)
        if self.values.get("brain") is not None:
            found["brain"], found["brain_options"] = self._brain()
        for key, kind in (("robot_options", dict), ("landmarks", list)):
            if not isinstance(self.values.get(key, kind()), kind):
                self.fail(f"{key} must be a {'mapping' if kind is dict else 'list'}, got {self.values[key]!r}", key)
        return found | {key: self.values[key] for key in _AS_THEY_ARE if key in self.values}

    def _model(self, robot: str) -> str:
        """A model file is looked for beside the sheet."""
        beside = None if self.folder is None else self.folder / robot
        return str(beside) if beside is not None and beside.is_file() else robot

    def _sensors(self, key: str) -> list[SensorOptions]:
        entries = self.values.get(key) or []
        if not isinstance(entries, list):
            self.fail(f"{key} must be a list, as '- IMU: {{link: torso}}', got {entries!r}", key)
        sensors: list[SensorOptions] = []
        for number, entry in enumerate(entries):
            kind, values = self._one("a sensor is its kind with options, as 'IMU: {link: torso}'", key, number)
            try:
                cls = sensor_type(kind)
            except NameNotFoundError as error:
                self.fail(str(error), key, number)
            path: tuple[str | int, ...] = (key, number) if isinstance(entry, str) else (key, number, kind)
            for name in values:
                if name not in cls.model_fields:
                    hint = did_you_mean(name, cls.model_fields) or f"; it has {shorten(cls.model_fields, 40)}"
                    self.fail(f"{kind} has no option {name!r}{hint}", *path, name)
            try:
                sensors.append(cls(**values))
                rig_of(sensors[-1:])
            except SensoriumError as error:
                named = [name for name in values if f"{cls.__name__}.{name}" in str(error)]
                self.fail(str(error), *path, *named[:1])
        return sensors

    def _brain(self) -> tuple[Any, dict[str, Any]]:
        kind, values = self._one("brain is its class with options, as 'SACMLPBrain: {seed: 1}'", "brain")
        try:
            return brain_type(kind), values
        except NameNotFoundError as error:
            self.fail(str(error), "brain")

    def _one(self, form: str, *path: str | int) -> tuple[str, dict[str, Any]]:
        """``Kind``, or ``Kind: {option: value}``."""
        entry: Any = self.values
        for step in path:
            entry = entry[step]
        if isinstance(entry, str):
            return entry, {}
        if not isinstance(entry, dict) or len(entry) != 1:
            self.fail(f"{form}; got {entry!r}", *path)
        ((kind, values),) = entry.items()
        if (
            not isinstance(kind, str)
            or not isinstance(values, dict | None)
            or not all(isinstance(name, str) for name in values or ())
        ):
            self.fail(f"{form}; got {entry!r}", *path)
        return kind, dict(values or {})


def write(values: dict[str, Any], sensors: Sequence[RigSensor], privileged: Sequence[RigSensor]) -> str:
    """A sheet as text: what :class:`Sheet` reads.

    Args:
        values: of the keys besides the sensors; what is None is left out.
        sensors, privileged: of the entity's rig.
    """
    import yaml

    lists: dict[str, list[Any]] = {"sensors": [], "privileged": []}
    used: list[str] = []
    for key, entries in (("sensors", sensors), ("privileged", privileged)):
        for entry in entries:
            options = options_of(entry)
            if entry.name == default_name(sensor_type(entry.type), used):
                del options["uuid"]
            used.append(entry.name)
            lists[key].append({entry.type: options} if options else entry.type)
    found = {key: lists.get(key, values.get(key)) for key in KEYS}
    kept = {key: value for key, value in found.items() if value not in (None, [], {})}
    return yaml.dump(kept, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=110)


def _dumper() -> Any:
    """Lists of numbers, and the options of a sensor, on one line each."""
    from sensorium import yaml_files

    class Dumper(yaml_files.Dumper):  # type: ignore[misc]
        def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> Any:
            inline = all(not isinstance(each, dict | list | str) or isinstance(each, int) for each in sequence)
            return super().represent_sequence(tag, sequence, flow_style=inline)

        def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> Any:
            inline = not any(isinstance(each, dict) for each in mapping.values()) and "robot" not in mapping
            return super().represent_mapping(tag, mapping, flow_style=inline)

    return Dumper


def brain_type(name: str) -> Any:
    """The class of a brain: one of :data:`BRAINS`, or ``package.module:Class`` of a module that was imported."""
    if ":" in name:
        module, _, attribute = name.partition(":")
        found = getattr(sys.modules.get(module), attribute, None)  # a file must not choose what code runs
        if not isinstance(found, type):
            raise NameNotFoundError(f"there is no brain {name!r}: import the module {module!r} with such a class first")
        return found
    if name not in BRAINS:
        hint = did_you_mean(name, BRAINS) or f"; there are {shorten(BRAINS)}"
        raise NameNotFoundError(f"there is no brain {name!r}{hint}; or write package.module:Class of your own")
    import sensorium

    return getattr(sensorium, name)


def brain_name(brain: Any) -> str:
    """How a file names the class of a brain."""
    if not isinstance(brain, type) or "<" in brain.__qualname__:
        raise OptionError(f"a file cannot name the brain {brain!r}: give a class of a module")
    return type_name(brain)
