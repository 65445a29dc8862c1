"""Poses of links in a log's ``/tf``, and the joint positions that follow from them."""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import numpy as np

from sensorium import poses
from sensorium.logs import Log

TF = "/tf"
_ROOTS = ("world", "map", "odom")
"""Frames that do not move, the best first."""


class LinkMotion(NamedTuple):
    """Poses of a link over time."""

    parent: str
    """The frame that they are in."""
    time: np.ndarray
    """Stamps, (n,) s, increasing."""
    pos: np.ndarray
    """Positions, (n, 3) m."""
    quat: np.ndarray
    """Orientations (w, x, y, z), (n, 4)."""


class LinkMotions:
    """The moving frames of a log.

    Args:
        log: the log of one robot.
    """

    def __init__(self, log: Log) -> None:
        self._found: dict[str, LinkMotion] = {}
        if TF in log:
            self._read(log)

    def _read(self, log: Log) -> None:
        tf = log[TF]
        rows: dict[tuple[str, str], list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {}
        for path, children in tf.texts.items():
            if not path.endswith(".child_frame_id"):
                continue
            at = path.removesuffix(".child_frame_id")
            part = tf.take(np.array([child is not None for child in children]))  # messages have different lengths
            parents, children = part.texts[f"{at}.header.frame_id"], part.texts[path]
            time = np.asarray(part[f"{at}.header.stamp.sec"], np.float64)
            time = time + 1e-9 * np.asarray(part[f"{at}.header.stamp.nanosec"], np.float64)
            pos, quat = (np.asarray(part[f"{at}.transform.{each}"]) for each in ("translation", "rotation"))
            for parent, child in set(zip(parents.tolist(), children.tolist(), strict=True)):
                own = (parents == parent) & (children == child)
                rows.setdefault((child, parent), []).append((time[own], pos[own], quat[own]))
        for (child, parent), parts in rows.items():
            time, pos, quat = (np.concatenate([part[k] for part in parts]) for k in range(3))
            order = np.argsort(time, kind="stable")
            order = order[np.r_[True, np.diff(time[order]) > 0]]
            known = self._found.get(child)
            if known is None or _rank(parent) < _rank(known.parent):
                self._found[child] = LinkMotion(parent, time[order], pos[order], quat[order])

    def of(self, link: str) -> LinkMotion | None:
        """Return the poses of a link; its name in the log may lack the prefix of the robot."""
        if link in self._found:
            return self._found[link]
        short = [name for name in self._found if name.split("/")[-1] == link.split("/")[-1]]
        return self._found[short[0]] if len(short) == 1 else None

    def in_world(self, link: str) -> LinkMotion | None:
        """Return the poses of a link in a frame that does not move; None if the log has none."""
        found = self.of(link)
        return found if found is not None and found.parent in _ROOTS and len(found.time) > 3 else None

    def joint(self, model: mujoco.MjModel, joint: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Return times (n,) s and positions (n,) of a hinge or slide joint, in rad or m; None if the log lacks them.

        They follow from the poses of the link that it moves and of the link before it.
        """
        body = int(model.jnt_bodyid[joint])
        kind = int(model.jnt_type[joint])  # a NumPy number is in no tuple of MuJoCo's enums
        if kind not in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE) or model.body_jntnum[body] != 1:
            return None
        before = model.body(int(model.body_parentid[body])).name
        own, parent = self.of(model.body(body).name), self.of(before)
        if own is None or len(own.time) < 4:
            return None
        time, pos, quat = own.time, own.pos, own.quat
        if own.parent.split("/")[-1] != before.split("/")[-1]:
            if parent is None or parent.parent != own.parent:
                return None
            time, rows, others = np.intersect1d(own.time, parent.time, return_indices=True)
            if len(time) < 4:
                return None
            back = poses.conjugate(parent.quat[others])
            pos = poses.rotate(back, own.pos[rows] - parent.pos[others])
            quat = poses.multiply(back, own.quat[rows])
        rest = np.broadcast_to(poses.conjugate(model.body_quat[body][None]), quat.shape)
        axis, start = model.jnt_axis[joint], float(model.qpos0[model.jnt_qposadr[joint]])
        if kind == mujoco.mjtJoint.mjJNT_SLIDE:
            return time, start + poses.rotate(rest, pos - model.body_pos[body]) @ axis
        turn = poses.multiply(rest, quat)
        return time, start + np.unwrap(2 * np.arctan2(turn[:, 1:] @ axis, turn[:, 0]))


def _rank(parent: str) -> int:
    return _ROOTS.index(parent) if parent in _ROOTS else len(_ROOTS)
