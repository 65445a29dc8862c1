"""The source of an export: the arrays, texts and images that all episodes of a dataset have in common."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from sensorium.datasets.dataset import Dataset, Episode
from sensorium.datasets.export.reasons import NO_DATA, NOT_REQUESTED, NOT_SELECTED
from sensorium.datasets.export.verified import check_complete, verified_episode
from sensorium.datasets.image_formats import ImageEncoding
from sensorium.datasets.manifest import Manifest
from sensorium.datasets.validate import IndexEntry, index_entry
from sensorium.datasets.video_streams import decode_frames
from sensorium.errors import DatasetError, OptionError, did_you_mean, shorten
from sensorium.files import write_whole
from sensorium.suites.purposes import Purpose

STEPS = ("rewards", "terminated", "truncated", "success", "fail")
"""Arrays with one row per step, besides the actions."""
ACTION = "actions/action"
_BASE_FRAME = "frame of the robot's base"
_UNITS_BELOW = {
    "obs/extra/object_poses/": f"m and (w, x, y, z), {_BASE_FRAME}",
    "env_states/actors/": "m, (w, x, y, z), m/s and rad/s, world frame",
    "env_states/articulations/": "rad or m, then rad/s or m/s",
}
"""Units of nested sensors, which the files do not store: beginning of the path -> unit."""
_AGENT = ("obs/agent/qpos", "obs/agent/qvel")
GROUPS = {"observation": "observation", "privileged": "privileged", "annotation": "info"}
"""Purpose of a sensor -> its place in an export."""
_POSE = ["x", "y", "z", "qw", "qx", "qy", "qz"]
_BODY = [*_POSE, "vx", "vy", "vz", "wx", "wy", "wz"]

Content: TypeAlias = "tuple[tuple[int, ...], np.dtype] | str"
"""Shape of a row and dtype of an array; "text", "nothing", or the space of images for a sensor."""


@dataclass(frozen=True)
class Signal:
    """One numeric array that all episodes have, with one row per observation.

    Attributes:
        path: path below ``traj_i``.
        name: dotted name, the uuid of the sensor and the keys below it: "env_states.actors.red_cube".
        shape: shape of a row, with at least one axis.
        dtype: type of the numbers.
        unit: unit, or "" if it is not known.
        columns: names of the numbers of a row; empty if they are not known.
        purpose: who may use it; see :class:`sensorium.suites.ObservationSensor`.
        part: columns of the stored array that belong to it; None for all.
    """

    path: str
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    unit: str
    columns: list[str]
    purpose: Purpose
    part: tuple[int, ...] | None = None

    @property
    def group(self) -> str:
        """Its place in an export: "observation", "privileged" or "info"."""
        return GROUPS[self.purpose]

    @property
    def key(self) -> str:
        """Its key in ``sensorium.json``: the path, and the name if the array is divided."""
        return self.path if self.part is None else f"{self.path}[{self.name}]"

    @property
    def is_pose(self) -> bool:
        """Whether a row begins with a position and a quaternion (w, x, y, z)."""
        return self.columns[:7] == _POSE

    @property
    def in_base_frame(self) -> bool:
        """Whether it is expressed in the frame of the robot's base instead of the world frame."""
        return self.unit.endswith(_BASE_FRAME)


@dataclass(frozen=True)
class ImageSource:
    """The images of one sensor, under the name of their video."""

    uuid: str
    form: ImageEncoding
    purpose: Purpose

    @property
    def group(self) -> str:
        """Its place in an export: "observation", "privileged" or "info"."""
        return GROUPS[self.purpose]

    @property
    def kind(self) -> str:
        """Image kind: "rgb", "gray", "depth", "segmentation" or "planes"."""
        return self.form.kind

    @property
    def height(self) -> int:
        """Height in pixels."""
        return self.form.shape[0]

    @property
    def width(self) -> int:
        """Width in pixels."""
        return self.form.shape[1]


