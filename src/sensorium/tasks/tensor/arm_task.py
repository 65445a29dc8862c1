"""``ArmTask``: what tensor tasks of arms share: joint velocities as actions, sensors, and the pose of the tool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import mujoco
import torch
from pydantic import Field

from sensorium.deploy.contract import ActionTerm
from sensorium.errors import OptionError
from sensorium.robots import RigSensor, Robot, SensorRig
from sensorium.robots.adapt import servo_names
from sensorium.tasks.tensor.boxes import Corner
from sensorium.tasks.tensor.config import TensorTaskConfig
from sensorium.tasks.tensor.robot_forms import as_actuators, with_sensors
from sensorium.tasks.tensor.task import TensorTask
from sensorium.tasks.tensor.tool_pose import joints_at

GRIPPER_TIME = 0.4
"""Seconds in which an action of 1 opens a closed gripper."""


class ArmTaskConfig(TensorTaskConfig):
    """Options that tensor tasks of arms share."""

    robot: str = "franka"
    """Name of a robot with an arm of position servos. Its first arm acts; other joints stay where they start."""
    dt: float = Field(default=0.04, gt=0)
    """Duration of one step of control and observation, s."""
    substeps: int = Field(default=10, ge=1)
    """Physics steps per step."""
    speed: float = Field(default=2.0, gt=0)
    """Velocity of a joint's target for an action of 1, rad/s or m/s."""
    start: Corner | None = None
    """Position of the tool at the start in the world frame, m, with the hand as at home. Default: that of home."""
    joints: float = Field(default=0.1, ge=0)
    """Maximum offset of the arm's joints at the start, rad or m."""


ArmConfigT = TypeVar("ArmConfigT", bound=ArmTaskConfig)


