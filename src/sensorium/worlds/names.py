"""Finding links, sites and joints of a composed spec by the names that users write."""

from __future__ import annotations

import mujoco

from sensorium.errors import NameNotFoundError, did_you_mean, shorten


class Names:
    """The names in a composed ``MjSpec``.

    A model added as ``name="left"`` has its elements under the prefix ``left/``. A look-up takes the full name
    (``left/gripper``), or the short one (``gripper``) while only one element ends in it.
    """

    def __init__(self, spec: mujoco.MjSpec) -> None:
        self.spec = spec
        self._bodies = [body.name for body in spec.bodies]
        self._sites = [site.name for site in spec.sites if site.name]
        self._joints = [joint.name for joint in spec.joints if joint.name]

    def body(self, name: str, asked_by: str) -> mujoco.MjsBody:
        """The body (link) of that name; ``asked_by`` stands in the error message."""
        return self.spec.body(_resolve(name, self._bodies, "link", asked_by))

    def joint(self, name: str, asked_by: str) -> mujoco.MjsJoint:
        """The joint of that name."""
        return self.spec.joint(_resolve(name, self._joints, "joint", asked_by))

    def link_or_site(self, name: str, asked_by: str) -> tuple[mujoco.mjtObj, str]:
        """The body or site of that name, as MuJoCo's object type (XBODY or SITE) and full name."""
        full = _resolve(name, [*self._bodies, *self._sites], "link or site", asked_by)
        kind = mujoco.mjtObj.mjOBJ_XBODY if full in self._bodies else mujoco.mjtObj.mjOBJ_SITE
        return kind, full


def _resolve(name: str, names: list[str], kind: str, asked_by: str) -> str:
    if name in names:
        return name
    matches = [full for full in names if full.endswith(f"/{name}")]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise NameNotFoundError(f"{asked_by}: {kind} {name!r} is ambiguous; write one of {shorten(matches)}")
    short = [full.rsplit("/", 1)[-1] for full in names]
    hint = did_you_mean(name, [*names, *short]) or f"; there are {shorten(names)}"
    raise NameNotFoundError(f"{asked_by}: there is no {kind} named {name!r}{hint}")
