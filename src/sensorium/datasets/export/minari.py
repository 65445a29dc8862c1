"""Minari datasets, for offline reinforcement learning with Gymnasium's spaces.

::

    sensorium/TASK/ROBOT-POLICY-v0/data/        what ``minari.load_dataset`` reads below ``MINARI_DATASETS_PATH``
        observations        a Dict of Boxes: observations by name; camera images as JPEG
        infos               success, fail; privileged.NAME and info.NAME, the other arrays; texts as JSON
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import gymnasium
import h5py
import numpy as np

from sensorium import __version__
from sensorium.datasets.dataset import Episode
from sensorium.datasets.export.source import ACTION, ExportSource, ImageSource, Signal, image_note, scene_line
from sensorium.hdf5_files import Hdf5File

if TYPE_CHECKING:
    from minari.data_collector import EpisodeBuffer

_NAMESPACE = "namespace_metadata.json"
_MIN_IMAGE = 32
"""Pixels along the shorter side below which Minari treats an image as a plain array."""


def write(source: ExportSource, folder: Path, progress: Callable[[int], None]) -> None:
    """Write a dataset into an empty folder."""
    why = "Minari stores arrays of this size uncompressed; read it from the source dataset"
    source.cameras = source.skip_images(("depth", "segmentation", "planes"), why)
    source.skip_others("images in Minari are observations")
    name = dataset_id(source)
    data = folder / name / "data"
    data.mkdir(parents=True)
    for parent in Path(name).parents:
        if parent.name:
            (folder / parent / _NAMESPACE).write_text("{}")
    with _safe_files() as check:
        _write_data(source, folder, data, name, check, progress)
    source.note(folder, _kept(source))


@contextmanager
def _safe_files() -> Iterator[Callable[[], None]]:
    """Let Minari write its HDF5 files as :class:`Hdf5File` during the block, since a full disk crashes h5py's own.

    Yields:
        A function that raises the error of an earlier write.
    """
    from minari.dataset._storages import hdf5_storage  # private; checked with Minari 0.5.4

    opened: list[Hdf5File] = []

    class _Hdf5:
        """The module h5py, with other files."""

        def __getattr__(self, name: str) -> object:
            return getattr(h5py, name)

        def File(self, path: str, mode: str, **options: object) -> h5py.File:  # noqa: N802
            if mode == "r":
                return h5py.File(path, mode, **options)
            opened.append(Hdf5File(path, mode, **options))
            return opened[-1]

    def check() -> None:
        for file in opened:
            file.check()

    before = hdf5_storage.h5py
    hdf5_storage.h5py = _Hdf5()
    try:
        yield check
    finally:
        hdf5_storage.h5py = before


def _write_data(
    source: ExportSource,
    folder: Path,
    data: Path,
    name: str,
    check: Callable[[], None],
    progress: Callable[[int], None],
) -> None:
    """Write the episodes with Minari's own storage."""
    import minari
    from minari.dataset.minari_storage import MinariStorage

    storage = MinariStorage.new(data, _observation_space(source), _action_space(source))
    options = source.options
    storage.update_metadata(
        {
            "dataset_id": name,
            "minari_version": minari.__version__,
            "algorithm_name": str(options["policy"]),
            "description": f"{options['task']} by {options['robot']}, seed {options['seed']}, Sensorium {__version__}",
            "requirements": [f"sensorium=={__version__}"],
        }
    )
    with open(folder / "scenes.jsonl", "w") as scenes:
        storage.update_episodes(_buffers(source, scenes, check, progress))


def dataset_id(source: ExportSource) -> str:
    """Return the name for ``minari.load_dataset``: "sensorium/pick/franka-planner-v0"."""
    task, robot, policy = (re.sub(r"[^\w]", "_", str(source.options[name])) for name in ("task", "robot", "policy"))
    return f"sensorium/{task}/{robot}-{policy}-v0"


