"""The World protocol: what the layers above need of a physics engine, and nothing more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import mujoco
import numpy as np
import torch

from sensorium.errors import OptionError
from sensorium.worlds.device import upload
from sensorium.worlds.rays import RayBatch

if TYPE_CHECKING:
    from sensorium.worlds.changes import Changes
    from sensorium.worlds.lights import Light

Envs = torch.Tensor | np.ndarray | Sequence[int] | int | None
"""Which envs a call is about: ids, a boolean mask of shape (B,), one id, or None for all."""


class World(Protocol):
    """B copies of one compiled model, stepped in lockstep.

    ``bind`` gives live tensors: their content changes with every call, their address never does.
    """

    model: mujoco.MjModel
    n_envs: int
    device: torch.device
    substeps: int
    is_gpu: bool
    """Whether this is the GPU engine: sensing then runs inside its CUDA graphs (``attach``), not after its calls."""
    changes: Changes
    """Which envs changed, and when."""
    step_count: int
    """Steps since the world began."""
    lights: tuple[Light, ...]
    """What ``scene.add_light`` added, which the model has as lights too."""
    expanded: dict[str, torch.Tensor]
    """Model field -> what :meth:`expand` gave for it."""
    can_retrace: bool
    """Whether a recorded step can be reproduced, and :attr:`before` is available for recording."""
    before: np.ndarray | None
    """Physics states before the last substep of the last step, (B, n_state), while :meth:`keep_before` is on. Always
    None on the GPU backend."""

    @property
    def time(self) -> torch.Tensor:
        """Simulated seconds since each env's reset, (B,)."""
        ...

    def bind(self, field: str) -> torch.Tensor:
        """A live (B, ...) tensor over an MjData field."""
        ...

    def expand(self, field: str) -> torch.Tensor:
        """A live (B, ...) tensor of per-env values of an MjModel field, for randomisation."""
        ...

    def update_constants(self, envs: Envs = None) -> None:
        """Recompute what the engine derives from expanded fields (inverse weights and the like)."""
        ...

    def step(self) -> dict[int, str]:
        """Advance every healthy env by ``substeps`` physics steps; return env -> message of those that failed now."""
        ...

    def forward(self, envs: Envs = None) -> dict[int, str]:
        """Recompute everything derived from the state; env -> message of those that failed."""
        ...

    def settle(self) -> None:
        """Bring poses up to date in the envs whose positions were written since, and leave the physics as it is."""
        ...

    def reset(self, envs: Envs = None) -> dict[int, str]:
        """Put envs back to the model's initial state, and recompute what is derived from it; likewise."""
        ...

    def get_state(self) -> torch.Tensor:
        """A copy of the full physics state, (B, n_state)."""
        ...

    def set_state(self, state: torch.Tensor, envs: Envs = None) -> dict[int, str]:
        """Set the full physics state of envs, and recompute what is derived from it; likewise."""
        ...

    def keep_before(self, keep: bool) -> None:
        """Store the states before the last substep of each step in :attr:`before`. The GPU backend ignores this."""
        ...

    def rays(self, origins: Any, directions: Any, **options: Any) -> tuple[torch.Tensor, ...]:
        """Cast rays in every env: distances (B, n) in lengths of ``directions`` (-1: no hit), and geom ids; with
        ``normal=True``, where the engine has them, also the normals of the surfaces (B, n, 3)."""
        ...

    def check(self) -> dict[int, str]:
        """Wait for the device; env -> message of what failed and was not reported yet."""
        ...

    def close(self) -> None:
        """Free the engine's memory and threads."""
        ...


class GpuWorld(World, Protocol):
    """What the GPU engine has besides, for what runs in its CUDA graphs."""

    steps: torch.Tensor
    """Steps since each env's reset, (B,) int32."""

    def cast(self, rays: RayBatch, envs: torch.Tensor) -> None:
        """Cast rays in the envs of a mask (B,), against all geometry as it is now; launches only, looks at nothing."""
        ...


def env_ids(envs: Envs, n_envs: int) -> np.ndarray | None:
    """``envs`` as sorted unique int32 ids, or None for all; an OptionError names what is wrong with it."""
    if envs is None:
        return None
    if isinstance(envs, torch.Tensor):
        envs = envs.numpy(force=True)
    try:
        ids = np.atleast_1d(np.asarray(envs))
    except ValueError as error:
        raise OptionError(f"envs must be integer ids or a boolean mask, got {envs!r}") from error
    if ids.dtype == bool:
        if ids.shape != (n_envs,):
            raise OptionError(f"envs: a boolean mask must have shape ({n_envs},), got {ids.shape}")
        return np.flatnonzero(ids).astype(np.int32)
    if ids.size == 0:
        return np.zeros(0, np.int32)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise OptionError(f"envs must be integer ids or a boolean mask, got {envs!r}")
    bad = ids[(ids < 0) | (ids >= n_envs)]
    if bad.size:
        raise OptionError(f"envs must lie in [0, {n_envs}), got {int(bad[0])}")
    return np.unique(ids).astype(np.int32)


def env_index(envs: Envs, n_envs: int, device: torch.device) -> torch.Tensor | None:
    """``envs`` as an int64 index tensor in the order given, or None for all.

    Ids on a GPU are taken as they are, for looking at them would wait for it; a mask there is looked at.
    """
    if envs is None:
        return None
    if isinstance(envs, torch.Tensor) and envs.device.type != "cpu":
        if envs.dtype == torch.bool:
            return check_mask(envs, n_envs).nonzero().flatten()
        if envs.is_floating_point() or envs.is_complex() or envs.ndim > 1:
            raise OptionError(
                f"envs must be integer ids or a boolean mask, got {envs.dtype} of shape {tuple(envs.shape)}"
            )
        return envs.flatten().to(torch.int64)
    checked = env_ids(envs, n_envs)
    given = np.atleast_1d(envs.numpy() if isinstance(envs, torch.Tensor) else np.asarray(envs))
    index = checked if given.dtype == bool else given
    return upload(torch.from_numpy(np.array(index, dtype=np.int64)), device)


def check_mask(mask: torch.Tensor, n_envs: int) -> torch.Tensor:
    """A boolean mask of envs, if its shape is right."""
    if mask.shape != (n_envs,):
        raise OptionError(f"envs: a boolean mask must have shape ({n_envs},), got {tuple(mask.shape)}")
    return mask
