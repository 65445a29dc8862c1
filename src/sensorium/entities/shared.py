"""Typed blocks in memory that other processes attach to by name.

One segment of ``multiprocessing.shared_memory``:

```
| magic (8 bytes) | length of the JSON (8) | JSON: the blocks, and what their maker says about them | block | block ...
```

Each block begins at a multiple of 64 bytes, a cache line, so that no two of them share one. The process that made the
segment removes it when it closes it, ends, or dies; those that attach only let go.
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
from sensorium.entities.layout import check_space_left
from sensorium.errors import NameNotFoundError, OptionError

MAGIC = b"SNBLOCK1"
LINE = 64
_ROOM = Path("/dev/shm")
"""Where Linux keeps shared memory. Other systems have no such folder: there the space is not checked first."""
_attaching = threading.Lock()


class SharedSegment:
    """Named blocks in one shared segment. Made by :meth:`create` or :meth:`attach`.

    Attributes:
        name: by which other processes attach.
        arrays: block name -> array over the shared bytes.
        about: what the maker said, from JSON.
    """

    def __init__(self, memory: SharedMemory, owned: bool) -> None:
        self._memory = memory
        self._owner = os.getpid() if owned else None
        self.name = memory.name
        self.arrays: dict[str, np.ndarray] = {}
        buffer = _bytes(memory)
        length = int.from_bytes(buffer[8:16], "little")
        head = json.loads(bytes(buffer[16 : 16 + length]))
        self.about: dict[str, Any] = head["about"]
        start = _aligned(16 + length)
        for name, shape, dtype, offset in head["blocks"]:
            self.arrays[name] = np.ndarray(tuple(shape), dtype, buffer, start + offset)

    @classmethod
    def create(cls, blocks: dict[str, tuple[tuple[int, ...], str]], about: dict[str, Any]) -> SharedSegment:
        """Make a segment with zeroed blocks, given as name -> (shape, dtype).

        Raises:
            OptionError: there is too little shared memory.
        """
        placed, offset = [], 0
        for name, (shape, dtype) in blocks.items():
            placed.append((name, shape, dtype, offset))
            offset += _aligned(int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize)
        head = json.dumps({"blocks": placed, "about": about}).encode()
        size = _aligned(16 + len(head)) + offset
        if sys.platform == "linux" and _ROOM.is_dir():
            room = os.statvfs(_ROOM)
            check_space_left(size, room.f_bavail * room.f_frsize, str(_ROOM))
        memory = SharedMemory(create=True, size=size)
        try:
            _reserve(memory.name, size)
        except OSError as error:
            memory.close()
            memory.unlink()
            raise OptionError(f"capacity: {size / 1e6:,.0f} MB of shared memory are not to be had: {error}") from None
        buffer = _bytes(memory)
        buffer[16 : 16 + len(head)] = head
        buffer[8:16] = len(head).to_bytes(8, "little")
        buffer[:8] = MAGIC
        return cls(memory, owned=True)

    @classmethod
    def attach(cls, name: str) -> SharedSegment:
        """The segment of that name, made by another process or by this one.

        Raises:
            NameNotFoundError: there is none: its maker closed it or has ended, or the name is wrong.
            OptionError: it is something else's.
        """
        try:
            memory = _open_untracked(name)
        except FileNotFoundError:
            raise NameNotFoundError(
                f"no shared memory is called {name!r}: its maker has closed it or ended, or the name is wrong"
            ) from None
        if memory.size < 16 or bytes(_bytes(memory)[:8]) != MAGIC:
            memory.close()
            raise OptionError(f"the shared memory {name!r} holds something else than blocks of a memory")
        return cls(memory, owned=False)

    def close(self) -> None:
        """Let go of the blocks, and remove the segment if this process made it. Arrays over them must be gone."""
        self.arrays.clear()
        self._memory.close()
        if self._owner == os.getpid():  # a forked child holds a copy of this object, and must not remove it
            self._memory.unlink()
        self._owner = None


def _bytes(memory: SharedMemory) -> memoryview:
    buffer = memory.buf
    assert buffer is not None, "it is open"
    return buffer


def _aligned(size: int) -> int:
    return -(-size // LINE) * LINE


def _reserve(name: str, size: int) -> None:
    """Take the pages now: a page that cannot be had later would end the process by a signal."""
    path = _ROOM / name.lstrip("/")
    if path.exists():
        with path.open("r+b") as file:
            reserve(file.fileno(), size)


def _open_untracked(name: str) -> SharedMemory:
    """Open without having this process's resource tracker remove the segment when this process ends."""
    if sys.version_info >= (3, 13):
        return SharedMemory(name, track=False)
    # Before 3.13 SharedMemory registers every segment that it opens. It looks the function up in its module at each
    # call, so that another one can stand there meanwhile. Checked with Python 3.11.
    with _attaching:
        register = resource_tracker.register

        def register_others(path: Any, kind: str) -> None:
            if path.lstrip("/") != name.lstrip("/"):
                register(path, kind)

        resource_tracker.register = register_others  # type: ignore[assignment]
        try:
            return SharedMemory(name)
        finally:
            resource_tracker.register = register
