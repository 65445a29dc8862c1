"""Chunks: HDF5 files of steps. A killed process loses at most the step being written. Reading uses a memory map.

The datasets of a chunk are contiguous and allocated when the file is created (``buffers/NAME`` of shape (steps, ...),
and ``check``). A step is then written in place with plain writes, which survive the process. The checksum of the step
in ``check`` comes last: a step without it is incomplete. The events between steps are in a JSON-lines file beside the
chunk, which the checksums cover as well. A finished file ends with the checksum of everything outside the datasets,
which HDF5 ignores there. The HDF5 library has a file open only while no data can be lost: to create it, and to copy the
steps of a chunk that was not filled.
"""

from __future__ import annotations

import mmap
import os
import zlib
from functools import cached_property
from pathlib import Path

import h5py
import numpy as np

from sensorium._system import BINARY, pwrite, reserve
from sensorium.errors import DatasetError
from sensorium.files import (
    PART,
    create,
    create_descriptor,
    explain_errors,
    publish,
    quote,
    sync,
    temporary_path,
    unquote,
    write_whole,
)
from sensorium.hdf5_files import Hdf5File
from sensorium.recording.chunk_metadata import check_metadata, data_spans, reserve_seal, seal_metadata
from sensorium.recording.events import Event, Events, events_checksum, events_line
from sensorium.recording.rows import Row, RowField

_SLACK = 1 << 14
"""Bytes for the metadata of HDF5."""
_VERSION = 3
"""Version of the checksums. Version 1 (no attribute in the file) covers neither events nor the order of values.
Versions 1 and 2 do not cover the metadata."""
_PADDING = [bytes(size) for size in range(9)]
_WRITTEN = 1 << 63
"""Bit that is set in every checksum, so that none is zero."""


def checksum(block: np.ndarray, line: bytes) -> int:
    """Return the checksum of a step.

    The lower 32 bits are the CRC-32 of its block, the next 31 bits those of its event line.
    """
    return _WRITTEN | events_checksum(line) << 32 | zlib.crc32(block.data)


def _checksum_v1(block: np.ndarray) -> int:
    words = block.view(np.uint64)
    return _WRITTEN | int(np.add.reduce(words)) ^ int(np.bitwise_xor.reduce(words)) >> 1


def _create(path: Path, row: Row, capacity: int, first: int) -> dict[str, int]:
    """Create a chunk with space for ``capacity`` steps; return the file offset of each dataset."""
    with create(path) as handle:  # a full disk raises here, before HDF5 begins
        reserve(handle.fileno(), 1024 * len(row.fields) + _SLACK)
    with Hdf5File(path, libver="v110", alignment_threshold=1, alignment_interval=64) as file:
        file.attrs["first"] = first
        file.attrs["version"] = _VERSION
        layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        layout.set_layout(h5py.h5d.CONTIGUOUS)
        layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        layout.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        group = file.create_group("buffers", track_order=True)
        for field in row.fields:
            _create_dataset(group.id, field, capacity, layout)
        check = _create_dataset(file.id, RowField("check", "uint64", ()), capacity, layout)
        offsets = {field.name: group[quote(field.name)].id.get_offset() or 0 for field in row.fields}
        offsets["check"] = check.get_offset()
    reserve_seal(path)  # or here, not in the middle of a step
    return offsets


def _create_dataset(
    group: h5py.h5g.GroupID | h5py.h5f.FileID, field: RowField, steps: int, layout: h5py.h5p.PropDCID
) -> h5py.h5d.DatasetID:
    space = h5py.h5s.create_simple((steps, *field.shape))
    kind = h5py.h5t.py_create(np.dtype(field.dtype), logical=True)
    return h5py.h5d.create(group, quote(field.name).encode(), kind, space, layout)


