"""Warp kernel of ray casting on the GPU: one thread per ray, over all geoms."""

from __future__ import annotations

import mujoco
import warp as wp

from sensorium.worlds._mujoco_warp import ray_eliminate, ray_geom, ray_hfield, ray_mesh_with_bvh, vec6

_MAX_DISTANCE = 1e10
"""m. Rays that hit nothing nearer return -1."""
_MESH, _HFIELD = int(mujoco.mjtGeom.mjGEOM_MESH), int(mujoco.mjtGeom.mjGEOM_HFIELD)


@wp.kernel(enable_backward=False)
def cast(
    ngeom: int,
    body_weldid: wp.array(dtype=int),
    geom_type: wp.array(dtype=int),
    geom_bodyid: wp.array(dtype=int),
    geom_dataid: wp.array2d(dtype=int),
    geom_matid: wp.array2d(dtype=int),
    geom_group: wp.array(dtype=int),
    geom_size: wp.array2d(dtype=wp.vec3),
    geom_rgba: wp.array2d(dtype=wp.vec4),
    hfield_size: wp.array(dtype=wp.vec4),
    hfield_nrow: wp.array(dtype=int),
    hfield_ncol: wp.array(dtype=int),
    hfield_adr: wp.array(dtype=int),
    hfield_data: wp.array(dtype=float),
    mat_rgba: wp.array2d(dtype=wp.vec4),
    mesh_ids: wp.array(dtype=wp.uint64),
    geom_xpos: wp.array2d(dtype=wp.vec3),
    geom_xmat: wp.array2d(dtype=wp.mat33),
    points: wp.array2d(dtype=wp.vec3),
    directions: wp.array2d(dtype=wp.vec3),
    viewer: wp.array(dtype=int),
    unseen: wp.array2d(dtype=bool),
    envs: wp.array(dtype=bool),
    distances: wp.array2d(dtype=float),
    geoms: wp.array2d(dtype=int),
    normals: wp.array2d(dtype=wp.vec3),
):
    """Find the nearest geom on each ray of the envs in a mask."""
    b, j = wp.tid()
    if not envs[b]:
        return
    point = points[b, j]
    direction = directions[b, j]
    row = viewer[j]
    nearest = wp.float32(wp.static(_MAX_DISTANCE))
    found = wp.int32(-1)
    normal = wp.vec3()
    every_group = vec6(-1.0, -1.0, -1.0, -1.0, -1.0, -1.0)
    data, sizes = b % geom_dataid.shape[0], b % geom_size.shape[0]
    colours, materials, shades = b % geom_rgba.shape[0], b % geom_matid.shape[0], b % mat_rgba.shape[0]
    for geom in range(ngeom):
        if not unseen[row, geom_bodyid[geom]] and not ray_eliminate(
            body_weldid,
            geom_bodyid,
            geom_matid[materials],
            geom_group,
            geom_rgba[colours],
            mat_rgba[shades],
            geom,
            every_group,
            True,
            -1,
        ):
            pos = geom_xpos[b, geom]
            mat = geom_xmat[b, geom]
            distance = wp.float32(-1.0)
            surface = wp.vec3()
            if geom_type[geom] == wp.static(_MESH):
                distance, surface, _u, _v, _f, _id = ray_mesh_with_bvh(
                    mesh_ids, geom_dataid[data, geom], pos, mat, point, direction, nearest, False
                )
            elif geom_type[geom] == wp.static(_HFIELD):
                distance, surface = ray_hfield(
                    geom_dataid,
                    hfield_size,
                    hfield_nrow,
                    hfield_ncol,
                    hfield_adr,
                    hfield_data,
                    pos,
                    mat,
                    point,
                    direction,
                    geom,
                    b,
                )
            else:
                distance, surface = ray_geom(pos, mat, geom_size[sizes, geom], point, direction, geom_type[geom])
            if distance >= 0.0 and distance < nearest:
                nearest = distance
                found = geom
                normal = surface
    distances[b, j] = wp.where(found >= 0, nearest, wp.float32(-1.0))
    geoms[b, j] = found
    if normals.shape[0] > 0:
        normals[b, j] = normal
