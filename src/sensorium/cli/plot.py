"""``sensorium plot``: plot the readings of a sensor beside ground truth."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

import sensorium as sn
from sensorium.cli.arguments import check_min, default, parse_pair
from sensorium.errors import did_you_mean

if TYPE_CHECKING:
    from sensorium.sensors.options import SensorOptions

_PRESETS_WITH_LINK = {"imu": True, "lidar": True, "encoder": False}
_BELOW = {"pos": (0.0, 0.0, -0.1), "euler": (3.1415927, 0.0, 0.0)}
"""Pose of a skin on the lower face of the box."""
_IN_THE_YARD: dict[str, dict[str, Any]] = {
    "Camera": {"pos": (1.3, -1.1, 0.9), "lookat": (0.0, 0.0, 0.1)},
    "Raycaster": {
        "pos": (0.0, 0.0, 1.0),
        "alignment": "yaw",
        "pattern": {"kind": "GridPattern", "size": (3.2, 2.4), "resolution": 0.1},
    },
    "TactileArray": {"grid": (8, 8), "spacing": 0.02, **_BELOW},
    "ElastomerDisplacement": {"size": (0.16, 0.16), **_BELOW},
    "TemperatureGrid": {"grid_size": (8, 8, 1), "temperatures": {"box": 60.0}},
}
"""Options class -> options that show something in the scene without a model, where the class has other defaults."""


_MAX_STEPS = 10**9
"""Steps that a plot can have."""


@dataclass
class Plot:
    """Plot the readings of a sensor beside ground truth.

    Simulates a model, or by default a box that falls in a walled yard, and writes an image file. Signals are lines over
    time. Cameras, lidars and skins are pictures of the last reading, with the error over time.

    Examples:
        sensorium plot IMU --link box --set acc_noise=0.5 delay=0.05 --out out/imu.png
        sensorium plot imu:consumer_mems --seconds 5
        sensorium plot lidar:2d
        sensorium plot Camera --set profile=rgbd outputs='["rgb", "depth"]'
        sensorium plot JointEncoder --model arm.xml
    """

    sensor: Annotated[str, tyro.conf.Positional]
    """Sensor class (IMU, Contact, Lidar, ...) or preset (imu:consumer_mems)."""
    model: Annotated[Path | None, default("a falling box named box")] = None
    """MJCF or URDF file."""
    link: Annotated[str | None, default("box, if there is no --model")] = None
    """Link that carries the sensor."""
    set: Annotated[list[str], default("the sensor's defaults")] = field(default_factory=list)
    """Options of the sensor as name=value. Values are JSON or text."""
    seconds: float = 2.0
    """Simulated time in seconds."""
    dt: float = 0.01
    """Duration of a step in seconds."""
    env: int = 0
    """Number of the env to plot."""
    seed: int = 0
    """Seed of all noise."""
    out: Path = Path("out/plot.png")
    """Output file: .png, .pdf, .svg or .jpg."""

    def run(self) -> int:
        """Simulate and plot."""
        from rich.console import Console
        from rich.progress import track

        if not 0 < self.seconds < float("inf"):
            raise sn.OptionError(f"--seconds must be finite and > 0, got {self.seconds}")
        if not self.seconds <= _MAX_STEPS * self.dt:
            raise sn.OptionError(f"--seconds must be <= {_MAX_STEPS * self.dt:g}, got {self.seconds}")
        check_min("env", self.env, 0)
        if self.out.suffix.lower() not in (".png", ".pdf", ".svg", ".jpg"):
            raise sn.OptionError(f"--out must end in .png, .pdf, .svg or .jpg, got {str(self.out)!r}")
        scene = sn.Scene(dt=self.dt)
        scene.add_object(sn.Plane(), name="ground")
        if self.model is None:
            _add_yard(scene)
        else:
            scene.add_robot(self.model, name="robot")
        sensor = scene.add_sensor(self._options())
        scene.build(n_envs=self.env + 1, seed=self.seed)
        trace = sn.Trace(sensor, env=self.env)
        for _ in track(range(max(1, round(self.seconds / self.dt))), "stepping", transient=True):
            scene.step()
            trace.take()
        trace.plot(self.out)
        Console(soft_wrap=True).print(f"{scene.describe()}\n\n{self.out}", highlight=False, markup=False)
        return 0

    def _options(self) -> SensorOptions:
        values = dict(parse_pair("--set", text) for text in self.set)
        link = self.link or ("box" if self.model is None else None)
        if self.sensor.count(":") == 1:
            kind, part = self.sensor.split(":")
            if kind not in sn.presets.names():
                raise sn.OptionError(f"there is no kind of preset {kind!r}{did_you_mean(kind, sn.presets.names())}")
            make = getattr(sn.presets, kind)
            return make(part, **(_with_link(values, link) if _PRESETS_WITH_LINK[kind] else values))
        known = _sensor_classes()
        if self.sensor not in known:
            hint = did_you_mean(self.sensor, known)
            raise sn.OptionError(f"there is no sensor {self.sensor!r}{hint}; known sensors: {', '.join(known)}")
        cls = known[self.sensor]
        if self.model is None:
            own = next((_IN_THE_YARD[base.__name__] for base in cls.__mro__ if base.__name__ in _IN_THE_YARD), {})
            if "lookat" in own and (self.link is not None or values.keys() & {"link", "pos", "lookat"}):
                own = {}  # the user places the camera
            elif "lookat" in own:
                link = None
            values = own | values
        return cls(**(_with_link(values, link) if "link" in cls.model_fields else values))


def _add_yard(scene: sn.Scene) -> None:
    """Add a box that falls, and around it what cameras and lidars can see: walls, crates and a post."""
    box = sn.Box(size=(0.2, 0.2, 0.2), mass=1.0, rgba=(0.85, 0.35, 0.2, 1))
    scene.add_object(box, name="box", pos=(0, 0, 0.6), euler=(0.4, 0.2, 0), free=True)
    for number, (x, y) in enumerate(((2.5, 0.0), (-2.5, 0.0), (0.0, 2.0), (0.0, -2.0))):
        size = (0.1, 4.1, 0.5) if x else (5.1, 0.1, 0.5)
        scene.add_object(sn.Box(size=size, rgba=(0.75, 0.75, 0.7, 1)), name=f"wall{number}", pos=(x, y, 0.25))
    for number, (x, y, colour) in enumerate(((1.2, 0.5, (0.2, 0.45, 0.7, 1)), (-1.1, 1.0, (0.35, 0.6, 0.3, 1)))):
        crate = sn.Box(size=(0.4, 0.5, 0.6), rgba=colour)
        scene.add_object(crate, name=f"crate{number}", pos=(x, y, 0.3), euler=(0, 0, 0.4))
    post = sn.Cylinder(radius=0.12, height=0.9, rgba=(0.8, 0.7, 0.3, 1))
    scene.add_object(post, name="post", pos=(-0.9, -1.0, 0.45))


def _sensor_classes() -> dict[str, type[SensorOptions]]:
    from sensorium.sensors.options import SensorOptions

    return {
        name: value
        for name in sn.__all__
        if isinstance(value := getattr(sn, name), type)
        and issubclass(value, SensorOptions)
        and not name.endswith("Options")
    }


def _with_link(values: dict[str, Any], link: str | None) -> dict[str, Any]:
    return values if link is None or "link" in values else {"link": link} | values
