"""``InitialPose``: joint positions and controls that a reset returns to, instead of those of the model.

``scene.add_robot`` and ``scene.add_object`` find it by names. The compiled model holds the poses of all entities as one
keyframe, :data:`INITIAL`, which exists only if an entity has one. Both engines reset to that keyframe.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import mujoco
import numpy as np

from sensorium.errors import NameNotFoundError, OptionError, did_you_mean, shorten

JointPositions: TypeAlias = Mapping[str, float | Sequence[float]]
"""Regular expression of joint names -> position: rad or m of hinges and slides, (w, x, y, z) of ball joints."""
INITIAL = "initial"
"""Name of the keyframe. Those of models have the prefix of their entity."""

_FREE, _BALL = mujoco.mjtJoint.mjJNT_FREE, mujoco.mjtJoint.mjJNT_BALL
_DIRECT = (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT)
_FOLLOWS = (mujoco.mjtDyn.mjDYN_NONE, mujoco.mjtDyn.mjDYN_FILTER, mujoco.mjtDyn.mjDYN_FILTEREXACT)
"""Dynamics of servos whose control is the position; that of an integrator is a velocity."""


@dataclass
class InitialPose:
    """Initial values of an entity, by names of its own model."""

    joints: dict[str, np.ndarray] = field(default_factory=dict)
    """Joint -> position: (1,) rad or m, (4,) for ball joints, (7,) for free joints: world frame."""
    controls: dict[str, np.ndarray] = field(default_factory=dict)
    """Actuator -> its controls."""
    activations: dict[str, np.ndarray] = field(default_factory=dict)
    """Actuator -> its activations."""


def are_given(joint_positions: JointPositions | None) -> bool:
    """Return whether joint positions are neither None nor an empty mapping. Other types are refused by their users."""
    return joint_positions is not None and not (isinstance(joint_positions, Mapping) and not joint_positions)


def find_pose(
    spec: mujoco.MjSpec,
    joint_positions: JointPositions | None,
    keyframe: str | None,
    asked_by: str,
    pos: np.ndarray | None = None,
    quat: np.ndarray | None = None,
) -> InitialPose | None:
    """Return the initial pose of a model; None if neither argument names one.

    Args:
        spec: the model, whose joints and actuators have names.
        joint_positions: positions by joint; they replace those of the keyframe.
        keyframe: a keyframe of the model. Its positions, controls and activations are used; velocities are 0.
        asked_by: the call, for messages.
        pos: position of the model in the world frame, m.
        quat: orientation (w, x, y, z) of the model in the world frame.

    Raises:
        NameNotFoundError: there is no such keyframe, or no joint that a name matches.
        OptionError: a value is not allowed, or two names give one joint different values.
    """
    if joint_positions is None:
        joint_positions = {}
    if not isinstance(joint_positions, Mapping):
        raise OptionError(
            f"{asked_by}: joint_positions must be a mapping from joint to position, got {joint_positions!r}"
        )
    if not joint_positions and keyframe is None:
        return None
    found = InitialPose() if keyframe is None else _read_keyframe(spec, keyframe, asked_by)
    for name, value in found.joints.items():
        if len(value) == 7 and pos is not None and quat is not None:
            found.joints[name] = _place(value, pos, quat)
    given = _match(spec, joint_positions, asked_by)
    _check_limits(spec, given, asked_by)
    found.joints |= given
    for actuator in spec.actuators:
        target = str(actuator.target)
        if _is_servo(actuator) and target in found.joints and (target in given or actuator.name not in found.controls):
            _hold(found, actuator, float(found.joints[target][0]))
    return found


def _read_keyframe(spec: mujoco.MjSpec, name: str, asked_by: str) -> InitialPose:
    keys = {key.name: key for key in spec.keys if key.name}
    if not isinstance(name, str) or name not in keys:
        hint = did_you_mean(str(name), keys) or f"; it has {shorten(keys)}"
        raise NameNotFoundError(f"{asked_by}: the model has no keyframe {name!r}{hint}")
    model = spec.copy().compile()
    key, found = int(model.key(name).id), InitialPose()
    for joint in range(model.njnt):
        start = int(model.jnt_qposadr[joint])
        width = {int(_FREE): 7, int(_BALL): 4}.get(int(model.jnt_type[joint]), 1)
        found.joints[model.joint(joint).name] = model.key_qpos[key, start : start + width].copy()
    for given, row, first, count, values in (
        (keys[name].ctrl, model.key_ctrl[key], model.actuator_ctrladr, model.actuator_ctrlnum, found.controls),
        (keys[name].act, model.key_act[key], model.actuator_actadr, model.actuator_actnum, found.activations),
    ):
        if len(given):
            for i in np.flatnonzero(count):
                values[model.actuator(i).name] = row[first[i] : first[i] + count[i]].copy()
    return found


def _place(value: np.ndarray, pos: np.ndarray, quat: np.ndarray) -> np.ndarray:
    """Return the position of a free joint in the world frame, given the one in the frame of the model."""
    placed = np.empty(7)
    mujoco.mju_rotVecQuat(placed[:3], value[:3], quat)
    placed[:3] += pos
    mujoco.mju_mulQuat(placed[3:], quat, value[3:])
    return placed


def _match(spec: mujoco.MjSpec, positions: JointPositions, asked_by: str) -> dict[str, np.ndarray]:
    """Return joint -> position of the joints that the names match."""
    kinds = {joint.name: joint.type for joint in spec.joints}
    found: dict[str, np.ndarray] = {}
    by: dict[str, str] = {}
    for pattern, given in positions.items():
        value = _value(pattern, given, asked_by)
        is_ball = len(value) == 4
        names = [name for name, kind in kinds.items() if kind != _FREE and (kind == _BALL) == is_ball]
        matched = [name for name in names if name == pattern or _regex(pattern, asked_by).fullmatch(name)]
        if not matched:
            raise NameNotFoundError(f"{asked_by}: {_why_no_match(pattern, kinds, names, is_ball)}")
        for name in matched:
            if name in found and not np.array_equal(found[name], value):
                raise OptionError(
                    f"{asked_by}: joint_positions has two values for the joint {name!r}: {by[name]!r} gives "
                    f"{_text(found[name])} and {pattern!r} gives {_text(value)}; change one of the names"
                )
            found[name], by[name] = value, pattern
    return found


def _check_limits(spec: mujoco.MjSpec, given: Mapping[str, np.ndarray], asked_by: str) -> None:
    """Raise OptionError if a position is outside the range of its joint."""
    limited = {joint.name for joint in spec.joints if joint.range[0] != joint.range[1] and joint.type != _BALL}
    if not limited & given.keys():
        return
    model = spec.copy().compile()  # ranges in rad, whatever the unit of the model file is
    for name in sorted(limited & given.keys()):
        joint, value = model.joint(name), float(given[name][0])
        low, high = joint.range
        if bool(model.jnt_limited[joint.id]) and not low - 1e-6 <= value <= high + 1e-6:
            raise OptionError(
                f"{asked_by}: joint_positions[{name!r}] must be in the range of the joint, [{low:g}, {high:g}], got "
                f"{value:g}"
            )


def _value(pattern: str, given: object, asked_by: str) -> np.ndarray:
    try:
        value = np.atleast_1d(np.asarray(given, dtype=np.float64))
    except (TypeError, ValueError):
        value = np.full(1, np.nan)
    if isinstance(given, bool | str) or value.shape not in ((1,), (4,)) or not np.isfinite(value).all():
        raise OptionError(
            f"{asked_by}: joint_positions[{pattern!r}] must be a finite number in rad or m, or four numbers "
            f"(w, x, y, z) for a ball joint; got {given!r}"
        )
    if len(value) == 4:
        norm = float(np.linalg.norm(value))
        if norm < 1e-9:
            raise OptionError(f"{asked_by}: joint_positions[{pattern!r}] must not be zero, got {given!r}")
        return value / norm
    return value


def _text(value: np.ndarray) -> str:
    return f"{value[0]:g}" if len(value) == 1 else str(tuple(value.tolist()))


def _regex(pattern: str, asked_by: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, TypeError) as error:
        raise OptionError(f"{asked_by}: {pattern!r} is not a regular expression of joint names: {error}") from error


def _why_no_match(pattern: str, kinds: Mapping[str, int], names: Iterable[str], is_ball: bool) -> str:
    kind = kinds.get(pattern)
    if kind == _FREE:
        return f"{pattern!r} is a free joint; its pose is that of pos, quat and euler, or of the keyframe"
    if kind is not None:
        needs = "a number" if is_ball else "four numbers (w, x, y, z)"
        return f"the position of joint {pattern!r} must be {needs}"
    what = "ball joint" if is_ball else "hinge or slide"
    names = list(names)
    hint = did_you_mean(pattern, names) or f"; the model has {shorten(names)}"
    return f"joint_positions: no {what} matches {pattern!r}{hint}"


def _is_servo(actuator: mujoco.MjsActuator) -> bool:
    """Return whether an actuator moves a joint to a position: force = kp (control - gear × position) - damping."""
    gain = float(actuator.gainprm[0])
    return (
        actuator.trntype in _DIRECT
        and actuator.dyntype in (*_FOLLOWS, mujoco.mjtDyn.mjDYN_INTEGRATOR)
        and actuator.gaintype == mujoco.mjtGain.mjGAIN_FIXED
        and actuator.biastype == mujoco.mjtBias.mjBIAS_AFFINE
        and gain > 0
        and float(actuator.biasprm[1]) == -gain
    )


def _hold(found: InitialPose, servo: mujoco.MjsActuator, position: float) -> None:
    """Set the control and the activation of a servo so that it holds a position."""
    goal = np.array([float(servo.gear[0]) * position])
    if servo.dyntype in _FOLLOWS:
        found.controls[servo.name] = goal
    if servo.dyntype != mujoco.mjtDyn.mjDYN_NONE:
        found.activations[servo.name] = goal


def write_poses(model: mujoco.MjModel, key: mujoco.MjsKey, poses: Mapping[str, InitialPose]) -> None:
    """Write the poses of entities into the keyframe of a compiled model, and into that of its spec.

    Args:
        model: the compiled model.
        key: the keyframe :data:`INITIAL` of the spec.
        poses: prefix of the names of an entity -> its pose.
    """
    row = int(model.key(INITIAL).id)
    qpos, ctrl, act = model.key_qpos[row], model.key_ctrl[row], model.key_act[row]
    for prefix, pose in poses.items():
        for name, value in pose.joints.items():
            joint = mujoco.mj_name2id(model, int(mujoco.mjtObj.mjOBJ_JOINT), prefix + name)
            if joint >= 0:  # the free joint of the model may have been removed
                start = int(model.jnt_qposadr[joint])
                qpos[start : start + len(value)] = value
        for values, first, target in (
            (pose.controls, model.actuator_ctrladr, ctrl),
            (pose.activations, model.actuator_actadr, act),
        ):
            for name, value in values.items():
                start = int(first[model.actuator(prefix + name).id])
                target[start : start + len(value)] = value
    key.qpos, key.ctrl, key.act = qpos, ctrl, act


def initial_key(model: mujoco.MjModel) -> int:
    """Return the number of the keyframe that a reset returns to; -1 for the defaults of the model."""
    return mujoco.mj_name2id(model, int(mujoco.mjtObj.mjOBJ_KEY), INITIAL)
