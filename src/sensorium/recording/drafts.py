"""Draft files of encoded frames: records that were added survive when the process is killed."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

from sensorium._system import writev
from sensorium.files import create_descriptor, explain_errors

_HEAD = struct.Struct("<II")
"""Header of each record: its size in bytes and its CRC-32."""


class Draft:
    """An append-only file of records. An incomplete last record is ignored when the file is read.

    Args:
        path: the file. An existing one is replaced.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with explain_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = create_descriptor(path, append=True)

    def add(self, data: bytes) -> None:
        """Append a record."""
        head = _HEAD.pack(len(data), zlib.crc32(data))
        with explain_errors(self.path):
            done = writev(self._file, [head, data])
            rest = memoryview(head + data)[done:] if done < len(head) + len(data) else b""
            while len(rest):  # a short write means the disk is (almost) full: the next call raises
                rest = rest[os.write(self._file, rest) :]

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def records(path: Path) -> list[tuple[int, int]]:
    """Return (offset, size) in bytes of each complete record of a draft, up to the first incomplete one."""
    if not path.is_file():
        return []
    found, offset = [], 0
    with open(path, "rb") as file:
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            size, check = _HEAD.unpack(head)
            offset += _HEAD.size
            data = file.read(size)
            if len(data) < size or zlib.crc32(data) != check:
                break
            found.append((offset, size))
            offset += size
    return found
