"""``EpisodeFile``: the HDF5 file of one episode of a task, which grows by blocks of rows.

It uses the low-level API of h5py (checked with h5py 3.16): an episode has about fifty small datasets, and creating them
with the high-level API takes longer than the physics.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5f, h5fd, h5g, h5o, h5p, h5s, h5t

from sensorium.datasets.row_buffer import ROWS
from sensorium.errors import DatasetError
from sensorium.files import explain_errors, temporary_path
from sensorium.hdf5_files import Hdf5Sink

_STRING = h5py.string_dtype()
_TEXT = h5t.py_create(_STRING, logical=True)
_NAMES = h5p.create(h5p.LINK_CREATE)
_NAMES.set_char_encoding(h5t.CSET_UTF8)
_WIDTH = 16
"""Column width of text chunks: the longest text of the first block, rounded up to a multiple of this."""
_TOP = b"traj"
_NUMBERS = itertools.count()
"""Numbers for the names of skeletons: HDF5 cannot open a name twice, not even in memory."""
_META = 1 << 16
"""Size of the metadata blocks of a file in bytes, so that metadata is written together."""
_IN_MEMORY = 1 << 20
"""Bytes of rows up to which a file is kept in memory, and written as a whole. HDF5 writes an episode of "pick" in 188
pieces, and each of them is a call of Python."""


class _Tree:
    """A group of an HDF5 file with its subgroups and datasets."""

    def __init__(self, top: h5g.GroupID) -> None:
        self._groups = {"": top}
        self._data: dict[str, h5d.DatasetID] = {}

    def set_attribute(self, name: str, value: str | float, path: str = "") -> None:
        """Set an attribute of the group, or of the subgroup ``path``."""
        _set_attribute(self.group(path), name, value)

    def group(self, path: str) -> h5g.GroupID:
        """Return a subgroup, which is created if it does not exist."""
        group = self._groups.get(path)
        if group is None:
            above, _, name = path.rpartition("/")
            plist = _timeless(h5p.GROUP_CREATE)
            group = self._groups[path] = h5g.create(self.group(above), name.encode(), _NAMES, plist)
        return group

    def declare(
        self,
        path: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any] | None,
        chunk: tuple[int, ...],
        unit: str | None = None,
    ) -> h5d.DatasetID:
        """Create a dataset without rows.

        Args:
            path: path of the dataset.
            shape: shape of a row.
            dtype: type of the numbers; None for text of variable length.
            chunk: shape of a chunk in each row; a chunk covers ROWS rows.
            unit: unit of the numbers, stored as an attribute.
        """
        space = h5s.create_simple((0, *shape), (h5s.UNLIMITED, *(each or h5s.UNLIMITED for each in shape)))
        kind = _TEXT if dtype is None else _kind(dtype)
        data = self._create(path, kind, space, _chunked((ROWS, *(each or 1 for each in chunk))))
        self._data[path] = data
        if unit is not None:
            _set_attribute(data, "unit", unit)
        return data

    def add_text(self, path: str, text: str, **attributes: str | float) -> None:
        """Create a dataset of one text, with attributes."""
        data = self._create(path, _TEXT, h5s.create(h5s.SCALAR), _timeless(h5p.DATASET_CREATE))
        data.write(h5s.ALL, h5s.ALL, np.array(text, _STRING))
        for name, value in attributes.items():
            _set_attribute(data, name, value)

    def _create(self, path: str, kind: h5t.TypeID, space: h5s.SpaceID, plist: h5p.PropDCID) -> h5d.DatasetID:
        above, _, name = path.rpartition("/")
        return h5d.create(self.group(above), name.encode(), kind, space, plist, _NAMES)


class Skeleton(_Tree):
    """The common part of the files of several episodes, in memory. Copying it is faster than creating it again."""

    def __init__(self) -> None:
        access = h5p.create(h5p.FILE_ACCESS)
        access.set_libver_bounds(h5f.LIBVER_V110, h5f.LIBVER_V110)
        access.set_fapl_core(_META, False)
        name = f"skeleton {next(_NUMBERS)}".encode()
        self._file = h5f.create(name, h5f.ACC_TRUNC, _timeless(h5p.FILE_CREATE), access)
        super().__init__(h5g.create(self._file, _TOP, _NAMES, _timeless(h5p.GROUP_CREATE)))

    def copy_to(self, file: h5f.FileID, name: bytes) -> None:
        """Copy the group into another file, under a name."""
        h5o.copy(self._file, _TOP, file, name, lcpl=_NAMES)

    def open_in(self, top: h5g.GroupID) -> tuple[dict[str, h5g.GroupID], dict[str, h5d.DatasetID]]:
        """Open the groups and the growing datasets of a copy, whose group is ``top``: by path."""
        return _open(top, self._groups, self._data)


class EpisodeFile(_Tree):
    """A file with one group ``traj_NUMBER``, under a temporary name until it is published.

    Its content is in memory until it is closed, or until it is large.

    Args:
        path: the final name of the file; it can be published in another folder.
        number: number of the episode.
        skeleton: initial content of the group.

    Attributes:
        path: the final name.
        part: the temporary name.
    """

    def __init__(self, path: Path, number: int, skeleton: Skeleton) -> None:
        self.path, self.part = path, temporary_path(path)
        self._widths: dict[str, int] = {}
        self._name = f"traj_{number}".encode()
        self._n_bytes, self._is_in_memory = 0, True
        with explain_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._sink = Hdf5Sink(self.part, new=True)
            access = _access().copy()
            access.set_fapl_core(_META, False)
            self._file = h5f.create(os.fsencode(self.part), h5f.ACC_TRUNC, _timeless(h5p.FILE_CREATE), access)
            skeleton.copy_to(self._file, self._name)
            self._groups, self._data = skeleton.open_in(h5g.open(self._file, self._name))

    def extend(self, path: str, first: int, rows: np.ndarray, count: int) -> None:
        """Append rows to a declared dataset.

        Args:
            path: path of the dataset.
            first: number of rows that it has, a multiple of ROWS.
            rows: contiguous array (ROWS, ...) that begins with the new rows; the others are zeros.
            count: number of new rows.
        """
        if not count:
            return
        self._grow(rows.nbytes)
        data = self._data[path]
        data.set_extent((first + count, *rows.shape[1:]))
        if rows.size:
            data.write_direct_chunk((first, *(0,) * (rows.ndim - 1)), rows)

    def extend_texts(self, path: str, first: int, texts: Sequence[bytes], length: int | None) -> None:
        """Append rows of text: fixed-size rows of ``length`` bytes, or of variable length if that is None."""
        self._grow(sum(map(len, texts)))
        data = self._data.get(path)
        if length is None:
            data = data or self.declare(path, (), None, ())
            data.set_extent((first + len(texts),))
            space = data.get_space()
            space.select_hyperslab((first,), (len(texts),))
            data.write(h5s.create_simple((len(texts),)), space, np.array(texts, _STRING))
            return
        longest = max(map(len, texts))
        width = self._widths.setdefault(path, min(-(-longest // _WIDTH) * _WIDTH, length))
        data = data or self.declare(path, (length,), np.dtype(np.uint8), (width,))
        data.set_extent((first + len(texts), length))
        n_chunks = -(-longest // width)
        rows = np.zeros(ROWS, f"S{n_chunks * width}")
        rows[: len(texts)] = texts
        # chunks beyond the longest text are never written, and read as zeros
        for column, part in enumerate(rows.view(np.uint8).reshape(ROWS, n_chunks, width).swapaxes(0, 1)):
            data.write_direct_chunk((first, column * width), np.ascontiguousarray(part))

    def _grow(self, n_bytes: int) -> None:
        """Count bytes that will be written; go on in the file instead of in memory if they are many."""
        self._n_bytes += n_bytes
        if not self._is_in_memory or self._n_bytes <= _IN_MEMORY:
            return
        groups, data = list(self._groups), list(self._data)
        self._close_file()
        access = _access().copy()
        access.set_fileobj_driver(h5fd.fileobj_driver, self._sink)
        self._file = h5f.open(os.fsencode(self.part), h5f.ACC_RDWR, access)
        self._groups, self._data = _open(h5g.open(self._file, self._name), groups, data)

    def _close_file(self) -> None:
        """Close the HDF5 file, and write it if it is in memory."""
        self._data.clear()
        self._groups.clear()
        if self._is_in_memory:
            h5f.flush(self._file)
            self._sink.write(self._file.get_file_image())
            self._is_in_memory = False
        self._file.close()

    def close(self) -> None:
        """Flush and close the file."""
        if self._file.valid:
            with explain_errors(self.path):
                self._close_file()
            self._sink.close()
            self.check()

    def check(self) -> None:
        """Raise the error of an earlier write, if there was one."""
        self._sink.check(self.path)

    def drop(self) -> None:
        """Close and remove the file."""
        with suppress(DatasetError):  # a failing flush does not matter, since the file is removed
            self.close()
        self.part.unlink(missing_ok=True)


def _open(
    top: h5g.GroupID, groups: Iterable[str], data: Iterable[str]
) -> tuple[dict[str, h5g.GroupID], dict[str, h5d.DatasetID]]:
    """Open groups and datasets below the group ``top``, by path; a group comes after the one that it lies in."""
    opened = {"": top}
    for path in groups:
        if path:
            above, _, name = path.rpartition("/")
            opened[path] = h5g.open(opened[above], name.encode())
    parts = ((path, *path.rpartition("/")) for path in data)
    return opened, {path: h5d.open(opened[above], name.encode()) for path, above, _, name in parts}


def _set_attribute(item: h5g.GroupID | h5d.DatasetID, name: str, value: str | float) -> None:
    text = isinstance(value, str)
    array = np.array(value, _STRING if text else None)
    h5a.create(item, name.encode(), _TEXT if text else _kind(array.dtype), h5s.create(h5s.SCALAR)).write(array)


@cache
def _access() -> h5p.PropFAID:
    plist = h5p.create(h5p.FILE_ACCESS)
    plist.set_fclose_degree(h5f.CLOSE_STRONG)
    plist.set_libver_bounds(h5f.LIBVER_V110, h5f.LIBVER_V110)
    plist.set_meta_block_size(_META)
    # Chunks are written whole, so the caches of the datasets are not used. HDF5 2.0 allocates 8191 slots for each one
    # that is opened, which takes 6% of the time of a file.
    plist.set_cache(0, 1, 0, 0.75)
    return plist


@cache
def _kind(dtype: np.dtype[Any]) -> h5t.TypeID:
    return h5t.py_create(dtype, logical=True)


@cache
def _timeless(kind: h5p.PropClassID) -> h5p.PropCreateID:
    """Return creation properties without time stamps, so that equal episodes make equal files."""
    plist = h5p.create(kind)
    plist.set_obj_track_times(False)
    return plist


@cache
def _chunked(chunk: tuple[int, ...]) -> h5p.PropDCID:
    plist = _timeless(h5p.DATASET_CREATE).copy()
    plist.set_chunk(chunk)
    return plist
