"""What is exported: the arrays, texts and images that every episode of a data set has, and what they are called."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from sensorium.datasets.dataset import INDEX, Dataset, Episode
from sensorium.datasets.video_streams import KINDS, from_stored, kind_of
from sensorium.errors import DatasetError
from sensorium.files import write_whole

STEPS = ("rewards", "terminated", "truncated", "success", "fail")
"""Arrays with one row a step, beside the actions."""
ACTION = "actions/action"
_BASE_FRAME = "frame of the robot's base"
_UNITS_BELOW = {
    "obs/extra/object_poses/": f"m and (w, x, y, z), {_BASE_FRAME}",
    "env_states/actors/": "m, (w, x, y, z), m/s and rad/s, world frame",
    "env_states/articulations/": "rad or m, then rad/s or m/s",
}
"""Units of nested sensors, of which the files do not say any."""
_POSE = ["x", "y", "z", "qw", "qx", "qy", "qz"]
_BODY = [*_POSE, "vx", "vy", "vz", "wx", "wy", "wz"]


@dataclass(frozen=True)
class Signal:
    """One array of numbers that all episodes have, one row an observation.

    Attributes:
        path: where it lies below ``traj_i``.
        name: its sensor's uuid and what is below it, with dots: "env_states.actors.red_cube".
        shape: of a row, at least one axis.
        dtype: of its numbers.
        unit: as the data set says, or "".
        columns: what each number of a row is called; empty where nobody says.
    """

    path: str
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    unit: str
    columns: list[str]

    @property
    def is_pose(self) -> bool:
        """Whether a row begins with a position and a quaternion (w, x, y, z)."""
        return self.columns[:7] == _POSE

    @property
    def in_base_frame(self) -> bool:
        """Whether it is told in the frame of the robot's base, and not of the world."""
        return self.unit.endswith(_BASE_FRAME)


@dataclass(frozen=True)
class ImageSource:
    """The images of one camera: ``kind`` is "rgb", "depth" or "segmentation"."""

    uuid: str
    kind: str
    height: int
    width: int


@dataclass
class ExportSource:
    """A data set that was validated, seen as what all of its episodes have.

    Attributes:
        dataset: where it comes from.
        entries: of the index, one an episode, in the order of their numbers.
        fps: steps in a second.
        signals: numbers observed, T + 1 rows an episode.
        texts: uuid -> name, of sensors that read as dicts.
        cameras: images, T + 1 frames an episode.
        action_names: what each number of an action is called.
        left_out: what cannot be exported, by path or uuid -> why. Formats add to it.
    """

    dataset: Dataset
    entries: list[dict[str, Any]]
    fps: Fraction
    signals: list[Signal]
    texts: dict[str, str]
    cameras: list[ImageSource]
    action_names: list[str]
    left_out: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, dataset: Dataset, images: bool = True) -> ExportSource:
        """Look at every episode of a data set.

        Raises:
            DatasetError: it is empty, not complete, or was not found valid.
        """
        entries = _entries(dataset)
        first = dataset[0]
        found, left_out = _contents(first), dict[str, str]()
        for episode in dataset:
            if episode.fps != first.fps:
                raise DatasetError(f"{episode.path} has {episode.fps} steps/s, and {first.path} {first.fps}")
            _compare(found, _contents(episode), left_out)
        common = {name: what for name, what in found.items() if name not in left_out}
        cameras = [_camera(first, name) for name in common if name in first.cameras]
        texts = {name: dotted(name) for name, what in common.items() if what == "text"}
        signals = []
        for path, what in common.items():
            if isinstance(what, tuple) and what[1].kind in "fiub":
                signals.append(_signal(first, path, *what))
            elif isinstance(what, tuple):
                left_out[path] = f"it has no numbers, but {what[1]}"
            elif what == "nothing":
                left_out[path] = "it has nothing to say in this data set"
        if not images:
            left_out |= {camera.uuid: "images were not asked for" for camera in cameras}
            cameras = []
        names = json.loads(first.attributes["action_names"])
        return cls(dataset, entries, first.fps, signals, texts, cameras, names, left_out)

    def leave_out(self, kinds: tuple[str, ...], why: str) -> list[ImageSource]:
        """The cameras whose images are of other kinds; those of these are noted as left out."""
        self.left_out |= {camera.uuid: why for camera in self.cameras if camera.kind in kinds}
        return [camera for camera in self.cameras if camera.kind not in kinds]

    @property
    def n_steps(self) -> int:
        """Of all episodes."""
        return sum(entry["length"] for entry in self.entries)

    @property
    def options(self) -> dict[str, Any]:
        """What the data set was generated with: task, robot, policy, seed, ..."""
        options: dict[str, Any] = self.dataset.about["options"]
        return options

    def episodes(self) -> Iterator[Episode]:
        """One after the other; each is as long as the index says."""
        for episode, entry in zip(self.dataset, self.entries, strict=True):
            if episode.number != entry["number"] or episode.length != entry["length"]:
                raise _changed(self.dataset.folder, f"{episode.path.name} has {episode.length} steps")
            yield episode

    def read(self, episode: Episode, signal: Signal) -> np.ndarray:
        """A signal of an episode: (T + 1, *shape)."""
        values = episode[signal.path]
        if len(values) != episode.length + 1:
            raise _changed(self.dataset.folder, f"{episode.path.name}: {signal.path} has {len(values)} rows")
        return values.reshape(len(values), *signal.shape)

    def frames(self, episode: Episode, camera: ImageSource) -> Iterator[np.ndarray]:
        """The T + 1 images of an episode one after the other: see :meth:`Episode.video`."""
        import av

        path, count = episode.video_path(camera.uuid), 0
        form = "rgb24" if camera.kind == "rgb" else "gray16le"
        with av.open(str(path)) as file:
            for frame in file.decode(video=0):
                yield from_stored(frame.to_ndarray(format=form), camera.kind)
                count += 1
        if count != episode.length + 1:
            raise _changed(self.dataset.folder, f"{path.name} has {count} frames")

    def note(self, folder: Path, kept: dict[str, dict[str, Any]]) -> None:
        """Write what became of everything: ``sensorium.json``.

        Args:
            folder: where to.
            kept: path or uuid in the data set -> what it is in the export.
        """
        about = {"source": self.dataset.about, "kept": kept, "left_out": self.left_out}
        write_whole(folder / "sensorium.json", json.dumps(about, indent=1).encode())


