"""Walk: a legged robot follows velocity commands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import mujoco
import torch
from pydantic import Field, model_validator

from sensorium.deploy.contract import ActionTerm
from sensorium.errors import OptionError
from sensorium.options import Options
from sensorium.robots import RigSensor, Robot, SensorRig
from sensorium.tasks.tensor import rotations
from sensorium.tasks.tensor.columns import columns
from sensorium.tasks.tensor.config import TensorTaskConfig
from sensorium.tasks.tensor.hooks import DIFFICULTY_STEP, InputDescription
from sensorium.tasks.tensor.ranges import Range
from sensorium.tasks.tensor.robot_forms import with_sensors
from sensorium.tasks.tensor.task import TensorTask
from sensorium.tasks.tensor.walk_ground import RoughGround, WalkGround
from sensorium.tasks.tensor.walk_randomization import Pusher, WalkRandomization
from sensorium.worlds import Scene

_TRACKING = 0.25
"""Square of the velocity error, in (m/s)² or (rad/s)², at which a tracking term falls to 1/e."""


_TORQUE, _SCALE = 0.4, 0.25
"""Torque for an action of 1 as a fraction of the maximum, and the scale of servos without a maximum, rad."""
_EASIEST = 0.25
"""Scale of the commands at difficulty 0."""
_HARDER, _EASIER = 0.8, 0.5
"""Mean tracking of an episode above which the next is harder, and below which it is easier."""


class WalkRewards(Options):
    """Weights of the terms of the reward, per second."""

    track_velocity: float = 1.5
    """exp(-error² / 0.25) of the horizontal velocity in m/s."""
    track_turn: float = 0.75
    """exp(-error² / 0.25) of the turning rate in rad/s."""
    velocity_error: float = -1.0
    """Magnitude of the error of the horizontal velocity, m/s. Unlike the tracking terms it has a slope far from 0."""
    bounce: float = -1.0
    """Square of the vertical velocity, (m/s)²."""
    wobble: float = -0.05
    """Square of the roll and pitch rates, (rad/s)²."""
    tilt: float = -1.0
    """Square of the sine of the tilt."""
    torque: float = -1e-4
    """Sum of the squared motor torques, (N m)²."""
    joint_speed: float = -5e-4
    """Sum of the squared joint speeds, (rad/s)²."""
    action_change: float = -0.005
    """Sum of the squared changes of the action since the step before."""
    pose: float = -0.05
    """Sum of the squared joint angles from the standing pose, rad²."""
    fall: float = -2.0
    """1 in the step in which the robot falls."""


class WalkConfig(TensorTaskConfig):
    """Options of :class:`Walk`."""

    robot: str = "quadruped"
    """Name of the robot, or a model file. Its actuators must be position servos, one for each joint. A robot without
    sensors gets those of the quadruped: an IMU and an attitude sensor on its base, and joint encoders."""
    observe: tuple[str, ...] = ("imu/ang_vel", "attitude", "joints/*")
    """Patterns of the robot's readings that the policy observes."""
    forward: Range = (-1.0, 1.0)
    """Range of the commanded velocity forward, m/s."""
    left: Range = (-0.5, 0.5)
    """Range of the commanded velocity to the left, m/s."""
    turn: Range = (-1.0, 1.0)
    """Range of the commanded turning rate, rad/s, counter-clockwise."""
    standing: float = Field(default=0.1, ge=0, le=1)
    """Fraction of commands to stand still."""
    command_time: float = Field(default=5.0, gt=0)
    """Seconds after which the command changes."""
    action_scale: float | None = Field(default=None, gt=0)
    """Change of a joint's target for an action of 1, rad. Default: for each joint what changes the torque of its servo
    by 40% of the maximum, and 0.25 rad if it has none. So the first policies of soft and stiff robots use similar
    shares of their torque."""
    fall_tilt: float = Field(default=1.0, gt=0)
    """Tilt of the torso at which the robot has fallen, rad."""
    fall_height: float = Field(default=0.5, gt=0, lt=1)
    """Height of the torso at which the robot has fallen, as a fraction of its initial height."""
    terrain: Literal["flat", "rough"] = "flat"
    """Ground: a plane, or a height field on which each episode begins at another place."""
    ground: RoughGround = RoughGround()
    """Options of rough ground, and of the scan of heights around the robot, which the critic observes."""
    observe_heights: bool = False
    """Whether the policy observes the scan of heights on rough ground, too, with noise and delay."""
    rewards: WalkRewards = WalkRewards()
    """Weights of the terms of the reward."""
    randomize: WalkRandomization = WalkRandomization()
    """What differs between episodes."""

    @model_validator(mode="after")
    def _check_ground(self) -> Self:
        if self.observe_heights and self.terrain == "flat":
            raise ValueError('observe_heights needs terrain="rough": a plane has no heights')
        if "ground" in self.model_fields_set and self.terrain == "flat":
            raise ValueError('ground has the options of rough ground: set terrain="rough", or remove it')
        return self