class ChunkWriter:
    """Writes consecutive steps into one chunk, under a temporary name until it is closed.

    Args:
        folder: folder of the chunk.
        row: layout of a step.
        first: number of the first step, which names the file.
        capacity: number of steps that the chunk has space for.
    """

    def __init__(self, folder: Path, row: Row, first: int, capacity: int) -> None:
        self.first, self.capacity, self.count = first, capacity, 0
        self.path = folder / f"{first:08d}.h5"
        self._part = folder / f"{self.path.name}{PART}"
        self._events_path = _events_part(self.path)
        self._file = self._events = -1
        with explain_errors(self.path):
            try:
                offsets = _create(self._part, row, capacity, first)
                self._file = os.open(self._part, os.O_WRONLY | BINARY)
                self._events = create_descriptor(self._events_path, append=True)
            except (OSError, RuntimeError):
                self.discard()
                raise
        self._check = offsets["check"]
        places = zip(row.starts, row.fields, strict=True)
        self._places = [(start, field.n_bytes, offsets[field.name]) for start, field in places if field.n_bytes]

    @property
    def full(self) -> bool:
        """Whether there is no space for another step."""
        return self.count == self.capacity

    def write(self, block: np.ndarray, events: list[Event]) -> None:
        """Write the next step.

        Args:
            block: bytes of the step, as its row lays them out.
            events: events since the step before.
        """
        with explain_errors(self.path):
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
        """Flush the steps to the disk."""
        with explain_errors(self.path):
            for descriptor in (self._file, self._events):
                os.fsync(descriptor)
            sync(self.path.parent)

    def close(self) -> None:
        """Complete the files and give them their final names. A chunk without steps is removed."""
        self.release()
        finish(self._part, self.path, self.count)

    def release(self) -> None:
        """Close the files and leave them under their temporary names."""
        for descriptor in (self._file, self._events):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._events = -1

    def discard(self) -> None:
        """Close and remove the files."""
        self.release()
        self._part.unlink(missing_ok=True)
        self._events_path.unlink(missing_ok=True)


def _write_all(descriptor: int, data: bytes | memoryview, offset: int | None) -> None:
    view = memoryview(data).cast("B")
    while len(view):
        done = os.write(descriptor, view) if offset is None else pwrite(descriptor, view, offset)
        view = view[done:]
        offset = None if offset is None else offset + done


def finish(part: Path, path: Path, count: int) -> None:
    """Complete a chunk: give its files their final names, cut to the first ``count`` steps.

    A chunk that is full needs no more disk space for that. A chunk of 0 steps is removed.

    Args:
        part: the chunk under its temporary name.
        path: its final name.
        count: number of complete steps.
    """
    events = _events_part(path)
    if count:
        with h5py.File(part, "r", locking=False) as file:
            short = len(file["check"]) > count
        with explain_errors(path):
            whole = _cut(part, count) if short else part
            seal_metadata(whole)
        if events.exists():  # if not, a process was killed after it had renamed this file
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
    """Return the path of the events of a complete chunk."""
    return path.with_suffix(".jsonl")


def _events_part(path: Path) -> Path:
    return path.with_name(f"{path.stem}.events{PART}")


def _cut(part: Path, count: int) -> Path:
    """Write a copy with only the first ``count`` steps, one dataset at a time to bound the memory."""
    shorter = temporary_path(part.with_name(part.name.removesuffix(PART) + ".short"))
    with h5py.File(part, "r", locking=False) as old:
        row, first = _row_of(old), int(old.attrs["first"])
        _create(shorter, row, count, first)
        with Hdf5File(shorter, "a", libver="v110") as new:
            new.attrs["version"] = old.attrs.get("version", 1)
            for name in [*(f"buffers/{quote(field.name)}" for field in row.fields), "check"]:
                if new[name].size:
                    new[name][...] = old[name][:count]
                    new.check()
    reserve_seal(shorter)  # HDF5 removed it
    return shorter


def _row_of(file: h5py.File) -> Row:
    return Row(RowField(unquote(name), str(data.dtype), data.shape[1:]) for name, data in file["buffers"].items())


def recover(part: Path) -> int:
    """Complete the chunk of a process that was killed; return the number of complete steps.

    Raises:
        DatasetError: the file is damaged otherwise. It is left unchanged.
    """
    count = whole_steps(part)
    finish(part, part.with_name(part.name.removesuffix(PART)), count)
    return count


def whole_steps(part: Path) -> int:
    """Return the number of complete steps of an unfinished chunk."""
    if not _current_events_path(part).exists():  # it is created after the layout, so there is no step yet
        return 0
    chunk = Chunk(part)
    count = next((row for row in range(len(chunk)) if not chunk.is_whole(row)), len(chunk))
    chunk.close()
    return count


def _current_events_path(path: Path) -> Path:
    """Return the current path of the events of a chunk, finished or not."""
    if not path.name.endswith(PART):
        return events_path(path)
    final = path.with_name(path.name.removesuffix(PART))
    return _events_part(final) if _events_part(final).exists() else events_path(final)


