"""Robots by name, and robots of users' own."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mujoco

from sensorium.errors import ModelError, NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.robots.arms import ARMS
from sensorium.robots.manipulator import Manipulator, ManipulatorOptions
from sensorium.robots.move_group import MoveGroup
from sensorium.robots.rig import SensorRig
from sensorium.robots.robot import Action, Robot, RobotOptions
from sensorium.worlds.compose import load_spec
from sensorium.worlds.urdf import UrdfModel, find, registered

MODELS = Path(__file__).parent / "models"
"""Where the models of our own robots lie."""

_PACKAGE = "package:/"
"""How file names begin that URDF files of ROS give, with another slash or without."""
_WHEEL, _TRACK = 0.08, 0.36


def _diffdrive() -> dict[str, Any]:
    """Two driven wheels and two casters."""
    turn = _TRACK / 2 / _WHEEL
    forward = {"left_wheel": 1 / _WHEEL, "right_wheel": 1 / _WHEEL}
    return {
        "base": "base",
        "radius": 0.25,
        "actions": (
            Action(name="forward", limits=(-1.0, 1.0), actuators=forward),
            Action(name="turn", limits=(-2.0, 2.0), actuators={"left_wheel": -turn, "right_wheel": turn}),
        ),
    }


def _holonomic() -> dict[str, Any]:
    """A base that drives any way."""
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


OWN = {"diffdrive": _diffdrive, "holonomic": _holonomic, "balancer": _balancer, **ARMS}
"""Our own robots: name -> what makes their options."""


def names() -> list[str]:
    """Names of our own robots."""
    return list(OWN)


def make(
    model: str | os.PathLike[str] | mujoco.MjSpec,
    *,
    base: str | None = None,
    actions: Sequence[Action | Mapping[str, Any]] | None = None,
    move_groups: Sequence[MoveGroup | Mapping[str, Any]] | None = None,
    rig: SensorRig | str | os.PathLike[str] | None = None,
    **options: Any,
) -> Robot:
    """A robot, for ``scene.add_module("robot", ...)``.

    Args:
        model: a name ("diffdrive", "franka", ...: see :func:`names`), one that :func:`register_urdf` has registered,
            whose options are then the defaults of those below, or a model of your own: an MJCF or URDF file or text, or
            an MjSpec.
        base: the link whose pose is the robot's. Default: the model's only root link.
        actions: what the robot can be told, as :class:`Action` or as its options. Default: one for each actuator that
            has a control range, by its name and in its unit.
        move_groups: its arms, grippers and base, as :class:`MoveGroup` or as its options, instead of actions: it is a
            :class:`Manipulator` then.
        rig: its sensors: a :class:`SensorRig`, a YAML file, or the name of one of our rigs. Default: those of the
            robot of that name, and none for a model of your own.
        **options: ``radius``, ``pos``, ``yaw``: see :class:`RobotOptions`; ``controllers``, ... of robots with move
            groups: see :class:`ManipulatorOptions`.
    """
    given: dict[str, Any] = {"base": base, "actions": actions, "move_groups": move_groups, "rig": rig}
    known = find(model)
    if known is not None:
        asked = {name: value for name, value in given.items() if value is not None}
        return make_of(known.model, {**known.options, **asked, **options})
    if isinstance(model, str) and model in OWN:
        values = {**OWN[model](), "kind": model}
        values |= {"model": (MODELS / f"{model}.xml").read_text(encoding="utf-8"), "rig": SensorRig.named(model)}
        values["assets"] = _parts(MODELS / f"{model}.xml")
    else:
        text, assets, spec = _read(model)
        values = {"model": text, "assets": assets, "base": base or _root(spec)}
        if actions is None and move_groups is None:
            values["actions"] = _every_actuator(spec)
    return _assemble(values, **given, **options)


def make_of(model: UrdfModel, options: Mapping[str, Any]) -> Robot:
    """A robot of a URDF model; the options are those of :func:`make`."""
    spec = model.spec()
    assets = {name: base64.b64encode(content).decode("ascii") for name, content in model.assets.items()}
    values: dict[str, Any] = {"model": model.xml, "assets": assets, "base": options.get("base") or _root(spec)}
    if options.get("actions") is None and options.get("move_groups") is None:
        values["actions"] = _every_actuator(spec)
    return _assemble(values, **options)


def _assemble(
    values: dict[str, Any],
    base: str | None = None,
    actions: Sequence[Action | Mapping[str, Any]] | None = None,
    move_groups: Sequence[MoveGroup | Mapping[str, Any]] | None = None,
    rig: SensorRig | str | os.PathLike[str] | None = None,
    **options: Any,
) -> Robot:
    """A robot of a model's values, and of what was asked for instead."""
    if base is not None:
        values["base"] = base
    if actions is not None:
        values["actions"] = tuple(each if isinstance(each, Action) else Action(**each) for each in actions)
    if move_groups is not None:
        groups = (each if isinstance(each, MoveGroup) else MoveGroup(**each) for each in move_groups)
        values["move_groups"] = tuple(groups)
    if rig is not None:
        values["rig"] = _rig(rig)
    if "move_groups" in values:
        return Manipulator(ManipulatorOptions(**{**values, **options}))
    return Robot(RobotOptions(**{**values, **options}))


