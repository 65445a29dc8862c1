"""MCAP files of ROS 2 messages, one per episode: ``episode_000000.mcap``, ...

::

    /observation/NAME                  PoseStamped for poses (velocities as TwistStamped below it), JointState for
                                       joints, otherwise PointCloud2 whose fields are the names of the numbers; also
                                       /privileged/NAME and /info/NAME
    /observation/NAME                  Image, for cameras
    /action                            JointState: names and values of the action
    /step/rewards, /step/success, ...  Float64
    /text/NAME, /episode               String: JSON

Stamps and log times are simulated times since the reset: the files of a dataset do not keep times of arrival.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sensorium.datasets.dataset import Episode
from sensorium.datasets.export.source import ACTION, STEPS, ExportSource, ImageSource, Signal, image_note
from sensorium.datasets.header import episode_name
from sensorium.ros import topics
from sensorium.ros.cdr import Encoder
from sensorium.ros.frames import to_nanoseconds
from sensorium.ros.mcap_file import McapFile
from sensorium.ros.messages import make_encoder, quaternion, stamps, vector

_JOINTS = {"obs/agent/qpos": "position", "obs/agent/qvel": "velocity"}
_IMAGES = {
    ("uint8", 3): "rgb8",
    ("uint8", 4): "rgba8",
    ("uint8", 1): "mono8",
    ("uint16", 1): "mono16",
    ("float32", 1): "32FC1",
    ("int32", 2): "32SC2",
}
"""dtype and channels of an image -> encoding."""

Rows = list[tuple[int, int, str, bytes]]


def write(source: ExportSource, folder: Path, progress: Callable[[int], None]) -> None:
    """Write a dataset into an empty folder."""
    source.cameras = source.skip_images(("planes",), "messages of ROS show colour, grey, depth and segmentation only")
    for episode in source.episodes():
        _EpisodeFile(source, episode, folder / f"{episode_name(episode.number)}.mcap").write()
        progress(1)
    source.note(folder, _kept(source))


class _EpisodeFile:
    """Writes one episode."""

    def __init__(self, source: ExportSource, episode: Episode, path: Path) -> None:
        self._source, self._episode = source, episode
        metadata = {
            "task": str(source.options["task"]),
            "episode": episode.number,
            "seed": int(episode.attributes["seed"]),
        }
        self._file = McapFile(path, chunk_bytes=1 << 22, metadata={"sensorium": metadata, "scene": episode.scene})
        self._times = to_nanoseconds(np.arange(episode.length + 1) / float(source.fps))
        self._rows: Rows = []

    def write(self) -> None:
        """Write all messages in the order of their times."""
        try:
            source, episode = self._source, self._episode
            for signal in source.signals:
                self._signal(signal, source.read(episode, signal).astype(np.float64))
            names = {f"name.{i}": name for i, name in enumerate(source.action_names)}
            action = np.asarray(episode[ACTION], np.float64)
            own = {"name": len(names), "position": action.shape[1], **names}
            self._add("/action", make_encoder(topics.JOINT_STATE, own), {"position": action})
            for name in STEPS:
                values = np.asarray(episode[name], np.float64).reshape(-1)
                self._add(f"/step/{name}", make_encoder(topics.FLOAT, {}), {"data": values})
            for uuid, name in source.texts.items():
                self._texts(_topic("text", name), [json.dumps(each) for each in episode.text(uuid)])
            self._texts("/episode", [json.dumps({"episode": episode.number})])
            self._write_by_time()
            self._file.close()
        except BaseException:
            self._file.abandon()
            raise

    def _write_by_time(self) -> None:
        """Write what was collected and the images, one step after the other: images are not kept."""
        cameras = [(camera, self._source.frames(self._episode, camera)) for camera in self._source.cameras]
        for camera, _ in cameras:
            self._file.add_topic(_topic(camera.group, camera.uuid), topics.IMAGE)
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
        """Collect rows of observations (T + 1) or of steps (T). The row of a step is at the end of that step."""
        self._file.add_topic(topic, encoder.message)
        count = len(next(iter(columns.values())))
        times = self._times[len(self._times) - count :]
        header = stamps(times) if encoder.message != topics.FLOAT else {}
        for time, row in zip(times.tolist(), encoder.encode({**header, **columns}), strict=True):
            self._rows.append((time, time, topic, row.tobytes()))

    def _signal(self, signal: Signal, rows: np.ndarray) -> None:
        topic, flat = _topic(signal.group, signal.name), rows.reshape(len(rows), -1)
        names = signal.columns or [f"value_{i}" for i in range(flat.shape[1])]
        if signal.is_pose:
            encoder = make_encoder(topics.POSE, {"header.frame_id": "base" if signal.in_base_frame else "world"})
            columns = vector("pose.position", flat) | quaternion("pose.orientation", flat[:, 3:7])
            if flat.shape[1] == 13:  # with velocities
                twist = make_encoder(topics.TWIST, {"header.frame_id": "world"})
                parts = vector("twist.linear", flat[:, 7:10]) | vector("twist.angular", flat[:, 10:13])
                self._add(f"{topic}/twist", twist, parts)
        elif signal.path in _JOINTS:
            kind = _JOINTS[signal.path]
            own = {f"name.{i}": name for i, name in enumerate(names)}
            encoder = make_encoder(topics.JOINT_STATE, {"name": len(names), kind: len(names), **own})
            columns = {kind: flat}
        else:
            encoder = make_encoder(topics.POINT_CLOUD, _cloud(names))
            columns = {"data": np.ascontiguousarray(flat.astype("<f4")).view(np.uint8)}
        self._add(topic, encoder, columns)

    def _texts(self, topic: str, texts: list[str]) -> None:
        self._file.add_topic(topic, topics.STRING)
        for time, text in zip(self._times.tolist(), texts, strict=False):
            data = make_encoder(topics.STRING, {"data": text}).encode({})[0].tobytes()
            self._rows.append((time, time, topic, data))

    def _image(self, camera: ImageSource, image: np.ndarray, time: int) -> tuple[int, int, str, bytes]:
        image = np.ascontiguousarray(image)
        channels = image.shape[2] if image.ndim == 3 else 1
        step = image[0].nbytes
        constant = {
            "header.frame_id": camera.uuid,
            "height": image.shape[0],
            "width": image.shape[1],
            "encoding": _IMAGES[str(image.dtype), channels],
            "step": step,
            "data": image.nbytes,
        }
        columns = {**stamps(np.array([time])), "data": image.reshape(1, -1).view(np.uint8)}
        data = make_encoder(topics.IMAGE, constant).encode(columns)[0].tobytes()
        return time, time, _topic(camera.group, camera.uuid), data


def _cloud(names: list[str]) -> dict[str, Any]:
    """Return the constant part of a point cloud of one point, whose fields have these names."""
    size = 4 * len(names)
    constant: dict[str, Any] = {
        "height": 1,
        "width": 1,
        "point_step": size,
        "row_step": size,
        "data": size,
        "is_dense": True,
        "fields": len(names),
    }
    for i, name in enumerate(names):
        own = f"fields.{i}"
        constant |= {f"{own}.name": name, f"{own}.offset": 4 * i, f"{own}.datatype": 7, f"{own}.count": 1}
    return constant


def _topic(group: str, name: str) -> str:
    return topics.topic(f"{group}/{name.replace('.', '/')}")


def _kept(source: ExportSource) -> dict[str, dict[str, Any]]:
    kept: dict[str, dict[str, Any]] = {
        signal.key: {"name": _topic(signal.group, signal.name), "unit": signal.unit} for signal in source.signals
    }
    kept |= {camera.uuid: image_note(camera, _topic(camera.group, camera.uuid)) for camera in source.cameras}
    kept |= {uuid: {"name": _topic("text", name), "form": "JSON"} for uuid, name in source.texts.items()}
    return kept | {name: {"name": f"/step/{name}"} for name in STEPS} | {ACTION: {"name": "/action"}}
