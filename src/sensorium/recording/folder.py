"""The folder of a recording: file names, format versions and ``config.json``.

::

    config.json            header: the recorded scene, the buffers and the package versions; written first
    scene.xml              the scene as MuJoCo compiled it, for other tools
    assets/                model files from which the scene is rebuilt
    occupancy_map/         map.yaml and map.png, if the recorder was given a map
    state/common/          00000000.h5, ...: chunks of steps, named by their first step; 00000000.jsonl, ...: the events
                           between the steps
    rgb/, depth/, ...      NAME/env0000/00000000.mp4, ...: images of a replay, named by their first frame
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sensorium.errors import DatasetError
from sensorium.files import file_checksum, write_whole, written_name
from sensorium.json_files import json_with_checksum, parse_json
from sensorium.recording.image_files import is_image_header
from sensorium.recording.rows import RowField

CONFIG = "config.json"
FORMAT = "sensorium-episode"
VERSION = 3
"""Version of the format. Version 1 has weaker checksums of steps, and none of other files. Version 2 has no checksum of
``config.json`` and of the metadata of chunks."""
STATE = Path("state") / "common"
_STARTED = frozenset({"state", "assets", "occupancy_map", "scene.xml", CONFIG})
"""Entries that a recording can have before its ``config.json`` is written."""
_REQUIRED: dict[str, Any] = {
    "dt": float,
    "fields": list,
    "others": dict,
    "extra": list,
    "metadata": dict,
    "versions": dict,
    "scene": {"contents": list, "options": dict, "n_envs": int, "seed": int, "device": str, "model": str},
}
"""Required keys of ``config.json`` and their types."""
_OPTIONAL: dict[str, Any] = {
    "n_steps": int,
    "files": dict,
    "replay": {
        "images": dict,
        "interval": int,
        "frames": int,
        "options": {"options": dict},
        "source": str,
        "source_steps": int,
    },
}
"""Keys that ``config.json`` may have, with the keys that they require, and their types."""


def check_new(path: str | Path, overwrite: bool = False) -> Path:
    """Return the folder if a recording can be written into it.

    Args:
        path: a folder that does not exist or is empty, or in which a process was killed before ``config.json``.
        overwrite: accept a folder that holds a recording.

    Raises:
        DatasetError: the path is a file, or the folder is not empty and may not be replaced.
    """
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise DatasetError(f"{folder} is a file; choose another output folder")
    if folder.exists() and any(folder.iterdir()):
        if was_begun(folder):
            return folder
        if not overwrite:
            raise DatasetError(
                f"{folder} is not empty; choose another folder, or replace the recording with overwrite=True "
                "(--overwrite)"
            )
        read_config(folder)  # replace only recordings
    return folder


def was_begun(folder: Path) -> bool:
    """Return whether a process began a recording here and ended before ``config.json``, so that no data can be lost."""
    parts = {path.name for path in folder.iterdir() if written_name(path.name) is not None}
    names = {written_name(path.name) or path.name for path in folder.iterdir()}
    if CONFIG in {path.name for path in folder.iterdir()}:
        return False
    if (names == {CONFIG} and parts) or (names == {"state"} and not any((folder / "state").glob("*"))):
        return True
    if not (folder / STATE).is_dir() or any(path.is_file() for path in (folder / "state").rglob("*")):
        return False
    return names <= _STARTED


def write_config(folder: Path, config: dict[str, Any]) -> None:
    """Write ``config.json``, with checksums of the files that are already in the folder."""
    checksums = {
        path.relative_to(folder).as_posix(): file_checksum(path) for path in sorted(folder.rglob("*")) if path.is_file()
    }
    content = {"format": FORMAT, "version": VERSION, **config, "files": checksums}
    write_whole(folder / CONFIG, json_with_checksum(content))


def complete_config(folder: Path, n_steps: int) -> None:
    """Write the number of steps into ``config.json``, which marks the recording as finished."""
    config = read_config(folder)
    write_whole(folder / CONFIG, json_with_checksum({**config, "n_steps": n_steps}))


def missing_in(config: dict[str, Any]) -> list[str]:
    """Return the dotted names of keys that ``config.json`` lacks, or whose values cannot be used."""

    def find(form: dict[str, Any], required: dict[str, Any], above: str) -> Iterator[str]:
        for name, kind in required.items():
            value = form.get(name)
            if isinstance(kind, dict) and isinstance(value, dict):
                yield from find(value, kind, f"{above}{name}.")
            elif isinstance(kind, dict) or not isinstance(value, int | float if kind is float else kind):
                yield f"{above}{name}"

    given = {name: kind for name, kind in _OPTIONAL.items() if name in config}
    return list(find(config, _REQUIRED | given, "")) or list(_unusable(config))


def _unusable(config: dict[str, Any]) -> Iterator[str]:
    """Yield the dotted names of values of the right types that cannot be used."""
    try:
        fields = {field.name: field for field in map(RowField.from_json, config["fields"])}
    except DatasetError:
        yield "fields"
        return
    n_envs = config["scene"]["n_envs"]
    if n_envs < 1 or ("physics" in fields and fields["physics"].shape[:1] != (n_envs,)):
        yield "scene.n_envs"
    if not all(isinstance(tags, list) for tags in config["others"].values()):
        yield "others"
    replay = config.get("replay", {"interval": 1, "images": {}})
    if replay["interval"] < 1:
        yield "replay.interval"
    for name, header in replay["images"].items():
        if not is_image_header(header):
            yield f"replay.images.{name}"


def read_config(folder: Path) -> dict[str, Any]:
    """Return the content of ``config.json``.

    Raises:
        DatasetError: the folder does not exist or holds no recording, or ``config.json`` is damaged or too new.
    """
    if not folder.is_dir():
        raise DatasetError(f"the folder {str(folder)!r} does not exist")
    path = folder / CONFIG
    if not path.is_file():
        if was_begun(folder):
            raise DatasetError(
                f"{folder} is a recording without steps: its process ended before it wrote {CONFIG}; remove the "
                "folder, or write another recording there"
            )
        raise DatasetError(f"{folder} is not a recording: it has no {CONFIG}")
    try:
        config, checked = parse_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DatasetError(f"cannot read {path}: {error}; restore it from a backup of the recording") from None
    if config.get("format") != FORMAT:
        raise DatasetError(f"{folder} is not a recording: {path} was not written by Sensorium")
    version = config.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise DatasetError(
            f"{path} has format version {version}, this version of Sensorium reads up to {VERSION}; "
            "install a newer version"
        )
    if version > 2 and not checked:
        raise DatasetError(f"cannot read {path}: its checksum is missing; restore it from a backup of the recording")
    return config