def _parts(file: Path) -> dict[str, str]:
    """The other files of ours that a model is made of: name -> content in base64."""
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
    """A model as text, the files that it needs, and its spec: all that another machine needs to have it too."""
    if isinstance(model, str) and not model.lstrip().startswith("<") and not Path(model).is_file():
        known = [*OWN, *registered()]
        hint = did_you_mean(model, known)
        raise NameNotFoundError(
            f"there is no robot or model file {model!r}{hint}; the robots are {shorten(known)}, or give an MJCF or "
            "URDF file"
        )
    spec = load_spec(model)
    fused, spec.compiler.fusestatic = spec.compiler.fusestatic, False  # or a URDF's base is one with the world
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
                spec.assets |= {element.file: path.read_bytes()}  # since writing a spec looks for them
                continue
            for file in (element.file, *getattr(element, "cubefiles", ())):
                if file:
                    files[file] = Path(spec.modelfiledir, folder, file)
    if not files and not fused and isinstance(model, str) and model.lstrip().startswith("<"):
        return model, {}, spec
    missing = [path for path in files.values() if not path.is_file()]
    if missing:
        raise ModelError(f"the model needs {missing[0]}, which is not there")
    assets = {name: base64.b64encode(path.read_bytes()).decode("ascii") for name, path in files.items()}
    return spec.to_xml(), assets, spec


def _in_package(file: str, folder: Path) -> Path:
    """Where a file that a URDF names as ``package://NAME/...`` lies: in the folder NAME above or beside the model."""
    inner = file.removeprefix(_PACKAGE).strip("/")
    places = [parent / inner for parent in folder.resolve().parents]
    for place in places:
        if place.is_file():
            return place
    raise ModelError(f"the model needs {file}; there is no {inner!r} in any folder above {folder}")


def _root(spec: mujoco.MjSpec) -> str:
    roots = [body.name for body in spec.worldbody.bodies]
    if len(roots) != 1 or not roots[0]:
        raise OptionError(f"base must name the robot's base link: the model has the root links {shorten(roots)}")
    return str(roots[0])


def _every_actuator(spec: mujoco.MjSpec) -> tuple[Action, ...]:
    for actuator in spec.actuators:
        if not actuator.name or not actuator.ctrlrange[0] < actuator.ctrlrange[1]:
            raise OptionError(
                f"actuator {actuator.name!r} has no name or no ctrlrange: give actions, such as "
                'actions=[{"name": "forward", "limits": (-1, 1), "actuators": {"left": 10, "right": 10}}]'
            )
    if not spec.actuators:
        raise OptionError("the model has no actuators, so it can be told nothing; add some to it")
    return tuple(
        Action(name=each.name, limits=(float(each.ctrlrange[0]), float(each.ctrlrange[1])), actuators={each.name: 1.0})
        for each in spec.actuators
    )
