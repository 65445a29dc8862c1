"""Action terms of a policy's contract, from the robot of a task."""

from __future__ import annotations

import math

import mujoco
import numpy as np

from sensorium.deploy.contract import ActionTerm
from sensorium.robots import Manipulator, Robot
from sensorium.robots.controllers import Controller

_UNITS = {"position": ("rad", "m"), "velocity": ("rad/s", "m/s"), "torque": ("N·m", "N")}
"""Kind of a command -> its units for a hinge and for a slide."""
_CONTROLLER_UNITS: dict[str, tuple[str, ...]] = {
    "ee_pose": ("m", "m", "m", "1", "1", "1", "1"),
    "gripper": ("1",),
    "base_velocity": ("m/s", "m/s", "rad/s"),
}
_DRIVING = {"forward": "m/s", "left": "m/s", "turn": "rad/s"}
"""Names of actions that drive a base -> their units."""


def robot_actions(robot: Robot, rate: float) -> tuple[ActionTerm, ...]:
    """Return what the action of a robot means, one term for each move group.

    Args:
        robot: the robot, in a built scene.
        rate: decisions per second, Hz.
    """
    if isinstance(robot, Manipulator):
        return tuple(_group_action(robot, name, rate) for name in robot.groups)
    return (_plain_action(robot, rate),)


def _group_action(robot: Manipulator, name: str, rate: float) -> ActionTerm:
    """Return the term of a move group with a controller, whose action is the command itself."""
    group = robot.groups[name]
    controller: Controller = group.controller
    low, high = np.asarray(controller.limits, dtype=np.float64).T
    is_joint = controller.names == group.description.joints
    if is_joint:
        kind = "velocity" if controller.name == "joint_velocity" else "position"
        unit = same_or_each(tuple(_UNITS[kind][_is_slide(robot, joint)] for joint in controller.names))
    else:
        unit = same_or_each(_CONTROLLER_UNITS[controller.name])
    return ActionTerm(
        name=name,
        kind=controller.name,
        names=tuple(controller.names),
        unit=unit,
        scale=(1.0,) * len(low),
        offset=(0.0,) * len(low),
        min=bounds(low),
        max=bounds(high),
        default_pose=tuple(map(float, group.description.home)) if is_joint else None,
        rate=rate,
    )


def _plain_action(robot: Robot, rate: float) -> ActionTerm:
    """Return the term of a robot whose actions drive actuators by gains.

    If each value drives one actuator, the command is the force, torque, position or velocity of its joint.
    """
    actions = robot.options.actions
    names = tuple(action.name for action in actions)
    low, high = np.array([action.limits for action in actions], dtype=np.float64).T
    single = all(len(action.actuators) == 1 for action in actions) and not set(names) <= _DRIVING.keys()
    if not single:
        units = tuple(_DRIVING.get(name, "1") for name in names)
        kind = "base_velocity" if set(names) <= _DRIVING.keys() else "action"
        ones = (1.0,) * len(names)
        return ActionTerm(
            name=next(iter(robot.groups)),
            kind=kind,
            names=names,
            unit=same_or_each(units),
            scale=ones,
            offset=(0.0,) * len(names),
            min=bounds(low),
            max=bounds(high),
            rate=rate,
        )
    model = robot._built("export").model
    actuators = [next(iter(action.actuators)) for action in actions]
    kinds, joints, scale, slides, pose = [], [], [], [], []
    for action, actuator in zip(actions, actuators, strict=True):
        number = int(model.actuator(f"{robot.name}/{actuator}").id)
        kind, factor = _actuator_kind(model, number)
        joint = int(model.actuator_trnid[number, 0])
        is_joint = model.actuator_trntype[number] == mujoco.mjtTrn.mjTRN_JOINT
        kinds.append(kind if is_joint else "torque")
        joints.append(model.joint(joint).name.removeprefix(f"{robot.name}/") if is_joint else actuator)
        slides.append(bool(is_joint and model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE))
        pose.append(float(model.qpos0[model.jnt_qposadr[joint]]) if is_joint else math.nan)
        scale.append(factor * action.actuators[actuator])
    limits = np.sort(np.stack([low, high]) * scale, axis=0)
    return ActionTerm(
        name=next(iter(robot.groups)),
        kind=f"joint_{kinds[0]}" if len(set(kinds)) == 1 else "joint",
        names=tuple(joints),
        actuators=tuple(actuators),
        unit=same_or_each(tuple(_UNITS[kind][slide] for kind, slide in zip(kinds, slides, strict=True))),
        scale=tuple(scale),
        offset=(0.0,) * len(scale),
        min=bounds(limits[0]),
        max=bounds(limits[1]),
        default_pose=None if any(map(math.isnan, pose)) else tuple(pose),
        rate=rate,
    )


def _actuator_kind(model: mujoco.MjModel, number: int) -> tuple[str, float]:
    """Return "position", "velocity" or "torque" of an actuator, and the factor from its control to that."""
    gain, gear = float(model.actuator_gainprm[number, 0]), float(model.actuator_gear[number, 0])
    if model.actuator_biastype[number] == mujoco.mjtBias.mjBIAS_AFFINE:
        if model.actuator_biasprm[number, 1]:
            return "position", 1.0 / gear
        if model.actuator_biasprm[number, 2]:
            return "velocity", 1.0 / gear
    return "torque", gain * gear


def _is_slide(robot: Robot, joint: str) -> bool:
    model = robot._built("export").model
    return bool(model.joint(f"{robot.name}/{joint}").type[0] == mujoco.mjtJoint.mjJNT_SLIDE)


def same_or_each(units: tuple[str, ...]) -> str | tuple[str, ...]:
    """Return the unit that all values have, or the units of each."""
    return units[0] if len(set(units)) == 1 else units


def bounds(values: np.ndarray) -> tuple[float | None, ...]:
    """Return bounds as plain numbers, None where they are infinite."""
    return tuple(float(each) if math.isfinite(each) else None for each in values)
