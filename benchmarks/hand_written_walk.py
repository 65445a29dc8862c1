"""The task ``walk`` written by hand: NumPy code on ``mujoco.batch``, as an environment of Stable-Baselines3.

It uses nothing of Sensorium except the model file of the quadruped. Model, time steps, commands, actions, rewards, ends
of episodes, pushes and randomisation are those of ``walk`` with its default options. With ``imperfect``, readings are
noisy, biased, and 0, 1 or 2 steps old; these are simpler than the sensors of ``walk``, which sample, delay and jitter
each sensor by its own clock.
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from gymnasium import spaces
from mujoco.batch import Batch
from stable_baselines3.common.vec_env import VecEnv

DT, SUBSTEPS, MAX_STEPS = 0.02, 4, 1000
COMMAND_STEPS, PUSH_STEPS = 250, 200
LOW, HIGH = np.array([-1.0, -0.5, -1.0]), np.array([1.0, 0.5, 1.0])
NOISE = np.repeat([0.05, 0.02, 0.01, 0.5], [3, 3, 12, 12])
"""Noise of the gyroscope, the direction of gravity, and the positions and velocities of the joints."""
BIAS = np.repeat([0.02, 0.01, 0.0, 0.0], [3, 3, 12, 12])
WEIGHTS = DT * np.array([1.5, 0.75, -1.0, -1.0, -0.05, -1.0, -1e-4, -5e-4, -0.005, -0.05])


def load_model(path: str) -> mujoco.MjModel:
    """Return the model of the robot on a plane, with the options of the physics."""
    spec = mujoco.MjSpec.from_file(path)
    floor = spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], friction=[1.0, 0.005, 0.0001])
    floor.contype = floor.conaffinity = 1  # the defaults of the robot's geoms do not collide with each other
    spec.option.timestep = DT / SUBSTEPS
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    return spec.compile()


def rotate_back(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Return vectors (B, 3) of the world in the frames ``quat`` (B, 4)."""
    w, axis = quat[:, :1], -quat[:, 1:]
    turned = 2 * np.cross(axis, vector)
    rotated: np.ndarray = vector + w * turned + np.cross(axis, turned)
    return rotated


