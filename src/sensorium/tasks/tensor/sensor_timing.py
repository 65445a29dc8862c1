"""Sensors with memory for the delays, and ticks for the rates, that ``randomize_sensors`` draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from sensorium.errors import OptionError
from sensorium.robots import RigSensor, Robot
from sensorium.tasks.tensor.config import TensorTaskConfig

ConfigT = TypeVar("ConfigT", bound=TensorTaskConfig)
_TIMING = ("delay", "jitter", "max_delay", "rate")
"""Options of cameras that the ranges can change."""


def reserve_timing(robot: Robot, config: TensorTaskConfig) -> Robot:
    """Return a robot whose sensors can have every delay, jitter and rate of ``randomize_sensors``.

    Raises:
        OptionError: see :func:`timing_options`.
    """
    if not any(key.partition(".")[2] in ("rate", "delay", "jitter") for key in config.randomize_sensors):
        return robot
    rig = robot.options.rig
    sensors = tuple(
        RigSensor(
            name=each.name,
            type=each.type,
            mount=each.mount,
            options=timing_options(each.name, each.options, config),
        )
        for each in rig.sensors
    )
    return type(robot)(robot.options.model_copy(update={"rig": rig.model_copy(update={"sensors": sensors})}))


def with_camera_timing(config: ConfigT) -> ConfigT:
    """Return options of a task whose cameras can have every delay, jitter and rate of ``randomize_sensors``.

    Raises:
        OptionError: see :func:`timing_options`.
    """
    cameras = []
    for camera in config.cameras:
        given = {name: getattr(camera, name) for name in _TIMING if getattr(camera, name) is not None}
        found = timing_options(camera.name, given, config, is_camera=True)
        cameras.append(
            camera.model_copy(update={name: found[name] for name in found if found[name] != given.get(name)})
        )
    return config.model_copy(update={"cameras": tuple(cameras)}) if cameras else config


def timing_options(
    uuid: str, options: Mapping[str, Any], config: TensorTaskConfig, is_camera: bool = False
) -> dict[str, Any]:
    """Return the options of a sensor with memory for the values that ``randomize_sensors`` draws for it.

    Args:
        uuid: the sensor, as in the keys of the ranges.
        options: its options.
        config: options of the task.
        is_camera: whether it is a camera, which takes at most one image in a step.

    Raises:
        OptionError: a range of jitter exceeds the delay, or a rate is not > 0 or too high.
    """
    found, ranges = dict(options), config.randomize_sensors
    fixed = {name: float(options.get(name, 0.0)) for name in ("delay", "jitter")}
    latency = {name: ranges.get(f"{uuid}.{name}", (value, value)) for name, value in fixed.items()}
    if latency["jitter"][1] > latency["delay"][0]:
        raise OptionError(
            f"randomize_sensors: the jitter of {uuid!r}, up to {latency['jitter'][1]:g} s, must be <= its delay, from "
            f"{latency['delay'][0]:g} s"
        )
    if any(f"{uuid}.{name}" in ranges for name in latency):
        needed = latency["delay"][1] + latency["jitter"][1]
        found["max_delay"] = max(needed, sum(fixed.values()), float(options.get("max_delay") or 0.0))
    if f"{uuid}.rate" in ranges:
        low, high = ranges[f"{uuid}.rate"]
        if not low > 0:
            raise OptionError(f"randomize_sensors: the rate of {uuid!r} must be > 0, got {(low, high)}")
        highest = (1 if is_camera else config.substeps) / config.dt
        if high > highest * (1 + 1e-9):
            what, fix = ("steps", "lower dt") if is_camera else ("physics", "raise substeps")
            raise OptionError(
                f"randomize_sensors: the rate of {uuid!r} must be <= {highest:g} Hz, the rate of the {what}, got "
                f"{(low, high)}: lower it, or {fix} of the task"
            )
        found["rate"] = high
    return found
