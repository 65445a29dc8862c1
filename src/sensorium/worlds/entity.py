"""An entity: one robot, object or piece of terrain of a scene, in every env."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import torch

from sensorium.errors import NameNotFoundError, NotBuiltError, OptionError, did_you_mean, shorten
from sensorium.tree import Buffer, Module
from sensorium.worlds.device import upload
from sensorium.worlds.world import Envs, World, env_index

if TYPE_CHECKING:
    from collections.abc import Iterable

_FREE = int(mujoco.mjtJoint.mjJNT_FREE)
_BALL = int(mujoco.mjtJoint.mjJNT_BALL)
_SETTERS = {
    "joint_positions": "set_joint_positions",
    "joint_velocities": "set_joint_velocities",
    "ctrl": "set_ctrl",
}


class Entity(Module):
    """Something that ``scene.add_robot``, ``add_object`` or ``add_terrain`` returned.

    Before ``build()`` it is a name; after it, it reads and writes its own part of the physics state. Joints here are
    hinges and slides, in the model's order; the base (free joint) is read by ``get_pose`` and set by ``set_pose``.

    Buffers (tag = kind of entity plus the tag given): ``position`` (B, 3) and ``orientation`` (B, 4) of the root link
    in the world frame, tag "pose"; ``joint_positions`` and ``joint_velocities`` (B, n), tag "joint"; ``ctrl`` (B, n),
    tag "ctrl". They are filled by ``update_state()``, float32.
    """

    def __init__(self, name: str, kind: str, root: str | None, prefix: str | None) -> None:
        self.name = name
        self.kind = kind
        self.joint_names: list[str] = []
        self.actuator_names: list[str] = []
        self._root = root
        self._prefix = prefix
        self._world: World | None = None
        self._written: set[int] = set()
        self._named: dict[tuple[str, ...], torch.Tensor] = {}  # columns of the state, of names that were asked for

    # -- build --------------------------------------------------------------------------------------------------------

    def attach_world(self, world: World) -> None:
        """Find this entity's part of the compiled model. Called by ``scene.build()``."""
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
        self._named = {}

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

    def detach_world(self) -> None:
        """The scene was closed."""
        self._world = None

    def _owns(self, model: mujoco.MjModel, body: int) -> bool:
        name = model.body(body).name
        return name.startswith(self._prefix) if self._prefix else name == self._root

    def _short(self, name: str) -> str:
        return name.removeprefix(self._prefix) if self._prefix else name

    # -- state --------------------------------------------------------------------------------------------------------

    def get_pose(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Position (B, 3) in metres and orientation (B, 4) as (w, x, y, z) of the root link, in the world frame."""
        world = self._built()
        if self._root is None:
            raise OptionError(f"{self.name!r} has no pose: it has several root links, or none")
        if self._base is not None:  # straight from the state, which may be newer than what was derived from it
            address = int(world.model.jnt_qposadr[self._base])
            pose = world.bind("qpos")[:, address : address + 7].float()
            return pose[:, :3], pose[:, 3:]
        return world.bind("xpos")[:, self._body].float(), world.bind("xquat")[:, self._body].float()

    def set_pose(self, pos: Any = None, quat: Any = None, envs: Envs = None) -> None:
        """Set the pose of a free base in the world frame. Call ``scene.forward(envs)`` (or step) to see it in sensors;
        cameras see it at once.

        Args:
            pos: position in metres, (3,) or (n, 3) for the n envs; None keeps it.
            quat: orientation (w, x, y, z), (4,) or (n, 4); it is normalised; None keeps it.
            envs: which envs; None for all.
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

    def get_joint_positions(self, joints: Iterable[str] | None = None) -> torch.Tensor:
        """Positions (B, n) of the named joints (default: all), rad or m, float32."""
        world = self._built()
        index = self._columns("joint", self._qpos, joints)
        return world.bind("qpos")[:, index].float()

    def get_joint_velocities(self, joints: Iterable[str] | None = None) -> torch.Tensor:
        """Velocities (B, n) of the named joints (default: all), rad/s or m/s, float32."""
        world = self._built()
        index = self._columns("dof", self._dofs, joints)
        return world.bind("qvel")[:, index].float()

    def set_joint_positions(self, values: Any, joints: Iterable[str] | None = None, envs: Envs = None) -> None:
        """Set joint positions, rad or m: a number, (n,), or (envs, n). ``scene.forward(envs)`` shows it to sensors;
        cameras see it at once."""
        world = self._built()
        columns = self._columns("joint", self._qpos, joints)
        self._write(world.bind("qpos"), columns, self._values("values", values, len(columns), envs), envs)
        world.changes.write(envs)

    def set_joint_velocities(self, values: Any, joints: Iterable[str] | None = None, envs: Envs = None) -> None:
        """Set joint velocities, rad/s or m/s: a number, (n,), or (envs, n)."""
        world = self._built()
        columns = self._columns("dof", self._dofs, joints)
        self._write(world.bind("qvel"), columns, self._values("values", values, len(columns), envs), envs)

    def set_ctrl(self, values: Any, actuators: Iterable[str] | None = None, envs: Envs = None) -> None:
        """Set the controls that the next steps apply, in the actuators' own units: a number, (n,), or (envs, n)."""
        world = self._built()
        if not self.actuator_names:
            raise OptionError(f"{self.name!r} has no actuators")
        columns = self._columns("actuator", self._actuators, actuators)
        self._write(world.bind("ctrl"), columns, self._values("values", values, len(columns), envs), envs)

    # -- tree ---------------------------------------------------------------------------------------------------------

    def _update_state(self) -> None:
        if self._world is None:
            return
        for name, value in self._now().items():
            getattr(self, name).load(value)
            getattr(self, name).loaded = False

    def _now(self) -> dict[str, torch.Tensor]:
        """What the buffers would hold of the simulation as it is."""
        world = self._built()
        values = {}
        if self._root is not None:
            values["position"], values["orientation"] = self.get_pose()
        if self.joint_names:
            values["joint_positions"], values["joint_velocities"] = (
                self.get_joint_positions(),
                self.get_joint_velocities(),
            )
        if self.actuator_names:
            values["ctrl"] = world.bind("ctrl")[:, self._actuators].float()
        return values

    def _write_replay_data(self) -> None:
        """Write buffers that were loaded, where they differ from the simulation (which is more precise than they)."""
        if self._world is None or not any(buffer.loaded for _, buffer in self.named_buffers()):
            return
        for name, now in self._now().items():
            buffer = getattr(self, name)
            loaded, buffer.loaded = buffer.loaded, False
            if not loaded or (name not in _SETTERS and self._base is None):
                continue
            envs = (buffer.value != now).any(dim=1).nonzero().flatten()
            if len(envs):
                self._written |= set(envs.tolist())
                if name in _SETTERS:
                    getattr(self, _SETTERS[name])(buffer.value[envs], envs=envs)
                else:
                    self.set_pose(**{"pos" if name == "position" else "quat": buffer.value[envs]}, envs=envs)

    def take_written(self) -> set[int]:
        """The envs that ``write_replay_data`` has changed since this was asked last."""
        written, self._written = self._written, set()
        return written

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _built(self) -> World:
        if self._world is None:
            raise NotBuiltError(f"{self.name!r} has no state before scene.build()")
        return self._world

    def _columns(self, kind: str, columns: torch.Tensor, wanted: Iterable[str] | None) -> torch.Tensor:
        """Those of ``columns`` that the named joints or actuators have (default: all), on the world's device."""
        if wanted is None:
            return columns
        asked = (wanted,) if isinstance(wanted, str) else tuple(wanted)
        if (kind, *asked) not in self._named:  # kept, since sending an index to a GPU waits for it
            word, names = ("actuator", self.actuator_names) if kind == "actuator" else ("joint", self.joint_names)
            for name in asked:
                if name not in names:
                    hint = did_you_mean(name, names) or f"; it has {shorten(names)}"
                    raise NameNotFoundError(f"{self.name!r} has no {word} {name!r}{hint}")
            self._named[kind, *asked] = columns[[names.index(name) for name in asked]]
        return self._named[kind, *asked]

    def _values(self, option: str, values: Any, columns: int, envs: Envs) -> torch.Tensor:
        """``values`` checked and broadcast to (n envs, columns)."""
        world = self._built()
        index = env_index(envs, world.n_envs, world.device)
        rows = world.n_envs if index is None else len(index)
        try:
            array = values if isinstance(values, torch.Tensor) else np.asarray(values)
        except ValueError as error:
            raise OptionError(f"{option} must be numbers in rows of equal length, got {values!r}") from error
        if isinstance(array, np.ndarray) and array.dtype.kind not in "fiu":
            raise OptionError(f"{option} must be numbers, got {values!r}")
        tensor = torch.as_tensor(array)
        if tensor.dtype == torch.bool or tensor.is_complex():
            raise OptionError(f"{option} must be numbers, got {tensor.dtype}")
        tensor = tensor.to(dtype=world.bind("qpos").dtype)
        tensor = tensor.cpu() if world.device.type == "cpu" else tensor  # and looked at where that does not wait
        if tensor.shape not in ((), (columns,), (1, columns), (rows, columns)):
            raise OptionError(
                f"{option} must be a number or have shape ({columns},) or ({rows}, {columns}), "
                f"got {tuple(tensor.shape)}"
            )
        if tensor.device.type == "cpu" and not bool(torch.isfinite(tensor).all()):
            raise OptionError(f"{option} must be finite, got NaN or infinity")
        if option == "quat" and tensor.device.type == "cpu" and not bool((tensor.norm(dim=-1) > 1e-6).all()):
            raise OptionError("quat must not be zero")
        return upload(tensor, world.device).expand(rows, columns)

    def _write(self, field: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, envs: Envs) -> None:
        world = self._built()
        index = env_index(envs, world.n_envs, world.device)
        if index is None:
            field[:, columns] = values
        else:
            field[index.unsqueeze(1), columns.unsqueeze(0)] = values

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name!r}>"
