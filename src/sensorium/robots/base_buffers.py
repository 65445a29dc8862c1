"""The buffers of a robot's base link that its entity does not have: velocities, and the pose of a base on joints."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import torch

from sensorium._arguments import checked_numbers
from sensorium.errors import OptionError
from sensorium.worlds import ArrayLike
from sensorium.worlds.world import real_states

if TYPE_CHECKING:
    from sensorium.robots.robot import Robot
    from sensorium.tree import Buffer
    from sensorium.worlds import World

_TOLERANCE = 1e-5
"""Relative and absolute difference, in SI units, up to which a value counts as that of the physics state."""
_ANGULAR, _LEVER = np.array([1, 2, 0, 2, 0, 1]), np.array([2, 0, 1, 1, 2, 0])
"""Axes of the products of a cross product: those that are added, then those that are subtracted."""


def update_base(robot: Robot, world: World, is_root: bool) -> None:
    """Copy velocity and pose of the base link into their buffers.

    Args:
        robot: the robot, built, with a base link.
        world: its world.
        is_root: whether the base link is the root link, whose pose is a buffer of the entity.
    """
    for name, value in _current_values(robot, is_root).items():
        buffer: Buffer = getattr(robot, name)
        buffer.update(value.clone() if world.is_gpu else value)  # views of the state on a GPU, which is float32 there


def write_base(robot: Robot, is_root: bool) -> None:
    """Write the buffers that were set into the simulation, after the entity wrote its own.

    Velocities can be written if the base link moves freely. Otherwise its pose and velocity follow from joints, and a
    warning names a buffer that was set by hand.
    """
    names = ("linear_velocity", "angular_velocity", *(() if is_root else ("position", "orientation")))
    buffers: dict[str, Buffer] = {name: getattr(robot, name) for name in names if getattr(robot, name).is_set}
    if not buffers:
        return
    if robot.can_be_placed:  # from the state, which may be newer than what is derived from it
        current = dict(zip(names, robot.entity.get_velocity(), strict=True))
    else:
        current = _current_values(robot, is_root)
    for name, buffer in buffers.items():
        value = buffer.value
        differs = ~torch.isclose(value, current[name], _TOLERANCE, _TOLERANCE, equal_nan=True).all(dim=1)
        envs = differs.nonzero().flatten()
        loaded = buffer.loaded
        buffer.update(value.clone())
        if not len(envs):
            continue
        if robot.can_be_placed:
            robot.entity.set_velocity(**{name.removesuffix("_velocity"): value[envs]}, envs=envs)
            robot.entity.note_written(envs.tolist())
        elif not loaded:
            joints = "joint_velocities" if name.endswith("velocity") else "joint_positions"
            warnings.warn(
                f"write_replay_data: {robot.name}.{name} was set, but the base of {robot.name!r} does not move freely; "
                f"set its {joints} instead",
                stacklevel=2,
            )


def _current_values(robot: Robot, is_root: bool) -> dict[str, torch.Tensor]:
    linear, angular = robot.get_velocity()
    values = {"linear_velocity": linear, "angular_velocity": angular}
    if not is_root:
        values["position"], values["orientation"] = robot.get_pose()
    return values


def link_velocity(twist: np.ndarray, pos: np.ndarray, com: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the velocity of a link as ``Robot.get_velocity`` does, with NumPy: on a CPU that is several times faster.

    Args:
        twist: rotation, then translation at the centre of mass of the tree, (B, 6).
        pos: position of the link, (B, 3).
        com: centre of mass of the tree, (B, 3).
    """
    with np.errstate(all="ignore"):  # as torch, for envs that diverged
        products = twist.take(_ANGULAR, 1) * (pos - com).take(_LEVER, 1)
        linear = twist[:, 3:] + (products[:, :3] - products[:, 3:])
    return torch.from_numpy(linear).float(), torch.from_numpy(twist[:, :3]).float()


def checked_poses(name: str, poses: object, n_envs: int) -> np.ndarray:
    """Return poses of all envs as (B, 7) float64.

    Args:
        name: name of the argument, for the message.
        poses: the poses.
        n_envs: number of envs, B.

    Raises:
        OptionError: they have another shape, or are not real numbers.
    """
    return np.ascontiguousarray(real_states(name, poses, (n_envs, 7)))


def ground_poses(call: str, xy: ArrayLike, yaw: ArrayLike, height: float) -> tuple[np.ndarray, np.ndarray]:
    """Return positions (n, 3) and orientations (n, 4) of bases on the ground; arguments as of ``Robot.place``."""
    spots = np.atleast_2d(checked_numbers(f"{call}: xy", xy, (..., 2)))
    half = np.atleast_1d(checked_numbers(f"{call}: yaw", yaw)) / 2
    n = max(len(spots), len(half))
    if spots.shape not in ((1, 2), (n, 2)) or half.shape not in ((1,), (n,)):
        raise OptionError(f"{call}: xy must be one place, or one per yaw, got {xy!r:.80} and {yaw!r:.80}")
    quat = np.stack([np.cos(half), 0 * half, 0 * half, np.sin(half)], axis=1)
    pos = np.column_stack([spots, np.full(len(spots), height)])
    return np.tile(pos, (n // len(pos), 1)), np.tile(quat, (n // len(quat), 1))
