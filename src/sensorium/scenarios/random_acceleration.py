"""``RandomAcceleration``: every action changes smoothly and randomly within its limits."""

from __future__ import annotations

import numpy as np
import torch
from pydantic import Field

from sensorium._arguments import checked
from sensorium.options import Options
from sensorium.robots import Robot
from sensorium.scenarios import kernels
from sensorium.scenarios.scenario import Scenario
from sensorium.worlds import Scene


class RandomAccelerationOptions(Options):
    """Options of the scenario "random-acceleration"."""

    ramp: float = Field(default=1.5, gt=0)
    """Seconds from rest to the limit of an action at max acceleration."""
    interval: float = Field(default=1.0, gt=0)
    """Mean seconds until the acceleration changes; each interval is drawn from [0.5, 1.5) times this."""
    patience: float = Field(default=0.5, gt=0)
    """Seconds for which the robot may be blocked before it reverses."""


class RandomAcceleration(Scenario[RandomAccelerationOptions]):
    """Changes every action by a random acceleration, which is drawn again from time to time and reversed at limits.

    It uses no map. A robot that is blocked brakes and reverses.

    Buffers: ``command`` and ``acceleration`` (B, n_actions), ``remaining`` and ``blocked`` (B,) s, and ``draws`` (B,),
    the number of random draws.
    """

    name = "random-acceleration"
    options_type = RandomAccelerationOptions

    @checked
    def __init__(self, scene: Scene, robot: Robot, seed: int, options: RandomAccelerationOptions) -> None:
        super().__init__(scene, robot, seed, options)
        n = robot.n_actions
        self.command, self._command = self._buffer(n)
        self.acceleration, self._acceleration = self._buffer(n)
        self.remaining, self._remaining = self._buffer()
        self.blocked, self._blocked = self._buffer()
        self.draws, self._draws = self._buffer(dtype=np.int64)
        self._random = self._keys(n + 1)
        self._max_acceleration = np.abs(self._limits).max(axis=1) / options.ramp
        moving = [self._moves[name] for name in ("forward", "left") if name in self._moves]
        self._moving = np.isin(np.arange(n), moving)
        self.reset()

    def _begin(self, ids: np.ndarray) -> None:
        for array in (self._command, self._acceleration, self._remaining, self._blocked):
            array[ids] = 0.0

    def _decide(self) -> torch.Tensor:
        self._pose()
        velocity = self._robot.get_velocity()[0].double().numpy(force=True)
        kernels.accelerate(
            self._random,
            self._draws,
            self._remaining,
            self._acceleration,
            self._blocked,
            self._command,
            np.sqrt(velocity[:, 0] * velocity[:, 0] + velocity[:, 1] * velocity[:, 1]),
            self._limits,
            self._max_acceleration,
            self._moving,
            self.options.interval,
            self.options.patience,
            self._scene.dt,
        )
        return self.command.value
