"""``step_and_reset``: steps that reset envs at their end, for ``scene.step(reset=...)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from sensorium._tensors import check_plain
from sensorium.errors import CapacityError, DivergenceError, OptionError
from sensorium.worlds.failures import merge_errors
from sensorium.worlds.world import Envs, World, env_mask

if TYPE_CHECKING:
    from collections.abc import Callable

    from sensorium.worlds.simulation import Simulation


def step_and_reset(scene: Simulation, count: int, reset: Envs | Callable[[], Envs]) -> None:
    """Make ``count`` steps, and reset envs after each. Arguments and errors are those of :meth:`sensorium.Scene.step`.

    Ids and masks are checked before the first step, so that a call that raises for them changes nothing. Failures of
    the physics are raised at the end.
    """
    world = scene.world
    mask = None if callable(reset) else _mask(world, reset, "reset")
    failed: dict[int, str] = {}
    crowded: CapacityError | None = None

    def run(call: Callable[..., None], *arguments: object) -> None:
        nonlocal crowded
        try:
            call(*arguments)
        except DivergenceError as error:  # the step or the reset itself was made
            failed.update(error.messages)
        except CapacityError as error:
            crowded = merge_errors(crowded, error)

    for _ in range(count):
        run(scene.step)
        if callable(reset):
            mask = _mask(world, reset(), "reset: the value of the function")
        elif isinstance(reset, np.ndarray) and reset.dtype == bool:  # of which the mask is a copy
            mask = _mask(world, reset, "reset")
        run(_end_episodes, scene, mask)
    if crowded is not None:
        crowded.failed |= failed
        raise crowded
    if failed:
        raise DivergenceError(failed)


def _mask(world: World, envs: Envs, name: str) -> torch.Tensor:
    """Return envs as a mask, (B,) bool. Values in a tensor on a GPU are not validated, since that would wait for it."""
    if envs is None:
        raise OptionError("reset: the function returned None; return ids or a boolean mask of the envs to reset")
    if isinstance(envs, torch.Tensor):
        check_plain(name, envs)
    return env_mask(envs, world.n_envs, world.device, name)


def _end_episodes(scene: Simulation, mask: torch.Tensor) -> None:
    """Reset the envs of a mask, and keep the last readings of their episodes."""
    if not scene.world.is_gpu and not bool(mask.any()):
        return
    if scene._sensing is not None:
        scene._sensing.keep_final(mask)
    scene.reset(mask)
