"""A warning about sensors through which a policy reads the exact pose of an object."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from sensorium.robots import RigSensor, SensorRig

_warned: set[tuple[str, str]] = set()
"""(robot, sensor) of the warnings so far. A training makes the same entity several times."""


def warn_of_exact_landmarks(robot: str, rig: SensorRig, landmarks: Sequence[str]) -> None:
    """Warn, once per robot and sensor, if a sensor reads the exact pose of a landmark.

    Args:
        robot: name of the robot.
        rig: the sensors that its actor receives.
        landmarks: names of entities besides the robot.
    """
    for sensor in rig.sensors:
        landmark = _exact_landmark(sensor, landmarks)
        if landmark is None or (robot, sensor.name) in _warned:
            continue
        _warned.add((robot, sensor.name))
        warnings.warn(
            f"the sensor {sensor.name!r} gives the actor the exact pose of the landmark {landmark!r}, which a "
            "real robot does not know; list it in privileged=[...] so that only critics receive it, or make it a "
            "tracker, for example with pos_noise=0.002 and delay=0.04",
            stacklevel=4,
        )


def _exact_landmark(sensor: RigSensor, landmarks: Sequence[str]) -> str | None:
    """Return the landmark whose pose a FramePose reads without delay and imperfections of the position, or None.

    The pose of a landmark relative to a link, and of a link relative to the landmark, have the same information.
    """
    if sensor.type != "FramePose":
        return None
    if any(value for name, value in sensor.options.items() if name == "delay" or name.startswith("pos")):
        return None
    frames = (sensor.options.get("link") or sensor.mount.link, sensor.options.get("relative_to"))
    return next((str(frame) for frame in frames if frame in landmarks), None)
