"""Saved memories: a folder with one ``.npy`` file per field, and a JSON header."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sensorium.entities.experience_layout import ExperienceLayout
from sensorium.entities.kernels import BASE, WRITTEN
from sensorium.entities.rings import Rings
from sensorium.errors import DatasetError
from sensorium.files import explain_errors, lock_folder, made_folder, make_temporary_folder
from sensorium.json_files import load_json

HEADER = "memory.json"
GENERATOR = "generator.npy"
FORMAT = 1


def save(rings: Rings, generator: torch.Generator, folder: Path) -> None:
    """Write the contents of the rings to a new folder, and replace ``folder`` by it when it is complete.

    Raises:
        DatasetError: the folder holds something other than a saved memory, or a writer wrote during the save.
    """
    replace(folder, HEADER, lambda new: _write(rings, generator, new))


def replace(folder: Path, header: str, write: Callable[[Path], None]) -> None:
    """Write a new folder, and replace ``folder`` by it when it is complete.

    Args:
        folder: the folder.
        header: name of the file that a folder must contain to be replaced, unless it is empty.
        write: writes all files to the folder that it is given.

    Raises:
        DatasetError: the folder holds other files.
    """
    if folder.exists() and not (folder / header).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise DatasetError(f"{folder} holds something other than a saved memory; save to another folder")
    with made_folder(folder.parent), explain_errors(folder):
        _remove_leftovers(folder)
        new = make_temporary_folder(folder.parent, f".{folder.name}-")
        with lock_folder(new):
            try:
                write(new)
                if folder.exists():
                    _exchange(new, folder)
                    if new.is_symlink():  # the folder was a link, which the new one replaces
                        new.unlink()
                    else:
                        shutil.rmtree(new)
                else:
                    new.rename(folder)
            except BaseException:
                shutil.rmtree(new, ignore_errors=True)
                raise


def _remove_leftovers(folder: Path) -> None:
    """Remove temporary folders that processes left which were killed. Those that are being written are locked."""
    for path in folder.parent.iterdir():
        if re.fullmatch(rf"\.{re.escape(folder.name)}-[0-9a-f]{{16}}", path.name) and not path.is_symlink():
            with contextlib.suppress(DatasetError), lock_folder(path):
                shutil.rmtree(path, ignore_errors=True)


def _exchange(new: Path, folder: Path) -> None:
    """Swap two folders, atomically where the system can, so that a process that is killed leaves a whole one."""
    # Python has no call for renameat2(2). The numbers are part of the kernel's ABI (since Linux 3.15); glibc has the
    # function since 2.28.
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # C libraries without this function
            at_fdcwd, rename_exchange = -100, 2
            first, second = os.fsencode(new), os.fsencode(folder)
            if ctypes.CDLL(None).renameat2(at_fdcwd, first, at_fdcwd, second, rename_exchange) == 0:
                return
    old = new.with_name(f"{new.name}-old")
    folder.rename(old)
    try:
        new.rename(folder)
    except BaseException:
        old.rename(folder)
        raise
    old.rename(new)


def _write(rings: Rings, generator: torch.Generator, folder: Path) -> None:
    before = rings.sequences.copy()
    held = rings.held()
    writes = rings.counters[:, WRITTEN] - rings.counters[:, BASE]
    stride = rings.n_slots * rings.n_envs
    for place, (each, block) in enumerate(zip(rings.layout.fields, rings.blocks, strict=True)):
        rows = [
            block[writer * stride : writer * stride + held[writer]].cpu().numpy() for writer in range(rings.writers)
        ]
        with open(folder / field_file(place), "wb") as file:  # a memory map on a full disk would kill the process
            form = {"descr": np.dtype(each.dtype).str, "fortran_order": False, "shape": (int(held.sum()), *each.shape)}
            np.lib.format.write_array_header_1_0(file, form)
            for part in rows:
                file.write(np.ascontiguousarray(part, each.dtype).reshape(-1).view(np.uint8).data)
    np.save(folder / GENERATOR, generator.get_state().numpy(), allow_pickle=False)
    if not np.array_equal(before, rings.sequences):
        raise DatasetError("a writer wrote while the memory was being saved; stop all writers during the save")
    header = {
        "format": FORMAT,
        "layout": rings.layout.to_json(),
        "fields": {each.name: field_file(place) for place, each in enumerate(rings.layout.fields)},
        "n_envs": rings.n_envs,
        "n_slots": rings.n_slots,
        "writers": rings.writers,
        "writes": [int(n) for n in writes],
        "generator": rings.device.type,
    }
    (folder / HEADER).write_text(json.dumps(header, indent=2) + "\n")


class SavedMemory:
    """A saved memory, which is checked when it is opened.

    Args:
        folder: the folder.

    Raises:
        DatasetError: the folder does not hold a saved memory, or it is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not (folder / HEADER).is_file():
            raise DatasetError(f"{folder} holds no saved memory: {HEADER} is missing")
        try:
            header: dict[str, Any] = load_json((folder / HEADER).read_text())
            if header["format"] != FORMAT:
                raise DatasetError(f"{folder} has format {header['format']}; this version reads format {FORMAT}")
            self.layout = ExperienceLayout.from_json(header["layout"])
            self.n_envs, self.n_slots, self.writers = header["n_envs"], header["n_slots"], header["writers"]
            self.writes = np.array(header["writes"], np.int64)
            self.generator_device = header["generator"]
            self.generator = np.load(folder / GENERATOR, allow_pickle=False)
            self.fields = [
                np.load(folder / field_file(place), mmap_mode="r", allow_pickle=False)
                for place in range(len(self.layout.fields))
            ]
        except Exception as error:  # NumPy raises nearly anything for damaged files
            raise DatasetError(f"{folder} holds a damaged memory: {error}; save it again") from None
        self.held = np.minimum(self.writes, self.n_slots) * self.n_envs
        for each, array in zip(self.layout.fields, self.fields, strict=True):
            if array.shape != (self.held.sum(), *each.shape) or array.dtype != each.dtype:
                raise DatasetError(
                    f"{folder} holds a damaged memory: {each.name} is {array.dtype} {array.shape}; save it again"
                )

    def restore(self, rings: Rings, generator: torch.Generator) -> None:
        """Copy the contents to empty rings of the same size, and set the state of the random generator."""
        stride = rings.n_slots * rings.n_envs
        for block, array in zip(rings.blocks, self.fields, strict=True):
            start = 0
            for writer, n in enumerate(self.held):
                part = torch.from_numpy(np.array(array[start : start + n]))
                block[writer * stride : writer * stride + n].copy_(part)
                start += n
        slots = np.arange(rings.n_slots)
        for writer, writes in enumerate(self.writes):
            # A ring is full once its first lap is complete; the number of the current lap does not matter.
            writes = writes if writes <= rings.n_slots else rings.n_slots + writes % rings.n_slots
            numbers = slots + np.where(slots < writes - rings.n_slots, rings.n_slots, 0)
            rings.sequences[writer * rings.n_slots + slots] = np.where(slots < writes, 2 * numbers + 2, 0)
            rings.counters[writer, WRITTEN] = writes
        if generator.device.type == self.generator_device:
            try:
                generator.set_state(torch.from_numpy(self.generator))
            except (RuntimeError, TypeError) as error:
                raise DatasetError(
                    f"{self.folder} holds a damaged memory: {GENERATOR}: {error}; save it again"
                ) from None


def field_file(place: int) -> str:
    """Return the name of the file of a field, by its position in the layout."""
    return f"field_{place:02d}.npy"
