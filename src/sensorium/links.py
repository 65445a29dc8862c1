"""Names and symbolic links in folders that were received from others: none of them may lead out of the folder."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from sensorium.errors import DatasetError
from sensorium.files import PART


def inside(folder: Path, name: str) -> Path:
    """Return the path of a file of a folder, by the name that a file of the same folder gives.

    Args:
        folder: the folder.
        name: path relative to the folder, with slashes.

    Raises:
        DatasetError: the name, or a symbolic link on the way, leads out of the folder.
    """
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or PurePosixPath(name).is_absolute() or (os.name == "nt" and ":" in name):
        raise DatasetError(f"{folder}: the name {name!r} leads out of the folder; restore the file that names it")
    path = folder
    for part in parts:
        path = path / part
        if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
            raise DatasetError(f"{path} is a link that leads out of {folder}; replace it by a copy of what it links to")
    return path


def foreign_links(folder: Path) -> list[Path]:
    """Return the symbolic links in a folder and below it that lead out of it."""
    top, found = folder.resolve(), []
    for where, folders, files in os.walk(folder):  # it does not follow links
        for name in (*folders, *files):
            path = Path(where, name)
            if path.is_symlink() and not path.resolve().is_relative_to(top):
                found.append(path)
    return sorted(found)


def refuse_foreign_links(folder: Path) -> None:
    """Check a folder before something is written into it or removed from it.

    Raises:
        DatasetError: a symbolic link in the folder leads out of it. Links of the names of temporary files are removed
            where they are in the way, and are no error.
    """
    links = [path for path in foreign_links(folder) if not path.name.endswith(PART)]
    if links:
        raise DatasetError(f"{links[0]} is a link that leads out of {folder}; replace it by a copy of what it links to")
