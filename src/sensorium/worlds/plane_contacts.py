"""Links that touch planes of one direction only: their normal forces add up to one component of the net force.

The normal of every contact with a plane is the normal of the plane. If a link can touch only parallel planes that
do not move, such as the ground, the sum of its normal forces is the component of its net contact force along that
normal. It is then a component of ``qfrc_constraint``, and the engine need not search the contacts for it.
"""

from __future__ import annotations

import mujoco
import numpy as np

FIXED = frozenset({"geom_type", "geom_contype", "geom_conaffinity", "geom_quat", "body_quat"})
"""Fields of ``MjModel`` that must not differ per env for :func:`plane_normal` to hold."""
_PLANE = int(mujoco.mjtGeom.mjGEOM_PLANE)
_PARALLEL = 1e-12
"""Largest difference of the components of two normals that count as one."""


def plane_normal(model: mujoco.MjModel, link: int, target: int | None, most: int) -> np.ndarray | None:
    """Return the common normal of all planes that a link can touch, or None.

    Args:
        model: the model.
        link: id of the link.
        target: id of the only body whose contacts with the link count; None for all bodies.
        most: number of contacts that count.

    Returns:
        The unit vector (3,) in the world frame, from the planes to the link. None if the link can touch anything else,
        a body other than ``target``, or planes at more than ``most`` points.
    """
    normals, contacts = [], 0
    for own, other in _pairs(model, link):
        body = int(model.geom_bodyid[other])
        if model.geom_type[other] != _PLANE or not _is_fixed(model, body) or target not in (None, body):
            return None
        normals.append(_normal(model, other))
        contacts += mujoco.mj_maxContact(model, own, other, -1)
    if not normals or contacts > most or np.ptp(normals, axis=0).max() > _PARALLEL:
        return None
    return normals[0]


def _pairs(model: mujoco.MjModel, link: int) -> list[tuple[int, int]]:
    """Return the pairs of a geom of the link and a geom of another body that may collide. Exclusions are ignored."""
    bodies = model.geom_bodyid
    pairs = {
        (own, other) if bodies[own] == link else (other, own)
        for own, other in zip(model.pair_geom1.tolist(), model.pair_geom2.tolist(), strict=True)
        if link in (bodies[own], bodies[other])
    }
    affinity, kind = model.geom_conaffinity, model.geom_contype
    for own in np.flatnonzero(bodies == link).tolist():
        fits = ((kind[own] & affinity) | (kind & affinity[own])) != 0
        pairs |= {(own, other) for other in np.flatnonzero(fits & (bodies != link)).tolist()}
    return sorted(pairs)


def _is_fixed(model: mujoco.MjModel, body: int) -> bool:
    """Return whether a body is a part of the world that never moves."""
    return bool(model.body_weldid[body] == 0 and model.body_mocapid[model.body_rootid[body]] < 0)


def _normal(model: mujoco.MjModel, plane: int) -> np.ndarray:
    """Return the normal of a plane of a fixed body in the world frame."""
    quat, body = model.geom_quat[plane].copy(), int(model.geom_bodyid[plane])
    while body > 0:
        turned = np.empty(4)
        mujoco.mju_mulQuat(turned, model.body_quat[body], quat)
        quat, body = turned, int(model.body_parentid[body])
    normal = np.empty(3)
    mujoco.mju_rotVecQuat(normal, np.array([0.0, 0.0, 1.0]), quat / np.linalg.norm(quat))
    return normal
