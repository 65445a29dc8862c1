"""A part of a scene that adds several things at once and holds them together: a robot with its sensors, a room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from sensorium.options import Options
from sensorium.tree import Module

if TYPE_CHECKING:
    from sensorium.worlds.scene import Scene
    from sensorium.worlds.world import Envs

OptionsT = TypeVar("OptionsT", bound=Options)


class SceneModule(Module, Generic[OptionsT]):
    """What ``scene.add_module(name, part)`` takes. Derive from it, set ``options_type``, and define :meth:`attach`.

    The options say everything about a part: ``type(part)(options)`` makes it again, also from options that were saved
    as JSON.

    Args:
        options: all options; or
        **values: options by name.
    """

    options_type: ClassVar[type[Options]] = Options
    """The class of its options; their values must have a JSON form."""

    def __init__(self, options: OptionsT | None = None, **values: Any) -> None:
        made: Any = self.options_type(**values) if options is None else options
        self.options: OptionsT = made

    def attach(self, scene: Scene, name: str) -> None:
        """Add what the part owns to a scene. Called once, by ``scene.add_module``.

        What is added here belongs to the part: it is no child of the scene in the component tree, so the part hangs it
        where it shall be; sensors that it hangs nowhere become its children under their uuid. An entity may have the
        part's own name. If this raises, the scene stays as it was.
        """
        raise TypeError(f"{type(self).__name__} must define attach(scene, name)")

    def start(self, scene: Scene) -> None:
        """The scene was built: make buffers of B rows. Called at the end of ``scene.build()``."""

    def on_reset(self, envs: Envs) -> bool | None:
        """``scene.reset(envs)`` put envs to the model's initial state: write what the part's own initial state differs
        by. What depends on it is recomputed afterwards, unless this returns False: nothing of the physics was written.
        """
