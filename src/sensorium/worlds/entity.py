"""``Entity``: one robot, object or piece of terrain of a scene, in every env."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import mujoco
import torch

from sensorium.errors import NameNotFoundError, NotBuiltError, OptionError, did_you_mean, shorten
from sensorium.tree import Buffer, Module
from sensorium.worlds.entity_buffers import check_buffer, restore_fixed
from sensorium.worlds.entity_values import entity_values
from sensorium.worlds.initial_pose import InitialPose, initial_key
from sensorium.worlds.world import ArrayLike, Envs, World, env_index

_FREE = int(mujoco.mjtJoint.mjJNT_FREE)
_BALL = int(mujoco.mjtJoint.mjJNT_BALL)
_SETTERS = {
    "joint_positions": "set_joint_positions",
    "joint_velocities": "set_joint_velocities",
    "ctrl": "set_ctrl",
}


class Entity(Module):
    """A robot, object or piece of terrain of a scene: its pose, joints and actuators in every env.

    ``scene.add_object`` and ``scene.add_terrain`` return it. A robot has it as ``robot.entity``.

    Before ``scene.build()`` an entity is only a name. Afterwards it reads and writes its part of the physics state.
    "Joints" are hinges and slides, in the order of the model. The free joint of the root link is not among them:
    :meth:`get_pose` and :meth:`set_pose` read and write it.

    Buffers (float32, filled by ``update_state()``; ``scene.write_replay_data()`` writes those that were loaded or
    changed since), each tagged with the kind of the entity and one more tag:

    ==================== ======== ======= ==========================================
    buffer               shape    tag     content
    ==================== ======== ======= ==========================================
    ``position``         (B, 3)   "pose"  of the root link, m, world frame
    ``orientation``      (B, 4)   "pose"  (w, x, y, z) of the root link, world frame
    ``joint_positions``  (B, n)   "joint" rad or m
    ``joint_velocities`` (B, n)   "joint" rad/s or m/s
    ``ctrl``             (B, n)   "ctrl"  controls in the units of the actuators
    ==================== ======== ======= ==========================================

    Attributes:
        name: the name in the scene.
        kind: "robot", "object" or "terrain".
        joint_names: names of the joints without the prefix of the entity. Empty before ``scene.build()``.
        actuator_names: names of the actuators, likewise.
        initial_pose: joint positions and controls that a reset returns to; None for those of the model.
    """

    def __init__(
        self, name: str, kind: str, root: str | None, prefix: str | None, initial_pose: InitialPose | None = None
    ) -> None:
        self.name = name
        self.kind = kind
        self.initial_pose = initial_pose
        self.joint_names: list[str] = []
        self.actuator_names: list[str] = []
        self._root = root
        self._prefix = prefix
        self._world: World | None = None
        self._state_names: list[str] = []
        self._written: set[int] = set()
        self._columns_of: dict[tuple[str, ...], torch.Tensor] = {}  # (kind, *names) -> columns of the state
        self._fields: dict[str, torch.Tensor] = {}  # bound fields of the world

    # -- build --------------------------------------------------------------------------------------------------------

    def attach_world(self, world: World) -> None:
        """Find the entity's part of the compiled model. ``scene.build()`` calls it."""
        model = world.model
        self._world = world
        self._body = model.body(self._root).id if self._root else 0
        joints = [j for j in range(model.njnt) if self._owns(model, model.jnt_bodyid[j])]
        base = [j for j in joints if model.jnt_type[j] == _FREE and model.jnt_bodyid[j] == self._body]
        self._base = base[0] if base else None
        scalar = [j for j in joints if model.jnt_type[j] not in (_FREE, _BALL)]
        self.joint_names = [self._short(model.joint(j).name) or f"joint{j}" for j in scalar]
        self._qpos = torch.as_tensor([int(model.jnt_qposadr[j]) for j in scalar], device=world.device).long()
        self._dofs = torch.as_tensor([int(model.jnt_dofadr[j]) for j in scalar], device=world.device).long()
        actuators = [a for a in range(model.nu) if self._prefix and model.actuator(a).name.startswith(self._prefix)]
        self.actuator_names = [self._short(model.actuator(a).name) for a in actuators]
        self._actuators = torch.as_tensor(actuators, device=world.device).long()
        self._columns_of, self._fields = {}, {}

        def zeros(*shape: int) -> torch.Tensor:
            return torch.zeros(world.n_envs, *shape, device=world.device)

        if self._root is not None:
            self.position = Buffer(zeros(3), {self.kind, "pose"})
            self.orientation = Buffer(zeros(4), {self.kind, "pose"})
        if scalar:
            self.joint_positions = Buffer(zeros(len(scalar)), {self.kind, "joint"})
            self.joint_velocities = Buffer(zeros(len(scalar)), {self.kind, "joint"})
        if actuators:
            self.ctrl = Buffer(zeros(len(actuators)), {self.kind, "ctrl"})
        self._state_names = [name for name in ("position", "orientation", *_SETTERS) if name in vars(self)]
        self._shapes = {name: getattr(self, name).value.shape for name in self._state_names}

    def detach_world(self) -> None:
        """Forget the world. ``scene.close()`` calls it."""
        self._world, self._fields = None, {}

    def _owns(self, model: mujoco.MjModel, body: int) -> bool:
        name = model.body(body).name
        return name.startswith(self._prefix) if self._prefix else name == self._root

    def _short(self, name: str) -> str:
        return name.removeprefix(self._prefix) if self._prefix else name

    # -- state --------------------------------------------------------------------------------------------------------

    def get_pose(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return position (B, 3) in m and orientation (B, 4) as (w, x, y, z) of the root link, world frame.

        Raises:
            OptionError: the entity has several root links, or none.
        """
        world = self._built()
        if self._root is None:
            raise OptionError(f"{self.name!r} has no pose: its model must have one root link")
        if self._base is not None:  # from qpos, which may be newer than the derived xpos and xquat
            address = int(world.model.jnt_qposadr[self._base])
            pose = self._selected("qpos", slice(address, address + 7))
            return pose[:, :3], pose[:, 3:]
        return self._selected("xpos", self._body), self._selected("xquat", self._body)

    def set_pose(self, pos: ArrayLike | None = None, quat: ArrayLike | None = None, envs: Envs = None) -> None:
        """Set the pose of a free root link in the world frame.

        Cameras see the new pose at once. Other sensors see it after ``scene.forward(envs)`` or the next step.

        Args:
            pos: position in metres, (3,) or (n, 3) for the n envs; None keeps it.
            quat: orientation (w, x, y, z), (4,) or (n, 4), normalised here; None keeps it.
            envs: which envs; None for all.

        Raises:
            OptionError: the root link is fixed, or a value has the wrong shape or is not finite.
        """
        world = self._built()
        if self._base is None:
            raise OptionError(f"{self.name!r} has a fixed base; add it with free=True to set its pose")
        address = int(world.model.jnt_qposadr[self._base])
        new_pos = None if pos is None else self._values("pos", pos, 3, envs)
        new_quat = None if quat is None else self._values("quat", quat, 4, envs)
        if new_quat is not None:
            new_quat = new_quat / new_quat.norm(dim=-1, keepdim=True)
        qpos = world.bind("qpos")
        for start, value in ((address, new_pos), (address + 3, new_quat)):
            if value is not None:
                self._write(qpos, torch.arange(start, start + value.shape[-1], device=world.device), value, envs)
        world.changes.write(envs)

    def get_velocity(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return linear (B, 3) m/s and angular velocity (B, 3) rad/s of a free root link, world frame.

        Raises:
            OptionError: the root link is fixed.
        """
        dof, quat = self._free_base("velocity")
        qvel = self._built().bind("qvel")[:, dof : dof + 6]
        return qvel[:, :3].float(), _rotate(quat, qvel[:, 3:], 1.0).float()

    def set_velocity(
        self, linear: ArrayLike | None = None, angular: ArrayLike | None = None, envs: Envs = None
    ) -> None:
        """Set the velocity of a free root link in the world frame. Sensors see it after ``scene.forward(envs)``.

        Args:
            linear: of the origin of the link in m/s, (3,) or (n, 3) for the n envs; None keeps it.
            angular: in rad/s, (3,) or (n, 3); None keeps it.
            envs: which envs; None for all.

        Raises:
            OptionError: the root link is fixed, or a value has the wrong shape or is not finite.
        """
        dof, quat = self._free_base("velocity")
        world = self._built()
        index = env_index(envs, world.n_envs, world.device)
        new_linear = None if linear is None else self._values("linear", linear, 3, envs)
        new_angular = None if angular is None else self._values("angular", angular, 3, envs)
        if new_angular is not None:  # MuJoCo has it in the frame of the link
            new_angular = _rotate(quat if index is None else quat[index], new_angular, -1.0)
        for start, value in ((dof, new_linear), (dof + 3, new_angular)):
            if value is not None:
                self._write(world.bind("qvel"), torch.arange(start, start + 3, device=world.device), value, envs)

    def _free_base(self, what: str) -> tuple[int, torch.Tensor]:
        """Return the first degree of freedom of a free root link, and its orientation (B, 4)."""
        world = self._built()
        if self._base is None:
            raise OptionError(f"{self.name!r} has a fixed base and no {what}; add it with free=True")
        address = int(world.model.jnt_qposadr[self._base])
        return int(world.model.jnt_dofadr[self._base]), world.bind("qpos")[:, address + 3 : address + 7]

    def get_joint_positions(self, joints: Iterable[str] | None = None) -> torch.Tensor:
        """Return positions (B, n) of the named joints (default: all), rad or m, float32."""
        self._built()
        return self._selected("qpos", self._columns("joint", self._qpos, joints))

    def get_joint_velocities(self, joints: Iterable[str] | None = None) -> torch.Tensor:
        """Return velocities (B, n) of the named joints (default: all), rad/s or m/s, float32."""
        self._built()
        return self._selected("qvel", self._columns("dof", self._dofs, joints))

    def _selected(self, field: str, columns: slice | int | torch.Tensor) -> torch.Tensor:
        """Return columns of a field of the world, float32. On a GPU they may be a view of the field."""
        if field not in self._fields:
            self._fields[field] = self._built().bind(field)
        bound = self._fields[field]
        if bound.device.type != "cpu":
            return bound[:, columns].float()
        index = columns.numpy() if isinstance(columns, torch.Tensor) else columns
        return torch.from_numpy(bound.numpy()[:, index]).float()  # NumPy selects several times faster than torch

    def set_joint_positions(self, values: ArrayLike, joints: Iterable[str] | None = None, envs: Envs = None) -> None:
        """Set joint positions.

        Cameras see the new positions at once. Other sensors see them after ``scene.forward(envs)`` or the next step.

        Args:
            values: rad or m: one number, (n,) for the n joints, or (n envs, n).
            joints: names of the joints; None for all.
            envs: which envs; None for all.
        """
        world = self._built()
        columns = self._columns("joint", self._qpos, joints)
        self._write(world.bind("qpos"), columns, self._values("values", values, len(columns), envs), envs)
        world.changes.write(envs)

    def set_joint_velocities(self, values: ArrayLike, joints: Iterable[str] | None = None, envs: Envs = None) -> None:
        """Set joint velocities in rad/s or m/s; the arguments are those of :meth:`set_joint_positions`."""
        world = self._built()
        columns = self._columns("dof", self._dofs, joints)
        self._write(world.bind("qvel"), columns, self._values("values", values, len(columns), envs), envs)

    def set_ctrl(self, values: ArrayLike, actuators: Iterable[str] | None = None, envs: Envs = None) -> None:
        """Set the controls that the next steps apply.

        Args:
            values: in the units of the actuators: one number, (n,) for the n actuators, or (n envs, n).
            actuators: names of the actuators; None for all.
            envs: which envs; None for all.

        Raises:
            OptionError: the entity has no actuators.
        """
        world = self._built()
        if not self.actuator_names:
            raise OptionError(f"{self.name!r} has no actuators")
        columns = self._columns("actuator", self._actuators, actuators)
        self._write(world.bind("ctrl"), columns, self._values("values", values, len(columns), envs), envs)

    def hold_initial_pose(self, envs: Envs = None) -> None:
        """Set the controls of envs to those of the initial pose, as a reset does. Without one, nothing changes."""
        model = self._built().model
        if self.initial_pose is not None and self.actuator_names:
            self.set_ctrl(model.key_ctrl[initial_key(model)][self._actuators.numpy(force=True)], envs=envs)

    # -- tree ---------------------------------------------------------------------------------------------------------

    def _update_state(self) -> None:
        if self._world is None:
            return
        for name, value in self._current_values().items():
            getattr(self, name).update(value)

    def _current_values(self) -> dict[str, torch.Tensor]:
        """Return buffer name -> copy of the current value in the simulation."""
        world = self._built()
        values = {}
        if self._root is not None:
            pose = self.get_pose()
            # on a GPU these are views of the state, which is float32 there
            values["position"], values["orientation"] = (part.clone() for part in pose) if world.is_gpu else pose
        if self.joint_names:
            values["joint_positions"] = self.get_joint_positions()
            values["joint_velocities"] = self.get_joint_velocities()
        if self.actuator_names:
            values["ctrl"] = self._selected("ctrl", self._actuators)
        return values

    @property
    def state_buffers(self) -> list[Buffer]:
        """The buffers that the physics state determines; empty before ``scene.build()``."""
        return [getattr(self, name) for name in self._state_names]

    def check_buffers(self) -> None:
        """Raise OptionError if a buffer was set to a value that ``write_replay_data`` cannot write."""
        for name in self._state_names:
            check_buffer(f"{self.name}.{name}", getattr(self, name), self._shapes[name])

    def _write_replay_data(self) -> None:
        """Write the buffers that were set into the simulation, only where they differ: it has more precision."""
        written = [name for name in self._state_names if getattr(self, name).is_set]
        if self._world is None or not written:
            return
        current = self._current_values()
        for name in written:
            buffer: Buffer = getattr(self, name)
            if name not in _SETTERS and self._base is None:
                restore_fixed(f"{self.name}.{name}", buffer, current[name])
                continue
            value = buffer.value
            buffer.update(value.clone())
            envs = (value != current[name]).any(dim=1).nonzero().flatten()
            if len(envs):
                self.note_written(envs.tolist())
                if name in _SETTERS:
                    getattr(self, _SETTERS[name])(value[envs], envs=envs)
                else:
                    self.set_pose(**{"pos" if name == "position" else "quat": value[envs]}, envs=envs)

    def note_written(self, envs: Iterable[int]) -> None:
        """Record that ``write_replay_data`` of the owner changed some envs."""
        self._written |= set(envs)

    def take_written(self) -> set[int]:
        """Return the envs that ``write_replay_data`` changed since the last call."""
        written, self._written = self._written, set()
        return written

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _built(self) -> World:
        if self._world is None:
            raise NotBuiltError(f"{self.name!r} has no state before scene.build()")
        return self._world

    def _columns(self, kind: str, columns: torch.Tensor, wanted: Iterable[str] | None) -> torch.Tensor:
        """Return the columns of the named joints or actuators (default: all), on the world's device."""
        if wanted is None:
            return columns
        is_one = isinstance(wanted, str | torch.Tensor) or not isinstance(wanted, Iterable)
        asked: tuple[Any, ...] = (wanted,) if is_one else tuple(wanted)
        for name in asked:
            if not isinstance(name, str):
                raise OptionError(f"{self.name!r}: {kind}s must be names, got {name!r:.80}")
        if (kind, *asked) not in self._columns_of:  # cached: uploading an index synchronises with the GPU
            word, names = ("actuator", self.actuator_names) if kind == "actuator" else ("joint", self.joint_names)
            for name in asked:
                if name not in names:
                    hint = did_you_mean(name, names) or f"; it has {shorten(names)}"
                    raise NameNotFoundError(f"{self.name!r} has no {word} {name!r}{hint}")
            self._columns_of[kind, *asked] = columns[[names.index(name) for name in asked]]
        return self._columns_of[kind, *asked]

    def _values(self, option: str, values: ArrayLike, columns: int, envs: Envs) -> torch.Tensor:
        """Validate ``values`` and return them broadcast to (n envs, columns), on the world's device."""
        world = self._built()
        index = env_index(envs, world.n_envs, world.device)
        return entity_values(option, values, columns, world.n_envs if index is None else len(index), world)

    def _write(self, field: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, envs: Envs) -> None:
        world = self._built()
        index = env_index(envs, world.n_envs, world.device)
        if index is None:
            field[:, columns] = values
        else:
            field[index.unsqueeze(1), columns.unsqueeze(0)] = values

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name!r}>"


def _rotate(quat: torch.Tensor, vector: torch.Tensor, sign: float) -> torch.Tensor:
    """Return vectors (n, 3) rotated by unit quaternions (n, 4), or by their inverse with ``sign=-1``."""
    axis = sign * quat[:, 1:]
    swing = 2.0 * torch.linalg.cross(axis, vector)
    return vector + quat[:, :1] * swing + torch.linalg.cross(axis, swing)
