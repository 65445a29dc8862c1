"""Balance on tensors: keep a wheeled inverted pendulum upright and near its start."""

from __future__ import annotations

import math

import mujoco
import torch
from pydantic import Field

from sensorium.errors import OptionError
from sensorium.robots import RigSensor, Robot, SensorRig
from sensorium.tasks.tensor import rotations
from sensorium.tasks.tensor.config import TensorTaskConfig
from sensorium.tasks.tensor.robot_forms import with_sensors
from sensorium.tasks.tensor.task import TensorTask

_TIMING = {"delay": 0.02}
_IMU = {"acc_noise": 0.05, "acc_bias_spread": 0.05, "gyro_noise": 0.01, "gyro_bias_spread": 0.005, **_TIMING}
SENSORS = SensorRig(
    sensors=(
        RigSensor(name="imu", type="IMU", options=_IMU),
        RigSensor(name="attitude", type="Attitude", options={"noise": 0.01, "bias_spread": 0.005, **_TIMING}),
        RigSensor(name="wheels", type="JointEncoder", options={"noise": 0.002, "vel_noise": 0.03, **_TIMING}),
    )
)
"""Sensors of a robot that has none: an IMU, its attitude filter and wheel encoders, 20 ms late."""


class TensorBalanceConfig(TensorTaskConfig):
    """Options of :class:`TensorBalance`. Those of the scene and of the reward are those of ``Balance``."""

    robot: str = "balancer"
    """Name of the robot, or a model file. It must stand on wheels and have its torso as base."""
    max_steps: int = Field(default=500, ge=1, le=65_000)
    """Steps after which an episode is truncated."""
    observe: tuple[str, ...] = ("imu/lin_acc", "imu/ang_vel", "attitude", "wheels")
    """Patterns of the robot's readings that the policy observes."""
    tilt: float = Field(default=0.12, ge=0)
    """Maximum lean of the torso at the start, rad."""
    fall: float = Field(default=0.6, gt=0)
    """Lean at which the robot has fallen, rad."""
    range: float = Field(default=1.5, gt=0)
    """Maximum distance from the start, m."""
    near: float = Field(default=0.75, gt=0)
    """Distance from the start at which the reward of a step is 0.5, m."""


class TensorBalance(TensorTask[TensorBalanceConfig]):
    """Stay upright for the whole episode, at the position and heading of the start, with little effort.

    The action is the robot's: the torques of the wheels. The reward of a step is that of ``Balance``: 1 / (1 +
    (distance / near)^2), minus at most 0.2 for leaning, 0.05 for a change of heading and 0.05 for effort. The episode
    terminates with reward 0 when the robot falls or is out of ``range``. The critic also observes the true position,
    velocity and change of heading.

    ``log`` has ``distance`` from the start in m and ``tilt`` in rad.
    """

    name = "balance"
    config_type = TensorBalanceConfig

    def check_shared(self) -> None:
        """Accept several entities: each balances at its own start."""

    def place_robot(self, robot: Robot) -> Robot:
        return with_sensors(robot, SENSORS)

    def on_build(self) -> None:
        model, world = self.scene.model, self.scene.world
        base = int(model.body(f"{self.robot.name}/{self.robot.options.base}").id)
        root = int(model.body_jntadr[base])
        if root < 0 or model.jnt_type[root] != mujoco.mjtJoint.mjJNT_FREE:
            raise OptionError(
                f"the task 'balance' needs a robot whose base moves freely; {self.config.robot!r} is fixed"
            )
        q, v = int(model.jnt_qposadr[root]), int(model.jnt_dofadr[root])
        qpos, qvel = world.bind("qpos"), world.bind("qvel")
        self._position, self._quat = qpos[:, q : q + 2], qpos[:, q + 3 : q + 7]
        self._velocity = qvel[:, v : v + 6]
        self._origin = self._position.clone()
        self._heading = torch.zeros(self.n_envs, 2, device=self.device)
        self._limits = self.action_limits().to(self.device).abs().amax(dim=1)

    def begin_episodes(self, mask: torch.Tensor) -> None:
        draw, here = self.draws.uniform("start", 2, -1.0, 1.0), mask[:, None]
        lean, heading = (self.config.tilt * draw[:, 0]).to(self._quat), (math.pi * draw[:, 1]).to(self._quat)
        quat = rotations.multiply(rotations.about_z(heading), rotations.about_y(lean))
        self._quat.copy_(torch.where(here, quat, self._quat))
        left = torch.stack((-torch.sin(heading), torch.cos(heading)), dim=1).float()
        self._heading.copy_(torch.where(here, left, self._heading))

    def _state(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the lean (B,) rad, the way from the start (B, 2) m, and the change of heading (B,) rad, 0 to pi."""
        quat = self._quat.float()
        w, x, y, z = quat.unbind(1)
        left = torch.stack((2 * (x * y - w * z), 1 - 2 * (x * x + z * z)), dim=1)  # the y axis of the torso
        cosine = (left * self._heading).sum(dim=1) / (left.norm(dim=1) + 1e-9)
        lean = torch.arccos(rotations.up(quat)[:, 2].clamp(-1.0, 1.0))
        return lean, (self._position - self._origin).float(), torch.arccos(cosine.clamp(-1.0, 1.0))

    def failures(self) -> dict[str, torch.Tensor]:
        lean, way, _ = self._state()
        return {"fall": lean > self.config.fall, "range": way.norm(dim=1) > self.config.range}

    def rewards(self) -> dict[str, torch.Tensor]:
        lean, way, turned = self._state()
        self._lean, self._distance = lean, way.norm(dim=1)
        effort = ((self.action / self._limits).clamp(-1.0, 1.0) ** 2).mean(dim=1)
        terms = {
            "near": 1.0 / (1.0 + (self._distance / self.config.near) ** 2),
            "lean": -0.2 * (lean / self.config.fall) ** 2,
            "heading": -0.05 * turned / math.pi,
            "effort": -0.05 * effort,
        }
        return {name: torch.where(self.failed, 0.0, value) for name, value in terms.items()}

    @property
    def max_return(self) -> float:
        """The maximum return of an episode: 1 per step, for a robot that stands upright at its start all the time."""
        return float(self.config.max_steps)

    def metrics(self) -> dict[str, torch.Tensor]:
        return {"distance": self._distance, "tilt": self._lean}

    def observe_privileged(self) -> dict[str, torch.Tensor]:
        _, way, turned = self._state()
        return {"way": way, "velocity": self._velocity.float(), "turned": turned[:, None]}
