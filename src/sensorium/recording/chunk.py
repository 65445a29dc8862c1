"""One HDF5 file of steps: written so that a killed process loses at most the step in flight, read by memory map.

Data sets are contiguous and laid out when the file is made (``buffers/NAME`` of shape (steps, ...), ``check``), so
that a step is put in its place by plain writes: what was written survives the process. Last comes the step's check
sum in ``check``: a step without it was not finished. What happened between steps is in a file of lines of JSON beside
it, which the check sums cover as well. HDF5 itself has a file open only while there is nothing to lose: to make it, and
to copy the steps of one that was not filled.
"""

from __future__ import annotations

import mmap
import os
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from sensorium._system import BINARY, pwrite, reserve
from sensorium.errors import DatasetError
from sensorium.files import PART, named, publish, quote, sync, unquote, write_whole
from sensorium.recording.events import Events, events_checksum, events_line
from sensorium.recording.rows import Row, RowField

_SLACK = 1 << 14
"""Room for what HDF5 itself needs."""
_VERSION = 2
"""Of the check sums; the first, in files that do not say, knew nothing of events, nor of the order of values."""
_WRITTEN = 1 << 63
"""Set in check sums, so that none is zero."""


def checksum(block: np.ndarray, line: bytes) -> int:
    """Of a step: CRC-32 of its block of bytes, and above that the lower 31 bits of the CRC-32 of its line of events."""
    return _WRITTEN | events_checksum(line) << 32 | zlib.crc32(block.data)


def _first_checksum(block: np.ndarray) -> int:
    words = block.view(np.uint64)
    return _WRITTEN | int(np.add.reduce(words)) ^ int(np.bitwise_xor.reduce(words)) >> 1


def _create(path: Path, row: Row, capacity: int, first: int) -> dict[str, int]:
    """Make a file with room for ``capacity`` steps; where the arrays begin."""
    with open(path, "wb") as handle:  # a full disk shows here, and not inside HDF5
        reserve(handle.fileno(), 1024 * len(row.fields) + _SLACK)
    with h5py.File(path, "w", libver="v110", alignment_threshold=1, alignment_interval=64) as file:
        file.attrs["first"] = first
        file.attrs["version"] = _VERSION
        layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        layout.set_layout(h5py.h5d.CONTIGUOUS)
        layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        layout.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        group = file.create_group("buffers", track_order=True)
        for field in row.fields:
            _dataset(group.id, field, capacity, layout)
        check = _dataset(file.id, RowField("check", "uint64", ()), capacity, layout)
        offsets = {field.name: group[quote(field.name)].id.get_offset() or 0 for field in row.fields}
        offsets["check"] = check.get_offset()
    with open(path, "r+b") as handle:  # or here, and not in the middle of a step
        reserve(handle.fileno(), os.path.getsize(path))
    return offsets


def _dataset(group: Any, field: RowField, steps: int, layout: Any) -> Any:
    space = h5py.h5s.create_simple((steps, *field.shape))
    kind = h5py.h5t.py_create(np.dtype(field.dtype), logical=True)
    return h5py.h5d.create(group, quote(field.name).encode(), kind, space, layout)


class ChunkWriter:
    """Writes the steps ``first``, ``first + 1``, ... into ``folder``."""

    def __init__(self, folder: Path, row: Row, first: int, capacity: int) -> None:
        self.first, self.capacity, self.count = first, capacity, 0
        self.path = folder / f"{first:08d}.h5"
        self._part = folder / f"{self.path.name}{PART}"
        self._events_path = _events_part(self.path)
        self._file = self._events = -1
        with named(self.path):
            try:
                offsets = _create(self._part, row, capacity, first)
                self._file = os.open(self._part, os.O_WRONLY | BINARY)
                self._events = os.open(self._events_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | BINARY)
            except (OSError, RuntimeError):
                self.discard()
                raise
        self._check = offsets["check"]
        places = zip(row.starts, row.fields, strict=True)
        self._places = [(start, field.n_bytes, offsets[field.name]) for start, field in places if field.n_bytes]

    @property
    def full(self) -> bool:
        """Whether there is no room for another step."""
        return self.count == self.capacity

    def write(self, block: np.ndarray, events: list[Any]) -> None:
        """Put the next step in its place."""
        with named(self.path):
            line = events_line(self.count, events)
            if line:
                _write_all(self._events, line + b"\n", None)
            for start, size, offset in self._places:
                at = offset + self.count * size
                done = pwrite(self._file, block.data[start : start + size], at)
                if done < size:
                    _write_all(self._file, block.data[start + done : start + size], at + done)
            check = checksum(block, line).to_bytes(8, "little")
            _write_all(self._file, check, self._check + 8 * self.count)
        self.count += 1

    def sync(self) -> None:
        """Have the steps on the disk."""
        with named(self.path):
            for descriptor in (self._file, self._events):
                os.fsync(descriptor)
            sync(self.path.parent)

    def close(self) -> None:
        """Give the files their final names. Without any step, there are none."""
        self.drop()
        finish(self._part, self.path, self.count)

    def drop(self) -> None:
        """Leave everything as it is."""
        for descriptor in (self._file, self._events):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._events = -1

    def discard(self) -> None:
        """Leave no file."""
        self.drop()
        self._part.unlink(missing_ok=True)
        self._events_path.unlink(missing_ok=True)


def _write_all(descriptor: int, data: Any, offset: int | None) -> None:
    view = memoryview(data).cast("B")
    while len(view):
        done = os.write(descriptor, view) if offset is None else pwrite(descriptor, view, offset)
        view = view[done:]
        offset = None if offset is None else offset + done


