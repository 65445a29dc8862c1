"""Conversion of a checked URDF file to a MuJoCo model."""

from __future__ import annotations

import os
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import mujoco
import numpy as np

from sensorium.errors import ModelError, OptionError
from sensorium.worlds.markup import Problems, parse, read_document
from sensorium.worlds.primitives import quaternion
from sensorium.worlds.urdf.approximate import Approximation, Replacement, UrdfReport, approximate
from sensorium.worlds.urdf.checks import WORLD, check_robot, roots
from sensorium.worlds.urdf.description import SINGLE, Description, Inertial, Link, Shape, describe
from sensorium.worlds.urdf.grammar import check_grammar
from sensorium.worlds.urdf.inertia import check_inertia
from sensorium.worlds.urdf.meshes import Meshes, without_unusable
from sensorium.worlds.urdf.servos import Servos, add_actuators, check_servos, driven_joints, match_servos

_COMPILER_ERRORS = (ValueError, UserWarning, mujoco.FatalError)
_MAX_LISTED = 20
"""Max number of changes that a warning lists."""
_GREY = (0.5, 0.5, 0.5, 1.0)
"""Colour of visual shapes without one, as of MuJoCo's geoms."""
_HIDDEN = 3
"""Geom group of the collision shapes of links with visual shapes. Cameras do not render this group."""


@dataclass(frozen=True)
class UrdfModel:
    """A URDF file converted to MuJoCo.

    Attributes:
        xml: the model as MJCF text.
        assets: mesh files of the model: name -> content.
        report: report of the conversion.
    """

    xml: str
    assets: dict[str, bytes]
    report: UrdfReport

    def spec(self) -> mujoco.MjSpec:
        """Return the model as a new spec."""
        return mujoco.MjSpec.from_string(self.xml, assets=dict(self.assets))


def read_urdf(
    document: str | os.PathLike[str],
    *,
    search: Sequence[str | os.PathLike[str]] = (),
    approximate: Approximation | None = None,
    visuals: bool = True,
    free: bool = False,
    repair: bool = False,
    ignore: Collection[str] = (),
    strict: bool = True,
    servos: Servos | None = None,
) -> UrdfModel:
    """Convert a URDF file or text; the arguments are those of ``sn.robots.register_urdf``.

    Issues a UserWarning that lists the changes of a file that is not read strictly.

    Raises:
        ModelError: the file is invalid; the message has file and line of every problem.
        OptionError, NameNotFoundError: an argument cannot be used.
    """
    servos = check_servos(servos)
    if approximate not in (None, "box", "cylinder"):
        raise OptionError(f"approximate must be 'box', 'cylinder' or None, got {approximate!r}")
    for option, names in (("search", search), ("ignore", ignore)):
        if isinstance(names, str | os.PathLike):
            raise OptionError(f"{option} must be a list, such as [{os.fspath(names)!r}]; got {names!r}")
    content, source, folder = read_document(document, "URDF")
    problems = Problems(source, strict)
    tree = check_grammar(parse(content, source), problems, ignore)
    problems.check()
    robot = describe(tree, problems)
    repair = repair or not strict or robot.compiler.get("balanceinertia") == "true"
    notes: list[str] = []
    robot = replace(robot, links=[check_inertia(link, repair, problems, notes) for link in robot.links])
    robot = check_robot(robot, problems, free)
    visuals = visuals and robot.compiler.get("discardvisual") != "true"
    links = robot.links if visuals else [_without_visuals(link) for link in robot.links]
    meshes = Meshes(robot, folder, search)
    links = [_with_meshes(link, meshes, problems) for link in links]
    problems.check()
    gains = match_servos(servos, driven_joints(robot.joints))
    replacements: list[Replacement] = []
    if approximate is not None:
        links, replacements = _approximate(links, approximate, meshes, problems)
        problems.check()
    try:
        try:
            xml, assets, touching = _convert(replace(robot, links=links), meshes, free, gains)
        except _COMPILER_ERRORS:
            links = without_unusable(links, meshes, problems)
            problems.check()
            xml, assets, touching = _convert(replace(robot, links=links), meshes, free, gains)
    except _COMPILER_ERRORS as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{source}: MuJoCo cannot compile this robot: {' '.join(str(error).split())}") from error
    if not strict and (changes := [*problems.tolerated, *notes]):
        listed = [*changes[:_MAX_LISTED], *([f"and {len(changes) - _MAX_LISTED} more"] * (len(changes) > _MAX_LISTED))]
        warnings.warn("\n  ".join([f"{source} was changed to load it (see the report):", *listed]), stacklevel=3)
    notes += [f"not rendered: the texture {node.attributes['filename']} of line {node.line}" for node in robot.textures]
    notes += meshes.notes
    return UrdfModel(xml, assets, _report(robot, replacements, touching, [*problems.tolerated, *notes]))


