"""Files of frames that are under way: what was added to one survives the process, however it ends."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

from sensorium._system import BINARY, writev
from sensorium.files import named

_HEAD = struct.Struct("<II")
"""Before each record: its size in bytes, and its CRC-32."""


class Draft:
    """A file that records are added to, one after the other. A record that was not finished does not count."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with named(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | BINARY, 0o666)

    def add(self, data: bytes) -> None:
        """Add a record."""
        head = _HEAD.pack(len(data), zlib.crc32(data))
        with named(self.path):
            done = writev(self._file, [head, data])
            rest = memoryview(head + data)[done:] if done < len(head) + len(data) else b""
            while len(rest):  # the disk is full, or nearly: the next call says so
                rest = rest[os.write(self._file, rest) :]

    def close(self) -> None:
        """Let go of the file."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def records(path: Path) -> list[tuple[int, int]]:
    """Where the whole records of a draft lie: (offset, size) of each, up to the first that is not whole."""
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
