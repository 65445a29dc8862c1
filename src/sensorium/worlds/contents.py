"""The contents of a scene as JSON: enough to create the same scene again, also on another machine.

===================== ================================================================================================
value                 form
===================== ================================================================================================
options               ``{"type": "sensorium.sensors.robot.imu:IMU", "options": {...}}``: those that were set explicitly
a scene module        ``{"module": "sensorium.robots.robot:Robot", "options": <its options>}``
an array              ``{"array": [...], "dtype": "float32"}``
a mapping             ``{"mapping": {...}}``
infinity, NaN         ``{"float": "inf"}``
a model               ``{"xml": text, "assets": {file: base64}}`` or ``{"file": path}``
===================== ================================================================================================

Earlier versions wrote "part" instead of "module"; both are read.
"""

from __future__ import annotations

import base64
import importlib
import math
import os
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import mujoco
import numpy as np
import torch

from sensorium.errors import ModelError, OptionError, SensoriumError
from sensorium.options import Options
from sensorium.worlds.compose import Model
from sensorium.worlds.primitives import Primitive
from sensorium.worlds.scene_module import SceneModule
from sensorium.worlds.tile_map import TileMap

if TYPE_CHECKING:
    from types import ModuleType

    from sensorium.worlds.scene import Scene

Json: TypeAlias = Any
"""A value that ``json.dumps`` accepts."""
_T = TypeVar("_T")
_PACKAGE = __name__.split(".")[0]


