"""Entities as YAML files.

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
memory: 100000                    # transitions, or {capacity: 100000, clusters: 16} for a cluster buffer
```
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from sensorium.entities.brain import Brain
from sensorium.entities.cluster_options import ClusterOptions
from sensorium.entities.rig_options import default_name, options_of, rig_of, type_name
from sensorium.errors import NameNotFoundError, OptionError, SensoriumError, did_you_mean, shorten
from sensorium.robots import RigSensor
from sensorium.robots.rig import sensor_type
from sensorium.sensors.options import SensorOptions

if TYPE_CHECKING:
    import yaml

EntityT = TypeVar("EntityT")
KEYS = ("robot", "robot_options", "rate", "sensors", "privileged", "landmarks", "brain", "memory")
"""Keys of a file."""
_PASSED_ON = ("robot_options", "rate", "landmarks", "memory")
"""Keys whose values are arguments of ``TrainableEntity`` without conversion."""
BRAINS = ("SACMLPBrain",)
"""Names of the brains of ``sensorium``."""


class EntityFile:
    """A YAML text with the line numbers of its values. It is read by the safe loader, without aliases.

    Args:
        source: a path, a file name that ends in .yaml or .yml, or the YAML text itself.

    Raises:
        OptionError: the file does not exist, is not YAML, contains an alias, or has a key twice.
    """

    def __init__(self, source: str | os.PathLike[str]) -> None:
        import yaml

        from sensorium import yaml_files

        is_file = not isinstance(source, str) or ("\n" not in source and source.endswith((".yaml", ".yml")))
        self.folder = Path(source).parent if is_file else None
        self._name = os.fspath(source) if is_file else "YAML"
        if is_file and not os.path.isfile(source):
            raise OptionError(f"there is no file {self._name!r}")
        try:
            text = Path(source).read_text(encoding="utf-8") if is_file else os.fspath(source)
            aliases = [event for event in yaml.parse(text, yaml_files.Loader) if isinstance(event, yaml.AliasEvent)]
            if aliases:
                line = aliases[0].start_mark.line + 1
                raise OptionError(
                    f"{self._name}:{line}: aliases (*{aliases[0].anchor}) are not supported; write the value out"
                )
            self._root = yaml.compose(text, yaml_files.Loader)
            self.values = yaml_files.load(text)
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            if isinstance(error, OptionError):
                raise
            raise OptionError(f"{self._name}: not valid YAML: {error}") from error
        self._check_duplicates(self._root)

    def fail(self, message: str, *path: str | int) -> NoReturn:
        """Raise an OptionError that names the file and the line of the value at a path of keys and indices."""
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

    def _check_duplicates(self, node: yaml.Node | None) -> None:
        """Raise an error if a key occurs twice. The safe loader would silently use the last value."""
        if node is None or node.id == "scalar":
            return
        pairs = node.value if node.id == "mapping" else [(None, value) for value in node.value]
        names: set[str] = set()
        for key, value in pairs:
            if key is not None:
                if key.value in names:
                    raise OptionError(
                        f"{self._name}:{key.start_mark.line + 1}: {key.value!r} is given twice; remove one of them"
                    )
                names.add(key.value)
            self._check_duplicates(value)

    def make(self, cls: type[EntityT]) -> EntityT:
        """Return the entity.

        Raises:
            OptionError: a value cannot be used. The message names the file and the line.
        """
        try:
            return cls(**self.arguments())
        except OptionError as error:
            message = str(error).removeprefix(f"{cls.__name__}: ")
            first = message.split(" ")[0].rstrip(":,")
            if first in ("rate", "memory", "brain"):
                self.fail(message, first)
            raise

    # -- contents -----------------------------------------------------------------------------------------------------

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of ``TrainableEntity``.

        Raises:
            OptionError: a value cannot be used. The message names the file and the line.
        """
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
        found |= {key: self.values[key] for key in _PASSED_ON if key in self.values}
        if isinstance(self.values.get("memory"), dict):
            found["memory"] = self._cluster_options(self.values["memory"])
        return found

    def _model(self, robot: str) -> str:
        """Return the path of a model file in the folder of the YAML file, or the name of a robot."""
        path = None if self.folder is None else self.folder / robot
        return str(path) if path is not None and os.path.isfile(path) else robot

    def _sensors(self, key: str) -> list[SensorOptions]:
        entries = self.values.get(key) or []
        if not isinstance(entries, list):
            self.fail(f"{key} must be a list, for example '- IMU: {{link: torso}}'; got {entries!r}", key)
        sensors: list[SensorOptions] = []
        for number, entry in enumerate(entries):
            kind, values = self._kind_and_options("a sensor must be 'IMU' or 'IMU: {link: torso}'", key, number)
            try:
                cls = sensor_type(kind)
            except NameNotFoundError as error:
                self.fail(str(error), key, number)
            path: tuple[str | int, ...] = (key, number) if isinstance(entry, str) else (key, number, kind)
            for name in values:
                if name not in cls.option_names():
                    hint = did_you_mean(name, cls.option_names()) or f"; it has {shorten(cls.option_names(), 40)}"
                    self.fail(f"{kind} has no option {name!r}{hint}", *path, name)
            try:
                sensors.append(cls(**values))
                rig_of(sensors[-1:])
            except SensoriumError as error:
                named = [name for name in values if f"{cls.__name__}.{name}" in str(error)]
                self.fail(str(error), *path, *named[:1])
        return sensors

    def _cluster_options(self, values: dict[str, Any]) -> ClusterOptions:
        try:
            return ClusterOptions(**{str(name): value for name, value in values.items()})
        except OptionError as error:
            text = str(error)
            named = [name for name in values if f"ClusterOptions.{name}" in text or f"no option {name!r}" in text]
            self.fail(f"memory: {text}", "memory", *map(str, named[:1]))

    def _brain(self) -> tuple[Callable[..., Brain], dict[str, Any]]:
        kind, values = self._kind_and_options("brain must be 'SACMLPBrain' or 'SACMLPBrain: {seed: 1}'", "brain")
        try:
            return brain_type(kind), values
        except NameNotFoundError as error:
            self.fail(str(error), "brain")

    def _kind_and_options(self, expected: str, *path: str | int) -> tuple[str, dict[str, Any]]:
        """Return the kind and options of an entry ``Kind`` or ``Kind: {option: value}``."""
        entry = self.values
        for step in path:
            entry = entry[step]
        if isinstance(entry, str):
            return entry, {}
        if not isinstance(entry, dict) or len(entry) != 1:
            self.fail(f"{expected}; got {entry!r}", *path)
        ((kind, values),) = entry.items()
        if (
            not isinstance(kind, str)
            or not isinstance(values, dict | None)
            or not all(isinstance(name, str) for name in values or ())
        ):
            self.fail(f"{expected}; got {entry!r}", *path)
        return kind, dict(values or {})


