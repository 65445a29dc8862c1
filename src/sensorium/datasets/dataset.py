"""``Dataset`` and ``Episode``: reading the episodes of a task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from numbers import Integral
from pathlib import Path
from typing import Any, NotRequired, TypedDict, overload

import h5py
import numpy as np

from sensorium._arguments import checked, checked_range
from sensorium.cameras import CameraProfile
from sensorium.cameras.options import OUTPUTS
from sensorium.datasets.header import episode_number, is_dataset, read_header
from sensorium.datasets.image_formats import ImageEncoding
from sensorium.datasets.observation_layout import SCHEMA, video_path_of
from sensorium.datasets.video_streams import frame_size, read_video
from sensorium.errors import (
    DatasetError,
    IndexRangeError,
    NameNotFoundError,
    OptionError,
    SensoriumError,
    did_you_mean,
    shorten,
)
from sensorium.json_files import load_json
from sensorium.links import inside
from sensorium.suites import decode
from sensorium.suites.observation import SensorDescription
from sensorium.suites.purposes import Purpose, default_purpose

__all__ = ["Dataset", "Episode", "SuiteEntry", "is_dataset"]


class SuiteEntry(TypedDict):
    """Description of a sensor in the ``suite`` of an episode."""

    at: str
    """Path below ``traj_i``."""
    space: str
    """Its Gymnasium space, as text."""
    text: bool
    """Whether its readings are dicts, stored as text."""
    owner: str
    """Who added it to the suite: "task", "robot" or "policy"."""
    privileged: bool
    """Whether it is ground truth."""
    purpose: Purpose
    """Who may use it: "observation", "privileged" or "annotation"."""
    sensor: NotRequired[SensorDescription]
    """The sensor of the scene that it reads, with its options; missing for other observations."""


class Episode:
    """One episode of a dataset. Arrays and videos are read when they are asked for.

    Args:
        path: HDF5 file of the episode.

    Attributes:
        path: the file.
        number: number of the episode.
        length: number of steps, T. There are T actions and T + 1 observations.
        success: whether the episode succeeded.
        attributes: HDF5 attributes: seed, task, robot, policy, fps, ...
        scene: description of the scene: instruction, objects, cameras, ...
        suite: uuid of a sensor -> its description.

    Raises:
        DatasetError: the file cannot be read.

    Example:
        >>> episode = sn.datasets.open("data/pick")[0]
        >>> episode["obs/agent/qpos"]  # (T + 1, 9) float32
        >>> episode.video("front")  # (T + 1, H, W, 3) uint8
        >>> episode.text("task_info")[0]["instruction"]
    """

    @checked
    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = episode_number(path)
        try:
            with h5py.File(path, "r", locking=False) as file:
                group = file[f"traj_{self.number}"]
                self.attributes: dict[str, Any] = dict(group.attrs)
                self.length = len(group["rewards"])
                self.suite: dict[str, SuiteEntry] = load_json(group["suite"][()])
                self.scene: dict[str, Any] = load_json(group["obs_scene"][()])
                self.success = bool(group["success"][-1]) if self.length else False
        except Exception as error:  # h5py raises nearly anything for damaged metadata
            raise self._damaged(path, error) from None
        if self.attributes.get("schema_version") != SCHEMA:
            raise DatasetError(
                f"{path} has schema version {self.attributes.get('schema_version')}, this version of Sensorium reads "
                f"version {SCHEMA}"
            )

    @property
    def fps(self) -> Fraction:
        """Steps per second."""
        try:
            return Fraction(self.attributes["fps"])
        except (KeyError, ValueError, TypeError, ZeroDivisionError) as error:
            raise self._damaged(self.path, f"attribute fps: {error}") from error

    @property
    def action_names(self) -> list[str]:
        """Names of the columns of the actions."""
        try:
            return [str(name) for name in load_json(self.attributes["action_names"])]
        except (KeyError, ValueError, TypeError) as error:
            raise self._damaged(self.path, f"attribute action_names: {error}") from error

    def paths(self) -> list[str]:
        """Return the paths of all arrays."""
        found: list[str] = []

        def visit(name: str, item: h5py.Group | h5py.Dataset) -> None:
            if isinstance(item, h5py.Dataset) and item.shape:
                found.append(name)

        with self.open_group() as group:
            group.visititems(visit)
        return found

    @contextmanager
    def open_group(self) -> Iterator[h5py.Group]:
        """Open the file, and give its group of the episode. Errors of the block are those of a damaged file."""
        try:
            with h5py.File(self.path, "r", locking=False) as file:
                yield file[f"traj_{self.number}"]
        except SensoriumError:
            raise
        except Exception as error:  # h5py raises nearly anything for damaged metadata
            raise self._damaged(self.path, error) from error

    @checked
    def __getitem__(self, path: str) -> np.ndarray:
        """Return an array by its path below ``traj_i``: "obs/agent/qpos", "actions/action", "rewards".

        Raises:
            NameNotFoundError: there is no such array.
            DatasetError: the file is damaged.
        """
        with self.open_group() as group:
            if "\0" in path or path not in group or not isinstance(group[path], h5py.Dataset):
                known = self.paths()
                hint = did_you_mean(path, known) or f"; it has {shorten(known)}"
                raise NameNotFoundError(f"{self.path} has no array {path!r}{hint}")
            return np.asarray(group[path][()])

    @checked
    def text(self, uuid: str) -> list[dict[str, Any]]:
        """Return the readings of a sensor that reads dicts, one per observation.

        Args:
            uuid: uuid of the sensor, or the path of its array.

        Raises:
            NameNotFoundError: there is no such sensor.
        """
        return decode(self[self.suite[uuid]["at"]] if uuid in self.suite else self[uuid])

    @property
    def cameras(self) -> list[str]:
        """Names of the videos: "front", "front_depth", ..."""
        return [uuid for uuid, entry in self.suite.items() if entry["at"].startswith("obs/sensor_data/")]

    @checked
    def video_path(self, name: str) -> Path:
        """Return the path of a video.

        Raises:
            NameNotFoundError: there is no such video.
            DatasetError: the file names a video outside its folder.
        """
        if name not in self.cameras:
            hint = did_you_mean(name, self.cameras) or f"; it has {shorten(self.cameras)}"
            raise NameNotFoundError(f"{self.path} has no video {name!r}{hint}")
        with self.open_group() as group:
            return inside(self.path.parent, group[video_path_of(name)][()].decode())

    def image_format(self, name: str) -> ImageEncoding:
        """Return the kind, shape and dtype of the images of a video."""
        path = self.video_path(name)
        with self.open_group() as group:
            attributes = dict(group[video_path_of(name)].attrs)
        size = (0, 0) if "kind" in attributes else frame_size(path)
        try:
            return ImageEncoding.from_attributes(name, attributes, size)
        except (KeyError, ValueError, TypeError) as error:
            raise self._damaged(self.path, f"attributes of the video {name!r}: {error}") from error

    def video(self, name: str) -> np.ndarray:
        """Return all images of a video.

        Returns:
            Colour (T + 1, H, W, 3) uint8; depth (T + 1, H, W) float32 in metres, infinite where nothing is hit, or 0
            without a reading if the camera's profile models depth measurement; segmentation (T + 1, H, W, 2) int32,
            body and geom ids; other images in the shape and dtype that their sensor reads.

        Raises:
            NameNotFoundError: there is no such video.
            DatasetError: the video is missing or damaged.
        """
        path = self.video_path(name)
        try:
            images = read_video(path, self.image_format(name), no_depth=self.no_depth(name))
        except (OSError, EOFError, ValueError, MemoryError) as error:  # FFmpeg runs out of memory on damaged sizes
            raise self._damaged(path, error) from None
        if len(images) != self.length + 1:
            raise self._damaged(path, f"it has {len(images)} frames instead of {self.length + 1}")
        return images

    def _damaged(self, path: Path, why: object) -> DatasetError:
        return DatasetError(f"cannot read {path} ({why}); run `sensorium validate {path.parent}`")

    @checked
    def purpose(self, uuid: str) -> Purpose:
        """Return who may use a sensor: "observation", "privileged" or "annotation".

        Raises:
            NameNotFoundError: the suite has no such sensor.
        """
        if uuid not in self.suite:
            hint = did_you_mean(uuid, self.suite) or f"; it has {shorten(self.suite)}"
            raise NameNotFoundError(f"{self.path} has no sensor {uuid!r}{hint}")
        return self.suite[uuid].get("purpose") or default_purpose(uuid)

    @checked
    def camera_options(self, name: str) -> dict[str, Any]:
        """Return the options of the camera of a video, with the complete profile; empty for other image sensors.

        Args:
            name: name of a camera or of one of its videos: "front", "front_depth", ...

        Raises:
            NameNotFoundError: there is no such camera.
        """
        options: dict[str, dict[str, Any]] = {
            **self.scene.get("rig_cameras", {}),
            **{each["name"]: each for each in self.scene.get("config", {}).get("cameras", [])},
        }
        names = (name, *(name.removesuffix(f"_{output}") for output in OUTPUTS if name.endswith(f"_{output}")))
        found = next((options[each] for each in names if each in options), None)
        if found is None and name not in self.cameras:
            known = list(dict.fromkeys([*options, *self.cameras]))
            hint = did_you_mean(name, known) or f"; it has {shorten(known)}"
            raise NameNotFoundError(f"{self.path} has no camera {name!r}{hint}")
        return found or {}

    def camera_profile(self, name: str) -> CameraProfile | None:
        """Return the lens and image sensor of a camera; None for an ideal camera.

        Args:
            name: name of a camera or of one of its videos: "front", "front_depth", ...

        Raises:
            NameNotFoundError: there is no such camera.
        """
        profile = self.camera_options(name).get("profile")
        return None if profile is None else CameraProfile(**profile)

    def no_depth(self, name: str) -> float:
        """Return the value of pixels without depth in a depth video: infinite, or 0 if the profile measures depth."""
        profile = self.camera_profile(name)
        return 0.0 if profile is not None and profile.measures_depth else float("inf")

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return f"<Episode {self.number}, {self.length} steps, {'success' if self.success else 'failure'}>"


class Dataset:
    """The episodes of a task, ordered by number.

    Args:
        folder: folder of the dataset.

    Attributes:
        folder: the folder.
        header: content of ``dataset.json``: options and versions.

    Raises:
        DatasetError: the folder is not a dataset.

    Example:
        >>> data = sn.datasets.Dataset("data/pick")
        >>> len(data), data[0].success
        (8, True)
    """

    @checked
    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.header = read_header(self.folder)
        self._paths = sorted(self.folder.glob("episode_*.h5"))

    def __len__(self) -> int:
        return len(self._paths)

    @overload
    def __getitem__(self, index: int) -> Episode: ...
    @overload
    def __getitem__(self, index: slice) -> list[Episode]: ...
    def __getitem__(self, index: int | slice) -> Episode | list[Episode]:
        """Return one episode, or a list of several."""
        if isinstance(index, slice):
            return [Episode(self._paths[i]) for i in checked_range(self.folder, "episode", index, len(self))]
        if not isinstance(index, Integral):
            raise OptionError(f"a dataset is indexed by integers and slices, got {index!r}")
        if not -len(self) <= index < len(self):
            raise IndexRangeError(f"the dataset has {len(self)} episodes; there is no episode at {index}")
        return Episode(self._paths[index])

    def __iter__(self) -> Iterator[Episode]:
        return (Episode(path) for path in self._paths)

    @property
    def numbers(self) -> list[int]:
        """Numbers of the episodes."""
        return [episode_number(path) for path in self._paths]

    def __repr__(self) -> str:
        return f"<Dataset of {len(self)} episodes of {self.header['options']['task']!r} in {self.folder}>"
