"""Warp kernels of ``partial_forward.py``: which envs restart, copies of their rows, and their contacts."""

from __future__ import annotations

import warp as wp

from sensorium.worlds._mujoco_warp import vec5

CONTACT_FIELDS = (
    "dist",
    "pos",
    "frame",
    "includemargin",
    "friction",
    "solref",
    "solreffriction",
    "solimp",
    "dim",
    "geom",
    "efc_address",
    "worldid",
    "type",
    "geomcollisionid",
)
"""Fields of a contact that :func:`append_contacts` copies, in the order of its parameters."""
_FAR = 1.0e6
"""Distance of a contact that was removed, m. With it and without a type, no contact counts as touching."""


@wp.kernel(enable_backward=False)
def list_envs(mask: wp.array(dtype=bool), count: wp.array(dtype=int), ids: wp.array(dtype=wp.int64)):
    """Count the envs of a mask, and list as many as fit."""
    b = wp.tid()
    if mask[b]:
        place = wp.atomic_add(count, 0, 1)
        if place < ids.shape[0]:
            ids[place] = wp.int64(b)


@wp.kernel(enable_backward=False)
def fill_up(
    count: wp.array(dtype=int),
    ids: wp.array(dtype=wp.int64),
    some: wp.array(dtype=int),
    few: wp.array(dtype=int),
    many: wp.array(dtype=int),
):
    """Let the places that are not used repeat the first env: it is then computed again, with the same result."""
    i = wp.tid()
    n = count[0]
    if i >= n and n > 0:
        ids[i] = ids[0]
    if i == 0:
        some[0] = wp.where(n > 0, 1, 0)
        few[0] = wp.where(n > 0 and n <= ids.shape[0], 1, 0)
        many[0] = wp.where(n > ids.shape[0], 1, 0)


@wp.func_native("((wp::uint32*)target)[0] = ((const wp::uint32*)source)[0];")
def _copy_word(target: wp.uint64, source: wp.uint64): ...


@wp.kernel(enable_backward=False)
def copy_rows(
    field: wp.array(dtype=int),
    word: wp.array(dtype=int),
    width: wp.array(dtype=int),
    full: wp.array(dtype=wp.uint64),
    rows: wp.array(dtype=wp.uint64),
    ids: wp.array(dtype=wp.int64),
    gather: bool,
):
    """Copy rows of many fields, 32 bits per thread: from the envs ``ids`` to the first rows, or back.

    ``field`` and ``word`` are the field of each thread and its place in a row of it; ``width`` the words in a row of
    each field; ``full`` and ``rows`` the addresses of the fields.
    """
    row, i = wp.tid()
    f = field[i]
    small = rows[f] + wp.uint64(4) * wp.uint64(row * width[f] + word[i])
    large = full[f] + wp.uint64(4) * (wp.uint64(ids[row]) * wp.uint64(width[f]) + wp.uint64(word[i]))
    if gather:
        _copy_word(small, large)
    else:
        _copy_word(large, small)


@wp.kernel(enable_backward=False)
def remove_contacts(
    mask: wp.array(dtype=bool),
    kept_count: wp.array(dtype=int),
    kept_env: wp.array(dtype=int),
    n_contacts: wp.array(dtype=int),
    env: wp.array(dtype=int),
    dist: wp.array(dtype=float),
    kind: wp.array(dtype=int),
    address: wp.array2d(dtype=int),
    n_free: wp.array(dtype=int),
    free: wp.array(dtype=int),
):
    """Let the contacts of the envs of a mask count as not touching, and undo what a reset did to the list.

    Their places, and those that were removed before, are listed as free. Otherwise several resets without a step
    between them would fill the list.
    """
    i = wp.tid()
    if i == 0:
        n_contacts[0] = kept_count[0]
    if i >= kept_count[0]:
        return
    env[i] = kept_env[i]
    if mask[env[i]] or (kind[i] == 0 and dist[i] == wp.static(_FAR)):
        free[wp.atomic_add(n_free, 0, 1)] = i
        dist[i] = wp.static(_FAR)
        kind[i] = 0
        for j in range(address.shape[1]):
            address[i, j] = -1


@wp.kernel(enable_backward=False)
def append_contacts(
    n_selected: wp.array(dtype=int),
    ids: wp.array(dtype=wp.int64),
    n_contacts: wp.array(dtype=int),
    n_collisions: wp.array(dtype=int),
    n_places: int,
    n_free: wp.array(dtype=int),
    free: wp.array(dtype=int),
    dist: wp.array(dtype=float),
    pos: wp.array(dtype=wp.vec3),
    frame: wp.array(dtype=wp.mat33),
    margin: wp.array(dtype=float),
    friction: wp.array(dtype=vec5),
    solref: wp.array(dtype=wp.vec2),
    solreffriction: wp.array(dtype=wp.vec2),
    solimp: wp.array(dtype=vec5),
    dim: wp.array(dtype=int),
    geom: wp.array(dtype=wp.vec2i),
    address: wp.array2d(dtype=int),
    env: wp.array(dtype=int),
    kind: wp.array(dtype=int),
    collision: wp.array(dtype=int),
    n_taken: wp.array(dtype=int),
    n_all: wp.array(dtype=int),
    all_dist: wp.array(dtype=float),
    all_pos: wp.array(dtype=wp.vec3),
    all_frame: wp.array(dtype=wp.mat33),
    all_margin: wp.array(dtype=float),
    all_friction: wp.array(dtype=vec5),
    all_solref: wp.array(dtype=wp.vec2),
    all_solreffriction: wp.array(dtype=wp.vec2),
    all_solimp: wp.array(dtype=vec5),
    all_dim: wp.array(dtype=int),
    all_geom: wp.array(dtype=wp.vec2i),
    all_address: wp.array2d(dtype=int),
    all_env: wp.array(dtype=int),
    all_kind: wp.array(dtype=int),
    all_collision: wp.array(dtype=int),
):
    """Add the contacts of the small batch to those of all envs: in free places, then at the end if there is room.

    If contacts were lost, the count exceeds the places, as the engine's own does.
    """
    i = wp.tid()
    if i == 0 and wp.max(n_contacts[0], n_collisions[0]) > dist.shape[0]:
        wp.atomic_add(n_all, 0, n_places + 1)
    if i >= n_contacts[0] or env[i] >= n_selected[0]:  # the rows from n_selected on repeat an env
        return
    k = wp.atomic_add(n_taken, 0, 1)
    if k < n_free[0]:  # noqa: SIM108  # a conditional expression would make both
        k = free[k]
    else:
        k = wp.atomic_add(n_all, 0, 1)
    if k >= n_places:
        return
    all_dist[k] = dist[i]
    all_pos[k] = pos[i]
    all_frame[k] = frame[i]
    all_margin[k] = margin[i]
    all_friction[k] = friction[i]
    all_solref[k] = solref[i]
    all_solreffriction[k] = solreffriction[i]
    all_solimp[k] = solimp[i]
    all_dim[k] = dim[i]
    all_geom[k] = geom[i]
    for j in range(address.shape[1]):
        all_address[k, j] = address[i, j]
    all_env[k] = wp.int32(ids[env[i]])
    all_kind[k] = kind[i]
    all_collision[k] = collision[i]
