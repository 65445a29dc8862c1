"""Building the scene of a tensor task, and the memory that the task needs besides, checked before it is allocated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from sensorium._system import check_memory
from sensorium.worlds import Scene
from sensorium.worlds.capacity import bytes_per_env
from sensorium.worlds.device import too_little_memory

if TYPE_CHECKING:
    from sensorium.tasks.tensor.config import TensorTaskConfig

_PER_SENSOR, _PER_FRAME = 1.3, 0.3
"""Observations of an env, as multiples of what its sensors take: all of them, and for each step of the history.
Measured with the four tasks: within 20% of the resident memory."""


def build_scene(scene: Scene, config: TensorTaskConfig) -> None:
    """Build the scene of a task.

    Raises:
        OptionError, DeviceError: see :meth:`Scene.build` and :func:`check_fits`.
    """
    room = {} if config.device.startswith("cpu") else {"nconmax": config.nconmax, "njmax": config.njmax}
    scene.build(n_envs=config.n_envs, device=config.device, seed=config.seed, threads=config.threads, **room)
    check_observations(scene, config.history)


def check_observations(scene: Scene, history: int) -> None:
    """Raise an error if the observations of all envs do not fit into memory; see :func:`check_fits`.

    Args:
        scene: the scene of the task, built.
        history: steps that the policy observes.
    """
    check_fits(scene, "the observations of the task", (_PER_SENSOR + _PER_FRAME * history) * scene.sensor_bytes())


def check_fits(scene: Scene, what: str, per_env: float) -> None:
    """Raise an error if something with a part for each env does not fit into memory.

    Args:
        scene: a scene, built.
        what: what needs the memory, in the plural.
        per_env: bytes of one env.

    Raises:
        OptionError: the machine has too little memory. The message has the number of envs that fits.
        DeviceError: the GPU has too little memory.
    """
    world = scene.world
    if not world.is_gpu:
        built = bytes_per_env(scene.model) + scene.sensor_bytes()  # of one env, allocated already
        check_memory("n_envs", world.n_envs, what, built + per_env, -built * world.n_envs)
    elif world.device.type == "cuda" and per_env * world.n_envs > _free(world.device):
        raise too_little_memory(world.device, f"{what} of {world.n_envs} envs", "Lower n_envs")


def _free(device: torch.device) -> int:
    """Return the bytes that torch can allocate on a GPU: those that are free, and those that torch keeps for later."""
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + kept
