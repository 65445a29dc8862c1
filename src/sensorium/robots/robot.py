"""``Robot``: a model with actions in its own units and a rig of sensors, as one module of a scene."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import mujoco
import numpy as np
import torch

from sensorium._arguments import as_array, checked_number
from sensorium._tensors import plain_tensor
from sensorium.errors import NameNotFoundError, NotBuiltError, OptionError, did_you_mean, shorten
from sensorium.options import checked_integer
from sensorium.robots import chain_kernels
from sensorium.robots.base_buffers import checked_poses, ground_poses, link_velocity, update_base, write_base
from sensorium.robots.base_pose import BasePose
from sensorium.robots.drive import Drive
from sensorium.robots.joint_group import joint_groups
from sensorium.robots.linear_actions import LinearActions
from sensorium.robots.rig import Rig
from sensorium.robots.robot_options import RobotOptions, at_start, check_model, radius_of, start_pose
from sensorium.sensors import Sensor
from sensorium.tree import Buffer
from sensorium.worlds import ArrayLike, Entity, Envs, SceneRobot, World, env_index, env_mask, upload
from sensorium.worlds.compose import pose
from sensorium.worlds.initial_pose import JointPositions
from sensorium.worlds.names import model_name
from sensorium.worlds.scene_module import capturable_reset

if TYPE_CHECKING:
    from sensorium.suites import ObservationSensor
    from sensorium.worlds import Scene
    from sensorium.worlds.scene_robot import Placement

_STATE = frozenset({"state"})


class Robot(SceneRobot[RobotOptions]):
    """A robot of a scene: ``robot = scene.add_robot("diffdrive", name="robot")``.

    Buffers (float32, filled by ``update_state()``):

    ==================== ============== ======== ==================================================
    buffer               shape          tag      content
    ==================== ============== ======== ==================================================
    ``position``         (B, 3)         "state"  of the base link, m, world frame
    ``orientation``      (B, 4)         "state"  (w, x, y, z) of the base link, world frame
    ``linear_velocity``  (B, 3)         "state"  of the base link, m/s, world frame
    ``angular_velocity`` (B, 3)         "state"  of the base link, rad/s, world frame
    ``joint_positions``  (B, n)         "state"  of the hinges and slides, rad or m
    ``joint_velocities`` (B, n)         "state"  of the hinges and slides, rad/s or m/s
    ``ctrl``             (B, n)         "ctrl"   controls in the units of the actuators, if there are any
    ``action``           (B, n_actions) "action" the last action that :meth:`act` was given
    ==================== ============== ======== ==================================================

    ``scene.write_replay_data()`` writes the buffers that were loaded or changed since, except ``action``: set ``ctrl``
    instead. The first four do not exist if the model has several root links and ``base`` is not given. The sensors are
    children of ``rig``.

    Attributes:
        name: the name in the scene.
        entity: the links, joints and actuators; its methods are also methods of the robot.
        rig: the sensors by name.
        groups: move groups by name: "base", a :class:`Drive`, for the actions "forward" and "turn"; else "body".
    """

    options_type: ClassVar[type[RobotOptions]] = RobotOptions
    rig: Rig

    def __init__(self, options: RobotOptions | None = None, **values: object) -> None:
        super().__init__(options, **values)
        self.name = ""
        self._world: World | None = None
        self._fields: dict[str, torch.Tensor] = {}
        self._spec = spec = self._load_model()
        # without the world body, so that names of the rig can refer to the world of the scene
        self._own = {each.name for kind in (spec.bodies[1:], spec.sites, spec.joints) for each in kind if each.name}
        check_model(self.options, spec)
        drives = {"forward", "turn"} <= {action.name for action in self.options.actions}
        self.groups: Mapping[str, Any] = {"base": Drive(self)} if drives else joint_groups(self)

    def _load_model(self) -> mujoco.MjSpec:
        return self.options.load_model()

    @cached_property
    def radius(self) -> float:
        """Radius in metres of a vertical cylinder around the base that contains the robot."""
        if self.options.radius is not None:
            return self.options.radius
        if self.options.base is None:
            raise OptionError(f"{self.name!r} has no base link to measure its radius from; give base or radius")
        return radius_of(*self._at_start(self._spec), self.options.base)

    def _at_start(self, spec: mujoco.MjSpec) -> tuple[mujoco.MjModel, mujoco.MjData]:
        """Return the model of the robot alone, in its initial state."""
        return at_start(self.options, spec)

    # -- placement ----------------------------------------------------------------------------------------------------

    def default_name(self) -> str:
        return self.options.kind or model_name(self._spec, "robot")

    @property
    def placement(self) -> Placement:
        options = self.options
        found: Placement = {"pos": options.pos}
        if options.quat is not None:
            found["quat"] = options.quat
        elif options.euler is not None or options.yaw:
            found["euler"] = options.euler or (0.0, 0.0, options.yaw)
        if options.free is not None:
            found["free"] = options.free
        return found | start_pose(options)

    def set_placement(
        self,
        pos: tuple[float, float, float] | None = None,
        quat: tuple[float, float, float, float] | None = None,
        euler: tuple[float, float, float] | None = None,
        free: bool | None = None,
        joint_positions: JointPositions | None = None,
        keyframe: str | None = None,
    ) -> None:
        options = self.options
        pose(options.pos if pos is None else pos, quat, euler)
        given = {"pos": pos, "quat": quat, "euler": euler}
        update: dict[str, Any] = {name: tuple(map(float, each)) for name, each in given.items() if each is not None}
        if quat is not None or euler is not None:
            update = {"quat": None, "euler": None, "yaw": 0.0, **update}
        starting = {"free": free, "joint_positions": joint_positions, "keyframe": keyframe}
        update |= {name: value for name, value in starting.items() if value is not None}
        self.options = options.model_copy(update=update)

    # -- actions ------------------------------------------------------------------------------------------------------

    @property
    def n_actions(self) -> int:
        return len(self.options.actions)

    @property
    def action_names(self) -> list[str]:
        return [action.name for action in self.options.actions]

    @property
    def action_limits(self) -> torch.Tensor:
        return torch.tensor([action.limits for action in self.options.actions]).reshape(self.n_actions, 2)

    @property
    def action_slices(self) -> dict[str, slice]:
        """Move group -> its part of an action."""
        return dict.fromkeys(self.groups, slice(0, self.n_actions))

    def act(self, action: ArrayLike | Mapping[str, ArrayLike], envs: Envs = None) -> None:
        """Set the action that the robot applies from the next step on, until the next call or a reset.

        Args:
            action: (n_actions,) or (B, n_actions) in the units of the robot, clipped to ``action_limits``; or a mapping
                from the move group to these values.
            envs: which envs; None for all. ``action`` then has one row for each.

        Raises:
            OptionError: the action has the wrong shape or is not finite, or the robot has no actions.
        """
        world = self._built("act")
        if not self.n_actions:
            raise OptionError(f"{self.name}.act: the robot has no actions, since its model has no actuators")
        index = env_index(envs, world.n_envs, world.device)
        rows = world.n_envs if index is None else len(index)
        command = self._numbers(action)
        if tuple(command.shape) not in ((self.n_actions,), (1, self.n_actions), (rows, self.n_actions)):
            raise OptionError(
                f"{self.name}.act: action must have shape ({self.n_actions},) or ({rows}, {self.n_actions}) for "
                f"{', '.join(self.action_names)}; got {tuple(command.shape)}"
            )
        command = command.float().cpu() if world.device.type == "cpu" else command.float()
        if command.device.type == "cpu" and not bool(torch.isfinite(command).all()):
            raise OptionError(f"{self.name}.act: action must be finite, got NaN or infinity")
        command = upload(command, world.device).expand(rows, self.n_actions)
        command = self._linear_actions.apply(command, index)
        if index is None:
            self.action.value.copy_(command)
        else:
            self.action.value[index] = command

    def _numbers(self, action: ArrayLike | Mapping[str, ArrayLike]) -> torch.Tensor:
        if isinstance(action, Mapping):
            self._check_groups(action)
            if len(action) != 1:
                raise OptionError(f"{self.name}.act: a mapping must have one move group, got {list(action)}")
            (action,) = action.values()
        if isinstance(action, torch.Tensor):
            return plain_tensor(f"{self.name}.act: action", action)
        array = as_array(action)
        if array.dtype.kind not in "fiu":
            raise OptionError(f"{self.name}.act: action must be numbers, got {action!r}")
        return torch.as_tensor(array)

    def _check_groups(self, names: Mapping[str, ArrayLike]) -> None:
        for name in (each for each in names if each not in self.groups):
            hint = did_you_mean(str(name), self.groups) or f"; it has {shorten(self.groups)}"
            raise NameNotFoundError(f"{self.name}.act: there is no move group {name!r}{hint}")

    @capturable_reset
    def on_reset(self, envs: Envs) -> bool | None:
        """Set the action of envs to 0."""
        world, action = self._built("on_reset"), self.action.value
        # as a mask: ids of a mask on a GPU would synchronise
        action.masked_fill_(env_mask(envs, world.n_envs, action.device)[:, None], 0.0)
        return False

    # -- state --------------------------------------------------------------------------------------------------------

    def get_pose(self) -> tuple[torch.Tensor, torch.Tensor]:
        self._built("get_pose")
        if self._is_root:
            return self.entity.get_pose()
        return tuple(self._field(name)[:, self._base_id()].float() for name in ("xpos", "xquat"))  # type: ignore[return-value]

    def base_pose(self) -> np.ndarray:
        """Return the pose of the base link in the world frame, (B, 7) float64: x, y, z in m and (w, x, y, z)."""
        return self._base_now("base_pose").copy()

    def in_base_frame(self, pose: np.ndarray) -> np.ndarray:
        """Return poses (B, 7) float64 in the frame of the base link, given poses (B, 7) in the world frame."""
        seen = np.empty_like(base := self._base_now("in_base_frame"))
        chain_kernels.relative(base, checked_poses("pose", pose, len(base)), seen)
        return seen

    def way_in_base_frame(self, start: np.ndarray, goal: np.ndarray, dt: float) -> tuple[np.ndarray, np.ndarray]:
        """Return goals and the velocities that lead to them, in the frame of the base link.

        Args:
            start: poses (B, 7) in the world frame.
            goal: poses (B, 7) in the world frame.
            dt: seconds from start to goal.

        Returns:
            Goals (B, 7), and velocities (B, 6): linear in m/s, then angular in rad/s.
        """
        base = self._base_now("way_in_base_frame")
        (seen, there), twist = np.empty((2, *base.shape)), np.empty((len(base), 6))
        chain_kernels.relative(base, checked_poses("start", start, len(base)), seen)
        chain_kernels.relative(base, checked_poses("goal", goal, len(base)), there)
        chain_kernels.between(seen, there, checked_number("dt", dt, 1e-9), twist)
        return there, twist

    def get_velocity(self) -> tuple[torch.Tensor, torch.Tensor]:
        self._built("get_velocity")
        body, (cvel, xpos, com) = self._base_id(), (self._field(name) for name in ("cvel", "xpos", "subtree_com"))
        if cvel.device.type == "cpu":
            return link_velocity(cvel.numpy()[:, body], xpos.numpy()[:, body], com.numpy()[:, self._tree])
        twist = cvel[:, body]  # rotation, then translation at the centre of mass of the tree
        lever = xpos[:, body] - com[:, self._tree]
        angular = twist[:, :3]
        # elementwise operations, so that the rounding does not depend on the batch size
        swing = angular.roll(-1, 1) * lever.roll(-2, 1) - angular.roll(-2, 1) * lever.roll(-1, 1)
        return (twist[:, 3:] + swing).float(), angular.float()

    def place(self, xy: ArrayLike, yaw: ArrayLike, envs: Envs = None) -> None:
        """Move the robot to a place on the ground, at its initial height. Call ``scene.forward(envs)`` afterwards.

        Args:
            xy: (2,) or (n, 2) m, world frame.
            yaw: heading in rad, a number or (n,).
            envs: which envs; None for all.

        Raises:
            OptionError: the base is fixed.
        """
        if not self._built("place") or not self.can_be_placed:
            raise OptionError(f"{self.name!r} has a fixed base, so it cannot be placed")
        pos, quat = ground_poses(f"{self.name}.place", xy, yaw, self.options.pos[2])
        self.entity.set_pose(pos, quat, envs)

    @property
    def can_be_placed(self) -> bool:
        """Whether :meth:`place` can move the robot: its base must move freely."""
        return self._is_root and self._free

    def set_home(self, envs: Envs = None) -> None:
        """Set the action and controls of envs to those of a reset, after ``scene.reset(envs)``."""
        if self.n_actions:
            self.act(torch.zeros(self.n_actions), envs)
            self.entity.hold_initial_pose(envs)

    def set_noise_step(self, step: int) -> None:
        """Set the number of actions that action noise counts from. This robot has no action noise."""
        checked_integer("step", step)

    def disturb(self, envs: np.ndarray, max_offset: float, rngs: Sequence[np.random.Generator]) -> None:
        """Move the joints of arms by random offsets. This robot has no arm."""

    def create_robot_sensors(self) -> list[ObservationSensor | Sensor[Any]]:
        """Return the robot's sensors for a suite: those of its rig."""
        return [sensor for sensor in self.rig.children() if isinstance(sensor, Sensor)]

    @property
    def link_names(self) -> list[str]:
        """Names of the links."""
        return [body.name for body in self.options.load_model().bodies[1:] if body.name]

    # -- SceneModule --------------------------------------------------------------------------------------------------

    def attach(self, scene: Scene, name: str) -> None:
        """Add the model and the sensors to the scene."""
        options = self.options
        self._entity = scene.add_entity("robot", self._spec, name=name, **self.placement)
        self.name = name
        self.rig = Rig(options.rig, scene, name, f"{name}/{options.base}", self._own)

    def start(self, scene: Scene) -> None:
        """Find the base and the actuators in the compiled model, and create the buffers."""
        world, entity = scene.world, self.entity
        self._dt = scene.dt
        self._world = world
        self._fields = {}  # bound at first use, since every bound field costs time in each step
        self._base: BasePose | None = None
        self._start_base(world.model, entity)
        self._start_actions(world)

        def zeros(columns: int) -> Buffer:
            return Buffer(torch.zeros(world.n_envs, columns, device=world.device), _STATE)

        shared = [name for name in ("joint_positions", "joint_velocities") if hasattr(entity, name)]
        shared += ["position", "orientation"] if self._is_root else []
        for name in shared:
            getattr(entity, name).tags |= _STATE
        if self._body is not None:
            self.position = entity.position if self._is_root else zeros(3)
            self.orientation = entity.orientation if self._is_root else zeros(4)
            self.linear_velocity, self.angular_velocity = zeros(3), zeros(3)
            self.base_buffers = (self.position, self.orientation, self.linear_velocity, self.angular_velocity)
        if shared[:2] == ["joint_positions", "joint_velocities"]:
            self.joint_positions, self.joint_velocities = entity.joint_positions, entity.joint_velocities
        else:
            self.joint_positions, self.joint_velocities = zeros(0), zeros(0)
        if entity.actuator_names:
            self.ctrl = entity.ctrl
        self.action = Buffer(torch.zeros(world.n_envs, self.n_actions, device=world.device), {"action"})

    def _start_base(self, model: mujoco.MjModel, entity: Entity) -> None:
        self._body: int | None = None
        self._is_root = self._free = False
        if self.options.base is None:
            return
        self._body = body = int(model.body(f"{self.name}/{self.options.base}").id)
        self._tree = int(model.body_rootid[body])
        self._is_root = int(model.body_parentid[body]) == 0 and hasattr(entity, "position")
        joint = int(model.body_jntadr[body])
        self._free = joint >= 0 and int(model.jnt_type[joint]) == int(mujoco.mjtJoint.mjJNT_FREE)

    def _start_actions(self, world: World) -> None:
        """Prepare :meth:`act`."""
        if self.options.actions:
            self._linear_actions = LinearActions(world, self.name, self.options.actions)

    def _update_state(self) -> None:
        world = self._built("update_state")
        self.entity._update_state()  # it has no children: a cascade would only walk the tree
        if self._body is not None:
            update_base(self, world, self._is_root)

    def _write_replay_data(self) -> None:
        self.entity._write_replay_data()
        if self._body is not None:
            write_base(self, self._is_root)

    def _field(self, name: str) -> torch.Tensor:
        """Return a bound field of the world."""
        if name not in self._fields:
            self._fields[name] = self._built(name).bind(name)
        return self._fields[name]

    def _base_now(self, call: str) -> np.ndarray:
        """Return the pose of the base link, (B, 7) float64, not writable."""
        world, body = self._built(call), self._base_id()
        if self._base is None:
            self._base = BasePose(world, self._field("xpos"), self._field("xquat"), body)
        return self._base.read()

    def _base_id(self) -> int:
        if self._body is None:
            raise OptionError(f"{self.name!r} has no pose: its model must have one root link; or give base")
        return self._body

    def _built(self, call: str) -> World:
        if self._world is None:
            raise NotBuiltError(f"{call} needs a running scene: call scene.add_robot(robot), then scene.build()")
        return self._world

    def __repr__(self) -> str:
        return f"<Robot {self.name!r}, actions {self.action_names}>"
