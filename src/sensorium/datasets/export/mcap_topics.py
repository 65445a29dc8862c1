"""Which messages the arrays of a dataset are: those of drivers where there is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sensorium.cameras.options import OUTPUTS
from sensorium.datasets.export.source import ExportSource, ImageSource, Signal, contents_of, dotted
from sensorium.datasets.export.stored_sensors import StoredSensor, stored_sensors
from sensorium.ros import topics
from sensorium.ros.camera_topics import OPTICAL, info_constants
from sensorium.ros.cdr import Encoder
from sensorium.ros.frames import WORLD, Transforms, mounts
from sensorium.ros.messages import Columns, Topic, make_encoder, quaternion, sensor_topics, vector
from sensorium.suites.observation import PRIVILEGED

BASE = "base"
"""Frame of the robot's base."""
_JOINTS = {"obs/agent/qpos": "position", "obs/agent/qvel": "velocity"}
_PLACES = {"observation": "", "privileged": "/truth", "info": ""}
_BASE_POSE = "obs/extra/robot_base_pose"
_ACTORS = "env_states/actors/"
_PARAMETERS = "obs/sensor_param/"

Arrays = Mapping[str, np.ndarray]
"""Key of a signal -> its rows, (T + 1, ...)."""


@dataclass(frozen=True)
class ExportedTopic:
    """One topic with a message for every observation.

    Attributes:
        name: the topic.
        encoder: encodes its messages.
        keys: keys of the signals that it holds.
        columns: returns path -> values of all messages, from those signals.
    """

    name: str
    encoder: Encoder
    keys: tuple[str, ...]
    columns: Callable[[Arrays], Columns]


@dataclass
class McapTopics:
    """All topics of an export.

    Attributes:
        topics: those of numbers.
        images: uuid of a video -> its topic and frame.
        frames: (parent, child) of the moving frames, and functions that return their positions and orientations.
        mounts: (link, frame, position, orientation) of sensors on links.
        sensors: uuid -> kind and options, for the metadata.
    """

    topics: list[ExportedTopic] = field(default_factory=list)
    images: dict[str, tuple[str, str]] = field(default_factory=dict)
    frames: list[tuple[str, str, str, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]]] = field(
        default_factory=list
    )
    mounts: list[tuple[str, str, np.ndarray, np.ndarray]] = field(default_factory=list)
    sensors: dict[str, dict[str, Any]] = field(default_factory=dict)

    def of(self, key: str) -> list[str]:
        """Return the topics that hold a signal."""
        names = [each.name for each in self.topics if key in each.keys]
        return [*names, *(["/tf"] if any(key == each[2] for each in self.frames) else [])]

    def transforms(self, arrays: Arrays, stamps: np.ndarray) -> np.ndarray:
        """Return ``/tf`` messages, (n, size) uint8."""
        poses = [pose(arrays[key]) for _, _, key, pose in self.frames]
        pos, quat = (np.stack([each[k] for each in poses], axis=1) for k in (0, 1))
        return Transforms([(parent, child) for parent, child, _, _ in self.frames]).encode(pos, quat, stamps)


def route(source: ExportSource) -> McapTopics:
    """Return the topics of all signals and images of a dataset."""
    return _Router(source).run()


