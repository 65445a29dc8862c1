"""Model fields with their own values per env, as buffers of the component tree."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping

import mujoco
import numpy as np
import torch

from sensorium.errors import OptionError
from sensorium.tree import Buffer, Module
from sensorium.worlds.world import World

MODEL_TAG = "model"
"""Tag of these buffers."""

STATE = (
    "time",
    "qpos",
    "qvel",
    "act",
    "history",
    "qacc_warmstart",
    "ctrl",
    "qfrc_applied",
    "xfrc_applied",
    "eq_active",
    "mocap_pos",
    "mocap_quat",
    "userdata",
    "plastic",
)
"""Fields of the full physics state, in the order of MuJoCo's mjSTATE_INTEGRATION."""
DERIVED = (
    "body_subtreemass",
    "body_invweight0",
    "dof_invweight0",
    "geom_aabb",
    "geom_rbound",
    "tendon_length0",
    "tendon_invweight0",
    "actuator_acc0",
    "cam_pos0",
    "cam_poscom0",
    "cam_mat0",
    "light_pos0",
    "light_poscom0",
    "light_dir0",
)
"""Fields that ``world.update_constants`` derives from others, on both engines."""
_DERIVED_ON_CPU = (
    "actuator_length0",
    "bvh_aabb",
    "dof_M0",
    "dof_length",
    "efm0_L",
    "flexedge_invweight0",
    "flexedge_length0",
)
_STRUCTURE = re.compile(
    r"(.*(adr|num|nnz|colind|plugin|signature|names_map|(numeric|text|tuple)_size|(body|parent|root|weld|tree|jnt|dof|obj|ref|trn|mocap|actuator"
    r"|data|node)id)|map[DM]2[DM]|jnt_type|sensor_(type|datatype|dim|objtype|reftype))$"
)
"""Fields that hold the structure of a model: the engine finds its way through memory by them."""


def check_field(field: object) -> None:
    """Raise OptionError if a value is no name of a model field, or one of a field that all envs must share."""
    if not isinstance(field, str):
        raise OptionError(f"expand: field must be the name of a model field, such as 'body_mass', got {field!r}")
    if _STRUCTURE.match(field):
        raise OptionError(f"expand: {field!r} is part of the structure of the model, which all envs share")
    if field == "opt.timestep":
        raise OptionError(
            "expand: 'opt.timestep' cannot differ per env: the time step is the same for all envs; set dt and substeps "
            "of the scene"
        )


def expand_fields(world: World, fields: Mapping[str, np.ndarray | None]) -> None:
    """Expand model fields and set their values per env.

    Derived fields are recomputed on a GPU, whose engine lacks some of them and has the others in single precision.

    Args:
        world: the running engine.
        fields: field -> values (B, ...); None keeps the value of the model.

    Raises:
        OptionError: values have the wrong shape.
    """
    derive = False
    for name, values in fields.items():
        if world.is_gpu and name in (*DERIVED, *_DERIVED_ON_CPU):
            derive = True
            continue
        target = world.expand(name)
        if values is None:
            continue
        if tuple(values.shape) != tuple(target.shape):
            raise OptionError(
                f"values of the model field {name!r} must have shape {tuple(target.shape)}, got "
                f"{tuple(values.shape)}; build the scene with the number of envs that they are for"
            )
        target.copy_(torch.from_numpy(values))
    if derive:
        world.update_constants()
    if fields:
        world.reset()


def check_simple_bodies(world: World) -> None:
    """Raise OptionError if an env moves the centre of mass of a body that is compiled as simple.

    Engines then ignore most of its inertia matrix. Only MuJoCo itself notices. On a GPU this synchronises.
    """
    model = world.model
    simple = np.flatnonzero(model.body_simple[1:]) + 1
    for field in ("body_ipos", "body_iquat"):
        if field not in world.expanded or not len(simple):
            continue
        values = world.expanded[field][:, torch.from_numpy(simple)].numpy(force=True)
        moved = (np.abs(values - getattr(model, field)[simple]) > 1e-6).any(axis=(0, 2))
        if moved.any():
            name = model.body(simple[moved.argmax()]).name
            raise OptionError(
                f"update_constants: {field} of the link {name!r} cannot differ per env: the model is compiled for a "
                "centre of mass at the origin of the link; create the scene with sn.Scene(simple_bodies=False)"
            )


def model_of_env(world: World, env: int) -> mujoco.MjModel:
    """Return the model as it is in one env: itself, or a copy with the values of that env."""
    if not world.expanded:
        return world.model
    model = copy.copy(world.model)
    for name, values in world.expanded.items():
        target = getattr(model, name, None)
        if isinstance(target, np.ndarray):  # not an option of the physics engine
            target[:] = values[env].numpy(force=True).reshape(target.shape)
    return model


class ModelFields(Module):
    """The expanded fields as live buffers: ``world.body_mass``, ... A buffer exists once its field was expanded.

    Loading a buffer writes into the engine at once. The next step or ``scene.forward()`` uses the new values.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._fields: dict[str, Buffer] = {}

    @property
    def fields(self) -> dict[str, Buffer]:
        """Field -> buffer (B, ...)."""
        expanded = self._world.expanded
        if len(expanded) > len(self._fields):
            for name in expanded.keys() - self._fields.keys():
                # derived=True: a state dict that was saved before the field was expanded does not contain it
                self._fields[name] = Buffer(expanded[name], {MODEL_TAG}, derived=True)
        return self._fields

    def _slots(self) -> Iterator[tuple[str, Module | Buffer]]:
        yield from self.fields.items()

    def _write_replay_data(self) -> None:
        written = [buffer for buffer in self._fields.values() if buffer.is_set]
        if written:
            self._world.changes.write()  # cached camera images are out of date
        for buffer in written:
            buffer.update(buffer.value)
