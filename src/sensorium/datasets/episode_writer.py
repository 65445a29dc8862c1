"""``EpisodeWriter``: writes the episodes of a task while they run, one HDF5 file each."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sensorium._arguments import checked
from sensorium.datasets.dataset import SuiteEntry
from sensorium.datasets.episode_file import EpisodeFile, Skeleton
from sensorium.datasets.header import episode_name
from sensorium.datasets.image_formats import boxes_of, image_streams
from sensorium.datasets.observation_layout import (
    AGENT,
    SCHEMA,
    UNITS,
    check_paths,
    escape,
    group_columns,
    path_of,
    video_path_of,
)
from sensorium.datasets.row_buffer import ROWS, RowBuffer
from sensorium.datasets.video_streams import VideoEncoders, VideoStream
from sensorium.errors import OptionError
from sensorium.files import explain_errors, sync
from sensorium.suites import SensorSuite
from sensorium.versions import package_versions

_SYNC_THREADS = 4
"""Threads that flush files to the disk."""


class RobotActions(Protocol):
    """The robot of a task."""

    @property
    def n_actions(self) -> int:
        """Size of an action."""
        ...

    @property
    def action_names(self) -> list[str]:
        """Names of the numbers of an action."""
        ...


class TaskTiming(Protocol):
    """The options of a task."""

    @property
    def dt(self) -> float:
        """Seconds per step."""
        ...


class RecordedTask(Protocol):
    """What :class:`EpisodeWriter` needs of a task; see :class:`sensorium.tasks.Task`."""

    @property
    def suite(self) -> SensorSuite | None: ...
    @property
    def n_envs(self) -> int: ...
    @property
    def config(self) -> TaskTiming: ...
    @property
    def robot(self) -> RobotActions: ...
    def describe_scene(self, env: int) -> dict[str, Any]: ...


class EpisodeWriter:
    """Writes one episode of each env of a task.

    Files have temporary names until they are complete, and the videos of an episode are published before its HDF5 file:
    an HDF5 file under its final name belongs to a complete episode. Rows are collected in memory, and written when
    there are :data:`ROWS` of them, or when the episode of an env ends.

    An episode with a text that is longer than its sensor's ``str_max_len`` fails at that step: it is not written, and
    the others are.

    Args:
        folder: folder for the temporary files.
        task: a task with a sensor suite that was just reset.
        numbers: number of the episode of each env.
        attributes: attributes to store in each file: name -> text or number.

    Attributes:
        failed: env -> why its episode cannot be written.

    Raises:
        OptionError: the task has no sensor suite, an image has a shape or dtype that cannot be stored, or two sensors
            would be stored at the same place.

    Example:
        >>> writer = sn.datasets.EpisodeWriter(folder, task, numbers, {"seed": 0})
        >>> writer.begin(observation)
        >>> writer.add(observation, action, reward, terminated, truncated, success, running)
        >>> writer.close([folder] * task.n_envs)
    """

    @checked
    def __init__(
        self, folder: Path, task: RecordedTask, numbers: Sequence[int], attributes: dict[str, str | float]
    ) -> None:
        if task.suite is None:
            raise OptionError("the task has no sensors, so there are no observations to write; set use_sensors=True")
        self._folder, self._task, self._suite = folder, task, task.suite
        self._numbers = list(numbers)
        self._images = [stream for sensor in self._suite.values() for stream in image_streams(sensor)]
        check_paths(self._suite, self._images)
        self.failed: dict[int, str] = {}
        self._rate = 1 / Fraction(task.config.dt).limit_denominator(1_000_000)
        self._attributes: dict[str, str | float] = {
            "schema_version": SCHEMA,
            "fps": f"{self._rate.numerator}/{self._rate.denominator}",
            "action_names": json.dumps(task.robot.action_names),
            "versions": json.dumps(package_versions()),
            "privileged": self._suite.privileged,
            **attributes,
        }
        self._suite_text = json.dumps(self._describe_suite())
        with explain_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self._encoders = VideoEncoders() if self._images else None
        self._disk = ThreadPoolExecutor(_SYNC_THREADS)
        self._synced: list[Future[None]] = []
        self._files: list[EpisodeFile | None] = [None] * task.n_envs
        self._streams: list[dict[str, VideoStream]] = [{} for _ in range(task.n_envs)]
        self._lengths = np.zeros(task.n_envs, np.int64)
        self._open = np.ones(task.n_envs, bool)
        self._first = self._row = 0

    # -- called by the simulation -------------------------------------------------------------------------------------

    def begin(self, observation: dict[str, Any]) -> None:
        """Store the observation at reset."""
        videos = {(image.uuid, image.keys) for image in self._images}
        self._block = RowBuffer(self._suite, videos, observation, self._task.robot.n_actions)
        self._columns = {
            f"{uuid}_columns": json.dumps(group_columns(observation[uuid]))
            for uuid in AGENT
            if isinstance(observation.get(uuid), dict)
        }
        self._observe(observation)
        self._encode(observation, self._open)

    def add(
        self,
        observation: dict[str, Any],
        action: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        success: np.ndarray,
        running: np.ndarray,
    ) -> None:
        """Store one step.

        Args:
            observation: observation after the step.
            action: commanded actions, (B, n).
            reward: rewards, (B,).
            terminated: whether the episode terminated, (B,) bool.
            truncated: whether the episode was truncated, (B,) bool.
            success: whether the task is solved, (B,) bool.
            running: envs that made the step, (B,) bool. An env that did not make it is complete.
        """
        running, ended = running & self._open, terminated | truncated
        self._block.act(
            self._row,
            {
                "actions/action": action,
                "rewards": reward,
                "terminated": terminated,
                "truncated": truncated,
                "success": success,
                "fail": ended & ~success,
            },
        )
        self._lengths += running
        self._complete(self._open & ~running)
        self._row += 1
        if self._row == ROWS:
            self._flush(self._open)
            self._first, self._row = self._first + ROWS, 0
        self._observe(observation)
        self._encode(observation, running & self._open)
        self._complete(self._open & ended)

    def close(self, folders: Sequence[Path | None]) -> None:
        """Complete and publish the files.

        Args:
            folders: destination of each env's files, on the same disk; None removes the files of the env.
        """
        try:
            self._complete(self._open.copy())
            self._finish(folders)
        finally:
            self._drop()

    def abort(self) -> None:
        """Remove all files."""
        self._drop()

    def _observe(self, observation: dict[str, Any]) -> None:
        """Store an observation in the buffer; drop the episodes of envs whose texts are too long."""
        too_long = self._block.observe(self._row, observation, np.flatnonzero(self._open).tolist())
        for env, message in too_long.items():
            self.failed[env] = f"step {self._lengths[env]}: {message}"
            self._open[env] = False
            self._drop_env(env)

    def _encode(self, observation: dict[str, Any], running: np.ndarray) -> None:
        for image in self._images:
            assert self._encoders is not None
            images = observation[image.uuid]
            for key in image.keys:
                images = images[key]
            for env in np.flatnonzero(running).tolist():
                streams = self._streams[env]
                if image.name not in streams:
                    name = f"{episode_name(self._numbers[env])}_{escape(image.name)}{image.form.video.suffix}"
                    streams[image.name] = VideoStream(self._folder / name, image.form, self._rate)
                self._encoders.write(streams[image.name], images[env])

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _complete(self, ended: np.ndarray) -> None:
        """Write the remaining rows of envs whose episodes have ended, close their files, and start to flush them."""
        if not ended.any():
            return
        self._flush(ended)
        for env in np.flatnonzero(ended).tolist():
            file = self._files[env]
            assert file is not None
            file.close()
            self._synced.append(self._disk.submit(sync, file.part))
        self._open &= ~ended

    def _flush(self, envs: np.ndarray) -> None:
        """Write the rows of the buffer that some envs have filled."""
        block = self._block
        for env in np.flatnonzero(envs).tolist():
            file = self._file(env)
            done = int(self._lengths[env]) - self._first
            seen = min(done + 1, ROWS)  # the observation after the last step of a block is in the next block
            with explain_errors(file.path):
                for path, arrays in block.observed.items():
                    arrays[env, seen:] = 0
                    file.extend(path, self._first, arrays[env], seen)
                for uuid, rows in block.texts.items():
                    texts = [row[env] for row in rows[:seen]]
                    file.extend_texts(path_of(uuid), self._first, texts, self._suite[uuid].str_max_len)
                for path, arrays in block.steps.items():
                    arrays[env, done:] = 0
                    file.extend(path, self._first, arrays[env], done)
                file.check()

    def _file(self, env: int) -> EpisodeFile:
        file = self._files[env]
        if file is None:
            number = self._numbers[env]
            path = self._folder / f"{episode_name(number)}.h5"
            file = self._files[env] = EpisodeFile(path, number, self._skeleton)
            with explain_errors(path):
                self._write_header(file, env)
        return file

    @cached_property
    def _skeleton(self) -> Skeleton:
        """The common part of all files."""
        skeleton, block = Skeleton(), self._block
        for name, value in self._attributes.items():
            skeleton.set_attribute(name, value)
        skeleton.add_text("suite", self._suite_text)
        skeleton.group("obs/sensor_data")
        for uuid in block.empty:  # a sensor without arrays has an empty group
            skeleton.group(path_of(uuid))
        for name, columns in self._columns.items():
            skeleton.set_attribute(name, columns, "obs/agent")
        for path, arrays in (block.observed | block.steps).items():
            shape = arrays.shape[2:]
            skeleton.declare(path, shape, arrays.dtype, shape, UNITS.get(path))
        return skeleton

    def _write_header(self, file: EpisodeFile, env: int) -> None:
        """Write what does not grow and differs between episodes."""
        file.set_attribute("number", self._numbers[env])
        file.add_text("obs_scene", json.dumps(self._task.describe_scene(env), allow_nan=False))
        for image in self._images:
            name = self._streams[env][image.name].path.name
            file.add_text(video_path_of(image.name), name, **image.form.attributes())

    def _describe_suite(self) -> dict[str, SuiteEntry]:
        result: dict[str, SuiteEntry] = {}
        for uuid, sensor in self._suite.items():
            images = [image for image in self._images if image.uuid == uuid]
            entry: SuiteEntry = {
                "at": path_of(uuid),
                "space": str(sensor.space),
                "text": sensor.is_dict,
                "owner": self._suite.owner(uuid),
                "privileged": sensor.privileged,
                "purpose": sensor.purpose,
            }
            described = sensor.describe()
            if described is not None:
                entry["sensor"] = described
            if not images or len(images) < len(list(boxes_of(sensor.space))):
                result[uuid] = entry
            for image in images:  # a camera that reads several images has an entry for each
                result[image.name] = {**entry, "at": video_path_of(image.name), "purpose": image.purpose}
        return result

    # -- completion ---------------------------------------------------------------------------------------------------

    def _finish(self, folders: Sequence[Path | None]) -> None:
        for env, (folder, streams) in enumerate(zip(folders, self._streams, strict=True)):
            if folder is not None and env not in self.failed:
                with explain_errors(folder):
                    folder.mkdir(parents=True, exist_ok=True)
                for stream in streams.values():
                    assert self._encoders is not None
                    self._encoders.finish(stream, folder)
        if self._encoders is not None:
            self._encoders.wait()
        with explain_errors(self._folder):
            for done in self._synced:
                done.result()
        for env, folder in enumerate(folders):
            file = self._files[env]
            if folder is not None and file is not None and env not in self.failed:
                with explain_errors(file.path):
                    os.replace(file.part, folder / file.path.name)
                self._files[env], self._streams[env] = None, {}
        for folder in {folder for folder in folders if folder is not None}:
            sync(folder)

    def _drop(self) -> None:
        """Remove all files that were not published."""
        self._disk.shutdown()
        self.__dict__.pop("_skeleton", None)
        for env in range(len(self._files)):
            self._drop_env(env)
        if self._encoders is not None:
            self._encoders.close()
            self._encoders = None

    def _drop_env(self, env: int) -> None:
        file = self._files[env]
        if file is not None:
            file.drop()
            self._files[env] = None
        for stream in self._streams[env].values():
            assert self._encoders is not None
            self._encoders.drop(stream)
        self._streams[env] = {}
