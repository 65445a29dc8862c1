"""Ray casting on the GPU: one thread a ray, over all geoms, by MuJoCo Warp's own intersections.

Unlike ``mujoco_warp.rays`` it lets every ray pass through any number of bodies. Neighbouring threads are rays of the
same env, which look at the same geoms at the same time.
"""

# the annotations of Warp kernels are values, not types
# mypy: disable-error-code="valid-type,misc,index,attr-defined,operator,no-untyped-def,empty-body,name-defined"
# mypy: allow-untyped-decorators, allow-untyped-calls

from typing import Any

import torch
import warp as wp

from sensorium.worlds import warp_init as warp_init  # before MuJoCo Warp, which would start Warp itself

from mujoco_warp._src.ray import _ray_geom_mesh  # isort: skip
from mujoco_warp._src.types import vec6  # isort: skip

from sensorium.worlds.rays import RayBatch

_MODEL = (
    "ngeom",
    "nmeshface",
    "body_weldid",
    "geom_type",
    "geom_bodyid",
    "geom_dataid",
    "geom_matid",
    "geom_group",
    "geom_size",
    "geom_rgba",
    "mesh_vertadr",
    "mesh_faceadr",
    "mesh_vert",
    "mesh_face",
    "hfield_size",
    "hfield_nrow",
    "hfield_ncol",
    "hfield_adr",
    "hfield_data",
    "mat_rgba",
)
"""Fields of MuJoCo Warp's model that the kernel takes, in its order."""

_FAR = 1e10


@wp.kernel(enable_backward=False)
def _cast(
    ngeom: int,
    nmeshface: int,
    body_weldid: wp.array(dtype=int),
    geom_type: wp.array(dtype=int),
    geom_bodyid: wp.array(dtype=int),
    geom_dataid: wp.array2d(dtype=int),
    geom_matid: wp.array2d(dtype=int),
    geom_group: wp.array(dtype=int),
    geom_size: wp.array2d(dtype=wp.vec3),
    geom_rgba: wp.array2d(dtype=wp.vec4),
    mesh_vertadr: wp.array(dtype=int),
    mesh_faceadr: wp.array(dtype=int),
    mesh_vert: wp.array(dtype=wp.vec3),
    mesh_face: wp.array(dtype=wp.vec3i),
    hfield_size: wp.array(dtype=wp.vec4),
    hfield_nrow: wp.array(dtype=int),
    hfield_ncol: wp.array(dtype=int),
    hfield_adr: wp.array(dtype=int),
    hfield_data: wp.array(dtype=float),
    mat_rgba: wp.array2d(dtype=wp.vec4),
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
    """The nearest geom on each ray of the envs in a mask."""
    b, j = wp.tid()
    if not envs[b]:
        return
    point = points[b, j]
    direction = directions[b, j]
    row = viewer[j]
    nearest = wp.float32(wp.static(_FAR))
    found = wp.int32(-1)
    normal = wp.vec3()
    every_group = vec6(-1.0, -1.0, -1.0, -1.0, -1.0, -1.0)
    for geom in range(ngeom):
        if not unseen[row, geom_bodyid[geom]]:
            distance, surface = _ray_geom_mesh(
                nmeshface,
                body_weldid,
                geom_type,
                geom_bodyid,
                geom_dataid,
                geom_matid,
                geom_group,
                geom_size,
                geom_rgba,
                mesh_vertadr,
                mesh_faceadr,
                mesh_vert,
                mesh_face,
                hfield_size,
                hfield_nrow,
                hfield_ncol,
                hfield_adr,
                hfield_data,
                mat_rgba,
                geom_xpos,
                geom_xmat,
                b,
                point,
                direction,
                every_group,
                True,
                -1,
                geom,
            )
            if distance >= 0.0 and distance < nearest:
                nearest = distance
                found = geom
                normal = surface
    distances[b, j] = wp.where(found >= 0, nearest, wp.float32(-1.0))
    geoms[b, j] = found
    if normals.shape[0] > 0:
        normals[b, j] = normal


def cast(model: Any, geom_xpos: wp.array, geom_xmat: wp.array, rays: RayBatch, envs: torch.Tensor) -> None:
    """Fill in what ``rays`` hit in the envs of a mask (B,), by geoms at these poses; ``model`` is MuJoCo Warp's."""
    vectors = [wp.from_torch(tensor, dtype=wp.vec3) for tensor in (rays.points, rays.directions)]
    inputs = [*(getattr(model, name) for name in _MODEL), geom_xpos, geom_xmat, *vectors]
    inputs += [wp.from_torch(tensor) for tensor in (rays.viewer, rays.unseen, envs)]
    outputs = [wp.from_torch(rays.distances), wp.from_torch(rays.geoms), wp.from_torch(rays.normals, dtype=wp.vec3)]
    wp.launch(_cast, dim=tuple(rays.distances.shape), inputs=inputs, outputs=outputs, device=geom_xpos.device)
