"""Motors of a URDF robot: one for each joint with an effort, or a position servo with that limit."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TypeAlias

import mujoco

from sensorium.errors import NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.worlds.urdf.description import SINGLE, Joint

Servos: TypeAlias = Mapping[str, tuple[float, float]]
"""Name or regular expression of joints -> stiffness in N m/rad and damping in N m s/rad, of sliding joints in N/m and
N s/m."""


def check_servos(servos: Servos | None) -> dict[str, tuple[float, float]]:
    """Return the option ``servos``.

    Raises:
        OptionError: it does not map names to pairs of numbers.
    """
    if servos is None:
        return {}
    if not isinstance(servos, Mapping):
        raise OptionError(f"servos must map joints to (stiffness, damping), got {servos!r:.80}")
    for name, gains in servos.items():
        if not isinstance(name, str):
            raise OptionError(f"servos: the name of a joint must be text, got {name!r:.80}")
        try:
            re.compile(name)
        except re.error as error:
            raise OptionError(f"servos: {name!r} is no regular expression: {error}") from None
        fits = isinstance(gains, Sequence) and not isinstance(gains, str) and len(gains) == 2
        if not fits or not all(isinstance(each, Real) and math.isfinite(each) for each in gains):
            raise OptionError(f"servos: {name!r} must be (stiffness, damping), two numbers; got {gains!r:.80}")
        if gains[0] <= 0 or gains[1] < 0:
            raise OptionError(f"servos: {name!r} must have a stiffness > 0 and a damping >= 0, got {tuple(gains)}")
    return {name: (float(gains[0]), float(gains[1])) for name, gains in servos.items()}


def driven_joints(joints: Sequence[Joint]) -> list[Joint]:
    """Return the joints that have a motor."""
    return [joint for joint in joints if joint.type in SINGLE and joint.mimic is None and joint.effort > 0]


def match_servos(servos: Mapping[str, tuple[float, float]], joints: Sequence[Joint]) -> dict[str, tuple[float, float]]:
    """Return joint -> stiffness and damping, of those of ``joints`` that the names in ``servos`` match.

    Raises:
        NameNotFoundError: a name matches no joint.
        OptionError: two names with different gains match the same joint.
    """
    chosen: dict[str, str] = {}
    for pattern, gains in servos.items():
        matched = [joint.name for joint in joints if joint.name == pattern or re.fullmatch(pattern, joint.name)]
        if not matched:
            names = [joint.name for joint in joints]
            hint = did_you_mean(pattern, names) or f"; joints with an effort are {shorten(names)}"
            raise NameNotFoundError(f"servos: no joint with an effort matches {pattern!r}{hint}")
        for name in matched:
            if name in chosen and servos[chosen[name]] != gains:
                raise OptionError(f"servos: {chosen[name]!r} and {pattern!r} have two gains for the joint {name!r}")
            chosen[name] = pattern
    return {name: servos[pattern] for name, pattern in chosen.items()}


def add_actuators(spec: mujoco.MjSpec, joints: Sequence[Joint], gains: Mapping[str, tuple[float, float]]) -> None:
    """Add a motor for each joint, or a position servo for those that have gains, both limited by the effort.

    The target of a servo is limited by the joint; that of a joint without limits to one turn, [-pi, pi].
    """
    for joint in joints:
        actuator = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        if joint.name in gains:
            stiffness, damping = gains[joint.name]
            actuator.set_to_position(kp=stiffness, kv=damping)
            actuator.forcerange = [-joint.effort, joint.effort]
            actuator.ctrlrange = [-math.pi, math.pi] if joint.type == "continuous" else [joint.lower, joint.upper]
        else:
            actuator.set_to_motor()
            actuator.ctrlrange = [-joint.effort, joint.effort]
