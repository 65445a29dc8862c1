"""The component tree: Modules that hold Buffers, each named by a dotted path.

Everything that holds state (scene, robots, objects, sensors, drivers) is a :class:`Module`. Its values are in
:class:`Buffer` slots with string tags. Recording, replay and inspection only need this tree:

======================== ===================================================================================
``update_state()``       every module copies the state of the simulation into its buffers
``state_dict(...)``      returns path -> value of the buffers selected by tags
``load_state_dict(...)`` checks values by path, then writes them into the buffers
``write_replay_data()``  every module writes the buffers that were set back into the simulation
``enable_*()``           every module that defines this method runs it; likewise ``disable_*()``
======================== ===================================================================================

Calls on a module run top-down: on the module itself, then on its children.

The children of a module are its public attributes that are Modules or Buffers, or lists, tuples, deques, dicts,
dataclass instances or ``SimpleNamespace`` objects that hold them, nested to any depth (named ``attribute.index``,
``attribute.key``, ``attribute.field``, ``attribute.key.index``, ...), in the order in which they were set, followed by
those that :meth:`Module.add_child` registered. Attributes and fields with a leading underscore are not part of the
tree. A set of components raises ``TreeError``, because they have no names there. Components inside other objects are
not found.

Methods named ``enable_*`` and ``disable_*`` are switches: a call runs on the module and on everything below it. Such a
method may call ``super()``. Constants, properties, class and static methods of such names are not switches.

Example:
    >>> class Wheel(Module):
    ...     def __init__(self):
    ...         self.speed = Buffer(0.0, tags={"wheel"})
    >>> class Cart(Module):
    ...     def __init__(self):
    ...         self.wheels = [Wheel(), Wheel()]
    >>> Cart().state_dict(include_tags=["wheel"])
    {'wheels.0.speed': 0.0, 'wheels.1.speed': 0.0}
"""

from sensorium.tree.buffer import Buffer, selects, tag_set
from sensorium.tree.module import Module

__all__ = ["Buffer", "Module", "selects", "tag_set"]
