"""``Manipulator``: a robot with move groups, each with its own controller."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import torch
from pydantic import Field, field_validator

from sensorium._arguments import as_array, checked, checked_number
from sensorium._tensors import host_array
from sensorium.errors import NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.options import checked_integer
from sensorium.pipeline.formula import key
from sensorium.robots.adapt import add_servos, at_home, exclude_touching
from sensorium.robots.group import GroupHandle
from sensorium.robots.move_group import MoveGroup
from sensorium.robots.robot import Robot
from sensorium.robots.robot_options import Action, RobotOptions, start_pose
from sensorium.sensors import Sensor
from sensorium.tree import Buffer
from sensorium.worlds import ArrayLike, Envs, World, env_index
from sensorium.worlds.initial_pose import JointPositions, find_pose

if TYPE_CHECKING:
    from sensorium.suites import ObservationSensor
    from sensorium.worlds import Scene


class ManipulatorOptions(RobotOptions):
    """Complete description of a robot with move groups. ``sn.robots.make`` fills it in."""

    actions: tuple[Action, ...] = ()
    """Must be empty: the actions follow from the controllers."""
    move_groups: tuple[MoveGroup, ...] = Field(min_length=1)
    """Arms, grippers and base, in the order of their actions."""
    controllers: dict[str, str] = {}
    """Move group -> controller, instead of the one that the group names."""
    action_noise: float = Field(default=0.0, ge=0)
    """Standard deviation of the noise added to each action before its controller, as a fraction of its range."""
    placing: tuple[str, str, str] | None = None
    """Joints of one move group that ``place`` sets: slides along x and y, and a hinge about z. Default: those of a move
    group of kind "base". Without either, only a robot with a free base can be placed."""

    @field_validator("actions")
    @classmethod
    def _names(cls, value: tuple[Action, ...]) -> tuple[Action, ...]:
        if value:
            raise ValueError("must not be set: the controllers define the actions")
        return value

    @field_validator("move_groups")
    @classmethod
    def _group_names(cls, value: tuple[MoveGroup, ...]) -> tuple[MoveGroup, ...]:
        names = [group.name for group in value]
        if len(set(names)) < len(names):
            raise ValueError(f"each move group must have a name of its own, got {names}")
        return value

    def load_model(self) -> mujoco.MjSpec:
        """Return the model as a new spec.

        Servos are added for the move groups that name no actuators. Contacts between links that touch at home are
        excluded.
        """
        spec = super().load_model()
        _check_groups(self, spec)
        bare = [group for group in self.move_groups if not group.actuators]
        if bare:
            add_servos(spec, bare)
        exclude_touching(spec, self.move_groups)
        return spec


class Manipulator(Robot):
    """A robot with move groups: ``robot = scene.add_robot("franka", name="robot")``.

    Buffers: those of :class:`Robot`; ``groups.NAME.target`` (B, n), the joint targets of each move group; and, with
    action noise, ``draws`` (B,), the number of actions so far.

    Attributes:
        groups: name -> move group, in the order of their actions.

    Example:
        >>> robot.act({"gripper": [0.5]})
        >>> scene.step(50)
        >>> robot.groups["gripper"].opening()
        array([0.03])
    """

    options_type = ManipulatorOptions
    options: ManipulatorOptions

    def __init__(self, options: ManipulatorOptions | None = None, **values: object) -> None:
        super().__init__(options, **values)
        self._groups_pose = start_pose(self.options)
        self.groups: dict[str, GroupHandle] = self._make_groups()
        bases = [group.joints for group in self.options.move_groups if group.kind == "base"]
        self._placing: tuple[str, ...] | None = self.options.placing or (bases[0] if bases else None)
        self._noise_keys: np.ndarray | None = None
        self._slices: dict[str, slice] = {}
        for name, group in self.groups.items():
            first = self.n_actions
            self._slices[name] = slice(first, first + len(group.controller.names))

    def _make_groups(self) -> dict[str, GroupHandle]:
        """Return the move groups by name. Their home is the initial pose of the robot where the options set one."""
        pose = find_pose(self._spec, self.options.joint_positions, self.options.keyframe, "add_robot")
        joints = {} if pose is None else pose.joints
        model, controllers = self._spec.compile(), self.options.controllers
        groups = {}
        for group in self.options.move_groups:
            home = group.home
            if group.kind == "gripper":
                _check_gripper(group, self.options.joint_positions)
            else:
                home = tuple(float(joints.get(name, [at])[0]) for name, at in zip(group.joints, home, strict=True))
            group = group.model_copy(update={"home": home})
            groups[group.name] = GroupHandle(group, controllers.get(group.name, group.controller), model)
        return groups

    def _at_start(self, spec: mujoco.MjSpec) -> tuple[mujoco.MjModel, mujoco.MjData]:
        return at_home(spec, [group.description for group in self.groups.values()])

    # -- actions ------------------------------------------------------------------------------------------------------

    @property
    def n_actions(self) -> int:
        return max((each.stop for each in self._slices.values()), default=0)

    @property
    def action_names(self) -> list[str]:
        """Names of the values in an action: "arm.joint1", "gripper.opening", "base.forward", ..."""
        return [f"{name}.{each}" for name, group in self.groups.items() for each in group.controller.names]

    @property
    def action_limits(self) -> torch.Tensor:
        return torch.from_numpy(np.concatenate([group.controller.limits for group in self.groups.values()])).float()

    @property
    def action_slices(self) -> dict[str, slice]:
        """Move group -> its part of an action."""
        return dict(self._slices)

    def act(self, action: ArrayLike | Mapping[str, ArrayLike], envs: Envs = None) -> None:
        """Give the controllers the action that they apply from the next step on. Call it once per step.

        Args:
            action: (n_actions,) or (B, n_actions), clipped to ``action_limits``; or a mapping from move groups to their
                part of it. Groups that the mapping does not contain keep their targets.
            envs: which envs; None for all. ``action`` then has one row for each.

        Raises:
            OptionError: the action has the wrong shape or is not finite.
            NameNotFoundError: there is no such move group.
        """
        world = self._built("act")
        index = env_index(envs, world.n_envs, torch.device("cpu"))
        rows: np.ndarray | slice = slice(None) if index is None else index.numpy(force=True)
        count = world.n_envs if index is None else len(index)
        if isinstance(action, Mapping):
            self._check_groups(action)
            commands = {name: self._clipped(name, action[name], count, self._slices[name]) for name in action}
        else:
            whole = self._clipped(", ".join(self.groups), action, count, slice(0, self.n_actions))
            commands = {name: whole[:, columns] for name, columns in self._slices.items()}
        targets = {}
        for name, command in commands.items():  # all targets before any is written: a controller may raise
            if self._noise_keys is None:
                noisy = command
            else:
                noisy = self._add_noise(command, self._noise_keys, rows, self._slices[name])
            targets[name] = self.groups[name].controller.decide(noisy, rows, self._dt)
        if self._noise_keys is not None:
            self._drawn[rows] += 1
        for name, target in targets.items():
            self.groups[name].aim(target, rows)
            self._note(rows, self._slices[name], commands[name])

    def set_noise_step(self, step: int) -> None:
        """Set the number of actions that action noise counts from.

        The noise depends on the seed of the scene and on that number.
        """
        step = checked_integer("step", step)
        if self._noise_keys is not None:
            self._drawn[:] = step

    def _clipped(self, name: str, action: ArrayLike, rows: int, columns: slice) -> np.ndarray:
        """Validate the action of one or several move groups and return it within limits, (rows, n)."""
        n = columns.stop - columns.start
        try:
            array = action.numpy(force=True) if isinstance(action, torch.Tensor) else as_array(action)
        except (TypeError, RuntimeError):
            array = host_array(f"{self.name}.act: action of {name}", torch.as_tensor(action))
        if array.dtype.kind not in "fiu":
            raise OptionError(f"{self.name}.act: action of {name} must be numbers, got {action!r:.80}")
        if array.shape not in ((n,), (1, n), (rows, n)):
            names = ", ".join(self.action_names[columns])
            raise OptionError(
                f"{self.name}.act: action of {name} must have shape ({n},) or ({rows}, {n}) for {names}; "
                f"got {array.shape}"
            )
        if not np.isfinite(array).all():
            column = columns.start + int(np.argwhere(~np.isfinite(np.atleast_2d(array)))[0, 1])
            raise OptionError(f"{self.name}.act: {self.action_names[column]} must be finite, got NaN or infinity")
        command = np.empty((rows, n))
        np.clip(array, self._min_action[columns], self._max_action[columns], out=command)
        return command

    def _add_noise(self, command: np.ndarray, keys: np.ndarray, rows: np.ndarray | slice, columns: slice) -> np.ndarray:
        """Return an action with noise, within limits."""
        from sensorium.robots.noise_kernels import add_noise

        low, high = self._min_action[columns], self._max_action[columns]
        noisy, envs = command.copy(), np.arange(len(self._drawn))[rows]
        add_noise(noisy, keys[columns], envs, self._drawn, self.options.action_noise * (high - low))
        return np.clip(noisy, low, high, out=noisy)

    def _note(self, rows: np.ndarray | slice, columns: slice, command: np.ndarray) -> None:
        """Write a part of the ``action`` buffer."""
        value = self.action.value
        if value.device.type == "cpu":
            value.numpy()[rows, columns] = command
        else:
            index = torch.from_numpy(rows).to(value.device) if isinstance(rows, np.ndarray) else rows
            value[index, columns] = torch.from_numpy(command).to(value)

    # -- state --------------------------------------------------------------------------------------------------------

    def set_home(self, envs: Envs = None) -> None:
        """Set joint positions and targets of envs to home, with zero velocity, as ``scene.reset(envs)`` does.

        Call ``scene.forward(envs)`` afterwards.
        """
        world = self._built("set_home")
        for group in self.groups.values():
            group.put_home(self._rows(envs))
        world.changes.write(envs)

    @checked
    def disturb(self, envs: Envs, max_offset: float, rngs: Sequence[np.random.Generator]) -> None:
        """Move the joints of arms and their targets by random offsets.

        Args:
            envs: ids of the envs.
            max_offset: bound of the offsets, rad.
            rngs: one random generator per env.
        """
        rows, max_offset = self._rows(envs), checked_number("max_offset", max_offset, 0.0)
        if isinstance(rngs, torch.Tensor):
            raise OptionError(f"rngs must be one random generator of NumPy per env, got {rngs!r:.80}")
        for group in self.groups.values():
            if group.description.kind == "arm" and len(rngs):
                generators = all(isinstance(each, np.random.Generator) for each in rngs)
                if not generators or len(rngs) != len(group.target[rows]):
                    raise OptionError(f"rngs must be one random generator of NumPy per env, got {rngs!r:.80}")
                offsets = np.stack([rng.uniform(-max_offset, max_offset, len(group.limits)) for rng in rngs])
                group.put(np.clip(group.target[rows] + offsets, *group.limits.T), rows)

    def create_robot_sensors(self) -> list[ObservationSensor | Sensor[Any]]:
        """Return the robot's sensors for a suite: ``tcp_pose`` (or ``_left``, ``_right``), and those of its rig."""
        from sensorium.suites import tcp_poses  # imports Gymnasium, which most scenes do not need

        return [*tcp_poses(self), *super().create_robot_sensors()]

    @property
    def can_be_placed(self) -> bool:
        """Whether :meth:`place` can move the robot."""
        return self._placing is not None or super().can_be_placed

    def place(self, xy: ArrayLike, yaw: ArrayLike, envs: Envs = None) -> None:
        """Move the robot to a place on the ground, with zero velocity. Call ``scene.forward(envs)`` afterwards.

        Args:
            xy: (2,) or (n, 2) m, world frame.
            yaw: heading in rad, a number or (n,).
            envs: which envs; None for all.

        Raises:
            OptionError: the base is fixed, or an argument has the wrong shape or is not finite.
        """
        world, placing = self._built("place"), self._placing
        if placing is None:
            super().place(xy, yaw, envs)
            return
        rows = self._rows(envs)
        group = next(group for group in self.groups.values() if placing[0] in group.description.joints)
        position = group.qpos[rows]
        spots, turns = np.asarray(xy, dtype=np.float64), np.asarray(yaw, dtype=np.float64)
        fits = spots.shape in ((2,), (len(position), 2)) and turns.shape in ((), (len(position),))
        if not fits or not (np.isfinite(spots).all() and np.isfinite(turns).all()):
            raise OptionError(
                f"{self.name}.place: xy must have shape (2,) or ({len(position)}, 2), yaw () or ({len(position)},), "
                f"and both be finite; got {xy!r} and {yaw!r}"
            )
        heading = self.options.heading
        start, cosine, sine = np.array(self.options.pos[:2]), math.cos(heading), math.sin(heading)
        away = spots - start
        turned = turns - heading
        columns = [group.description.joints.index(name) for name in placing]
        position[:, columns[0]] = cosine * away[..., 0] + sine * away[..., 1]
        position[:, columns[1]] = cosine * away[..., 1] - sine * away[..., 0]
        position[:, columns[2]] = np.arctan2(np.sin(turned), np.cos(turned))
        group.put(position, rows)
        world.changes.write(envs)

    def hold(self, envs: Envs = None) -> None:
        """Set the targets of envs to the current joint positions. Grippers keep theirs, to hold what they hold."""
        self._built("hold")
        rows = self._rows(envs)
        for group in self.groups.values():
            if group.description.kind != "gripper":
                group.aim(group.qpos[rows], rows)

    def _rows(self, envs: Envs) -> np.ndarray | slice:
        index = env_index(envs, self._built("envs").n_envs, torch.device("cpu"))
        return slice(None) if index is None else index.numpy(force=True)

    # -- SceneModule --------------------------------------------------------------------------------------------------

    def attach(self, scene: Scene, name: str) -> None:
        """Add the model and the sensors to the scene."""
        if start_pose(self.options) != self._groups_pose:  # ``scene.add_robot`` set another one
            self.groups = self._make_groups()
            self._groups_pose = start_pose(self.options)
        super().attach(scene, name)

    def start(self, scene: Scene) -> None:
        """Find the move groups in the model, create the buffers, and move to home."""
        super().start(scene)
        self._dt = scene.dt
        if self.options.action_noise:
            keys = [key(scene.seed, f"{self.name} action noise", element) for element in range(self.n_actions)]
            self._noise_keys = np.array(keys, dtype=np.uint32)
        for group in self.groups.values():
            group.start(scene.world, self.name, self._base_id())
        self.set_home()
        scene.forward()

    def on_reset(self, envs: Envs) -> None:
        """Move to home and set the action of envs to 0."""
        super().on_reset(envs)
        self.set_home(envs)

    def _start_actions(self, world: World) -> None:
        if self.options.action_noise:
            self._drawn = np.zeros(world.n_envs, np.int64)
            self.draws = Buffer(torch.from_numpy(self._drawn), {"action"})
        limits = np.concatenate([group.controller.limits for group in self.groups.values()])
        self._min_action, self._max_action = np.ascontiguousarray(limits.T)

    def __repr__(self) -> str:
        groups = {name: group.controller.name for name, group in self.groups.items()}
        return f"<Manipulator {self.name!r}, controllers {groups}>"