def _convert(
    robot: Description, meshes: Meshes, free: bool, gains: Mapping[str, tuple[float, float]]
) -> tuple[str, dict[str, bytes], tuple[tuple[str, str], ...]]:
    """Return the model as MJCF text, its assets, and the pairs of links that touch in the initial state."""
    used = {meshes.name(shape) for link in robot.links for shape in _shapes(link) if shape.kind == "mesh"}
    assets = {name: content for name, content in meshes.assets.items() if name in used}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # problems that MuJoCo's compiler only warns about
        spec = mujoco.MjSpec.from_string(_text(robot, meshes), assets=dict(assets))
        _finish(spec, robot, free)
        add_actuators(spec, driven_joints(robot.joints), gains)
        touching = _exclude_touching(spec)
        xml = spec.to_xml()
        mujoco.MjSpec.from_string(xml, assets=dict(assets)).compile()
    return xml, assets, touching


def _with_meshes(link: Link, meshes: Meshes, problems: Problems) -> Link:
    """Return the link with the files of its meshes loaded."""

    def load(shapes: list[Shape], visual: bool) -> list[Shape]:
        loaded = [meshes.load(each, problems, visual) if each.kind == "mesh" else [each] for each in shapes]
        return [shape for shapes in loaded for shape in shapes]

    return replace(link, visuals=load(link.visuals, True), collisions=load(link.collisions, False))


def _shapes(link: Link) -> list[Shape]:
    return [*link.visuals, *link.collisions]


def _without_visuals(link: Link) -> Link:
    """Return the link without visual shapes; its collision shapes get the colour of the first visual shape."""
    colour = next((shape.rgba for shape in link.visuals if shape.rgba is not None), None)
    return replace(link, visuals=[], collisions=[replace(shape, rgba=colour) for shape in link.collisions])


def _approximate(
    links: list[Link], by: Approximation, meshes: Meshes, problems: Problems
) -> tuple[list[Link], list[Replacement]]:
    changed, replacements = [], []
    for link in links:
        try:
            link, report = approximate(link, by, meshes.vertices)
        except ValueError as error:
            problems.add(link.node, f"link {link.name!r}: no {by} fits its mesh: {' '.join(str(error).split())}")
            continue
        changed.append(link)
        replacements += report
    return changed, replacements


# -- URDF text --------------------------------------------------------------------------------------------------------


def _text(robot: Description, meshes: Meshes) -> str:
    """Return the robot as URDF text of the checked content only, with full precision and asset names of files."""
    root = ET.Element("robot", name=robot.name)
    compiler = {"discardvisual": "false", "fusestatic": "false", "strippath": "false"}
    ET.SubElement(ET.SubElement(root, "mujoco"), "compiler", compiler)
    taken: set[str] = set()
    for link in robot.links:
        element = ET.SubElement(root, "link", name=link.name)
        if link.inertial is not None:
            _write_inertial(element, link.inertial)
        for tag, shapes in (("visual", link.visuals), ("collision", link.collisions)):
            for shape in shapes:
                if shape.tiles is None:
                    _write_shape(ET.SubElement(element, tag), shape, meshes, taken)
    for joint in robot.joints:
        element = ET.SubElement(root, "joint", name=joint.name, type=joint.type)
        _write_origin(element, joint.pos, joint.rpy)
        ET.SubElement(element, "parent", link=joint.parent)
        ET.SubElement(element, "child", link=joint.child)
        if joint.type in SINGLE:
            ET.SubElement(element, "axis", xyz=_join(joint.axis))
            ET.SubElement(element, "dynamics", damping=repr(joint.damping), friction=repr(joint.friction))
        if joint.type in SINGLE and joint.limit is not None:
            limit = {"effort": repr(joint.effort), "velocity": repr(joint.velocity)}
            if joint.type != "continuous":
                limit |= {"lower": repr(joint.lower), "upper": repr(joint.upper)}
            ET.SubElement(element, "limit", limit)
        if joint.mimic is not None:
            follow = {"multiplier": repr(joint.mimic.multiplier), "offset": repr(joint.mimic.offset)}
            ET.SubElement(element, "mimic", {"joint": joint.mimic.joint, **follow})
    return ET.tostring(root, encoding="unicode")


def _join(values: Sequence[float]) -> str:
    return " ".join(repr(float(value)) for value in values)


