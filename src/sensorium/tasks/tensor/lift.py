"""Lift: an arm grasps a cube on a table, lifts it and holds it at a goal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Self

import torch
from pydantic import Field, model_validator

from sensorium.options import Options
from sensorium.robots import RigSensor, Robot
from sensorium.tasks.tensor import rotations
from sensorium.tasks.tensor.arm_task import ArmTask, ArmTaskConfig, tracker
from sensorium.tasks.tensor.boxes import Corner, check_box, draw_in_box
from sensorium.tasks.tensor.hooks import InputDescription
from sensorium.worlds import Box, Plane, Scene

_TABLE = Box(size=(1.0, 1.2, 0.04), rgba=(0.55, 0.4, 0.28, 1.0))
_TABLE_POS = (0.4, 0.0, -0.02)
"""The table, whose top is at z = 0. The robot stands on it."""
_EDGES = (-0.1, 0.9, -0.6, 0.6)
"""Edges of the table: min and max of x and of y, m."""
_FLOOR_Z = -0.75
_CAMERA = {
    "name": "front",
    "pos": (1.2, 0.0, 0.5),
    "lookat": (0.45, 0.0, 0.1),
    "fov": 50.0,
    "resolution": (84, 84),
    "profile": "machine_vision",
    "quality": "fast",
}
"""Options of the camera of ``camera=True``: it looks at the table and the arm from the front."""
_GRASP = 0.02
"""Distance of the tool from the cube's centre at which the grasp term falls to 1/e, m."""


class LiftRewards(Options):
    """Weights of the terms of the reward, per second."""

    reach: float = 1.0
    """1 / (1 + (distance / 0.1 m)²) of the tool from the cube's centre."""
    grasp: float = 2.0
    """Closing of the gripper, 0 to 1, where the tool is at the cube's centre: times exp(-(distance / 0.02 m)²)."""
    lift: float = 5.0
    """Height of the cube above the table, 0 to 1 at 0.1 m."""
    goal: float = 10.0
    """1 - tanh(distance / 0.2 m) of a lifted cube from the goal, times the height as in ``lift``."""
    action_change: float = -0.05
    """Mean squared change of the action since the step before."""
    drop: float = -2.0
    """1 in the step in which the cube leaves the table."""


class LiftConfig(ArmTaskConfig):
    """Options of :class:`Lift`."""

    max_steps: int = Field(default=150, ge=1, le=65_000)
    """Steps after which an episode is truncated."""
    observe: tuple[str, ...] = ("joints", "hand/pos", "cube/pos", "cube/quat")
    """Patterns of the robot's readings that the policy observes."""
    speed: float = Field(default=1.0, gt=0)
    """Velocity of a joint's target for an action of 1, rad/s or m/s."""
    start: Corner | None = (0.5, 0.0, 0.15)
    """Position of the tool at the start in the world frame, m, with the hand as at home. None: that of home."""
    joints: float = Field(default=0.05, ge=0)
    """Maximum offset of the arm's joints at the start, rad or m."""
    size: float = Field(default=0.04, gt=0)
    """Length of the cube's edges, m."""
    mass: float = Field(default=0.1, gt=0)
    """Mass of the cube, kg."""
    low: Corner = (0.4, -0.2, 0.0)
    """Minimum x, y and height above the table of the cube at the start, m. The robot is at the origin, facing x."""
    high: Corner = (0.6, 0.2, 0.0)
    """Maximum x, y and height above the table of the cube at the start, m."""
    goal_low: Corner = (0.4, -0.2, 0.15)
    """Minimum x, y and z of goals in the world frame, m."""
    goal_high: Corner = (0.6, 0.2, 0.35)
    """Maximum x, y and z of goals, m."""
    tolerance: float = Field(default=0.05, gt=0)
    """Distance of the cube from the goal at which it counts as reached, m."""
    camera: bool = False
    """Whether the policy sees the cube through a camera of 84 x 84 pixels with the noise of an imager, instead of by
    the tracker. It sets ``cameras``, ``observe_cameras`` and ``observe``, unless they are given."""
    rewards: LiftRewards = LiftRewards()
    """Weights of the terms of the reward."""

    @model_validator(mode="before")
    @classmethod
    def _add_camera(cls, values: object) -> object:
        """Replace the tracker of the cube by a camera."""
        if not isinstance(values, Mapping) or values.get("camera") is not True:
            return values
        given = {"cameras": (_CAMERA,), "observe_cameras": ("front",), "observe": ("joints", "hand/pos")}
        return {**given, **values}

    @model_validator(mode="after")
    def _check_boxes(self) -> Self:
        check_box(self, "low", "high")
        check_box(self, "goal_low", "goal_high")
        return self


