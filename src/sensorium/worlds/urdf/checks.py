"""Checks that the links and joints of a URDF file form one robot that can move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from sensorium.errors import did_you_mean, shorten
from sensorium.worlds.markup import Node, Problems
from sensorium.worlds.urdf.description import JOINTS, SINGLE, Description, Inertial, Joint, Link

WORLD = "world"
"""Name of a root link that stands for the world."""
_LIGHT_MASS, _LIGHT_INERTIA = 1e-3, 1e-7
"""Mass (kg) and moments of inertia (kg m², as of a radius of gyration of 1 cm) of moving links without a mass."""


def check_robot(robot: Description, problems: Problems, free: bool) -> Description:
    """Add the problems of a robot as a whole and of its joints; return it without those that are tolerated.

    Args:
        robot: the content of the file, with checked inertias.
        problems: where problems are added.
        free: whether the root link moves freely, and so needs a mass.
    """
    if not robot.links:
        problems.add(robot.root, f"robot {robot.name!r} has no links")
        return robot
    _unique("link", ((link.name, link.node) for link in robot.links), problems)
    _unique("joint", ((joint.name, joint.node) for joint in robot.joints), problems)
    whole = _check_tree(robot, problems)
    robot = replace(robot, joints=[_check_joint(joint, problems) for joint in robot.joints])
    robot = replace(robot, joints=_check_mimics(robot, problems))
    return replace(robot, links=_check_weight(robot, problems, free)) if whole else robot


def roots(robot: Description) -> list[str]:
    """Return the links that are not the child of a joint."""
    children = {joint.child for joint in robot.joints}
    return [link.name for link in robot.links if link.name not in children]


def _unique(what: str, named: Iterable[tuple[str, Node]], problems: Problems) -> None:
    seen: dict[str, int] = {}
    for name, node in named:
        if name in seen:
            problems.add(node, f"{what} {name!r} already exists, at line {seen[name]}")
        seen.setdefault(name, node.line)


def _check_tree(robot: Description, problems: Problems) -> bool:
    """Return whether the links form one tree."""
    before = len(problems)
    names = [link.name for link in robot.links]
    parents: dict[str, Joint] = {}
    for joint in robot.joints:
        for role, link in (("parent", joint.parent), ("child", joint.child)):
            if link not in names:
                node = joint.node.first(role) or joint.node
                hint = did_you_mean(link, names) or f"; there are {shorten(names)}"
                problems.add(node, f"joint {joint.name!r}: its {role} link {link!r} does not exist{hint}")
        if joint.child in parents:
            other = parents[joint.child].name
            problems.add(joint.node, f"joint {joint.name!r}: link {joint.child!r} is already the child of {other!r}")
        parents[joint.child] = joint
    if len(problems) > before:
        return False
    nodes = {link.name: link.node for link in robot.links}
    tops = roots(robot)
    for extra in tops[1:]:
        problems.add(
            nodes[extra], f"there are {len(tops)} root links, {shorten(tops)}: join them, since a robot has one root"
        )
    for name in _in_cycles(names, {child: joint.parent for child, joint in parents.items()}):
        problems.add(
            nodes[name], f"link {name!r} is in a cycle: it is its own ancestor, by joint {parents[name].name!r}"
        )
    if WORLD in names and WORLD not in tops:
        problems.add(nodes[WORLD], "a link named 'world' must be the root, since it stands for the world")
    return len(problems) == before


def _in_cycles(names: list[str], above: dict[str, str]) -> list[str]:
    """Return the names that are their own ancestors."""
    found: list[str] = []
    done: set[str] = set()
    for name in names:
        path: dict[str, None] = {}
        here: str | None = name
        while here is not None and here not in path and here not in done:
            path[here] = None
            here = above.get(here)
        if here is not None and here in path:
            chain = list(path)
            found += chain[chain.index(here) :]
        done |= path.keys()
    return found


def _check_joint(joint: Joint, problems: Problems) -> Joint:
    named = f"joint {joint.name!r}"
    if joint.type not in JOINTS:
        hint = did_you_mean(joint.type, JOINTS) or f"; there are {shorten(JOINTS)}"
        problems.add(joint.node, f"{named}: there is no joint type {joint.type!r}{hint}")
        return joint
    if joint.type == "floating" and joint.parent != WORLD:
        problems.add(
            joint.node,
            f"{named}: a floating joint must join a link to the root link 'world'. For a free base, remove it and "
            "give free=True",
        )
    if joint.type in SINGLE and np.linalg.norm(joint.axis) < 1e-6:
        problems.add(joint.node.first("axis") or joint.node, f"{named}: axis must not be zero")
    for what, value in (("damping", joint.damping), ("friction", joint.friction)):
        if value < 0:
            text = f"{named}: {what} must be >= 0, got {value}"
            problems.tolerate(joint.node.first("dynamics") or joint.node, text, "it is taken as 0")
    joint = replace(joint, damping=max(joint.damping, 0.0), friction=max(joint.friction, 0.0))
    return _check_limit(joint, named, problems)


def _check_limit(joint: Joint, named: str, problems: Problems) -> Joint:
    ranged = joint.type in ("revolute", "prismatic")
    if joint.limit is None and joint.type == "revolute":
        text, fix = f"{named}: a revolute joint needs <limit>", "; a revolute joint without limits is 'continuous'"
        problems.tolerate(joint.node, text, "it turns without limits", fix)
        return replace(joint, type="continuous")
    if joint.limit is None:
        if ranged:
            problems.add(joint.node, f"{named}: a {joint.type} joint needs <limit>")
        return joint
    for what, value in (("effort", joint.effort), ("velocity", joint.velocity)):
        if value < 0:
            problems.add(joint.limit, f"{named}: {what} must be >= 0, got {value}")
    if ranged and joint.lower >= joint.upper:
        text = f"{named}: lower must be < upper, got lower={joint.lower} and upper={joint.upper}"
        fix = "; a joint that cannot move is 'fixed'" if joint.lower == joint.upper else ""
        if joint.lower == joint.upper == 0:
            problems.tolerate(joint.limit, text, "it is fixed", fix)
            return replace(joint, type="fixed", mimic=None)
        problems.add(joint.limit, f"{text}{fix}")
    return joint


def _check_mimics(robot: Description, problems: Problems) -> list[Joint]:
    """Return the joints, without tolerated mimics."""
    joints = {joint.name: joint for joint in robot.joints}
    checked = []
    for joint in robot.joints:
        checked.append(joint)
        if joint.mimic is None:
            continue
        named, leader = f"joint {joint.name!r}", joints.get(joint.mimic.joint)
        wrong = []
        if leader is None:
            hint = did_you_mean(joint.mimic.joint, joints) or f"; there are {shorten(joints)}"
            wrong = [f"{named} mimics {joint.mimic.joint!r}, which does not exist{hint}"]
        else:
            others = [each for each in (joint, leader) if each.type in JOINTS and each.type not in SINGLE]
            wrong = [f"{named}: {each.name!r} is {each.type}; a mimic needs joints with one axis" for each in others]
        for text in wrong:
            problems.tolerate(joint.mimic.node, text, "it moves by itself")
            checked[-1] = replace(joint, mimic=None)
    leaders = {joint.name: joint.mimic.joint for joint in robot.joints if joint.mimic is not None}
    for name in _in_cycles(list(leaders), leaders):
        problems.add(joints[name].node, f"joint {name!r} mimics itself through {leaders[name]!r}")
    return checked


def _check_weight(robot: Description, problems: Problems, free: bool) -> list[Link]:
    """Check that every moving link has a mass, itself or through links that are fixed to it; return the links."""
    joints = {joint.child: joint for joint in robot.joints}
    weights: Counter[str] = Counter()
    for link in robot.links:
        top = link.name
        while top in joints and joints[top].type == "fixed":
            top = joints[top].parent
        weights[top] += 0 if link.inertial is None else 1
    checked = []
    for link in robot.links:
        checked.append(link)
        moves = (link.name in joints and joints[link.name].type != "fixed") or (link.name not in joints and free)
        if weights[link.name] == 0 and link.name != WORLD and moves:
            text = f"link {link.name!r} moves, so it needs <inertial> with a mass"
            fix = ", or a link with a mass that is fixed to it"
            problems.tolerate(link.node, text, f"its mass is taken as {1e3 * _LIGHT_MASS:g} g", fix)
            zero = (0.0, 0.0, 0.0)
            light = Inertial(_LIGHT_MASS, _LIGHT_INERTIA * np.eye(3), zero, zero, link.node)
            checked[-1] = replace(link, inertial=light)
    return checked
