"""``McapRecorder``: what the sensors of a running scene read, as MCAP files of ROS 2 messages."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from numbers import Integral
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from sensorium._arguments import checked
from sensorium.errors import OptionError
from sensorium.ros import topics
from sensorium.ros.camera_topics import camera_topics, encode_jpeg
from sensorium.ros.commands import command_topics
from sensorium.ros.frames import WORLD, LinkPoses, Transforms, mounts, to_nanoseconds
from sensorium.ros.mcap_file import Compression, McapFile
from sensorium.ros.messages import Topic, make_encoder, sensor_topics, stamps
from sensorium.ros.sources import CameraSource, SampleSource, StepReads, TruthSource
from sensorium.versions import package_versions

if TYPE_CHECKING:
    from typing import Self

    from sensorium.cameras.camera import CameraSensor
    from sensorium.worlds import Scene

TRUTH = "/truth"
_FLUSH_STEPS = 32
"""Steps that are collected before their messages are encoded together."""


class McapRecorder:
    """Writes every sample of a scene's sensors to MCAP files, one per env. Call :meth:`step` after ``scene.step()``.

    Each sensor has a topic (see :mod:`sensorium.ros.topics`), with its own rate: the stamp in the header is the time
    of capture, the log time that of arrival. Lost samples are missing, late ones are late. Time goes on over resets,
    which are marked on ``/episode``. Files also have ``/clock``, ``/tf`` and ``/tf_static``, commands of the actuators,
    and, with ``truth``, the ground truth of all sensors in every step below ``/truth``.

    An exception in a ``with`` block leaves the files as ``NAME.mcap.part``, with its text in their metadata. Ctrl-C
    completes them.

    Args:
        scene: a built scene.
        out: folder for the files ``env_0.mcap``, ``env_1.mcap``, ...; they must not exist.
        envs: the envs to record. Default: all.
        truth: whether to write ground truth and the poses of links.
        images: whether to write images: they are rendered whenever a camera is due.
        jpeg: quality of JPEG for colour images, 1 to 100, which are then CompressedImage; None for raw images.
        namespaces: whether to write all envs to one file ``scene.mcap``, with topics below ``/env_0``, ``/env_1``, ...
        compression: "zstd", "lz4" or "none".
        metadata: values with a JSON form, stored in the files.

    Attributes:
        files: the files.
        n_steps: number of recorded steps.

    Raises:
        OptionError: ``mcap`` is not installed, a file exists, or an option is not allowed.

    Example:
        >>> with sn.ros.McapRecorder(scene, "logs/a") as recorder:
        ...     for _ in range(500):
        ...         scene.step()
        ...         recorder.step()
    """

    @checked
    def __init__(
        self,
        scene: Scene,
        out: str | Path,
        *,
        envs: Iterable[int] | None = None,
        truth: bool = True,
        images: bool = True,
        jpeg: int | None = None,
        namespaces: bool = False,
        compression: Compression = "zstd",
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        if compression not in ("zstd", "lz4", "none"):
            raise OptionError(f"compression must be 'zstd', 'lz4' or 'none', got {compression!r}")
        if jpeg is not None and (isinstance(jpeg, bool) or not isinstance(jpeg, int) or not 1 <= jpeg <= 100):
            raise OptionError(f"jpeg must be a quality, an integer in [1, 100], or None for raw images, got {jpeg!r}")
        self.scene, self.n_steps = scene, 0
        self._world = scene.world
        chosen = list(range(self._world.n_envs)) if envs is None else list(_check_envs(envs, self._world.n_envs))
        sensors = list(scene.sensors.values())
        folder = Path(out)
        paths = [folder / ("scene.mcap" if namespaces else f"env_{env}.mcap") for env in chosen]
        self._logs: list[_EnvLog] = []
        self._reads = StepReads()
        files: dict[Path, McapFile] = {}
        try:
            for env, path in zip(chosen, paths, strict=True):
                if path not in files:
                    description = _describe(scene, metadata, list(chosen) if namespaces else [env])
                    size = 1 << 22 if images and any(_is_camera(sensor) for sensor in sensors) else 1 << 20
                    files[path] = McapFile(path, compression, size, description)
                prefix = f"/env_{env}" if namespaces else ""
                self._logs.append(_EnvLog(scene, self._reads, sensors, env, files[path], prefix, truth, images, jpeg))
        except BaseException:
            for file in files.values():
                file.abandon()
            with suppress(OSError):
                folder.rmdir()
            raise
        self.files = list(files)
        self._files = list(files.values())
        self._closed = self._warned = False
        self._steps: int | None = self._world.step_count

    def step(self) -> None:
        """Record what arrived during the last ``scene.step()``."""
        if self._closed:
            raise OptionError("the recorder is closed")
        steps = self._world.step_count
        if self._steps is not None and steps - self._steps > 1 and not self._warned:
            self._warned = True
            warnings.warn(
                f"{steps - self._steps} steps were made between two calls of recorder.step(): the samples of all but "
                "the last are missing. Call it after each scene.step(), with count=1",
                stacklevel=2,
            )
        self._steps = steps
        self._reads.clear()
        for log in self._logs:
            log.take()
        self.n_steps += 1
        if self.n_steps % _FLUSH_STEPS == 0:
            self._flush()

    def _flush(self) -> None:
        for log in self._logs:
            log.flush()

    def close(self) -> None:
        """Complete the files and give them their names."""
        if not self._closed:
            self._closed = True
            self._flush()
            for file in self._files:
                file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, KeyboardInterrupt):
            self.close()
        elif not self._closed:
            self._closed = True
            with suppress(Exception):  # it may follow from the error, which is raised
                self._flush()
            for file in self._files:
                file.interrupt(f"{type(error).__name__}: {error}")


class _EnvLog:
    """The messages of one env."""

    def __init__(
        self,
        scene: Scene,
        reads: StepReads,
        sensors: list[Any],
        env: int,
        file: McapFile,
        prefix: str,
        truth: bool,
        images: bool,
        jpeg: int | None,
    ) -> None:
        self._scene, self._env, self._file, self._jpeg, self._prefix = scene, env, file, jpeg, prefix
        self._time = scene.world.time
        self._offset = self._last = 0.0
        self._episode: int | None = None
        self._sources: list[tuple[list[Topic], Any]] = []
        self._cameras: list[tuple[list[Topic], CameraSource]] = []
        for sensor in sensors:
            if _is_camera(sensor):
                if images:
                    own = camera_topics(sensor, env, prefix, jpeg)
                    self._cameras.append((own, CameraSource(sensor, env)))
                    if jpeg is not None and "rgb" in sensor.outputs:
                        file.add_topic(self._jpeg_topic(sensor), topics.COMPRESSED_IMAGE)
                continue
            self._sources.append((sensor_topics(sensor, prefix), SampleSource(reads, sensor, env)))
            if truth:
                self._sources.append((sensor_topics(sensor, prefix + TRUTH), TruthSource(reads, sensor, env)))
        for own, source in command_topics(scene, env, prefix):
            self._sources.append((own, source))
        for own, _ in [*self._sources, *self._cameras]:
            for each in own:
                file.add_topic(each.name, each.message)
        self._messages: list[tuple[int, int, str, bytes]] = []
        self._clock, self._clock_times = make_encoder(topics.CLOCK, {}), list[float]()
        file.add_topic(f"{prefix}/clock", topics.CLOCK)
        file.add_topic(f"{prefix}/episode", topics.STRING)
        self._links: LinkPoses | None = None
        self._poses: list[tuple[np.ndarray, np.ndarray, float]] = []
        if truth:
            self._links = LinkPoses(scene)
            if self._links.names:
                file.add_topic(f"{prefix}/tf", topics.TF)
                self._transforms = Transforms([(WORLD, name) for name in self._links.names])
        self._write_mounts(sensors)

    def _jpeg_topic(self, camera: CameraSensor) -> str:
        return self._prefix + topics.topic(camera.uuid, "/rgb/compressed")

    def _write_mounts(self, sensors: list[Any]) -> None:
        found = mounts(sensors)
        if found:
            name = f"{self._prefix}/tf_static"
            self._file.add_topic(name, topics.TF)
            transforms = Transforms([(link, child) for link, child, _, _ in found])
            pos, quat = (np.array([each[k] for each in found])[None] for k in (2, 3))
            start = to_nanoseconds(np.array([float(self._time[self._env])]))
            data = transforms.encode(pos, quat, start)
            self._file.write_all([(int(start[0]), int(start[0]), name, data[0].tobytes())])

    def take(self) -> None:
        """Collect what arrived during the last step."""
        now = float(self._time[self._env])
        episode = int(self._scene.episodes[self._env])
        if self._episode is not None and episode != self._episode:
            self._offset += self._last  # time goes on after a reset
        if episode != self._episode:
            self._episode = episode
            self._mark_episode(episode)
            for _, camera in self._cameras:
                camera.restart(now - self._scene.dt)
        self._last = now
        for _, source in self._sources:
            source.take(now, self._offset)
        for own, camera in self._cameras:
            self._take_image(own, camera, now)
        self._clock_times.append(now + self._offset)
        if self._links is not None and self._links.names:
            self._poses.append((*self._links.read(self._env), now + self._offset))

    def _mark_episode(self, episode: int) -> None:
        text = json.dumps({"episode": episode, "env": self._env})
        at = int(to_nanoseconds(np.array([self._offset]))[0])
        data = make_encoder(topics.STRING, {"data": text}).encode({})
        self._messages.append((at, at, f"{self._prefix}/episode", data[0].tobytes()))

    def _take_image(self, own: list[Topic], camera: CameraSource, now: float) -> None:
        found = camera.take(now)
        if found is None:
            return
        images, capture, arrival = found
        stamp, log = (int(to_nanoseconds(np.array([t + self._offset]))[0]) for t in (capture, arrival))
        for each in own:
            data = each.encode(images, np.array([stamp]))
            self._messages.append((log, stamp, each.name, data[0].tobytes()))
        if self._jpeg is not None and "rgb" in images:
            compressed = encode_jpeg(camera.camera, images["rgb"][0], stamp, self._jpeg)
            self._messages.append((log, stamp, self._jpeg_topic(camera.camera), compressed))

    def flush(self) -> None:
        """Encode and write what was collected, in the order of its arrival."""
        for own, source in self._sources:
            values, capture, arrival = source.drain()
            if not len(capture):
                continue
            stamp, log = to_nanoseconds(capture), to_nanoseconds(arrival)
            for each in own:
                self._add(each.name, each.encode(values, stamp), log, stamp)
        times = to_nanoseconds(np.array(self._clock_times))
        if len(times):
            self._add(f"{self._prefix}/clock", self._clock.encode(stamps(times, "clock")), times, times)
        if self._poses:
            pos, quat, at = (np.array([each[k] for each in self._poses]) for k in (0, 1, 2))
            posed = to_nanoseconds(at)  # Ctrl-C may have come between clock and poses
            self._add(f"{self._prefix}/tf", self._transforms.encode(pos, quat, posed), posed, posed)
        self._clock_times.clear()
        self._poses.clear()
        messages, self._messages = sorted(self._messages, key=itemgetter(0)), []
        self._file.write_all(messages)

    def _add(self, name: str, rows: np.ndarray, log: np.ndarray, stamp: np.ndarray) -> None:
        data = rows.tobytes()
        size = rows.shape[1]
        for i, (at, captured) in enumerate(zip(log.tolist(), stamp.tolist(), strict=True)):
            self._messages.append((at, captured, name, data[i * size : (i + 1) * size]))


def _check_envs(envs: Iterable[int], n_envs: int) -> list[int]:
    """Return ids of envs as a list.

    Raises:
        OptionError: they are not different ids of envs.
    """
    found = list(envs)
    for env in found:
        if isinstance(env, (bool, np.bool_)) or not isinstance(env, Integral) or not 0 <= env < n_envs:
            raise OptionError(f"envs must lie in [0, {n_envs}), got {env!r}")
    if not found or len(set(found)) < len(found):
        raise OptionError(f"envs must name at least one env, and each once, got {found}")
    return found


def _is_camera(sensor: object) -> bool:
    return hasattr(sensor, "outputs")


def _describe(scene: Scene, metadata: Mapping[str, Any] | None, envs: list[int]) -> dict[str, dict[str, Any]]:
    """Return what the metadata of a file says."""
    sensors: dict[str, Any] = dict(scene.sensors)
    options = {
        uuid: {"kind": type(sensor.options).__name__, **sensor.options.model_dump(mode="json", exclude_unset=True)}
        for uuid, sensor in sensors.items()
    }
    return {
        "sensorium": {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": package_versions(),
            "seed": scene.seed,
            "dt": scene.dt,
            "gravity": scene.world.model.opt.gravity.tolist(),
            "envs": envs,
            "times": "header.stamp is the time of capture, the log time that of arrival, both simulated",
            **(metadata or {}),
        },
        "sensors": options,
        "scene": {"mjcf": scene.to_xml()},
    }
