"""The seal of a chunk: the checksum of everything outside its datasets, in the last bytes of the file.

HDF5 ignores data after its own end. The space is reserved when the file is created, so that a full disk cannot prevent
the seal.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

import h5py

from sensorium._system import pread, pwrite, reserve

_SEAL = struct.Struct("<8sI")
"""Last bytes of a finished file: our mark, and the CRC-32 of everything that is neither a dataset nor this."""
_MARK = b"sn meta1"


def reserve_seal(path: Path) -> None:
    """Allocate a file that HDF5 has closed, and space for its seal behind it."""
    with open(path, "r+b") as handle:
        reserve(handle.fileno(), os.path.getsize(path) + _SEAL.size)


def seal_metadata(path: Path) -> None:
    """Write the checksum of the metadata to the end of a chunk, where space is reserved since version 3."""
    with h5py.File(path, "r", locking=False) as file:
        if int(file.attrs.get("version", 1)) < 3:
            return
        spans = data_spans([*file["buffers"].values(), file["check"]])
    with open(path, "r+b") as handle:
        size = os.fstat(handle.fileno()).st_size - _SEAL.size
        pwrite(handle.fileno(), _SEAL.pack(_MARK, _checksum(handle.fileno(), spans, size)), size)


def check_metadata(descriptor: int, spans: Iterable[tuple[int, int]], version: int) -> None:
    """Compare the metadata of a finished chunk with its checksum.

    Args:
        descriptor: of the open file.
        spans: where its datasets are.
        version: version of its checksums. Those before 3 have no seal.

    Raises:
        ValueError: they differ, or the checksum is missing.
    """
    size = os.fstat(descriptor).st_size - _SEAL.size
    box = pread(descriptor, _SEAL.size, max(0, size))
    mark, expected = _SEAL.unpack(box) if len(box) == _SEAL.size else (b"", 0)
    if mark != _MARK:
        if version > 2:
            raise ValueError("the checksum of its metadata is missing")
    elif _checksum(descriptor, spans, size) != expected:
        raise ValueError("its metadata was changed: the checksum differs")


def data_spans(datasets: Iterable[h5py.Dataset]) -> list[tuple[int, int]]:
    """Return where the datasets of a chunk begin and end in the file, sorted."""
    return sorted((data.id.get_offset(), data.id.get_offset() + data.nbytes) for data in datasets if data.nbytes)


def _checksum(descriptor: int, spans: Iterable[tuple[int, int]], size: int) -> int:
    """Return the CRC-32 of the first ``size`` bytes of a file, without those in ``spans``."""
    crc = end = 0
    for start, stop in (*spans, (size, size)):
        if start > end:
            crc = zlib.crc32(pread(descriptor, start - end, end), crc)
        end = max(end, stop)
    return crc
