"""``SharedSegment``: typed arrays in shared memory that other processes attach to by name.

One segment of ``multiprocessing.shared_memory``:

```
| magic (8 bytes) | length of the JSON (8) | JSON: the blocks, and a header of the creator | block | block ...
```

Each block starts at a multiple of 64 bytes, so that no two blocks share a cache line. The process that created the
segment removes it when it closes it, exits or is killed. Processes that attach only detach.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np

from sensorium._system import reserve
from sensorium.errors import NameNotFoundError, OptionError

MAGIC = b"SNBLOCK1"
CACHE_LINE = 64
"""Bytes."""
_SHM_FOLDER = Path("/dev/shm")
"""Folder of shared memory on Linux. Other systems have none: there the free space is not checked first."""
_attaching = threading.Lock()


class SharedSegment:
    """Named arrays in one shared memory segment. :meth:`create` and :meth:`attach` make it.

    Attributes:
        name: name by which other processes attach.
        arrays: block name -> array over the shared bytes.
        header: the header of the creator.
    """

    def __init__(self, memory: SharedMemory, owned: bool) -> None:
        self._memory = memory
        self._owner = os.getpid() if owned else None
        self.name = memory.name
        self.arrays: dict[str, np.ndarray] = {}
        buffer = _bytes(memory)
        length = int.from_bytes(buffer[8:16], "little")
        contents = json.loads(bytes(buffer[16 : 16 + length]))
        self.header: dict[str, Any] = contents["about"]
        start = _aligned(16 + length)
        for name, shape, dtype, offset in contents["blocks"]:
            self.arrays[name] = np.ndarray(tuple(shape), dtype, buffer, start + offset)

    @classmethod
    def create(cls, blocks: dict[str, tuple[tuple[int, ...], str]], header: dict[str, Any]) -> SharedSegment:
        """Create a segment with zeroed blocks.

        Args:
            blocks: name -> (shape, dtype).
            header: JSON-able values for the processes that attach.

        Raises:
            OptionError: there is too little shared memory.
        """
        placed, offset = [], 0
        for name, (shape, dtype) in blocks.items():
            placed.append((name, shape, dtype, offset))
            offset += _aligned(int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize)
        contents = json.dumps({"blocks": placed, "about": header}).encode()
        size = _aligned(16 + len(contents)) + offset
        if sys.platform == "linux" and _SHM_FOLDER.is_dir():
            usage = os.statvfs(_SHM_FOLDER)
            _check_free(size, usage.f_bavail * usage.f_frsize)
        memory = SharedMemory(create=True, size=size)
        try:
            _reserve(memory.name, size)
        except OSError as error:
            memory.close()
            memory.unlink()
            raise OptionError(
                f"cannot allocate {size / 1e6:,.0f} MB of shared memory: {error}; lower capacity"
            ) from None
        buffer = _bytes(memory)
        buffer[16 : 16 + len(contents)] = contents
        buffer[8:16] = len(contents).to_bytes(8, "little")
        buffer[:8] = MAGIC
        return cls(memory, owned=True)

    @classmethod
    def attach(cls, name: str) -> SharedSegment:
        """Attach to a segment that another process or this one created.

        Raises:
            NameNotFoundError: there is no shared memory of that name.
            OptionError: it is not a segment of this class.
        """
        try:
            memory = _open_untracked(name)
        except (OSError, UnicodeEncodeError):  # also for names that the system does not allow
            raise NameNotFoundError(
                f"there is no shared memory {name!r}: its creator closed it or has exited, or the name is wrong"
            ) from None
        if memory.size < 16 or bytes(_bytes(memory)[:8]) != MAGIC:
            memory.close()
            raise OptionError(f"the shared memory {name!r} does not hold a Memory; pass the name of one")
        return cls(memory, owned=False)

    def close(self) -> None:
        """Detach, and remove the segment if this process created it. No array over the blocks may be in use."""
        self.arrays.clear()
        self._memory.close()
        if self._owner == os.getpid():  # a forked child has a copy of this object and must not remove the segment
            self._memory.unlink()
        self._owner = None


def _bytes(memory: SharedMemory) -> memoryview:
    buffer = memory.buf
    assert buffer is not None, "it is open"
    return buffer


def _aligned(size: int) -> int:
    return -(-size // CACHE_LINE) * CACHE_LINE


def _check_free(n_bytes: int, free: int) -> None:
    """Check that the shared memory has ``n_bytes`` free.

    Raises:
        OptionError: it has not.
    """
    if n_bytes > free:
        raise OptionError(
            f"capacity needs {n_bytes / 1e6:,.0f} MB of shared memory, and {_SHM_FOLDER} has {free / 1e6:,.0f} MB "
            f"free; lower capacity, or enlarge {_SHM_FOLDER}"
        )


def _reserve(name: str, size: int) -> None:
    """Allocate the pages now. If a page could not be allocated later, a signal would kill the process."""
    path = _SHM_FOLDER / name.lstrip("/")
    if path.exists():
        with path.open("r+b") as file:
            reserve(file.fileno(), size)


def _open_untracked(name: str) -> SharedMemory:
    """Open a segment without registering it with this process's resource tracker, which would remove it at exit."""
    if sys.version_info >= (3, 13):
        return SharedMemory(name, track=False)
    # Before 3.13 SharedMemory registers every segment that it opens. It looks the function up in its module at each
    # call, so the function can be replaced meanwhile. Checked with Python 3.11.
    with _attaching:
        register = resource_tracker.register

        def register_others(path: str, kind: str) -> None:
            if path.lstrip("/") != name.lstrip("/"):
                register(path, kind)

        resource_tracker.register = register_others  # type: ignore[assignment]
        try:
            return SharedMemory(name)
        finally:
            resource_tracker.register = register
