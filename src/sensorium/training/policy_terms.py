"""Observation terms of a policy's contract, from the sensors of a task."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sensorium.deploy.contract import Conversion, Latency, ObservationTerm, Seen
from sensorium.options import Options
from sensorium.pipeline import Imperfections
from sensorium.robots import Robot
from sensorium.ros import topics
from sensorium.sensors import Sensor
from sensorium.worlds.compose import pose

_TIMING = ("dropout", "stuck", "interpolate")
"""Options of a sensor that are assumed imperfections of all its fields."""
_SLIDES = {"rad": "m", "rad/s": "m/s", "N·m": "N"}
"""Unit of a value of a hinge -> unit for a slide."""
_OPTICAL = "_optical"
"""End of the frame of a camera's images: x to the right, y down, z forward (REP 103)."""
_N_DIGITS = 9
"""Digits after the point of times, s."""


@dataclass(frozen=True)
class TermMaker:
    """Makes the terms of a task's sensors.

    Args:
        robot: the robot, in a built scene.
        dt: seconds between decisions.
        frames: number of observations of successive decisions that the policy gets.
        randomized: "sensor.option" -> range that is drawn in training.
        ground_truth: whether the policy observes true values.
    """

    robot: Robot
    dt: float
    frames: int = 1
    randomized: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    ground_truth: bool = False

    def sensor(self, key: str, part: str) -> ObservationTerm:
        """Return the term of a field of a sensor in the robot's rig.

        Args:
            key: name of the sensor in the rig.
            part: field of its reading, "" if it is one array.
        """
        sensor: Sensor[Any] = self.robot.rig[key]
        options, layout = sensor.options, sensor._get_return_format()
        shape = tuple(layout[part]) if isinstance(layout, dict) else tuple(layout)
        size = math.prod(shape)
        home = next(each for each in topics.ros_fields(sensor) if each.field == part)
        joints = [str(name) for name in getattr(sensor, "joint_names", ())]
        step = sensor.group.dt
        inner = [step * number for number in range(options.history_length or 1)]
        base = self._common(key, sensor)
        return ObservationTerm(
            **base,  # type: ignore[arg-type]
            name=f"{key}.{part}" if part else key,
            topic=home.topic,
            message=home.message,
            field=home.path,
            conversion=_conversion(home, size),
            unit=self._unit(home.unit, joints) if len(joints) == size else home.unit,
            names=tuple(self._own(name) for name in joints) if len(joints) == size else (),
            shape=shape,
            offset=1.0 if home.path == "status.status" else 0.0,  # ROS counts from -1 for no fix
            clip=(0.0, 1.0) if home.path == "status.status" else None,
            no_return=_no_return(options) if part == "distances" else None,
            **self._history(inner),  # type: ignore[arg-type]
            noise=(0.0,) * size if self.ground_truth else _noise(sensor, part, shape),
            imperfections=self._imperfections(key, sensor, part),
        )

    def image(
        self, key: str, sensor: Sensor[Any], part: str, shape: Sequence[int], dtype: str, name: str
    ) -> ObservationTerm:
        """Return the term of an image of a camera.

        Args:
            key: name of the sensor.
            sensor: the camera.
            part: which of its images, e.g. "rgb".
            shape: (H, W, C) or (H, W).
            dtype: "uint8" or "float32".
            name: name of the term and of the network's input.
        """
        frame = topics.frame(sensor) + (_OPTICAL if part else "")  # a depth camera of rays is no camera of a renderer
        return ObservationTerm(
            **{**self._common(key, sensor), "frame": frame},  # type: ignore[arg-type]
            name=name,
            input=name,
            dtype=dtype,
            topic=topics.topic(sensor.uuid, f"/{part}" if part else ""),
            message=topics.IMAGE,
            field="data",
            conversion="image",
            unit="1" if dtype == "uint8" else "m",
            shape=tuple(shape),
            noise=(),
            imperfections=self._imperfections(key, sensor, None),
        )

    def given(
        self,
        name: str,
        source: str,
        unit: str | tuple[str, ...],
        frame: str,
        names: Sequence[str],
        shape: Sequence[int],
    ) -> ObservationTerm:
        """Return the term of a command or of the previous action."""
        return ObservationTerm(
            name=name,
            uuid=name,
            source=source,  # type: ignore[arg-type]
            frame=frame,
            unit=unit,
            names=tuple(names),
            shape=tuple(shape),
            **self._history([0.0]),  # type: ignore[arg-type]
            rate=1 / self.dt,
            noise=(0.0,) * math.prod(shape),
        )

    def _common(self, key: str, sensor: Sensor[Any]) -> dict[str, object]:
        options = sensor.options
        delay, jitter = (0.0, 0.0) if self.ground_truth else (float(options.delay), float(options.jitter))
        most_delay, most_jitter = (
            max(value, self.randomized.get(f"{key}.{name}", (0.0, 0.0))[1])
            for name, value in (("delay", delay), ("jitter", jitter))
        )
        rate = options.rate or (1 / sensor.group.dt if options.substeps else 1 / self.dt)
        link, mounted = getattr(options, "link", None), None
        if link and hasattr(options, "quat") and getattr(options, "lookat", None) is None:
            mounted = [
                tuple(map(float, each)) for each in pose(options.pos, options.quat, getattr(options, "euler", None))
            ]
        return {
            "uuid": sensor.uuid,
            "frame": topics.frame(sensor) or ("joint" if hasattr(sensor, "joint_names") else ""),
            "link": self._own(link) if link else "",
            "pos": None if mounted is None else mounted[0],
            "quat": None if mounted is None else mounted[1],
            "rate": round(float(rate), 6),
            "latency": Latency(delay=delay, jitter=jitter, max=most_delay + most_jitter),
        }

    def _history(self, inner: Sequence[float]) -> dict[str, object]:
        ages = [round(self.dt * frame + age, _N_DIGITS) for frame in range(self.frames) for age in inner]
        return {"history": len(ages), "ages": tuple(ages)}

    def _own(self, name: str) -> str:
        return name.removeprefix(f"{self.robot.name}/")

    def _unit(self, unit: str, joints: Sequence[str]) -> str | tuple[str, ...]:
        """Return the unit of values of joints: a text, or one for each joint if hinges and slides are mixed."""
        model = self.robot._built("export").model
        slides = [int(model.joint(name).type[0]) == 2 for name in joints]  # mjJNT_SLIDE
        units = tuple(_SLIDES.get(unit, unit) if slide else unit for slide in slides)
        return units[0] if len(set(units)) == 1 else units

    def _imperfections(self, key: str, sensor: Sensor[Any], part: str | None) -> dict[str, object]:
        """Return what is assumed besides rate, latency and noise, as plain values. Images have no part."""
        options: Options = sensor.options
        found: dict[str, object] = {}
        if self.ground_truth:
            found["ground_truth"] = True
        else:
            channel = None if part is None else _channel(sensor, part)
            own = None if channel is None else getattr(options, channel) if channel else options
            held = own if isinstance(own, Imperfections) else None
            for name in () if held is None else Imperfections.model_fields:
                value = getattr(held, name)
                if name != "noise" and value != Imperfections.model_fields[name].get_default():
                    found[name] = list(value) if isinstance(value, tuple) else value
            if isinstance(getattr(options, "profile", None), str):
                found["profile"] = options.profile  # type: ignore[attr-defined]
            for name in _TIMING:
                if getattr(options, name, None):
                    found[name] = getattr(options, name)
        drawn = {
            name.partition(".")[2]: list(each) for name, each in self.randomized.items() if name.startswith(f"{key}.")
        }
        return {**found, "randomized": drawn} if drawn else found


