"""Reading models and putting them into one MuJoCo spec."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

import mujoco
import numpy as np

from sensorium.errors import ModelError, OptionError, did_you_mean
from sensorium.worlds.primitives import Primitive, quaternion
from sensorium.worlds.tile_map import TileMap
from sensorium.worlds.urdf import find, registered

Model: TypeAlias = Primitive | TileMap | mujoco.MjSpec | str | os.PathLike[str]
"""What can be added to a scene: a primitive, a tile map, an MjSpec, an MJCF or URDF file or string, or the name
of a registered robot."""

_FREE = mujoco.mjtJoint.mjJNT_FREE


def load_spec(model: TileMap | mujoco.MjSpec | str | os.PathLike[str]) -> mujoco.MjSpec:
    """An MjSpec of its own from an MJCF or URDF file, an XML string, a tile map, or another MjSpec (it is copied)."""
    if isinstance(model, mujoco.MjSpec):
        return model.copy()
    if isinstance(model, TileMap):
        return model.to_spec()
    if not isinstance(model, str | os.PathLike):
        raise ModelError(
            f"cannot add {type(model).__name__}: give a primitive (sn.Box, ...), a sn.TileMap, an MJCF or URDF file or "
            "string, or a mujoco.MjSpec"
        )
    is_text = isinstance(model, str) and model.lstrip().startswith("<")
    if not is_text and not Path(model).is_file():
        hint = did_you_mean(os.fspath(model), registered())
        raise ModelError(f"there is no model file {os.fspath(model)!r}{hint} (an XML string must start with '<')")
    try:
        return mujoco.MjSpec.from_string(model) if is_text else mujoco.MjSpec.from_file(os.fspath(model))
    except ValueError as error:
        raise ModelError(f"cannot read {'the XML string' if is_text else os.fspath(model)}: {error}") from error


def by_name(model: Model) -> Model:
    """The model that is registered under a name, where it is one; else what was given."""
    known = find(model)
    return model if known is None else known.model.spec()


def pose(
    pos: tuple[float, float, float], quat: tuple[float, float, float, float] | None, euler: tuple[float, ...] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Checked position and unit quaternion from ``pos`` and one of ``quat`` (w, x, y, z) and ``euler`` (rad)."""
    position = np.asarray(pos, dtype=np.float64)
    if position.shape != (3,) or not np.isfinite(position).all():
        raise OptionError(f"pos must be three finite numbers, got {pos!r}")
    if quat is not None and euler is not None:
        raise OptionError("give quat or euler, not both")
    if euler is not None:
        if np.shape(euler) != (3,) or not np.isfinite(euler).all():
            raise OptionError(f"euler must be three finite angles in radians, got {euler!r}")
        return position, quaternion((euler[0], euler[1], euler[2]))
    orientation = np.asarray((1, 0, 0, 0) if quat is None else quat, dtype=np.float64)
    norm = np.linalg.norm(orientation) if orientation.shape == (4,) else 0.0
    if not np.isfinite(norm) or norm < 1e-9:
        raise OptionError(f"quat must be four finite numbers (w, x, y, z), not all zero, got {quat!r}")
    return position, orientation / norm


def add_primitive(
    spec: mujoco.MjSpec, shape: Primitive, name: str, pos: np.ndarray, quat: np.ndarray, free: bool
) -> None:
    """Add a body of one geom."""
    if free and shape._geom()[0] == mujoco.mjtGeom.mjGEOM_PLANE:
        raise OptionError(f"{name!r}: a plane cannot be free")
    body = spec.worldbody.add_body(name=name, pos=pos, quat=quat)
    if free:
        body.add_freejoint(name=f"{name}/free")
    shape.add_to(body, name)


def add_model(
    spec: mujoco.MjSpec,
    child: mujoco.MjSpec,
    name: str,
    pos: np.ndarray,
    quat: np.ndarray,
    free: bool | None,
    fixed: bool = False,
) -> str | None:
    """Attach ``child`` under the prefix ``name/``; return its root body's name (None without a single root).

    ``free`` frees or fixes a single root, ``fixed`` fixes every root. The child's ``<option>`` is dropped, for options
    are the scene's, and so are its keyframes where the base was changed, for they no longer fit.
    """
    roots = child.worldbody.bodies
    for kind, elements in (("body", child.bodies[1:]), ("joint", child.joints), ("actuator", child.actuators)):
        taken = {element.name for element in elements}
        for number, element in enumerate(elements):  # only what has a name gets the prefix that says whose it is
            if not element.name:
                names = (f"{kind}{n}" for n in range(number, number + len(elements) + 1))
                element.name = next(name for name in names if name not in taken)
                taken.add(element.name)
    if fixed:
        for joint in [joint for root in roots for joint in root.joints if joint.type == _FREE]:
            _drop(child, joint)
    if free is not None:
        if len(roots) != 1:
            raise ModelError(f"{name!r}: free={free} needs a model with one root body; this one has {len(roots)}")
        joints = [joint for joint in roots[0].joints if joint.type == _FREE]
        if free and not joints:
            if roots[0].joints:
                raise ModelError(f"{name!r}: its root body already has joints, so its base cannot be made free")
            roots[0].add_freejoint(name="free")
            _forget_keys(child)
        elif not free:
            for joint in joints:
                _drop(child, joint)
    root = roots[0].name if len(roots) == 1 else None
    for option in (name for name in dir(child.option) if not name.startswith("_")):
        setattr(child.option, option, getattr(spec.option, option))  # or MuJoCo warns of each that differs
    try:
        spec.attach(child, prefix=f"{name}/", frame=spec.worldbody.add_frame(pos=pos, quat=quat))
    except ValueError as error:
        raise ModelError(f"cannot add {name!r} to the scene: {error}") from error
    return None if root is None else f"{name}/{root}"


def _drop(spec: mujoco.MjSpec, joint: mujoco.MjsJoint) -> None:
    spec.delete(joint)
    _forget_keys(spec)


def _forget_keys(spec: mujoco.MjSpec) -> None:
    for key in list(spec.keys):
        spec.delete(key)
