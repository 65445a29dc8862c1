"""What differs between episodes of ``walk``: the model, the start, and pushes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from pydantic import Field

from sensorium.tasks.tensor.model_randomization import ModelRandomization
from sensorium.tasks.tensor.ranges import FactorRange, Range

if TYPE_CHECKING:
    from sensorium.tasks.tensor.walk import Walk


class WalkRandomization(ModelRandomization):
    """Ranges of what is drawn at the start of each episode of ``walk``."""

    payload: Range = (-1.0, 2.0)
    """Mass that is added to the torso, kg. The mass of the torso must remain > 0."""
    friction: FactorRange = (0.5, 1.25)
    """Factor of the sliding friction of the robot's geoms."""
    stiffness: FactorRange = (0.9, 1.1)
    """Factor of the position gain of the servos."""
    damping: FactorRange = (0.9, 1.1)
    """Factor of the velocity gain of the servos."""
    strength: FactorRange = (0.9, 1.1)
    """Factor of the maximum torque of the servos."""
    joints: float = Field(default=0.1, ge=0)
    """Maximum offset of the joints at the start, rad."""
    speed: float = Field(default=0.3, ge=0)
    """Maximum velocity of the torso at the start, m/s and rad/s."""
    push: float = Field(default=0.5, ge=0)
    """Maximum change of the horizontal velocity by a push, m/s."""
    push_time: float = Field(default=4.0, gt=0)
    """Seconds between pushes."""


class Pusher:
    """Pushes the robot from time to time.

    Args:
        task: the task, in a built scene.
        v: index of the torso's velocity in ``qvel``.
    """

    def __init__(self, task: Walk, v: int) -> None:
        self._task, self._ranges = task, task.config.randomize
        self._velocity = task.scene.world.bind("qvel")[:, v : v + 2]
        self._push_steps = max(1, round(self._ranges.push_time / task.config.dt))

    def push(self) -> None:
        """Change the velocity of the torso in the envs whose push is due."""
        if not self._ranges.push:
            return
        steps, limit = self._task.step_count, self._ranges.push
        due = (steps % self._push_steps == 0) & (steps > 0)
        if not self._task.scene.world.is_gpu and not bool(due.any()):
            return
        change = self._task.draws.uniform("push", 2, -limit, limit, counter=steps // self._push_steps)
        change = change * self._task.difficulty[:, None]
        self._velocity += torch.where(due[:, None], change, 0.0)
