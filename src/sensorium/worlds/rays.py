"""``RayBatch``: rays in all envs and what they hit, in memory that never moves, as CUDA graphs need it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class RayBatch:
    """n rays in each of B envs. The caller writes origins and directions; the world writes the results."""

    points: torch.Tensor
    """Origins in the world frame, (B, n, 3) m."""
    directions: torch.Tensor
    """Unit directions in the world frame, (B, n, 3)."""
    viewer: torch.Tensor
    """Row of ``unseen`` for each ray, (n,) int32."""
    unseen: torch.Tensor
    """Bodies that rays pass through, (viewers, nbody) bool."""
    distances: torch.Tensor
    """Distance to the nearest hit, (B, n) m; -1 without one."""
    geoms: torch.Tensor
    """Geom of the nearest hit, (B, n) int32; -1 without one."""
    normals: torch.Tensor
    """Surface normals, (B, n, 3), 0 without a hit; (0, 0, 3) if they are not needed."""

    @classmethod
    def allocate(
        cls, n_envs: int, viewer: np.ndarray, unseen: np.ndarray, normals: bool, device: torch.device
    ) -> RayBatch:
        """Allocate one ray per element of ``viewer``: 44 bytes per ray and env with normals, 32 without."""
        shape = (n_envs, len(viewer))
        return cls(
            points=torch.zeros(*shape, 3, device=device),
            directions=torch.zeros(*shape, 3, device=device),
            viewer=torch.from_numpy(viewer.astype(np.int32)).to(device),
            unseen=torch.from_numpy(unseen.astype(bool)).to(device),
            distances=torch.zeros(shape, device=device),
            geoms=torch.zeros(shape, dtype=torch.int32, device=device),
            normals=torch.zeros(*(shape if normals else (0, 0)), 3, device=device),
        )