class ArmTask(TensorTask[ArmConfigT]):
    """An arm whose actions are velocities of its joint targets, (B, n), in units of ``speed``.

    Attributes:
        target: targets of the joints, (B, n) rad or m.
        opening: target of the gripper, (B, 1): 0 is closed, 1 is open.
    """

    has_gripper_action: ClassVar[bool] = False
    """Whether the last action is the velocity of the gripper's opening."""

    def scene_options(self) -> dict[str, Any]:
        return {"integrator": "implicitfast", "cone": "elliptic", "impratio": 10.0}

    def place_robot(self, robot: Robot) -> Robot:
        plain, self._arm, self._gripper = as_actuators(robot, self.name)
        if self.has_gripper_action and self._gripper is None:
            raise OptionError(f"the task {self.name!r} needs an arm with a gripper; {self.config.robot!r} has none")
        return with_sensors(plain, SensorRig(sensors=self.default_sensors(plain)))

    def default_sensors(self, robot: Robot) -> tuple[RigSensor, ...]:
        """Return the sensors of a robot that has none. Default: joint encoders and a tracker of the tool."""
        encoder = {"joints": list(self._arm.joints), "noise": 0.001, "vel_noise": 0.01}
        return (
            RigSensor(name="joints", type="JointEncoder", options=encoder),
            tracker("hand", str(self._arm.tcp), robot, pos_noise=0.002),
        )

    def on_build(self) -> None:
        model, world, prefix = self.scene.model, self.scene.world, f"{self.robot.name}/"
        joints = [model.joint(prefix + name) for name in self._arm.joints]
        actuators = [int(model.actuator(prefix + name).id) for name in servo_names(self._arm)]
        self._joint_q = torch.tensor([int(joint.qposadr[0]) for joint in joints], device=self.device)
        self._joint_v = torch.tensor([int(joint.dofadr[0]) for joint in joints], device=self.device)
        self._columns = torch.tensor(actuators, device=self.device)
        self._qpos, self._qvel, self._ctrl = (world.bind(field) for field in ("qpos", "qvel", "ctrl"))
        self._home = self._qpos[0, self._joint_q].clone()
        tool = f"{prefix}{self._arm.tcp}"
        if self.config.start is not None:
            ids, qpos = [int(joint.id) for joint in joints], self._qpos[0].numpy(force=True)
            self._home.copy_(torch.from_numpy(joints_at(model, qpos, ids, tool, self.config.start)))
        limits = torch.from_numpy(model.actuator_ctrlrange[actuators].copy()).to(self._ctrl)
        self._min, self._max = limits.T.contiguous()
        self.target = self._home.repeat(self.n_envs, 1)
        self.opening = torch.ones(self.n_envs, 1, dtype=self._ctrl.dtype, device=self.device)
        if self._gripper is not None:
            closers = [int(model.actuator(prefix + name).id) for name in self._gripper.actuators]
            self._closers = torch.tensor(closers, device=self.device)
        sites = [model.site(number).name for number in range(model.nsite)]
        if tool in sites:
            self._tool = world.bind("site_xpos")[:, sites.index(tool)]
        else:
            self._tool = world.bind("xpos")[:, int(model.body(tool).id)]

    def action_limits(self) -> torch.Tensor:
        return torch.tensor([-1.0, 1.0]).repeat(len(self._columns) + self.has_gripper_action, 1)

    def action_terms(self) -> Sequence[ActionTerm]:
        config, count = self.config, len(self._columns)
        types = [int(self.scene.model.joint(f"{self.robot.name}/{name}").type[0]) for name in self._arm.joints]
        units = tuple("m/s" if each == mujoco.mjtJoint.mjJNT_SLIDE else "rad/s" for each in types)
        rate = round(1 / config.dt, 6)
        arm = ActionTerm(
            name=self._arm.name,
            kind="joint_velocity",
            names=tuple(self._arm.joints),
            actuators=tuple(servo_names(self._arm)),
            unit=units[0] if len(set(units)) == 1 else units,
            scale=(config.speed,) * count,
            offset=(0.0,) * count,
            min=(-config.speed,) * count,
            max=(config.speed,) * count,
            default_pose=tuple(self._home.tolist()),
            rate=rate,
        )
        if not self.has_gripper_action:
            return [arm]
        speed = 1 / GRIPPER_TIME
        gripper = ActionTerm(
            name="gripper",
            kind="gripper_velocity",
            names=("opening",),
            unit="1/s",
            scale=(speed,),
            offset=(0.0,),
            min=(-speed,),
            max=(speed,),
            rate=rate,
        )
        return [arm, gripper]

    def begin_episodes(self, mask: torch.Tensor) -> None:
        here, n = mask[:, None], len(self._columns)
        offset = self.draws.uniform("joints", n, -self.config.joints, self.config.joints).to(self._qpos.dtype)
        start = torch.clamp(self._home + offset, self._min, self._max)
        self.target.copy_(torch.where(here, start, self.target))
        self.opening.masked_fill_(here, 1.0)
        self._qpos[:, self._joint_q] = torch.where(here, start, self._qpos[:, self._joint_q])

    def act(self) -> None:
        moved = self.action.to(self.target.dtype).clamp(-1.0, 1.0)
        n, step = len(self._columns), self.config.dt
        self.target.copy_(torch.clamp(self.target + self.config.speed * step * moved[:, :n], self._min, self._max))
        self._ctrl[:, self._columns] = self.target
        if self._gripper is not None:
            if self.has_gripper_action:
                self.opening.copy_(torch.clamp(self.opening + step / GRIPPER_TIME * moved[:, n:], 0.0, 1.0))
            closed, opened = self._gripper.closed, self._gripper.open
            self._ctrl[:, self._closers] = closed + (opened - closed) * self.opening

    def tool(self) -> torch.Tensor:
        """Return the position of the tool centre point in the world frame, (B, 3) float32, m."""
        return self._tool.float()

    def action_change(self) -> torch.Tensor:
        """Return the mean squared change of the action since the step before, (B,)."""
        return ((self.action.clamp(-1.0, 1.0) - self.last_action.clamp(-1.0, 1.0)) ** 2).mean(dim=1)


def tracker(name: str, link: str, robot: Robot, **options: float) -> RigSensor:
    """Return a sensor of the pose of a link or site in the frame of the robot's base.

    Args:
        name: name of the sensor.
        link: link or site of the robot or of the scene.
        robot: the robot.
        **options: options of ``FramePose``, such as ``pos_noise`` in m and ``delay`` in s.
    """
    values = {"link": link, "relative_to": robot.options.base, **options}
    return RigSensor(name=name, type="FramePose", options=values)
