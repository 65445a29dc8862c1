"""How a recording lies on disk: names, versions, and writing so that a file under its final name is whole.

::

    config.json            what was recorded, of which scene, with which versions; written first
    scene.xml              the scene as MuJoCo compiled it, for other tools
    assets/                files of the models, which the scene is rebuilt from
    occupancy_map/         map.yaml and map.png, where the recorder was given a map
    state/common/          00000000.h5, ...: one file per run of steps, named by its first; and 00000000.jsonl, ...:
                           what happened between them
    rgb/, depth/, ...      NAME/env0000/00000000.mp4, ...: images, after a replay; named by their first frame
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sensorium.errors import DatasetError
from sensorium.files import PART, file_checksum, write_whole

FORMAT = "sensorium-episode"
VERSION = 2
"""Of the format. Recordings of version 1 have weaker check sums, and none of files beside the steps."""
STATE = Path("state") / "common"
_REPLACED = ".replaced"
"""Ending of a recording that makes way for another, until that has a step."""
_BEGUN = frozenset({"state", "assets", "occupancy_map", "scene.xml", f"scene.xml{PART}", f"config.json{PART}"})
"""What may be in a recording before it has a ``config.json``."""
_NEEDED: dict[str, Any] = {
    "dt": float,
    "fields": list,
    "others": dict,
    "extra": list,
    "metadata": dict,
    "versions": dict,
    "scene": {"contents": list, "options": dict, "n_envs": int, "seed": int, "device": str, "model": str},
}
"""What ``config.json`` must say."""


def check_new(path: str | Path, overwrite: bool = False) -> Path:
    """A folder that a recording may be written into: it does not exist, is empty, or is one that may be replaced."""
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise DatasetError(f"{folder} is a file; give another folder to write into")
    if folder.exists() and any(folder.iterdir()):
        if not overwrite:
            raise DatasetError(f"{folder} is not empty; give another folder, or replace what is there with overwrite")
        if not was_begun(folder):
            read_config(folder)  # replace nothing but recordings
    return folder


def was_begun(folder: Path) -> bool:
    """Whether a process began a recording here and ended before ``config.json``: then there is nothing to lose."""
    if not (folder / STATE).is_dir() or any(path.is_file() for path in (folder / "state").rglob("*")):
        return False
    return all(path.name in _BEGUN for path in folder.iterdir())


def write_config(folder: Path, config: dict[str, Any]) -> None:
    """Write ``config.json``, with check sums of the files that are there already."""
    sums = {
        path.relative_to(folder).as_posix(): file_checksum(path) for path in sorted(folder.rglob("*")) if path.is_file()
    }
    text = json.dumps({"format": FORMAT, "version": VERSION, **config, "files": sums}, indent=1, allow_nan=False)
    write_whole(folder / "config.json", text.encode())


def complete_config(folder: Path, n_steps: int) -> None:
    """Note in ``config.json`` that a recording ended as it should, and after how many steps."""
    config = read_config(folder)
    text = json.dumps({**config, "n_steps": n_steps}, indent=1, allow_nan=False)
    write_whole(folder / "config.json", text.encode())


def missing_in(config: dict[str, Any]) -> list[str]:
    """What ``config.json`` should say and does not."""

    def look(form: Any, needed: dict[str, Any], above: str) -> Iterator[str]:
        for name, kind in needed.items():
            value = form.get(name)
            if isinstance(kind, dict) and isinstance(value, dict):
                yield from look(value, kind, f"{above}{name}.")
            elif isinstance(kind, dict) or not isinstance(value, int | float if kind is float else kind):
                yield f"{above}{name}"

    return list(look(config, _NEEDED, ""))


def read_config(folder: Path) -> dict[str, Any]:
    """``config.json`` of a recording; an error says what is wrong with the folder."""
    if not folder.is_dir():
        raise DatasetError(f"there is no folder {str(folder)!r}")
    path = folder / "config.json"
    if not path.is_file():
        if was_begun(folder):
            raise DatasetError(
                f"{folder} is a recording that was begun and has no step: its process ended before it wrote "
                "config.json; remove it, or write another one in its place with --overwrite"
            )
        raise DatasetError(f"{folder} is no recording: it has no config.json")
    try:
        config = json.loads(path.read_bytes())
    except (ValueError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path} cannot be read: {error}. Restore it from a copy of the recording") from None
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise DatasetError(f"{path} was not written by Sensorium; {folder} is no recording")
    version = config.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise DatasetError(
            f"{path} has version {version} of the format, and this version of Sensorium reads up to {VERSION}; "
            "install a newer one"
        )
    return config
