"""Wheel odometry: dead reckoning of a differential drive from the rotation of its wheels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import torch
from pydantic import Field, model_validator

from sensorium.errors import OptionError
from sensorium.pipeline import Imperfections, SensorGroup
from sensorium.pipeline.launch import replayable
from sensorium.sensors.base import Format, SimpleSensor
from sensorium.sensors.options import ChannelOptions
from sensorium.sensors.robot.wheel_odometry_backend import ERRORS as _ERRORS
from sensorium.sensors.robot.wheel_odometry_backend import CpuWheelOdometry, GpuWheelOdometry, WheelOdometryBackend
from sensorium.worlds import Names


class WheelOdometry(ChannelOptions, init=False):
    """Options of wheel odometry.

    It is computed from the rotation of the wheels' joints alone. As on a real robot, wheels that slip on the ground
    make it wrong.

    Example:
        >>> odometry = scene.add_sensor(sn.WheelOdometry(left="wheel_l", right="wheel_r", radius=0.1, track=0.4))
        >>> odometry.read().pos
    """

    left: str | tuple[str, ...]
    """Joints of the left wheels; of several, the mean rotation is used. Positive rotation drives forward."""
    right: str | tuple[str, ...]
    """Joints of the right wheels; of several, the mean rotation is used."""
    radius: float = Field(gt=0)
    """Radius of the wheels, m."""
    track: float = Field(gt=0)
    """Distance between the left and the right wheels, m."""
    reversed: tuple[str, ...] = ()
    """Joints in ``left`` and ``right`` whose positive rotation drives backward."""
    left_radius_error: float = Field(default=0.0, gt=-1)
    """Relative error of the assumed radius of the left wheels: with 0.01, distances are 1% too long."""
    right_radius_error: float = Field(default=0.0, gt=-1)
    """Relative error of the assumed radius of the right wheels. If it differs from the left, straight paths bend."""
    track_error: float = Field(default=0.0, gt=-1)
    """Relative error of the assumed track: with 0.01, turns are about 1% too small."""
    counts_per_revolution: float | None = Field(default=None, gt=0)
    """Counts of the wheels' encoders per revolution. Default: exact angles."""
    vel: Imperfections = Imperfections()
    """Imperfections of speed (m/s) and yaw rate (rad/s)."""

    @model_validator(mode="after")
    def _check_wheels(self) -> WheelOdometry:
        for side, joints in (("left", self.wheels[0]), ("right", self.wheels[1])):
            if not joints:
                raise ValueError(f"{side} must name at least one joint")
        both = set(self.wheels[0]) & set(self.wheels[1])
        if both:
            raise ValueError(f"left and right must not share joints, got {min(both)!r} in both")
        unknown = set(self.reversed) - {*self.wheels[0], *self.wheels[1]}
        if unknown:
            raise ValueError(f"reversed must name joints of left or right, got {min(unknown)!r}")
        return self

    @property
    def wheels(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Joints of the left and of the right wheels."""
        left, right = ((side,) if isinstance(side, str) else side for side in (self.left, self.right))
        return left, right


class WheelOdometryData(NamedTuple):
    """Estimated pose of the midpoint between the wheels, relative to its pose at the reset (x forward, y left)."""

    pos: torch.Tensor
    """Position, (B, 2) m."""
    yaw: torch.Tensor
    """Heading, (B, 1) rad, counter-clockwise, not wrapped."""
    speed: torch.Tensor
    """Forward speed, mean over the step, (B, 1) m/s."""
    yaw_rate: torch.Tensor
    """Yaw rate, mean over the step, (B, 1) rad/s."""


class WheelOdometrySensor(SimpleSensor[WheelOdometryData], options=WheelOdometry):
    """Wheel odometry sensor. See :class:`WheelOdometry`.

    Ground truth uses the true radii and track, and exact angles; wheel slip affects it too.
    """

    kind = "wheel_odometry"
    Data = WheelOdometryData
    units = {"pos": "m", "yaw": "rad", "speed": "m/s", "yaw_rate": "rad/s"}

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        asked_by = f"WheelOdometry(uuid={self.uuid!r})"
        self._wheels: list[tuple[str, tuple[float, float]]] = []  # joint, share in the left and in the right side
        for side, joints in zip(("left", "right"), self.options.wheels, strict=True):
            for name in joints:
                joint = names.joint(name, f"{asked_by}.{side}")
                if joint.type != mujoco.mjtJoint.mjJNT_HINGE:
                    raise OptionError(f"{asked_by}.{side} must name hinge joints, got {name!r}")
                share = (-1 if name in self.options.reversed else 1) / len(joints)
                self._wheels.append((joint.name, (share, 0.0) if side == "left" else (0.0, share)))

    def _plotted_names(self, field: str) -> Sequence[str]:
        return ("x", "y")

    def _get_return_format(self) -> Format:
        return {"pos": (2,), "yaw": (1,), "speed": (1,), "yaw_rate": (1,)}

    def _channels(self) -> dict[str, slice]:
        return {"vel": slice(3, 5)}

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return {name: ("custom", slice(0, 1)) for name in _ERRORS}

    @classmethod
    def _build_group(cls, group: SensorGroup[WheelOdometryBackend]) -> WheelOdometryBackend:
        return GpuWheelOdometry(group) if group.is_gpu else CpuWheelOdometry(group)

    @classmethod
    def _reset_group(cls, group: SensorGroup[WheelOdometryBackend], mask: torch.Tensor) -> None:
        group.backend.reset(mask)

    @classmethod
    @replayable
    def _update_shared_cache(
        cls, group: SensorGroup[WheelOdometryBackend], ground_truth: torch.Tensor, measured: torch.Tensor
    ) -> None:
        group.backend.update(ground_truth, measured)
        cls._apply_hardware_imperfections(group, measured)
