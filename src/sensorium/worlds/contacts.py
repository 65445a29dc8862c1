"""``ContactPair``: contact parameters of two geoms, and the methods of a scene that set and exclude contacts."""

from __future__ import annotations

from typing import Any, Literal

import mujoco
import numpy as np
from pydantic import Field, field_validator

from sensorium.errors import DuplicateNameError, OptionError, shorten
from sensorium.options import Options
from sensorium.worlds.assembly import Assembly
from sensorium.worlds.names import resolve_name


class ContactPair(Options):
    """Contact parameters between two geoms or links, as in MuJoCo's ``<pair>``.

    Parameters that are not given are those that MuJoCo computes from the two geoms without a pair.
    """

    first: str
    """A geom, or a link, which stands for all of its geoms that can collide. A primitive has both, by its name."""
    second: str
    """The other geom or link."""
    friction: float | tuple[float, ...] | None = None
    """Friction coefficients: one number for sliding; three for sliding, torsion (m) and rolling (m), as in ``<geom>``;
    or five, as in ``<pair>``: two directions of sliding, torsion, and two directions of rolling."""
    condim: Literal[1, 3, 4, 6] | None = None
    """Dimensions of the contact: 1 without friction, 3 with sliding, 4 with torsional, 6 with rolling friction."""
    solref: tuple[float, float] | None = None
    """Time constant in seconds and damping ratio of the contact; negative values are stiffness and damping."""
    solreffriction: tuple[float, float] | None = None
    """The same for the friction dimensions of elliptic cones. Default: ``solref``."""
    solimp: tuple[float, float, float, float, float] | None = None
    """Impedance: min, max, width in m, midpoint, power."""
    margin: float | None = Field(default=None, ge=0)
    """Distance in metres below which the contact exerts a force."""
    gap: float | None = Field(default=None, ge=0)
    """The contact is detected, without a force, at distances up to ``margin`` + ``gap``, m."""

    @field_validator("friction")
    @classmethod
    def _friction(cls, value: float | tuple[float, ...] | None) -> float | tuple[float, ...] | None:
        if value is not None and (np.size(value) not in (1, 3, 5) or np.min(value) < 0):
            raise ValueError("must be 1, 3 or 5 numbers >= 0")
        return value

    def add_to(self, spec: mujoco.MjSpec) -> None:
        """Add one pair for every two geoms to the spec of a scene.

        Raises:
            NameNotFoundError: there is no such geom or link, or several.
            OptionError: a link has no geoms that can collide, or both geoms belong to one link.
            DuplicateNameError: the geoms are a pair already.
        """
        firsts, seconds = (_geoms(spec, name, "add_contact_pair") for name in (self.first, self.second))
        taken = {frozenset((pair.geomname1, pair.geomname2)) for pair in spec.pairs}
        for one in firsts:
            for other in seconds:
                if one.parent.name == other.parent.name:
                    raise OptionError(
                        f"add_contact_pair: {self.first!r} and {self.second!r} belong to the link "
                        f"{one.parent.name!r}; the two must belong to different links"
                    )
                if frozenset((one.name, other.name)) in taken:
                    raise DuplicateNameError(
                        f"add_contact_pair: {one.name!r} and {other.name!r} are a pair already; give all of its "
                        "parameters in one call"
                    )
                pair = spec.add_pair(geomname1=one.name, geomname2=other.name, **_mixed(one, other))
                for name in ("condim", "solref", "solreffriction", "solimp", "margin", "gap"):
                    if getattr(self, name) is not None:
                        setattr(pair, name, getattr(self, name))
                if self.friction is not None:
                    pair.friction = _five(self.friction, pair.friction)