def dotted(path: str) -> str:
    """A name without slashes."""
    return path.replace("%2F", ".").replace("/", ".")


def scene_line(index: int, episode: Episode) -> str:
    """One line of ``scenes.jsonl``: what no array says of an episode."""
    about = {
        "episode_index": index,
        "number": episode.number,
        "seed": int(episode.attributes["seed"]),
        "success": episode.success,
        "scene": episode.scene,
    }
    return json.dumps(about) + "\n"


def _entries(dataset: Dataset) -> list[dict[str, Any]]:
    folder = dataset.folder
    advice = f"run `sensorium validate {folder}`, which says what is wrong"
    try:
        entries = json.loads((folder / INDEX).read_bytes())["episodes"]
        entries = sorted(entries, key=lambda entry: entry["number"])
    except FileNotFoundError:
        raise DatasetError(f"{folder} was not validated yet: there is no {INDEX}; {advice}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DatasetError(f"{folder / INDEX} cannot be read ({error}); {advice}") from None
    if not len(dataset):
        raise DatasetError(f"{folder} has no episodes: generate some")
    wanted = dataset.about["options"]["episodes"]
    if [entry["number"] for entry in entries] != dataset.numbers:
        raise DatasetError(f"{folder} has {len(dataset)} episodes, of which {len(entries)} were found valid; {advice}")
    if len(dataset) != wanted:
        raise DatasetError(f"{folder} has {len(dataset)} episodes of the {wanted} that were asked for; {advice}")
    return list(entries)


def _changed(folder: Path, what: str) -> DatasetError:
    return DatasetError(f"{what}, unlike when it was validated; run `sensorium validate {folder}`")


def _contents(episode: Episode) -> dict[str, Any]:
    """All that was observed: path -> shape of a row and dtype; of texts and images uuid -> what is told of them."""
    found: dict[str, Any] = {}
    of_texts = {entry["at"] for entry in episode.suite.values() if entry["text"]}
    with h5py.File(episode.path, "r", locking=False) as file:
        group = file[f"traj_{episode.number}"]
        for path in episode.paths():
            if path not in of_texts and path not in (*STEPS, ACTION):
                found[path] = (group[path].shape[1:], group[path].dtype)
    for uuid, entry in episode.suite.items():
        if entry["text"]:
            found[uuid] = "text"
        elif uuid in episode.cameras:
            found[uuid] = entry["space"]
        elif not any(f"{path}/".startswith(f"{entry['at']}/") for path in found):
            found[uuid] = "nothing"
    return found


def _compare(known: dict[str, Any], other: dict[str, Any], left_out: dict[str, str]) -> None:
    for name in known.keys() ^ other.keys():
        left_out[name] = "not every episode has it"
    for name in known.keys() & other.keys():
        if known[name] != other[name]:
            left_out[name] = "its shape or type differs between episodes"


def _signal(episode: Episode, path: str, shape: tuple[int, ...], dtype: np.dtype) -> Signal:
    uuid, at = max(
        ((uuid, entry["at"]) for uuid, entry in episode.suite.items() if f"{path}/".startswith(f"{entry['at']}/")),
        key=lambda pair: len(pair[1]),
        default=(path, path),
    )
    with h5py.File(episode.path, "r", locking=False) as file:
        unit = str(file[f"traj_{episode.number}/{path}"].attrs.get("unit", ""))
    unit = unit or next((unit for below, unit in _UNITS_BELOW.items() if path.startswith(below)), "")
    shape = shape or (1,)
    return Signal(path, dotted(uuid + path.removeprefix(at)), shape, dtype, unit, _columns(episode, path, shape))


def _columns(episode: Episode, path: str, shape: tuple[int, ...]) -> list[str]:
    if path in ("obs/agent/qpos", "obs/agent/qvel"):
        names = [f"{group}.{joint}" for group, joints in episode.scene["move_groups"].items() for joint in joints]
    elif path.startswith("env_states/actors/"):
        names = _BODY
    elif "pose" in path:
        names = _POSE
    else:
        names = []
    return names if len(names) == prod(shape) else []


def _camera(episode: Episode, uuid: str) -> ImageSource:
    import av

    kind = kind_of(uuid)
    with av.open(str(episode.video_path(uuid))) as file:
        stream = file.streams.video[0]
        return ImageSource(uuid, kind, stream.height // (2 if kind == "segmentation" else 1), stream.width)


def image_note(camera: ImageSource, name: str) -> dict[str, Any]:
    """What is noted of a camera's images."""
    return {"name": name, "unit": KINDS[camera.kind]["unit"], "shape": [camera.height, camera.width]}
