"""Check of the elements and attributes of a URDF file."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from sensorium.errors import did_you_mean, shorten
from sensorium.worlds.markup import Node, Problems


@dataclass(frozen=True)
class _Element:
    """Attributes that an element needs and accepts, and its children as (tag, min count, max count or None)."""

    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    children: tuple[tuple[str, int, int | None], ...] = ()


_ONE, _MAYBE, _ANY = (1, 1), (0, 1), (0, None)


def _children(**times: tuple[int, int | None]) -> tuple[tuple[str, int, int | None], ...]:
    return tuple((tag, *bounds) for tag, bounds in times.items())


_GRAMMAR = {
    "robot": _Element(
        needs=("name",),
        takes=("version",),
        children=_children(
            link=_ANY,
            joint=_ANY,
            material=_ANY,
            mujoco=_MAYBE,
            gazebo=_ANY,
            transmission=_ANY,
            sensor=_ANY,
            ros2_control=_ANY,
        ),
    ),
    "link": _Element(needs=("name",), children=_children(inertial=_MAYBE, visual=_ANY, collision=_ANY)),
    "inertial": _Element(children=_children(origin=_MAYBE, mass=_ONE, inertia=_ONE)),
    "mass": _Element(needs=("value",)),
    "inertia": _Element(needs=("ixx", "ixy", "ixz", "iyy", "iyz", "izz")),
    "visual": _Element(takes=("name",), children=_children(origin=_MAYBE, geometry=_ONE, material=_MAYBE)),
    "collision": _Element(takes=("name",), children=_children(origin=_MAYBE, geometry=_ONE)),
    "origin": _Element(takes=("xyz", "rpy")),
    "geometry": _Element(
        children=_children(box=_MAYBE, cylinder=_MAYBE, sphere=_MAYBE, capsule=_MAYBE, mesh=_MAYBE, tile_map=_MAYBE)
    ),
    "box": _Element(needs=("size",)),
    "cylinder": _Element(needs=("radius", "length")),
    "sphere": _Element(needs=("radius",)),
    "capsule": _Element(needs=("radius", "length")),
    "mesh": _Element(needs=("filename",), takes=("scale",)),
    "material": _Element(needs=("name",), children=_children(color=_MAYBE, texture=_MAYBE)),
    "color": _Element(needs=("rgba",)),
    "texture": _Element(takes=("filename",)),
    "joint": _Element(
        needs=("name", "type"),
        children=_children(
            origin=_MAYBE,
            parent=_ONE,
            child=_ONE,
            axis=_MAYBE,
            limit=_MAYBE,
            dynamics=_MAYBE,
            mimic=_MAYBE,
            calibration=_MAYBE,
            safety_controller=_MAYBE,
        ),
    ),
    "parent": _Element(needs=("link",)),
    "child": _Element(needs=("link",)),
    "axis": _Element(needs=("xyz",)),
    "limit": _Element(needs=("effort", "velocity"), takes=("lower", "upper")),
    "dynamics": _Element(takes=("damping", "friction")),
    "mimic": _Element(needs=("joint",), takes=("multiplier", "offset")),
    "calibration": _Element(takes=("rising", "falling", "reference_position")),
    "safety_controller": _Element(needs=("k_velocity",), takes=("k_position", "soft_lower_limit", "soft_upper_limit")),
    "mujoco": _Element(children=_children(compiler=_MAYBE)),
    "compiler": _Element(takes=("meshdir", "strippath", "balanceinertia", "discardvisual", "fusestatic", "angle")),
}
_DEFAULTS = {
    ("robot", "name"): "robot",
    ("material", "name"): "",
    ("limit", "effort"): "0",
    ("limit", "velocity"): "0",
    ("inertia", "ixy"): "0",
    ("inertia", "ixz"): "0",
    ("inertia", "iyz"): "0",
}
"""Values of missing attributes, unless the file is read strictly."""
_OTHERS = {"gazebo", "transmission", "sensor", "ros2_control"}
"""Elements of other programs, which are ignored with all their content."""
_READ_ELSEWHERE = _OTHERS | {"tile_map"}


def check_grammar(root: Node, problems: Problems, ignore: Collection[str] = ()) -> Node:
    """Add a problem for every unknown or missing element and attribute; return the tree without ignored ones.

    Args:
        root: the root of the document.
        problems: where problems are added.
        ignore: names that URDF does not have but that are ignored: elements ("contact", "collision/material") and
            attributes ("limit@current").
    """
    if root.tag != "robot":
        problems.add(root, f"the root of a URDF file must be <robot>, got <{root.tag}>")
        return root
    return _check(root, problems, frozenset(ignore))


def _check(node: Node, problems: Problems, ignore: frozenset[str]) -> Node:
    element = _GRAMMAR[node.tag]
    attributes = {}
    for name, value in node.attributes.items():
        known = (*element.needs, *element.takes)
        if name in known:
            attributes[name] = value
        elif f"{node.tag}@{name}" not in ignore and not name.startswith("xmlns"):
            hint = did_you_mean(name, known) or f"; it has {shorten(known)}"
            text, fix = f"<{node.tag}> has no attribute {name!r}", f". To ignore it: ignore=['{node.tag}@{name}']"
            problems.tolerate(node, f"{text}{hint}" if problems.strict else text, "it is ignored", fix)
    for name in element.needs:
        if not attributes.get(name, "").strip() and not (node.tag == "material" and name in attributes):
            text, default = f"<{node.tag}> needs the attribute {name!r}", _DEFAULTS.get((node.tag, name))
            if default is None:
                problems.add(node, text)
            else:
                problems.tolerate(node, text, f"it is taken as {default!r}")
                attributes[name] = default
    tags = [tag for tag, *_ in element.children]
    children = []
    for child in node.children:
        if child.tag in ignore or f"{node.tag}/{child.tag}" in ignore:
            continue
        if child.tag not in tags:
            _report_unknown(node, child, tags, problems)
        elif child.tag in _READ_ELSEWHERE:
            children.append(child)
        else:
            children.append(_check(child, problems, ignore))
    for tag, min_count, max_count in element.children:
        found = [child for child in children if child.tag == tag]
        if len(found) < min_count:
            problems.add(node, f"<{node.tag}> needs <{tag}>")
        elif max_count is not None and len(found) > max_count:
            problems.tolerate(found[max_count], f"<{node.tag}> has more than one <{tag}>", "the first one is used")
            children = [child for child in children if child not in found[max_count:]]
    if node.tag == "geometry" and len(children) != 1:
        problems.add(node, f"<geometry> needs one of {', '.join(f'<{tag}>' for tag in tags)}; it has {len(children)}")
    return replace(node, attributes=attributes, children=children)


def _report_unknown(node: Node, child: Node, tags: list[str], problems: Problems) -> None:
    if child.tag.startswith("xacro:"):
        problems.add(child, f"<{child.tag}>: this is a xacro file; run xacro on it first")
        return
    hint = did_you_mean(child.tag, tags) or f"; it has {shorten(tags)}"
    text, fix = f"<{node.tag}> has no <{child.tag}>", f". To ignore it: ignore=['{node.tag}/{child.tag}']"
    problems.tolerate(child, f"{text}{hint}" if problems.strict else text, "it is ignored", fix)
