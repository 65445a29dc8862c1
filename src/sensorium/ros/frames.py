"""Frames of a scene as transforms of ROS: links in the world, and sensors on their links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from sensorium.ros import topics
from sensorium.ros.camera_topics import optical_frame
from sensorium.ros.cdr import Encoder
from sensorium.ros.messages import NANO, make_encoder, stamps
from sensorium.ros.topics import frame

if TYPE_CHECKING:
    from sensorium.cameras.camera import CameraSensor
    from sensorium.worlds import Scene

WORLD = "world"


class Transforms:
    """Encodes transforms from parents to children, all with one time stamp.

    Args:
        pairs: (parent, child) frames.
    """

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        constant: dict[str, Any] = {"transforms": len(pairs)}
        for i, (parent, child) in enumerate(pairs):
            constant |= {f"transforms.{i}.header.frame_id": parent, f"transforms.{i}.child_frame_id": child}
        self._n = len(pairs)
        self._encoder: Encoder = make_encoder(topics.TF, constant)

    def encode(self, pos: np.ndarray, quat: np.ndarray, stamp: np.ndarray) -> np.ndarray:
        """Return messages, (n, size) uint8.

        Args:
            pos: positions of the children in their parents, (n, frames, 3) m.
            quat: orientations (w, x, y, z), (n, frames, 4).
            stamp: times, (n,) ns.
        """
        columns: dict[str, Any] = {}
        for i in range(self._n):
            path = f"transforms.{i}"
            columns |= stamps(stamp, f"{path}.header.stamp")
            columns |= {f"{path}.transform.translation.{axis}": pos[:, i, k] for k, axis in enumerate("xyz")}
            columns |= {f"{path}.transform.rotation.{axis}": quat[:, i, k] for k, axis in enumerate("wxyz")}
        return self._encoder.encode(columns)


class LinkPoses:
    """Poses of all links that can move, in the world.

    Args:
        scene: a built scene.

    Attributes:
        names: their frames.
    """

    def __init__(self, scene: Scene) -> None:
        model = scene.world.model
        self.ids = [body for body in range(1, model.nbody) if model.body_weldid[body] != 0]
        self.names = [model.body(body).name or f"body_{body}" for body in self.ids]
        self._pos, self._quat = scene.world.bind("xpos"), scene.world.bind("xquat")

    def read(self, env: int) -> tuple[np.ndarray, np.ndarray]:
        """Return positions (links, 3) m and orientations (links, 4) of one env, as copies."""
        return (
            self._pos[env, self.ids].double().numpy(force=True),
            self._quat[env, self.ids].double().numpy(force=True),
        )


def mounts(sensors: Sequence[Any]) -> list[tuple[str, str, np.ndarray, np.ndarray]]:
    """Return (link, frame of the sensor, position, orientation (w, x, y, z)) of sensors that are mounted on a link."""
    from sensorium.worlds.compose import pose

    found = []
    for sensor in sensors:
        options = sensor.options
        if not getattr(options, "link", None) or not hasattr(options, "quat"):
            continue
        if hasattr(options, "outputs"):
            pos, quat = _camera_mount(sensor)
            found.append((options.link, optical_frame(sensor), pos, quat))
        else:
            found.append((options.link, frame(sensor), *pose(options.pos, options.quat, options.euler)))
    return found


def _camera_mount(camera: CameraSensor) -> tuple[np.ndarray, np.ndarray]:
    """Return the pose of a camera's optical frame on its link."""
    world = camera.cam2world_cv[0].double().numpy(force=True)
    data = camera.group.world
    link = data.model.body(camera.options.link).id
    origin = data.bind("xpos")[0, link].double().numpy(force=True)
    turned = np.zeros(9)
    mujoco.mju_quat2Mat(turned, data.bind("xquat")[0, link].double().numpy(force=True))
    base = turned.reshape(3, 3)
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, np.ascontiguousarray(base.T @ world[:3, :3]).ravel())
    return base.T @ (world[:3, 3] - origin), quat


def to_nanoseconds(time: np.ndarray) -> np.ndarray:
    """Return times in s as whole ns, int64."""
    return np.rint(np.asarray(time, np.float64) * NANO).astype(np.int64)
