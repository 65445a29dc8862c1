"""``TrajectoryWriter``: episodes of a task, one HDF5 file each, written while they happen."""

from __future__ import annotations

import json
import platform
import queue
import threading
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from gymnasium.spaces import Box

from sensorium.datasets.files import named, publish
from sensorium.datasets.layout import SCHEMA, UNITS, columns, leaves, place
from sensorium.datasets.streams import KINDS, Encoders, Stream, kind_of, part_of

_ROWS = 64
"""Steps that are written at once."""
_PACKAGES = ("sensorium", "mujoco", "numpy", "torch", "h5py", "av", "gymnasium")


@cache
def versions() -> dict[str, str]:
    """Versions of what has a part in it."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # running from a source tree
            found[package] = "unknown"
    return found


def episode_name(number: int) -> str:
    """Name of an episode's files, without ending."""
    return f"episode_{number:06d}"


class TrajectoryWriter:
    """Writes one episode of each env of a task.

    A file has another name until it is complete, videos before the HDF5 file: what is there under its own name is
    whole. Rows are gathered and written by a thread; ``begin`` and ``add`` wait when it is far behind.

    Args:
        folder: where to.
        task: with a suite; just reset.
        numbers: of the episodes, one an env.
        about: what to note in each file: attribute -> text or number.
    """

    def __init__(self, folder: Path, task: Any, numbers: Sequence[int], about: dict[str, Any]) -> None:
        self._folder, self._task, self._suite = folder, task, task.suite
        self._numbers = list(numbers)
        self._about = about
        # what reads as several images at once is kept as arrays
        self._images = [uuid for uuid, each in self._suite.items() if each.is_image and isinstance(each.space, Box)]
        self._rate = 1 / Fraction(task.config.dt).limit_denominator(1_000_000)
        self._encoders = Encoders() if self._images else None
        self._files: list[h5py.File | None] = [None] * task.n_envs
        self._streams: list[dict[str, Stream]] = [{} for _ in range(task.n_envs)]
        self._waiting: list[tuple[dict[str, Any], dict[str, np.ndarray], np.ndarray]] = []
        self._suite_text = json.dumps(self._describe_suite())
        self._queue: queue.Queue[Any] = queue.Queue(_ROWS)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    # -- what the simulation calls ------------------------------------------------------------------------------------

    def begin(self, observation: dict[str, Any]) -> None:
        """What was observed at the reset."""
        self._put(observation, {}, np.ones(self._task.n_envs, bool))

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
        """One step, which the envs of the mask ``running`` made."""
        steps = {
            "actions/action": np.asarray(action, np.float32),
            "rewards": np.asarray(reward, np.float32),
            "terminated": terminated,
            "truncated": truncated,
            "success": success,
            "fail": (terminated | truncated) & ~success,
        }
        self._put(observation, {name: np.array(value) for name, value in steps.items()}, running.copy())

    def close(self, folders: Sequence[Path | None]) -> None:
        """Complete the files.

        Args:
            folders: where those of each env go, on the same disk; None leaves no files of it.
        """
        self._queue.put(None)
        self._thread.join()
        try:
            self._raise()
            self._finish(folders)
        finally:
            self._drop()

    def abort(self) -> None:
        """Leave no file."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()
        self._drop()

    def _put(self, observation: dict[str, Any], steps: dict[str, np.ndarray], running: np.ndarray) -> None:
        self._raise()
        for uuid in self._images:
            self._encode(uuid, observation[uuid], running)
        self._queue.put(({k: v for k, v in observation.items() if k not in self._images}, steps, running))

    def _encode(self, uuid: str, images: np.ndarray, running: np.ndarray) -> None:
        assert self._encoders is not None
        kind = kind_of(uuid)
        for env in np.flatnonzero(running).tolist():
            streams = self._streams[env]
            if uuid not in streams:
                path = self._folder / f"{episode_name(self._numbers[env])}_{uuid}{KINDS[kind]['ending']}"
                streams[uuid] = Stream(path, kind, images.shape[1:], self._rate)
            self._encoders.submit(streams[uuid], "write", images[env])

    # -- what the thread does -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (item := self._queue.get()) is not None:
                if self._error is None:
                    self._waiting.append(item)
                    if len(self._waiting) >= _ROWS:
                        self._flush()
            if self._error is None:
                self._flush()
        except BaseException as error:  # told to the thread that simulates
            self._error = error
            while self._queue.get() is not None:  # so that nobody waits for room
                pass

    def _flush(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        ran = np.stack([running for _, _, running in waiting])
        rows: dict[str, np.ndarray] = {}
        for uuid, sensor in self._suite.items():
            if uuid not in self._images:
                many = [dict(leaves(uuid, sensor.to_disk(observation[uuid]))) for observation, _, _ in waiting]
                for path in many[0]:
                    rows[path] = np.stack([np.asarray(each[path]) for each in many])
        acted = [number for number, (_, steps, _) in enumerate(waiting) if steps]
        told = {name: np.stack([waiting[i][1][name] for i in acted]) for name in waiting[acted[0]][1]} if acted else {}
        for env in np.flatnonzero(ran.any(axis=0)).tolist():
            group = self._group(env, waiting[0][0])
            with named(self._path(env)):
                for path, values in rows.items():
                    _append(group, path, values[ran[:, env], env])
                for path, values in told.items():
                    _append(group, path, values[ran[acted, env], env])

    def _path(self, env: int) -> Path:
        return self._folder / f"{episode_name(self._numbers[env])}.h5"

    def _group(self, env: int, observation: dict[str, Any]) -> h5py.Group:
        file = self._files[env]
        if file is None:
            path = self._path(env)
            with named(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                file = self._files[env] = h5py.File(part_of(path), "w", libver="v110")
                self._head(file.create_group(f"traj_{self._numbers[env]}"), env, observation)
        group: h5py.Group = file[f"traj_{self._numbers[env]}"]
        return group

    def _head(self, group: h5py.Group, env: int, observation: dict[str, Any]) -> None:
        """All that does not grow."""
        rate = self._rate
        about = {
            "schema_version": SCHEMA,
            "number": self._numbers[env],
            "fps": f"{rate.numerator}/{rate.denominator}",
            "action_names": json.dumps(self._task.robot.action_names),
            "versions": json.dumps(versions()),
            "privileged": self._suite.privileged,
            **self._about,
        }
        for name, value in about.items():
            group.attrs[name] = value
        group["obs_scene"] = json.dumps(self._task.describe_scene(env), allow_nan=False)
        group["suite"] = self._suite_text
        group.require_group("obs/sensor_data")
        for uuid, stream in self._streams[env].items():
            kind = KINDS[kind_of(uuid)]
            group[f"obs/sensor_data/{uuid}"] = stream.path.name
            for name in ("codec", "unit", "scale"):
                group[f"obs/sensor_data/{uuid}"].attrs[name] = kind[name]
        for uuid in self._suite:
            if uuid not in self._images and not any(True for _ in leaves(uuid, observation[uuid])):
                group.require_group(place(uuid))  # a sensor that has nothing to say is there all the same
        for uuid in ("qpos", "qvel"):
            if isinstance(observation.get(uuid), dict):
                group.require_group("obs/agent").attrs[f"{uuid}_columns"] = json.dumps(columns(observation[uuid]))

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
                with named(folder):
                    folder.mkdir(parents=True, exist_ok=True)
                for stream in streams.values():
                    assert self._encoders is not None
                    self._encoders.submit(stream, "close", folder)
        if self._encoders is not None:
            self._encoders.wait()
        for env, folder in enumerate(folders):
            file, path = self._files[env], self._path(env)
            if folder is not None and file is not None:
                with named(path):
                    file.close()
                self._files[env], self._streams[env] = None, {}
                publish(part_of(path), folder / path.name)

    def _drop(self) -> None:
        """Remove what has no name of its own."""
        for env, file in enumerate(self._files):
            if file is not None:
                file.close()
                part_of(self._path(env)).unlink(missing_ok=True)
                self._files[env] = None
        if self._encoders is not None:
            for streams in self._streams:
                for stream in streams.values():
                    self._encoders.submit_drop(stream)
            self._encoders.close()
            self._encoders = None

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error


def _append(group: h5py.Group, path: str, rows: Any) -> None:
    if not len(rows):
        return
    text = np.asarray(rows).dtype.kind in "OU"
    data = group.get(path)
    if data is None:
        shape = np.asarray(rows).shape[1:]
        data = group.create_dataset(
            path,
            (0, *shape),
            h5py.string_dtype() if text else np.asarray(rows).dtype,
            maxshape=(None, *shape),
            chunks=(_ROWS, *shape) if np.prod(shape, dtype=np.int64) else None,
            **({} if text else {"compression": "gzip", "compression_opts": 1, "shuffle": True}),
        )
        if path in UNITS:
            data.attrs["unit"] = UNITS[path]
    first = len(data)
    data.resize(first + len(rows), axis=0)
    data[first:] = rows