def to_text(values: dict[str, Any], sensors: Sequence[RigSensor], privileged: Sequence[RigSensor]) -> str:
    """Return the YAML text of an entity, which :class:`EntityFile` reads.

    Args:
        values: values of the keys except sensors and privileged. None is skipped.
        sensors, privileged: sensors of the entity's rig.
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


def _dumper() -> type[yaml.SafeDumper]:
    """Return a dumper that writes lists of numbers, and the options of a sensor, on one line each."""
    from sensorium import yaml_files

    class Dumper(yaml_files.Dumper):
        def represent_sequence(self, tag: str, sequence: Sequence[object], flow_style: bool | None = None) -> yaml.Node:
            inline = all(not isinstance(each, dict | list | str) or isinstance(each, int) for each in sequence)
            return super().represent_sequence(tag, sequence, flow_style=inline)

        def represent_mapping(
            self, tag: str, mapping: Mapping[str, object], flow_style: bool | None = None
        ) -> yaml.Node:
            inline = not any(isinstance(each, dict) for each in mapping.values()) and "robot" not in mapping
            return super().represent_mapping(tag, mapping, flow_style=inline)

    return Dumper


def brain_type(name: str) -> Callable[..., Brain]:
    """Return the class of a brain: one of :data:`BRAINS`, or ``package.module:Class`` of an imported module.

    Raises:
        NameNotFoundError: there is no such class, or its module is not imported.
    """
    if ":" in name:
        module, _, attribute = name.partition(":")
        found = getattr(sys.modules.get(module), attribute, None)  # a file must not choose what code is imported
        if not isinstance(found, type):
            raise NameNotFoundError(
                f"there is no brain {name!r}: import the module {module!r}, which must have that class, first"
            )
        return found
    if name not in BRAINS:
        hint = did_you_mean(name, BRAINS) or f"; there are {shorten(BRAINS)}"
        raise NameNotFoundError(f"there is no brain {name!r}{hint}; for your own, write package.module:Class")
    import sensorium

    brain: Callable[..., Brain] = getattr(sensorium, name)
    return brain


def brain_name(brain: object) -> str:
    """Return the name of the class of a brain in files.

    Raises:
        OptionError: it is not a class at the top level of a module.
    """
    if not isinstance(brain, type) or "<" in brain.__qualname__:
        raise OptionError(f"a file cannot name the brain {brain!r}: use a class at the top level of a module")
    return type_name(brain)
