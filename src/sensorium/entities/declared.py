"""The spaces of an entity before it is in the scene of a task."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import NoReturn

import numpy as np
from gymnasium import spaces

from sensorium.errors import NotBuiltError
from sensorium.options import checked_integer
from sensorium.robots import Robot
from sensorium.suites import ObservationSensor, PipelineSensor, SensorSuite
from sensorium.worlds import Plane, Scene, Sphere


def declare(
    robot: Robot, landmarks: Sequence[str], privileged: Sequence[str], owner: str
) -> tuple[SensorSuite, spaces.Box]:
    """Return the suite of a robot without readings, and its action space, from a temporary scene.

    Args:
        robot: the robot with its rig.
        landmarks: names of entities that its sensors refer to.
        privileged: names of the sensors whose ground truth is in the suite.
        owner: who the sensors belong to, for messages.
    """
    rates = (float(sensor.options.get("rate") or 0.0) for sensor in robot.options.rig.sensors)
    fastest = max(rates, default=0.0)
    scene = Scene(dt=0.01, substeps=max(1, math.ceil(fastest * 0.01)))  # it never steps
    scene.add_object(Plane())
    for name in landmarks:
        scene.add_object(Sphere(radius=0.01), name=name, pos=(0.0, 0.0, 5.0))
    robot = scene.add_robot(robot, name="robot")
    with warnings.catch_warnings():  # whether jitter has an effect depends on the scene of the task
        warnings.simplefilter("ignore")
        scene.build()
    declared = [_DeclaredSensor(uuid, sensor) for uuid, sensor in suite_of(robot, 1, privileged, owner).items()]
    suite = SensorSuite(1, declared, owner, privileged=bool(privileged))
    low, high = robot.action_limits.numpy().T.astype(np.float32)
    scene.close()
    return suite, spaces.Box(low, high, dtype=np.float32)


def suite_of(robot: Robot, n_envs: int, privileged: Sequence[str], owner: str) -> SensorSuite:
    """Return the suite of a robot's rig in a built scene; arguments as of :func:`declare`.

    Raises:
        NotBuiltError: the robot is not in a built scene.
    """
    if not hasattr(robot, "rig"):
        raise NotBuiltError("the robot is in no built scene: add it with scene.add_robot() and call scene.build()")
    suite = SensorSuite(checked_integer("n_envs", n_envs, lower=1), privileged=bool(privileged))
    for name in robot.rig.names:
        suite.add(PipelineSensor(robot.rig[name], name, name in privileged), owner)
    return suite


class _DeclaredSensor(ObservationSensor):
    """An observation sensor that has a space but is not in a scene yet."""

    def __init__(self, uuid: str, bound: ObservationSensor) -> None:
        super().__init__(uuid, bound.space, bound.is_image)
        self.privileged = bound.privileged

    def read(self) -> NoReturn:
        raise NotBuiltError(
            f"cannot read {self.uuid!r}: the entity is in no scene yet; pass it to tasks.make(..., entity=...)"
        )
