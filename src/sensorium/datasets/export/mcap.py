"""MCAP files of ROS 2 messages, one per episode: ``episode_000000.mcap``, ...

::

    /UUID, /UUID/mag, ...              sensors of the scene, with the messages of sensorium.ros.McapRecorder: Imu,
                                       MagneticField, JointState, LaserScan, PoseStamped, ...
    /CAM/rgb, /CAM/depth, ...          Image, and /CAM/camera_info CameraInfo
    /joint_states                      JointState: qpos and qvel
    /tcp_pose, ...                     PoseStamped
    /truth/...                         what is privileged: ground truth of sensors, poses (velocities as TwistStamped
                                       below them), and PointCloud2 whose fields are the names of the numbers
    /observation/NAME, /info/NAME      PointCloud2, for other numbers
    /action                            JointState: names and values of the action, at the end of its step
    /step/rewards, /step/success, ...  Float64
    /text/NAME, /episode               String: JSON
    /tf, /tf_static, /clock            poses of actors, base and cameras; mounts of sensors; time

Stamps and log times are simulated times since the reset: a dataset holds what was observed at each step, and not when
it was captured and arrived. The metadata states that.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sensorium.datasets.dataset import Episode
from sensorium.datasets.export.mcap_topics import McapTopics, route
from sensorium.datasets.export.source import ACTION, STEPS, ExportSource, ImageSource, image_note
from sensorium.datasets.header import episode_name
from sensorium.ros import topics
from sensorium.ros.cdr import Encoder
from sensorium.ros.frames import Transforms, to_nanoseconds
from sensorium.ros.mcap_file import McapFile
from sensorium.ros.messages import make_encoder, stamps

_IMAGES = {
    ("uint8", 3): "rgb8",
    ("uint8", 4): "rgba8",
    ("uint8", 1): "mono8",
    ("uint16", 1): "mono16",
    ("float32", 1): "32FC1",
    ("float32", 3): "32FC3",
    ("int32", 1): "32SC1",
    ("int32", 2): "32SC2",
}
"""dtype and channels of an image -> encoding."""
_TIMES = (
    "header.stamp and log time are both the time of the step, in s since the reset: the dataset holds what was "
    "observed at each step, without the times of capture and arrival"
)

Rows = list[tuple[int, int, str, bytes]]


def write(source: ExportSource, folder: Path, progress: Callable[[int], None]) -> None:
    """Write a dataset into an empty folder."""
    for camera in source.cameras:
        if _encoding(camera.form.shape, camera.form.dtype) is None:
            source.skipped[camera.uuid] = f"ROS has no encoding for images of {camera.form.shape} {camera.form.dtype}"
    source.cameras = [camera for camera in source.cameras if camera.uuid not in source.skipped]
    found = route(source)
    for episode in source.episodes():
        _EpisodeFile(source, found, episode, folder / f"{episode_name(episode.number)}.mcap").write()
        progress(1)
    source.note(folder, _kept(source, found))


def _encoding(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str | None:
    """Return the encoding of an image (H, W) or (H, W, C); None if ROS has none."""
    channels = shape[2] if len(shape) == 3 else 1
    return _IMAGES.get((str(dtype), channels)) if len(shape) in (2, 3) else None


class _EpisodeFile:
    """Writes one episode."""

    def __init__(self, source: ExportSource, found: McapTopics, episode: Episode, path: Path) -> None:
        self._source, self._found, self._episode = source, found, episode
        self._file = McapFile(path, chunk_bytes=1 << 22, metadata=_metadata(source, found, episode))
        self._times = to_nanoseconds(np.arange(episode.length + 1) / float(source.fps))
        self._rows: Rows = []

    def write(self) -> None:
        """Write all messages in the order of their times."""
        try:
            self._collect()
            self._write_by_time()
            self._file.close()
        except BaseException:
            self._file.abandon()
            raise

    def _collect(self) -> None:
        source, episode, found = self._source, self._episode, self._found
        arrays = {signal.key: source.read(episode, signal) for signal in source.signals}
        if found.mounts:
            transforms = Transforms([(link, child) for link, child, _, _ in found.mounts])
            pos, quat = (np.array([each[k] for each in found.mounts])[None] for k in (2, 3))
            self._keep("/tf_static", topics.TF, transforms.encode(pos, quat, self._times[:1]), self._times[:1])
        clock = make_encoder(topics.CLOCK, {})
        self._keep("/clock", topics.CLOCK, clock.encode(stamps(self._times, "clock")), self._times)
        if found.frames:
            self._keep("/tf", topics.TF, found.transforms(arrays, self._times), self._times)
        for each in found.topics:
            self._add(each.name, each.encoder, each.columns(arrays))
        names = {f"name.{i}": name for i, name in enumerate(source.action_names)}
        action = np.asarray(episode[ACTION], np.float64)
        own = {"name": len(names), "position": action.shape[1], **names}
        self._add("/action", make_encoder(topics.JOINT_STATE, own), {"position": action})
        for name in STEPS:
            values = np.asarray(episode[name], np.float64).reshape(-1)
            self._add(f"/step/{name}", make_encoder(topics.FLOAT, {}), {"data": values})
        for uuid, name in source.texts.items():
            self._texts(_text_topic(name), [json.dumps(each) for each in episode.text(uuid)])
        self._texts("/episode", [json.dumps({"episode": episode.number})])

    def _write_by_time(self) -> None:
        """Write what was collected and the images, one step after the other: images are not kept."""
        cameras = [(camera, self._source.frames(self._episode, camera)) for camera in self._source.cameras]
        for camera, _ in cameras:
            self._file.add_topic(self._found.images[camera.uuid][0], topics.IMAGE)
        self._rows.sort(key=lambda row: row[0])
        first = 0
        for time in self._times.tolist():
            last = first
            while last < len(self._rows) and self._rows[last][0] <= time:
                last += 1
            self._file.write_all(self._rows[first:last])
            first = last
            self._file.write_all([self._image(camera, next(frames), time) for camera, frames in cameras])
        self._file.write_all(self._rows[first:])

    def _add(self, topic: str, encoder: Encoder, columns: dict[str, Any]) -> None:
        """Collect messages of observations (T + 1) or of steps (T). That of a step is at the end of the step."""
        times = self._times[len(self._times) - len(next(iter(columns.values()))) :]
        header = stamps(times) if encoder.message != topics.FLOAT else {}
        self._keep(topic, encoder.message, encoder.encode({**header, **columns}), times)

    def _keep(self, topic: str, message: str, rows: np.ndarray, times: np.ndarray) -> None:
        """Collect encoded messages, (n, size) uint8, with their times, (n,) ns."""
        self._file.add_topic(topic, message)
        for time, row in zip(times.tolist(), rows, strict=True):
            self._rows.append((time, time, topic, row.tobytes()))

    def _texts(self, topic: str, texts: list[str]) -> None:
        self._file.add_topic(topic, topics.STRING)
        for time, text in zip(self._times.tolist(), texts, strict=False):
            data = make_encoder(topics.STRING, {"data": text}).encode({})[0].tobytes()
            self._rows.append((time, time, topic, data))

    def _image(self, camera: ImageSource, image: np.ndarray, time: int) -> tuple[int, int, str, bytes]:
        image = np.ascontiguousarray(image)
        topic, frame = self._found.images[camera.uuid]
        constant = {
            "header.frame_id": frame,
            "height": image.shape[0],
            "width": image.shape[1],
            "encoding": _encoding(image.shape, image.dtype),
            "step": image[0].nbytes,
            "data": image.nbytes,
        }
        columns = {**stamps(np.array([time])), "data": image.reshape(1, -1).view(np.uint8)}
        data = make_encoder(topics.IMAGE, constant).encode(columns)[0].tobytes()
        return time, time, topic, data


def _metadata(source: ExportSource, found: McapTopics, episode: Episode) -> dict[str, dict[str, Any]]:
    """Return what the metadata of a file says, under the names of sensorium.ros.McapRecorder."""
    options: dict[str, str] = {
        name: str(episode.attributes[name]) for name in ("task", "robot", "policy") if name in episode.attributes
    }
    frames = {child: parent for parent, child, *_ in [*found.frames, *found.mounts]}
    return {
        "sensorium": {
            **options,
            "episode": episode.number,
            "length": episode.length,
            "success": episode.success,
            "seed": int(episode.attributes["seed"]),
            "dt": 1 / float(source.fps),
            "versions": str(episode.attributes.get("versions", "{}")),
            "times": _TIMES,
        },
        "sensors": found.sensors,
        "frames": frames,
        "scene": episode.scene,
    }


def _text_topic(name: str) -> str:
    return topics.topic(f"text/{name.replace('.', '/')}")


def _kept(source: ExportSource, found: McapTopics) -> dict[str, dict[str, Any]]:
    kept: dict[str, dict[str, Any]] = {}
    for signal in source.signals:
        names = found.of(signal.key)
        kept[signal.key] = {"name": names[0], "unit": signal.unit} | ({"also": names[1:]} if names[1:] else {})
    kept |= {camera.uuid: image_note(camera, found.images[camera.uuid][0]) for camera in source.cameras}
    kept |= {uuid: {"name": _text_topic(name), "form": "JSON"} for uuid, name in source.texts.items()}
    return kept | {name: {"name": f"/step/{name}"} for name in STEPS} | {ACTION: {"name": "/action"}}