@dataclass
class ExportSource:
    """The common content of all episodes of a validated dataset.

    Attributes:
        dataset: the dataset.
        manifest: checksums of its files.
        entries: index entries of the episodes, ordered by number.
        fps: steps per second.
        signals: observed arrays, T + 1 rows per episode.
        texts: uuid -> dotted name, of sensors that read dicts.
        cameras: images, T + 1 frames per episode.
        action_names: names of the numbers of an action.
        skipped: path or uuid -> why it is not exported. Formats add to it.
    """

    dataset: Dataset
    manifest: Manifest
    entries: list[IndexEntry]
    fps: Fraction
    signals: list[Signal]
    texts: dict[str, str]
    cameras: list[ImageSource]
    action_names: list[str]
    skipped: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, dataset: Dataset, images: bool = True, include: Sequence[str] = (), exclude: Sequence[str] = ()
    ) -> ExportSource:
        """Return the source for a dataset, after reading the headers of all episodes.

        Args:
            dataset: the dataset.
            images: whether images are exported.
            include, exclude: patterns of what is exported; see :func:`sensorium.datasets.export`.

        Raises:
            DatasetError: the dataset is empty, not complete or not valid.
            OptionError: a pattern matches nothing.
        """
        manifest = check_complete(dataset)
        first = verified_episode(dataset, 0, manifest)
        found, skipped = contents_of(first), dict[str, str]()
        entries = []
        for index in range(len(dataset)):
            episode = verified_episode(dataset, index, manifest)
            entries.append(index_entry(episode))
            if episode.fps != first.fps:
                raise DatasetError(f"{episode.path} has {episode.fps} steps/s, and {first.path} {first.fps}")
            _compare(found, contents_of(episode), skipped)
        common = {name: content for name, content in found.items() if name not in skipped}
        cameras = [
            ImageSource(name, first.image_format(name), first.purpose(name)) for name in common if name in first.cameras
        ]
        texts = {name: dotted(name) for name, content in common.items() if content == "text"}
        signals = []
        for path, content in common.items():
            if isinstance(content, tuple) and content[1].kind in "fiub":
                signals += signals_of(first, path, *content)
            elif isinstance(content, tuple):
                skipped[path] = f"it holds {content[1]} instead of numbers"
            elif content == "nothing":
                skipped[path] = NO_DATA
        if not images:
            cameras, skipped = [], skipped | {camera.uuid: NOT_REQUESTED for camera in cameras}
        names = first.action_names
        source = cls(dataset, manifest, entries, first.fps, signals, texts, cameras, names, skipped)
        source._select(include, exclude)
        return source

    def _select(self, include: Sequence[str], exclude: Sequence[str]) -> None:
        """Skip what the patterns do not select."""
        first = self.dataset[0]
        names: dict[str, tuple[tuple[str, ...], str]] = {}
        names |= {signal.key: ((signal.group,), signal.name) for signal in self.signals}
        # formats without a place for texts write them as info
        names |= {uuid: (("text", GROUPS[first.purpose(uuid)]), name) for uuid, name in self.texts.items()}
        names |= {camera.uuid: ((camera.group,), dotted(camera.uuid)) for camera in self.cameras}

        def matches(key: str, pattern: str) -> bool:
            groups, name = names[key]
            parts = name.split(".")
            wholes = [".".join(parts[:end]) for end in range(1, len(parts) + 1)]  # a sensor includes all its arrays
            return any(fnmatchcase(each, pattern) for each in (key, *(f"{group}.{name}" for group in groups), *wholes))

        for pattern in (*include, *exclude):
            if not any(matches(key, pattern) for key in names):
                known = [name for _, name in names.values()]
                known += [f"{groups[0]}.{name}" for groups, name in names.values()]
                hint = did_you_mean(pattern, known) or f"; there are {shorten(known)}"
                raise OptionError(f"the pattern {pattern!r} matches nothing in the dataset{hint}")
        chosen = {key for key in names if not include or any(matches(key, pattern) for pattern in include)}
        chosen -= {key for key in names if any(matches(key, pattern) for pattern in exclude)}
        self.skipped |= {key: NOT_SELECTED for key in names if key not in chosen}
        self.signals = [signal for signal in self.signals if signal.key in chosen]
        self.texts = {uuid: name for uuid, name in self.texts.items() if uuid in chosen}
        self.cameras = [camera for camera in self.cameras if camera.uuid in chosen]

    def skip_images(self, kinds: tuple[str, ...], why: str) -> list[ImageSource]:
        """Skip images of some kinds; return the cameras of the other kinds."""
        self.skipped |= {camera.uuid: why for camera in self.cameras if camera.kind in kinds}
        return [camera for camera in self.cameras if camera.kind not in kinds]

    def skip_others(self, why: str) -> None:
        """Skip images that are no observations."""
        self.skipped |= {camera.uuid: why for camera in self.cameras if camera.group != "observation"}
        self.cameras = [camera for camera in self.cameras if camera.group == "observation"]

    def skip_small_depth(self, size: int, why: str) -> None:
        """Skip depth images with fewer than ``size`` rows or columns."""
        small = [camera for camera in self.cameras if camera.kind == "depth" and min(camera.form.shape) < size]
        self.skipped |= {camera.uuid: why for camera in small}
        self.cameras = [camera for camera in self.cameras if camera not in small]

    @property
    def n_steps(self) -> int:
        """Total number of steps of all episodes."""
        return sum(entry["length"] for entry in self.entries)

    @property
    def options(self) -> dict[str, Any]:
        """Options that the dataset was generated with: task, robot, policy, seed, ..."""
        options: dict[str, Any] = self.dataset.header["options"]
        return options

    def episodes(self) -> Iterator[Episode]:
        """Yield the episodes in order.

        Raises:
            DatasetError: a file of an episode does not match its checksum.
        """
        for index, entry in enumerate(self.entries):
            episode = verified_episode(self.dataset, index, self.manifest, videos=bool(self.cameras))
            if episode.number != entry["number"] or episode.length != entry["length"]:
                raise _changed(self.dataset.folder, f"{episode.path.name} has {episode.length} steps")
            yield episode

    def read(self, episode: Episode, signal: Signal) -> np.ndarray:
        """Return a signal of an episode, (T + 1, *shape)."""
        values = episode[signal.path]
        if len(values) != episode.length + 1:
            raise _changed(self.dataset.folder, f"{episode.path.name}: {signal.path} has {len(values)} rows")
        if signal.part is not None:
            values = values[:, signal.part]
        return values.reshape(len(values), *signal.shape)

    def frames(self, episode: Episode, camera: ImageSource) -> Iterator[np.ndarray]:
        """Yield the T + 1 images of an episode, as :meth:`Episode.video` returns them."""
        import av

        path, count, no_depth = episode.video_path(camera.uuid), 0, episode.no_depth(camera.uuid)
        with av.open(str(path)) as file:
            for frame in decode_frames(file):
                yield camera.form.restore(frame.to_ndarray(format=camera.form.pixel_format), no_depth)
                count += 1
        if count != episode.length + 1:
            raise _changed(self.dataset.folder, f"{path.name} has {count} frames")

    def note(self, folder: Path, kept: dict[str, dict[str, Any]]) -> None:
        """Write ``sensorium.json``: the header of the dataset, what was exported and what was skipped.

        Args:
            folder: output folder.
            kept: path or uuid in the dataset -> its name and properties in the export.
        """
        content = {"source": self.dataset.header, "kept": kept, "left_out": self.skipped}
        write_whole(folder / "sensorium.json", json.dumps(content, indent=1).encode())


