"""What driving by hand has in common, by whatever device."""

from __future__ import annotations

import time
from typing import TypeVar

import numpy as np
import torch
from pydantic import Field

from sensorium.options import Options
from sensorium.robots import Robot
from sensorium.scenarios.scenario import Scenario
from sensorium.tree import Buffer
from sensorium.worlds import Scene


class TeleoperationOptions(Options):
    """What the options of driving by hand share."""

    real_time: bool = True
    """Whether a step waits until as much time has passed for the driver as in the simulation."""
    ramp: float = Field(default=0.5, gt=0)
    """Seconds from rest to full speed: what the driver asks for is approached at this rate."""


TeleopOptionsT = TypeVar("TeleopOptionsT", bound=TeleoperationOptions)


class Teleoperation(Scenario[TeleopOptionsT]):
    """A driver tells the robot of every env the same.

    Buffers: ``wanted`` (3,), what the driver asks for of forward, left and turn, in parts of the robot's limits;
    ``command`` (3,), the same as it is approached.
    """

    options_type = TeleoperationOptions

    def __init__(self, scene: Scene, robot: Robot, seed: int, options: TeleopOptionsT) -> None:
        super().__init__(scene, robot, seed, options)
        self._need("forward", "turn")
        self._wanted, self._now = np.zeros(3), np.zeros(3)
        self.wanted = Buffer(torch.from_numpy(self._wanted), {"scenario"})
        self.command = Buffer(torch.from_numpy(self._now), {"scenario"})
        self._ended = False
        self._due: float | None = None
        least, greatest = self._limits.T
        self._scale = np.zeros((3, 2))  # at -1 and at 1
        for column, name in enumerate(("forward", "left", "turn")):
            if name in self._moves:
                self._scale[column] = -least[self._moves[name]], greatest[self._moves[name]]

    def _listen(self) -> None:
        """Take up what the driver did since the last step: change ``_wanted``, or set ``_ended``."""
        raise TypeError(f"{type(self).__name__} must define _listen")

    def _begin(self, ids: np.ndarray) -> None:
        self._wanted[:] = self._now[:] = 0.0

    def _decide(self) -> torch.Tensor:
        if self.options.real_time:
            self._wait()
        if not self._ended:
            self._listen()
        if self._ended:
            self._wanted[:] = 0.0
        change = self._scene.dt / self.options.ramp
        self._now += np.clip(self._wanted - self._now, -change, change)
        scale = np.where(self._now < 0, self._scale[:, 0], self._scale[:, 1])
        self._pose()
        return self._all_actions(np.tile(self._now * scale, (self._scene.n_envs, 1)))

    def _done(self) -> np.ndarray:
        return np.full(self._scene.n_envs, self._ended)

    def _wait(self) -> None:
        now = time.monotonic()
        if self._due is None or now - self._due > 0.5:  # too late to catch up
            self._due = now
        time.sleep(max(0.0, self._due - now))
        self._due += self._scene.dt
