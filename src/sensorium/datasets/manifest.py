"""The checksums of a dataset: ``manifest.json``, and the journal of a generation that is not finished.

The manifest lists the files of each episode. It is written when the dataset is complete. Until then the journal,
``manifest.jsonl``, has a line for each finished unit of episodes: its checksum and JSON, appended when the files exist.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from sensorium._system import BINARY
from sensorium.datasets.header import read_header
from sensorium.errors import DatasetError
from sensorium.files import PART, explain_errors, file_checksum, write_whole
from sensorium.json_files import json_with_checksum, load_json, parse_json
from sensorium.links import inside

MANIFEST = "manifest.json"
"""Sizes and checksums of the files of each episode."""
JOURNAL = "manifest.jsonl"
"""The same of the episodes that an unfinished generation has made."""
_EPISODES = "episodes"


class FileEntry(TypedDict):
    """Size and checksum of a file in the manifest."""

    bytes: int
    crc32: int


Files = dict[str, FileEntry]
"""File name -> entry."""
Manifest = dict[str, Files]
"""Name of an episode -> its files."""


def files_of(folder: Path, name: str) -> list[Path]:
    """Return the files of an episode, sorted. Episode 1000000 begins with the name of episode 100000."""
    return sorted(path for path in folder.glob(f"{name}[!0-9]*") if not path.name.endswith(PART))


def entry_of(folder: Path, name: str) -> Files:
    """Return the sizes and checksums of the files of an episode, as they are now."""
    return {
        path.name: {"bytes": path.stat().st_size, "crc32": int(file_checksum(path), 16)}
        for path in files_of(folder, name)
    }


def read_manifest(folder: Path) -> Manifest:
    """Return the content of ``manifest.json``, or an empty manifest if the file does not exist.

    Raises:
        DatasetError: the file is damaged.
    """
    path = folder / MANIFEST
    if not path.is_file():
        return {}
    try:
        content, checked = parse_json(path.read_bytes())
        if checked:
            content = content[_EPISODES]
        elif read_header(folder)["version"] > 1:
            raise ValueError("its checksum is missing")
        return _parse(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DatasetError(f"cannot read {path}: {error}; remove it and generate again to restore it") from None


def _parse(content: dict[str, Files]) -> Manifest:
    return {
        str(name): {
            str(file): {"bytes": int(entry["bytes"]), "crc32": int(entry["crc32"])} for file, entry in files.items()
        }
        for name, files in content.items()
    }


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write ``manifest.json``, unless it has this content, and remove the journal."""
    path, data = folder / MANIFEST, json_with_checksum({_EPISODES: manifest})
    if not path.is_file() or path.read_bytes() != data:
        write_whole(path, data)
    (folder / JOURNAL).unlink(missing_ok=True)


def append_journal(folder: Path, manifest: Manifest) -> None:
    """Add episodes to the journal."""
    if not manifest:
        return
    path, text = folder / JOURNAL, json.dumps(manifest).encode()
    with explain_errors(path):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | BINARY | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(path, flags, 0o666)
        try:
            line = b"%08x %s\n" % (zlib.crc32(text), text)
            while line:
                line = line[os.write(descriptor, line) :]
        finally:
            os.close(descriptor)


def read_journal(folder: Path) -> Manifest:
    """Return the content of the journal. Incomplete and damaged lines are ignored."""
    path, found = folder / JOURNAL, Manifest()
    if path.is_file():
        for line in path.read_bytes().split(b"\n"):
            checksum, _, text = line.partition(b" ")
            if checksum == b"%08x" % zlib.crc32(text):
                found |= _parse(load_json(text))
    return found


def damage(folder: Path, files: Mapping[str, FileEntry]) -> list[str]:
    """Return a problem for each listed file that is missing or does not match its checksum."""
    problems = []
    for name, entry in files.items():
        try:
            path = inside(folder, name)
        except DatasetError as error:
            problems.append(str(error))
            continue
        if not path.is_file():
            problems.append(f"{name} is missing; {MANIFEST} lists it")
        elif path.stat().st_size != entry["bytes"] or int(file_checksum(path), 16) != entry["crc32"]:
            problems.append(f"{name} was changed or damaged after it was written: its checksum differs from {MANIFEST}")
    return problems
