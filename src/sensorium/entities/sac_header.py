"""The header of a saved ``SACMLPBrain``: ``brain.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sensorium.errors import DatasetError
from sensorium.json_files import load_json

FORMAT = "sensorium-sac"
_VERSIONS = (2, 3, 4)


def read_header(folder: Path) -> dict[str, Any]:
    """Return the contents of ``brain.json``.

    Raises:
        DatasetError: there is no such file, or this version cannot read it.
    """
    path = folder / "brain.json"
    if not path.is_file():
        raise DatasetError(f"{folder} holds no brain: brain.json is missing")
    try:
        header = load_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from None
    required = ("options", "spaces", "observed", "updates")
    known = isinstance(header, dict) and header.get("format") == FORMAT and header.get("version") in _VERSIONS
    if not known or any(name not in header for name in required):
        raise DatasetError(f"{path} is not a brain that this version can read")
    lists = [header.get("actor", []), header.get("float_images", [])]
    kinds = {"options": dict, "spaces": dict, "observed": int | float, "updates": int}
    if any(not isinstance(header[name], kind) for name, kind in kinds.items()) or not all(map(_is_names, lists)):
        raise DatasetError(f"{path} is damaged: a value has another type; restore it from a backup")
    return header


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)
