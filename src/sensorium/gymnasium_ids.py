"""The tasks as Gymnasium environments: their ids, registered without importing the tasks."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

IDS = {
    "pick": "sensorium/Pick-v0",
    "pick_and_place": "sensorium/PickAndPlace-v0",
    "opening": "sensorium/Opening-v0",
    "door_opening": "sensorium/DoorOpening-v0",
    "nav_to_obj": "sensorium/NavToObj-v0",
    "multi": "sensorium/MultiTask-v0",
    "balance": "sensorium/Balance-v0",
    "reach": "sensorium/Reach-v0",
    "walk": "sensorium/Walk-v0",
    "lift": "sensorium/Lift-v0",
}
"""Name of a task -> id of its environment."""


def register(ids: dict[str, str] = IDS) -> None:
    """Register environments with Gymnasium, if they are not yet. It imports Gymnasium, and a task at its first use."""
    import gymnasium

    for name, env_id in ids.items():
        if env_id not in gymnasium.registry:
            gymnasium.register(
                id=env_id,
                entry_point=None if name == "multi" else "sensorium.tasks.gym:make_gym",  # a vector only
                vector_entry_point="sensorium.tasks.gym:make_vector",
                kwargs={"task": name},
            )


def register_when_imported() -> None:
    """Register the tasks now if Gymnasium is imported already, otherwise at the end of its import.

    Gymnasium 1.0 removed the entry points by which packages registered environments. Importing it here would make
    ``import sensorium`` take 0.2 s longer.
    """
    if "gymnasium" in sys.modules:
        register()
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds Gymnasium where the other finders do, and makes its loader register the tasks."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the module Gymnasium, once, and None for all others."""
        if name != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_register(module: ModuleType) -> None:
                load(module)
                register()

            spec.loader.exec_module = load_and_register  # type: ignore[method-assign]
        return spec
