"""``Teleoperation``: base class of scenarios in which a person drives the robots."""

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
    """Options that teleoperation scenarios share."""

    real_time: bool = True
    """Whether a step waits so that the simulation does not run faster than real time."""
    ramp: float = Field(default=0.5, gt=0)
    """Seconds from rest to full speed: the command approaches the driver's input at this rate."""


TeleopOptionsT = TypeVar("TeleopOptionsT", bound=TeleoperationOptions)


class Teleoperation(Scenario[TeleopOptionsT]):
    """A driver commands the robots of all envs with the same input.

    Buffers: ``wanted`` (3,), the input for forward, left and turn as fractions of the limits of the robot; ``command``
    (3,), the smoothed input.
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
        low, high = self._limits.T
        self._scale = np.zeros((3, 2))  # for negative and positive input
        for column, name in enumerate(("forward", "left", "turn")):
            if name in self._moves:
                self._scale[column] = -low[self._moves[name]], high[self._moves[name]]

    def _listen(self) -> None:
        """Read the driver's input since the last step: change ``_wanted``, or set ``_ended``."""
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
