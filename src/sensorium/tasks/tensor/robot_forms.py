"""Robots in the form that tensor tasks need: with default sensors, and arms without the controllers of the CPU."""

from __future__ import annotations

from collections.abc import Mapping

from sensorium.errors import OptionError
from sensorium.robots import Manipulator, MoveGroup, RigSensor, Robot, SensorRig
from sensorium.robots.robot_options import RobotOptions, every_actuator


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
    spec = options.load_model()
    shared = {name: getattr(options, name) for name in RobotOptions.model_fields}
    shared |= {"model": spec, "assets": {}, "actions": every_actuator(spec, strict=False)}
    shared["joint_positions"] = home | options.joint_positions
    plain = Robot(RobotOptions(**shared))
    gripper = groups.get(arm.gripper or "")
    return plain, arm, gripper if gripper is not None and gripper.actuators else None


def reserve_timing(robot: Robot, ranges: Mapping[str, tuple[float, float]]) -> Robot:
    """Return a robot whose sensors have memory for the delays, and the ticks for the rates, that ranges contain.

    Args:
        robot: the robot.
        ranges: "sensor.option" -> (low, high); see ``TensorTaskConfig.randomize_sensors``.

    Raises:
        OptionError: a range of jitter exceeds the delay, or a rate is not > 0.
    """
    if not any(key.partition(".")[2] in ("rate", "delay", "jitter") for key in ranges):
        return robot
    sensors = tuple(_with_timing(sensor, ranges) for sensor in robot.options.rig.sensors)
    rig = robot.options.rig.model_copy(update={"sensors": sensors})
    return type(robot)(robot.options.model_copy(update={"rig": rig}))


def _with_timing(sensor: RigSensor, ranges: Mapping[str, tuple[float, float]]) -> RigSensor:
    """Return a sensor of a rig with memory for the values that ranges contain."""
    options = dict(sensor.options)
    fixed = {name: float(options.get(name, 0.0)) for name in ("delay", "jitter")}
    latency = {name: ranges.get(f"{sensor.name}.{name}", (value, value)) for name, value in fixed.items()}
    if latency["jitter"][1] > latency["delay"][0]:
        raise OptionError(
            f"randomize_sensors: the jitter of {sensor.name!r}, up to {latency['jitter'][1]:g} s, must be <= its "
            f"delay, from {latency['delay'][0]:g} s"
        )
    if any(f"{sensor.name}.{name}" in ranges for name in latency):
        needed = latency["delay"][1] + latency["jitter"][1]
        options["max_delay"] = max(needed, sum(fixed.values()), float(options.get("max_delay") or 0.0))
    if f"{sensor.name}.rate" in ranges:
        low, high = ranges[f"{sensor.name}.rate"]
        if not low > 0:
            raise OptionError(f"randomize_sensors: the rate of {sensor.name!r} must be > 0, got {(low, high)}")
        options["rate"] = high
    return RigSensor(name=sensor.name, type=sensor.type, mount=sensor.mount, options=options)
