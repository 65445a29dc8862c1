"""Ray casting on the GPU: one thread a ray, over all geoms, by MuJoCo Warp's own intersections.

Unlike ``mujoco_warp.rays`` it lets every ray pass through any number of bodies, and searches meshes by a tree.
Neighbouring threads are rays of the same env, which look at the same geoms at the same time.
"""

# the annotations of Warp kernels are values, not types
# mypy: disable-error-code="valid-type,misc,index,attr-defined,operator,no-untyped-def,empty-body,name-defined"
# mypy: allow-untyped-decorators, allow-untyped-calls

from typing import Any

import mujoco
import numpy as np
import torch
import warp as wp

from sensorium.worlds._mujoco_warp import ray_eliminate, ray_geom, ray_hfield, ray_mesh_with_bvh, vec6
from sensorium.worlds.rays import RayBatch

_MODEL = (
    "ngeom",
    "body_weldid",
    "geom_type",
    "geom_bodyid",
    "geom_dataid",
    "geom_matid",
    "geom_group",
    "geom_size",
    "geom_rgba",
    "hfield_size",
    "hfield_nrow",
    "hfield_ncol",
    "hfield_adr",
    "hfield_data",
    "mat_rgba",
)
"""Fields of MuJoCo Warp's model that the kernel takes, in its order."""

_FAR = 1e10
_MESH, _HFIELD = int(mujoco.mjtGeom.mjGEOM_MESH), int(mujoco.mjtGeom.mjGEOM_HFIELD)


class MeshTrees:
    """A tree over the faces of each mesh of a model, in which rays find what they hit."""

    def __init__(self, model: mujoco.MjModel, device: Any) -> None:
        self._meshes = []
        for mesh in range(model.nmesh):
            first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
            points = wp.array(model.mesh_vert[first : first + count], dtype=wp.vec3, device=device)
            first, count = model.mesh_faceadr[mesh], model.mesh_facenum[mesh]
            faces = wp.array(model.mesh_face[first : first + count].ravel(), dtype=wp.int32, device=device)
            self._meshes.append(wp.Mesh(points=points, indices=faces))
        ids = np.array([mesh.id for mesh in self._meshes] or [0], np.uint64)
        self.ids = wp.array(ids, dtype=wp.uint64, device=device)


@wp.kernel(enable_backward=False)
def _cast(
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


def cast(
    model: Any, meshes: MeshTrees, geom_xpos: wp.array, geom_xmat: wp.array, rays: RayBatch, envs: torch.Tensor
) -> None:
    """Fill in what ``rays`` hit in the envs of a mask (B,), by geoms at these poses; ``model`` is MuJoCo Warp's."""
    vectors = [wp.from_torch(tensor, dtype=wp.vec3) for tensor in (rays.points, rays.directions)]
    inputs = [*(getattr(model, name) for name in _MODEL), meshes.ids, geom_xpos, geom_xmat, *vectors]
    inputs += [wp.from_torch(tensor) for tensor in (rays.viewer, rays.unseen, envs)]
    outputs = [wp.from_torch(rays.distances), wp.from_torch(rays.geoms), wp.from_torch(rays.normals, dtype=wp.vec3)]
    wp.launch(_cast, dim=tuple(rays.distances.shape), inputs=inputs, outputs=outputs, device=geom_xpos.device)
