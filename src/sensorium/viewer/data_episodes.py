"""The episodes of a data set, to be looked at: poses from the files, in the scene of the task made again."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch

from sensorium import tasks
from sensorium.datasets import Dataset, Episode
from sensorium.datasets.video_streams import from_stored, kind_of
from sensorium.errors import DatasetError, SensoriumError
from sensorium.generation.unit import FAILED
from sensorium.recording.image_reader import VideoReader
from sensorium.viewer.data_source import POINTS, Series, Texts, as_columns, names_of
from sensorium.worlds import Entity, Scene

_ORDER = ("obs/agent", "actions/action", "obs/extra", "actions", "env_states", "", "obs/sensor_param")
"""How arrays are sorted in the list, by what their paths begin with; the longest that fits counts."""
_LONG = 60
"""Letters of an instruction that are shown in the list."""


class EpisodeSource:
    """See :class:`sensorium.viewer.data_source.PageSource`.

    The scene comes from the options of the data set; an episode is begun in it as it was, which puts everything in its
    place that does not move and gives it its look. What moves is put where the file says.
    """

    kind = "Episode"
    hidden: frozenset[str] = frozenset()

    def __init__(self, data: Dataset) -> None:
        self.title = f"the data set {data.folder}"
        self._paths = {
            int(path.stem.removeprefix("episode_")): path
            for folder in (data.folder / FAILED, data.folder)
            for path in folder.glob("episode_*.h5")
        }
        if not self._paths:
            raise DatasetError(f"{data.folder} has no episodes yet: generate some (`sensorium generate --help`)")
        self.keys = sorted(self._paths)
        self._options = data.about["options"]
        self._readers: dict[str, VideoReader] = {}
        self._task: tasks.Task[Any] | None = None
        self.choose(self.keys[0])

    # -- choosing -----------------------------------------------------------------------------------------------------

    def label(self, key: int) -> str:
        """Number, whether it succeeded, how long it is, and what was to be done."""
        try:
            episode = Episode(self._paths[key])
        except SensoriumError:
            return f"{key} · cannot be read"
        told = str(episode.scene.get("instruction", ""))
        parts = [f"{key}", "success" if episode.success else "failure", f"{episode.length} steps"]
        return " · ".join([*parts, told if len(told) <= _LONG else f"{told[:_LONG]}…"]).removesuffix(" · ")

    def choose(self, key: int) -> None:
        """Open an episode, and begin it in the scene."""
        episode = Episode(self._paths[key])
        states = {path: episode[path] for path in episode.paths() if path.startswith("env_states/")}
        scene, env = self._begin(key)
        self.close_videos()
        self.key, self._episode, self._states, self.scene, self.env = key, episode, states, scene, env
        self.n_steps, self.dt = episode.length + 1, float(1 / episode.fps)
        self.images = {name: kind_of(name) for name in episode.cameras}
        self.names = sorted(episode.paths(), key=_rank)

    def _begin(self, number: int) -> tuple[Scene, int]:
        """Reset the task to the start of an episode; the scene and the env in which it is."""
        options = self._options
        if self._task is None:
            several = options["task"] == tasks.MultiTask.name  # of which the env, in which it was, decides on one
            set_here = {"n_envs": options["envs"] if several else 1, "use_sensors": False, "keep_history": False}
            self._task = tasks.make(
                options["task"], robot=options["robot"], seed=options["seed"], **{**options["options"], **set_here}
            )
        task, env = self._task, number % self._task.n_envs
        task.reset(envs=[env], numbers=[number])
        if isinstance(task, tasks.MultiTask):
            own, part = divmod(env, len(task.tasks))
            return task.tasks[part].scene, own
        return task.scene, env

    # -- a step -------------------------------------------------------------------------------------------------------

    def pose(self, step: int) -> None:
        """Put everything where the file says."""
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

    def image(self, name: str, step: int) -> np.ndarray:
        """A frame of a video."""
        kind = self.images[name]
        path = self._episode.video_path(name)
        try:
            if name not in self._readers:
                self._readers[name] = VideoReader(path, "rgb24" if kind == "rgb" else "gray16le")
            return from_stored(self._readers[name].read(step), kind)
        except (OSError, EOFError, ValueError, IndexError) as error:
            raise DatasetError(f"{path} has no image of step {step} ({error}); see `sensorium validate`") from None

    # -- over time ----------------------------------------------------------------------------------------------------

    def series(self, name: str) -> Series | Texts:
        """What an array holds, or what a sensor said, where that is more than numbers.

        What was told is at the step before which it was told, rewards are at the step with which they were given.
        """
        episode, values = self._episode, self._episode[name]
        if name in {about["at"] for about in episode.suite.values() if about["text"]}:
            told = episode.text(name)
            numbers = [_numbers(each) for each in told]
            known = list(next(filter(None, numbers), ()))
            if not known or any(list(row) != known for row, each in zip(numbers, told, strict=True) if each):
                return Texts([json.dumps(each, indent=1, ensure_ascii=False) for each in told])
            values = np.array([list(row.values()) or [np.nan] * len(known) for row in numbers])
        else:
            known = self._column_names(name)
        first = 1 if len(values) == episode.length and not name.startswith("actions/") else 0
        every = max(1, len(values) // POINTS)
        columns = as_columns(values[::every])
        times = (first + every * np.arange(len(columns))) * self.dt
        return Series(times, columns, None, names_of(columns.shape[1], known))

    def _column_names(self, name: str) -> list[str]:
        if name in ("obs/agent/qpos", "obs/agent/qvel"):
            return [joint for joints in self._episode.scene.get("move_groups", {}).values() for joint in joints]
        if name == "actions/action":
            return list(json.loads(self._episode.attributes["action_names"]))
        if name.startswith("env_states/articulations/"):
            entity = self.scene.entities.get(name.rsplit("/", 1)[-1])
            joints = [] if entity is None else entity.joint_names
            return [*joints, *(f"d/dt {joint}" for joint in joints)]
        return []

    # -- the end ------------------------------------------------------------------------------------------------------

    def close_videos(self) -> None:
        """Close the videos of the episode."""
        for reader in self._readers.values():
            reader.close()
        self._readers = {}

    def close(self) -> None:
        """Free the scene, and close the files."""
        self.close_videos()
        if self._task is not None:
            self._task.close()


def _rank(path: str) -> int:
    return _ORDER.index(max((begin for begin in _ORDER if path.startswith(begin)), key=len))


def _numbers(said: dict[str, Any], name: str = "") -> dict[str, float]:
    """Name -> number, of what a sensor said that says numbers alone, nested as it may be; else nothing."""
    found: dict[str, float] = {}
    for key, value in said.items():
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