def _geoms(spec: mujoco.MjSpec, name: str, asked_by: str) -> list[mujoco.MjsGeom]:
    """Return the geom of that name, or the geoms of the link of that name that can collide; all get a name."""
    named = [geom.name for geom in spec.geoms if geom.name]
    links = [body.name for body in spec.bodies]
    full = resolve_name(name, list(dict.fromkeys([*named, *links])), "geom or link", asked_by)
    if full in named:
        return [spec.geom(full)]
    found = [geom for geom in spec.body(full).geoms if geom.contype or geom.conaffinity]
    if not found:
        raise OptionError(f"{asked_by}: the link {full!r} has no geom that can collide; name a geom")
    for number, geom in enumerate(found):
        geom.name = geom.name or f"{full}/geom{number}"  # a pair refers to its geoms by name
    return found


def _mixed(one: mujoco.MjsGeom, other: mujoco.MjsGeom) -> dict[str, Any]:
    """Return the parameters that MuJoCo gives the contacts of two geoms; see mj_contactParam. Checked with 4.0.0."""
    distances = {"margin": one.margin + other.margin, "gap": one.gap + other.gap}
    if one.priority != other.priority:
        one = other = max(one, other, key=lambda geom: geom.priority)
    weights = one.solmix, other.solmix
    share = weights[0] / sum(weights) if sum(weights) > 1e-15 else 0.5
    standard = one.solref[0] > 0 and other.solref[0] > 0
    slide, torsion, roll = np.maximum(one.friction, other.friction)
    return {
        "condim": max(one.condim, other.condim),
        "friction": (slide, slide, torsion, roll, roll),
        "solref": share * one.solref + (1 - share) * other.solref if standard else np.minimum(one.solref, other.solref),
        "solimp": share * one.solimp + (1 - share) * other.solimp,
        **distances,
    }


def _five(given: float | tuple[float, ...], mixed: np.ndarray) -> np.ndarray:
    """Return the five friction coefficients of a pair; what is not given is that of the two geoms."""
    values = np.atleast_1d(np.asarray(given, float))
    if len(values) == 1:
        return np.concatenate([values, values, mixed[2:]])
    return values[[0, 0, 1, 2, 2]] if len(values) == 3 else values


class Contacts(Assembly):
    """The methods of :class:`~sensorium.Scene` that set and exclude contacts, before ``build()``."""

    def add_contact_pair(self, first: str, second: str, **options: Any) -> ContactPair:
        """Set the contact parameters between two geoms or links, instead of those that follow from each geom.

        The geoms collide from then on, even if their ``contype``, ``exclude_contacts`` or a joint between their links
        would prevent it.

        Args:
            first: a geom, or a link, which stands for all of its geoms that can collide.
            second: the other geom or link.
            **options: see :class:`ContactPair`: friction, condim, solref, solreffriction, solimp, margin, gap.

        Raises:
            NameNotFoundError: there is no such geom or link in the scene, or several.
            OptionError: a value is not allowed, or both geoms belong to one link.
            DuplicateNameError: the geoms are a pair already.

        Example:
            >>> scene.add_contact_pair("robot/left_finger", "cube", friction=1.5, condim=4)
        """
        self._before_build("add_contact_pair")
        pair = ContactPair(first=first, second=second, **options)
        trial = self._spec.copy()
        pair.add_to(trial)
        self._spec = trial
        self._note("add_contact_pair", pair=pair)
        return pair

    def exclude_contacts(self, first: str, second: str) -> None:
        """Exclude contacts between two links, as MuJoCo's ``<exclude>`` does.

        Args:
            first: a link.
            second: another link.

        Raises:
            NameNotFoundError: there is no such link in the scene, or several.
            OptionError: the links are the same.

        Example:
            >>> scene.exclude_contacts("robot/hand", "table")
        """
        self._before_build("exclude_contacts")
        links = [body.name for body in self._spec.bodies]
        names = [resolve_name(name, links, "link", "exclude_contacts") for name in (first, second)]
        if names[0] == names[1]:
            raise OptionError(f"exclude_contacts: first and second must be different links, got {shorten(names)}")
        trial = self._spec.copy()
        trial.add_exclude(bodyname1=names[0], bodyname2=names[1])
        self._spec = trial
        self._note("exclude_contacts", first=first, second=second)
