"""How many contacts and constraints a model can have: what the GPU engine must allocate ahead."""

from __future__ import annotations

import mujoco
import numpy as np

_MOST = 256
"""Contacts per env beyond which the bound is not trusted: in large scenes most pairs never touch at once."""

_G = mujoco.mjtGeom
_ONE = {_G.mjGEOM_SPHERE, _G.mjGEOM_ELLIPSOID}


def contact_bound(model: mujoco.MjModel) -> tuple[int, int]:
    """(contacts, constraint rows) that all colliding pairs of geoms together can make in one env."""
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
    kinds = {_G(int(model.geom_type[a])), _G(int(model.geom_type[b]))}
    if kinds & _ONE:
        return 1
    if _G.mjGEOM_HFIELD in kinds:
        return 16
    if kinds <= {_G.mjGEOM_CAPSULE, _G.mjGEOM_PLANE}:
        return 2
    return 4 if _G.mjGEOM_PLANE in kinds else 8


def capacities(model: mujoco.MjModel) -> tuple[int, int]:
    """(nconmax, njmax) per env for MuJoCo Warp: everything that can touch, up to a limit that suits large scenes."""
    contacts, rows = contact_bound(model)
    others = int(np.count_nonzero(model.jnt_limited)) + int(np.count_nonzero(model.tendon_limited))
    others += int(np.count_nonzero(model.dof_frictionloss)) + int(np.count_nonzero(model.tendon_frictionloss))
    others += 6 * model.neq
    share = min(1.0, _MOST / max(contacts, 1))
    return max(8, int(np.ceil(contacts * share))), max(8, int(np.ceil(rows * share)) + others)
