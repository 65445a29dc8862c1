"""Attitude: the direction of up in the frame of a link, as the orientation filter of an IMU reports it."""

from __future__ import annotations

import mujoco
import torch

from sensorium.pipeline import SignalSource
from sensorium.sensors.base import Format, SimpleSensor, add_site
from sensorium.sensors.options import Mounted, SimpleSensorOptions
from sensorium.worlds import Names


class Attitude(SimpleSensorOptions, Mounted):
    """Options of an attitude sensor: which way is up, without heading and position.

    It stands for the output of an orientation filter (roll and pitch from an accelerometer and a gyroscope). Its
    imperfections are those of that output. The generic ones act on each component; for small angles, a noise of 0.02
    is 0.02 rad of roll and pitch. A policy that takes the direction of gravity reads the negative of it.

    Example:
        >>> attitude = scene.add_sensor(sn.Attitude(link="torso", noise=0.02, delay=0.02))
        >>> attitude.read()   # (B, 3); (0, 0, 1) when the torso is level
    """


class AttitudeSensor(SimpleSensor[torch.Tensor], options=Attitude):
    """Attitude sensor. See :class:`Attitude`.

    Reads (B, 3): the unit vector of the world's z axis in the sensor's frame. Noise and bias change its length, too.
    """

    kind = "attitude"

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        site = add_site(spec, names, self.options, self.uuid)
        up = spec.add_sensor(name=f"{self.uuid}:up", type=mujoco.mjtSensor.mjSENS_FRAMEZAXIS)
        up.objtype, up.objname = mujoco.mjtObj.mjOBJ_XBODY, spec.worldbody.name
        up.reftype, up.refname = mujoco.mjtObj.mjOBJ_SITE, site

    def _sources(self) -> list[SignalSource]:
        return [SignalSource((f"{self.uuid}:up",), axis) for axis in range(3)]

    def _get_return_format(self) -> Format:
        return (3,)
