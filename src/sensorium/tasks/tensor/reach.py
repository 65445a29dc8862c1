"""Reach on tensors: move an arm's tool to a target and keep it there."""

from __future__ import annotations

from typing import Self

import torch
from pydantic import Field, model_validator

from sensorium.robots import RigSensor, Robot
from sensorium.tasks.tensor.arm_task import ArmTask, ArmTaskConfig, tracker
from sensorium.tasks.tensor.boxes import Corner, check_box, draw_in_box
from sensorium.worlds import Scene

_TARGET = """
<mujoco model="target">
  <worldbody>
    <body name="target" mocap="true">
      <geom type="sphere" size="0.02" contype="0" conaffinity="0" rgba="0.85 0.2 0.15 1"/>
    </body>
  </worldbody>
</mujoco>
"""
"""Model of the target, which does not collide."""


class TensorReachConfig(ArmTaskConfig):
    """Options of :class:`TensorReach`. Those of the scene and of the reward are those of ``Reach``."""

    max_steps: int = Field(default=75, ge=1, le=65_000)
    """Steps after which an episode is truncated."""
    observe: tuple[str, ...] = ("joints", "hand/pos", "target/pos")
    """Patterns of the robot's readings that the policy observes."""
    low: Corner = (0.3, -0.35, 0.15)
    """Minimum x, y and z of targets in the world frame, m. The robot stands at the origin and faces along x."""
    high: Corner = (0.65, 0.35, 0.6)
    """Maximum x, y and z of targets, m."""
    tolerance: float = Field(default=0.05, gt=0)
    """Distance to the target at which it counts as reached, m."""
    near: float = Field(default=0.1, gt=0)
    """Distance to the target at which the reward of a step is 0.5, m."""

    @model_validator(mode="after")
    def _check_boxes(self) -> Self:
        check_box(self, "low", "high")
        return self


class TensorReach(ArmTask[TensorReachConfig]):
    """Move the tool of the robot's first arm to the target, and keep it there for the rest of the episode.

    The action is one velocity per joint, in units of ``speed``. Each episode draws the target position. The reward of a
    step is that of ``Reach``, 1 / (1 + (distance / near)^2), minus at most 0.2 for changes of the action. The policy
    observes joint encoders and trackers of tool and target; the critic also the true distance.

    ``log`` has ``distance`` in m, and ``reached``, the fraction of time within ``tolerance``.
    """

    name = "reach"
    config_type = TensorReachConfig

    def add_scene(self, scene: Scene) -> None:
        super().add_scene(scene)
        scene.add_object(_TARGET, name="target", pos=self.config.high)

    def default_sensors(self, robot: Robot) -> tuple[RigSensor, ...]:
        return (*super().default_sensors(robot), tracker("target", "target", robot, pos_noise=0.002, delay=0.04))

    def on_build(self) -> None:
        super().on_build()
        mocap = int(self.scene.model.body("target/target").mocapid[0])
        self._goal = self.scene.world.bind("mocap_pos")[:, mocap]

    def begin_episodes(self, mask: torch.Tensor) -> None:
        super().begin_episodes(mask)
        drawn = draw_in_box(self.draws, "target", self.config.low, self.config.high).to(self._goal.dtype)
        self._goal.copy_(torch.where(mask[:, None], drawn, self._goal))

    def rewards(self) -> dict[str, torch.Tensor]:
        self._distance = (self.tool() - self._goal.float()).norm(dim=1)
        return {
            "near": 1.0 / (1.0 + (self._distance / self.config.near) ** 2),
            "action_change": -0.05 * self.action_change(),
        }

    @property
    def max_return(self) -> float:
        """The upper bound of the return of an episode: 1 per step. The tool starts away from the target."""
        return float(self.config.max_steps)

    def metrics(self) -> dict[str, torch.Tensor]:
        return {"distance": self._distance, "reached": (self._distance <= self.config.tolerance).float()}

    def observe_privileged(self) -> dict[str, torch.Tensor]:
        return {"way": self._goal.float() - self.tool()}
