"""A scene that follows the motion of a log: joint positions and the pose of the base drive it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import mujoco
import numpy as np
import torch

from sensorium.doctor.links import Links
from sensorium.doctor.signals import find_signals, has_orientation, is_measured, orientation_path, series, usable
from sensorium.doctor.transforms import TF, LinkMotion, LinkMotions
from sensorium.errors import OptionError, shorten
from sensorium.fit.references import PoseReference
from sensorium.fit.splines import SmoothingSpline
from sensorium.logs import Log, TopicLog
from sensorium.ros.topics import IMU, ODOMETRY, POSE
from sensorium.worlds import Scene

DISABLED = ("constraint", "actuation", "spring", "damper")
"""What would move a driven robot otherwise: it follows the log, whatever it touches."""
_SHORTEST = 1.0
"""Shortest motion that is followed, s."""


class DrivenMotion:
    """Positions and velocities of a robot over time, from a log.

    Joint positions are those of JointState messages, otherwise of ``/tf``. The pose of the base is that of ``/tf`` in
    our own logs, where it is the truth; then that of a PoseStamped, an Odometry or an Imu of the base; then that of
    ``/tf`` in other logs; and that of wheels only if there is no other.

    Args:
        log: the log, with a JointState topic, a pose of the base, or both.
        scene: a built scene of one env with the robot.
        robot: name of the robot in the scene.

    Attributes:
        start, stop: times between which the log has all signals, s.
        has_position: whether the position of a base that floats is known, too.

    Raises:
        OptionError: the log has no motion of this robot.
    """

    def __init__(self, log: Log, scene: Scene, robot: str) -> None:
        self._model: mujoco.MjModel = scene.world.model
        signals = find_signals(log, None)
        self._splines: dict[int, SmoothingSpline] = {}
        transforms = LinkMotions(log)
        self._joints: list[tuple[int, int, int, int]] = []  # address in qpos, in qvel, topic and column of the log
        self._free: tuple[int, int] | None = None
        self._driven: set[int] = set()  # joints
        self.has_position = True
        spans = []
        columns: dict[str, tuple[int, int]] = {}
        positions = [(each.position.time, each.position.values) for each in signals.joints]
        for i, each in enumerate(signals.joints):
            for column, name in enumerate(each.position.names):
                columns.setdefault(name, (i, column))
        for j in range(self._model.njnt):
            joint = self._model.joint(j)
            name = joint.name.removeprefix(f"{robot}/")
            if not joint.name.startswith(f"{robot}/"):
                continue
            if joint.type[0] == mujoco.mjtJoint.mjJNT_FREE:
                base = self._model.body(int(self._model.jnt_bodyid[j])).name
                pose = _base_pose(log, base, transforms.in_world(base))
                if pose is not None:
                    self._free = int(joint.qposadr[0]), int(joint.dofadr[0])
                    self._driven.add(j)
                    spans.append(self._follow(pose))
                continue
            found = transforms.joint(self._model, j) if name not in columns else None
            if found is not None:
                columns[name] = (len(positions), 0)
                positions.append((found[0], found[1][:, None]))
            if name in columns:
                self._joints.append((int(joint.qposadr[0]), int(joint.dofadr[0]), *columns[name]))
                self._driven.add(j)
        used = sorted({i for _, _, i, _ in self._joints})
        self._splines = {i: SmoothingSpline(*positions[i]) for i in used}
        spans += [(positions[i][0][0], positions[i][0][-1]) for i in used]
        if not spans:
            joints = [self._model.joint(j).name for j in range(self._model.njnt)]
            raise OptionError(
                f"the log has no motion of {robot!r}: it needs JointState messages with joints of {shorten(joints)}, "
                "or poses of its base (/tf, PoseStamped, Odometry)"
            )
        self.start, self.stop = max(a for a, _ in spans), min(b for _, b in spans)
        if self.stop - self.start < _SHORTEST:
            raise OptionError(
                f"the log has all signals together for {max(0.0, self.stop - self.start):.3g} s; it needs joint "
                f"positions and poses of the base over at least {_SHORTEST} s"
            )
        self._rest = scene.world.bind("qpos")[0].double().numpy(force=True).copy()

    def _follow(self, pose: _BasePose) -> tuple[float, float]:
        """Take the base's motion from its poses; returns the times between which it is known, s."""
        self._base = PoseReference(pose.time, pose.quat, pose.pos)
        self.has_position = self._base.has_position
        good = pose.time[self._base.valid(pose.time)]
        if not len(good):
            raise OptionError(f"{pose.topic} has no orientation that can be followed")
        return good[0], good[-1]

    def unknown(self, link: str) -> str:
        """Return why the motion of a link is not known from the log; "" if it is."""
        body = mujoco.mj_name2id(self._model, mujoco.mjtObj.mjOBJ_BODY, link)
        if body < 0:  # a site
            body = int(self._model.site_bodyid[self._model.site(link).id])
        while body > 0:
            for j in range(
                self._model.body_jntadr[body], self._model.body_jntadr[body] + self._model.body_jntnum[body]
            ):
                if j not in self._driven:
                    if self._model.jnt_type[j] == mujoco.mjtJoint.mjJNT_FREE:
                        return "the log has no pose of the base (/tf, PoseStamped, Odometry), which moves the sensor"
                    return (
                        f"the log has no positions of the joint {self._model.joint(j).name!r}, which moves the sensor"
                    )
            body = int(self._model.body_parentid[body])
        return ""

    def unknown_joints(self, names: list[str]) -> str:
        """Return why the motion of joints is not known from the log; "" if it is."""
        for name in names:
            joint = mujoco.mj_name2id(self._model, mujoco.mjtObj.mjOBJ_JOINT, name)
            if joint not in self._driven:
                return f"the log has no positions of the joint {name!r}, neither in JointState messages nor in /tf"
        return ""

    def states(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return positions (n, nq) and velocities (n, nv) at given times. Joints that the log lacks stay at rest."""
        q, v = np.tile(self._rest, (len(times), 1)), np.zeros((len(times), self._model.nv))
        if self._joints:
            angles = {i: (spline(times), spline(times, derivative=1)) for i, spline in self._splines.items()}
            for qpos, dof, i, column in self._joints:
                q[:, qpos], v[:, dof] = angles[i][0][:, column], angles[i][1][:, column]
        if self._free is not None:
            qpos, dof = self._free
            q[:, qpos + 3 : qpos + 7] = self._base.orientation(times)
            v[:, dof + 3 : dof + 6] = self._base.smooth_angular_rate(times)  # in the body, as MuJoCo has it
            if self._base.has_position:
                q[:, qpos : qpos + 3] = self._base.position(times)
                v[:, dof : dof + 3] = np.gradient(q[:, qpos : qpos + 3], times, axis=0)
        return q, v


class _BasePose(NamedTuple):
    """Poses of the base in the world."""

    topic: str
    time: np.ndarray
    """Stamps, (n,) s, increasing."""
    quat: np.ndarray
    """Orientations (w, x, y, z), (n, 4); NaN for those that are no readings."""
    pos: np.ndarray | None
    """Positions, (n, 3) m; None if they are not known."""


def _base_pose(log: Log, base: str, motion: LinkMotion | None) -> _BasePose | None:
    """Return the poses of a link in the world; those of a link that the log does not name count.

    Args:
        log: the log.
        base: the link.
        motion: its poses in ``/tf``.
    """
    of_frames = None if motion is None else _BasePose(TF, motion.time, motion.quat, motion.pos)
    if of_frames is not None and "sensorium" in log.metadata:  # our own logs hold the truth there
        return of_frames
    links = Links(log)
    found: list[tuple[bool, bool, bool, int, TopicLog, str]] = []
    for topic in log.of(POSE, ODOMETRY, IMU):
        path = orientation_path(topic)
        if not is_measured(topic.name) or len(topic) < 4 or series(topic, path) is None:
            continue
        if topic.message == IMU and not has_orientation(topic):
            continue
        mount = links.of_imu(topic) if topic.message == IMU else links.of_pose(topic)
        if mount is None or not np.allclose(mount.rotation, np.eye(3)):
            continue
        if topic.message == IMU or mount.link.split("/")[-1] in ("", base.split("/")[-1]):
            wheels = links.is_wheels(topic)
            found.append((wheels, topic.message == IMU, not mount.link, len(found), topic, path))
    if not found or (of_frames is not None and all(each[0] for each in found)):
        return of_frames
    *_, topic, path = min(found, key=lambda each: each[:4])
    return _of_topic(topic, path)


def _of_topic(topic: TopicLog, path: str) -> _BasePose:
    order = np.argsort(topic.capture, kind="stable")
    order = order[np.r_[True, np.diff(topic.capture[order]) > 0]]
    turns = np.asarray(topic[path], np.float64)[order]
    turns = np.where(usable(turns)[:, None], turns, np.nan)
    place = path.replace("orientation", "position")
    places = None
    if place != path and place in topic:
        places = np.asarray(topic[place], np.float64)[order]
        places = np.where(usable(places)[:, None], places, np.nan)
    return _BasePose(topic.name, topic.capture[order], turns, places)


def drive(scene: Scene, motion: DrivenMotion, times: np.ndarray) -> Iterator[int]:
    """Move a scene of one env along a motion, one step per time; yield the number of each finished step.

    Every step starts where it ends in the state of the motion, with forces that give it the acceleration of the motion:
    inertial sensors read that of the end of the step. The scene must have been made with ``disable=DISABLED`` and one
    substep.
    """
    model: mujoco.MjModel = scene.world.model
    q, v = motion.states(times)
    acceleration = np.gradient(v, scene.dt, axis=0)
    data = mujoco.MjData(model)
    qpos, qvel, force = (scene.world.bind(name) for name in ("qpos", "qvel", "qfrc_applied"))
    for k in range(len(times)):
        start = q[k].copy()
        mujoco.mj_integratePos(model, start, v[k], -scene.dt)  # MuJoCo moves positions by the new velocity
        data.qpos[:], data.qvel[:], data.qacc[:] = start, v[k] - acceleration[k] * scene.dt, acceleration[k]
        mujoco.mj_inverse(model, data)
        qpos[0], qvel[0], force[0] = (torch.from_numpy(each) for each in (start, data.qvel, data.qfrc_inverse))
        scene.step()
        yield k