class _Frames:
    """The images of a video as colours, decoded during iteration."""

    def __init__(self, source: ExportSource, episode: Episode, camera: ImageSource) -> None:
        self._source, self._episode, self._camera = source, episode, camera

    def __iter__(self) -> Iterator[np.ndarray]:
        for image in self._source.frames(self._episode, self._camera):
            grey = image.reshape(*image.shape[:2], -1).shape[2] == 1
            yield np.repeat(image.reshape(*image.shape[:2], 1), 3, axis=2) if grey else image


def _buffers(
    source: ExportSource, scenes: TextIO, check: Callable[[], None], progress: Callable[[int], None]
) -> Iterator[EpisodeBuffer]:
    """Yield the episodes in the form that Minari stores."""
    from minari.data_collector import EpisodeBuffer

    for index, episode in enumerate(source.episodes()):
        observations: dict[str, Any] = {signal.name: source.read(episode, signal) for signal in _observed(source)}
        for camera in source.cameras:
            frames = _Frames(source, episode, camera)
            large = min(camera.height, camera.width) >= _MIN_IMAGE
            observations[camera.uuid] = frames if large else np.stack(list(frames))
        infos: dict[str, Any] = {
            name: np.concatenate([[False], episode[name]]) for name in ("success", "fail")
        }  # False at reset
        others = [signal for signal in source.signals if signal.group != "observation"]
        infos |= {f"{signal.group}.{signal.name}": source.read(episode, signal) for signal in others}
        infos |= {name: [json.dumps(each) for each in episode.text(uuid)] for uuid, name in source.texts.items()}
        scenes.write(scene_line(index, episode))
        yield EpisodeBuffer(
            id=index,
            seed=int(episode.attributes["seed"]),
            observations=observations,
            actions=episode[ACTION],  # type: ignore[arg-type]
            rewards=episode["rewards"],  # type: ignore[arg-type]
            terminations=episode["terminated"],  # type: ignore[arg-type]
            truncations=episode["truncated"],  # type: ignore[arg-type]
            infos=infos,
        )
        check()
        progress(1)


def _observation_space(source: ExportSource) -> gymnasium.spaces.Dict:
    observed = _observed(source)
    spaces: dict[str, gymnasium.Space] = {signal.name: _box(signal.shape, signal.dtype) for signal in observed}
    for camera in source.cameras:
        spaces[camera.uuid] = gymnasium.spaces.Box(0, 255, (camera.height, camera.width, 3), np.uint8)
    return gymnasium.spaces.Dict(spaces)


def _observed(source: ExportSource) -> list[Signal]:
    return [signal for signal in source.signals if signal.group == "observation"]


def _action_space(source: ExportSource) -> gymnasium.spaces.Box:
    return _box((len(source.action_names),), np.dtype(np.float32))


def _box(shape: tuple[int, ...], dtype: np.dtype) -> gymnasium.spaces.Box:
    if dtype.kind == "f":
        return gymnasium.spaces.Box(-np.inf, np.inf, shape, dtype.type)
    if dtype.kind == "b":
        return gymnasium.spaces.Box(0, 1, shape, np.bool_)  # type: ignore[arg-type]
    limits = np.iinfo(dtype)
    return gymnasium.spaces.Box(limits.min, limits.max, shape, dtype.type)


def _place(signal: Signal) -> str:
    is_observation = signal.group == "observation"
    return f"observations/{signal.name}" if is_observation else f"infos/{signal.group}.{signal.name}"


def _kept(source: ExportSource) -> dict[str, dict[str, Any]]:
    kept: dict[str, dict[str, Any]] = {
        signal.key: {"name": _place(signal), "unit": signal.unit, "columns": signal.columns}
        for signal in source.signals
    }
    kept |= {camera.uuid: image_note(camera, f"observations/{camera.uuid}") for camera in source.cameras}
    kept |= {uuid: {"name": f"infos/{name}", "form": "JSON"} for uuid, name in source.texts.items()}
    kept |= {"success": {"name": "infos/success"}, "fail": {"name": "infos/fail"}, "rewards": {"name": "rewards"}}
    kept |= {"terminated": {"name": "terminations"}, "truncated": {"name": "truncations"}}
    return kept | {ACTION: {"name": "actions", "columns": source.action_names}}