def finish(part: Path, path: Path, count: int) -> None:
    """Turn files of which ``count`` steps are whole into complete ones. Those that were filled need no more room."""
    events = _events_part(path)
    if count:
        with h5py.File(part, "r", locking=False) as file:
            short = len(file["check"]) > count
        with named(path):
            whole = _cut(part, count) if short else part
        if events.exists():  # if not, a process was killed after it had got its name
            text = events.read_bytes()
            lines = Events(text).before(count)
            if lines != text:
                write_whole(events_path(path), lines)
            else:
                publish(events, events_path(path))
        publish(whole, path)
    part.unlink(missing_ok=True)
    events.unlink(missing_ok=True)


def events_path(path: Path) -> Path:
    """Where the events of a file of steps are."""
    return path.with_suffix(".jsonl")


def _events_part(path: Path) -> Path:
    return path.with_name(f"{path.stem}.events{PART}")


def _cut(part: Path, count: int) -> Path:
    """A copy with only the first steps, one array after the other so that memory stays small."""
    shorter = part.with_name(part.name.removesuffix(PART) + f".short{PART}")
    with h5py.File(part, "r", locking=False) as old:
        row, first = _row_of(old), int(old.attrs["first"])
        _create(shorter, row, count, first)
        with h5py.File(shorter, "r+", libver="v110") as new:
            new.attrs["version"] = old.attrs.get("version", 1)
            for name in [*(f"buffers/{quote(field.name)}" for field in row.fields), "check"]:
                if new[name].size:
                    new[name][...] = old[name][:count]
    return shorter


def _row_of(file: h5py.File) -> Row:
    return Row(RowField(unquote(name), str(data.dtype), data.shape[1:]) for name, data in file["buffers"].items())


def recover(part: Path) -> int:
    """Complete the file of a process that was killed; how many steps are whole.

    Raises:
        DatasetError: the file is damaged otherwise; it is left as it is.
    """
    count = whole_steps(part)
    finish(part, part.with_name(part.name.removesuffix(PART)), count)
    return count


def whole_steps(part: Path) -> int:
    """How many steps of a file that was not finished are whole."""
    if not _events_file(part).exists():  # it is made after the layout, so there was no step yet
        return 0
    chunk = Chunk(part)
    count = next((i for i in range(len(chunk)) if not chunk.is_whole(i)), len(chunk))
    chunk.close()
    return count


def _events_file(path: Path) -> Path:
    """Where the events of a file of steps are now."""
    if not path.name.endswith(PART):
        return events_path(path)
    final = path.with_name(path.name.removesuffix(PART))
    return _events_part(final) if _events_part(final).exists() else events_path(final)


def _why(error: Exception) -> str:
    """What HDF5 says of a file, in few words."""
    for said, meant in (("truncated", "it was truncated"), ("signature not found", "it is not HDF5")):
        if said in str(error):
            return meant
    return str(error)


class Chunk:
    """A file of steps, read by memory map."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with h5py.File(path, "r", locking=False) as file:
                self.first = int(file.attrs["first"])
                self.row = _row_of(file)
                sets = {field.name: file["buffers"][quote(field.name)] for field in self.row.fields}
                self._count = len(file["check"])
                self._offsets = {name: data.id.get_offset() or 0 for name, data in sets.items()}
                self._check_offset = file["check"].id.get_offset()
                self._version = int(file.attrs.get("version", 1))
            with open(path, "rb") as handle:
                self._map = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
            self.arrays = {field.name: self._array(field, self._offsets[field.name]) for field in self.row.fields}
            self._checks = self._array(RowField("check", "uint64", ()), self._check_offset)
            text = _events_file(path).read_bytes()
        except FileNotFoundError as error:
            raise DatasetError(f"the file {error.filename or path} is missing; restore it from a copy") from None
        except (OSError, KeyError, ValueError, RuntimeError, TypeError) as error:
            raise DatasetError(f"{path} is not a whole file of steps ({_why(error)}); restore it from a copy") from None
        try:
            self.events = Events(text)
            if self._version > 1 and not path.name.endswith(PART):
                self._check_events(text)
        except ValueError as error:
            raise DatasetError(
                f"{events_path(path)} was changed or truncated: {error}; restore it from a copy"
            ) from None

    def _check_events(self, text: bytes) -> None:
        held = self._checks >> np.uint64(32) & np.uint64(0x7FFFFFFF)
        bad = np.flatnonzero(held != self.events.sums(len(self)))
        if len(bad):
            raise ValueError(f"the events of step {self.first + int(bad[0])} are not those that were written")
        if self.events.before(len(self)) != text:
            raise ValueError(f"it has more than the events of the {len(self)} steps in {self.path.name}")

    def _array(self, field: RowField, offset: int) -> np.ndarray:
        shape = (self._count, *field.shape)
        size = int(np.prod(shape, dtype=np.int64))
        if not size:
            return np.zeros(shape, field.dtype)
        return np.frombuffer(self._map, field.dtype, size, offset).reshape(shape)

    def __len__(self) -> int:
        return self._count

    def is_whole(self, index: int) -> bool:
        """Whether a step is as it was written."""
        block = np.zeros(self.row.n_bytes, np.uint8)
        for array, held in zip(self.row.arrays(block), self.arrays.values(), strict=True):
            array[...] = held[index]
        expected = _first_checksum(block) if self._version == 1 else checksum(block, self.events.line(index))
        return int(self._checks[index]) == expected

    def close(self) -> None:
        """Let go of the map; it is freed with the last array of it."""
        self.arrays = {}
        self._checks = np.zeros(0, np.uint64)