def encode(value: object) -> Json:
    """Return the JSON form of a value; :func:`decode` is the inverse.

    Raises:
        OptionError: the value has no JSON form.
    """
    if isinstance(value, Options):
        # defaults are omitted: for some options, being set makes a difference
        given = {
            name: encode(getattr(value, name)) for name in type(value).model_fields if name in value.model_fields_set
        }
        return {"type": _path(type(value)), "options": given}
    if isinstance(value, SceneModule):
        return {"module": _path(type(value)), "options": encode(value.options)}
    if isinstance(value, Enum):
        return encode(value.value)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, torch.Tensor):
        value = value.numpy(force=True)
    if isinstance(value, np.ndarray):
        return {"array": encode(value.tolist()), "dtype": str(value.dtype)}
    if isinstance(value, Mapping):
        return {"mapping": {str(key): encode(item) for key, item in value.items()}}
    if isinstance(value, set | frozenset):
        return [encode(item) for item in sorted(value)]
    if isinstance(value, list | tuple | range):
        return [encode(item) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise OptionError(f"{value!r} has no JSON form, so the scene that contains it cannot be saved")


def decode(value: Json) -> Any:
    """Return the value of a JSON form; the inverse of :func:`encode`.

    Raises:
        OptionError: the form is unknown, or names a class that does not exist.
    """
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "type" in value:
        return _class(value["type"], Options)(**{name: decode(item) for name, item in value["options"].items()})
    if "module" in value or "part" in value:
        return _class(value.get("module") or value["part"], SceneModule)(decode(value["options"]))
    if "array" in value:
        return np.asarray(decode(value["array"]), dtype=value["dtype"])
    if "mapping" in value:
        return {key: decode(item) for key, item in value["mapping"].items()}
    if "float" in value:
        return float(value["float"])
    raise OptionError(f"this version of Sensorium knows no value of the form {value!r}")


def _path(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _class(path: str, base: type[_T]) -> type[_T]:
    """Return the class that a file names: of this package, or of a module that the program has imported."""
    module, _, name = path.partition(":")
    if module.split(".")[0] == _PACKAGE:
        found: object = _own_module(module, name)
        if found is None:
            raise OptionError(f"{path!r} is not part of this version of Sensorium")
    elif module in sys.modules:
        found = sys.modules[module]
    else:  # a file must not choose which code is imported
        raise OptionError(f"the scene uses {name} of the module {module!r}; import that module first")
    for attribute in name.split("."):
        found = getattr(found, attribute, None)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise OptionError(f"{path!r} is not a subclass of {base.__name__} in this version of Sensorium")
    return found


def _own_module(module: str, name: str) -> ModuleType | None:
    """Return the module of this package, or the nearest package above it that exports ``name``.

    Modules move between versions; public names stay.
    """
    while module:
        try:
            found = importlib.import_module(module)
        except ImportError:
            found = None
        if found is not None and hasattr(found, name.split(".")[0]):
            return found
        module = module.rpartition(".")[0]
    return None


# -- models -----------------------------------------------------------------------------------------------------------


def encode_model(model: Model) -> Json:
    """Return the JSON form of a model: a primitive or tile map, XML text with the files it names, or a file path.

    Raises:
        ModelError: a file that the model names does not exist.
    """
    if isinstance(model, Primitive | TileMap):
        return encode(model)
    if isinstance(model, mujoco.MjSpec):
        return {"xml": model.to_xml(), "assets": _assets(model)}
    if isinstance(model, str) and model.lstrip().startswith("<"):
        return {"xml": model, "assets": _assets(mujoco.MjSpec.from_string(model))}
    return {"file": os.path.abspath(model)}


def decode_model(form: dict[str, Json], folder: Path) -> Model:
    """Return the model of a JSON form; relative files lie in ``folder``."""
    if "file" in form:
        return folder / form["file"]
    if "xml" not in form:
        made: Model = decode(form)
        return made
    if not form["assets"]:
        return str(form["xml"])
    assets = {name: base64.b64decode(text) for name, text in form["assets"].items()}
    try:
        return mujoco.MjSpec.from_string(form["xml"], assets=assets)
    except ValueError as error:
        raise ModelError(f"cannot read the model: {error}") from error


def _assets(spec: mujoco.MjSpec) -> dict[str, str]:
    """Return the files that a spec names: name in its XML -> content in base64."""
    found = {name: bytes(data) for name, data in (spec.assets or {}).items()}
    for elements, folder in (
        (spec.meshes, spec.compiler.meshdir),
        (spec.textures, spec.compiler.texturedir),
        (spec.hfields, spec.compiler.meshdir),
        (spec.skins, spec.compiler.meshdir),
    ):
        for element in elements:
            if not element.file or element.file in found:
                continue
            path = Path(spec.modelfiledir or ".") / (folder or "") / element.file
            if not os.path.isfile(path):
                raise ModelError(f"cannot save the scene: its model names the file {str(path)!r}, which does not exist")
            found[element.file] = path.read_bytes()
    return {name: base64.b64encode(data).decode("ascii") for name, data in found.items()}


def dependencies(file: str) -> tuple[Path, list[Path]]:
    """Return the files that a model file needs.

    Returns:
        The closest common folder, and the files, the model file first.

    Raises:
        ModelError: one of them does not exist.
    """
    main = Path(file).resolve()
    try:
        named = mujoco.mju_getXMLDependencies(str(main))
    except ValueError as error:
        raise ModelError(f"cannot read {file}: {error}") from error
    paths = list(dict.fromkeys([main, *(Path(os.path.normpath(main.parent / name)) for name in named)]))
    for path in paths:
        if not os.path.isfile(path):
            raise ModelError(f"cannot save the scene: {main.name} names the file {str(path)!r}, which does not exist")
    return Path(os.path.commonpath([path.parent for path in paths])), paths


# -- scenes -----------------------------------------------------------------------------------------------------------


def encode_call(call: str, arguments: Mapping[str, Any]) -> dict[str, Json]:
    """Return the JSON form of one call that added something to a scene."""
    forms = {name: encode_model(value) if name == "model" else encode(value) for name, value in arguments.items()}
    return {"call": call, **forms}


def repeat_calls(scene: Scene, contents: list[dict[str, Json]], folder: Path) -> None:
    """Repeat the calls of :attr:`Scene.contents` on another scene.

    Args:
        scene: a scene that is not built.
        contents: the calls.
        folder: where relative model files are.

    Raises:
        OptionError: an entry is malformed.
    """
    if not isinstance(contents, list) or not all(isinstance(entry, dict) for entry in contents):
        raise OptionError(f"contents must be a list of mappings, as Scene.contents returns it, got {contents!r:.80}")
    for number, entry in enumerate(contents):
        try:
            _repeat_call(scene, entry, folder)
        except SensoriumError:
            raise
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise OptionError(
                f"contents[{number}] is malformed: {type(error).__name__}: {error}; take it from Scene.contents, got "
                f"{entry!r:.200}"
            ) from error


def _repeat_call(scene: Scene, entry: dict[str, Json], folder: Path) -> None:
    """Repeat one call. A malformed entry raises any of Python's errors for wrong types and missing keys."""
    arguments: dict[str, Any] = {
        name: decode_model(form, folder) if name == "model" else decode(form)
        for name, form in entry.items()
        if name != "call"
    }
    call = entry["call"]
    if call in ("add_robot", "add_object", "add_terrain"):
        model = arguments.pop("model")
        if call == "add_robot" and isinstance(model, Primitive | TileMap):
            scene.add_entity("robot", model, **arguments)  # earlier versions allowed that
        else:
            getattr(scene, call)(model, **arguments)
    elif call == "add_light":
        values = _given(arguments["light"])
        if values.get("texture") is not None:
            values["texture"] = str(folder / values["texture"])
        scene.add_light(**values)
    elif call == "add_contact_pair":
        scene.add_contact_pair(**_given(arguments["pair"]))
    elif call == "add_sensor":
        scene.add_sensor(arguments["options"])
    elif call in ("remove_sensor", "replace_sensor", "exclude_contacts"):
        getattr(scene, call)(**arguments)
    elif call == "add_module":
        scene.add_module(arguments["name"], arguments.get("module") or arguments["part"])
    else:
        raise OptionError(f"contents: this version of Sensorium has no call {call!r}")


def _given(options: Options) -> dict[str, Any]:
    """Return the options that were set, by name."""
    return {name: getattr(options, name) for name in options.model_fields_set}
