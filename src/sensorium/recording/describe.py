"""What a recording says of its scene: enough to make it again from the folder alone."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from sensorium.errors import DatasetError, ModelError
from sensorium.files import named, write_whole
from sensorium.recording.camera_changes import CameraChanges
from sensorium.recording.rows import array_form, value_of
from sensorium.worlds import Scene
from sensorium.worlds.contents import decode, dependencies, encode


def save_scene(scene: Scene, folder: Path) -> dict[str, Any]:
    """Write the files of a scene's models and ``scene.xml`` into a folder; the scene as JSON."""
    contents = scene.contents
    for number, entry in enumerate(contents):
        model = entry.get("model")
        if isinstance(model, dict) and "file" in model:
            entry["model"] = {"file": _copy_model(model["file"], folder, f"{number:03d}_{entry['name']}")}
    write_whole(folder / "scene.xml", scene.to_xml().encode())
    return {
        "contents": contents,
        "options": {name: encode(getattr(scene.options, name)) for name in type(scene.options).model_fields},
        "n_envs": scene.n_envs,
        "device": scene.device.type,
        "seed": scene.seed,
        "model": model_hash(scene.model),
        "expanded": {name: array_form(values.numpy(force=True)) for name, values in scene.world.expanded.items()},
    }


def _copy_model(file: str, folder: Path, name: str) -> str:
    """Copy a model file with all files that it names; where it is now, relative to the folder."""
    root, paths = dependencies(file)
    if len(root.parts) < 2:
        raise ModelError(
            f"cannot save the scene: {file} names files in unrelated folders ({', '.join(map(str, paths[:3]))}, ...); "
            "keep them below one folder, with relative names"
        )
    for path in paths:
        target = folder / "assets" / name / path.relative_to(root)
        with named(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    return (Path("assets") / name / paths[0].relative_to(root)).as_posix()


def model_hash(model: mujoco.MjModel) -> str:
    """Of a compiled model, bit by bit; where its files were is no part of it."""
    digest = hashlib.sha256()
    for source in (model, model.opt):
        for name in sorted(name for name in dir(source) if not name.startswith("_") and "path" not in name):
            value = getattr(source, name)
            if isinstance(value, np.ndarray | int | float | bytes):
                digest.update(name.encode() + np.asarray(value).tobytes())
    return digest.hexdigest()


def load_scene(config: dict[str, Any], folder: Path, late: Iterable[str] = (), **changes: Any) -> Scene:
    """The scene of a recording, not built.

    Args:
        config: what ``config.json`` says.
        folder: of the recording.
        late: fields of the model that differ per env, but not from the start.
        **changes: see :meth:`Scene.from_contents`.
    """
    form = config["scene"]
    if form.get("cameras") and "adapt" not in changes:
        changes["adapt"] = CameraChanges(**decode(form["cameras"])).apply
    try:
        options = {name: decode(value) for name, value in form["options"].items()}
        expanded: dict[str, Any] = dict.fromkeys(late)
        expanded |= {name: value_of(values) for name, values in form.get("expanded", {}).items()}
        return Scene.from_contents(form["contents"], options, folder, expanded=expanded, **changes)
    except KeyError as error:
        raise DatasetError(f"{folder / 'config.json'} does not say {error}; it cannot be replayed") from None