def with_seen(term: ObservationTerm, values: np.ndarray) -> ObservationTerm:
    """Return a term with the statistics of its readings (n, size). Values that are not finite are ignored."""
    kept = np.where(np.isfinite(values), values, np.nan).astype(np.float64)
    if np.isnan(kept).all(axis=0).any():
        return term
    figures = {name: getattr(np, f"nan{name}")(kept, axis=0) for name in ("min", "max", "mean", "std")}
    rounded = {name: tuple(float(f"{each:.7g}") for each in figure) for name, figure in figures.items()}
    return dataclasses.replace(term, seen=Seen(**rounded, samples=len(values)))  # type: ignore[arg-type]


def _no_return(options: Options) -> float | None:
    """Return the distance that a ray sensor reads without a return; None for other sensors."""
    if not hasattr(options, "no_hit"):
        return None
    return float(options.max_range if options.no_hit is None else options.no_hit)  # type: ignore[attr-defined]


def _conversion(home: topics.RosField, size: int) -> Conversion:
    if home.message == topics.POINT_CLOUD:
        return "points"
    if home.message == topics.JOINT_STATE:
        return "joints"
    if home.message == topics.IMAGE:
        return "image"
    if home.message == topics.TIME_REFERENCE:
        return "time"
    if home.path.endswith("orientation"):
        return "quaternion" if size == 4 else "yaw"
    return "values"


def _columns(sensor: Sensor[Any], part: str) -> slice | None:
    """Return the columns of a field, or None if the columns that imperfections act on are others than those read."""
    layout, before = sensor._get_return_format(), sensor._get_intermediate_format()
    if layout != before:
        return None
    start = 0
    for name, shape in layout.items() if isinstance(layout, dict) else [("", layout)]:
        size = math.prod(shape)
        if name == part:
            return slice(start, start + size)
        start += size
    return None


def _channel(sensor: Sensor[Any], part: str) -> str | None:
    """Return the channel of a field, "" for the sensor's own imperfections, or None if it has none."""
    columns = _columns(sensor, part)
    for name, held in sensor._channels().items():
        if name == part or (columns is not None and held.start <= columns.start and columns.stop <= held.stop):
            return name
    return None


def _noise(sensor: Sensor[Any], part: str, shape: Sequence[int]) -> tuple[float, ...]:
    """Return the standard deviation of the noise of one sample, one number for each component of a field."""
    channel, size = _channel(sensor, part), math.prod(shape)
    found = sensor._parameters.spreads()
    if channel is None or channel not in found:
        turn = getattr(sensor.options, "rot_noise", 0.0)
        return (float(turn) / 2,) * size if part == "quat" else (0.0,) * size
    noise, columns = found[channel][0].numpy(force=True), _columns(sensor, part)
    if len(noise) != size and columns is not None:  # a channel of several fields
        start = columns.start - sensor._channels()[channel].start
        noise = noise[start : start + size]
    if size % len(noise):
        noise = noise.max()
    return tuple(float(f"{each:.9g}") for each in np.resize(noise, size))
