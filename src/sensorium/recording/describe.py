"""The scene of a recording: saved with its model files, and rebuilt from the folder alone."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from sensorium.errors import DatasetError, ModelError, SensoriumError
from sensorium.files import explain_errors, file_checksum, write_whole
from sensorium.links import inside
from sensorium.recording.camera_changes import CameraChanges
from sensorium.recording.rows import array_to_json, from_json_value
from sensorium.worlds import Scene
from sensorium.worlds.contents import decode, dependencies, encode


def save_scene(scene: Scene, folder: Path) -> dict[str, Any]:
    """Write ``scene.xml`` and the model files of a built scene into a folder; return the scene as JSON.

    Raises:
        ModelError: a model file is missing, or its files are in unrelated folders.
    """
    contents = scene.contents
    for number, entry in enumerate(contents):
        model = entry.get("model")
        if isinstance(model, dict) and "file" in model:
            entry["model"] = {"file": _copy_model(model["file"], folder, f"{number:03d}_{entry['name']}")}
        light = entry.get("light", {}).get("options", {})
        if light.get("texture") is not None:
            light["texture"] = _copy_image(light["texture"], folder, f"{number:03d}_light")
    environments = [
        each.model_copy(update={"file": _copy_image(each.file, folder, f"environment_{number}")})
        for number, each in enumerate(scene.options.environments)
    ]
    options = {name: encode(getattr(scene.options, name)) for name in type(scene.options).model_fields}
    write_whole(folder / "scene.xml", scene.to_xml().encode())
    return {
        "contents": contents,
        "options": {**options, "environments": encode(environments)},
        "n_envs": scene.n_envs,
        "device": scene.device.type,
        "seed": scene.seed,
        "model": model_hash(scene.model),
        "expanded": {name: array_to_json(values.numpy(force=True)) for name, values in scene.world.expanded.items()},
    }


def _copy_model(file: str, folder: Path, name: str) -> str:
    """Copy a model file and all files that it refers to; return its new path relative to the folder."""
    root, paths = dependencies(file)
    if len(root.parts) < 2:
        raise ModelError(
            f"cannot save the scene: {file} refers to files in unrelated folders "
            f"({', '.join(map(str, paths[:3]))}, ...); keep them below one folder, with relative paths"
        )
    for path in paths:
        target = folder / "assets" / name / path.relative_to(root)
        with explain_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    return (Path("assets") / name / paths[0].relative_to(root)).as_posix()


def _copy_image(file: str, folder: Path, name: str) -> str:
    """Copy an image of the surroundings or of a light; return its new path relative to the folder."""
    target = Path("assets") / name / Path(file).name
    with explain_errors(folder / target):
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, folder / target)
    return target.as_posix()


def model_hash(model: mujoco.MjModel) -> str:
    """Return the SHA-256 of all values of a compiled model, except its file paths."""
    digest = hashlib.sha256()
    for source in (model, model.opt):
        for name in sorted(name for name in dir(source) if not name.startswith("_") and "path" not in name):
            value = getattr(source, name)
            if isinstance(value, np.ndarray | int | float | bytes):
                digest.update(name.encode() + np.asarray(value).tobytes())
    return digest.hexdigest()


def _check_paths(form: dict[str, Any], folder: Path) -> None:
    """Check that the model files and images of a recorded scene are in its folder."""
    for entry in form["contents"]:
        model, light = entry.get("model"), entry.get("light", {}).get("options", {})
        for file in (model.get("file") if isinstance(model, dict) else None, light.get("texture")):
            if file is not None:
                inside(folder, file)


def _check_files(config: dict[str, Any], folder: Path) -> None:
    """Compare the files of a recorded scene with their checksums, which version 1 does not have.

    Raises:
        DatasetError: a file is missing or changed.
    """
    for name, expected in config.get("files", {}).items():
        path = inside(folder, name)
        if not path.is_file():
            raise DatasetError(f"the file {path} is missing; restore it from a backup")
        if file_checksum(path) != expected:
            raise DatasetError(f"{path} was changed or truncated; restore it from a backup")


def load_scene(config: dict[str, Any], folder: Path, expanded_later: Iterable[str] = (), **changes: Any) -> Scene:
    """Return the scene of a recording, not built.

    Args:
        config: content of ``config.json``.
        folder: folder of the recording.
        expanded_later: model fields that got values per env after recording had begun.
        **changes: further arguments of :meth:`Scene.from_contents`.

    Raises:
        DatasetError: ``config.json`` lacks a part of the scene or names a file elsewhere, or a file was changed.
    """
    try:
        _check_files(config, folder)
        form = config["scene"]
        if form.get("cameras") and "adapt" not in changes:
            changes["adapt"] = CameraChanges(**decode(form["cameras"])).apply
        _check_paths(form, folder)
        options = {name: decode(value) for name, value in form["options"].items()}
        options = {"iterations": 100, "ls_iterations": 50, **options}  # earlier versions had no others
        options["environments"] = [
            each.model_copy(update={"file": str(inside(folder, each.file))}) for each in options.get("environments", [])
        ]
        expanded: dict[str, Any] = dict.fromkeys(expanded_later)
        expanded |= {name: from_json_value(values) for name, values in form.get("expanded", {}).items()}
        return Scene.from_contents(form["contents"], options, folder, expanded=expanded, **changes)
    except SensoriumError:
        raise
    except KeyError as error:
        raise DatasetError(f"{folder / 'config.json'} has no key {error}, so the scene cannot be rebuilt") from None
    except (TypeError, AttributeError, ValueError) as error:
        raise DatasetError(f"{folder / 'config.json'} is damaged: the scene cannot be rebuilt: {error}") from error
