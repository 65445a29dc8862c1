"""``Robot``: a model that acts in units of its own, with its sensors, as one part of a scene."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import mujoco
import numpy as np
import torch
from pydantic import Field, field_validator

from sensorium.errors import NameNotFoundError, NotBuiltError, OptionError, did_you_mean, shorten
from sensorium.options import Options
from sensorium.robots.drive import Drive
from sensorium.robots.rig import Rig, SensorRig
from sensorium.sensors import Sensor
from sensorium.tree import Buffer
from sensorium.worlds import Entity, Envs, SceneModule, World, env_index, upload
from sensorium.worlds.compose import load_spec

if TYPE_CHECKING:
    from sensorium.suites import ObservationSensor
    from sensorium.worlds import Scene

_STATE = frozenset({"state"})


class Action(Options):
    """One number that a robot is told in each step, and the actuators that it drives.

    Scenarios that drive somewhere look for the names "forward" (m/s), "turn" (rad/s, counter-clockwise) and, on robots
    that have it, "left" (m/s).
    """

    name: str = Field(min_length=1)
    """What it is called."""
    limits: tuple[float, float]
    """Least and greatest value; what is beyond is cut off."""
    actuators: dict[str, float]
    """Actuator -> gain: its control is the sum of gain times value over all actions that drive it."""

    @field_validator("limits")
    @classmethod
    def _limits(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not value[0] < value[1]:
            raise ValueError("must be (min, max) with min < max")
        return value

    @field_validator("actuators")
    @classmethod
    def _actuators(cls, value: dict[str, float]) -> dict[str, float]:
        if not value:
            raise ValueError("name at least one actuator")
        return value


class RobotOptions(Options):
    """All about a robot; ``robots.make`` fills it in."""

    kind: str = ""
    """Which of our own robots it is, as "franka"; empty for others."""
    model: str
    """The model: MJCF or URDF text. The base stands on the ground at z = 0 of the model's frame, x forward."""
    assets: dict[str, str] = {}
    """Files that the model needs (meshes, textures, parts of it in MJCF): name -> content in base64."""
    base: str
    """The link whose pose is the robot's, and on which sensors sit by default."""
    actions: tuple[Action, ...]
    """What the robot can be told."""
    radius: float | None = Field(default=None, gt=0)
    """Radius of a vertical cylinder around the base that holds the robot, m. Default: from its geometry at start."""
    rig: SensorRig = SensorRig()
    """Its sensors."""
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Where it starts, m in the world."""
    yaw: float = 0.0
    """Heading at the start, rad."""

    @field_validator("actions")
    @classmethod
    def _names(cls, value: tuple[Action, ...]) -> tuple[Action, ...]:
        names = [action.name for action in value]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"must hold at least one action, each with a name of its own; got {names}")
        return value

    def load_model(self) -> mujoco.MjSpec:
        """The model as a spec of its own."""
        if not self.assets:
            return load_spec(self.model)
        files = {name: base64.b64decode(content) for name, content in self.assets.items()}
        parts = {name: content for name, content in files.items() if name.endswith(".xml")}
        others = {name: content for name, content in files.items() if name not in parts}
        return mujoco.MjSpec.from_string(self.model, include=parts, assets=others)


class Robot(SceneModule[RobotOptions]):
    """A robot in a scene: ``robot = scene.add_module("robot", sn.robots.make("diffdrive"))``.

    Buffers, float32, filled by ``update_state()``: ``position`` (B, 3) m, ``orientation`` (B, 4) as (w, x, y, z),
    ``linear_velocity`` (B, 3) m/s and ``angular_velocity`` (B, 3) rad/s of the base link in the world frame;
    ``joint_positions`` and ``joint_velocities`` (B, n) of its hinges and slides; all tagged "state". ``action``
    (B, n_actions), what it was told last, tagged "action". Its sensors are below ``rig``.

    Attributes:
        name: its name in the scene.
        rig: its sensors by name.
        radius: of a vertical cylinder around the base that holds it, m.
        groups: its move groups by name: "base", a :class:`Drive`, where it has the actions "forward" and "turn".
    """

    options_type: ClassVar[type[RobotOptions]] = RobotOptions

    def __init__(self, options: RobotOptions | None = None, **values: Any) -> None:
        super().__init__(options, **values)
        self.name = ""
        self._entity: Entity
        self._world: World | None = None
        self._spec = spec = self.options.load_model()
        self._own = {each.name for kind in (spec.bodies, spec.sites, spec.joints) for each in kind if each.name}
        _check_model(self.options, spec)
        self.radius = self.options.radius or _radius(*self._at_start(spec), self.options.base)
        drives = {"forward", "turn"} <= {action.name for action in self.options.actions}
        self.groups: Mapping[str, Any] = {"base": Drive(self)} if drives else {}

    def _at_start(self, spec: mujoco.MjSpec) -> tuple[mujoco.MjModel, mujoco.MjData]:
        """The robot by itself, as it stands at the start."""
        model = spec.compile()
        data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, data)
        return model, data

    # -- what it can be told ------------------------------------------------------------------------------------------

    @property
    def n_actions(self) -> int:
        """How many numbers an action has."""
        return len(self.options.actions)

    @property
    def action_names(self) -> list[str]:
        """What they are called."""
        return [action.name for action in self.options.actions]

    @property
    def action_limits(self) -> torch.Tensor:
        """Least and greatest values, (n_actions, 2)."""
        return torch.tensor([action.limits for action in self.options.actions])

    @property
    def action_slices(self) -> dict[str, slice]:
        """Move group -> which numbers of an action are its own."""
        return dict.fromkeys(self.groups, slice(0, self.n_actions))

    def act(self, action: Any, envs: Envs = None) -> None:
        """Tell the robot what to do from the next step on, until it is told otherwise or reset.

        Args:
            action: (n_actions,) or (B, n_actions) in the robot's own units; cut off at ``action_limits``. Or a mapping
                from move groups to the numbers that are theirs.
            envs: which envs; None for all. ``action`` then has one row for each.
        """
        world = self._built("act")
        index = env_index(envs, world.n_envs, world.device)
        rows = world.n_envs if index is None else len(index)
        told = self._numbers(action)
        if tuple(told.shape) not in ((self.n_actions,), (1, self.n_actions), (rows, self.n_actions)):
            raise OptionError(
                f"{self.name}.act: action must have shape ({self.n_actions},) or ({rows}, {self.n_actions}) for "
                f"{', '.join(self.action_names)}; got {tuple(told.shape)}"
            )
        told = told.float().cpu() if world.device.type == "cpu" else told.float()
        if told.device.type == "cpu" and not bool(torch.isfinite(told).all()):
            raise OptionError(f"{self.name}.act: action must be finite, got NaN or infinity")
        told = upload(told, world.device).expand(rows, self.n_actions)
        told = torch.clamp(told, self._least, self._greatest)
        control = told[:, :1] * self._gains[0]
        for number in range(1, self.n_actions):  # term by term: a product of matrices rounds by the batch size
            control = control + told[:, number : number + 1] * self._gains[number]
        if index is None:
            self._ctrl[:, self._columns] = control
            self.action.value.copy_(told)
        else:
            ctrl = self._ctrl[index]
            ctrl[:, self._columns] = control
            self._ctrl[index] = ctrl
            self.action.value[index] = told

    def _numbers(self, action: Any) -> torch.Tensor:
        if isinstance(action, Mapping):
            for name in action:
                if name not in self.groups:
                    hint = did_you_mean(str(name), self.groups) or f"; it has {shorten(self.groups)}"
                    raise NameNotFoundError(f"{self.name}.act: there is no move group {name!r}{hint}")
            if len(action) != 1:
                raise OptionError(f"{self.name}.act: a mapping must have one move group, got {list(action)}")
            (action,) = action.values()
        array = action if isinstance(action, torch.Tensor) else np.asarray(action)
        if isinstance(array, np.ndarray) and array.dtype.kind not in "fiu":
            raise OptionError(f"{self.name}.act: action must be numbers, got {action!r}")
        return torch.as_tensor(array)

    def on_reset(self, envs: Envs) -> bool | None:
        """It was told nothing yet."""
        world, action = self._built("on_reset"), self.action.value
        if envs is None:
            action.zero_()
        elif isinstance(envs, torch.Tensor) and envs.dtype == torch.bool:  # counting them would wait for a device
            action.masked_fill_(envs.to(action.device)[:, None], 0.0)
        else:
            index = env_index(envs, world.n_envs, world.device)
            assert index is not None
            action.index_fill_(0, index, 0.0)
        return False

    # -- where it is --------------------------------------------------------------------------------------------------

    def get_pose(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Position (B, 3) in metres and orientation (B, 4) as (w, x, y, z) of the base link, in the world frame."""
        self._built("get_pose")
        if self._is_root:
            return self._entity.get_pose()
        return self._xpos[:, self._body].float(), self._xquat[:, self._body].float()

    def base_pose(self) -> np.ndarray:
        """Pose of the base link in the world frame, (B, 7) float64: x, y, z in metres, (w, x, y, z)."""
        world = self._built("base_pose")
        world.settle()
        pose = np.empty((world.n_envs, 7))
        for field, part in ((self._xpos, pose[:, :3]), (self._xquat, pose[:, 3:])):
            if field.device.type == "cpu":  # NumPy looks a column up some times faster than torch does
                part[:] = field.numpy()[:, self._body]
            else:
                part[:] = field[:, self._body].numpy(force=True)
        return pose

    def in_base_frame(self, pose: np.ndarray) -> np.ndarray:
        """Poses (B, 7) float64 in the frame of the base link, of poses (B, 7) in the world frame."""
        from sensorium.robots import chain_kernels

        seen = np.empty_like(pose)
        chain_kernels.relative(self.base_pose(), pose, seen)
        return seen

    def way_in_base_frame(self, start: np.ndarray, goal: np.ndarray, dt: float) -> tuple[np.ndarray, np.ndarray]:
        """Goals (B, 7), and the velocities (B, 6), linear m/s and angular rad/s, that lead there from starts (B, 7) in
        ``dt`` seconds: in the frame of the base link, of poses in the world frame."""
        from sensorium.robots import chain_kernels

        base, seen, there = self.base_pose(), np.empty_like(start), np.empty_like(goal)
        twist = np.empty((len(goal), 6))
        chain_kernels.relative(base, start, seen)
        chain_kernels.relative(base, goal, there)
        chain_kernels.between(seen, there, dt, twist)
        return there, twist

    def get_velocity(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Linear (B, 3) m/s and angular velocity (B, 3) rad/s of the base link, in the world frame."""
        self._built("get_velocity")
        twist = self._cvel[:, self._body]  # rotation, then translation at the centre of mass of the tree
        lever = self._xpos[:, self._body] - self._com[:, self._tree]
        angular = twist[:, :3]
        # by operations that round one by one, so that no bit depends on the batch size
        swing = angular.roll(-1, 1) * lever.roll(-2, 1) - angular.roll(-2, 1) * lever.roll(-1, 1)
        return (twist[:, 3:] + swing).float(), angular.float()

    def place(self, xy: Any, yaw: Any, envs: Envs = None) -> None:
        """Stand the robot somewhere on the ground, at the height of its start; call ``scene.forward(envs)`` after it.

        Args:
            xy: (2,) or (n, 2) metres in the world.
            yaw: heading, one number or (n,), rad.
            envs: which envs; None for all.
        """
        if not self._built("place") or not self.can_be_placed:
            raise OptionError(f"{self.name!r} has a fixed base, so it cannot be placed")
        spots = np.atleast_2d(np.asarray(xy, dtype=np.float64))
        half = np.atleast_1d(np.asarray(yaw, dtype=np.float64)) / 2
        count = max(len(spots), len(half))
        zeros = np.zeros(len(half))
        quat = np.stack([np.cos(half), zeros, zeros, np.sin(half)], axis=1)
        pos = np.column_stack([spots, np.full(len(spots), self.options.pos[2])])
        self._entity.set_pose(np.tile(pos, (count // len(pos), 1)), np.tile(quat, (count // len(quat), 1)), envs)

    @property
    def can_be_placed(self) -> bool:
        """Whether its base moves freely."""
        return self._is_root and self._free

    def set_home(self, envs: Envs = None) -> None:
        """Tell the robot in envs nothing more, after ``scene.reset(envs)``, by which it stands where it started."""
        self.act(torch.zeros(self.n_actions), envs)

    def set_noise_step(self, step: int) -> None:
        """Its actions have no noise."""

    def disturb(self, envs: np.ndarray, most: float, draws: Sequence[np.random.Generator]) -> None:
        """It has no arm whose joints could be off."""

    def create_robot_sensors(self) -> list[ObservationSensor | Sensor[Any]]:
        """What the robot contributes to a suite: the sensors of its rig."""
        return [sensor for sensor in self.rig.children() if isinstance(sensor, Sensor)]

    @property
    def link_names(self) -> list[str]:
        """Names of its links."""
        return [body.name for body in self.options.load_model().bodies[1:] if body.name]

    # -- part of the scene --------------------------------------------------------------------------------------------

    def attach(self, scene: Scene, name: str) -> None:
        """Add the model and the sensors to the scene."""
        options = self.options
        self._entity = scene.add_robot(self._spec, name=name, pos=options.pos, euler=(0, 0, options.yaw))
        self.name = name
        self.rig = Rig(options.rig, scene, name, f"{name}/{options.base}", self._own)

    def start(self, scene: Scene) -> None:
        """Find the base and the actuators in the model, and make the buffers."""
        world, options, entity = scene.world, self.options, self._entity
        model = world.model
        self._dt = scene.dt
        self._world = world
        self._body = int(model.body(f"{self.name}/{options.base}").id)
        self._tree = int(model.body_rootid[self._body])
        self._is_root = int(model.body_parentid[self._body]) == 0 and hasattr(entity, "position")
        joint = int(model.body_jntadr[self._body])
        self._free = joint >= 0 and int(model.jnt_type[joint]) == int(mujoco.mjtJoint.mjJNT_FREE)
        self._xpos, self._xquat, self._cvel, self._com, self._ctrl = (
            world.bind(field) for field in ("xpos", "xquat", "cvel", "subtree_com", "ctrl")
        )
        self._start_actions(world)

        def zeros(columns: int) -> Buffer:
            return Buffer(torch.zeros(world.n_envs, columns, device=world.device), _STATE)

        shared = [name for name in ("joint_positions", "joint_velocities") if hasattr(entity, name)]
        shared += ["position", "orientation"] if self._is_root else []
        for name in shared:
            getattr(entity, name).tags |= _STATE
        self.position = entity.position if self._is_root else zeros(3)
        self.orientation = entity.orientation if self._is_root else zeros(4)
        self.linear_velocity, self.angular_velocity = zeros(3), zeros(3)
        if shared[:2] == ["joint_positions", "joint_velocities"]:
            self.joint_positions, self.joint_velocities = entity.joint_positions, entity.joint_velocities
        else:
            self.joint_positions, self.joint_velocities = zeros(0), zeros(0)
        self.action = Buffer(torch.zeros(world.n_envs, self.n_actions, device=world.device), {"action"})

    def _start_actions(self, world: World) -> None:
        """Find the actuators, and what the actions do to them."""
        model, options = world.model, self.options
        driven = list(dict.fromkeys(name for action in options.actions for name in action.actuators))
        columns = [int(model.actuator(f"{self.name}/{name}").id) for name in driven]
        self._columns: Any = torch.tensor(columns, device=world.device)
        if columns == list(range(columns[0], columns[0] + len(columns))):
            self._columns = slice(columns[0], columns[0] + len(columns))  # which is quicker to write
        self._gains = torch.tensor(
            [[action.actuators.get(name, 0.0) for name in driven] for action in options.actions],
            dtype=self._ctrl.dtype,
            device=world.device,
        )
        self._least, self._greatest = self.action_limits.to(world.device).T.contiguous()

    def _update_state(self) -> None:
        self._built("update_state")
        self._entity._update_state()  # it has nothing below it: a cascade would only walk the tree
        for buffer, value in zip((self.linear_velocity, self.angular_velocity), self.get_velocity(), strict=True):
            buffer.load(value)
        if not self._is_root:
            for buffer, value in zip((self.position, self.orientation), self.get_pose(), strict=True):
                buffer.load(value)

    def _write_replay_data(self) -> None:
        self._entity.write_replay_data()

    def _built(self, call: str) -> World:
        if self._world is None:
            raise NotBuiltError(f"{call} needs a running scene: add the robot by scene.add_module, then scene.build()")
        return self._world

    def __repr__(self) -> str:
        return f"<Robot {self.name!r}, actions {self.action_names}>"


def _check_model(options: RobotOptions, spec: mujoco.MjSpec) -> None:
    """Whether base and actuators are there; those without a name cannot be meant."""
    for what, wanted, elements in (
        ("link (base)", [options.base], spec.bodies[1:]),
        ("actuator", [name for action in options.actions for name in action.actuators], spec.actuators),
    ):
        known = [element.name for element in elements if element.name]
        for name in wanted:
            if name not in known:
                hint = did_you_mean(name, known) or f"; it has {shorten(known)}"
                raise NameNotFoundError(f"the model has no {what} named {name!r}{hint}")


def _radius(model: mujoco.MjModel, data: mujoco.MjData, base: str) -> float:
    """Horizontal distance from the base to the farthest corner of a box around any of the robot's geoms."""
    corners = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, 8).T
    turn, origin, farthest = data.body(base).xmat.reshape(3, 3), data.body(base).xpos, 0.0
    for geom in np.flatnonzero(model.geom_bodyid > 0):
        box = model.geom_aabb[geom]
        points = data.geom_xpos[geom] + (box[:3] + corners * box[3:]) @ data.geom_xmat[geom].reshape(3, 3).T
        local = (points - origin) @ turn
        farthest = max(farthest, float(np.hypot(local[:, 0], local[:, 1]).max()))
    if not math.isfinite(farthest) or farthest <= 0:
        raise OptionError("the model has no geometry to tell its radius from; give radius in metres")
    return farthest
