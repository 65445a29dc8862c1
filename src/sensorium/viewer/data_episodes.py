"""The episodes of a dataset as the source of a page: recorded poses in the rebuilt scene of the task."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch

from sensorium import tasks
from sensorium.datasets import Dataset, Episode
from sensorium.datasets.header import FAILED, episode_number
from sensorium.datasets.image_formats import ImageEncoding
from sensorium.errors import DatasetError, SensoriumError
from sensorium.generation import GenerateOptions
from sensorium.generation.sources import make_task
from sensorium.recording.image_reader import VideoReader
from sensorium.tasks.tensor.episodes import TensorEpisodes
from sensorium.viewer.data_lidars import StoredLidar, find_lidars
from sensorium.viewer.data_source import POINTS, Series, Texts, as_columns, column_names
from sensorium.worlds import Entity, Scene

_ORDER = ("obs/agent", "actions/action", "obs/extra", "actions", "env_states", "", "obs/sensor_param")
"""Order of the arrays in the list, by the beginning of their paths; the longest match counts."""
_MAX_TEXT = 60
"""Maximum number of characters of an instruction in the list."""


class EpisodeSource:
    """The episodes of a dataset as a :class:`~sensorium.viewer.data_source.PageSource`.

    The task is rebuilt from the options of the dataset and reset to the start of the episode, which sets the pose and
    the look of everything that does not move. Moving bodies are set to the recorded poses.
    """

    kind = "Episode"
    hidden: frozenset[str] = frozenset()

    def __init__(self, data: Dataset) -> None:
        self.title = f"the dataset {data.folder}"
        self._paths = {
            episode_number(path): path
            for folder in (data.folder / FAILED, data.folder)
            for path in folder.glob("episode_*.h5")
        }
        if not self._paths:
            raise DatasetError(f"{data.folder} has no episodes; generate some first (`sensorium generate --help`)")
        self.keys = sorted(self._paths)
        self._options = data.header["options"]
        self._readers: dict[str, VideoReader] = {}
        self._task: tasks.Task[Any] | TensorEpisodes | None = None
        self._lidars: dict[str, StoredLidar] = {}
        self.choose(self.keys[0])

    # -- choosing an episode ------------------------------------------------------------------------------------------

    def label(self, key: int) -> str:
        """Return the number, success, length and instruction of an episode."""
        try:
            episode = Episode(self._paths[key])
        except SensoriumError:
            return f"{key} · unreadable"
        text = str(episode.scene.get("instruction", ""))
        parts = [f"{key}", "success" if episode.success else "failure", f"{episode.length} steps"]
        return " · ".join([*parts, text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"]).removesuffix(" · ")

    def choose(self, key: int) -> None:
        """Open an episode, and reset the scene to its start."""
        episode = Episode(self._paths[key])
        states = {path: episode[path] for path in episode.paths() if path.startswith("env_states/")}
        scene, env = self._reset(key)
        self.close_videos()
        self.key, self._episode, self._states, self.scene, self.env = key, episode, states, scene, env
        self.n_steps, self.dt = episode.length + 1, float(1 / episode.fps)
        self._formats = {name: episode.image_format(name) for name in episode.cameras}
        kinds = {name: _picture_kind(name, form) for name, form in self._formats.items()}
        self.images = {name: kind for name, kind in kinds.items() if kind is not None}
        self.names = sorted(episode.paths(), key=_rank)
        self._lidars = find_lidars(episode, scene.model)

    def _reset(self, number: int) -> tuple[Scene, int]:
        """Reset the task to the start of an episode; return its scene and env."""
        options = self._options
        if self._task is None:
            several = options["task"] == tasks.MultiTask.name  # the env of the episode selects one of its tasks
            fixed = {"n_envs": options["envs"] if several else 1, "use_sensors": False, "keep_history": False}
            self._task = make_task(GenerateOptions(**options), **fixed)
        task, env = self._task, number % self._task.n_envs
        task.reset(envs=[env], numbers=[number])
        if isinstance(task, tasks.MultiTask):
            own, part = divmod(env, len(task.tasks))
            return task.tasks[part].scene, own
        return task.scene, env

    # -- a step -------------------------------------------------------------------------------------------------------

    def pose(self, step: int) -> None:
        """Set all bodies to the recorded poses of a step."""
        world, env = self.scene.world, self.env
        for name, entity in self.scene.entities.items():
            poses = self._states.get(f"env_states/actors/{name}")
            joints = self._states.get(f"env_states/articulations/{name}")
            if poses is not None:
                self._place(entity, poses[step, :3], poses[step, 3:7])
            if joints is not None:
                entity.set_joint_positions(joints[step, : len(entity.joint_names)], envs=[env])
        world.forward([env])

    def _place(self, entity: Entity, pos: np.ndarray, quat: np.ndarray) -> None:
        world, env = self.scene.world, self.env
        mocap = int(world.model.body_mocapid[entity._body])
        if entity._base is not None:
            entity.set_pose(pos, quat, envs=[env])
        elif mocap >= 0:
            world.bind("mocap_pos")[env, mocap] = torch.from_numpy(pos.astype(np.float64))
            world.bind("mocap_quat")[env, mocap] = torch.from_numpy(quat.astype(np.float64))

    def returns(self, step: int) -> dict[str, np.ndarray]:
        """Return where the rays of lidars ended whose distances are observations."""
        if not self._lidars:
            return {}
        with self._episode.open_group() as group:
            readings = {path: np.asarray(group[path][step]) for path in self._lidars}
        world, env = self.scene.world, self.env
        return {path: self._lidars[path].returns(world, env, reading) for path, reading in readings.items()}

    def image(self, name: str, step: int) -> np.ndarray:
        """Return a frame of a video."""
        form, path = self._formats[name], self._episode.video_path(name)
        try:
            if name not in self._readers:
                self._readers[name] = VideoReader(path, form.pixel_format)
            frame = self._readers[name].read(step)
            return frame if form.is_colour else form.restore(frame, self._episode.no_depth(name))
        except (OSError, EOFError, ValueError, IndexError) as error:
            raise DatasetError(f"cannot read step {step} of {path} ({error}); run `sensorium validate`") from None

    # -- arrays over time ---------------------------------------------------------------------------------------------

    def series(self, name: str) -> Series | Texts:
        """Return an array over time, or texts if a sensor reads more than numbers.

        An action is at the step before it is applied, a reward at the step that earned it.
        """
        episode, values = self._episode, self._episode[name]
        if name in {entry["at"] for entry in episode.suite.values() if entry["text"]}:
            readings = episode.text(name)
            numbers = [_numbers(reading) for reading in readings]
            known = list(next(filter(None, numbers), ()))
            if not known or any(list(row) != known for row, reading in zip(numbers, readings, strict=True) if reading):
                return Texts([json.dumps(reading, indent=1, ensure_ascii=False) for reading in readings])
            values = np.array([list(row.values()) or [np.nan] * len(known) for row in numbers])
        else:
            known = self._column_names(name)
        first = 1 if len(values) == episode.length and not name.startswith("actions/") else 0
        every = max(1, len(values) // POINTS)
        columns = as_columns(values[::every])
        times = (first + every * np.arange(len(columns))) * self.dt
        return Series(times, columns, None, column_names(columns.shape[1], known))

    def _column_names(self, name: str) -> list[str]:
        if name in ("obs/agent/qpos", "obs/agent/qvel"):
            return [joint for joints in self._episode.scene.get("move_groups", {}).values() for joint in joints]
        if name == "actions/action":
            return self._episode.action_names
        if name.startswith("env_states/articulations/"):
            entity = self.scene.entities.get(name.rsplit("/", 1)[-1])
            joints = [] if entity is None else entity.joint_names
            return [*joints, *(f"d/dt {joint}" for joint in joints)]
        return []

    # -- closing ------------------------------------------------------------------------------------------------------

    def close_videos(self) -> None:
        """Close the videos of the episode."""
        for reader in self._readers.values():
            reader.close()
        self._readers = {}

    def close(self) -> None:
        """Free the scene and close the files."""
        self.close_videos()
        if self._task is not None:
            self._task.close()


def _picture_kind(name: str, form: ImageEncoding) -> str | None:
    """Return as what the images of a video are shown; None if they are not."""
    if form.kind in ("rgb", "gray"):
        return "rgb"
    if form.kind == "depth":
        return "depth"
    if form.kind == "segmentation":
        return "segmentation"
    if len(form.shape) == 3 and name.endswith("_normals"):
        return "normals"
    return "instance" if len(form.shape) == 2 and name.endswith("_instance") else None


def _rank(path: str) -> int:
    return _ORDER.index(max((begin for begin in _ORDER if path.startswith(begin)), key=len))


def _numbers(reading: dict[str, Any], name: str = "") -> dict[str, float]:
    """Return the numbers of a nested reading by name; an empty dict if it holds anything else."""
    found: dict[str, float] = {}
    for key, value in reading.items():
        label = f"{name} {key}".strip()
        parts = dict(enumerate(value)) if isinstance(value, list) else value
        if isinstance(parts, dict):
            inner = _numbers(parts, label)
            if parts and not inner:
                return {}
            found |= inner
        elif isinstance(parts, int | float) and not isinstance(parts, bool):
            found[label] = float(parts)
        else:
            return {}
    return found
