"""Replay of a log's motion in a scene: a sensor on a body that follows a pose reference, or that lies still."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from sensorium import poses, units
from sensorium.errors import OptionError
from sensorium.fit.references import PoseReference
from sensorium.sensors.robot.imu import IMU, IMUData, IMUSensor
from sensorium.worlds import Scene, Sphere
from sensorium.worlds.scene_options import SceneOptions

_MASS, _RADIUS = 1.0, 0.05
_INERTIA = 0.4 * _MASS * _RADIUS**2
Progress = Callable[[int], None]
"""Function that is called with the number of steps done since its last call."""
_REPORT = 500
"""Steps between two calls of a progress function."""


def replay_pose(
    options: IMU,
    reference: PoseReference,
    time: np.ndarray,
    *,
    gravity: float = units.STANDARD_GRAVITY,
    field: tuple[float, float, float] | None = None,
    lever: np.ndarray | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, np.ndarray]:
    """Return the readings of a simulated IMU along the motion of a reference.

    A free body is set to the pose and the velocity of the reference before each step, and forces give it the
    acceleration with which the readings at the end of the step are those of the reference. The latency of the sensor
    belongs into ``time``: a sensor with the latency d reads at t what happened at t - d.

    Args:
        options: the IMU; ``link`` and the mounting pose are replaced.
        reference: the motion, with positions for the accelerometer.
        time: times of the readings on the clock of the reference, (n,) s, evenly spaced, without gaps of the reference.
        gravity: m/s².
        field: magnetic field of the world, T. Default: that of scenes.
        lever: position of the sensor relative to the tracked point, in the body frame, (3,) m.
        seed: seed of the noise.
        progress: called with numbers of finished steps.

    Returns:
        "gyro", "acc", "mag" -> (n, 3), and "gyro_truth", "acc_truth", "mag_truth" without imperfections.
    """
    step = float(np.median(np.diff(time)))
    grid = np.r_[time[0] - step, time]
    turns, rate = reference.orientation(grid), _rates(reference, grid)
    place, pull = np.zeros((len(grid), 3)), np.tile([0.0, 0.0, gravity], (len(grid), 1))
    if reference.has_position:
        place, pull = reference.position(grid), reference.acceleration(grid) + pull
    force = poses.rotate(poses.conjugate(turns), pull)
    if lever is not None:
        force = force + reference.lever_matrix(grid) @ lever
    # the accelerometer uses the orientation at the start of a step: turn the force there, so that it reads ``force``
    push = _MASS * poses.rotate(turns[:-1], force[1:])
    torque = _INERTIA * poses.rotate(turns[:-1], np.diff(rate, axis=0) / step)
    start = torch.as_tensor(np.concatenate([place, turns], axis=1)[:-1])
    spin = torch.as_tensor(np.concatenate([np.zeros_like(rate), rate], axis=1)[:-1])
    wrench = torch.as_tensor(np.concatenate([push, torque], axis=1))
    scene, sensor = _scene(options, step, gravity, field, 1, seed)
    world = scene.world
    qpos, qvel, applied = world.bind("qpos"), world.bind("qvel"), world.bind("xfrc_applied")
    rows = np.empty((2, len(time), 9), np.float64)
    for k in range(len(time)):
        qpos[0], qvel[0], applied[0, -1] = start[k], spin[k], wrench[k]
        scene.step()
        for row, reading in zip(rows[:, k], (sensor.read(), sensor.read_ground_truth()), strict=True):
            _store(row, reading)
        if progress is not None and k % _REPORT == _REPORT - 1:
            progress(_REPORT)
    scene.close()
    return {
        f"{name}{end}": values[:, 3 * k : 3 * k + 3]
        for values, end in zip(rows, ("", "_truth"), strict=True)
        for k, name in enumerate(("acc", "gyro", "mag"))
    }


def replay_rest(
    options: IMU,
    samples: int,
    step: float,
    envs: int,
    *,
    gravity: float = units.STANDARD_GRAVITY,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, np.ndarray]:
    """Return the readings of a simulated IMU that lies still, "gyro", "acc", "mag" -> (samples, envs, 3)."""
    scene, sensor = _scene(options, step, gravity, None, envs, seed)
    world = scene.world
    wrench = torch.zeros(6, dtype=torch.float64)
    wrench[2] = _MASS * gravity
    world.bind("xfrc_applied")[:, -1] = wrench
    rows = np.empty((samples, envs, 9), np.float32)
    for k in range(samples):
        scene.step()
        _store(rows[k], sensor.read())
        if progress is not None and k % _REPORT == _REPORT - 1:
            progress(_REPORT)
    scene.close()
    return {name: rows[:, :, 3 * k : 3 * k + 3].astype(np.float64) for k, name in enumerate(("acc", "gyro", "mag"))}


def _scene(
    options: IMU, step: float, gravity: float, field: tuple[float, float, float] | None, envs: int, seed: int
) -> tuple[Scene, IMUSensor]:
    if not isinstance(options, IMU):
        raise OptionError(f"a replay needs options of an IMU, got {type(options).__name__}")
    magnetic = SceneOptions().magnetic_field if field is None else field
    scene = Scene(dt=step, substeps=1, gravity=(0.0, 0.0, -gravity), magnetic_field=magnetic)
    scene.add_object(Sphere(radius=_RADIUS, mass=_MASS), name="body", free=True)
    placed = {"link": "body", "pos": (0.0, 0.0, 0.0), "quat": None, "euler": None, "uuid": "twin"}
    # one sample per step: the step is that of the log, and the latency is in the times of the reference
    timing = {"rate": None, "delay": 0.0, "jitter": 0.0, "max_delay": None, "dropout": 0.0}
    sensor = scene.add_sensor(options.model_copy(update={**placed, **timing}))
    assert isinstance(sensor, IMUSensor)
    scene.build(n_envs=envs, seed=seed)
    return scene, sensor


def _rates(reference: PoseReference, t: np.ndarray) -> np.ndarray:
    rate = reference.angular_rate(t).values
    if not np.isfinite(rate).all():
        raise OptionError("a replay needs poses at all times; leave gaps of the reference out of them")
    return rate


def _store(row: np.ndarray, reading: IMUData) -> None:
    row[..., :3], row[..., 3:6], row[..., 6:] = reading.lin_acc, reading.ang_vel, reading.mag
