"""Fields of the model that have values of their own in each env, as buffers of the component tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch

from sensorium.errors import OptionError
from sensorium.tree import Buffer, Module
from sensorium.worlds.world import World

MODEL_TAG = "model"
"""Tag of these buffers."""

DERIVED = (
    "body_subtreemass",
    "body_invweight0",
    "dof_invweight0",
    "geom_aabb",
    "geom_rbound",
    "tendon_length0",
    "tendon_invweight0",
    "actuator_acc0",
    "cam_pos0",
    "cam_poscom0",
    "cam_mat0",
    "light_pos0",
    "light_poscom0",
    "light_dir0",
)
"""What ``world.update_constants`` derives from other fields, on every engine."""
_DERIVED_ON_CPU = (
    "actuator_length0",
    "bvh_aabb",
    "dof_M0",
    "dof_length",
    "efm0_L",
    "flexedge_invweight0",
    "flexedge_length0",
)


def give(world: World, fields: Mapping[str, np.ndarray | None]) -> None:
    """Give fields of the model values per env, (B, ...); None for the model's own.

    What is derived from others is derived anew on a GPU, which may not have it, or only in single precision.
    """
    anew = False
    for name, values in fields.items():
        if world.is_gpu and name in (*DERIVED, *_DERIVED_ON_CPU):
            anew = True
            continue
        target = world.expand(name)
        if values is None:
            continue
        if tuple(values.shape) != tuple(target.shape):
            raise OptionError(
                f"the model field {name!r} has values of shape {tuple(values.shape)}, and {tuple(target.shape)} is "
                "needed; build the scene with as many envs as they are for"
            )
        target.copy_(torch.from_numpy(values))
    if anew:
        world.update_constants()
    if fields:
        world.reset()


class ModelFields(Module):
    """``world.body_mass``, ...: what ``scene.world.expand`` gave, live. A buffer is there once its field was expanded.

    Loading one writes into the engine at once; the next step, or ``scene.forward()``, has it.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._fields: dict[str, Buffer] = {}

    @property
    def fields(self) -> dict[str, Buffer]:
        """Field -> buffer (B, ...)."""
        expanded = self._world.expanded
        if len(expanded) > len(self._fields):
            for name in expanded.keys() - self._fields.keys():
                # a state that was saved before the field was expanded lacks it
                self._fields[name] = Buffer(expanded[name], {MODEL_TAG}, derived=True)
        return self._fields

    def _slots(self) -> Iterator[tuple[str, Module | Buffer]]:
        yield from self.fields.items()

    def _write_replay_data(self) -> None:
        loaded = [buffer for buffer in self._fields.values() if buffer.loaded]
        if loaded:
            self._world.changes.write()  # what cameras saw is out of date
        for buffer in loaded:
            buffer.loaded = False
