"""``SceneModule``: a component that adds entities, sensors and lights to a scene, such as a room."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, cast

from sensorium.errors import DuplicateNameError, OptionError
from sensorium.options import Options
from sensorium.tree import Module

if TYPE_CHECKING:
    from sensorium.worlds.scene import Scene
    from sensorium.worlds.world import Envs

OptionsT = TypeVar("OptionsT", bound=Options)
MethodT = TypeVar("MethodT", bound="Callable[..., bool | None]")


def capturable_reset(method: MethodT) -> MethodT:
    """Mark an ``on_reset`` that a CUDA graph can hold.

    It then takes a mask on the device, makes the same torch operations each time, writes no physics state, and reads no
    value from the device.
    """
    method.is_capturable = True  # type: ignore[attr-defined]
    return method


class SceneModule(Module, Generic[OptionsT]):
    """Base class of what ``scene.add_module(name, module)`` takes.

    Derive from it, set ``options_type``, and define :meth:`attach`. The options describe the module completely:
    ``type(module)(options)`` creates an equal one, also from options that were saved as JSON. A module belongs to one
    scene for good; create an equal one for another scene.

    Args:
        options: all options as one value; or
        **values: options by name.

    Example:
        >>> class Gate(SceneModule[GateOptions]):
        ...     options_type = GateOptions
        ...
        ...     def attach(self, scene, name):
        ...         scene.add_terrain(sn.Box(size=(0.1, self.options.width, 1.0)), name=name)
        >>> gate = scene.add_module("gate", Gate(width=1.4))
    """

    options_type: ClassVar[type[Options]] = Options
    """The class of the options. Its values must have a JSON form."""
    _name_in_scene: str | None = None

    def __init__(self, options: OptionsT | None = None, **values: object) -> None:
        if options is not None and not isinstance(options, self.options_type):
            expected = self.options_type.__name__
            raise OptionError(f"{type(self).__name__}: options must be {expected} or None, got {options!r:.80}")
        self.options: OptionsT = cast("OptionsT", self.options_type(**values)) if options is None else options

    def check_unused(self, name: str) -> None:
        """Raise DuplicateNameError if the module was added to a scene before, this or another one."""
        if self._name_in_scene is not None:
            kind = type(self).__name__
            raise DuplicateNameError(
                f"{name!r}: this {kind} is already in a scene, as {self._name_in_scene!r}; create another one"
            )

    def note_added(self, name: str) -> None:
        """Record that the module was added to a scene."""
        self._name_in_scene = name

    def attach(self, scene: Scene, name: str) -> None:
        """Add everything that the module owns to ``scene``. ``scene.add_module`` calls it once.

        Entities and sensors added here do not become children of the scene in the component tree: the module keeps
        them as attributes. Sensors that it does not keep become its children under their uuid. An entity may have the
        name of the module. If this method raises, the scene stays as it was.
        """
        raise TypeError(f"{type(self).__name__} must define attach(scene, name)")

    def start(self, scene: Scene) -> None:
        """Create buffers of B rows. Called at the end of ``scene.build()``."""

    @capturable_reset
    def on_reset(self, envs: Envs) -> bool | None:
        """Write the module's own initial state into ``envs``. Called after ``scene.reset(envs)`` reset the physics.

        On a GPU, where nothing waits for a mask, it is also called for a mask without envs, as by
        ``scene.step(reset=mask)`` in each step.

        Returns:
            False if no physics state was written. Otherwise the scene recomputes what depends on it. See also
            :func:`capturable_reset`.
        """