class Walk(TensorTask[WalkConfig]):
    """Walk with the commanded velocity, in the robot's frame: forward, left (m/s) and turn (rad/s).

    The action is one target angle per joint, from the initial pose, in units of ``action_scale``. The policy observes
    the robot's sensors, the command and its last action; the critic also the true velocity and height of the torso, the
    torques and what is randomised. The episode terminates when the robot falls.

    ``log`` has ``tracking``, the mean of exp(-error² / 0.25) of the horizontal velocity: 1 is perfect.
    """

    name = "walk"
    config_type = WalkConfig
    instruction = "walk with the commanded velocity"
    inputs: ClassVar[Mapping[str, InputDescription]] = {
        "command": InputDescription(("m/s", "m/s", "rad/s"), "base", ("forward", "left", "turn")),
        "heights": InputDescription("m", "base"),
    }

    _ground: WalkGround | None = None
    """Rough ground; None on a plane."""

    def check_shared(self) -> None:
        if self.config.terrain != "flat":
            raise OptionError(
                f'terrain must be "flat" for several entities, got {self.config.terrain!r}: on rough ground, episodes '
                "begin at random places, so the robots could be inside one another"
            )

    def scene_options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"integrator": "implicitfast", "cone": "pyramidal"}
        if self.config.device != "cpu":
            # On a GPU all envs iterate as long as the slowest. With a policy that walks, the quadruped needs 2.3
            # iterations in the mean and 5 at most; see "Solver iterations" in docs/benchmarks.md for the error.
            options |= {"iterations": 6, "ls_iterations": 10}
        return options

    def place_robot(self, robot: Robot) -> Robot:
        """Return the robot, with the sensors of the quadruped if it has none and no rig is given."""
        if self.config.rig is not None:
            return robot
        rig = SensorRig.named("quadruped")
        on_base = tuple(RigSensor(name=each.name, type=each.type, options=each.options) for each in rig.sensors)
        return with_sensors(robot, rig.model_copy(update={"sensors": on_base}))

    def add_scene(self, scene: Scene) -> None:
        if self.config.terrain == "flat":
            super().add_scene(scene)
        else:
            self._ground = WalkGround(self.config.ground, self.config.seed)
            self._ground.add_to(scene)

    def add_sensors(self, scene: Scene) -> None:
        if self._ground is not None:
            self._ground.add_scan(scene, f"{self.robot.name}/{self.robot.options.base}", self.config)

    def on_build(self) -> None:
        model, world, config = self.scene.model, self.scene.world, self.config
        if self._ground is not None:
            self._ground.start(self.device)
        base = int(model.body(f"{self.robot.name}/{self.robot.options.base}").id)
        root = int(model.body_jntadr[base])
        if root < 0 or model.jnt_type[root] != mujoco.mjtJoint.mjJNT_FREE:
            raise OptionError(f"the task 'walk' needs a robot whose base moves freely; {config.robot!r} is fixed")
        self._actuators, joints = servos(model, f"{self.robot.name}/")
        if not joints:
            raise OptionError(
                f"the task 'walk' needs a robot with a position servo per joint; {config.robot!r} has none. Use "
                "<position> actuators in MJCF, or servos={...} of sn.robots.register_urdf"
            )
        self._q, self._v = int(model.jnt_qposadr[root]), int(model.jnt_dofadr[root])
        self._joint_q, self._joint_v = (
            columns([int(address[joint]) for joint in joints], self.device)
            for address in (model.jnt_qposadr, model.jnt_dofadr)
        )
        self._columns = columns(self._actuators, self.device)
        self._qpos, self._qvel, self._ctrl = (world.bind(field) for field in ("qpos", "qvel", "ctrl"))
        self._force = world.bind("actuator_force")
        self._home_q = self._qpos[0, self._joint_q].clone()
        self._home_ctrl = self._ctrl[0, self._columns].clone()
        limits = torch.from_numpy(model.actuator_ctrlrange[self._actuators].copy()).to(self._ctrl)
        self._min, self._max = limits.T.contiguous()
        self._scale = torch.tensor(_scales(model, self._actuators, config.action_scale)).to(self._ctrl)
        self._height = float(self._qpos[0, self._q + 2])
        self._command_steps = max(1, round(config.command_time / config.dt))
        self._ranges = torch.tensor([config.forward, config.left, config.turn], device=self.device)
        self.command = torch.zeros(self.n_envs, 3, device=self.device)
        weights = torch.tensor([getattr(config.rewards, name) for name in WalkRewards.model_fields], device=self.device)
        self._weights = weights[:, None] * config.dt
        self._pusher = Pusher(self, self._v)
        self._tracked = torch.zeros(self.n_envs, device=self.device)

    def action_limits(self) -> torch.Tensor:
        low, high = (((limit - self._home_ctrl) / self._scale).float() for limit in (self._min, self._max))
        return torch.stack((low, high), dim=1)

    def action_terms(self) -> Sequence[ActionTerm]:
        model, config, prefix = self.scene.model, self.config, f"{self.robot.name}/"
        joints = [model.joint(int(model.actuator_trnid[each, 0])).name for each in self._actuators]
        return [
            ActionTerm(
                name="body",
                kind="joint_position",
                names=tuple(name.removeprefix(prefix) for name in joints),
                actuators=tuple(model.actuator(each).name.removeprefix(prefix) for each in self._actuators),
                unit="rad",
                scale=tuple(self._scale.tolist()),
                offset=tuple(self._home_ctrl.tolist()),
                min=tuple(self._min.tolist()),
                max=tuple(self._max.tolist()),
                default_pose=tuple(self._home_q.tolist()),
                rate=round(1 / config.dt, 6),
            )
        ]

    # -- episodes -----------------------------------------------------------------------------------------------------

    def begin_episodes(self, mask: torch.Tensor) -> None:
        start, qpos, qvel, here = self.config.randomize, self._qpos, self._qvel, mask[:, None]
        draw = self.draws.uniform("start", 7 + len(self._home_q), -1.0, 1.0)
        turned = rotations.about_z((torch.pi * draw[:, 0]).to(qpos.dtype))
        quat = qpos[:, self._q + 3 : self._q + 7]
        quat.copy_(torch.where(here, rotations.multiply(turned, quat), quat))
        if self._ground is not None:
            place = self._ground.places(self.draws.uniform("place", 2, -1.0, 1.0)).to(qpos.dtype)
            qpos[:, self._q : self._q + 3] += torch.where(here, place, 0.0)
        qpos[:, self._joint_q] += torch.where(here, start.joints * draw[:, 7:], 0.0)
        velocity = qvel[:, self._v : self._v + 6]
        velocity.copy_(torch.where(here, start.speed * draw[:, 1:7], velocity))
        self._tracked.masked_fill_(mask, 0.0)

    def _draw_command(self) -> None:
        """Set the command, which depends on the step alone."""
        draw = self.draws.uniform("command", 4, counter=self.step_count // self._command_steps)
        low, high = self._ranges.T
        moving = draw[:, 3:] >= self.config.standing
        drawn = (low + (high - low) * draw[:, :3]) * (_EASIEST + (1 - _EASIEST) * self.difficulty[:, None])
        self.command.copy_(torch.where(moving, drawn, 0.0))

    def act(self) -> None:
        self._pusher.push()
        target = self._home_ctrl + self._scale * self.action
        self._ctrl[:, self._columns] = torch.clamp(target, self._min, self._max)

    # -- rewards ------------------------------------------------------------------------------------------------------

    def _motion(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the torso's velocity in m/s, angular velocity in rad/s and direction of up, (B, 3), in its frame."""
        quat = self._qpos[:, self._q + 3 : self._q + 7].float()
        velocity = rotations.rotate_back(quat, self._qvel[:, self._v : self._v + 3].float())
        return velocity, self._qvel[:, self._v + 3 : self._v + 6].float(), rotations.up(quat)

    def _torso_height(self) -> torch.Tensor:
        """Return the height of the torso above the ground below it, (B,) m."""
        height = self._qpos[:, self._q + 2]
        return height if self._ground is None else height - self._ground.height_at(self._qpos[:, self._q : self._q + 2])

    def rewards(self) -> dict[str, torch.Tensor]:
        velocity, spin, up = self._motion()
        joints = self._qpos[:, self._joint_q] - self._home_q
        error = ((self.command[:, :2] - velocity[:, :2]) ** 2).sum(dim=1)
        self._tracking = torch.exp(-error / _TRACKING)
        values = {
            "track_velocity": self._tracking,
            "track_turn": torch.exp(-((self.command[:, 2] - spin[:, 2]) ** 2) / _TRACKING),
            "velocity_error": error.sqrt(),
            "bounce": velocity[:, 2] ** 2,
            "wobble": (spin[:, :2] ** 2).sum(dim=1),
            "tilt": (up[:, :2] ** 2).sum(dim=1),
            "torque": (self._force[:, self._columns] ** 2).sum(dim=1).float(),
            "joint_speed": (self._qvel[:, self._joint_v] ** 2).sum(dim=1).float(),
            "action_change": ((self.action - self.last_action) ** 2).sum(dim=1),
            "pose": (joints**2).sum(dim=1).float(),
            "fall": self.failed.float() / self.config.dt,
        }
        weighted = torch.stack([values[name] for name in WalkRewards.model_fields]) * self._weights
        return dict(zip(WalkRewards.model_fields, weighted, strict=True))

    def failures(self) -> dict[str, torch.Tensor]:
        upright = rotations.cos_tilt(self._qpos[:, self._q + 3 : self._q + 7])
        low = self._torso_height() < self.config.fall_height * self._height
        return {"fall": (upright < math.cos(self.config.fall_tilt)) | low}

    @property
    def max_return(self) -> float:
        """The return of perfect tracking without any penalty."""
        weights = self.config.rewards
        return (weights.track_velocity + weights.track_turn) * self.config.dt * self.config.max_steps

    def metrics(self) -> dict[str, torch.Tensor]:
        return {"tracking": self._tracking} | ({"difficulty": self.difficulty} if self.config.curriculum else {})

    def end_episodes(self, ended: torch.Tensor) -> None:
        if not self.config.curriculum:
            return
        self._tracked.add_(self._tracking)
        mean = self._tracked / self.step_count
        judged = ended & self.ended_itself()
        harder = judged & self.lasted() & (mean > _HARDER)
        easier = judged & (self.terminated | (mean < _EASIER))
        change = DIFFICULTY_STEP * (harder.float() - easier.float())
        self.difficulty.add_(change).clamp_(0.0, 1.0)

    # -- observations -------------------------------------------------------------------------------------------------

    def observe(self) -> dict[str, torch.Tensor]:
        self._draw_command()
        found = {"command": self.command, "last_action": self.last_action}
        if self._ground is not None and self.config.observe_heights:
            found["heights"] = self._ground.scan(self.config.ground_truth)
        return found

    def observe_privileged(self) -> dict[str, torch.Tensor]:
        velocity, _, _ = self._motion()
        return {
            "velocity": velocity,
            "height": self._torso_height()[:, None].float(),
            "torques": self._force[:, self._columns].float(),
            **({} if self._ground is None else {"heights": self._ground.scan(ground_truth=True)}),
        }


def _scales(model: mujoco.MjModel, actuators: list[int], scale: float | None) -> list[float]:
    """Return the change of each joint's target for an action of 1, rad."""
    if scale is not None:
        return [scale] * len(actuators)
    largest, stiffness = model.actuator_forcerange[actuators, 1], model.actuator_gainprm[actuators, 0]
    limited = model.actuator_forcelimited[actuators].astype(bool) & (stiffness > 0)
    return [
        _TORQUE * float(torque / gain) if has_maximum else _SCALE
        for torque, gain, has_maximum in zip(largest, stiffness, limited, strict=True)
    ]


def servos(model: mujoco.MjModel, prefix: str) -> tuple[list[int], list[int]]:
    """Return the actuators of an entity that are position servos, and their joints."""
    actuators, joints = [], []
    for actuator in range(model.nu):
        is_joint = model.actuator_trntype[actuator] == mujoco.mjtTrn.mjTRN_JOINT
        is_servo = model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_AFFINE
        if is_joint and is_servo and model.actuator(actuator).name.startswith(prefix):
            actuators.append(actuator)
            joints.append(int(model.actuator_trnid[actuator, 0]))
    return actuators, joints
