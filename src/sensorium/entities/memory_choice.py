"""The two kinds of memory of an entity or a training, chosen by an option."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from gymnasium import spaces

from sensorium.entities import cluster_files
from sensorium.entities.cluster_buffer import VectorizedClusterBuffer
from sensorium.entities.cluster_options import ClusterOptions
from sensorium.entities.memory import Memory

AnyMemory: TypeAlias = Memory | VectorizedClusterBuffer
"""A memory of transitions that a brain learns from."""


def make_memory(
    observation_space: spaces.Dict,
    action_space: spaces.Box,
    memory: int | ClusterOptions,
    n_envs: int,
    **options: object,
) -> AnyMemory:
    """Return an empty memory.

    Args:
        observation_space, action_space: spaces of one env.
        memory: capacity of a :class:`Memory` in transitions, or options of a :class:`VectorizedClusterBuffer`.
        n_envs: number of envs, B.
        **options: further arguments of that class.
    """
    if isinstance(memory, ClusterOptions):
        return VectorizedClusterBuffer(observation_space, action_space, memory, **options)  # type: ignore[arg-type]
    return Memory(observation_space, action_space, memory, n_envs, **options)  # type: ignore[arg-type]


def load_memory(folder: Path, device: str = "cpu") -> AnyMemory:
    """Return the memory of either kind that a folder holds.

    Raises:
        DatasetError: the folder does not hold a saved memory, or it is damaged.
    """
    kind = VectorizedClusterBuffer if (folder / cluster_files.HEADER).is_file() else Memory
    return kind.load(folder, device=device)
