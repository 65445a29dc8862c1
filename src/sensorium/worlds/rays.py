"""Rays in all envs and what they hit, in memory that stays where it is: what a captured world casts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class RayBatch:
    """n rays in each of B envs. Whoever casts them fills origins and directions; the world, what they hit."""

    points: torch.Tensor
    """Origins in the world, (B, n, 3) m."""
    directions: torch.Tensor
    """Unit directions in the world, (B, n, 3)."""
    viewer: torch.Tensor
    """Which row of ``unseen`` each ray has, (n,) int32."""
    unseen: torch.Tensor
    """Bodies that rays pass through, (viewers, nbody) bool."""
    distances: torch.Tensor
    """To the nearest hit, (B, n) m; -1 without one."""
    geoms: torch.Tensor
    """The geoms that were hit, (B, n) int32; -1 without a hit."""
    normals: torch.Tensor
    """Normals of the surfaces, (B, n, 3), 0 without a hit; (0, 0, 3) if nobody asked for them."""

    @classmethod
    def allocate(
        cls, n_envs: int, viewer: np.ndarray, unseen: np.ndarray, normals: bool, device: torch.device
    ) -> RayBatch:
        """Room for as many rays as ``viewer`` has elements; 44 bytes a ray with normals, 32 without."""
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
