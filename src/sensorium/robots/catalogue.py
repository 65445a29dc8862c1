"""The robot catalogue, and robots created from models of your own."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import mujoco

from sensorium.errors import ModelError, NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.robots.arms import ARMS
from sensorium.robots.manipulator import Manipulator, ManipulatorOptions
from sensorium.robots.move_group import MoveGroup
from sensorium.robots.plain_robot import PlainRobot
from sensorium.robots.rig import SensorRig
from sensorium.robots.robot import Robot
from sensorium.robots.robot_options import Action, RobotOptions, complete_actuators, every_actuator
from sensorium.worlds.compose import load_spec, load_whole, name_elements
from sensorium.worlds.urdf import UrdfModel, find, registered

MODELS = Path(__file__).parent / "models"
"""Folder of the models of the catalogue."""

_PACKAGE = "package:/"
"""Prefix of file names in URDF files of ROS; a second slash may follow."""
_WHEEL_RADIUS, _TRACK = 0.08, 0.36
"""Wheel radius and distance between the wheels of "diffdrive", m."""


def _diffdrive() -> dict[str, Any]:
    """Two driven wheels and two casters."""
    turn = _TRACK / 2 / _WHEEL_RADIUS
    forward = {"left_wheel": 1 / _WHEEL_RADIUS, "right_wheel": 1 / _WHEEL_RADIUS}
    return {
        "base": "base",
        "radius": 0.25,
        "actions": (
            Action(name="forward", limits=(-1.0, 1.0), actuators=forward),
            Action(name="turn", limits=(-2.0, 2.0), actuators={"left_wheel": -turn, "right_wheel": turn}),
        ),
    }


def _holonomic() -> dict[str, Any]:
    """A base that drives in any direction."""
    return {
        "base": "base",
        "radius": 0.255,
        "actions": (
            Action(name="forward", limits=(-1.0, 1.0), actuators={"forward": 1.0}),
            Action(name="left", limits=(-1.0, 1.0), actuators={"left": 1.0}),
            Action(name="turn", limits=(-2.0, 2.0), actuators={"turn": 1.0}),
        ),
    }


def _balancer() -> dict[str, Any]:
    """A torso on two wheels that falls over unless it is balanced."""
    return {
        "base": "torso",
        "radius": 0.14,
        "actions": tuple(
            Action(name=f"{side}_torque", limits=(-1.0, 1.0), actuators={f"{side}_wheel": 1.0})
            for side in ("left", "right")
        ),
    }


_LEGS = tuple(f"{end}_{side}" for end in ("front", "rear") for side in ("left", "right"))


def _quadruped() -> dict[str, Any]:
    """A dog with three joints per leg. Its actions are joint positions in rad, 0 in the standing pose."""
    limits = {"hip": (-0.8, 0.8), "thigh": (-1.5, 1.9), "calf": (-1.1, 0.9)}
    joints = {f"{leg}_{joint}": limits[joint] for leg in _LEGS for joint in limits}
    return {
        "base": "torso",
        "radius": 0.35,
        "actions": tuple(Action(name=name, limits=each, actuators={name: 1.0}) for name, each in joints.items()),
    }


def _humanoid() -> dict[str, Any]:
    """A humanoid with 19 joints. Its actions are joint positions in rad, 0 in the standing pose."""
    leg = {"hip_yaw": (-0.8, 0.8), "hip_roll": (-0.5, 0.5), "hip_pitch": (-1.5, 1.0), "knee": (-0.6, 1.6)}
    leg |= {"ankle_pitch": (-0.6, 0.8), "ankle_roll": (-0.3, 0.3)}
    arm = {"shoulder_pitch": (-1.5, 1.5), "shoulder_roll": (-1.5, 1.5), "elbow": (-1.2, 0.6)}
    joints = {"waist": (-1.2, 1.2)}
    for limb in (leg, arm):
        joints |= {f"{side}_{joint}": limits for side in ("left", "right") for joint, limits in limb.items()}
    return {
        "base": "torso",
        "radius": 0.28,
        "actions": tuple(Action(name=name, limits=each, actuators={name: 1.0}) for name, each in joints.items()),
    }


CATALOGUE: dict[str, Callable[[], dict[str, Any]]] = {
    "diffdrive": _diffdrive,
    "holonomic": _holonomic,
    "balancer": _balancer,
    "quadruped": _quadruped,
    "humanoid": _humanoid,
    **ARMS,
}
"""Name -> function that returns the options of the robot."""


def names() -> list[str]:
    """Return the names of the catalogue."""
    return list(CATALOGUE)


def make(
    model: str | os.PathLike[str] | mujoco.MjSpec,
    *,
    base: str | None = None,
    actions: Sequence[Action | Mapping[str, Any]] | None = None,
    move_groups: Sequence[MoveGroup | Mapping[str, Any]] | None = None,
    rig: SensorRig | str | os.PathLike[str] | None = None,
    **options: Any,
) -> Robot:
    """Create a robot for ``scene.add_robot(robot)``.

    ``scene.add_robot("franka", rig=...)`` creates and adds a robot in one call.

    Args:
        model: a catalogue name ("diffdrive", "franka", ...: see :func:`names`); a name that :func:`register_urdf`
            registered, whose options are the defaults of those below; or a model: an MJCF or URDF file or text, or an
            MjSpec.
        base: the link whose pose is that of the robot. Default: the only root link of the model.
        actions: the values of an action, as :class:`Action` or as its options. Default: one for each actuator, by its
            name and in its unit; each must then have a control range. An actuator without a name gets that of its
            joint, and a position servo without a control range the range of its joint.
        move_groups: arms, grippers and base, as :class:`MoveGroup` or as its options, instead of actions. The robot is
            then a :class:`Manipulator`.
        rig: the sensors: a :class:`SensorRig`, a YAML file, or the name of a rig of the catalogue. Default: the rig of
            that name for the catalogue, no sensors for a model.
        **options: ``radius``, ``pos``, ``yaw``, ...: see :class:`RobotOptions`; ``controllers``, ... of robots with
            move groups: see :class:`ManipulatorOptions`.

    Returns:
        A :class:`Robot`, or a :class:`Manipulator` if it has move groups.

    Example:
        >>> robot = sn.robots.make("diffdrive", rig="my_rig.yaml")
        >>> scene.add_robot(robot, name="robot", pos=(1, 0, 0))
    """
    return _make(model, True, base=base, actions=actions, move_groups=move_groups, rig=rig, **options)


def make_for_scene(model: str | os.PathLike[str] | mujoco.MjSpec, **options: Any) -> Robot:
    """Create the robot that ``scene.add_robot(model, **options)`` adds.

    Unlike :func:`make`, it accepts models without actuators, and actuators without a control range. Without options,
    the model stays as it is: it is not converted to text, which would round its numbers to six digits.
    """
    named = isinstance(model, str) and (model in CATALOGUE or find(model) is not None)
    if named or options:
        return _make(model, False, **options)
    if isinstance(model, str) and not model.lstrip().startswith("<") and not os.path.isfile(model):
        known = [*CATALOGUE, *registered()]
        raise ModelError(
            f"there is no robot and no model file {model!r}{did_you_mean(model, known)}; the robots are "
            f"{shorten(known)} (XML text must start with '<')"
        )
    spec = load_whole(model)
    name_elements(spec)
    roots = [body.name for body in spec.worldbody.bodies]
    base = roots[0] if len(roots) == 1 else None
    kept = Path(model) if isinstance(model, os.PathLike) else model
    return PlainRobot(RobotOptions(model=kept, base=base, actions=every_actuator(spec, strict=False)))


def _make(model: str | os.PathLike[str] | mujoco.MjSpec, strict: bool, **given: Any) -> Robot:
    known = find(model)
    if known is not None:
        asked = {name: value for name, value in given.items() if value is not None}
        return make_of(known.model, {**known.options, **asked}, strict)
    if isinstance(model, str) and model in CATALOGUE:
        values = {**CATALOGUE[model](), "kind": model}
        values |= {"model": (MODELS / f"{model}.xml").read_text(encoding="utf-8"), "rig": SensorRig.named(model)}
        values["assets"] = _included(MODELS / f"{model}.xml")
    else:
        text, assets, spec = _read(model)
        values = {"model": text, "assets": assets, "base": given.get("base") or _root(spec)}
        if given.get("actions") is None and given.get("move_groups") is None:
            if strict and complete_actuators(spec):
                values["model"] = _to_xml(spec)
            values["actions"] = every_actuator(spec, strict)
    return _assemble(values, **given)


def make_of(model: UrdfModel, options: Mapping[str, Any], strict: bool = True) -> Robot:
    """Create a robot of a URDF model; the options are those of :func:`make`.

    Args:
        model: the converted model.
        options: options of :func:`make`.
        strict: whether actuators must exist and have a control range; see :func:`every_actuator`.
    """
    spec = model.spec()
    assets = {name: base64.b64encode(content).decode("ascii") for name, content in model.assets.items()}
    values: dict[str, Any] = {"model": model.xml, "assets": assets, "base": options.get("base") or _root(spec)}
    if options.get("actions") is None and options.get("move_groups") is None:
        values["actions"] = every_actuator(spec, strict)
    return _assemble(values, **options)


def _assemble(
    values: dict[str, Any],
    base: str | None = None,
    actions: Sequence[Action | Mapping[str, Any]] | None = None,
    move_groups: Sequence[MoveGroup | Mapping[str, Any]] | None = None,
    rig: SensorRig | str | os.PathLike[str] | None = None,
    **options: Any,
) -> Robot:
    """Create a robot from the values of a model; the other arguments replace them."""
    if base is not None:
        values["base"] = base
    for name, given in (("actions", actions), ("move_groups", move_groups)):
        if given is not None and (isinstance(given, str) or not isinstance(given, Sequence)):
            raise OptionError(f"{name} must be a sequence, got {given!r:.80}")
    if actions is not None:
        values["actions"] = tuple(each if isinstance(each, Action) else Action(**each) for each in actions)
        if not values["actions"]:
            raise OptionError("actions must contain at least one action")
    if move_groups is not None:
        groups = (each if isinstance(each, MoveGroup) else MoveGroup(**each) for each in move_groups)
        values["move_groups"] = tuple(groups)
    if rig is not None:
        values["rig"] = _rig(rig)
    if "move_groups" in values:
        return Manipulator(ManipulatorOptions(**{**values, **options}))
    return Robot(RobotOptions(**{**values, **options}))


def _included(file: Path) -> dict[str, str]:
    """Return the other files of the catalogue that a model includes: name -> content in base64."""
    needed = (Path(path).name for path in mujoco.mju_getXMLDependencies(str(file)))
    return {
        name: base64.b64encode((MODELS / name).read_bytes()).decode("ascii") for name in needed if name != file.name
    }


def _rig(rig: SensorRig | str | os.PathLike[str]) -> SensorRig:
    if isinstance(rig, SensorRig):
        return rig
    if isinstance(rig, str) and not rig.endswith((".yaml", ".yml")) and not {"/", os.sep} & set(rig):
        return SensorRig.named(rig)
    return SensorRig.load(rig)


def _read(model: str | os.PathLike[str] | mujoco.MjSpec) -> tuple[str, dict[str, str], mujoco.MjSpec]:
    """Return a model as text, the files that it needs, and its spec: all that another machine needs to load it."""
    if isinstance(model, str) and not model.lstrip().startswith("<") and not os.path.isfile(model):
        known = [*CATALOGUE, *registered()]
        hint = did_you_mean(model, known)
        raise NameNotFoundError(
            f"there is no robot or model file {model!r}{hint}; the robots are {shorten(known)}, or give an MJCF or "
            "URDF file"
        )
    spec = load_spec(model)
    # fusing static bodies would merge the base of a URDF into the world
    fused, spec.compiler.fusestatic = spec.compiler.fusestatic, False
    files = {}
    for folder, elements in (
        (spec.meshdir, (*spec.meshes, *spec.hfields, *spec.skins)),
        (spec.texturedir, spec.textures),
    ):
        for element in elements:
            if element.file.startswith(_PACKAGE):
                path = _in_package(element.file, Path(spec.modelfiledir))
                element.file = element.file.removeprefix(_PACKAGE).strip("/").replace("/", "_")
                files[element.file] = path
                spec.assets |= {element.file: path.read_bytes()}  # to_xml() looks for them
                continue
            for file in (element.file, *getattr(element, "cubefiles", ())):
                if file:
                    files[file] = Path(spec.modelfiledir, folder, file)
    if not files and not fused and isinstance(model, str) and model.lstrip().startswith("<"):
        return model, {}, spec
    missing = [path for path in files.values() if not os.path.isfile(path)]
    if missing:
        raise ModelError(f"the model names the file {str(missing[0])!r}, which does not exist")
    assets = {name: base64.b64encode(path.read_bytes()).decode("ascii") for name, path in files.items()}
    return _to_xml(spec), assets, spec


def _to_xml(spec: mujoco.MjSpec) -> str:
    """Return a model as text, with the names of its files.

    Raises:
        ModelError: it does not compile.
    """
    try:
        return str(spec.to_xml())
    except ValueError as error:  # to_xml() compiles the model
        raise ModelError(f"the model does not compile: {error}") from error


def _in_package(file: str, folder: Path) -> Path:
    """Return the path of a file that a URDF names as ``package://NAME/...``: NAME in any folder above the model."""
    inner = file.removeprefix(_PACKAGE).strip("/")
    places = [parent / inner for parent in folder.resolve().parents]
    for place in places:
        if os.path.isfile(place):
            return place
    raise ModelError(f"the model names the file {file}, but no folder above {folder} contains {inner!r}")


def _root(spec: mujoco.MjSpec) -> str:
    roots = [body.name for body in spec.worldbody.bodies]
    if len(roots) != 1 or not roots[0]:
        raise OptionError(f"base must name the base link of the robot: the model has the root links {shorten(roots)}")
    return str(roots[0])