class _Router:
    def __init__(self, source: ExportSource) -> None:
        self._source, self._first = source, source.dataset[0]
        self._left = {signal.key: signal for signal in source.signals}
        self._found = McapTopics()
        self._used = {"/action", "/clock", "/episode", "/tf", "/tf_static"}

    def run(self) -> McapTopics:
        contents = contents_of(self._first)
        shapes = {path: content[0] for path, content in contents.items() if isinstance(content, tuple)}
        stored = stored_sensors(self._first, shapes)
        for sensor in stored:
            self._add_sensor(sensor)
        self._found.mounts = mounts([sensor for sensor in stored if not sensor.is_truth])
        self._add_joints()
        for camera in self._source.cameras:
            self._add_camera(camera)
        for signal in self._left.values():
            self._add_frame(signal)
            self._add_signal(signal)
        return self._found

    def _name(self, name: str) -> str:
        """Return a topic of this name that no other signal has."""
        while name in self._used:
            name += "_"
        self._used.add(name)
        return name

    def _add(self, name: str, encoder: Encoder, keys: tuple[str, ...], columns: Callable[[Arrays], Columns]) -> None:
        self._found.topics.append(ExportedTopic(self._name(name), encoder, keys, columns))

    def _add_sensor(self, sensor: StoredSensor) -> None:
        """Add the messages of a sensor of the scene whose fields are all exported."""
        prefix = "/truth" if sensor.is_truth else ""
        found = False
        for each in sensor_topics(sensor, prefix):
            paths = {name: sensor.paths[name] for name in each.fields}
            if set(paths.values()) <= self._left.keys():
                self._add(each.name, each.encoder, tuple(paths.values()), _sensor_columns(sensor, each, paths))
                found = True
                for path in paths.values():
                    del self._left[path]
        if found and not sensor.is_truth:
            options = sensor.options.model_dump(mode="json", exclude_unset=True)
            self._found.sensors[sensor.uuid] = {"kind": type(sensor.options).__name__, **options}

    def _add_joints(self) -> None:
        """Add positions and velocities of the same joints as one JointState."""
        groups: dict[tuple[str, str, tuple[str, ...]], list[Signal]] = {}
        for signal in [each for each in self._left.values() if each.path in _JOINTS]:
            names = tuple(signal.columns or (f"value_{i}" for i in range(int(np.prod(signal.shape)))))
            end = signal.name.partition(".")[2]
            groups.setdefault((_PLACES[signal.group], f"/{end}" if end else "", names), []).append(signal)
            del self._left[signal.key]
        for (place, end, names), own in groups.items():
            short = [name.split(".")[-1] for name in names]
            shown = short if len(set(short)) == len(short) else list(names)
            constant: dict[str, Any] = {"name": len(names), **{f"name.{i}": name for i, name in enumerate(shown)}}
            constant |= {_JOINTS[signal.path]: len(names) for signal in own}
            encoder = make_encoder(topics.JOINT_STATE, constant)
            paths = {_JOINTS[signal.path]: signal.key for signal in own}
            self._add(f"{place}/joint_states{end}", encoder, tuple(paths.values()), _flat_columns(paths))

    def _add_camera(self, camera: ImageSource) -> None:
        """Add the topic and frame of images; the first image of a camera adds its CameraInfo and its frame."""
        name, output = self._camera(camera.uuid)
        place = _PLACES[camera.group]
        if output is None:
            self._found.images[camera.uuid] = self._name(place + topics.topic(camera.uuid)), camera.uuid
            return
        frame = topics.topic(name)[1:] + OPTICAL
        self._found.images[camera.uuid] = self._name(place + topics.topic(name, f"/{output}")), frame
        below = f"{_PARAMETERS}{name}/"
        intrinsic, extrinsic = (self._left.pop(f"{below}{leaf}", None) for leaf in ("intrinsic_cv", "extrinsic_cv"))
        if intrinsic is not None:
            own = info_constants(frame, (camera.width, camera.height), self._first.camera_profile(camera.uuid))
            encoder = make_encoder(topics.CAMERA_INFO, own)
            self._add(topics.topic(name, "/camera_info"), encoder, (intrinsic.key,), _info_columns(intrinsic.key))
        if extrinsic is not None:
            self._found.frames.append((WORLD, frame, extrinsic.key, _camera_pose))

    def _camera(self, uuid: str) -> tuple[str, str | None]:
        """Return camera and output of a video; (uuid, None) for images of other sensors."""
        known = {path.removeprefix(_PARAMETERS).split("/")[0] for path in self._first.paths() if _PARAMETERS in path}
        if uuid in known:
            return uuid, "rgb"
        for output in OUTPUTS:
            name = uuid.removesuffix(f"_{output}")
            if name != uuid and name in known:
                return name, output
        return uuid, None

    def _add_frame(self, signal: Signal) -> None:
        if signal.path == _BASE_POSE:
            self._found.frames.append((WORLD, BASE, signal.key, _split_pose))
        elif signal.path.startswith(_ACTORS):
            name = signal.path.removeprefix(_ACTORS).replace("%2F", "/")
            bodies: list[str] = self._first.scene.get("bodies", [])
            root = next((body for body in bodies if body.startswith(f"{name}/")), name)
            self._found.frames.append((WORLD, name if name in bodies else root, signal.key, _split_pose))

    def _add_signal(self, signal: Signal) -> None:
        key = signal.key
        if signal.is_pose:
            own = topics.topic(signal.name.replace(".", "/"))
            frame = {"header.frame_id": BASE if signal.in_base_frame else WORLD}
            place = _PLACES[signal.group]
            self._add(place + own, make_encoder(topics.POSE, frame), (key,), _pose_columns(key))
            if int(np.prod(signal.shape)) == 13:  # with velocities
                encoder = make_encoder(topics.TWIST, frame)
                self._add(f"{place}{own}/twist", encoder, (key,), _twist_columns(key))
            return
        name = signal.name.removeprefix(dotted(PRIVILEGED))
        place = "/truth" if signal.group == "privileged" else f"/{signal.group}"
        names = signal.columns or [f"value_{i}" for i in range(int(np.prod(signal.shape)))]
        encoder = make_encoder(topics.POINT_CLOUD, _cloud(names))
        self._add(place + topics.topic(name.replace(".", "/")), encoder, (key,), _cloud_columns(key))


