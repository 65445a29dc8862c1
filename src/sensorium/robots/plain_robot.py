"""``PlainRobot``: a robot that its model describes completely."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco

from sensorium.robots.robot import Robot
from sensorium.worlds.compose import name_elements

if TYPE_CHECKING:
    from sensorium.worlds.scene_robot import RobotModel


class PlainRobot(Robot):
    """A robot that its model describes completely: ``scene.add_robot(model)`` without options returns it.

    The model is used exactly as it is. ``scene.contents`` stores it instead of the options of the robot: converting it
    to text would round its numbers to six digits.
    """

    @property
    def plain_model(self) -> RobotModel:
        return self.options.model

    def _load_model(self) -> mujoco.MjSpec:
        spec = super()._load_model()
        name_elements(spec)
        return spec

    def _at_start(self, spec: mujoco.MjSpec) -> tuple[mujoco.MjModel, mujoco.MjData]:
        alone = spec.copy()
        alone.compiler.fusestatic = False  # fusing would merge the base of a URDF into the world
        return super()._at_start(alone)
