"""``RobotOptions``: the complete description of a robot, and ``Action``: one value that it can be commanded."""

from __future__ import annotations

import base64
import math
from pathlib import Path
from typing import Annotated

import mujoco
import numpy as np
from pydantic import Field, field_validator, model_validator

from sensorium.errors import NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.options import Options
from sensorium.robots.rig import SensorRig
from sensorium.worlds.compose import load_spec, pose
from sensorium.worlds.initial_pose import are_given, find_pose
from sensorium.worlds.scene_robot import Placement

_Limit = Annotated[float, Field(allow_inf_nan=True)]


class Action(Options):
    """One value of a robot's action, and the actuators that it drives.

    Scenarios that drive a robot look for the names "forward" (m/s), "turn" (rad/s, counter-clockwise) and, if the robot
    has it, "left" (m/s).
    """

    name: str = Field(min_length=1)
    """Name of the value."""
    limits: tuple[_Limit, _Limit]
    """Lower and upper bound; values beyond are clipped. They may be infinite."""
    actuators: dict[str, float]
    """Actuator -> gain. The control of an actuator is the sum of gain times value over all actions that drive it."""

    @field_validator("limits")
    @classmethod
    def _limits(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not value[0] < value[1]:
            raise ValueError("must be (min, max) with min < max")
        return value

    @field_validator("actuators")
    @classmethod
    def _actuators(cls, value: dict[str, float]) -> dict[str, float]:
        if not value:
            raise ValueError("must name at least one actuator")
        return value


class RobotOptions(Options):
    """Complete description of a robot. ``sn.robots.make`` and ``scene.add_robot`` fill it in."""

    kind: str = ""
    """Name in the catalogue, such as "franka"; empty for other robots."""
    model: str | Path | mujoco.MjSpec
    """The model: MJCF or URDF text; of robots that ``scene.add_robot`` created from a model alone, also its file or
    MjSpec. The base stands on the ground at z = 0 of the model's frame and faces along x."""
    assets: dict[str, str] = {}
    """Files that the model text needs (meshes, textures, included MJCF): name -> content in base64."""
    base: str | None
    """The link whose pose is that of the robot, and on which sensors sit by default. None if the model has several root
    links, or none; the robot then has no pose."""
    actions: tuple[Action, ...]
    """The values of an action, in order."""
    radius: float | None = Field(default=None, gt=0)
    """Radius in metres of a vertical cylinder around the base that contains the robot. Default: from its geometry in
    the initial state."""
    rig: SensorRig = SensorRig()
    """The sensors."""
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Initial position in metres, world frame."""
    yaw: float = 0.0
    """Initial heading in rad, world frame."""
    quat: tuple[float, float, float, float] | None = None
    """Initial orientation (w, x, y, z) in the world frame, instead of ``yaw``."""
    euler: tuple[float, float, float] | None = None
    """Initial roll, pitch, yaw in rad, world frame, instead of ``yaw``."""
    free: bool | None = None
    """Whether the root link moves freely. Default: what the model says."""
    joint_positions: dict[str, float | tuple[float, ...]] = {}
    """Positions that a reset returns to: regular expression of joint names -> rad or m, or (w, x, y, z) for a ball
    joint. Default: those of the keyframe or of the model."""
    keyframe: str | None = None
    """Keyframe of the model that a reset returns to."""

    @field_validator("actions")
    @classmethod
    def _names(cls, value: tuple[Action, ...]) -> tuple[Action, ...]:
        names = [action.name for action in value]
        if len(set(names)) < len(names):
            raise ValueError(f"each action must have a name of its own, got {names}")
        return value

    @model_validator(mode="after")
    def _check_orientation(self) -> RobotOptions:
        if self.quat is not None or self.euler is not None:
            if self.yaw:
                raise ValueError("give one of yaw, quat and euler")
            pose(self.pos, self.quat, self.euler)
        return self

    @property
    def heading(self) -> float:
        """Heading at the start in rad: ``yaw``, or that of ``quat`` or ``euler``."""
        if self.quat is None and self.euler is None:
            return self.yaw
        w, x, y, z = pose(self.pos, self.quat, self.euler)[1]
        return math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))

    def load_model(self) -> mujoco.MjSpec:
        """Return the model as a new spec."""
        if not self.assets:
            return load_spec(self.model)
        assert isinstance(self.model, str)
        files = {name: base64.b64decode(content) for name, content in self.assets.items()}
        included = {name: content for name, content in files.items() if name.endswith(".xml")}
        others = {name: content for name, content in files.items() if name not in included}
        return mujoco.MjSpec.from_string(self.model, include=included, assets=others)


def check_model(options: RobotOptions, spec: mujoco.MjSpec) -> None:
    """Raise NameNotFoundError unless the model has the base link and the actuators that the options name."""
    for what, wanted, elements in (
        ("link (base)", [] if options.base is None else [options.base], spec.bodies[1:]),
        ("actuator", [name for action in options.actions for name in action.actuators], spec.actuators),
    ):
        known = [element.name for element in elements if element.name]
        for name in wanted:
            if name not in known:
                hint = did_you_mean(name, known) or f"; it has {shorten(known)}"
                raise NameNotFoundError(f"the model has no {what} named {name!r}{hint}")


def complete_actuators(spec: mujoco.MjSpec) -> bool:
    """Give actuators without a name that of their joint, and position servos without a control range its range.

    Returns:
        Whether something was missing.
    """
    changed = False
    taken = {actuator.name for actuator in spec.actuators}
    for actuator in spec.actuators:
        if actuator.trntype not in (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT):
            continue
        if not actuator.name and actuator.target and actuator.target not in taken:
            actuator.name, changed = actuator.target, True
            taken.add(actuator.name)
        joint = spec.joint(actuator.target)
        is_servo = actuator.biastype == mujoco.mjtBias.mjBIAS_AFFINE and actuator.biasprm[1] != 0
        has_range = actuator.ctrlrange[0] < actuator.ctrlrange[1] or actuator.inheritrange > 0
        can_inherit = actuator.trntype == mujoco.mjtTrn.mjTRN_JOINT  # MuJoCo's inheritrange needs this
        if is_servo and not has_range and can_inherit and joint is not None and joint.range[0] < joint.range[1]:
            actuator.inheritrange, changed = 1.0, True
    return changed


def every_actuator(spec: mujoco.MjSpec, strict: bool) -> tuple[Action, ...]:
    """Return one action for each actuator, by its name and in its unit.

    Args:
        spec: the model.
        strict: raise OptionError if there are no actuators, or if one has no name or no control range. Otherwise an
            actuator without a control range gets infinite limits.
    """
    actions = []
    inherits = any(actuator.inheritrange > 0 for actuator in spec.actuators)
    model = spec.copy().compile() if inherits else None  # only a compiled model has inherited ranges
    for actuator in spec.actuators:
        own = actuator if model is None or not actuator.name else model.actuator(actuator.name)
        low, high = (float(limit) for limit in own.ctrlrange)
        if not actuator.name or not low < high:
            if strict:
                lacks = "no ctrlrange" if actuator.name else "no name"
                raise OptionError(
                    f"actuator {actuator.name or actuator.target!r} has {lacks}, and cannot take one from its joint: "
                    "add it to the model, or give actions to sn.robots.make, such as "
                    'actions=[{"name": "forward", "limits": (-1, 1), "actuators": {"left": 10, "right": 10}}]'
                )
            low, high = -math.inf, math.inf
        actions.append(Action(name=actuator.name, limits=(low, high), actuators={actuator.name: 1.0}))
    if strict and not actions:
        raise OptionError("the model has no actuators, so it cannot be commanded; add some to it")
    return tuple(actions)


def start_pose(options: RobotOptions) -> Placement:
    """Return the arguments joint_positions and keyframe of ``scene.add_robot`` that are set."""
    found: Placement = {}
    if are_given(options.joint_positions):
        found["joint_positions"] = options.joint_positions
    if options.keyframe is not None:
        found["keyframe"] = options.keyframe
    return found


def at_start(options: RobotOptions, spec: mujoco.MjSpec) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """Return the model of a robot alone, and its data with the joints in their initial pose."""
    model = spec.compile()
    data = mujoco.MjData(model)
    pose = find_pose(spec, options.joint_positions, options.keyframe, "add_robot")
    for name, value in pose.joints.items() if pose is not None else ():
        data.joint(name).qpos = value
    mujoco.mj_kinematics(model, data)
    return model, data


def radius_of(model: mujoco.MjModel, data: mujoco.MjData, base: str) -> float:
    """Return the horizontal distance from the base to the farthest corner of a bounding box of the robot's geoms, m."""
    corners = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, 8).T
    turn, origin, farthest = data.body(base).xmat.reshape(3, 3), data.body(base).xpos, 0.0
    for geom in np.flatnonzero(model.geom_bodyid > 0):
        box = model.geom_aabb[geom]
        points = data.geom_xpos[geom] + (box[:3] + corners * box[3:]) @ data.geom_xmat[geom].reshape(3, 3).T
        local = (points - origin) @ turn
        farthest = max(farthest, float(np.hypot(local[:, 0], local[:, 1]).max()))
    if not math.isfinite(farthest) or farthest <= 0:
        raise OptionError("the model has no geometry to measure its radius from; give radius in metres")
    return farthest
