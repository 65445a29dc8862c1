"""The component tree: Modules that hold Buffers, named by dotted path and reached by one call.

Everything that holds state (scene, robots, objects, sensors, drivers) is a :class:`Module`. What it holds is in
:class:`Buffer` slots, each with string tags. Recording, replay and inspection walk this tree and need to know nothing
else:

======================== =============================================================================
``update_state()``       top-down: every module copies the simulation's state into its buffers
``state_dict(...)``      path -> value, chosen by tags
``load_state_dict(...)`` the way back, checked before anything is written
``write_replay_data()``  top-down: every module writes its buffers back into the simulation
``enable_*()``           top-down: every module that defines such a method runs it; likewise ``disable_*()``
======================== =============================================================================

Children are found in a module's public attributes in the order in which they were set: Modules, Buffers, and lists,
tuples and dicts of them (named ``attribute.index`` or ``attribute.key``), then whatever :meth:`Module.add_child`
registered. Attributes with a leading underscore are not part of the tree.

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

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
import torch

from sensorium.errors import DuplicateNameError, StateDictError, TreeError


class _Running(threading.local):
    """Cascades that are under way in a thread: name -> ids of the modules that have been called."""

    def __init__(self) -> None:
        self.seen: dict[str, set[int]] = {}


_running = _Running()
_SWITCHES = ("enable_", "disable_")
"""How the names of methods that cascade begin."""


class Buffer:
    """A named slot for one value, with tags.

    Args:
        value: a tensor, an array, a number, a string, or None. Tensors and arrays are loaded in place, so their address
            never changes.
        tags: what the value is ("imu", "rgb", "measured", ...), for choosing buffers in ``state_dict``.
        get: looks up the value, for a buffer that shows what its owner holds.
        derived: whether the value follows from the others when it is looked at, as an image does from the state: then a
            state dict may lack it.
    """

    __slots__ = ("_get", "_value", "derived", "loaded", "tags")

    def __init__(
        self,
        value: Any = None,
        tags: Iterable[str] = (),
        *,
        get: Callable[[], Any] | None = None,
        derived: bool = False,
    ) -> None:
        self.tags = frozenset([tags] if isinstance(tags, str) else tags)
        self._value = value
        self._get = get
        self.derived = derived
        self.loaded = False
        """Whether ``load_state_dict`` put a value here that nobody has taken up yet."""

    @property
    def shown(self) -> bool:
        """Whether it shows a value that its owner computes."""
        return self._get is not None

    @property
    def value(self) -> Any:
        """The value: live, not a copy. ``get`` (where given) looks up which tensor holds it now."""
        return self._value if self._get is None else self._get()

    @value.setter
    def value(self, value: Any) -> None:
        if self._get is not None:
            raise TreeError("this buffer shows a value that its owner computes; it cannot be replaced, only loaded")
        self._value = value

    def matches(self, include: frozenset[str] | None, exclude: frozenset[str]) -> bool:
        """Whether any tag is in ``include`` (None: always) and none is in ``exclude``."""
        return (include is None or not include.isdisjoint(self.tags)) and exclude.isdisjoint(self.tags)

    def mismatch(self, value: Any) -> str | None:
        """What is wrong with ``value`` for this slot (shape, dtype, kind), or None."""
        held = self.value
        if held is None:
            return None if self._get is None or value is None else "it has no value to load into yet"
        if value is None:
            return f"expected {_describe(held)}, got None"
        if isinstance(held, torch.Tensor | np.ndarray):
            if not isinstance(value, torch.Tensor | np.ndarray):
                return f"expected {_describe(held)}, got {type(value).__name__}"
            if tuple(held.shape) != tuple(value.shape) or _dtype_name(held) != _dtype_name(value):
                return f"expected {_describe(held)}, got {_describe(value)}"
            return None
        if isinstance(held, float) and isinstance(value, int) and not isinstance(value, bool):
            return None
        fits = isinstance(value, type(held)) and isinstance(value, bool) == isinstance(held, bool)
        return None if fits else f"expected {type(held).__name__}, got {type(value).__name__}"

    def load(self, value: Any) -> None:
        """Take ``value`` over: in place for tensors and arrays, by reference otherwise."""
        held = self.value
        if value is None and self._get is not None:
            return  # there was nothing to save, and there is nothing to load
        if isinstance(held, torch.Tensor) and value is not None:
            held.copy_(value if isinstance(value, torch.Tensor) else torch.from_numpy(np.asarray(value)))
        elif isinstance(held, np.ndarray) and value is not None:
            held[...] = value.numpy(force=True) if isinstance(value, torch.Tensor) else value
        else:
            self.value = float(value) if isinstance(held, float) else value

    def __repr__(self) -> str:
        return f"Buffer({_describe(self.value)}, tags={sorted(self.tags)})"


class Module:
    """A node of the component tree. Subclass it, and set Modules and Buffers as attributes."""

    # -- what a subclass may override ---------------------------------------------------------------------------------

    def _update_state(self) -> None:
        """Copy this module's part of the simulation into its buffers."""

    def _write_replay_data(self) -> None:
        """Write this module's buffers back into the simulation."""

    # -- the tree -----------------------------------------------------------------------------------------------------

    def add_child(self, name: str, child: Module | Buffer) -> None:
        """Register a child under a name of its own, beside those in attributes.

        Raises:
            DuplicateNameError: the module already has a child of that name.
        """
        if any(existing == name for existing, _ in self._slots()):
            raise DuplicateNameError(f"{type(self).__name__} already has a child named {name!r}; choose another name")
        self.__dict__.setdefault("_children", {})[name] = child

    def replace_child(self, child: Module | Buffer, other: Module | Buffer | None) -> bool:
        """Put another child into the place of one that is right below; None takes it away. Whether it was there."""
        children = self.__dict__.get("_children", {})
        for name, value in children.items():
            if value is child:
                if other is None:
                    del children[name]
                else:
                    children[name] = other
                return True
        for name, value in vars(self).items():
            if not name.startswith("_") and any(one is child for _, one in _unpack(name, value)):
                setattr(self, name, _with(value, child, other))
                return True
        return False

    def _slots(self) -> Iterator[tuple[str, Module | Buffer]]:
        for name, value in vars(self).items():
            if not name.startswith("_"):
                yield from _unpack(name, value)
        yield from self.__dict__.get("_children", {}).items()

    def children(self) -> list[Module]:
        """The modules right below this one."""
        return [child for _, child in self._slots() if isinstance(child, Module)]

    def named_modules(self) -> Iterator[tuple[str, Module]]:
        """(dotted path, module) from the top down, this module first under the empty path; each module once.

        Raises:
            TreeError: a module is its own descendant.
        """
        for path, node in self._walk():
            if isinstance(node, Module):
                yield path, node

    def named_buffers(self) -> Iterator[tuple[str, Buffer]]:
        """(dotted path, buffer) of every buffer below; a shared one is listed once, under its first path."""
        for path, node in self._walk():
            if isinstance(node, Buffer):
                yield path, node

    def _walk(self) -> Iterator[tuple[str, Module | Buffer]]:
        seen: set[int] = set()
        above: dict[int, str] = {}
        names: set[str] = set()

        def visit(path: str, node: Module | Buffer) -> Iterator[tuple[str, Module | Buffer]]:
            if id(node) in above:
                raise TreeError(
                    f"the component tree has a cycle: {path!r} is its own ancestor {above[id(node)] or '(root)'!r}; "
                    "keep back references in attributes with a leading underscore"
                )
            if id(node) in seen:
                return
            seen.add(id(node))
            if path in names:
                raise TreeError(f"two components share the path {path!r}; rename one of them")
            names.add(path)
            yield path, node
            if isinstance(node, Module):
                above[id(node)] = path
                for name, child in node._slots():
                    yield from visit(f"{path}.{name}" if path else name, child)
                del above[id(node)]

        yield from visit("", self)

    # -- cascades -----------------------------------------------------------------------------------------------------

    def _cascade(self, name: str, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> int:
        """Run this module's own hook ``_name``, then ``name()`` of every child module; return how many had the hook.

        Children are called by their public method, so one that overrides it is called as it is. A shared child is
        called once; the whole tree is checked for cycles before anything runs.
        """
        kwargs = kwargs or {}
        top = name not in _running.seen
        if top:
            list(self._walk())
            _running.seen[name] = set()
        seen = _running.seen[name]
        seen.add(id(self))
        try:
            hook = getattr(type(self), f"_{name}", None)
            called = 0
            if hook is not None and hook is not getattr(Module, f"_{name}", None):
                hook(self, *args, **kwargs)
                called = 1
            for _, child in list(self._slots()):
                if isinstance(child, Module) and id(child) not in seen:
                    seen.add(id(child))
                    called += getattr(child, name)(*args, **kwargs) or 0
            return called
        finally:
            if top:
                del _running.seen[name]

    def unrolled(self, name: str) -> list[Callable[[], Any]]:
        """The calls that a cascade ("update_state", ...) of this tree makes, in order.

        For who makes it again and again: walking the tree takes longer than most of the calls. It holds as long as no
        module is added or taken away.
        """
        list(self._walk())
        seen: set[int] = set()

        def visit(module: Module) -> Iterator[Callable[[], Any]]:
            seen.add(id(module))
            if getattr(type(module), name) is not getattr(Module, name):
                yield getattr(module, name)  # it has a way of its own, for all that is below
                return
            if getattr(type(module), f"_{name}") is not getattr(Module, f"_{name}"):
                yield getattr(module, f"_{name}")
            for _, child in module._slots():
                if isinstance(child, Module) and id(child) not in seen:
                    yield from visit(child)

        return list(visit(self))

    def update_state(self) -> int:
        """Refresh every buffer below from the simulation, top-down. To add to it, override ``_update_state``."""
        return self._cascade("update_state")

    def write_replay_data(self) -> int:
        """Write what was loaded into the buffers below back into the simulation, top-down."""
        return self._cascade("write_replay_data")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in [name for name in vars(cls) if name.startswith(_SWITCHES)]:
            # what a class does when it is switched becomes its hook, so that a call of it reaches what is below as well
            setattr(cls, f"_{name}", vars(cls)[name])
            delattr(cls, name)

    def __getattr__(self, name: str) -> Any:
        # enable_rgb(), disable_depth_rendering(), ...: top-down to every module that defines it
        if not name.startswith(_SWITCHES):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def switch(*args: Any, **kwargs: Any) -> int:
            top = name not in _running.seen
            called = self._cascade(name, args, kwargs)
            if top and not called:
                raise AttributeError(f"no module of this tree can {name}()")
            return called

        return switch

    # -- state --------------------------------------------------------------------------------------------------------

    def state_dict(
        self, include_tags: Iterable[str] | None = None, exclude_tags: Iterable[str] | None = None
    ) -> dict[str, Any]:
        """Path -> value of the buffers chosen by tag. Values are live: copy what must outlast the next step.

        Args:
            include_tags: keep buffers with ANY of these tags; None keeps all.
            exclude_tags: drop buffers with any of these tags, also those that were included.
        """
        include = None if include_tags is None else _tags("include_tags", include_tags)
        exclude = frozenset() if exclude_tags is None else _tags("exclude_tags", exclude_tags)
        return {path: buffer.value for path, buffer in self.named_buffers() if buffer.matches(include, exclude)}

    def load_state_dict(self, values: Mapping[str, Any], strict: bool = True) -> dict[str, Any]:
        """Load values by path.

        Args:
            values: path -> value, as :meth:`state_dict` returns.
            strict: raise unless names, shapes and dtypes all fit (then nothing is changed); values that are derived may
                be missing. Otherwise load what fits.

        Returns:
            The values that were not loaded (always empty when strict).

        Raises:
            StateDictError: says exactly what is missing, unexpected or mis-shaped.
        """
        buffers = dict(self.named_buffers())
        unexpected = [name for name in values if name not in buffers]
        mismatched = {}
        for name, value in values.items():
            problem = buffers[name].mismatch(value) if name in buffers else None
            if problem is not None:
                mismatched[name] = problem
        if strict:
            missing = [name for name, buffer in buffers.items() if name not in values and not buffer.derived]
            if missing or unexpected or mismatched:
                raise StateDictError(missing, unexpected, mismatched)
        rest = {name: values[name] for name in (*unexpected, *mismatched)}
        for name, value in values.items():
            if name not in rest:
                buffers[name].load(value)
                buffers[name].loaded = True
        return rest


def _unpack(name: str, value: Any) -> Iterator[tuple[str, Module | Buffer]]:
    if isinstance(value, Module | Buffer):
        yield name, value
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            if isinstance(item, Module | Buffer):
                yield f"{name}.{index}", item
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, Module | Buffer):
                yield f"{name}.{key}", item


def _with(held: Any, child: Module | Buffer, other: Module | Buffer | None) -> Any:
    """What an attribute holds, with another module, or None, in the place of one."""
    if held is child:
        return other
    if isinstance(held, dict):
        return {key: other if item is child else item for key, item in held.items()}
    return type(held)(other if item is child else item for item in held)


def _tags(name: str, tags: Iterable[str]) -> frozenset[str]:
    if isinstance(tags, str):
        raise TypeError(f"{name} takes a list of tags; write {name}=[{tags!r}]")
    return frozenset(tags)


def _describe(value: Any) -> str:
    if isinstance(value, torch.Tensor | np.ndarray):
        return f"{_dtype_name(value)} of shape {tuple(value.shape)}"
    return repr(value)


def _dtype_name(value: torch.Tensor | np.ndarray) -> str:
    return _name_of(value.dtype)


@cache
def _name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
