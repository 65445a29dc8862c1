"""``sensorium plot``: a sensor on a model, stepped for a while, as a picture."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.progress import track

import sensorium as sn
from sensorium.errors import did_you_mean
from sensorium.sensors.options import SensorOptions


@dataclass
class PlotCommand:
    """Draw what a sensor reads beside ground truth.

    Example: sensorium plot IMU --link box --set acc_noise=0.5 delay=0.05 --out out/imu.png
    """

    sensor: Annotated[str, tyro.conf.Positional]
    """Kind of sensor, e.g. IMU, Contact, Lidar; or a preset, e.g. imu:consumer_mems."""
    model: Path | None = None
    """MJCF or URDF file. Default: a box that falls on the ground, called "box"."""
    link: str | None = None
    """The link that carries the sensor. Default: "box" without a model."""
    set: list[str] = field(default_factory=list)
    """Options of the sensor, as name=value; values as in JSON."""
    seconds: float = 2.0
    """How long to simulate."""
    dt: float = 0.01
    """Seconds of a step."""
    env: int = 0
    """Which of the envs to draw."""
    seed: int = 0
    """What all noise comes from."""
    out: Path = Path("out/plot.png")
    """Where the picture goes."""

    def run(self) -> None:
        """Simulate and draw."""
        if not 0 < self.seconds < float("inf"):
            raise sn.OptionError(f"--seconds must be finite and greater than 0, got {self.seconds}")
        if self.out.suffix.lower() not in (".png", ".pdf", ".svg", ".jpg"):
            raise sn.OptionError(f"--out must end in .png, .pdf, .svg or .jpg, got {str(self.out)!r}")
        scene = sn.Scene(dt=self.dt)
        scene.add_object(sn.Plane(), name="ground")
        if self.model is None:
            box = sn.Box(size=(0.2, 0.2, 0.2), mass=1.0)
            scene.add_object(box, name="box", pos=(0, 0, 0.6), euler=(0.4, 0.2, 0), free=True)
        else:
            scene.add_robot(self.model, name="robot")
        sensor: Any = scene.add_sensor(self._options())
        scene.build(n_envs=self.env + 1, seed=self.seed)
        trace = sn.Trace(sensor, env=self.env)
        for _ in track(range(max(1, round(self.seconds / self.dt))), "stepping", transient=True):
            scene.step()
            trace.take()
        trace.plot(self.out)
        Console(soft_wrap=True).print(f"{scene.describe()}\n\n{self.out}", highlight=False, markup=False)

    def _options(self) -> SensorOptions:
        given = dict(_pair(text) for text in self.set)
        link = self.link or ("box" if self.model is None else None)
        if self.sensor.count(":") == 1:
            kind, part = self.sensor.split(":")
            if kind not in sn.presets.names():
                raise sn.OptionError(f"there is no kind of preset {kind!r}{did_you_mean(kind, sn.presets.names())}")
            make = getattr(sn.presets, kind)
            needs = {"imu": True, "lidar": True, "encoder": False}[kind]
            return make(part, **(_with_link(given, link) if needs else given))
        known = {
            name: value
            for name in sn.__all__
            if isinstance(value := getattr(sn, name), type)
            and issubclass(value, SensorOptions)
            and not name.endswith("Options")
        }
        if self.sensor not in known:
            hint = did_you_mean(self.sensor, known)
            raise sn.OptionError(f"there is no sensor {self.sensor!r}{hint}; there are {', '.join(known)}")
        cls = known[self.sensor]
        return cls(**(_with_link(given, link) if "link" in cls.model_fields else given))


def _with_link(given: dict[str, Any], link: str | None) -> dict[str, Any]:
    return given if link is None or "link" in given else {"link": link} | given


def _pair(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not sign:
        raise sn.OptionError(f"--set takes name=value, got {text!r}")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value
