"""The names of files in a dataset, and its header ``dataset.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sensorium._arguments import checked
from sensorium.errors import DatasetError, OptionError
from sensorium.files import write_whole
from sensorium.json_files import json_with_checksum, parse_json
from sensorium.versions import package_versions

HEADER = "dataset.json"
"""Options and versions of the dataset."""
INDEX = "index.json"
"""The valid episodes, as the last validation found them."""
FAILED = "failed"
"""Subfolder with the failed episodes."""
FORMAT = "sensorium-dataset"
VERSION = 2
"""Version of the format. Version 1 has no checksums of ``dataset.json`` and ``manifest.json``."""


@checked
def is_dataset(folder: str | Path) -> bool:
    """Return whether a folder holds a dataset: it has a ``dataset.json``."""
    return (Path(folder) / HEADER).is_file()


_OPTIONS = {"task": str, "episodes": int}
"""Options of every dataset -> their types."""


def episode_name(number: int) -> str:
    """Return the name of the files of an episode, without suffix."""
    return f"episode_{number:06d}"


def episode_number(path: Path) -> int:
    """Return the number of an episode from the path of its HDF5 or JSON file.

    Raises:
        OptionError: the file has another name.
    """
    try:
        return int(path.stem.removeprefix("episode_"))
    except ValueError:
        raise OptionError(f"the name of the file of an episode must be episode_NUMBER, got {str(path)!r}") from None


def read_header(folder: Path) -> dict[str, Any]:
    """Return the content of ``dataset.json``.

    Raises:
        DatasetError: the folder holds no dataset, or its header is damaged or of another version.
    """
    path = folder / HEADER
    if not path.is_file():
        raise DatasetError(f"{folder} is not a dataset: it has no {HEADER}")
    try:
        header, checked = parse_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DatasetError(f"cannot read {path}: {error}; restore it from a backup of the dataset") from None
    if header.get("format") != FORMAT:
        raise DatasetError(f"{folder} is not a dataset: {path} was not written by Sensorium")
    if header.get("version") not in (1, VERSION):
        raise DatasetError(
            f"{path} has format version {header.get('version')!r}, this version of Sensorium reads up to {VERSION}"
        )
    if header["version"] > 1 and not checked:
        raise DatasetError(f"cannot read {path}: its checksum is missing; restore it from a backup of the dataset")
    options = header.get("options")
    if not isinstance(options, dict) or any(not isinstance(options.get(name), kind) for name, kind in _OPTIONS.items()):
        raise DatasetError(f"{path} is damaged: its options are wrong; restore it from a backup of the dataset")
    return header


def write_header(folder: Path, options: dict[str, Any]) -> None:
    """Write ``dataset.json``, with the options of the dataset and the versions of packages."""
    content = {"format": FORMAT, "version": VERSION, "options": options, "versions": package_versions()}
    write_whole(folder / HEADER, json_with_checksum(content))
