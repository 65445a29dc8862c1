"""Joint encoder: positions and velocities of hinge and slide joints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol

import mujoco
import torch
from pydantic import Field, model_validator

from sensorium.errors import NameNotFoundError, OptionError, shorten
from sensorium.pipeline import Imperfections, SensorGroup, SignalSource
from sensorium.pipeline.hold import holds_output
from sensorium.pipeline.parameters import as_numbers
from sensorium.sensors.base import Format, Sensor, SimpleSensor
from sensorium.sensors.options import SimpleSensorOptions
from sensorium.worlds import Names

_SCALAR = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)


class JointEncoder(SimpleSensorOptions, init=False):
    """Options of an encoder of hinge and slide joints.

    The generic imperfections act on positions (rad or m); with the prefix ``vel_``, on velocities (rad/s or m/s).

    Example:
        >>> encoder = scene.add_sensor(sn.JointEncoder(robot="arm", counts_per_revolution=4096, vel_noise=0.01))
        >>> encoder.read().positions
    """

    robot: str | None = None
    """Entity that has the joints. Default: any; set it if several entities have joints of the same name."""
    joints: tuple[str | int, ...] | None = None
    """Names of hinge or slide joints, or their indices among those of ``robot`` (default: of the scene), in the order
    of the reading. Default: all of them."""
    counts_per_revolution: float | None = Field(default=None, gt=0)
    """Counts per revolution: positions of hinge joints are multiples of 2 pi / counts, those of slide joints are not
    quantised. Alternative to ``resolution``."""
    velocity: Literal["exact", "counts"] = "exact"
    """How velocities are measured. "exact": the joint's velocity with the imperfections ``vel``. It is the default,
    since controllers and policies expect a smooth velocity, which drives get from an observer or a tachometer.
    "counts": the difference between the positions of two samples divided by the time between them, as simple drives do.
    It has steps of one count per sample interval. It needs ``counts_per_revolution`` or ``resolution``."""
    vel: Imperfections = Imperfections()
    """Imperfections of exact velocities, rad/s or m/s."""

    @model_validator(mode="after")
    def _check_resolution(self) -> JointEncoder:
        if self.counts_per_revolution is not None and self.resolution != 0.0:
            raise ValueError("counts_per_revolution and resolution set the same parameter; give only one")
        if self.velocity == "counts":
            if self.counts_per_revolution is None and self.resolution == 0.0:
                raise ValueError("velocity='counts' needs counts_per_revolution or resolution; set one of them")
            if self.vel != Imperfections():
                raise ValueError("vel has no effect with velocity='counts': set noise of the positions instead")
        if self.joints == ():
            raise ValueError("joints must name at least one joint; omit it to read all joints")
        return self

    def make_sensor(self, taken: set[str]) -> Sensor[Any]:
        """Return the sensor that these options describe; a default uuid is not one of ``taken``."""
        made = super().make_sensor(taken)
        return CountingEncoderSensor(self, made.uuid) if self.velocity == "counts" else made


class JointEncoderData(NamedTuple):
    """Reading of an encoder of n joints."""

    positions: torch.Tensor
    """Joint positions, (B, n) rad or m."""
    velocities: torch.Tensor
    """Joint velocities, (B, n) rad/s or m/s."""


class JointEncoderSensor(SimpleSensor[JointEncoderData], options=JointEncoder):
    """Joint encoder. See :class:`JointEncoder`."""

    kind = "joint_encoder"
    Data = JointEncoderData
    units = {"positions": "rad", "velocities": "rad/s"}

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        self.joint_names = resolve_joints(spec, names, self.options, f"JointEncoder(uuid={self.uuid!r})")
        self._turns = [spec.joint(name).type == mujoco.mjtJoint.mjJNT_HINGE for name in self.joint_names]
        for part, kind in (("pos", mujoco.mjtSensor.mjSENS_JOINTPOS), ("vel", mujoco.mjtSensor.mjSENS_JOINTVEL)):
            for number, joint in enumerate(self.joint_names):
                name = f"{self.uuid}:{part}{number}"
                spec.add_sensor(name=name, type=kind, objtype=mujoco.mjtObj.mjOBJ_JOINT, objname=joint)

    def _sources(self) -> list[SignalSource]:
        count = len(self.joint_names)
        return [SignalSource((f"{self.uuid}:{part}{number}",)) for part in ("pos", "vel") for number in range(count)]

    def _get_return_format(self) -> Format:
        return {"positions": (len(self.joint_names),), "velocities": (len(self.joint_names),)}

    def _channels(self) -> dict[str, slice]:
        count = len(self.joint_names)
        return {"": slice(0, count), "vel": slice(count, 2 * count)}

    def _plotted_names(self, field: str) -> Sequence[str]:
        return self.joint_names

    def _plotted_unit(self, field: str) -> str:
        return joint_unit(self.units[field], self._turns)

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return {"counts_per_revolution": ("resolution", slice(0, len(self.joint_names)))}

    def _translate(self, name: str, value: Any) -> tuple[str, Any]:
        if name != "counts_per_revolution" or value is None:
            return name, value
        counts = as_numbers("JointEncoder.counts_per_revolution", value)
        if counts.device.type == "cpu" and not bool(((counts > 0) & counts.isfinite()).all()):
            raise OptionError(f"JointEncoder.counts_per_revolution must be finite and > 0, got {value!r}")
        return name, (2 * math.pi / counts) * torch.tensor(self._turns, dtype=torch.float64, device=counts.device)


class CountingEncoderSensor(JointEncoderSensor):
    """Joint encoder that derives velocities from its positions. The first velocity after a reset is 0."""

    def _channels(self) -> dict[str, slice]:
        return {"": slice(0, len(self.joint_names))}

    @classmethod
    def _build_group(cls, group: SensorGroup[Any]) -> None:
        group.state("elapsed", len(group.sensors))  # seconds since the last sample

    @classmethod
    @holds_output
    def _post_process(cls, group: SensorGroup[Any], data: torch.Tensor, out: torch.Tensor, is_measured: bool) -> None:
        if not is_measured:
            out.copy_(data)
            return
        elapsed = group.state("elapsed", len(group.sensors))
        for sensor, part, time in zip(group.sensors, group.slices, elapsed, strict=True):
            count = len(sensor.joint_names)
            before, velocity = out[part][:count], out[part][count:]  # of the previous tick
            now = data[part][:count]
            if group.advancing:
                sampled = group.timing(sensor).due
                time += group.dt
                velocity.copy_(torch.where(sampled, (now - before) / time, velocity))
                time.masked_fill_(sampled, 0.0)
            else:
                velocity.zero_()
            before.copy_(now)


def joint_unit(unit: str, turns: Sequence[bool]) -> str:
    """Return the unit of values of joints.

    Args:
        unit: the unit for hinge joints: "rad", "rad/s" or "N·m".
        turns: whether each joint is a hinge.
    """
    slide = {"rad": "m", "rad/s": "m/s", "N·m": "N"}[unit]
    return unit if all(turns) else slide if not any(turns) else f"{unit} or {slide}"


class JointSelection(Protocol):
    """Options that select joints."""

    @property
    def robot(self) -> str | None:
        """Entity that has the joints, or None for any."""

    @property
    def joints(self) -> tuple[str | int, ...] | None:
        """Names or indices of the joints, or None for all."""


def resolve_joints(spec: mujoco.MjSpec, names: Names, options: JointSelection, asked_by: str) -> list[str]:
    """Return the full names of the hinge and slide joints that the options select.

    Args:
        spec: the scene.
        names: names in the scene.
        options: the selection.
        asked_by: the sensor, for error messages.

    Raises:
        NameNotFoundError: there is no such robot or joint.
        OptionError: an index is out of range, or a joint is neither hinge nor slide.
    """
    robot = options.robot
    prefix = names.prefix(robot, asked_by)
    candidates = [joint.name for joint in spec.joints if joint.type in _SCALAR and joint.name.startswith(prefix)]
    if not candidates:
        where = "the scene" if robot is None else f"the robot {robot!r}"
        raise NameNotFoundError(f"{asked_by}: {where} has no hinge or slide joint; add one, or remove this sensor")
    if options.joints is None:
        return candidates
    found = []
    for joint in options.joints:
        if isinstance(joint, int):
            if not 0 <= joint < len(candidates):
                raise OptionError(
                    f"{asked_by}.joints: indices must lie in [0, {len(candidates)}), got {joint}; "
                    f"joints: {shorten(candidates)}"
                )
            found.append(candidates[joint])
        else:
            # a joint of robot "left" may be given as "shoulder" or as "left/shoulder"
            full = joint if joint in candidates else f"{prefix}{joint}"
            element = names.joint(full, f"{asked_by}.joints")
            if element.type not in _SCALAR:
                raise OptionError(f"{asked_by}.joints must name hinge or slide joints, got {joint!r}")
            found.append(element.name)
    return found
