"""A warning about sensors through which a policy reads the exact pose of an object."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection, Iterable
from types import FrameType

import numpy as np

from sensorium.robots.rig import RigSensor

_warned: set[tuple[str, str]] = set()
"""(robot, sensor) of the warnings so far. A training makes the same entity or task several times."""


def warn_of_exact_landmarks(robot: str, sensors: Iterable[RigSensor], landmarks: Collection[str]) -> None:
    """Warn, once per robot and sensor, if a sensor reads the exact pose of a landmark.

    Args:
        robot: name of the robot.
        sensors: the sensors that its actor receives.
        landmarks: names of entities besides the robot.
    """
    for sensor in sensors:
        landmark = _exact_landmark(sensor, landmarks)
        if landmark is None or (robot, sensor.name) in _warned:
            continue
        _warned.add((robot, sensor.name))
        warnings.warn(
            f"the sensor {sensor.name!r} gives the actor the exact pose of the landmark {landmark!r}, which a "
            "real robot does not know; make it a tracker, for example with pos_noise=0.002 and delay=0.04, or give it "
            "to critics only: in privileged=[...] of an entity, in observe_privileged() of a task",
            stacklevel=_levels_to_user(),
        )


def _exact_landmark(sensor: RigSensor, landmarks: Collection[str]) -> str | None:
    """Return the landmark whose pose a FramePose reads without delay and imperfections of the position, or None.

    The pose of a landmark relative to a link, and of a link relative to the landmark, have the same information.
    """
    if sensor.type != "FramePose":
        return None
    if any(np.any(value) for name, value in sensor.options.items() if name == "delay" or name.startswith("pos")):
        return None
    frames = (sensor.options.get("link") or sensor.mount.link, sensor.options.get("relative_to"))
    return next((str(frame) for frame in frames if frame in landmarks), None)


def _levels_to_user() -> int:
    """Return the ``stacklevel`` of a warning of the caller that names the user's line."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("sensorium."):
        frame, level = frame.f_back, level + 1
    return level