def _rows(values: np.ndarray) -> np.ndarray:
    return values.reshape(len(values), -1).astype(np.float64)


def _sensor_columns(sensor: StoredSensor, topic: Topic, paths: dict[str, str]) -> Callable[[Arrays], Columns]:
    def columns(arrays: Arrays) -> Columns:
        values = {name: arrays[path][:, 0] if sensor.has_history else arrays[path] for name, path in paths.items()}
        return topic.columns(values)

    return columns


def _flat_columns(paths: dict[str, str]) -> Callable[[Arrays], Columns]:
    return lambda arrays: {path: _rows(arrays[key]) for path, key in paths.items()}


def _pose_columns(key: str) -> Callable[[Arrays], Columns]:
    def columns(arrays: Arrays) -> Columns:
        flat = _rows(arrays[key])
        return vector("pose.position", flat) | quaternion("pose.orientation", flat[:, 3:7])

    return columns


def _twist_columns(key: str) -> Callable[[Arrays], Columns]:
    def columns(arrays: Arrays) -> Columns:
        flat = _rows(arrays[key])
        return vector("twist.linear", flat[:, 7:10]) | vector("twist.angular", flat[:, 10:13])

    return columns


def _cloud_columns(key: str) -> Callable[[Arrays], Columns]:
    return lambda arrays: {"data": np.ascontiguousarray(_rows(arrays[key]).astype("<f4")).view(np.uint8)}


def _info_columns(key: str) -> Callable[[Arrays], Columns]:
    def columns(arrays: Arrays) -> Columns:
        k = arrays[key].reshape(-1, 3, 3).astype(np.float64)
        return {"k": k.reshape(-1, 9), "p": np.pad(k, ((0, 0), (0, 0), (0, 1))).reshape(-1, 12)}

    return columns


def _split_pose(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return rows[:, :3], rows[:, 3:7]


def _camera_pose(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return positions and orientations of an optical frame in the world, from matrices world to camera (n, 3, 4)."""
    from scipy.spatial.transform import Rotation

    turns = np.swapaxes(rows[:, :3, :3].astype(np.float64), 1, 2)
    pos = -np.einsum("nij,nj->ni", turns, rows[:, :3, 3].astype(np.float64))
    return pos, Rotation.from_matrix(turns).as_quat(scalar_first=True)


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
