"""Modules: the nodes of the component tree, and the calls that run on all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sensorium._arguments import checked_flag
from sensorium.errors import DuplicateNameError, OptionError, StateDictError, TreeError
from sensorium.tree.buffer import Buffer, selects, tag_set
from sensorium.tree.containers import Component, contains, is_component, is_container, replace_in, unpack
from sensorium.tree.switches import SWITCHES, find_hook, is_switch, running, wrap_switches


class Module(Component):
    """A node of the component tree. Subclass it, and set Modules and Buffers as attributes."""

    # -- hooks of subclasses ------------------------------------------------------------------------------------------

    def _update_state(self) -> None:
        """Copy this module's part of the simulation into its buffers."""

    def _write_replay_data(self) -> None:
        """Write this module's buffers back into the simulation."""

    # -- the tree -----------------------------------------------------------------------------------------------------

    def add_child(self, name: str, child: Module | Buffer) -> None:
        """Register a child by name, in addition to those in attributes.

        Args:
            name: the child's name in paths.
            child: the child.

        Raises:
            DuplicateNameError: the module already has a child of that name.
        """
        stand_in = self.__dict__.get("_stand_ins", {}).get(name)
        if any(existing == name and other is not stand_in for existing, other in self._slots()):
            raise DuplicateNameError(f"{type(self).__name__} already has a child named {name!r}; choose another name")
        self.__dict__.setdefault("_children", {})[name] = child

    def replace_child(self, child: Module | Buffer, other: Module | Buffer | None) -> bool:
        """Replace a direct child by another one, or remove it.

        Args:
            child: the child to replace.
            other: the new child; None removes ``child``.

        Returns:
            Whether ``child`` was a direct child.
        """
        children = self.__dict__.get("_children", {})
        for name, value in children.items():
            if value is child:
                if other is None:
                    del children[name]
                else:
                    children[name] = other
                return True
        for name, value in vars(self).items():
            if not name.startswith("_") and contains(value, child):
                setattr(self, name, replace_in(value, child, other))
                return True
        return False

    def add_stand_in(self, name: str, child: Module | Buffer) -> None:
        """Register a child that holds values until a child or attribute of that name is set.

        A recording uses it for components that only the program which recorded them can create.

        Args:
            name: the child's name in paths.
            child: the child.
        """
        self.__dict__.setdefault("_stand_ins", {})[name] = child

    def _slots(self) -> Iterator[tuple[str, Module | Buffer]]:
        """Yield (name, child) of everything directly below this module."""
        attributes = self.__dict__
        for name, value in attributes.items():
            if not name.startswith("_"):
                if is_component(value):
                    yield name, value
                elif is_container(value):
                    yield from unpack(name, value)
        yield from attributes.get("_children", {}).items()
        for name, child in attributes.get("_stand_ins", {}).items():
            if name not in attributes and name not in attributes.get("_children", {}):
                yield name, child

    def _root_slots(self) -> Iterator[tuple[str, Module | Buffer]]:
        """Yield (name, child) below this module when it is the root of a call.

        A module that is a root, and may also be registered below one of its children, overrides it.
        """
        return self._slots()

    def children(self) -> list[Module]:
        """Return the modules directly below this one."""
        return [child for _, child in self._slots() if isinstance(child, Module)]

    def named_modules(self) -> Iterator[tuple[str, Module]]:
        """Yield (dotted path, module) top-down, this module first with an empty path, each module once.

        Raises:
            TreeError: a module is its own descendant.
        """
        for path, node in self._walk():
            if isinstance(node, Module):
                yield path, node

    def named_buffers(self) -> Iterator[tuple[str, Buffer]]:
        """Yield (dotted path, buffer) of every buffer below. A shared buffer is listed once, by its first path."""
        for path, node in self._walk():
            if isinstance(node, Buffer):
                yield path, node

    def _walk(self) -> Iterator[tuple[str, Module | Buffer]]:
        seen: set[int] = set()
        above: dict[int, str] = {}
        names: set[str] = set()

        def visit(path: str, node: Module | Buffer) -> Iterator[tuple[str, Module | Buffer]]:
            if node is self and path and type(self)._root_slots is not Module._root_slots:
                return  # also registered below one of its children
            if id(node) in above:
                raise TreeError(
                    f"the component tree has a cycle: {path!r} is its own ancestor {above[id(node)] or '(root)'!r}; "
                    "store back references in attributes with a leading underscore"
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
                for name, child in node._root_slots() if node is self else node._slots():
                    yield from visit(f"{path}.{name}" if path else name, child)
                del above[id(node)]

        yield from visit("", self)

    # -- cascades -----------------------------------------------------------------------------------------------------

    def _cascade(self, name: str, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> int:
        """Run this module's own hook of a call, then the call on every child module; return the number of hooks.

        Children are called by their public method, so that they can override it. A shared child is called once. The
        whole tree is checked for cycles before anything runs.
        """
        kwargs = kwargs or {}
        switches = name.startswith(SWITCHES)
        top = name not in running.seen
        if top:
            list(self._walk())
            running.seen[name] = set()
        seen = running.seen[name]
        seen.add(id(self))
        try:
            called = 0
            if switches:
                hook = find_hook(type(self), name)
                if hook is not None:
                    with running.hook(name, self):
                        hook(self, *args, **kwargs)
                    called = 1
            elif getattr(type(self), f"_{name}") is not getattr(Module, f"_{name}"):
                getattr(self, f"_{name}")()
                called = 1
            for _, child in list(self._root_slots() if top else self._slots()):
                if isinstance(child, Module) and id(child) not in seen:
                    seen.add(id(child))
                    if switches and not is_switch(child, name):
                        called += child._cascade(name, args, kwargs)
                    else:
                        called += getattr(child, name)(*args, **kwargs) or 0
            return called
        finally:
            if top:
                del running.seen[name]

    def unrolled(self, name: str, own: bool = True) -> list[Callable[[], object]]:
        """Return the calls that ``update_state`` or ``write_replay_data`` makes in this tree, in order.

        Use it for repeated calls, since walking the tree takes longer than most of the calls. The list is valid as long
        as no module is added or removed.

        Args:
            name: "update_state" or "write_replay_data".
            own: whether to include the call of this module itself.
        """
        if not isinstance(name, str) or name not in ("update_state", "write_replay_data"):
            raise OptionError(f"name must be 'update_state' or 'write_replay_data', got {name!r:.80}")
        list(self._walk())
        seen: set[int] = set()

        def visit(module: Module, own: bool) -> Iterator[Callable[[], object]]:
            seen.add(id(module))
            if own and getattr(type(module), name) is not getattr(Module, name):
                yield getattr(module, name)  # an override also calls everything below
                return
            if own and getattr(type(module), f"_{name}") is not getattr(Module, f"_{name}"):
                yield getattr(module, f"_{name}")
            for _, child in module._root_slots() if module is self else module._slots():
                if isinstance(child, Module) and id(child) not in seen:
                    yield from visit(child, True)

        return list(visit(self, own))

    def update_state(self) -> int:
        """Update every buffer below from the simulation; return the number of modules that did.

        Subclasses override ``_update_state``.
        """
        return self._cascade("update_state")

    def write_replay_data(self) -> int:
        """Write the values that were loaded into the buffers below to the simulation; return the number of modules
        that did.

        Subclasses override ``_write_replay_data``.
        """
        return self._cascade("write_replay_data")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        wrap_switches(cls)

    def __getattr__(self, name: str) -> Callable[..., int]:
        # enable_rgb(), disable_depth_rendering(), ...: runs on every module below that defines it
        if not name.startswith(SWITCHES) or hasattr(type(self), name):  # a property that raised AttributeError
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return lambda *args, **kwargs: self._switch_all(name, args, kwargs)

    def _switch_all(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """Run ``enable_*`` or ``disable_*`` on this module and below; return the number of modules that define it."""
        top = name not in running.seen
        called = self._cascade(name, args, kwargs)
        if top and not called:
            raise AttributeError(f"no module of this tree defines {name}()")
        return called

    # -- state --------------------------------------------------------------------------------------------------------

    def state_dict(
        self, include_tags: Iterable[str] | None = None, exclude_tags: Iterable[str] | None = None
    ) -> dict[str, Any]:
        """Return path -> value of the buffers selected by tags.

        Values are not copied: copy those that you need after the next step.

        Args:
            include_tags: select buffers with ANY of these tags; None selects all.
            exclude_tags: exclude buffers with any of these tags, even if they were included.
        """
        include = None if include_tags is None else tag_set("include_tags", include_tags)
        exclude = frozenset() if exclude_tags is None else tag_set("exclude_tags", exclude_tags)
        return {path: buffer.value for path, buffer in self.named_buffers() if selects(buffer.tags, include, exclude)}

    def load_state_dict(self, values: Mapping[str, Any], strict: bool = True) -> dict[str, Any]:
        """Load values by path.

        Args:
            values: path -> value, as :meth:`state_dict` returns.
            strict: whether all paths, shapes and dtypes must fit. Derived values may be missing. If False, load the
                values that fit.

        Returns:
            The values that were not loaded; empty if ``strict``.

        Raises:
            StateDictError: with ``strict``, values are missing, unexpected or do not fit; nothing was changed.
        """
        strict = checked_flag("strict", strict)
        if not isinstance(values, Mapping):
            raise OptionError(f"values must be a mapping of path -> value, as state_dict() returns, got {values!r:.80}")
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
