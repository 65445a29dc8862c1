"""``from_log``: a robot's log as a dataset, so that it is read and exported like generated episodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sensorium._arguments import checked
from sensorium.datasets.dataset import Dataset
from sensorium.datasets.episode_writer import EpisodeWriter
from sensorium.datasets.export.folder import check_free
from sensorium.datasets.header import episode_name, write_header
from sensorium.datasets.manifest import entry_of, write_manifest
from sensorium.errors import DatasetError, OptionError
from sensorium.files import made_folder
from sensorium.logs import Log, resample
from sensorium.ros.topics import IMAGE
from sensorium.suites import ArraySensor, SensorSuite

Field = tuple[str, str]
"""Topic and path of a field."""

_COLOURS = {"rgb8": (0, 1, 2), "bgr8": (2, 1, 0)}


@checked
def from_log(
    log: Log,
    out: str | Path,
    fields: Mapping[str, Field],
    rate: float,
    *,
    action: Field | None = None,
    task: str = "log",
    robot: str = "robot",
    start: float | None = None,
    stop: float | None = None,
) -> Dataset:
    """Write a log as a dataset of one episode, in the format of generated datasets.

    Values are those that a reader would have had at each step; see :func:`sensorium.logs.resample`. The action of a
    step is the newest command at its end: a controller sends it after it read the observation at the beginning. Rewards
    are 0, and the episode ends truncated: a log has neither rewards nor success.

    Args:
        log: the log.
        out: folder, new or empty.
        fields: uuid of the suite's sensor -> topic and path of the field, e.g. ``{"imu": ("/imu",
            "angular_velocity")}``. Colour images: the path "data" of an Image topic.
        rate: steps per second, Hz.
        action: topic and path of the commands. Default: one action that is always 0, since files need at least one.
        task: name of the task, for exports.
        robot: name of the robot, for exports.
        start, stop: part of the log, s. Default: from when all topics have had a message to the end.

    Raises:
        OptionError: a topic or field is missing, or an image has another encoding than rgb8 or bgr8.
        DatasetError: the folder is not empty, or the log is too short.

    Example:
        >>> fields = {"gyro": ("/imu", "angular_velocity"), "qpos_measured": ("/joint_states", "position")}
        >>> sn.datasets.from_log(log, "data/real", fields, rate=50, action=("/command/position", "position"))
        >>> sn.datasets.export("data/real", "lerobot", "data/real-lerobot")
    """
    folder = Path(out)
    check_free(folder)
    for name, text in (("task", task), ("robot", robot)):
        if "\0" in text or text != text.encode(errors="replace").decode():
            raise OptionError(f"from_log: {name} must be text that HDF5 can store, got {text!r:.80}")
    if not fields:
        raise OptionError("fields must name at least one field of the log")
    chosen = {**fields, **({} if action is None else {"/action": action})}
    values = resample(log, chosen, rate, start, stop)
    time = values.pop("time")
    if len(time) < 2:
        raise DatasetError(f"the log is shorter than two steps of {1 / rate:g} s")
    commands = values["/action"].reshape(len(time), -1) if action is not None else np.zeros((len(time), 1))
    names = _names(log, action, commands.shape[1])
    images = {uuid for uuid, (topic, path) in fields.items() if log[topic].message == IMAGE and path == "data"}
    rows = {uuid: _images(log, fields[uuid][0], values[uuid]) if uuid in images else values[uuid] for uuid in fields}
    now = {uuid: own[:1] for uuid, own in rows.items()}
    sensors = [
        ArraySensor(
            uuid,
            _reader(now, uuid),
            own.shape[1:] or (1,),
            dtype=np.uint8 if uuid in images else np.float32,
            is_image=uuid in images,
            purpose="observation",
            **({"low": 0, "high": 255} if uuid in images else {}),
        )
        for uuid, own in rows.items()
    ]
    suite = SensorSuite(1, sensors, owner="log")
    options = {"task": task, "robot": robot, "policy": "log", "seed": 0, "episodes": 1}
    scene = _LoggedTask(suite, 1, _Timing(1 / rate), _Actions(len(names), names), {"log": log.source, "start": time[0]})
    attributes: dict[str, str | float] = {"seed": 0, **{key: str(options[key]) for key in ("task", "robot", "policy")}}
    flag, done = np.zeros(1, bool), np.ones(1, bool)
    with made_folder(folder):
        writer = EpisodeWriter(folder, scene, [0], attributes)
        try:
            writer.begin(suite.read())
            for k in range(1, len(time)):
                now.update({uuid: own[k : k + 1] for uuid, own in rows.items()})
                last = k == len(time) - 1
                writer.add(suite.read(), commands[k : k + 1], np.zeros(1), flag, done if last else flag, flag, done)
            writer.close([folder])
        except BaseException:
            writer.abort()
            raise
    write_header(folder, options)
    write_manifest(folder, {episode_name(0): entry_of(folder, episode_name(0))})
    return Dataset(folder)


def _reader(now: dict[str, np.ndarray], uuid: str) -> Any:
    return lambda: now[uuid].reshape(1, -1) if now[uuid].ndim == 1 else now[uuid]


def _names(log: Log, action: Field | None, n: int) -> list[str]:
    names = [] if action is None else log[action[0]].names
    return names if len(names) == n else [f"action_{i}" for i in range(n)]


def _images(log: Log, topic: str, data: np.ndarray) -> np.ndarray:
    """Return the bytes of colour images as (n, H, W, 3) uint8."""
    own = log[topic]
    encoding = str(own["encoding"][0])
    if encoding not in _COLOURS:
        raise OptionError(f"{topic} has images of the encoding {encoding!r}; supported are {', '.join(_COLOURS)}")
    height, width = int(own["height"][0]), int(own["width"][0])
    return data.reshape(len(data), height, -1)[:, :, : 3 * width].reshape(len(data), height, width, 3)[
        ..., list(_COLOURS[encoding])
    ]


@dataclass(frozen=True)
class _Timing:
    dt: float


@dataclass(frozen=True)
class _Actions:
    n_actions: int
    action_names: list[str]


@dataclass(frozen=True)
class _LoggedTask:
    """What :class:`EpisodeWriter` needs of a task, for a log."""

    suite: SensorSuite
    n_envs: int
    config: _Timing
    robot: _Actions
    scene: dict[str, Any]

    def describe_scene(self, env: int) -> dict[str, Any]:
        """Return where the episode comes from."""
        return self.scene
