"""Load models and compose them into one MuJoCo spec."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TypeAlias

import mujoco
import numpy as np

from sensorium._paths import path_text
from sensorium.errors import ModelError, OptionError, did_you_mean
from sensorium.worlds.lights import Light, light_scene
from sensorium.worlds.physics_options import write_options
from sensorium.worlds.primitives import Primitive, quaternion
from sensorium.worlds.scene_options import SceneOptions
from sensorium.worlds.tile_map import TileMap
from sensorium.worlds.urdf import find, registered

Model: TypeAlias = Primitive | TileMap | mujoco.MjSpec | str | os.PathLike[str]
"""What ``scene.add_object`` takes: a primitive, a tile map, an MjSpec, an MJCF or URDF file or text, or the name of a
registered robot."""
Position: TypeAlias = tuple[float, float, float]
"""x, y, z in metres; or roll, pitch, yaw in radians."""
Quaternion: TypeAlias = tuple[float, float, float, float]
"""(w, x, y, z)."""

_FREE = mujoco.mjtJoint.mjJNT_FREE


def load_spec(model: TileMap | mujoco.MjSpec | str | os.PathLike[str]) -> mujoco.MjSpec:
    """Return a new MjSpec from an MJCF or URDF file, XML text, a tile map, or another MjSpec, which is copied.

    Raises:
        ModelError: the file does not exist, or the model cannot be read.
    """
    if isinstance(model, mujoco.MjSpec):
        return model.copy()
    if isinstance(model, TileMap):
        return model.to_spec()
    if not isinstance(model, str | os.PathLike):
        raise ModelError(
            f"cannot add {type(model).__name__}: a model must be a primitive (sn.Box, ...), a sn.TileMap, an MJCF or "
            "URDF file or text, or a mujoco.MjSpec"
        )
    path_text("model", model)
    is_text = isinstance(model, str) and model.lstrip().startswith("<")
    if not is_text and not os.path.isfile(model):
        hint = did_you_mean(os.fspath(model), registered())
        raise ModelError(f"there is no model file {os.fspath(model)!r}{hint} (XML text must start with '<')")
    if not is_text and not Path(model).suffix:  # MuJoCo would write a warning to MUJOCO_LOG.TXT
        raise _no_model(model)
    try:
        return mujoco.MjSpec.from_string(model) if is_text else mujoco.MjSpec.from_file(os.fspath(model))
    except ValueError as error:
        if not is_text and Path(model).suffix not in (".xml", ".urdf"):  # MuJoCo names its missing decoder only
            raise _no_model(model) from error
        raise ModelError(f"cannot read {'the XML text' if is_text else os.fspath(model)}: {error}") from error


def _no_model(file: str | os.PathLike[str]) -> ModelError:
    return ModelError(f"{os.fspath(file)} is not a model: give an MJCF or URDF file, whose name ends in .xml or .urdf")


def load_whole(model: TileMap | mujoco.MjSpec | str | os.PathLike[str]) -> mujoco.MjSpec:
    """Return what :func:`load_spec` returns, for a model that stays as it is.

    MuJoCo finds missing files and impossible inertias of a URDF only when it compiles, so this compiles URDF models.

    Raises:
        ModelError: the model cannot be read; for a URDF, also if it cannot be compiled.
    """
    spec = load_spec(model)
    if isinstance(model, str | os.PathLike) and is_urdf(model):
        try:
            spec.copy().compile()
        except ValueError as error:
            name = "the URDF text" if os.fspath(model).lstrip().startswith("<") else os.fspath(model)
            raise ModelError(
                f"MuJoCo cannot load {name}: {' '.join(str(error).split())}. sn.robots.register_urdf(name, file, "
                "strict=False) finds package:// files, reads .dae meshes and repairs what it can; then add the robot "
                "by its name"
            ) from error
    return spec


def is_urdf(model: str | os.PathLike[str]) -> bool:
    """Return whether a model is a URDF file, by its suffix, or URDF text, by its root element."""
    if isinstance(model, str) and model.lstrip().startswith("<"):
        return re.match(r"(\s|<\?.*?\?>|<!--.*?-->)*<robot\b", model, re.DOTALL) is not None
    return Path(model).suffix.lower() == ".urdf"


def by_name(model: Model) -> Model:
    """Return the registered model if ``model`` is the name of one, otherwise ``model`` itself."""
    known = find(model)
    return model if known is None else known.model.spec()


def pose(pos: Position, quat: Quaternion | None, euler: Position | None) -> tuple[np.ndarray, np.ndarray]:
    """Return a position (3,) and a unit quaternion (4,) as float64.

    Args:
        pos: position, m.
        quat: orientation (w, x, y, z), normalised here; or
        euler: roll, pitch, yaw, rad.

    Raises:
        OptionError: a value has the wrong shape or is not finite, ``quat`` is zero, or both orientations are given.
    """
    position = _vector(pos, 3)
    if position is None:
        raise OptionError(f"pos must be three finite numbers, got {pos!r}")
    if quat is not None and euler is not None:
        raise OptionError("give quat or euler, not both")
    if euler is not None:
        angles = _vector(euler, 3)
        if angles is None:
            raise OptionError(f"euler must be three finite angles in radians, got {euler!r}")
        return position, quaternion((angles[0], angles[1], angles[2]))
    orientation = _vector((1, 0, 0, 0) if quat is None else quat, 4)
    norm = 0.0 if orientation is None else np.linalg.norm(orientation)
    if orientation is None or not np.isfinite(norm) or norm < 1e-9:
        raise OptionError(f"quat must be four finite numbers (w, x, y, z), not all zero, got {quat!r}")
    return position, orientation / norm


def _vector(value: object, length: int) -> np.ndarray | None:
    """Return a vector as float64, or None if it is not ``length`` finite numbers."""
    try:
        vector = np.asarray(value)
        numbers = vector.astype(np.float64) if vector.dtype.kind in "iuf" else np.zeros(0)
    except (TypeError, ValueError, RuntimeError):  # ragged, or tensors with a gradient
        return None
    return numbers if numbers.shape == (length,) and np.isfinite(numbers).all() else None


def add_primitive(
    spec: mujoco.MjSpec, shape: Primitive, name: str, pos: np.ndarray, quat: np.ndarray, free: bool
) -> None:
    """Add a primitive as a body with one geom, both called ``name``."""
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
    """Attach ``child`` under the prefix ``name/``.

    The ``<option>`` of the child is dropped, since the scene has its own options. Keyframes are dropped if the base
    changes, since they no longer match the number of coordinates.

    Args:
        spec: the spec of the scene.
        child: the model; it is changed.
        name: name of the entity.
        pos: position in the world frame, m.
        quat: orientation (w, x, y, z) in the world frame.
        free: True adds a free joint to the root body, False removes it, None keeps the model as it is.
        fixed: whether to remove the free joints of all root bodies.

    Returns:
        The full name of the root body; None unless there is exactly one.
    """
    name_elements(child)
    roots = child.worldbody.bodies
    if fixed:
        for joint in [joint for root in roots for joint in root.joints if joint.type == _FREE]:
            _drop(child, joint)
    if free is not None:
        if len(roots) != 1:
            raise ModelError(f"{name!r}: free={free} needs a model with one root body, got {len(roots)}")
        joints = [joint for joint in roots[0].joints if joint.type == _FREE]
        if free and not joints:
            if roots[0].joints:
                raise ModelError(f"{name!r}: its root body already has joints, so free=True is not possible")
            roots[0].add_freejoint(name="free")
            _forget_keys(child)
        elif not free:
            for joint in joints:
                _drop(child, joint)
    root = roots[0].name if len(roots) == 1 else None
    for option in (name for name in dir(child.option) if not name.startswith("_")):
        setattr(child.option, option, getattr(spec.option, option))  # otherwise MuJoCo warns about each difference
    child.nkey = spec.nkey  # keyframes are attached, whatever this number is
    try:
        spec.attach(child, prefix=f"{name}/", frame=spec.worldbody.add_frame(pos=pos, quat=quat))
    except ValueError as error:
        raise ModelError(f"cannot add {name!r} to the scene: {error}") from error
    return None if root is None else f"{name}/{root}"


def name_elements(spec: mujoco.MjSpec) -> None:
    """Name the bodies, joints and actuators that have no name: only named elements get the prefix of their entity."""
    for kind, elements in (("body", spec.bodies[1:]), ("joint", spec.joints), ("actuator", spec.actuators)):
        taken = {element.name for element in elements}
        for number, element in enumerate(elements):
            if not element.name:
                names = (f"{kind}{n}" for n in range(number, number + len(elements) + 1))
                element.name = next(name for name in names if name not in taken)
                taken.add(element.name)


def compose_scene(spec: mujoco.MjSpec, options: SceneOptions, lights: tuple[Light, ...]) -> mujoco.MjSpec:
    """Return a copy of the spec of all entities, with the options, lights and sky of a scene."""
    composed = spec.copy()
    write_options(composed.option, options)
    if not options.simple_bodies:
        for body in composed.bodies[1:]:
            body.simple = False
    light_scene(composed, lights, options.sky, options.environments)
    return composed


def _drop(spec: mujoco.MjSpec, joint: mujoco.MjsJoint) -> None:
    spec.delete(joint)
    _forget_keys(spec)


def _forget_keys(spec: mujoco.MjSpec) -> None:
    for key in list(spec.keys):
        spec.delete(key)
