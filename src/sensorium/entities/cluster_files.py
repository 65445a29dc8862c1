"""Saved cluster buffers: a folder with one ``.npy`` file per field, the fitted clusters, and a JSON header."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sensorium.entities.cluster_options import ClusterOptions
from sensorium.entities.clusters import Clusters
from sensorium.entities.experience_layout import ExperienceLayout
from sensorium.entities.memory_files import GENERATOR, field_file
from sensorium.errors import DatasetError
from sensorium.json_files import load_json

HEADER = "cluster_buffer.json"
FORMAT = 1
_SERIALS = "serials.npy"
_CLUSTERS = tuple(each.name for each in fields(Clusters))
_COUNTERS = ("next_serial", "fit_at", "missed")


@dataclass(frozen=True)
class ClusterState:
    """The contents of a cluster buffer."""

    layout: ExperienceLayout
    """Fields of a transition."""
    options: ClusterOptions
    """Options of the buffer."""
    arrays: Iterable[np.ndarray]
    """Held rows of each field, ring after ring."""
    serials: np.ndarray
    """Serial number of each held row, int64."""
    counts: np.ndarray
    """(rings,) held rows of each ring, int64."""
    heads: np.ndarray
    """(rings,) next position of each ring, int64."""
    counters: dict[str, int]
    """``next_serial``, ``fit_at`` and ``missed``."""
    balance: float
    """How batches are drawn."""
    generator: np.ndarray
    """State of the random generator, uint8."""
    clusters: Clusters | None
    """The fitted clusters."""

    def write(self, folder: Path) -> None:
        """Write all files to an empty folder."""
        for place, array in enumerate(self.arrays):
            np.save(folder / field_file(place), array, allow_pickle=False)
        np.save(folder / _SERIALS, self.serials, allow_pickle=False)
        np.save(folder / GENERATOR, self.generator, allow_pickle=False)
        if self.clusters is not None:
            for name in _CLUSTERS:
                np.save(folder / _cluster_file(name), getattr(self.clusters, name).numpy(), allow_pickle=False)
        header = {
            "format": FORMAT,
            "layout": self.layout.to_json(),
            "fields": {each.name: field_file(place) for place, each in enumerate(self.layout.fields)},
            "options": self.options.model_dump(mode="json"),
            "counts": self.counts.tolist(),
            "heads": self.heads.tolist(),
            "counters": self.counters,
            "balance": self.balance,
            "fitted": self.clusters is not None,
        }
        (folder / HEADER).write_text(json.dumps(header, indent=2) + "\n")

    @classmethod
    def read(cls, folder: Path) -> ClusterState:
        """Return the contents of a folder.

        Raises:
            DatasetError: the folder does not hold a saved buffer, or it is damaged.
        """
        if not (folder / HEADER).is_file():
            raise DatasetError(f"{folder} holds no saved cluster buffer: {HEADER} is missing")
        try:
            header: dict[str, Any] = load_json((folder / HEADER).read_text())
            if header["format"] != FORMAT:
                raise DatasetError(f"{folder} has format {header['format']}; this version reads format {FORMAT}")
            layout = ExperienceLayout.from_json(header["layout"])
            clusters = None
            if header["fitted"]:
                clusters = Clusters(*(torch.from_numpy(_load(folder / _cluster_file(name))) for name in _CLUSTERS))
            state = cls(
                layout,
                ClusterOptions(**header["options"]),
                [_load(folder / field_file(place), mapped=True) for place in range(len(layout.fields))],
                _load(folder / _SERIALS),
                np.array(header["counts"], np.int64),
                np.array(header["heads"], np.int64),
                {name: int(header["counters"][name]) for name in _COUNTERS},
                float(header["balance"]),
                _load(folder / GENERATOR),
                clusters,
            )
            state._check()
        except Exception as error:  # NumPy raises nearly anything for damaged files
            raise DatasetError(f"{folder} holds a damaged cluster buffer: {error}; save it again") from None
        return state

    def _check(self) -> None:
        """Raise ValueError if a part does not fit the others."""
        rings = 1 if self.clusters is None else self.options.clusters
        stride = self.options.capacity // self.options.clusters * self.options.clusters // rings
        if self.counts.shape != (rings,) or self.heads.shape != (rings,):
            raise ValueError(f"counts and heads must have {rings} numbers, got {self.counts.size}, {self.heads.size}")
        full = self.counts == stride
        if not ((self.heads >= 0) & (self.heads < stride) & (full | (self.heads == self.counts))).all():
            raise ValueError("counts and heads contradict each other")
        n = int(self.counts.sum())
        for each, array in zip(self.layout.fields, self.arrays, strict=True):
            if array.shape != (n, *each.shape) or array.dtype != each.dtype:
                raise ValueError(f"{each.name} is {array.dtype} {array.shape}")
        if self.serials.shape != (n,) or self.serials.dtype != np.int64:
            raise ValueError(f"{_SERIALS} is {self.serials.dtype} {self.serials.shape}")
        if self.clusters is not None:
            width, size = self.clusters.components.shape
            shapes = [(width,), (width,), (width, size), (rings, size), (width, rings), (rings,)]
            for name, shape in zip(_CLUSTERS, shapes, strict=True):
                tensor = getattr(self.clusters, name)
                if tensor.shape != shape or tensor.dtype != torch.float32:
                    raise ValueError(f"{_cluster_file(name)} is {tensor.dtype} {tuple(tensor.shape)}")
        torch.Generator().set_state(torch.from_numpy(self.generator))


def _load(path: Path, mapped: bool = False) -> np.ndarray:
    array: np.ndarray = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    return array


def _cluster_file(name: str) -> str:
    return f"cluster_{name}.npy"
