"""The thermometer of docs/custom_sensor.md, for the contract and the tests of hooks."""

import math

import torch
from pydantic import Field

import sensorium as sn


class Thermometer(sn.SimpleSensorOptions):
    """A thermometer on a link: air that is colder higher up, seen through an element with a time constant."""

    link: str
    time_constant: float = Field(default=0.5, gt=0)
    ground_temperature: float = 20.0
    lapse: float = 10.0


class ThermometerSensor(sn.SimpleSensor[torch.Tensor], options=Thermometer):
    def _declare(self, spec, names):
        self._body = names.body(self.options.link, f"Thermometer(uuid={self.uuid!r}).link").name

    def _get_return_format(self):
        return (1,)

    @classmethod
    def _build_group(cls, group):
        cls_bodies = [group.world.model.body(sensor._body).id for sensor in group.sensors]
        group.bodies = torch.tensor(cls_bodies, device=group.device)
        group.ground, group.lapse = group.per_column("ground_temperature"), group.per_column("lapse")
        group.gain = 1 - torch.exp(-group.dt / group.per_column("time_constant"))

    @classmethod
    def _update_raw_data(cls, group, out):
        height = group.world.bind("xpos")[:, group.bodies, 2].T
        out.copy_(group.ground - group.lapse * height)

    @classmethod
    def _apply_transform(cls, group, data, timeline, is_measured):
        if is_measured:  # the air is what it is; only the element is slow
            data.copy_(timeline[1] + group.gain * (data - timeline[1]))


def first_order(t: float, tau: float) -> float:
    """Step response of the element."""
    return 1 - math.exp(-t / tau)
