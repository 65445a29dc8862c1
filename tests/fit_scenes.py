"""Simulated logs with known imperfections, and the cases in which fits are checked against them.

One scene simulates many runs: its envs. A body follows a given motion, and sensors on it are logged together with
their ground truth. Tests use a few runs; ``benchmarks/fit.py`` measures the coverage of the intervals with 200.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.spatial.transform import Rotation

import sensorium as sn

GRAVITY = 9.81
FIELD = (0.0, 2.1e-5, -4.3e-5)
MODEL = """
<mujoco><worldbody><body name="base"><freejoint/><inertial pos="0 0 0" mass="1" diaginertia="0.001 0.001 0.001"/>
<geom type="sphere" size="0.05" mass="0" contype="0" conaffinity="0"/>
<body name="tool" pos="0 0 0.1"><geom type="sphere" size="0.01" mass="0.1" contype="0" conaffinity="0"/></body>
<body name="arm"><joint name="hinge" axis="0 1 0"/><geom type="sphere" size="0.01" mass="0.01" contype="0"
conaffinity="0"/></body></body></worldbody></mujoco>
"""


@dataclass(frozen=True)
class Motion:
    """Poses of the body and angles of the hinge at the steps of a scene."""

    pos: np.ndarray
    quat: np.ndarray
    angle: np.ndarray
    dt: float

    @property
    def time(self) -> np.ndarray:
        """Times of the poses, s."""
        return self.dt * np.arange(len(self.pos))


def rest(samples: int, dt: float = 0.01) -> Motion:
    """Return a body that stays where it is, 1 m above the ground."""
    pos, quat = np.tile([0.0, 0.0, 1.0], (samples, 1)), np.tile([1.0, 0.0, 0.0, 0.0], (samples, 1))
    return Motion(pos, quat, np.zeros(samples), dt)


def swing(samples: int, dt: float = 0.01, still: float = 0.0, fast: float = 1.0) -> Motion:
    """Return a smooth motion in all directions, which begins after ``still`` seconds of rest."""
    t = dt * np.arange(samples) - still
    x = np.clip(t / 2, 0, 1)
    ramp = x**3 * (10 - 15 * x + 6 * x**2)

    def waves(slow: tuple[float, float], quick: tuple[float, float], phase: float) -> np.ndarray:
        one, two = (size * np.sin(2 * np.pi * fast * f * t + k * phase) for k, (f, size) in ((1, slow), (2, quick)))
        return ramp * (one + two)

    roll = waves((0.31, 1.1), (0.83, 0.3), 0.4)
    pitch = waves((0.23, 0.9), (0.71, 0.3), 1.1)
    yaw = waves((0.37, 1.0), (0.93, 0.25), 2.0)
    quat = np.roll(Rotation.from_euler("xyz", np.stack([roll, pitch, yaw], axis=1)).as_quat(), 1, axis=1)
    x, y = waves((0.4, 0.3), (1.1, 0.05), 0.9), waves((0.5, 0.25), (1.3, 0.04), 0.2)
    z = 2.0 + waves((0.3, 0.4), (0.9, 0.1), 1.7)
    return Motion(np.stack([x, y, z], axis=1), quat, waves((0.4, 0.8), (1.7, 0.1), 0.3), dt)


def simulate(sensors: dict[str, Any], motion: Motion, envs: int, seed: int = 0) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, readings and ground truth of each sensor along a motion, (samples, envs, ...) per field.

    Args:
        sensors: name -> options.
        motion: the motion.
        envs: number of runs.
        seed: seed of the noise.
    """
    scene = sn.Scene(dt=motion.dt, substeps=1, gravity=(0, 0, -GRAVITY), magnetic_field=FIELD)
    scene.add_object(sn.Plane())
    scene.add_robot(MODEL, name="body")
    made = {name: scene.add_sensor(options) for name, options in sensors.items()}
    scene.build(n_envs=envs, seed=seed)
    world = scene.world
    qpos, qvel, applied = world.bind("qpos"), world.bind("qvel"), world.bind("xfrc_applied")
    start, speed, wrench = _states(motion)
    base = scene.model.body("body/base").id
    rows: dict[str, list[Any]] = {name: [] for name in made}
    for k in range(len(motion.pos)):
        qpos[:], qvel[:], applied[:, base] = start[k], speed[k], wrench[k]
        scene.step()
        for name, sensor in made.items():
            both = (sensor.read(), sensor.read_ground_truth())
            rows[name].append([[part.clone() for part in (one if isinstance(one, tuple) else (one,))] for one in both])
    fields_of = {name: getattr(sensor.read(), "_fields", ("values",)) for name, sensor in made.items()}
    scene.close()
    for name, fields in fields_of.items():
        found = [
            {
                field: torch.stack([row[side][i] for row in rows[name]]).double().numpy()
                for i, field in enumerate(fields)
            }
            for side in (0, 1)
        ]
        yield name, found[0], found[1]


def _states(motion: Motion) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return positions, velocities and forces before each step, so that the step ends in the pose of the motion."""
    dt = motion.dt
    pad = [np.concatenate([one[:1], one]) for one in (motion.pos, motion.quat, motion.angle)]
    turn = Rotation.from_quat(np.roll(pad[1], -1, axis=1))
    rate = (turn[:-1].inv() * turn[1:]).as_rotvec() / dt
    speed = np.diff(pad[0], axis=0) / dt
    hinge = np.diff(pad[2]) / dt
    push = np.diff(np.concatenate([speed[:1], speed]), axis=0) / dt * 1.11
    push[:, 2] += 1.11 * GRAVITY
    start = np.concatenate([pad[0][:-1], pad[1][:-1], pad[2][:-1, None]], axis=1)
    velocity = np.concatenate([speed, rate, hinge[:, None]], axis=1)
    wrench = np.concatenate([push, np.zeros_like(push)], axis=1)
    return torch.as_tensor(start), torch.as_tensor(velocity), torch.as_tensor(wrench)


@dataclass(frozen=True)
class Case:
    """Logs with known imperfections.

    Attributes:
        name: what is simulated.
        run: (number of runs, seed) -> twins of the runs.
        truth: estimate -> true value.
    """

    name: str
    run: Callable[[int, int], Iterator[sn.fit.Twin]]
    truth: dict[str, Any]


def coverage(case: Case, runs: int, seed: int = 0) -> dict[str, tuple[int, int, int]]:
    """Return estimate -> intervals that cover the truth, identified intervals, and all; each axis counts."""
    counts = {name: [0, 0, 0] for name in case.truth}
    for twin in case.run(runs, seed):
        for name, truth in case.truth.items():
            one = twin.estimates[name]
            low, high = (np.asarray(side, float) for side in one.interval)
            value = np.broadcast_to(np.asarray(truth, float), np.shape(one.value))
            counts[name][2] += value.size
            if one.identifiable:
                counts[name][1] += value.size
                counts[name][0] += int(((low <= value) & (value <= high)).sum())
    return {name: (a, b, c) for name, (a, b, c) in counts.items()}
