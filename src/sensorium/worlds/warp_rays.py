"""Ray casting on the GPU, with the intersection functions of MuJoCo Warp.

:func:`query` is ``mujoco_warp.rays`` for torch tensors. :func:`cast` serves the sensors and differs in two ways: a ray
can pass through any number of bodies, and meshes are searched by a tree. Neighbouring threads are rays of the same env,
which test the same geoms at the same time.
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import torch
import warp as wp

from sensorium.errors import OptionError
from sensorium.worlds import ray_kernels
from sensorium.worlds._mujoco_warp import vec6
from sensorium.worlds.rays import RayBatch
from sensorium.worlds.world import ArrayLike

import mujoco_warp as mjw  # isort: skip

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
"""Fields of MuJoCo Warp's model that the kernel takes, in the order of its parameters."""


class MeshTrees:
    """A tree over the faces of each mesh of a model, for ray queries.

    Args:
        model: the compiled model.
        device: the Warp device of the trees.

    Attributes:
        ids: Warp's id of each tree, by mesh.
    """

    def __init__(self, model: mujoco.MjModel, device: wp.DeviceLike) -> None:
        self._meshes = []
        for mesh in range(model.nmesh):
            first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
            points = wp.array(model.mesh_vert[first : first + count], dtype=wp.vec3, device=device)
            first, count = model.mesh_faceadr[mesh], model.mesh_facenum[mesh]
            faces = wp.array(model.mesh_face[first : first + count].ravel(), dtype=wp.int32, device=device)
            # the geometry of a mesh never changes: a tree that takes long to build and is fast to search
            self._meshes.append(wp.Mesh(points=points, indices=faces, bvh_constructor="sah"))
        ids = np.array([mesh.id for mesh in self._meshes] or [0], np.uint64)
        self.ids = wp.array(ids, dtype=wp.uint64, device=device)


def cast(
    model: Any, meshes: MeshTrees, geom_xpos: wp.array, geom_xmat: wp.array, rays: RayBatch, envs: torch.Tensor
) -> None:
    """Write distances, geoms and normals of ``rays``, in the envs of a mask.

    Args:
        model: MuJoCo Warp's model.
        meshes: the trees of its meshes.
        geom_xpos: positions of the geoms, (B, ngeom) vec3.
        geom_xmat: orientations of the geoms, (B, ngeom) mat33.
        rays: the rays, and where the results go.
        envs: which envs, (B,) bool.
    """
    vectors = [wp.from_torch(tensor, dtype=wp.vec3) for tensor in (rays.points, rays.directions)]
    inputs = [*(getattr(model, name) for name in _MODEL), meshes.ids, geom_xpos, geom_xmat, *vectors]
    inputs += [wp.from_torch(tensor) for tensor in (rays.viewer, rays.unseen, envs)]
    outputs = [wp.from_torch(rays.distances), wp.from_torch(rays.geoms), wp.from_torch(rays.normals, dtype=wp.vec3)]
    shape = tuple(rays.distances.shape)
    wp.launch(ray_kernels.cast, dim=shape, inputs=inputs, outputs=outputs, device=geom_xpos.device)


def query(
    m: Any, d: Any, device: torch.device, origins: ArrayLike, directions: ArrayLike, **options: object
) -> tuple[torch.Tensor, ...]:
    """Cast rays in every env; see :meth:`sensorium.worlds.World.rays`.

    Args:
        m: MuJoCo Warp's model.
        d: MuJoCo Warp's data.
        device: where the results go.
        origins: (n, 3) or (B, n, 3) m, world frame.
        directions: (n, 3) or (B, n, 3), world frame.
        **options: ``bodyexclude``, ``geomgroup``, ``flg_static``, ``normal``.
    """
    points, vectors = (torch.as_tensor(given, device=device, dtype=torch.float32) for given in (origins, directions))
    shape = torch.broadcast_shapes(points.shape, vectors.shape, (d.nworld, 1, 3))
    length = vectors.norm(dim=-1, keepdim=True)  # the triangle tests of MuJoCo Warp need unit directions
    points, vectors = (tensor.expand(shape).contiguous() for tensor in (points, vectors / length))
    distance, normal = torch.zeros(shape[:2], device=device), torch.zeros(shape, device=device)
    geom = torch.zeros(shape[:2], dtype=torch.int32, device=device)
    exclude = torch.as_tensor(options.pop("bodyexclude", -1), dtype=torch.int32, device=device)
    exclude = exclude.expand(shape[1]).contiguous()
    group, static = options.pop("geomgroup", None), bool(options.pop("flg_static", True))
    groups = vec6(*([-1] * 6 if group is None else np.asarray(group, dtype=int).tolist()))
    with_normals = options.pop("normal", False)
    if options:
        raise OptionError(f"rays: there is no option {next(iter(options))!r} on the GPU")
    inputs = [wp.from_torch(tensor, dtype=wp.vec3) for tensor in (points, vectors)]
    outputs = [wp.from_torch(distance), wp.from_torch(geom), wp.from_torch(normal, dtype=wp.vec3)]
    mjw.rays(m, d, *inputs, groups, static, wp.from_torch(exclude), *outputs)
    distance = torch.where(distance < 0, distance, distance / length[..., 0])
    return (distance, geom, normal) if with_normals else (distance, geom)
