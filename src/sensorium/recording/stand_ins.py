"""Stand-ins: the recorded values of components that only the program which recorded them can create."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sensorium.tree import Buffer, Module
from sensorium.worlds import Scene
from sensorium.worlds.model_fields import MODEL_TAG

if TYPE_CHECKING:
    from sensorium.recording.recording import Recording


def add_stand_ins(scene: Scene, recording: Recording, removed: Iterable[str] = ()) -> None:
    """Add recorded buffers that a scene lacks to its tree, with the values of the first step.

    Args:
        scene: a scene made from the recording, built.
        recording: the recording.
        removed: dotted names of modules whose buffers are not added: sensors that the scene lacks on purpose.
    """
    values, tags = recording.read_state_dict_common(0), recording.tags
    prefixes = tuple(f"{path}." for path in removed)
    modules: dict[str, Module] = dict(scene.named_modules())
    existing = {name for name, _ in scene.named_buffers()}
    for name, value in values.items():
        if name in existing or MODEL_TAG in tags[name] or name.startswith(prefixes):
            continue
        words = name.split(".")
        for depth in range(1, len(words)):
            path = ".".join(words[:depth])
            if path not in modules:
                modules[path] = Module()
                modules[".".join(words[: depth - 1])].add_stand_in(words[depth - 1], modules[path])
        modules[".".join(words[:-1])].add_stand_in(words[-1], Buffer(value, tags[name]))
