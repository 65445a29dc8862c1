"""``Manipulator``: a robot of move groups, each with a controller of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import torch
from pydantic import Field, field_validator

from sensorium.errors import NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.pipeline.formula import key
from sensorium.robots.adapt import add_servos, at_home, exclude_touching
from sensorium.robots.group import GroupHandle
from sensorium.robots.move_group import MoveGroup
from sensorium.robots.robot import Action, Robot, RobotOptions
from sensorium.sensors import Sensor
from sensorium.suites import ObservationSensor, tcp_poses
from sensorium.tree import Buffer
from sensorium.worlds import Envs, World, env_index

if TYPE_CHECKING:
    from sensorium.worlds import Scene


class ManipulatorOptions(RobotOptions):
    """All about a robot of move groups; ``robots.make`` fills it in."""

    actions: tuple[Action, ...] = ()
    """Leave it out: what the robot can be told follows from its controllers."""
    move_groups: tuple[MoveGroup, ...] = Field(min_length=1)
    """Its arms, grippers and base, in the order of their actions."""
    controllers: dict[str, str] = {}
    """Move group -> controller, where it shall not be the group's own."""
    action_noise: float = Field(default=0.0, ge=0)
    """Standard deviation of what is added to each action before its controller sees it, as a part of its range."""
    placing: tuple[str, str, str] | None = None
    """Joints of one move group that ``place`` sets: slides along x and y, and a hinge about z. Default: those of a move
    group of kind "base"; where there is none either, only a robot with a free base can be placed."""

    @field_validator("actions")
    @classmethod
    def _names(cls, value: tuple[Action, ...]) -> tuple[Action, ...]:
        if value:
            raise ValueError("must be left out: what the robot can be told follows from its controllers")
        return value

    @field_validator("move_groups")
    @classmethod
    def _group_names(cls, value: tuple[MoveGroup, ...]) -> tuple[MoveGroup, ...]:
        names = [group.name for group in value]
        if len(set(names)) < len(names):
            raise ValueError(f"must each have a name of its own, got {names}")
        return value

    def load_model(self) -> mujoco.MjSpec:
        """The model as a spec of its own, with servos for the move groups that name no actuators, and without contacts
        between links that touch at home."""
        spec = super().load_model()
        _check_groups(self, spec)
        bare = [group for group in self.move_groups if not group.actuators]
        if bare:
            add_servos(spec, bare)
        exclude_touching(spec, self.move_groups)
        return spec


