"""``GroupHandle``: a move group of a robot in a running scene."""

from __future__ import annotations

import math
from typing import TypeAlias

import mujoco
import numpy as np
import torch

from sensorium._arguments import as_array, checked, checked_flag, checked_numbers
from sensorium.errors import NotBuiltError, OptionError
from sensorium.options import checked_integer
from sensorium.robots.adapt import check_servo, servo_names
from sensorium.robots.controllers import find
from sensorium.robots.kinematic_chain import KinematicChain
from sensorium.robots.move_group import MoveGroup
from sensorium.tree import Buffer, Module
from sensorium.worlds import ArrayLike, Envs, World, env_index

_UNLIMITED = {int(mujoco.mjtJoint.mjJNT_HINGE): 2 * math.pi, int(mujoco.mjtJoint.mjJNT_SLIDE): 10.0}
"""Type of joint -> bound in both directions, rad or m, for joints without limits."""
_FIELDS = ("qpos", "qvel", "ctrl", "xpos", "xquat", "cvel", "subtree_com")
"""Physics fields that are read and written."""
_MAX_ITERATIONS = 100_000
"""Largest number of iterations of inverse kinematics."""
Columns: TypeAlias = slice | list[int]
"""An index of columns."""


class GroupHandle(Module):
    """One move group: ``robot.groups["arm"]``. Arrays are NumPy, float64, one row per env.

    The buffer ``target`` (B, n), tag "target", holds the joint targets of the controller.

    Args:
        description: joints and actuators of the group.
        controller: name of the controller.
        model: the compiled model of the robot alone.

    Attributes:
        description: joints and actuators of the group.
        controller: converts actions to joint targets.
        limits: lower and upper bounds of the joint positions, (n, 2) rad or m. Joints without limits get one turn or
            10 m in both directions; those of a base are unbounded.

    Example:
        >>> arm = robot.groups["arm"]
        >>> pose = arm.tcp_pose()
        >>> pose[:, 2] += 0.1
        >>> q, error = arm.solve(pose)
        >>> robot.act({"arm": q})
    """

    @checked
    def __init__(self, description: MoveGroup, controller: str, model: mujoco.MjModel) -> None:
        self.description = description
        self._world: World | None = None
        self._qpos = self._qvel = self._ctrl = _columns([0])
        self._home = np.array(description.home)
        self.limits = np.array([_limits(model, name, description.kind) for name in description.joints])
        if description.kind != "gripper":
            for actuator, joint in zip(servo_names(description), description.joints, strict=True):
                check_servo(model, description, actuator, joint)
        outside = (self._home < self.limits[:, 0] - 1e-9) | (self._home > self.limits[:, 1] + 1e-9)
        if outside.any():
            first = int(outside.argmax())
            raise OptionError(
                f"{description.name}: home of joint {description.joints[first]!r} must be in "
                f"{self.limits[first].tolist()}, got {self._home[first]:g}"
            )
        low, high = self.limits.T
        self._closed = np.where(self._home - low > high - self._home, low, high)  # positions of a closed gripper
        self._chain: KinematicChain | None = None
        self.reach = 0.0
        """Arms: upper bound of the distance from the robot's base to the tool centre point, m."""
        if description.kind == "arm":
            self._chain = self._make_chain(model, "")
            self.reach = self._chain.reach + _height(model, self._chain.root)
        self.controller = find(controller, description.name, description.kind)(self)

    def _make_chain(self, model: mujoco.MjModel, prefix: str) -> KinematicChain:
        joints = [int(model.joint(prefix + name).id) for name in self.description.joints]
        tool = f"{prefix}{self.description.tcp}"
        site = mujoco.mj_name2id(model, int(mujoco.mjtObj.mjOBJ_SITE), tool)
        self._tool = np.array([[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]])
        if site < 0:
            self._link = int(model.body(tool).id)
        else:
            self._link = int(model.site_bodyid[site])
            self._tool[0, :3], self._tool[0, 3:] = model.site_pos[site], model.site_quat[site]
        return KinematicChain(model, joints, self.limits, self._home, self._link, self._tool[0, :3], self._tool[0, 3:])

    # -- build --------------------------------------------------------------------------------------------------------

    def start(self, world: World, robot: str, base: int) -> None:
        """Find the group in the model of the scene. Called by ``scene.build()``."""
        model, own = world.model, self.description
        self._world, self._base = world, base
        joints = [model.joint(f"{robot}/{name}").id for name in own.joints]
        self._qpos = _columns([int(model.jnt_qposadr[joint]) for joint in joints])
        self._qvel = _columns([int(model.jnt_dofadr[joint]) for joint in joints])
        self._ctrl = _columns([int(model.actuator(f"{robot}/{name}").id) for name in servo_names(own)])
        self._target = np.tile(self._home, (world.n_envs, 1))
        self.add_child("target", Buffer(torch.from_numpy(self._target), {"target"}))
        self._fields = {name: world.bind(name) for name in _FIELDS}
        on_cpu = world.device.type == "cpu"
        self._arrays = {name: field.numpy() for name, field in self._fields.items()} if on_cpu else {}
        if own.kind == "arm":
            self._chain = self._make_chain(model, f"{robot}/")
            self._tool = np.tile(self._tool, (world.n_envs, 1))
            self._tree = int(model.body_rootid[self._link])
        if own.kind == "gripper":
            self._fingers = [int(model.body(f"{robot}/{name}").id) for name in own.fingers]
            self.finger_geoms: list[np.ndarray] = [
                np.flatnonzero((model.geom_bodyid == body) & (model.geom_contype | model.geom_conaffinity != 0))
                for body in self._fingers
            ]
            """Grippers: ids of the geoms of each finger that can collide."""
            self._apart = _apart(model, robot, own)

    # -- state --------------------------------------------------------------------------------------------------------

    @property
    def qpos(self) -> np.ndarray:
        """Current joint positions (B, n), rad or m."""
        return self._read("qpos", self._qpos)

    @property
    def qvel(self) -> np.ndarray:
        """Current joint velocities (B, n), rad/s or m/s."""
        return self._read("qvel", self._qvel)

    @property
    def target(self) -> np.ndarray:
        """Copy of the current joint targets (B, n), rad or m."""
        self._built()
        return self._target.copy()

    def tcp_pose(self) -> np.ndarray:
        """Return the pose of an arm's tool centre point, world frame, (B, 7): x, y, z in m and (w, x, y, z)."""
        from sensorium.robots import chain_kernels

        self._arm("tcp_pose")
        pose = np.empty_like(self._tool)
        chain_kernels.compose(self._link_pose(self._link), self._tool, pose)
        return pose

    def tcp_twist(self) -> np.ndarray:
        """Return the velocity of an arm's tool centre point, world frame, (B, 6): linear m/s, angular rad/s."""
        from sensorium.robots import chain_kernels

        self._arm("tcp_twist")
        twist = np.empty((len(self._tool), 6))
        chain_kernels.twists(
            self._read("cvel", self._link), self._read("subtree_com", self._tree), self.tcp_pose(), twist
        )
        return twist

    def opening(self) -> np.ndarray:
        """Return the distance between the fingers of a gripper, (B,) m."""
        world = self._built()
        if self.description.kind != "gripper":
            raise OptionError(f"{self.description.name!r} is not a gripper, so it has no opening")
        world.settle()
        first, second = (self._read("xpos", body) for body in self._fingers)
        apart: np.ndarray = np.linalg.norm(first - second, axis=1)
        return apart - self._apart + self.description.width

    # -- inverse kinematics -------------------------------------------------------------------------------------------

    def solve(
        self,
        pose: ArrayLike,
        start: ArrayLike | None = None,
        iterations: int = 50,
        envs: Envs = None,
        restart: bool = True,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Solve inverse kinematics for the tool centre point, with the robot's base at its current pose.

        The simulation is not changed.

        Args:
            pose: (7,) or (m, 7) in the world frame: x, y, z in m and (w, x, y, z).
            start: joint positions to start from, (n,) or (m, n). Default: the current targets.
            iterations: iterations from each start.
            envs: the env of each pose; None for all envs, or for any number of poses if there is one env.
            restart: whether to try other starts if ``start`` does not lead to the goal. Without it, the solution stays
                near ``start``, as needed along a path.

        Returns:
            The best joint positions (m, n) found within limits; and the remaining error to each pose, (m, 2): m, rad.

        Raises:
            OptionError: the group is not an arm, or an argument has the wrong shape or is not finite.
        """
        from sensorium.robots import chain_kernels

        world, chain = self._arm("solve")
        iterations = checked_integer("iterations", iterations, 0, _MAX_ITERATIONS)
        restart = checked_flag("restart", restart)
        index = env_index(envs, world.n_envs, torch.device("cpu"))
        goal = np.atleast_2d(checked_numbers(f"{self.description.name}.solve: pose", pose))
        rows = np.arange(world.n_envs) if index is None else index.numpy(force=True)
        if len(rows) == 1 or (len(goal) == 1 and len(rows)):
            count = max(len(rows), len(goal))
            rows, goal = np.resize(rows, count), np.resize(goal, (count, goal.shape[1]))
        norm = np.linalg.norm(goal[:, 3:], axis=-1, keepdims=True)
        if goal.shape != (len(rows), 7) or not np.isfinite(goal).all() or not (norm > 1e-6).all():
            raise OptionError(
                f"{self.description.name}.solve: pose must have shape (7,) or ({len(rows)}, 7), be finite, and end in "
                f"a quaternion that is not zero; got shape {np.shape(pose)}"
            )
        name = f"{self.description.name}.solve: start"
        first = self._target[rows] if start is None else checked_numbers(name, start)
        if first.shape not in ((goal.shape[0], len(self._home)), (len(self._home),)) or not np.isfinite(first).all():
            raise OptionError(
                f"{self.description.name}.solve: start must have shape ({len(self._home)},) or "
                f"({len(goal)}, {len(self._home)}) and be finite, got shape {first.shape}"
            )
        goal = np.concatenate([goal[:, :3], goal[:, 3:] / norm], axis=1)
        local = np.empty_like(goal)
        chain_kernels.relative(self._link_pose(chain.root)[rows], goal, local)
        return chain.solve(local, np.broadcast_to(first, (len(goal), len(self._home))), iterations, restart)

    def forward(self, joints: np.ndarray) -> np.ndarray:
        """Return the poses (B, 7) of the tool centre point, world frame, at joint positions (B, n)."""
        from sensorium.robots import chain_kernels

        world, chain = self._arm("forward")
        given = self._matrix("joints", joints, slice(None), len(self._home))
        pose = np.empty((world.n_envs, 7))
        chain_kernels.compose(self._link_pose(chain.root), chain.forward(given)[0], pose)
        return pose

    def solve_from_base(self, pose: np.ndarray, rows: np.ndarray | slice, iterations: int) -> np.ndarray:
        """Return joint positions (m, n) for poses (m, 7) in the frame of the robot's base.

        The search starts at the current targets and does not restart elsewhere.
        """
        from sensorium.robots import chain_kernels

        _, chain = self._arm("ee_pose")
        iterations = checked_integer("iterations", iterations, 0, _MAX_ITERATIONS)
        pose = self._matrix("pose", pose, rows, 7)
        goal, local = np.empty_like(pose), np.empty_like(pose)
        chain_kernels.compose(self._link_pose(self._base)[rows], pose, goal)
        chain_kernels.relative(self._link_pose(chain.root)[rows], goal, local)
        return chain.solve(local, self._target[rows], iterations, restart=False)[0]

    # -- moving -------------------------------------------------------------------------------------------------------

    def joints_at(self, fraction: np.ndarray) -> np.ndarray:
        """Return the joint positions (m, n) of a gripper for opening fractions (m,) in [0, 1]."""
        opened = as_array(fraction)
        if opened.ndim != 1 or opened.dtype.kind != "f":
            raise OptionError(f"{self.description.name}: fraction must be numbers (m,), got {fraction!r:.80}")
        return self._closed + opened[:, None] * (self._home - self._closed)

    def aim(self, target: np.ndarray, rows: np.ndarray | slice) -> None:
        """Set the joint targets (m, n) of envs and the controls for them."""
        own, target = self.description, self._matrix("target", target, rows, len(self._home))
        self._target[rows] = target
        control = target
        if own.kind == "gripper" and own.actuators:
            part = (target[:, :1] - self._closed[:1]) / (self._home[:1] - self._closed[:1])
            control = np.repeat(own.closed + part * (own.open - own.closed), len(own.actuators), axis=1)
        _write(self._fields["ctrl"], rows, self._ctrl, control)

    def put(self, position: np.ndarray, rows: np.ndarray | slice) -> None:
        """Set joint positions and targets (m, n) of envs, with zero velocity."""
        position = self._matrix("position", position, rows, len(self._home))
        _write(self._fields["qpos"], rows, self._qpos, position)
        _write(self._fields["qvel"], rows, self._qvel, np.zeros_like(position))
        self.aim(position, rows)

    def put_home(self, rows: np.ndarray | slice) -> None:
        """Set joint positions and targets of envs to home, with zero velocity."""
        self.put(np.broadcast_to(self._home, (self._count(rows), len(self._home))), rows)

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _count(self, rows: np.ndarray | slice) -> int:
        """Return how many envs an index selects; raise OptionError if it is no index."""
        n_envs = self._built().n_envs
        if isinstance(rows, np.ndarray) and rows.ndim == 1 and rows.dtype.kind in "iu":
            if not rows.size or (rows.min() >= 0 and rows.max() < n_envs):
                return len(rows)
        elif isinstance(rows, slice):
            return len(range(n_envs)[rows])
        raise OptionError(f"{self.description.name}: rows must be a slice or ids of envs < {n_envs}, got {rows!r:.80}")

    def _matrix(self, name: str, values: np.ndarray, rows: np.ndarray | slice, width: int) -> np.ndarray:
        """Return values (m, width) for m envs as an array of float64."""
        array, shape = as_array(values), (self._count(rows), width)
        if array.dtype.kind not in "fiu" or array.shape != shape:
            raise OptionError(f"{self.description.name}: {name} must be numbers of shape {shape}, got {values!r:.80}")
        return array.astype(np.float64, copy=False)

    def _read(self, field: str, columns: Columns | int) -> np.ndarray:
        self._built()
        if self._arrays:  # NumPy selects a few columns several times faster than torch
            return self._arrays[field][:, columns].astype(np.float64)
        return self._fields[field][:, columns].numpy(force=True).astype(np.float64)

    def _link_pose(self, body: int) -> np.ndarray:
        """Return the poses (B, 7) of a body in the world frame, including positions written since the last step."""
        world = self._built()
        world.settle()
        return np.concatenate([self._read("xpos", body), self._read("xquat", body)], axis=1)

    def _built(self) -> World:
        if self._world is None:
            raise NotBuiltError(f"{self.description.name!r} has no state before scene.build()")
        return self._world

    def _arm(self, call: str) -> tuple[World, KinematicChain]:
        world = self._built()
        if self._chain is None:
            raise OptionError(f"{call}: {self.description.name!r} is not an arm, so it has no tool centre point")
        return world, self._chain

    def __repr__(self) -> str:
        return f"<{self.description.kind} {self.description.name!r}, {len(self._home)} joints>"


def _limits(model: mujoco.MjModel, name: str, kind: str) -> tuple[float, float]:
    joint = model.joint(name).id
    if int(model.jnt_type[joint]) not in _UNLIMITED:
        raise OptionError(f"joint {name!r} must be a hinge or a slide to be part of a move group")
    if model.jnt_limited[joint]:
        return float(model.jnt_range[joint, 0]), float(model.jnt_range[joint, 1])
    bound = math.inf if kind == "base" else _UNLIMITED[int(model.jnt_type[joint])]
    return -bound, bound


def _height(model: mujoco.MjModel, body: int) -> float:
    """Return an upper bound of the distance from the origin of the model to a link, m."""
    away = 0.0
    while body:
        away += float(np.linalg.norm(model.body_pos[body]))
        joints = model.body_jntadr[body] + np.arange(model.body_jntnum[body])
        slides = joints[model.jnt_type[joints] == int(mujoco.mjtJoint.mjJNT_SLIDE)]
        away += float(np.abs(model.jnt_range[slides]).max(axis=1).sum())
        body = int(model.body_parentid[body])
    return away


def _columns(ids: list[int]) -> Columns:
    """Return an index of columns: a slice if they are contiguous, which is faster."""
    return slice(ids[0], ids[0] + len(ids)) if ids == list(range(ids[0], ids[0] + len(ids))) else ids


def _write(field: torch.Tensor, rows: np.ndarray | slice, columns: Columns, values: np.ndarray) -> None:
    if isinstance(rows, np.ndarray) and isinstance(columns, list):
        rows = rows[:, None]
    if field.device.type == "cpu":
        field.numpy()[rows, columns] = values
    else:
        index = torch.from_numpy(rows).to(field.device) if isinstance(rows, np.ndarray) else rows
        field[index, columns] = torch.from_numpy(np.ascontiguousarray(values)).to(field)


def _apart(model: mujoco.MjModel, robot: str, gripper: MoveGroup) -> float:
    """Return the distance between the origins of the finger links of an open gripper, m."""
    data = mujoco.MjData(model)
    for name, position in zip(gripper.joints, gripper.home, strict=True):
        data.joint(f"{robot}/{name}").qpos = position
    mujoco.mj_kinematics(model, data)
    first, second = (data.body(f"{robot}/{name}").xpos for name in gripper.fingers)
    return float(np.linalg.norm(first - second))
