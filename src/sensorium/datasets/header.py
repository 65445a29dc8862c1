"""The files beside the episodes of a dataset: ``dataset.json``, ``manifest.json`` and ``index.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypedDict

from sensorium.errors import DatasetError

HEADER = "dataset.json"
"""Options and versions of the dataset."""
MANIFEST = "manifest.json"
"""Sizes and checksums of the files of each episode."""
INDEX = "index.json"
"""The valid episodes, as the last validation found them."""
FAILED = "failed"
"""Subfolder with the failed episodes."""
FORMAT = "sensorium-dataset"
VERSION = 1
"""Version of the format."""


class FileEntry(TypedDict):
    """Size and checksum of a file in the manifest."""

    bytes: int
    crc32: int


Manifest = dict[str, dict[str, FileEntry]]
"""Name of an episode -> file name -> entry."""


def is_dataset(folder: str | Path) -> bool:
    """Return whether a folder holds a dataset: it has a ``dataset.json``."""
    return (Path(folder) / HEADER).is_file()


def episode_name(number: int) -> str:
    """Return the name of the files of an episode, without suffix."""
    return f"episode_{number:06d}"


def episode_number(path: Path) -> int:
    """Return the number of an episode from the path of its HDF5 or JSON file."""
    return int(path.stem.removeprefix("episode_"))


def read_header(folder: Path) -> dict[str, Any]:
    """Return the content of ``dataset.json``.

    Raises:
        DatasetError: the folder holds no dataset, or its header is damaged or of another version.
    """
    path = folder / HEADER
    if not path.is_file():
        raise DatasetError(f"{folder} is not a dataset: it has no {HEADER}")
    try:
        header = json.loads(path.read_bytes())
    except ValueError as error:
        raise DatasetError(f"cannot read {path}: {error}") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise DatasetError(f"{folder} is not a dataset: {path} was not written by Sensorium")
    if header.get("version") != VERSION:
        raise DatasetError(
            f"{path} has format version {header.get('version')!r}, this version of Sensorium reads version {VERSION}"
        )
    return header


def read_manifest(folder: Path) -> Manifest:
    """Return the content of ``manifest.json``, or an empty manifest if the file does not exist.

    Raises:
        DatasetError: the file is damaged.
    """
    path = folder / MANIFEST
    if not path.is_file():
        return {}
    try:
        manifest: Manifest = json.loads(path.read_bytes())
        for files in manifest.values():
            for entry in files.values():
                int(entry["bytes"]), int(entry["crc32"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DatasetError(f"cannot read {path}: {error}; remove it and generate again to restore it") from None
    return manifest
