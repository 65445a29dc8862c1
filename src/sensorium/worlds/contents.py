"""What a scene is made of, as JSON: enough to make the same scene again, on another machine too.

===================== =================================================================
value                 form
===================== =================================================================
options               ``{"type": "sensorium.sensors.robot.imu:IMU", "options": {...}}``: those that were given
a part                ``{"part": "sensorium.robots.robot:Robot", "options": <its options>}``
an array              ``{"array": [...], "dtype": "float32"}``
a mapping             ``{"mapping": {...}}``
infinity, NaN         ``{"float": "inf"}``
a model               ``{"xml": text, "assets": {file: base64}}`` or ``{"file": path}``
===================== =================================================================
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
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import torch

from sensorium.errors import ModelError, OptionError
from sensorium.options import Options
from sensorium.worlds.primitives import Primitive
from sensorium.worlds.scene_module import SceneModule
from sensorium.worlds.tile_map import TileMap

if TYPE_CHECKING:
    from sensorium.worlds.scene import Scene

_PACKAGE = __name__.split(".")[0]


def encode(value: Any) -> Any:
    """A value as JSON; :func:`decode` makes it again."""
    if isinstance(value, Options):
        # what was left at its default stays unsaid: some options mean more when they are given
        given = {
            name: encode(getattr(value, name)) for name in type(value).model_fields if name in value.model_fields_set
        }
        return {"type": _path(type(value)), "options": given}
    if isinstance(value, SceneModule):
        return {"part": _path(type(value)), "options": encode(value.options)}
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
    raise OptionError(f"{value!r} has no JSON form, so a scene that it is part of cannot be saved")


def decode(value: Any) -> Any:
    """What :func:`encode` made a JSON form of."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "type" in value:
        return _class(value["type"], Options)(**{name: decode(item) for name, item in value["options"].items()})
    if "part" in value:
        return _class(value["part"], SceneModule)(decode(value["options"]))
    if "array" in value:
        return np.asarray(decode(value["array"]), dtype=value["dtype"])
    if "mapping" in value:
        return {key: decode(item) for key, item in value["mapping"].items()}
    if "float" in value:
        return float(value["float"])
    raise OptionError(f"{value!r} is no form of a value that this version of Sensorium knows")


def _path(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _class(path: str, base: type) -> Any:
    """The class that a file names: of this package, or of a module that the program has imported itself."""
    module, _, name = path.partition(":")
    if module.split(".")[0] == _PACKAGE:
        found: Any = _own_module(module, name)
        if found is None:
            raise OptionError(f"{path!r} is not part of this version of Sensorium")
    elif module in sys.modules:
        found = sys.modules[module]
    else:  # a file must not choose what code runs
        raise OptionError(f"the scene uses {name} of the module {module!r}; import that module first")
    for part in name.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise OptionError(f"{path!r} is not a kind of {base.__name__} in this version of Sensorium")
    return found


def _own_module(module: str, name: str) -> Any:
    """The module of this package, or the nearest package above it that exports ``name``: modules move between
    versions, public names stay."""
    while "." in module:
        try:
            found = importlib.import_module(module)
        except ImportError:
            found = None
        if found is not None and hasattr(found, name.split(".")[0]):
            return found
        module = module.rpartition(".")[0]
    return None


# -- models -----------------------------------------------------------------------------------------------------------


def encode_model(model: Any) -> Any:
    """What was added to a scene, as JSON: a primitive or tile map, XML text with the files that it names, or the path
    of a file."""
    if isinstance(model, Primitive | TileMap):
        return encode(model)
    if isinstance(model, mujoco.MjSpec):
        return {"xml": model.to_xml(), "assets": _assets(model)}
    if isinstance(model, str) and model.lstrip().startswith("<"):
        return {"xml": model, "assets": _assets(mujoco.MjSpec.from_string(model))}
    return {"file": os.path.abspath(model)}


def decode_model(form: dict[str, Any], folder: Path) -> Any:
    """What ``scene.add_object`` takes; relative files lie in ``folder``."""
    if "file" in form:
        return folder / form["file"]
    if "xml" not in form:
        return decode(form)
    if not form["assets"]:
        return form["xml"]
    assets = {name: base64.b64decode(text) for name, text in form["assets"].items()}
    try:
        return mujoco.MjSpec.from_string(form["xml"], assets=assets)
    except ValueError as error:
        raise ModelError(f"cannot read the model: {error}") from error


def _assets(spec: mujoco.MjSpec) -> dict[str, str]:
    """The files that a spec names, by the names under which its XML finds them again."""
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
            if not path.is_file():
                raise ModelError(f"cannot save the scene: its model names the file {str(path)!r}, which is not there")
            found[element.file] = path.read_bytes()
    return {name: base64.b64encode(data).decode("ascii") for name, data in found.items()}


def dependencies(file: str) -> tuple[Path, list[Path]]:
    """A model file's closest common folder with all files that it names, and these, itself first.

    Raises:
        ModelError: one of them is not there.
    """
    main = Path(file).resolve()
    try:
        named = mujoco.mju_getXMLDependencies(str(main))
    except ValueError as error:
        raise ModelError(f"cannot read {file}: {error}") from error
    paths = list(dict.fromkeys([main, *(Path(os.path.normpath(main.parent / name)) for name in named)]))
    for path in paths:
        if not path.is_file():
            raise ModelError(f"cannot save the scene: {main.name} names the file {str(path)!r}, which is not there")
    return Path(os.path.commonpath([path.parent for path in paths])), paths


# -- scenes -----------------------------------------------------------------------------------------------------------


def encode_call(call: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """One call that added something to a scene."""
    forms = {name: encode_model(value) if name == "model" else encode(value) for name, value in arguments.items()}
    return {"call": call, **forms}


def repeat_calls(scene: Scene, contents: list[dict[str, Any]], folder: Path) -> None:
    """Add to a scene what :attr:`Scene.contents` says."""
    for entry in contents:
        arguments = {
            name: decode_model(form, folder) if name == "model" else decode(form)
            for name, form in entry.items()
            if name != "call"
        }
        call = entry["call"]
        if call in ("add_robot", "add_object", "add_terrain"):
            getattr(scene, call)(arguments.pop("model"), **arguments)
        elif call == "add_light":
            light = arguments["light"]
            scene.add_light(**{name: getattr(light, name) for name in light.model_fields_set})
        elif call == "add_sensor":
            scene.add_sensor(arguments["options"])
        elif call in ("remove_sensor", "replace_sensor"):
            getattr(scene, call)(**arguments)
        elif call == "add_module":
            scene.add_module(arguments["name"], arguments["part"])
        else:
            raise OptionError(f"contents: there is no call {call!r} in this version of Sensorium")
