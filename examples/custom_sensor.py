"""Write a sensor: a thermometer with a slow element, on a balloon in air that gets colder with height.

python examples/custom_sensor.py --out out/thermometer.png
"""

from dataclasses import dataclass
from pathlib import Path

import torch
import tyro

import sensorium as sn
from sensorium.sensors import SensorGroup, SimpleSensor, SimpleSensorOptions, Slots


class Thermometer(SimpleSensorOptions, init=False):
    """Options of a thermometer on a link; imperfections in °C."""

    link: str
    """Link that carries it."""
    time_constant: float = 0.5
    """Time in which the element covers 63% of a step, s."""


Thermometers = SensorGroup[torch.Tensor]  # all thermometers of a scene; their backend is the body of each, (sensors,)


class ThermometerSensor(SimpleSensor[torch.Tensor], options=Thermometer):
    """Reads (B, 1) °C: true air temperature, measured through the element."""

    units = {"value": "°C"}

    def _get_return_format(self) -> tuple[int, ...]:
        return (1,)

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return {"time_constant": ("custom", slice(0, 1))}  # thermometer.set(time_constant=..., envs=...)

    @classmethod
    def _build_group(cls, group: Thermometers) -> torch.Tensor:
        bodies = [group.world.model.body(sensor.options.link).id for sensor in group.sensors]
        return torch.tensor(bodies, device=group.device)

    @classmethod
    def _update_raw_data(cls, group: Thermometers, out: torch.Tensor) -> None:
        height = group.world.bind("xpos")[:, group.backend, 2].T
        out.copy_(20.0 - 10.0 * height)  # 10 °C per metre, for a short demonstration

    @classmethod
    def _apply_transform(cls, group: Thermometers, data: torch.Tensor, timeline: Slots, is_measured: bool) -> None:
        if is_measured:  # first-order response of the element; timeline[1] is its value one step ago
            gain = 1 - torch.exp(-group.dt / group.parameters["time_constant"])
            data.copy_(timeline[1] + gain * (data - timeline[1]))


@dataclass
class Options:
    """Options of the example."""

    out: Path = Path("out/thermometer.png")
    """File of the figure."""


def main(options: Options) -> None:
    """Let the balloon fall for 0.5 s and plot its thermometer."""
    scene = sn.Scene(dt=0.01)
    scene.add_object(sn.Sphere(radius=0.05), name="balloon", pos=(0, 0, 2), free=True)
    thermometer = scene.add_sensor(Thermometer(link="balloon", noise=0.05, resolution=0.1, delay=0.03))
    scene.build(n_envs=4)
    trace = sn.Trace(thermometer)
    for _ in range(50):
        scene.step()
        trace.take()
    trace.plot(options.out)
    measured, true = thermometer.read()[0, 0], thermometer.read_ground_truth()[0, 0]
    print(f"reads {measured:.1f} °C, true {true:.1f} °C: {options.out}")


if __name__ == "__main__":
    main(tyro.cli(Options))