def _write_origin(element: ET.Element, pos: Sequence[float], rpy: Sequence[float]) -> None:
    ET.SubElement(element, "origin", xyz=_join(pos), rpy=_join(rpy))


def _write_inertial(link: ET.Element, inertial: Inertial) -> None:
    element = ET.SubElement(link, "inertial")
    _write_origin(element, inertial.pos, inertial.rpy)
    ET.SubElement(element, "mass", value=repr(inertial.mass))
    full = inertial.inertia
    values = {
        f"i{'xyz'[row]}{'xyz'[column]}": repr(float(full[row, column])) for row in range(3) for column in range(row, 3)
    }
    ET.SubElement(element, "inertia", values)


def _write_shape(element: ET.Element, shape: Shape, meshes: Meshes, taken: set[str]) -> None:
    if shape.name and shape.name not in taken:
        element.set("name", shape.name)
        taken.add(shape.name)
    _write_origin(element, shape.pos, shape.rpy)
    geometry = ET.SubElement(element, "geometry")
    if shape.kind == "mesh":
        ET.SubElement(geometry, "mesh", filename=meshes.name(shape), scale=_join(shape.size))
    elif shape.kind == "box":
        ET.SubElement(geometry, "box", size=_join(shape.size))
    else:
        sizes = zip(("radius", "length"), map(repr, shape.size), strict=False)
        ET.SubElement(geometry, shape.kind, dict(sizes))
    if element.tag == "visual":  # without a colour, MuJoCo takes that of the visual shape before this one
        colour = _join(shape.rgba or _GREY)
        ET.SubElement(ET.SubElement(element, "material", name=f"colour {colour}"), "color", rgba=colour)


# -- additions to the spec --------------------------------------------------------------------------------------------


def _finish(spec: mujoco.MjSpec, robot: Description, free: bool) -> None:
    """Add what URDF cannot express (tile maps, a free base), and hide collision shapes behind visual ones."""
    for mesh in spec.meshes:
        mesh.inertia = (
            mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
        )  # the inertia of meshes is not used, but open meshes have only this one
    bodies = {body.name: body for body in spec.bodies}
    for link in robot.links:
        body = bodies[link.name]
        for geom in body.geoms:
            if geom.contype and link.visuals:
                geom.group = _HIDDEN
            elif geom.contype and link.collisions and link.collisions[0].rgba is not None:
                geom.rgba = link.collisions[0].rgba
        tiled = [shape for shape in link.collisions if shape.tiles is not None]
        for number, shape in enumerate(tiled):
            assert shape.tiles is not None
            roll, pitch, yaw = shape.rpy
            name = shape.name or f"{link.name}_tiles{number or ''}"
            shape.tiles.add_to(spec, body, name, shape.pos, quaternion((roll, pitch, yaw)))
        for geom in body.geoms:
            geom.density = 0  # the mass of a link is that of its <inertial>
    if free:
        top = roots(robot)[0]
        if top == WORLD:
            raise ModelError(f"free=True: the root link of {robot.name!r} is 'world', which cannot move")
        names = {joint.name for joint in robot.joints}
        bodies[top].add_freejoint(name=next(name for name in ("free", "root_free", f"{top}/free") if name not in names))


def _exclude_touching(spec: mujoco.MjSpec) -> tuple[tuple[str, str], ...]:
    """Exclude collisions between links that touch in the initial state, and return these pairs.

    In the initial state every joint is at zero, or as near to it as its limits allow.
    """
    model = spec.compile()
    data = mujoco.MjData(model)
    limited = np.flatnonzero(model.jnt_limited)
    places = model.jnt_qposadr[limited]
    data.qpos[places] = np.clip(data.qpos[places], model.jnt_range[limited, 0], model.jnt_range[limited, 1])
    mujoco.mj_kinematics(model, data)
    mujoco.mj_collision(model, data)
    pairs = {tuple(sorted(int(model.geom_bodyid[geom]) for geom in contact.geom)) for contact in data.contact}
    named = tuple((model.body(first).name, model.body(second).name) for first, second in sorted(pairs) if first > 0)
    for first, second in named:
        spec.add_exclude(bodyname1=first, bodyname2=second)
    return named


def _report(
    robot: Description, replacements: list[Replacement], touching: tuple[tuple[str, str], ...], notes: list[str]
) -> UrdfReport:
    speeds = {joint.name: joint.velocity for joint in robot.joints if joint.type in SINGLE and joint.limit is not None}
    return UrdfReport(robot.name, tuple(replacements), speeds, touching, tuple(notes))