class Manipulator(Robot):
    """A robot that acts by move groups: ``robot = scene.add_module("robot", sn.robots.make("franka"))``.

    Buffers: those of :class:`Robot`; ``groups.NAME.target`` (B, n), the joint targets of each move group; and, with
    action noise, ``draws`` (B,), how often it was drawn.

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

    def __init__(self, options: ManipulatorOptions | None = None, **values: Any) -> None:
        super().__init__(options, **values)
        model = self._spec.compile()
        controllers = self.options.controllers
        self.groups: dict[str, GroupHandle] = {
            group.name: GroupHandle(group, controllers.get(group.name, group.controller), model)
            for group in self.options.move_groups
        }
        bases = [group.joints for group in self.options.move_groups if group.kind == "base"]
        self._placing: tuple[str, ...] | None = self.options.placing or (bases[0] if bases else None)
        self._keys: np.ndarray | None = None  # of action noise
        self._slices: dict[str, slice] = {}
        for name, group in self.groups.items():
            first = self.n_actions
            self._slices[name] = slice(first, first + len(group.controller.names))

    def _at_start(self, spec: mujoco.MjSpec) -> tuple[mujoco.MjModel, mujoco.MjData]:
        return at_home(spec, self.options.move_groups)

    # -- what it can be told ------------------------------------------------------------------------------------------

    @property
    def n_actions(self) -> int:
        """How many numbers an action has."""
        return max((each.stop for each in self._slices.values()), default=0)

    @property
    def action_names(self) -> list[str]:
        """What they are called: "arm.joint1", "gripper.opening", "base.forward", ..."""
        return [f"{name}.{each}" for name, group in self.groups.items() for each in group.controller.names]

    @property
    def action_limits(self) -> torch.Tensor:
        """Least and greatest values, (n_actions, 2)."""
        return torch.from_numpy(np.concatenate([group.controller.limits for group in self.groups.values()])).float()

    @property
    def action_slices(self) -> dict[str, slice]:
        """Move group -> which numbers of an action are its own."""
        return dict(self._slices)

    def act(self, action: Any, envs: Envs = None) -> None:
        """Tell the controllers what to do from the next step on. Call it once a step.

        Args:
            action: (n_actions,) or (B, n_actions); or a mapping from move groups to their part of it, where those that
                are left out keep their targets. Cut off at ``action_limits``.
            envs: which envs; None for all. ``action`` then has one row for each.
        """
        world = self._built("act")
        index = env_index(envs, world.n_envs, torch.device("cpu"))
        rows: np.ndarray | slice = slice(None) if index is None else index.numpy(force=True)
        count = world.n_envs if index is None else len(index)
        if isinstance(action, Mapping):
            for name in action:
                if name not in self.groups:
                    hint = did_you_mean(str(name), self.groups) or f"; it has {shorten(self.groups)}"
                    raise NameNotFoundError(f"{self.name}.act: there is no move group {name!r}{hint}")
            told = {name: self._told(name, action[name], count, self._slices[name]) for name in action}
        else:
            told = self._split(self._told(", ".join(self.groups), action, count, slice(0, self.n_actions)))
        targets = {}
        for name, part in told.items():  # all of them before any is written, for one may fail
            noisy = part if self._keys is None else self._disturb(part, self._keys, rows, self._slices[name])
            targets[name] = self.groups[name].controller.decide(noisy, rows, self._dt)
        if self._keys is not None:
            self._drawn[rows] += 1
        for name, target in targets.items():
            self.groups[name].aim(target, rows)
            self._note(rows, self._slices[name], told[name])

    def set_noise_step(self, step: int) -> None:
        """Let the noise of actions, which depends on the scene's seed and on a count of actions, go on from another."""
        if self._keys is not None:
            self._drawn[:] = step

    def _split(self, told: np.ndarray) -> dict[str, np.ndarray]:
        return {name: told[:, columns] for name, columns in self._slices.items()}

    def _told(self, name: str, action: Any, rows: int, columns: slice) -> np.ndarray:
        """Numbers of a move group (or of several), checked and within limits, (rows, n)."""
        n = columns.stop - columns.start
        array = action.numpy(force=True) if isinstance(action, torch.Tensor) else np.asarray(action)
        if array.dtype.kind not in "fiu":
            raise OptionError(f"{self.name}.act: action of {name} must be numbers, got {array.dtype}")
        if array.shape not in ((n,), (1, n), (rows, n)):
            names = ", ".join(self.action_names[columns])
            raise OptionError(
                f"{self.name}.act: action of {name} must have shape ({n},) or ({rows}, {n}) for {names}; "
                f"got {array.shape}"
            )
        if not np.isfinite(array).all():
            column = columns.start + int(np.argwhere(~np.isfinite(np.atleast_2d(array)))[0, 1])
            raise OptionError(f"{self.name}.act: {self.action_names[column]} must be finite, got NaN or infinity")
        told = np.empty((rows, n))
        np.clip(array, self._least[columns], self._greatest[columns], out=told)
        return told

    def _disturb(self, told: np.ndarray, keys: np.ndarray, rows: np.ndarray | slice, columns: slice) -> np.ndarray:
        """Actions with noise, within limits."""
        from sensorium.robots.noise_kernels import add_noise

        least, greatest = self._least[columns], self._greatest[columns]
        noisy, envs = told.copy(), np.arange(len(self._drawn))[rows]
        add_noise(noisy, keys[columns], envs, self._drawn, self.options.action_noise * (greatest - least))
        return np.clip(noisy, least, greatest, out=noisy)

    def _note(self, rows: np.ndarray | slice, columns: slice, told: np.ndarray) -> None:
        value = self.action.value
        if value.device.type == "cpu":
            value.numpy()[rows, columns] = told
        else:
            index = torch.from_numpy(rows).to(value.device) if isinstance(rows, np.ndarray) else rows
            value[index, columns] = torch.from_numpy(told).to(value)

    # -- where it is --------------------------------------------------------------------------------------------------

    def set_home(self, envs: Envs = None) -> None:
        """Put joints and targets of envs to home, at rest, as ``scene.reset(envs)`` does; call ``scene.forward(envs)``
        after it."""
        world = self._built("set_home")
        for group in self.groups.values():
            group.put_home(self._rows(envs))
        world.changes.write(envs)

    def disturb(self, envs: np.ndarray, most: float, draws: Sequence[np.random.Generator]) -> None:
        """Move the joints of arms, and their targets, by up to ``most`` radians, drawn from one generator an env."""
        for group in self.groups.values():
            if group.description.kind == "arm":
                off = np.stack([draw.uniform(-most, most, len(group.limits)) for draw in draws])
                group.put(np.clip(group.target[envs] + off, *group.limits.T), envs)

    def create_robot_sensors(self) -> list[ObservationSensor | Sensor[Any]]:
        """What the robot contributes to a suite: ``tcp_pose`` (or ``_left``, ``_right``), and what its rig senses."""
        return [*tcp_poses(self), *super().create_robot_sensors()]

    @property
    def can_be_placed(self) -> bool:
        """Whether :meth:`place` can stand it elsewhere."""
        return self._placing is not None or super().can_be_placed

    def place(self, xy: Any, yaw: Any, envs: Envs = None) -> None:
        """Stand the robot somewhere on the ground, at rest; call ``scene.forward(envs)`` after it.

        Args:
            xy: (2,) or (n, 2) metres in the world.
            yaw: heading, one number or (n,), rad.
            envs: which envs; None for all.
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
        start, cosine, sine = np.array(self.options.pos[:2]), math.cos(self.options.yaw), math.sin(self.options.yaw)
        away = spots - start
        turned = turns - self.options.yaw
        columns = [group.description.joints.index(name) for name in placing]
        position[:, columns[0]] = cosine * away[..., 0] + sine * away[..., 1]
        position[:, columns[1]] = cosine * away[..., 1] - sine * away[..., 0]
        position[:, columns[2]] = np.arctan2(np.sin(turned), np.cos(turned))
        group.put(position, rows)
        world.changes.write(envs)

    def hold(self, envs: Envs = None) -> None:
        """Stay: the targets become where the joints are now. Grippers keep theirs, by which they hold things."""
        self._built("hold")
        rows = self._rows(envs)
        for group in self.groups.values():
            if group.description.kind != "gripper":
                group.aim(group.qpos[rows], rows)

    def _rows(self, envs: Envs) -> np.ndarray | slice:
        index = env_index(envs, self._built("envs").n_envs, torch.device("cpu"))
        return slice(None) if index is None else index.numpy(force=True)

    # -- part of the scene --------------------------------------------------------------------------------------------

    def start(self, scene: Scene) -> None:
        """Find the move groups in the model, make the buffers, and stand at home."""
        super().start(scene)
        self._dt = scene.dt
        if self.options.action_noise:
            keys = [key(scene.seed, f"{self.name} action noise", element) for element in range(self.n_actions)]
            self._keys = np.array(keys, dtype=np.uint32)
        for group in self.groups.values():
            group.start(scene.world, self.name, self._body)
        self.set_home()
        scene.forward()

    def on_reset(self, envs: Envs) -> None:
        """Stand at home again, and told nothing."""
        super().on_reset(envs)
        self.set_home(envs)

    def _start_actions(self, world: World) -> None:
        if self.options.action_noise:
            self._drawn = np.zeros(world.n_envs, np.int64)
            self.draws = Buffer(torch.from_numpy(self._drawn), {"action"})
        limits = np.concatenate([group.controller.limits for group in self.groups.values()])
        self._least, self._greatest = np.ascontiguousarray(limits.T)

    def __repr__(self) -> str:
        groups = {name: group.controller.name for name, group in self.groups.items()}
        return f"<Manipulator {self.name!r}, controllers {groups}>"


def _check_groups(options: ManipulatorOptions, spec: mujoco.MjSpec) -> None:
    """Whether all that the move groups name is there."""
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
