"""``Dataset``: reading episodes of tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from numbers import Integral
from pathlib import Path
from typing import Any, overload

import h5py
import numpy as np

from sensorium.datasets.observation_layout import SCHEMA
from sensorium.datasets.video_streams import kind_of, read_video
from sensorium.errors import DatasetError, NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.suites import decode

ABOUT = "dataset.json"
FORMAT = "sensorium-dataset"
VERSION = 1
INDEX = "index.json"
MANIFEST = "manifest.json"


def read_about(folder: Path) -> dict[str, Any]:
    """``dataset.json``; an error says what is wrong with the folder."""
    path = folder / ABOUT
    if not path.is_file():
        raise DatasetError(f"{folder} is no data set: it has no {ABOUT}")
    try:
        about = json.loads(path.read_bytes())
    except ValueError as error:
        raise DatasetError(f"{path} cannot be read: {error}") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise DatasetError(f"{path} was not written by Sensorium")
    if about.get("version") != VERSION:
        raise DatasetError(f"{path} has version {about.get('version')!r} of the format, and {VERSION} is known here")
    return about


def read_manifest(folder: Path) -> dict[str, Any]:
    """``manifest.json``: episode -> file -> bytes and check sum; empty where there is none."""
    path = folder / MANIFEST
    if not path.is_file():
        return {}
    try:
        manifest: dict[str, Any] = json.loads(path.read_bytes())
        for files in manifest.values():
            for entry in files.values():
                int(entry["bytes"]), int(entry["crc32"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DatasetError(f"{path} cannot be read: {error}; remove it, and generate again, which writes it") from None
    return manifest


class Episode:
    """One episode, read when it is asked for.

    Example:
        >>> episode = sn.datasets.open("data/pick")[0]
        >>> episode["obs/agent/qpos"]       # (T + 1, 9) float32
        >>> episode.video("front")          # (T + 1, H, W, 3) uint8
        >>> episode.text("task_info")[0]["instruction"]
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = int(path.stem.removeprefix("episode_"))
        try:
            with h5py.File(path, "r", locking=False) as file:
                group = file[f"traj_{self.number}"]
                self.attributes: dict[str, Any] = dict(group.attrs)
                self.length = len(group["rewards"])
                self.suite: dict[str, Any] = json.loads(group["suite"][()])
                self.scene: dict[str, Any] = json.loads(group["obs_scene"][()])
                self.success = bool(group["success"][-1]) if self.length else False
        except (OSError, KeyError, ValueError) as error:
            raise DatasetError(
                f"{path} cannot be read ({error}); `sensorium validate` says what else is wrong"
            ) from None
        if self.attributes.get("schema_version") != SCHEMA:
            raise DatasetError(f"{path} has schema {self.attributes.get('schema_version')}, and {SCHEMA} is known here")

    @property
    def fps(self) -> Fraction:
        """Steps in a second."""
        return Fraction(self.attributes["fps"])

    def paths(self) -> list[str]:
        """Of all arrays."""
        found: list[str] = []

        def visit(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset) and item.shape:
                found.append(name)

        with h5py.File(self.path, "r", locking=False) as file:
            file[f"traj_{self.number}"].visititems(visit)
        return found

    def __getitem__(self, path: str) -> np.ndarray:
        """An array by its path below ``traj_i``, as "obs/agent/qpos", "actions/action", "rewards"."""
        with h5py.File(self.path, "r", locking=False) as file:
            group = file[f"traj_{self.number}"]
            if path not in group or not isinstance(group[path], h5py.Dataset):
                known = self.paths()
                hint = did_you_mean(path, known) or f"; it has {shorten(known)}"
                raise NameNotFoundError(f"{self.path} has no array {path!r}{hint}")
            return np.asarray(group[path][()])

    def text(self, uuid: str) -> list[dict[str, Any]]:
        """What a sensor said that reads as dicts: one for each observation."""
        return decode(self[self.suite[uuid]["at"]] if uuid in self.suite else self[uuid])

    @property
    def cameras(self) -> list[str]:
        """Names of the images: "front", "front_depth", ..."""
        return [uuid for uuid, about in self.suite.items() if about["at"].startswith("obs/sensor_data/")]

    def video_path(self, name: str) -> Path:
        """Where a video lies."""
        if name not in self.cameras:
            hint = did_you_mean(name, self.cameras) or f"; there are {shorten(self.cameras)}"
            raise NameNotFoundError(f"{self.path} has no images {name!r}{hint}")
        with h5py.File(self.path, "r", locking=False) as file:
            return self.path.with_name(file[f"traj_{self.number}/obs/sensor_data/{name}"][()].decode())

    def video(self, name: str) -> np.ndarray:
        """All images of a camera: colour (T + 1, H, W, 3) uint8, depth (..., H, W) m, segmentation (..., H, W, 2)."""
        return read_video(self.video_path(name), kind_of(name))

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return f"<Episode {self.number}, {self.length} steps, {'success' if self.success else 'failure'}>"


class Dataset:
    """Episodes of a task, in the order of their numbers: ``sn.datasets.open("data/pick")``.

    Attributes:
        folder: where it lies.
        about: ``dataset.json``: options and versions.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.about = read_about(self.folder)
        self._paths = sorted(self.folder.glob("episode_*.h5"))

    def __len__(self) -> int:
        return len(self._paths)

    @overload
    def __getitem__(self, index: int) -> Episode: ...
    @overload
    def __getitem__(self, index: slice) -> list[Episode]: ...
    def __getitem__(self, index: int | slice) -> Episode | list[Episode]:
        """One episode, or a list of several."""
        if isinstance(index, slice):
            return [Episode(path) for path in self._paths[index]]
        if not isinstance(index, Integral):
            raise OptionError(f"a data set is indexed by whole numbers and slices, got {index!r}")
        if not -len(self) <= index < len(self):
            raise IndexError(f"the data set has {len(self)} episodes, so there is none at {index}")
        return Episode(self._paths[index])

    def __iter__(self) -> Iterator[Episode]:
        return (Episode(path) for path in self._paths)

    @property
    def numbers(self) -> list[int]:
        """Numbers of the episodes."""
        return [int(path.stem.removeprefix("episode_")) for path in self._paths]

    def __repr__(self) -> str:
        return f"<Dataset of {len(self)} episodes of {self.about['options']['task']!r} in {self.folder}>"
