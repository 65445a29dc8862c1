"""A scene that follows the motion of a log: joint positions and the pose of the base drive it."""

from __future__ import annotations

from collections.abc import Iterator

import mujoco
import numpy as np
import torch

from sensorium.doctor.links import Links
from sensorium.doctor.signals import find_signals, has_orientation, is_measured, orientation_path, series, usable
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
        self._splines: list[SmoothingSpline] = []
        self._joints: list[tuple[int, int, int, int]] = []  # address in qpos, in qvel, topic and column of the log
        self._free: tuple[int, int] | None = None
        self._driven: set[int] = set()  # joints
        self.has_position = True
        spans = []
        columns: dict[str, tuple[int, int]] = {}
        for i, each in enumerate(signals.joints):
            for column, name in enumerate(each.position.names):
                columns.setdefault(name, (i, column))
        for j in range(self._model.njnt):
            joint = self._model.joint(j)
            name = joint.name.removeprefix(f"{robot}/")
            if not joint.name.startswith(f"{robot}/"):
                continue
            if joint.type[0] == mujoco.mjtJoint.mjJNT_FREE:
                pose = _base_pose(log, self._model.body(int(self._model.jnt_bodyid[j])).name)
                if pose is not None:
                    self._free = int(joint.qposadr[0]), int(joint.dofadr[0])
                    self._driven.add(j)
                    spans.append(self._follow(*pose))
            elif name in columns:
                self._joints.append((int(joint.qposadr[0]), int(joint.dofadr[0]), *columns[name]))
                self._driven.add(j)
        for each in signals.joints:
            self._splines.append(SmoothingSpline(each.position.time, each.position.values))
        spans += [
            (signals.joints[i].position.time[0], signals.joints[i].position.time[-1])
            for i in sorted({i for _, _, i, _ in self._joints})
        ]
        if not spans:
            joints = [self._model.joint(j).name for j in range(self._model.njnt)]
            raise OptionError(
                f"the log has no motion of {robot!r}: it needs JointState messages with joints of {shorten(joints)}, "
                "or poses of its base (PoseStamped, Odometry)"
            )
        self.start, self.stop = max(a for a, _ in spans), min(b for _, b in spans)
        if self.stop - self.start < _SHORTEST:
            raise OptionError(
                f"the log has all signals together for {max(0.0, self.stop - self.start):.3g} s; it needs joint "
                f"positions and poses of the base over at least {_SHORTEST} s"
            )
        self._rest = scene.world.bind("qpos")[0].double().numpy(force=True).copy()

    def _follow(self, topic: TopicLog, path: str) -> tuple[float, float]:
        """Take the base's motion from orientations; returns the times between which it is known, s."""
        order = np.argsort(topic.capture, kind="stable")
        order = order[np.r_[True, np.diff(topic.capture[order]) > 0]]
        stamps, turns = topic.capture[order], np.asarray(topic[path], np.float64)[order]
        turns = np.where(usable(turns)[:, None], turns, np.nan)
        place = path.replace("orientation", "position")
        places = None
        if place != path and place in topic:
            places = np.asarray(topic[place], np.float64)[order]
            places = np.where(usable(places)[:, None], places, np.nan)
        self._base = PoseReference(stamps, turns, places)
        self.has_position = self._base.has_position
        rates = self._base.angular_rate(stamps).values
        good = stamps[np.isfinite(rates).all(axis=1) & self._base.valid(stamps)]
        if not len(good):
            raise OptionError(f"{topic.name} has no orientation that can be followed")
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
                        return "the log has no pose of the base (PoseStamped, Odometry), which moves the sensor"
                    return (
                        f"the log has no positions of the joint {self._model.joint(j).name!r}, which moves the sensor"
                    )
            body = int(self._model.body_parentid[body])
        return ""

    def states(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return positions (n, nq) and velocities (n, nv) at given times. Joints that the log lacks stay at rest."""
        q, v = np.tile(self._rest, (len(times), 1)), np.zeros((len(times), self._model.nv))
        if self._joints:
            angles = [(spline(times), spline(times, derivative=1)) for spline in self._splines]
            for qpos, dof, i, column in self._joints:
                q[:, qpos], v[:, dof] = angles[i][0][:, column], angles[i][1][:, column]
        if self._free is not None:
            qpos, dof = self._free
            q[:, qpos + 3 : qpos + 7] = self._base.orientation(times)
            v[:, dof + 3 : dof + 6] = self._base.angular_rate(times).values  # in the body, as MuJoCo has it
            if self._base.has_position:
                q[:, qpos : qpos + 3] = self._base.position(times)
                v[:, dof : dof + 3] = np.gradient(q[:, qpos : qpos + 3], times, axis=0)
        return q, v


def _base_pose(log: Log, base: str) -> tuple[TopicLog, str] | None:
    """Return topic and field with the orientation of a link in the world; one whose link is not known counts."""
    links = Links(log)
    found: list[tuple[bool, bool, int, TopicLog, str]] = []
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
            found.append((topic.message == IMU, not mount.link, len(found), topic, path))
    if not found:
        return None
    *_, topic, path = min(found, key=lambda each: each[:3])
    return topic, path


def drive(scene: Scene, motion: DrivenMotion, times: np.ndarray) -> Iterator[int]:
    """Move a scene of one env along a motion, one step per time; yield the number of each finished step.

    Every step starts where it ends in the state of the motion, with forces that give it the acceleration of the motion:
    inertial sensors read that of the end of the step. The scene must have been made with ``disable=DISABLED`` and one
    substep.
    """
    model: mujoco.MjModel = scene.world.model
    q, v = motion.states(times)
    acceleration = np.gradient(v, times, axis=0)
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