class HandWrittenWalk(VecEnv):
    """B quadrupeds that follow commanded velocities."""

    def __init__(self, path: str, n_envs: int, imperfect: bool, seed: int = 0) -> None:
        self.model = model = load_model(path)
        self.batch = batch = Batch(model, n_envs)
        self.imperfect, self.rng = imperfect, np.random.default_rng(seed)
        self.qpos, self.qvel, self.ctrl = batch.bind("qpos"), batch.bind("qvel"), batch.bind("ctrl")
        self.force = batch.bind("actuator_force")
        self.start = model.qpos0.copy()
        self.scale = 0.4 * model.actuator_forcerange[:, 1] / model.actuator_gainprm[:, 0]
        self.low, self.high = model.actuator_ctrlrange.T
        if imperfect:
            self.mass, self.friction = batch.expand("body_mass"), batch.expand("geom_friction")
            self.gain, self.bias = batch.expand("actuator_gainprm"), batch.expand("actuator_biasprm")
            self.limit = batch.expand("actuator_forcerange")
        self.rows = np.arange(n_envs)
        self.ring, self.offset = np.zeros((3, n_envs, 30)), np.zeros((n_envs, 30))
        self.command, self.length = np.zeros((n_envs, 3)), np.zeros(n_envs, np.int64)
        self.total, self.tracking = np.zeros(n_envs), np.zeros(n_envs)
        self.action, self.last_action = np.zeros((2, n_envs, 12))
        limits = ((each / self.scale).astype(np.float32) for each in (self.low, self.high))
        super().__init__(n_envs, spaces.Box(-np.inf, np.inf, (45,), np.float32), spaces.Box(*limits))

    def _begin(self, envs: np.ndarray) -> None:
        """Begin episodes of some envs."""
        count, rng, model = len(envs), self.rng, self.model
        self.batch.reset(envs, stage=mujoco.mjtStage.mjSTAGE_NONE)
        yaw = rng.uniform(-np.pi, np.pi, count)
        self.qpos[envs] = self.start
        self.qpos[envs, 3], self.qpos[envs, 6] = np.cos(yaw / 2), np.sin(yaw / 2)
        self.qpos[envs, 7:] += rng.uniform(-0.1, 0.1, (count, 12))
        self.qvel[envs, :6] = rng.uniform(-0.3, 0.3, (count, 6))
        self.length[envs], self.total[envs], self.last_action[envs] = 0, 0.0, 0.0
        self._draw_commands(envs)
        if self.imperfect:
            self.mass[envs, 1] = model.body_mass[1] + rng.uniform(-1.0, 2.0, count)
            self.friction[envs, 1:, 0] = model.geom_friction[1:, 0] * rng.uniform(0.5, 1.25, (count, 1))
            stiffness, damping, strength = rng.uniform(0.9, 1.1, (3, count, 1))
            self.gain[envs, :, 0] = model.actuator_gainprm[:, 0] * stiffness
            self.bias[envs, :, 1] = model.actuator_biasprm[:, 1] * stiffness
            self.bias[envs, :, 2] = model.actuator_biasprm[:, 2] * damping
            self.limit[envs] = model.actuator_forcerange * strength[..., None]
            self.offset[envs] = rng.standard_normal((count, 30)) * BIAS
            self.ring[:, envs] = self._measured(envs)

    def _draw_commands(self, envs: np.ndarray) -> None:
        drawn = self.rng.uniform(LOW, HIGH, (len(envs), 3))
        self.command[envs] = np.where(self.rng.random((len(envs), 1)) < 0.1, 0.0, drawn)

    def _up(self, envs: np.ndarray | slice) -> np.ndarray:
        w, x, y, z = self.qpos[envs, 3:7].T
        return np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], axis=1)

    def _measured(self, envs: np.ndarray | slice) -> np.ndarray:
        values = (self.qvel[envs, 3:6], self._up(envs), self.qpos[envs, 7:], self.qvel[envs, 6:])
        found: np.ndarray = np.concatenate(values, axis=1)
        if self.imperfect:
            found += self.offset[envs] + self.rng.standard_normal(found.shape) * NOISE
        return found

    def _observation(self) -> np.ndarray:
        readings = self.ring[self.delay, self.rows] if self.imperfect else self._measured(slice(None))
        return np.concatenate((readings, self.command, self.last_action), axis=1).astype(np.float32)

    def reset(self) -> np.ndarray:
        self._begin(self.rows)
        self.delay = self.rng.integers(0, 3, self.num_envs)
        return self._observation()

    def step_async(self, actions: np.ndarray) -> None:
        self.action = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        due = np.flatnonzero((self.length % PUSH_STEPS == 0) & (self.length > 0)) if self.imperfect else ()
        if len(due):
            self.qvel[due, :2] += self.rng.uniform(-0.5, 0.5, (len(due), 2))
        self.ctrl[:] = np.clip(self.scale * self.action, self.low, self.high)
        self.batch.step(nstep=SUBSTEPS)
        self.length += 1
        up = self._up(slice(None))
        diverged = ~np.isfinite(self.qpos).all(axis=1)
        fallen = (up[:, 2] < np.cos(1.0)) | (self.qpos[:, 2] < 0.5 * self.start[2])
        reward = np.where(diverged, 0.0, self._reward(up, fallen))
        done = fallen | diverged | (self.length >= MAX_STEPS)
        self.last_action[:] = self.action
        new_command = np.flatnonzero(self.length % COMMAND_STEPS == 0)
        if len(new_command):
            self._draw_commands(new_command)
        if self.imperfect:
            self.ring = np.roll(self.ring, 1, axis=0)
            self.ring[0] = self._measured(slice(None))
            self.delay = self.rng.integers(0, 3, self.num_envs)
        observation = self._observation()
        self.total += reward
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        ended = np.flatnonzero(done)
        for env in ended.tolist():
            infos[env] = {
                "terminal_observation": observation[env],
                "TimeLimit.truncated": not fallen[env],
                "episode": {"r": float(self.total[env]), "l": int(self.length[env])},
            }
        if len(ended):
            self._begin(ended)
            observation = self._observation()
        return observation, reward.astype(np.float32), done, infos

    def _reward(self, up: np.ndarray, fallen: np.ndarray) -> np.ndarray:
        velocity, spin = rotate_back(self.qpos[:, 3:7], self.qvel[:, :3]), self.qvel[:, 3:6]
        error = ((self.command[:, :2] - velocity[:, :2]) ** 2).sum(axis=1)
        self.tracking = np.exp(-error / 0.25)
        terms = (
            self.tracking,
            np.exp(-((self.command[:, 2] - spin[:, 2]) ** 2) / 0.25),
            np.sqrt(error),
            velocity[:, 2] ** 2,
            (spin[:, :2] ** 2).sum(axis=1),
            (up[:, :2] ** 2).sum(axis=1),
            (self.force**2).sum(axis=1),
            (self.qvel[:, 6:] ** 2).sum(axis=1),
            ((self.action - self.last_action) ** 2).sum(axis=1),
            (self.qpos[:, 7:] ** 2).sum(axis=1),
        )
        total: np.ndarray = WEIGHTS @ np.stack(terms) - 2.0 * fallen
        return total

    def close(self) -> None:
        pass

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs
