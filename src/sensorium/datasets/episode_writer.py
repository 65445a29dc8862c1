"""``EpisodeWriter``: episodes of a task, one HDF5 file each, written while they happen."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from sensorium.datasets.episode_file import EpisodeFile, Skeleton
from sensorium.datasets.observation_layout import AGENT, SCHEMA, UNITS, columns, place
from sensorium.datasets.row_buffer import ROWS, RowBuffer
from sensorium.datasets.video_streams import KINDS, VideoEncoders, VideoStream, kind_of
from sensorium.files import explain_errors, package_versions, sync
from sensorium.suites.text import check_lengths

_SYNCS = 4
"""Threads that wait for the disk."""


def episode_name(number: int) -> str:
    """Name of an episode's files, without ending."""
    return f"episode_{number:06d}"


class EpisodeWriter:
    """Writes one episode of each env of a task.

    A file has another name until it is complete, videos before the HDF5 file: what is there under its own name is
    whole. Rows are gathered in memory, and written when there are :data:`ROWS` of them, or when an env's episode ends.

    Args:
        folder: where to.
        task: with a suite; just reset.
        numbers: of the episodes, one an env.
        about: what to note in each file: attribute -> text or number.
    """

    def __init__(self, folder: Path, task: Any, numbers: Sequence[int], about: dict[str, Any]) -> None:
        self._folder, self._task, self._suite = folder, task, task.suite
        self._numbers = list(numbers)
        # what reads as several images at once is kept as arrays
        self._images = [uuid for uuid, each in self._suite.items() if each.is_image and isinstance(each.space, Box)]
        self._rate = 1 / Fraction(task.config.dt).limit_denominator(1_000_000)
        self._about = {
            "schema_version": SCHEMA,
            "fps": f"{self._rate.numerator}/{self._rate.denominator}",
            "action_names": json.dumps(task.robot.action_names),
            "versions": json.dumps(package_versions()),
            "privileged": self._suite.privileged,
            **about,
        }
        self._suite_text = json.dumps(self._describe_suite())
        self._encoders = VideoEncoders() if self._images else None
        self._disk = ThreadPoolExecutor(_SYNCS)
        self._synced: list[Future[None]] = []
        self._files: list[EpisodeFile | None] = [None] * task.n_envs
        self._streams: list[dict[str, VideoStream]] = [{} for _ in range(task.n_envs)]
        self._lengths = np.zeros(task.n_envs, np.int64)
        self._open = np.ones(task.n_envs, bool)
        self._first = self._row = 0

    # -- what the simulation calls ------------------------------------------------------------------------------------

    def begin(self, observation: dict[str, Any]) -> None:
        """What was observed at the reset."""
        self._block = RowBuffer(self._suite, self._images, observation, self._task.robot.n_actions)
        self._columns = {
            f"{uuid}_columns": json.dumps(columns(observation[uuid]))
            for uuid in AGENT
            if isinstance(observation.get(uuid), dict)
        }
        self._block.observe(0, observation, range(self._task.n_envs))
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
        """One step, which the envs of the mask ``running`` made; one that did not make a step makes none after it."""
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
        self._block.observe(self._row, observation, np.flatnonzero(self._open).tolist())
        self._encode(observation, running)
        self._complete(self._open & ended)

    def close(self, folders: Sequence[Path | None]) -> None:
        """Complete the files.

        Args:
            folders: where those of each env go, on the same disk; None leaves no files of it.
        """
        try:
            self._complete(self._open.copy())
            self._finish(folders)
        finally:
            self._drop()

    def abort(self) -> None:
        """Leave no file."""
        self._drop()

    def _encode(self, observation: dict[str, Any], running: np.ndarray) -> None:
        for uuid in self._images:
            assert self._encoders is not None
            images, kind = observation[uuid], kind_of(uuid)
            for env in np.flatnonzero(running).tolist():
                streams = self._streams[env]
                if uuid not in streams:
                    path = self._folder / f"{episode_name(self._numbers[env])}_{uuid}{KINDS[kind]['ending']}"
                    streams[uuid] = VideoStream(path, kind, images.shape[1:], self._rate)
                self._encoders.submit(streams[uuid], "write", images[env])

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _complete(self, ended: np.ndarray) -> None:
        """Write what is left of the envs of a mask, whose episodes have ended, and have it on the disk."""
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
        """Write the rows of the block that envs of a mask have made."""
        block = self._block
        for env in np.flatnonzero(envs).tolist():
            file = self._file(env)
            done = int(self._lengths[env]) - self._first
            seen = min(done + 1, ROWS)  # what is observed after the last step of a block is in the next
            with explain_errors(file.path):
                for path, arrays in block.observed.items():
                    arrays[env, seen:] = 0
                    file.extend(path, self._first, arrays[env], seen)
                for uuid, rows in block.said.items():
                    length, texts = self._suite[uuid].str_max_len, [row[env] for row in rows[:seen]]
                    if length is not None:
                        check_lengths(uuid, texts, length, env)
                    file.extend_texts(place(uuid), self._first, texts, length)
                for path, arrays in block.done.items():
                    arrays[env, done:] = 0
                    file.extend(path, self._first, arrays[env], done)

    def _file(self, env: int) -> EpisodeFile:
        file = self._files[env]
        if file is None:
            number = self._numbers[env]
            path = self._folder / f"{episode_name(number)}.h5"
            file = self._files[env] = EpisodeFile(path, number, self._skeleton)
            with explain_errors(path):
                self._head(file, env)
        return file

    @cached_property
    def _skeleton(self) -> Skeleton:
        """What all files have."""
        made, block = Skeleton(), self._block
        for name, value in self._about.items():
            made.note(name, value)
        made.add_text("suite", self._suite_text)
        made.group("obs/sensor_data")
        for uuid in block.silent:  # a sensor that has nothing to say is there all the same
            made.group(place(uuid))
        for name, value in self._columns.items():
            made.note(name, value, "obs/agent")
        for path, arrays in (block.observed | block.done).items():
            shape = arrays.shape[2:]
            made.declare(path, shape, arrays.dtype, shape, UNITS.get(path))
        return made

    def _head(self, file: EpisodeFile, env: int) -> None:
        """All that does not grow, and is its own."""
        file.note("number", self._numbers[env])
        file.add_text("obs_scene", json.dumps(self._task.describe_scene(env), allow_nan=False))
        for uuid, stream in self._streams[env].items():
            kind = KINDS[kind_of(uuid)]
            notes = {name: kind[name] for name in ("codec", "unit", "scale")}
            file.add_text(f"obs/sensor_data/{uuid}", stream.path.name, **notes)

    def _describe_suite(self) -> dict[str, Any]:
        result = {}
        for uuid, sensor in self._suite.items():
            at = f"obs/sensor_data/{uuid}" if uuid in self._images else place(uuid)
            result[uuid] = {
                "at": at,
                "space": str(sensor.space),
                "text": sensor.is_dict,
                "owner": self._suite.owner(uuid),
                "privileged": sensor.privileged,
            }
        return result

    # -- the end ------------------------------------------------------------------------------------------------------

    def _finish(self, folders: Sequence[Path | None]) -> None:
        for folder, streams in zip(folders, self._streams, strict=True):
            if folder is not None:
                with explain_errors(folder):
                    folder.mkdir(parents=True, exist_ok=True)
                for stream in streams.values():
                    assert self._encoders is not None
                    self._encoders.submit(stream, "close", folder)
        if self._encoders is not None:
            self._encoders.wait()
        with explain_errors(self._folder):
            for done in self._synced:
                done.result()
        for env, folder in enumerate(folders):
            file = self._files[env]
            if folder is not None and file is not None:
                with explain_errors(file.path):
                    os.replace(file.part, folder / file.path.name)
                self._files[env], self._streams[env] = None, {}
        for folder in {folder for folder in folders if folder is not None}:
            sync(folder)

    def _drop(self) -> None:
        """Remove what has no name of its own."""
        self._disk.shutdown()
        self.__dict__.pop("_skeleton", None)
        for env, file in enumerate(self._files):
            if file is not None:
                file.drop()
                self._files[env] = None
        if self._encoders is not None:
            for streams in self._streams:
                for stream in streams.values():
                    self._encoders.submit_drop(stream)
            self._encoders.close()
            self._encoders = None
