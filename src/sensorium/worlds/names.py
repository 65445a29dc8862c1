"""Names in a scene: of entities, modules and sensors, and lookup of links, sites and joints."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NoReturn, TypeVar

import mujoco

from sensorium.errors import DuplicateNameError, NameNotFoundError, OptionError, did_you_mean, shorten

ValueT = TypeVar("ValueT")

RESERVED = ("physics", "world")
"""Names that the component tree or the model uses for something else."""


class Names:
    """The names in a composed ``MjSpec``.

    A model added as ``name="left"`` has its elements under the prefix ``left/``. A lookup accepts the full name
    (``left/gripper``), and the short one (``gripper``) if it is unique. ``asked_by`` names the caller in messages.

    Raises:
        NameNotFoundError: by all lookups, if the name does not exist or is ambiguous.
    """

    def __init__(self, spec: mujoco.MjSpec) -> None:
        self.spec = spec
        self._bodies = [body.name for body in spec.bodies]
        self._sites = [site.name for site in spec.sites if site.name]
        self._joints = [joint.name for joint in spec.joints if joint.name]

    def body(self, name: str, asked_by: str) -> mujoco.MjsBody:
        """Return the body (link) of that name."""
        return self.spec.body(resolve_name(name, self._bodies, "link", asked_by))

    def joint(self, name: str, asked_by: str) -> mujoco.MjsJoint:
        """Return the joint of that name."""
        return self.spec.joint(resolve_name(name, self._joints, "joint", asked_by))

    def prefix(self, robot: str | None, asked_by: str) -> str:
        """Return the prefix of the elements of a robot; an empty one for None, which means the whole scene."""
        if robot is None:
            return ""
        elements = (*self.spec.bodies[1:], *self.spec.geoms, *self.spec.sites)
        entities = dict.fromkeys(element.name.split("/")[0] for element in elements if element.name)
        if robot not in entities:
            hint = did_you_mean(robot, entities) or f"; there are {shorten(entities)}"
            raise NameNotFoundError(f"{asked_by}.robot: there is no robot named {robot!r}{hint}")
        return f"{robot}/"

    def link_or_site(self, name: str, asked_by: str) -> tuple[mujoco.mjtObj, str]:
        """Return MuJoCo's object type (XBODY or SITE) and the full name of a body or site."""
        full = resolve_name(name, [*self._bodies, *self._sites], "link or site", asked_by)
        kind = mujoco.mjtObj.mjOBJ_XBODY if full in self._bodies else mujoco.mjtObj.mjOBJ_SITE
        return kind, full


class ByName(dict[str, ValueT]):
    """Name -> value; the lookup of an unknown name raises an error that names the closest ones.

    Args:
        values: the values by name.
        kind: what they are, for messages: "entity".
    """

    def __init__(self, values: Mapping[str, ValueT], kind: str) -> None:
        super().__init__(values)
        self._kind = kind

    def __missing__(self, name: object) -> NoReturn:
        hint = did_you_mean(name, self) or f"; there are {shorten(self)}"
        raise NameNotFoundError(f"the scene has no {self._kind} {name!r}{hint}")


def resolve_name(name: str, names: list[str], kind: str, asked_by: str) -> str:
    """Return the full name that a name or short name means.

    Args:
        name: a full name, or the part after the last "/" if that is unique.
        names: the full names.
        kind: what they name, for messages.
        asked_by: the call or option that names it, for messages.

    Raises:
        OptionError: ``name`` is not text.
        NameNotFoundError: there is no such name, or it is ambiguous.
    """
    if not isinstance(name, str):
        raise OptionError(f"{asked_by}: {kind} must be a name, got {name!r}")
    if name in names:
        return name
    matches = [full for full in names if full.endswith(f"/{name}")]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise NameNotFoundError(f"{asked_by}: {kind} {name!r} is ambiguous; write one of {shorten(matches)}")
    short = [full.rsplit("/", 1)[-1] for full in names]
    hint = did_you_mean(name, [*names, *short]) or f"; there are {shorten(list(dict.fromkeys(names)))}"
    raise NameNotFoundError(f"{asked_by}: there is no {kind} named {name!r}{hint}")


def new_name(name: str | None, stem: str, taken: Collection[str]) -> str:
    """Return a valid name for something new in a scene.

    Args:
        name: the name that the user chose; None for ``stem``, numbered if it is taken.
        stem: default name.
        taken: names that exist.

    Raises:
        OptionError: the name is not valid.
        DuplicateNameError: the name is taken.
    """
    if name is None:
        name, number = stem, 1
        while name in taken or name in RESERVED:
            number += 1
            name = f"{stem}_{number}"
    elif not isinstance(name, str):
        raise OptionError(f"name must be text, got {name!r}")
    elif not name or not name.isprintable() or "/" in name or "." in name:
        raise OptionError(f"name must not be empty or contain '/' or '.', got {name!r}")
    elif name in RESERVED:
        raise OptionError(f"name {name!r} is reserved; choose another name")
    elif name in taken:
        raise DuplicateNameError(f"the scene already has something named {name!r}; choose another name")
    return name


def model_name(spec: mujoco.MjSpec, default: str) -> str:
    """Return the name of a model, with "_" for characters that names cannot have; ``default`` if it has no name."""
    named = spec.modelname not in ("", "MuJoCo Model")  # the second is MuJoCo's default
    return re.sub(r"[^\w-]+", "_", spec.modelname) if named else default
