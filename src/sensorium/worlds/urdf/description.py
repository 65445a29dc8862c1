"""The content of a URDF file as links, joints and shapes. Lengths are metres, angles are radians."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from sensorium.worlds.markup import Node, Problems
from sensorium.worlds.tile_map import TileMap

JOINTS = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")
"""Types of joints."""
SINGLE = ("revolute", "continuous", "prismatic")
"""Types of joints with one axis."""


@dataclass(frozen=True)
class Shape:
    """One visual or collision shape of a link."""

    kind: str
    """"box", "cylinder", "sphere", "capsule", "mesh" or "tile_map"."""
    size: tuple[float, ...]
    """Box: x, y, z; cylinder and capsule: radius, length without caps; sphere: radius; mesh: its scale."""
    pos: tuple[float, ...]
    """Origin in the frame of the link."""
    rpy: tuple[float, ...]
    """Roll, pitch, yaw about fixed axes of the link."""
    node: Node
    """The geometry element."""
    name: str | None = None
    file: str = ""
    """Meshes: the file, as the URDF names it."""
    part: int | None = None
    """Meshes: number of the material in the file whose triangles the shape has. None for the whole file."""
    rgba: tuple[float, ...] | None = None
    """Visual shapes: the colour of the material, if it has one."""
    tiles: TileMap | None = None
    """Tile maps: the map."""


@dataclass(frozen=True)
class Inertial:
    """Mass in kg and inertia in kg m² about the centre of mass, in the axes of ``pos`` and ``rpy``."""

    mass: float
    inertia: np.ndarray
    pos: tuple[float, ...]
    rpy: tuple[float, ...]
    node: Node


@dataclass(frozen=True)
class Link:
    """One rigid body."""

    name: str
    node: Node
    inertial: Inertial | None
    visuals: list[Shape]
    collisions: list[Shape]


@dataclass(frozen=True)
class Mimic:
    """A joint that follows another one: position = multiplier * other + offset."""

    joint: str
    multiplier: float
    offset: float
    node: Node


@dataclass(frozen=True)
class Joint:
    """A joint between a link and its parent."""

    name: str
    type: str
    node: Node
    parent: str
    child: str
    pos: tuple[float, ...]
    rpy: tuple[float, ...]
    axis: tuple[float, ...]
    limit: Node | None
    lower: float
    upper: float
    effort: float
    velocity: float
    damping: float
    friction: float
    mimic: Mimic | None


@dataclass(frozen=True)
class Description:
    """The content of a URDF file that is used."""

    name: str
    root: Node
    links: list[Link]
    joints: list[Joint]
    compiler: dict[str, str]
    """Attributes of ``<mujoco><compiler/></mujoco>``."""
    textures: list[Node] = field(default_factory=list)
    """Textures of materials, which are not rendered."""


def describe(root: Node, problems: Problems) -> Description:
    """Convert a tree that passed :func:`~sensorium.worlds.urdf.grammar.check_grammar`."""
    colours = _materials(root, problems)
    links = [_link(node, colours, problems) for node in root.all("link")]
    joints = [_joint(node, problems) for node in root.all("joint")]
    mujoco = root.first("mujoco")
    compiler = mujoco.first("compiler") if mujoco is not None else None
    materials = [
        *root.all("material"),
        *(m for n in root.all("link") for v in n.all("visual") for m in v.all("material")),
    ]
    textures = [t for m in materials for t in m.all("texture") if t.attributes.get("filename", "").strip()]
    attributes = {} if compiler is None else compiler.attributes
    return Description(root.attributes["name"], root, links, joints, attributes, textures)


def _materials(root: Node, problems: Problems) -> dict[str, tuple[float, ...] | None]:
    """Return material -> colour, or None without one. Materials defined in links can be used everywhere too."""
    found: dict[str, tuple[float, ...] | None] = {}
    for node in root.all("material"):
        name = node.attributes["name"]
        if name in found:
            problems.tolerate(node, f"material {name!r} already exists", "the last one is used")
        if node.first("color") is None and node.first("texture") is None:
            problems.tolerate(node, f"material {name!r} needs <color> or <texture>", "it has no colour")
        found[name] = _colour(node, problems)
    for link in root.all("link"):
        for visual in link.all("visual"):
            for node in visual.all("material"):
                if node.children:
                    found.setdefault(node.attributes["name"], _colour(node, problems))
    return found


def _colour(material: Node, problems: Problems) -> tuple[float, ...] | None:
    node = material.first("color")
    if node is None:
        return None
    rgba = problems.numbers(node, "rgba", 4)
    if min(rgba) < 0 or max(rgba) > 1:
        text = f"rgba of <color> must be in [0, 1], got {node.attributes['rgba']!r}"
        problems.tolerate(node, text, "it is limited to that range")
    return tuple(min(max(value, 0.0), 1.0) for value in rgba)


def _link(node: Node, colours: dict[str, tuple[float, ...] | None], problems: Problems) -> Link:
    inertial = node.first("inertial")
    visuals, collisions = ([_shape(each, problems) for each in node.all(tag)] for tag in ("visual", "collision"))
    coloured = []
    for shape, visual in zip(visuals, node.all("visual"), strict=True):
        material = visual.first("material")
        rgba = None
        if material is not None:
            name = material.attributes["name"]
            if name and not material.children and name not in colours:
                problems.tolerate(material, f"there is no material named {name!r}", "the shape has no colour")
            rgba = _colour(material, problems) if material.children else colours.get(name)
        if shape.tiles is not None:
            problems.add(shape.node, "<tile_map> belongs in <collision>; it is also rendered there")
        coloured.append(replace(shape, rgba=rgba))
    return Link(
        node.attributes["name"],
        node,
        None if inertial is None else _inertial(inertial, problems),
        coloured,
        collisions,
    )


def _inertial(node: Node, problems: Problems) -> Inertial:
    mass, inertia = node.first("mass"), node.first("inertia")
    assert mass is not None
    assert inertia is not None
    xx, xy, xz, yy, yz, zz = (problems.number(inertia, f"i{axes}") for axes in ("xx", "xy", "xz", "yy", "yz", "zz"))
    matrix = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return Inertial(problems.number(mass, "value"), matrix, *_origin(node, problems), inertia)


def _origin(node: Node, problems: Problems) -> tuple[tuple[float, ...], tuple[float, ...]]:
    origin, zero = node.first("origin"), (0.0, 0.0, 0.0)
    if origin is None:
        return zero, zero
    return problems.numbers(origin, "xyz", 3, zero), problems.numbers(origin, "rpy", 3, zero)


def _shape(node: Node, problems: Problems) -> Shape:
    geometry = node.first("geometry")
    assert geometry is not None
    shape = geometry.children[0]
    tiles = None
    if shape.tag == "tile_map":
        size: tuple[float, ...] = ()
        tiles = TileMap.from_node(shape, problems)
    elif shape.tag == "mesh":
        size = problems.numbers(shape, "scale", 3, (1.0, 1.0, 1.0))
        if 0 in size:
            problems.add(shape, f"scale of <mesh> must not contain 0, got {shape.attributes['scale']!r}")
    else:
        size = problems.numbers(shape, "size", 3) if shape.tag == "box" else (problems.number(shape, "radius"),)
        if shape.tag in ("cylinder", "capsule"):
            size = (*size, problems.number(shape, "length"))
        if min(size) <= 0:
            given = ", ".join(f"{name}={value!r}" for name, value in shape.attributes.items())
            problems.add(shape, f"<{shape.tag}> must have extents > 0, got {given}")
    file = shape.attributes.get("filename", "").strip()
    return Shape(shape.tag, size, *_origin(node, problems), shape, node.attributes.get("name"), file, tiles=tiles)


def _joint(node: Node, problems: Problems) -> Joint:
    def value(tag: str, name: str, default: float = 0.0) -> float:
        element = node.first(tag)
        return default if element is None else problems.number(element, name, default)

    axis, mimic = node.first("axis"), node.first("mimic")
    parent, child = node.first("parent"), node.first("child")
    assert parent is not None
    assert child is not None
    return Joint(
        node.attributes["name"],
        node.attributes["type"],
        node,
        parent.attributes["link"],
        child.attributes["link"],
        *_origin(node, problems),
        (1.0, 0.0, 0.0) if axis is None else problems.numbers(axis, "xyz", 3),
        node.first("limit"),
        value("limit", "lower"),
        value("limit", "upper"),
        value("limit", "effort"),
        value("limit", "velocity"),
        value("dynamics", "damping"),
        value("dynamics", "friction"),
        None if mimic is None else _mimic(mimic, problems),
    )


def _mimic(node: Node, problems: Problems) -> Mimic:
    multiplier, offset = problems.number(node, "multiplier", 1.0), problems.number(node, "offset", 0.0)
    return Mimic(node.attributes["joint"], multiplier, offset, node)