def _check_gripper(gripper: MoveGroup, positions: JointPositions) -> None:
    """Raise OptionError if initial positions name joints of a gripper, which starts open."""
    for pattern in positions:
        named = [name for name in gripper.joints if name == pattern or re.fullmatch(pattern, name)]
        if named:
            raise OptionError(
                f"add_robot: joint_positions[{pattern!r}] matches {named[0]!r}, a joint of the gripper "
                f"{gripper.name!r}, which starts open; name joints of arms only, or close it by robot.act"
            )


def _check_groups(options: ManipulatorOptions, spec: mujoco.MjSpec) -> None:
    """Raise NameNotFoundError or OptionError unless the model has everything that the options name."""
    joints, actuators, bodies, sites = (
        [each.name for each in kind if each.name] for kind in (spec.joints, spec.actuators, spec.bodies[1:], spec.sites)
    )
    groups = {group.name: group for group in options.move_groups}
    for group in groups.values():
        for what, wanted, known in (
            ("joint", group.joints, joints),
            ("actuator", group.actuators, actuators),
            ("site or link", () if group.tcp is None else (group.tcp,), [*sites, *bodies]),
            ("link", group.fingers, bodies),
        ):
            for name in wanted:
                if name not in known:
                    hint = did_you_mean(name, known) or f"; it has {shorten(known)}"
                    raise NameNotFoundError(f"move group {group.name!r}: the model has no {what} named {name!r}{hint}")
        if group.gripper is not None and group.gripper not in groups:
            hint = did_you_mean(group.gripper, groups)
            raise NameNotFoundError(f"move group {group.name!r}: there is no move group {group.gripper!r}{hint}")
    if options.placing is not None and not any(set(options.placing) <= set(group.joints) for group in groups.values()):
        raise OptionError(f"placing must name joints of one move group, got {options.placing}")
    for name in options.controllers:
        if name not in groups:
            hint = did_you_mean(name, groups) or f"; it has {shorten(groups)}"
            raise NameNotFoundError(f"controllers: there is no move group {name!r}{hint}")
