"""Fields of the model that have values of their own in each env, as buffers of the component tree."""

from __future__ import annotations

from collections.abc import Iterator

from sensorium.tree import Buffer, Module
from sensorium.worlds.world import World

MODEL_TAG = "model"
"""Tag of these buffers."""


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
