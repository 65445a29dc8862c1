"""Additions to models that lack them, such as URDF files: servos, and exceptions for links that overlap."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from sensorium.errors import OptionError
from sensorium.robots.move_group import MoveGroup

_MIN_ARMATURE = 0.1
"""Min reflected inertia of a motor, kg m² or kg. With less, a light wrist could carry no load."""
_RATE = 60.0
"""Natural frequency of a servo, rad/s; it is critically damped."""


def servo_names(group: MoveGroup) -> tuple[str, ...]:
    """Return the actuators of a group: those it names, or those that :func:`add_servos` adds."""
    return group.actuators or tuple(f"{joint}_servo" for joint in group.joints)


def add_servos(spec: mujoco.MjSpec, groups: Sequence[MoveGroup]) -> None:
    """Add position servos to the joints of groups, in place of their actuators, and compensate gravity.

    Stiffness and damping follow from the inertia at each joint at home.
    """
    moved_by_servos = {joint for group in groups for joint in group.joints}
    for actuator in list(spec.actuators):
        if actuator.trntype == mujoco.mjtTrn.mjTRN_JOINT and actuator.target in moved_by_servos:
            spec.delete(actuator)
    joints = {joint.name: joint for joint in spec.joints}
    for group in groups:
        for name in group.joints:
            joints[name].armature = max(float(joints[name].armature), _MIN_ARMATURE)
    for body in spec.bodies[1:]:
        body.gravcomp = 1.0
    model, data = at_home(spec, groups)
    inertia = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, inertia)
    for group in groups:
        for name, servo_name in zip(group.joints, servo_names(group), strict=True):
            dof = int(model.joint(name).dofadr[0])
            moved = float(inertia[dof, dof])
            servo = spec.add_actuator(name=servo_name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
            servo.set_to_position(kp=moved * _RATE**2, kv=2 * moved * _RATE)


def exclude_touching(spec: mujoco.MjSpec, groups: Sequence[MoveGroup]) -> None:
    """Exclude contacts between links that touch each other at home: links of many models overlap at their joints."""
    model, data = at_home(spec, groups)
    pairs = {tuple(sorted(int(model.geom_bodyid[geom]) for geom in contact.geom)) for contact in data.contact}
    for first, second in sorted(pairs):
        names = model.body(first).name, model.body(second).name
        if first > 0 and all(names):
            spec.add_exclude(bodyname1=names[0], bodyname2=names[1])


def check_servo(model: mujoco.MjModel, group: MoveGroup, actuator: str, joint: str) -> None:
    """Raise OptionError unless an actuator is a position servo of a joint, without a gear."""
    number, wanted = model.actuator(actuator).id, model.joint(joint).id
    gain, bias = float(model.actuator_gainprm[number, 0]), float(model.actuator_biasprm[number, 1])
    of_joint = int(model.actuator_trntype[number]) == int(mujoco.mjtTrn.mjTRN_JOINT)
    direct = float(model.actuator_gear[number, 0]) == 1
    if not (of_joint and int(model.actuator_trnid[number, 0]) == wanted and direct and gain > 0 and bias == -gain):
        raise OptionError(
            f"move group {group.name!r}: actuator {actuator!r} must be a position servo of joint {joint!r}, without a "
            "gear; without actuators, servos are added"
        )


def at_home(spec: mujoco.MjSpec, groups: Sequence[MoveGroup]) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """Return the compiled model, and its data with the joints of the groups at home, after a forward pass."""
    model = spec.copy().compile()
    data = mujoco.MjData(model)
    for group in groups:
        for name, position in zip(group.joints, group.home, strict=True):
            data.joint(name).qpos = position
    mujoco.mj_forward(model, data)
    return model, data