def dotted(path: str) -> str:
    """Return a path as a dotted name."""
    return path.replace("%2F", ".").replace("/", ".")


def scene_line(index: int, episode: Episode) -> str:
    """Return the line of ``scenes.jsonl`` of an episode: what is not in its arrays."""
    line = {
        "episode_index": index,
        "number": episode.number,
        "seed": int(episode.attributes["seed"]),
        "success": episode.success,
        "scene": episode.scene,
    }
    return json.dumps(line) + "\n"


def _changed(folder: Path, what: str) -> DatasetError:
    return DatasetError(f"{what}, which changed since the validation; run `sensorium validate {folder}`")


def contents_of(episode: Episode) -> dict[str, Content]:
    """Return the observations of an episode: path of an array, or uuid of a text or image sensor -> content."""
    found: dict[str, Content] = {}
    text_paths = {entry["at"] for entry in episode.suite.values() if entry["text"]}
    with episode.open_group() as group:
        for path in episode.paths():
            if path not in text_paths and path not in (*STEPS, ACTION):
                found[path] = (group[path].shape[1:], group[path].dtype)
    for uuid, entry in episode.suite.items():
        if entry["text"]:
            found[uuid] = "text"
        elif uuid in episode.cameras:
            found[uuid] = entry["space"]
        elif not any(f"{path}/".startswith(f"{entry['at']}/") for path in found):
            found[uuid] = "nothing"
    return found