def _reason(error: Exception) -> str:
    """Return a short form of an HDF5 error message."""
    for text, reason in (("truncated", "it was truncated"), ("signature not found", "it is not HDF5")):
        if text in str(error):
            return reason
    return str(error)


class Chunk:
    """A chunk that is read through a memory map.

    Args:
        path: the file, finished or not.

    Attributes:
        first: number of the first step.
        row: layout of a step.
        arrays: field name -> read-only array (steps, ...).
        events: the events between the steps.

    Raises:
        DatasetError: a file is missing or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with h5py.File(path, "r", locking=False) as file:
                self.first = int(file.attrs["first"])
                self.row = _row_of(file)
                datasets = {field.name: file["buffers"][quote(field.name)] for field in self.row.fields}
                self._count = len(file["check"])
                self._offsets = {name: data.id.get_offset() or 0 for name, data in datasets.items()}
                self._check_offset = file["check"].id.get_offset()
                self._version = int(file.attrs.get("version", 1))
                spans = data_spans([*datasets.values(), file["check"]])
            with open(path, "rb") as handle:
                if not path.name.endswith(PART):
                    check_metadata(handle.fileno(), spans, self._version)
                self._map = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
            self.arrays = {field.name: self._array(field, self._offsets[field.name]) for field in self.row.fields}
            self._checksums = self._array(RowField("check", "uint64", ()), self._check_offset)
            text = _current_events_path(path).read_bytes()
        except FileNotFoundError as error:
            raise DatasetError(f"the file {error.filename or path} is missing; restore it from a backup") from None
        except Exception as error:  # h5py raises nearly anything for damaged metadata
            raise DatasetError(f"cannot read the steps in {path}: {_reason(error)}; restore it from a backup") from None
        try:
            self.events = Events(text)
            if self._version > 1 and not path.name.endswith(PART):
                self._check_events(text)
        except ValueError as error:
            raise DatasetError(
                f"{events_path(path)} was changed or truncated: {error}; restore it from a backup"
            ) from None

    def _check_events(self, text: bytes) -> None:
        stored = self._checksums >> np.uint64(32) & np.uint64(0x7FFFFFFF)
        bad = np.flatnonzero(stored != self.events.checksums(len(self)))
        if len(bad):
            raise ValueError(f"the events of step {self.first + int(bad[0])} do not match their checksum")
        if self.events.before(len(self)) != text:
            raise ValueError(f"it has events beyond the {len(self)} steps in {self.path.name}")

    def _array(self, field: RowField, offset: int) -> np.ndarray:
        shape = (self._count, *field.shape)
        size = int(np.prod(shape, dtype=np.int64))
        if not size:
            return np.zeros(shape, field.dtype)
        return np.frombuffer(self._map, field.dtype, size, offset).reshape(shape)

    def __len__(self) -> int:
        return self._count

    def is_whole(self, row: int) -> bool:
        """Return whether a step is complete and matches its checksum."""
        if self._version == 1:
            block = np.zeros(self.row.n_bytes, np.uint8)
            for array, stored in zip(self.row.arrays(block), self.arrays.values(), strict=True):
                array[...] = stored[row]
            return int(self._checksums[row]) == _checksum_v1(block)
        crc = 0
        for values, padding in self._rows:  # as checksum() of the block, without copying it
            crc = zlib.crc32(values[row], crc)
            if padding:
                crc = zlib.crc32(padding, crc)
        return int(self._checksums[row]) == _WRITTEN | events_checksum(self.events.line(row)) << 32 | crc

    @cached_property
    def _rows(self) -> list[tuple[np.ndarray, bytes]]:
        """The bytes of each field, (steps, n), and the padding that follows them in a block."""
        rows = [
            (array.reshape(len(self), -1).view(np.uint8), _PADDING[-field.n_bytes % 8])
            for field, array in zip(self.row.fields, self.arrays.values(), strict=True)
            if field.n_bytes
        ]
        return rows or [(np.zeros((len(self), 8), np.uint8), b"")]

    def verify(self, row: int) -> None:
        """Compare a step with its checksum.

        Raises:
            DatasetError: it is damaged.
        """
        if not self.is_whole(row):
            raise DatasetError(
                f"{self.path}: step {self.first + row} is damaged: its checksum differs; restore the file from a backup"
            )

    def close(self) -> None:
        """Release the memory map. It is freed together with the last array of it that is in use."""
        self.arrays = {}
        self.__dict__.pop("_rows", None)
        self._checksums = np.zeros(0, np.uint64)
