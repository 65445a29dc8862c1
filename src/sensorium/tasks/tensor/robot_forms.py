"""Robots in the form that tensor tasks need: with default sensors, and arms without the controllers of the CPU."""

from __future__ import annotations

from typing import Any

from sensorium.errors import OptionError
from sensorium.robots import Manipulator, MoveGroup, Robot, SensorRig, make
from sensorium.robots.robot_options import RobotOptions, every_actuator
from sensorium.tasks.protocols import EntityLike
from sensorium.tasks.tensor.config import TensorTaskConfig


def make_robot(config: TensorTaskConfig, robot: Robot | None, entity: EntityLike | None) -> Robot:
    """Return the robot of a task, which is not in a scene yet.

    Args:
        config: options of the task.
        robot: the robot that was given instead of a name, or that of the entity.
        entity: the entity that acts.

    Raises:
        OptionError: ``keyframe`` is given beside a robot.
    """
    if robot is None:
        pose: dict[str, Any] = {} if config.keyframe is None else {"keyframe": config.keyframe}
        return make(config.robot, rig=config.rig, **pose)
    if config.keyframe is not None:
        whose = "an entity" if entity is not None else "a robot object"
        raise OptionError(
            f"keyframe must be None with {whose}, whose robot has a pose of its own; got {config.keyframe!r}. Set it "
            + ("by robot_options={'keyframe': ...}" if entity is not None else "in sn.robots.make(..., keyframe=...)")
        )
    return type(robot)(robot.options)


def with_sensors(robot: Robot, rig: SensorRig) -> Robot:
    """Return the robot if it has sensors, else a copy with those of ``rig``."""
    if robot.options.rig.sensors:
        return robot
    return type(robot)(robot.options.model_copy(update={"rig": rig}))


def as_actuators(robot: Robot, task: str) -> tuple[Robot, MoveGroup, MoveGroup | None]:
    """Return an arm as a robot with one action for each actuator, its move group, and that of its gripper or None.

    Controllers of move groups run as NumPy code on the CPU. Tensor tasks write the controls of the servos themselves.

    Args:
        robot: a robot with a move group of kind "arm".
        task: name of the task, for messages.

    Raises:
        OptionError: the robot has no arm.
    """
    if not isinstance(robot, Manipulator):
        raise OptionError(f"the task {task!r} needs a robot with an arm, got {robot.options.kind or 'a plain model'!r}")
    options = robot.options
    groups = {group.name: group for group in options.move_groups}
    arm = next((group for group in groups.values() if group.kind == "arm"), None)
    if arm is None:
        raise OptionError(f"the task {task!r} needs a robot with an arm, got {options.kind!r}")
    home = {name: at for group in groups.values() for name, at in zip(group.joints, group.home, strict=True)}
    shared = {name: getattr(options, name) for name in RobotOptions.model_fields}
    shared["actions"] = every_actuator(options.load_model(), strict=False)
    shared["joint_positions"] = home | options.joint_positions
    plain = Robot(RobotOptions(**shared))
    gripper = groups.get(arm.gripper or "")
    return plain, arm, gripper if gripper is not None and gripper.actuators else None
