"""A scene that follows the motion of a log: joint positions and the pose of the base drive it."""

from __future__ import annotations

from collections.abc import Iterator

import mujoco
import numpy as np
import torch

from sensorium.doctor.signals import TimeSeries, find_signals
from sensorium.errors import OptionError, shorten
from sensorium.fit.references import PoseReference
from sensorium.fit.splines import SmoothingSpline
from sensorium.logs import Log
from sensorium.worlds import Scene

DISABLED = ("constraint", "actuation", "spring", "damper")
"""What would move a driven robot otherwise: it follows the log, whatever it touches."""


class DrivenMotion:
    """Positions and velocities of a robot over time, from a log.

    Args:
        log: the log, with a JointState topic, a pose of the base, or both.
        scene: a built scene of one env with the robot.
        robot: name of the robot in the scene.

    Attributes:
        start, stop: times between which the log has all signals, s.

    Raises:
        OptionError: the log has no motion of this robot.
    """

    def __init__(self, log: Log, scene: Scene, robot: str) -> None:
        self._model: mujoco.MjModel = scene.world.model
        signals = find_signals(log, None)
        self._joints: list[tuple[int, int, int]] = []  # address in qpos, in qvel, column of the log
        self._free: tuple[int, int] | None = None
        spans = []
        names = {} if signals.position is None else {name: i for i, name in enumerate(signals.position.names)}
        for j in range(self._model.njnt):
            joint = self._model.joint(j)
            if not joint.name.startswith(f"{robot}/"):
                continue
            if joint.type[0] == mujoco.mjtJoint.mjJNT_FREE:
                self._free = int(joint.qposadr[0]), int(joint.dofadr[0])
            elif joint.name.removeprefix(f"{robot}/") in names:
                column = names[joint.name.removeprefix(f"{robot}/")]
                self._joints.append((int(joint.qposadr[0]), int(joint.dofadr[0]), column))
        if self._joints and signals.position is not None:
            self._angles = SmoothingSpline(signals.position.time, signals.position.values)
            spans.append((signals.position.time[0], signals.position.time[-1]))
        if self._free is not None and signals.quat is not None:
            self._base = _pose_reference(log, signals.quat)
            stamps = signals.quat.time
            rates = self._base.angular_rate(stamps).values
            good = stamps[np.isfinite(rates).all(axis=1) & self._base.valid(stamps)]
            if not len(good):
                raise OptionError(f"{signals.quat.subject} has no orientation that can be followed")
            spans.append((good[0], good[-1]))
        else:
            self._free = None
        if not spans:
            joints = [self._model.joint(j).name for j in range(self._model.njnt)]
            raise OptionError(
                f"the log has no motion of {robot!r}: it needs JointState messages with joints of {shorten(joints)}, "
                "or poses of its base (PoseStamped, Odometry)"
            )
        self.start, self.stop = max(a for a, _ in spans), min(b for _, b in spans)
        self._rest = scene.world.bind("qpos")[0].double().numpy(force=True).copy()

    def states(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return positions (n, nq) and velocities (n, nv) at given times. Joints that the log lacks stay at rest."""
        q, v = np.tile(self._rest, (len(times), 1)), np.zeros((len(times), self._model.nv))
        if self._joints:
            angle, speed = self._angles(times), self._angles(times, derivative=1)
            for qpos, dof, column in self._joints:
                q[:, qpos], v[:, dof] = angle[:, column], speed[:, column]
        if self._free is not None:
            qpos, dof = self._free
            q[:, qpos + 3 : qpos + 7] = self._base.orientation(times)
            v[:, dof + 3 : dof + 6] = self._base.angular_rate(times).values  # in the body, as MuJoCo has it
            if self._base.has_position:
                q[:, qpos : qpos + 3] = self._base.position(times)
                v[:, dof : dof + 3] = np.gradient(q[:, qpos : qpos + 3], times, axis=0)
        return q, v


def _pose_reference(log: Log, quat: TimeSeries) -> PoseReference:
    topic, path = quat.subject.split(" ")
    own = log[topic]
    place = path.replace("orientation", "position")
    order = np.argsort(own.capture, kind="stable")
    keep = np.r_[True, np.diff(own.capture[order]) > 0]
    pos = np.asarray(own[place], np.float64)[order][keep] if place != path and place in own else None
    return PoseReference(own.capture[order][keep], np.asarray(own[path], np.float64)[order][keep], pos)


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
