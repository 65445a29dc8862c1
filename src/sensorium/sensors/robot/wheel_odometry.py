"""Wheel odometry: dead reckoning of a differential drive from what its wheels have turned."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import mujoco
import numpy as np
import torch
from pydantic import Field, model_validator

from sensorium.errors import OptionError
from sensorium.pipeline import Imperfections
from sensorium.pipeline.launch import launch, replayable
from sensorium.sensors.base import Format, SimpleSensor
from sensorium.sensors.options import ChannelOptions
from sensorium.worlds import Names

_ERRORS = ("left_radius_error", "right_radius_error", "track_error")


class WheelOdometry(ChannelOptions, init=False):
    """Options of wheel odometry. All it knows is how far the wheels' joints have turned, so wheels that slip on the
    ground make it wrong, as they do on a robot.

    Example:
        >>> odometry = scene.add_sensor(sn.WheelOdometry(left="wheel_l", right="wheel_r", radius=0.1, track=0.4))
        >>> odometry.read().pos
    """

    left: str | tuple[str, ...]
    """Joints of the wheels on the left; the mean of several counts. Positive rotation drives forward."""
    right: str | tuple[str, ...]
    """Joints of the wheels on the right, likewise."""
    radius: float = Field(gt=0)
    """Radius of the wheels, m."""
    track: float = Field(gt=0)
    """Distance between the left and the right wheels, m."""
    reversed: tuple[str, ...] = ()
    """Those of the joints whose positive rotation drives backward."""
    left_radius_error: float = Field(default=0.0, gt=-1)
    """Relative error of the radius that is assumed for the left wheels: 0.01 makes ways 1% too long."""
    right_radius_error: float = Field(default=0.0, gt=-1)
    """The same on the right; a difference between both bends straight ways."""
    track_error: float = Field(default=0.0, gt=-1)
    """Relative error of the track that is assumed: 0.01 makes turns 1% too small."""
    counts_per_revolution: float | None = Field(default=None, gt=0)
    """Counts of the wheels' encoders per turn. Default: exact angles."""
    vel: Imperfections = Imperfections()
    """Imperfections of speed (m/s) and yaw rate (rad/s)."""

    @model_validator(mode="after")
    def _check_wheels(self) -> WheelOdometry:
        for side, joints in (("left", self.wheels[0]), ("right", self.wheels[1])):
            if not joints:
                raise ValueError(f"{side} must name at least one joint")
        both = set(self.wheels[0]) & set(self.wheels[1])
        if both:
            raise ValueError(f"left and right both name {min(both)!r}")
        unknown = set(self.reversed) - {*self.wheels[0], *self.wheels[1]}
        if unknown:
            raise ValueError(f"reversed names {sorted(unknown)[0]!r}, which is not in left or right")
        return self

    @property
    def wheels(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Joints on the left, joints on the right."""
        left, right = ((side,) if isinstance(side, str) else side for side in (self.left, self.right))
        return left, right


class WheelOdometryData(NamedTuple):
    """Where the robot believes the middle between its wheels to be, in the frame in which it stood at its reset (x
    forward, y left)."""

    pos: torch.Tensor
    """(B, 2) m."""
    yaw: torch.Tensor
    """(B, 1) rad, counter-clockwise, not wrapped."""
    speed: torch.Tensor
    """Forward speed, mean of the step, (B, 1) m/s."""
    yaw_rate: torch.Tensor
    """(B, 1) rad/s, likewise."""


class WheelOdometrySensor(SimpleSensor[WheelOdometryData], options=WheelOdometry):
    """See :class:`WheelOdometry`. Ground truth has the true radii and track and exact angles, but slips too."""

    kind = "wheel_odometry"
    Data = WheelOdometryData

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        asked_by = f"WheelOdometry(uuid={self.uuid!r})"
        self._wheels: list[tuple[str, tuple[float, float]]] = []  # joint, parts in the left and the right side
        for side, joints in enumerate(self.options.wheels):
            for name in joints:
                joint = names.joint(name, f"{asked_by}.{('left', 'right')[side]}")
                if joint.type != mujoco.mjtJoint.mjJNT_HINGE:
                    raise OptionError(f"{asked_by}.{('left', 'right')[side]}: {name!r} is not a hinge")
                part = (-1 if name in self.options.reversed else 1) / len(joints)
                self._wheels.append((joint.name, (part, 0.0) if side == 0 else (0.0, part)))

    def _get_return_format(self) -> Format:
        return {"pos": (2,), "yaw": (1,), "speed": (1,), "yaw_rate": (1,)}

    def _channels(self) -> dict[str, slice]:
        return {"vel": slice(3, 5)}

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return {name: ("custom", slice(0, 1)) for name in _ERRORS}

    @classmethod
    def _build_group(cls, group: Any) -> None:
        model, sensors = group.world.model, group.sensors
        wheels = [wheel for sensor in sensors for wheel in sensor._wheels]
        joints = [model.joint(joint) for joint, _ in wheels]
        group.wheels = np.array([(joint.qposadr[0], joint.dofadr[0]) for joint in joints], np.int64)
        group.shares = np.array([parts for _, parts in wheels])
        group.first = np.cumsum([0, *(len(sensor._wheels) for sensor in sensors)])
        group.geometry = np.zeros((len(sensors), 3))
        for row, sensor in zip(group.geometry, sensors, strict=True):
            options = sensor.options
            row[:2] = options.radius, options.track
            if options.counts_per_revolution is not None:
                row[2] = 2 * math.pi / options.counts_per_revolution
        group.errors = torch.zeros(len(_ERRORS), len(sensors), group.n_envs, device=group.device)
        group.parameters |= dict(zip(_ERRORS, group.errors, strict=True))
        group.angles = np.zeros((group.n_envs, len(wheels), 2))
        group.pose = np.zeros((group.n_envs, len(sensors), 2, 3))
        group.qpos, group.qvel = (group.world.bind(field) for field in ("qpos", "qvel"))
        if group.world.is_gpu:
            from sensorium.sensors.robot.gpu import DeadReckoning

            group.reckoning = DeadReckoning(group)
        else:
            from sensorium.sensors.robot import kernels as robot_kernels

            group.kernel, group.errors = robot_kernels.odometry, group.errors.numpy()
            group.qpos, group.qvel = group.qpos.numpy(), group.qvel.numpy()

    @classmethod
    def _reset_group(cls, group: Any, mask: torch.Tensor) -> None:
        if not group.world.is_gpu:
            group.pose[mask.numpy()] = 0.0

    @classmethod
    @replayable
    def _update_shared_cache(cls, group: Any, ground_truth: torch.Tensor, measured: torch.Tensor) -> None:
        if group.world.is_gpu:
            group.reckoning.advance(ground_truth, measured)
        else:
            launch(
                group.kernel,
                group.qpos,
                group.qvel,
                group.wheels,
                group.shares,
                group.first,
                group.angles,
                group.pose,
                group.geometry,
                group.errors,
                group.dt,
                group.advancing,
                group.array(ground_truth),
                group.array(measured),
            )
        cls._apply_hardware_imperfections(group, measured)