class Lift(ArmTask[LiftConfig]):
    """Grasp a cube, lift it and hold it at a drawn goal.

    The action is one velocity per joint in units of ``speed``, and one of the gripper's opening. The policy observes
    joint encoders, trackers of the tool and of the cube, noisy and late, the goal and its last action; the critic also
    the true vectors from tool to cube and from cube to goal, and the cube's velocity. The episode terminates when the
    cube leaves the table.

    ``log`` has ``height`` of the cube above the table in m, ``distance`` from the goal in m, and ``reached``, the
    fraction of time within ``tolerance``.
    """

    name = "lift"
    config_type = LiftConfig
    has_gripper_action = True
    inputs: ClassVar[Mapping[str, InputDescription]] = {"goal": InputDescription("m", "world", ("x", "y", "z"))}

    def add_scene(self, scene: Scene) -> None:
        scene.add_terrain(Plane(), pos=(0.0, 0.0, _FLOOR_Z))
        scene.add_object(_TABLE, name="table", pos=_TABLE_POS)
        size = self.config.size
        cube = Box(size=(size, size, size), mass=self.config.mass, rgba=(0.8, 0.2, 0.15, 1.0))
        scene.add_object(cube, name="cube", pos=(self.config.low[0], self.config.low[1], size / 2), free=True)

    def default_sensors(self, robot: Robot) -> tuple[RigSensor, ...]:
        assert self._gripper is not None
        joints = [*self._arm.joints, *self._gripper.joints]
        encoder = {"joints": joints, "noise": 0.001, "vel_noise": 0.01}
        return (
            RigSensor(name="joints", type="JointEncoder", options=encoder),
            tracker("hand", str(self._arm.tcp), robot, pos_noise=0.001),
            tracker("cube", "cube", robot, pos_noise=0.002, rot_noise=0.02, delay=0.04),
        )

    def on_build(self) -> None:
        super().on_build()
        model = self.scene.model
        joint = int(model.body_jntadr[model.body("cube").id])
        q, v = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
        self._cube, self._cube_quat = self._qpos[:, q : q + 3], self._qpos[:, q + 3 : q + 7]
        self._cube_velocity = self._qvel[:, v : v + 6]
        assert self._gripper is not None
        self._open = self._gripper.home[0]
        finger = model.joint(f"{self.robot.name}/{self._gripper.joints[0]}")
        self._finger = self._qpos[:, int(finger.qposadr[0])]
        self.goal = torch.zeros(self.n_envs, 3, device=self.device)
        weights = torch.tensor([getattr(self.config.rewards, name) for name in LiftRewards.model_fields])
        self._weights = (weights[:, None] * self.config.dt).to(self.device)

    # -- episodes -----------------------------------------------------------------------------------------------------

    def begin_episodes(self, mask: torch.Tensor) -> None:
        super().begin_episodes(mask)
        config, here = self.config, mask[:, None]
        place = draw_in_box(self.draws, "cube", config.low, config.high).to(self._cube.dtype)
        place[:, 2] += config.size / 2
        self._cube.copy_(torch.where(here, place, self._cube))
        turned = rotations.about_z(self.draws.uniform("turn", 1, -math.pi, math.pi)[:, 0].to(self._cube.dtype))
        self._cube_quat.copy_(torch.where(here, turned, self._cube_quat))
        goal = draw_in_box(self.draws, "goal", config.goal_low, config.goal_high)
        self.goal.copy_(torch.where(here, goal, self.goal))

    def failures(self) -> dict[str, torch.Tensor]:
        x, y, z = self._cube.unbind(1)
        left, right, front, back = _EDGES
        return {"drop": (x < left) | (x > right) | (y < front) | (y > back) | (z < 0.0)}

    # -- rewards ------------------------------------------------------------------------------------------------------

    def rewards(self) -> dict[str, torch.Tensor]:
        cube = self._cube.float()
        away = (self.tool() - cube).norm(dim=1)
        self._height = cube[:, 2] - self.config.size / 2
        self._distance = (cube - self.goal).norm(dim=1)
        lifted = (self._height / 0.1).clamp(0.0, 1.0)
        closing = 1.0 - (self._finger.float() / self._open).clamp(0.0, 1.0)
        values = {
            "reach": 1.0 / (1.0 + (away / 0.1) ** 2),
            "grasp": closing * torch.exp(-((away / _GRASP) ** 2)),
            "lift": lifted,
            "goal": lifted * (1.0 - torch.tanh(self._distance / 0.2)),
            "action_change": self.action_change(),
            "drop": self.failed.float() / self.config.dt,
        }
        weighted = torch.stack([values[name] for name in LiftRewards.model_fields]) * self._weights
        return dict(zip(LiftRewards.model_fields, weighted, strict=True))

    def metrics(self) -> dict[str, torch.Tensor]:
        reached = (self._distance <= self.config.tolerance).float()
        return {"height": self._height, "distance": self._distance, "reached": reached}

    # -- observations -------------------------------------------------------------------------------------------------

    def observe(self) -> dict[str, torch.Tensor]:
        return {"goal": self.goal, **super().observe()}

    def observe_privileged(self) -> dict[str, torch.Tensor]:
        cube = self._cube.float()
        return {
            "way_to_cube": cube - self.tool(),
            "way_to_goal": self.goal - cube,
            "cube_velocity": self._cube_velocity.float(),
            "opening": self.opening.float(),
        }
