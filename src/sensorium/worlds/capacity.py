"""Memory of envs: bytes, and upper bounds on contacts and constraints, which the GPU engine allocates in advance."""

from __future__ import annotations

import mujoco
import numpy as np

_MAX_CONTACTS = 256
"""Contacts per env that are allocated by default. In large scenes most pairs never touch at the same time, so the bound
over all pairs is far too high."""

_G = mujoco.mjtGeom
_SINGLE_CONTACT = {_G.mjGEOM_SPHERE, _G.mjGEOM_ELLIPSOID}
"""Geom types that touch other convex shapes and planes in at most one point."""


def contact_bound(model: mujoco.MjModel) -> tuple[int, int]:
    """Return (contacts, constraint rows) if every pair of geoms that can collide touches, in one env."""
    contacts = rows = 0
    pyramidal = model.opt.cone == mujoco.mjtCone.mjCONE_PYRAMIDAL
    for a in range(model.ngeom):
        for b in range(a + 1, model.ngeom):
            if _collide(model, a, b):
                count = _pair_contacts(model, a, b)
                dim = int(max(model.geom_condim[a], model.geom_condim[b]))
                contacts += count
                rows += count * (1 if dim == 1 else 2 * (dim - 1) if pyramidal else dim)
    for i in range(model.npair):
        dim = int(model.pair_dim[i])
        contacts += 8
        rows += 8 * (1 if dim == 1 else 2 * (dim - 1))
    return contacts, rows


def _collide(model: mujoco.MjModel, a: int, b: int) -> bool:
    """Return whether MuJoCo tests two geoms for contact."""
    body_a, body_b = int(model.geom_bodyid[a]), int(model.geom_bodyid[b])
    weld_a, weld_b = int(model.body_weldid[body_a]), int(model.body_weldid[body_b])
    if weld_a == weld_b:
        return False
    parents = int(model.body_weldid[model.body_parentid[weld_a]]), int(model.body_weldid[model.body_parentid[weld_b]])
    filtered = not model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_FILTERPARENT
    if filtered and weld_a != 0 and weld_b != 0 and (weld_a == parents[1] or weld_b == parents[0]):
        return False
    if (min(body_a, body_b) << 16) + max(body_a, body_b) in set(model.exclude_signature.tolist()):
        return False
    types = model.geom_contype, model.geom_conaffinity
    return bool((types[0][a] & types[1][b]) or (types[0][b] & types[1][a]))


def _pair_contacts(model: mujoco.MjModel, a: int, b: int) -> int:
    """Return the max number of contacts between two geoms."""
    kinds = {_G(int(model.geom_type[a])), _G(int(model.geom_type[b]))}
    if _G.mjGEOM_HFIELD in kinds:  # before the spheres, which can touch several of its cells
        return 16
    if kinds & _SINGLE_CONTACT:
        return 1
    if kinds <= {_G.mjGEOM_CAPSULE, _G.mjGEOM_PLANE}:
        return 2
    return 4 if _G.mjGEOM_PLANE in kinds else 8


def capacities(model: mujoco.MjModel) -> tuple[int, int]:
    """Return (nconmax, njmax) per env for MuJoCo Warp: :func:`contact_bound`, limited for large scenes."""
    contacts, rows = contact_bound(model)
    others = int(np.count_nonzero(model.jnt_limited)) + int(np.count_nonzero(model.tendon_limited))
    others += int(np.count_nonzero(model.dof_frictionloss)) + int(np.count_nonzero(model.tendon_frictionloss))
    others += 6 * model.neq
    share = min(1.0, _MAX_CONTACTS / max(contacts, 1))
    return max(8, int(np.ceil(contacts * share))), max(8, int(np.ceil(rows * share)) + others)


def bytes_per_env(model: mujoco.MjModel) -> int:
    """Return the memory of one env of a model, bytes.

    The engine's state and sensor data, a copy of both, the physics state and counters. Measured with MuJoCo 4.0: within
    5% of the resident memory.
    """
    state, physics = (
        mujoco.mj_stateSize(model, int(kind))
        for kind in (mujoco.mjtState.mjSTATE_INTEGRATION, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    )
    return 8 * (2 * (state + int(model.nsensordata)) + physics) + 160
