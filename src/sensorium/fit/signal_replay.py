"""Replay of known signals in a scene: joint trajectories, loads, positions, pressures, distances, any channel.

Each kind of sensor has a rig: a small scene in which the true value of the sensor follows a given signal.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch

from sensorium.errors import OptionError
from sensorium.fit.estimate import Twin
from sensorium.fit.gps import local_position
from sensorium.fit.replay import Progress
from sensorium.fit.replayed_channel import ReplayedChannel, ReplayedVector
from sensorium.sensors.base import Sensor
from sensorium.sensors.rays.patterns import ArrayPattern
from sensorium.sensors.rays.ray_sensor import RayOptions
from sensorium.sensors.rays.raycaster import Raycaster
from sensorium.sensors.robot.atmosphere import (
    EARTH_RADIUS,
    EXPONENT,
    LAPSE_RATE,
    STANDARD_PRESSURE,
    STANDARD_TEMPERATURE,
)
from sensorium.worlds import Box, Scene, Sphere

TIMING = ("rate", "delay", "jitter", "max_delay", "dropout", "ray_dropout", "loss_rate", "reacquire_time")
"""Options that a replay does not use: there is one sample per step, and none is lost."""
_THICKNESS = 0.02
_REPORT = 500
"""Steps between two calls of a progress function."""
Signals = dict[str, np.ndarray]
"""Channel of the log -> true values, (samples, axes)."""


class ReplayRig(Protocol):
    """A scene in which the true value of a sensor follows given signals."""

    scene: Scene
    sensor: Sensor[Any]

    def place(self, row: int) -> None:
        """Let the next step end with the values of a row."""

    def read(self) -> dict[str, torch.Tensor]:
        """Return channel -> reading, (envs, axes)."""


def replay_signals(
    twin: Twin, signals: Signals, step: float, envs: int, *, seed: int = 0, progress: Progress | None = None
) -> Signals:
    """Return the readings of a simulated twin along known signals, one sample per step.

    The latency of the sensor belongs into the signals: a sensor with the latency d reads at t what happened at t - d.

    Args:
        twin: the fitted sensor; any kind but "imu".
        signals: channel of the log -> true values, (samples, axes), without NaN.
        step: time between samples, s.
        envs: number of runs.
        seed: seed of the noise.
        progress: called with numbers of finished steps.

    Returns:
        Channel -> readings, (samples, envs, axes).

    Raises:
        OptionError: the kind has no rig.
    """
    samples = len(next(iter(signals.values())))
    rig = make_rig(twin, signals, step, envs, seed, {})
    found = {name: np.empty((samples, envs, values.shape[1])) for name, values in signals.items()}
    for k in range(samples):
        rig.place(k)
        rig.scene.step()
        reading = rig.read()
        for name, rows in found.items():
            rows[k] = reading[name]
        if progress is not None and k % _REPORT == _REPORT - 1:
            progress(_REPORT)
    rig.scene.close()
    return found


def replay_stamps(twin: Twin, count: int, seed: int = 0) -> np.ndarray:
    """Return the arrival times of the samples of a simulated twin at its own rate, latency and jitter, (count,) s."""
    known = {name: twin.estimates[name] for name in ("delay", "jitter") if name in twin.estimates}
    timing: dict[str, Any] = {name: float(one.value) for name, one in known.items() if one.identifiable}
    timing["delay"] = max(timing.get("delay", 0.0), timing.get("jitter", 0.0))
    rate = float(twin.estimates["rate"].value)
    with warnings.catch_warnings():  # arrivals are not rounded to steps, so a jitter of less than a step has an effect
        warnings.simplefilter("ignore")
        rig = ChannelRig(None, {"": np.zeros((1, 1))}, 1 / rate, 1, seed, timing)
    stamps: list[float] = []
    rig.place(0)
    while len(stamps) < count:
        rig.scene.step()
        samples = rig.sensor.read_samples()
        stamps += samples.arrival[0, : int(samples.count[0])].tolist()
    rig.scene.close()
    return np.sort(np.array(stamps[:count]))


def make_rig(twin: Twin, signals: Signals, step: float, envs: int, seed: int, timing: dict[str, Any]) -> ReplayRig:
    """Return the rig of a kind of sensor, built. ``timing`` has options of :data:`TIMING` to set."""
    rigs: dict[str, Callable[..., ReplayRig]] = {
        "joint_encoder": JointRig,
        "force_torque": LoadRig,
        "gps": PlaceRig,
        "barometer": PlaceRig,
    }
    rigs |= dict.fromkeys(("raycaster", "lidar", "depth_camera"), RayReplay) | {"channel": ChannelRig}
    if twin.kind not in rigs:
        raise OptionError(f"there is no replay of signals for the kind {twin.kind!r}; there is for {', '.join(rigs)}")
    return rigs[twin.kind](twin, signals, step, envs, seed, timing)


def _fitted(twin: Twin, timing: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in twin.imperfections().items() if name not in TIMING} | timing


class _MovingRig:
    """Joints or a free body: position and velocity before a step lead to the position of the signal at its end."""

    def __init__(self, scene: Scene, envs: int, seed: int, path: np.ndarray) -> None:
        self.scene = scene
        scene.build(n_envs=envs, seed=seed)
        before = np.concatenate([path[:1], path[:-1]])
        self._start = torch.as_tensor(before)
        self._speed = torch.as_tensor((path - before) / scene.dt)
        self._qpos, self._qvel = scene.world.bind("qpos"), scene.world.bind("qvel")

    def place(self, row: int) -> None:
        """Let the next step end with the values of a row."""
        columns = self._start.shape[1]
        self._qpos[:, :columns], self._qvel[:, :columns] = self._start[row], self._speed[row]


class JointRig(_MovingRig):
    """Slide joints without forces, one per joint of the log."""

    def __init__(self, twin: Twin, signals: Signals, step: float, envs: int, seed: int, timing: dict[str, Any]) -> None:
        path = signals["joint_pos"]
        bodies = "".join(
            f'<body><joint name="j{k}" type="slide"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body>'
            for k in range(path.shape[1])
        )
        scene = _scene(step)
        scene.add_robot(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>", name="joints")
        self.sensor = scene.add_sensor(twin.options_type()(robot="joints", uuid="twin", **_fitted(twin, timing)))
        super().__init__(scene, envs, seed, path)

    def read(self) -> dict[str, torch.Tensor]:
        """Return channel -> reading, (envs, axes)."""
        reading = self.sensor.read()
        return {"joint_pos": reading.positions, "joint_vel": reading.velocities}


class PlaceRig(_MovingRig):
    """A free body without forces, at the positions of a receiver or at the heights of a barometer."""

    def __init__(self, twin: Twin, signals: Signals, step: float, envs: int, seed: int, timing: dict[str, Any]) -> None:
        path = signals["pos"] if twin.kind == "gps" else _heights(signals["pressure"])
        scene = _scene(step)
        scene.add_object(Sphere(radius=0.05), name="body", free=True)
        self.sensor = scene.add_sensor(twin.options_type()(link="body", uuid="twin", **_fitted(twin, timing)))
        super().__init__(scene, envs, seed, path)

    def read(self) -> dict[str, torch.Tensor]:
        """Return channel -> reading, (envs, axes)."""
        reading = self.sensor.read()
        if hasattr(reading, "pressure"):
            return {"pressure": reading.pressure}
        lat, lon, height = (part[:, 0].numpy() for part in (reading.latitude, reading.longitude, reading.altitude))
        position = torch.as_tensor(local_position(lat, lon, height, (0.0, 0.0, 0.0)))
        return {"pos": position, "vel": reading.velocity}


class LoadRig:
    """A tool that is fixed to the world by the sensor, under loads."""

    def __init__(self, twin: Twin, signals: Signals, step: float, envs: int, seed: int, timing: dict[str, Any]) -> None:
        samples = len(next(iter(signals.values())))
        parts = [signals.get(name, np.zeros((samples, 3))) for name in ("force", "torque")]
        self._load = torch.as_tensor(-np.concatenate(parts, axis=1))  # the parent exerts the opposite
        self.scene = _scene(step)
        body = '<body name="tool"><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body>'
        free = '<body><joint type="slide"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body>'
        self.scene.add_robot(f"<mujoco><worldbody>{body}{free}</worldbody></mujoco>", name="arm")
        options = twin.options_type()(link="arm/tool", uuid="twin", **_fitted(twin, timing))
        self.sensor = self.scene.add_sensor(options)
        self.scene.build(n_envs=envs, seed=seed)
        self._applied = self.scene.world.bind("xfrc_applied")[:, self.scene.model.body("arm/tool").id]

    def place(self, row: int) -> None:
        """Let the next step end with the values of a row."""
        self._applied[:] = self._load[row]

    def read(self) -> dict[str, torch.Tensor]:
        """Return channel -> reading, (envs, axes)."""
        return self.sensor.read()._asdict()  # type: ignore[no-any-return]


class RayReplay:
    """A wall in front of one ray per ray of the log."""

    def __init__(self, twin: Twin, signals: Signals, step: float, envs: int, seed: int, timing: dict[str, Any]) -> None:
        distances = signals["distance"]
        rays = distances.shape[1]
        self.scene = _scene(step)
        self.scene.add_object(Sphere(radius=0.01), name="body")
        for k in range(rays):
            wall = Box(size=(_THICKNESS, 0.5, 0.5))
            self.scene.add_object(wall, name=f"wall{k}", pos=(1.0, float(k), 0.0), free=True)
        origins = tuple((0.0, float(k), 0.0) for k in range(rays))
        known = {name: value for name, value in _fitted(twin, timing).items() if name in RayOptions.model_fields}
        known |= {"max_range": 10 * float(np.nanmax(distances)) + 10, "no_hit": float("inf"), "returns": ("distances",)}
        pattern = ArrayPattern(directions=(1.0, 0.0, 0.0), origins=origins)
        self.sensor = self.scene.add_sensor(Raycaster(link="body", uuid="twin", pattern=pattern, **known))
        self.scene.build(n_envs=envs, seed=seed)
        self._distance = torch.as_tensor(distances + _THICKNESS / 2)
        self._qpos, self._qvel = self.scene.world.bind("qpos"), self.scene.world.bind("qvel")

    def place(self, row: int) -> None:
        """Let the next step end with the values of a row."""
        self._qpos[:, ::7] = self._distance[row]
        self._qvel[:] = 0.0

    def read(self) -> dict[str, torch.Tensor]:
        """Return channel -> reading, (envs, axes)."""
        return {"distance": self.sensor.read().distances}


class ChannelRig:
    """A sensor that is given its true value."""

    def __init__(
        self, twin: Twin | None, signals: Signals, step: float, envs: int, seed: int, timing: dict[str, Any]
    ) -> None:
        ((self._name, values),) = signals.items()
        self._values = torch.as_tensor(values)
        self.scene = _scene(step)
        self.scene.add_object(Sphere(radius=0.01), name="body", free=True)
        fitted = {} if twin is None else _fitted(twin, {})
        fitted = {f"value_{name}": value for name, value in fitted.items()}
        fitted |= {} if twin is None else twin.settings
        kind = ReplayedVector if values.shape[1] == 3 else ReplayedChannel
        options = kind(uuid="twin", axes=values.shape[1], **fitted, **timing)
        self.sensor: Sensor[Any] = self.scene.add_sensor(options)
        self.scene.build(n_envs=envs, seed=seed)
        self._signal: torch.Tensor = getattr(self.sensor, "signal")  # noqa: B009  # of a ReplayedChannelSensor

    def place(self, row: int) -> None:
        """Let the next step end with the values of a row."""
        self._signal[:] = self._values[row]

    def read(self) -> dict[str, torch.Tensor]:
        """Return channel -> reading, (envs, axes)."""
        return {self._name: self.sensor.read()}


def _scene(step: float) -> Scene:
    return Scene(dt=step, substeps=1, gravity=(0.0, 0.0, 0.0))


def _heights(pressure: np.ndarray) -> np.ndarray:
    """Return positions at which the standard atmosphere has these pressures (n, 1) Pa, (n, 3) m."""
    height = STANDARD_TEMPERATURE / LAPSE_RATE * (1 - (pressure / STANDARD_PRESSURE) ** (1 / EXPONENT))
    place = np.zeros((len(pressure), 3))
    place[:, 2:] = EARTH_RADIUS * height / (EARTH_RADIUS - height)
    return place