def _compare(known: dict[str, Content], other: dict[str, Content], skipped: dict[str, str]) -> None:
    for name in known.keys() ^ other.keys():
        skipped[name] = "not every episode has it"
    for name in known.keys() & other.keys():
        if known[name] != other[name]:
            skipped[name] = "its shape or type differs between episodes"


def signals_of(episode: Episode, path: str, shape: tuple[int, ...], dtype: np.dtype) -> list[Signal]:
    """Return an array as one signal, or two: the pose of a driving base is no observation, its other joints are."""
    uuid, at = max(
        ((uuid, entry["at"]) for uuid, entry in episode.suite.items() if f"{path}/".startswith(f"{entry['at']}/")),
        key=lambda pair: len(pair[1]),
        default=(path, path),
    )
    with episode.open_group() as group:
        unit = str(group[path].attrs.get("unit", ""))
    unit = unit or next((unit for below, unit in _UNITS_BELOW.items() if path.startswith(below)), "")
    shape, name = shape or (1,), dotted(uuid + path.removeprefix(at))
    names = _columns(episode, path, shape)
    purpose = episode.purpose(uuid) if uuid in episode.suite else "observation"
    whole = Signal(path, name, shape, dtype, unit, names, purpose)
    bases = {group for group, kind in episode.scene.get("group_kinds", {}).items() if kind == "base"}
    if path not in _AGENT or not bases or not names:
        return [whole]
    parts = {
        group: tuple(column for column, each in enumerate(names) if each.startswith(f"{group}.")) for group in bases
    }
    rest = tuple(column for column in range(len(names)) if not any(column in part for part in parts.values()))
    if not rest:
        return [replace(whole, purpose="privileged")]
    signals = [replace(whole, shape=(len(rest),), columns=[names[column] for column in rest], part=rest)]
    for group, part in parts.items():
        columns = [names[column] for column in part]
        changes: dict[str, Any] = {"name": f"{name}.{group}", "shape": (len(part),), "columns": columns, "part": part}
        signals.append(replace(whole, purpose="privileged", **changes))
    return signals


def _columns(episode: Episode, path: str, shape: tuple[int, ...]) -> list[str]:
    if path in _AGENT:
        names = [f"{group}.{joint}" for group, joints in episode.scene["move_groups"].items() for joint in joints]
    elif path.startswith("env_states/actors/"):
        names = _BODY
    elif "pose" in path:
        names = _POSE
    else:
        names = []
    return names if len(names) == prod(shape) else []


def image_note(camera: ImageSource, name: str) -> dict[str, Any]:
    """Return the entry of a camera in ``sensorium.json``."""
    return {"name": name, "unit": camera.form.video.unit, "shape": [camera.height, camera.width]}
