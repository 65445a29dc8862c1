"""``run_hook``: calls a hook, which writes its result into the tensor that it is given, and returns nothing."""

from __future__ import annotations

from collections.abc import Callable

from sensorium.errors import OptionError


def run_hook(hook: Callable[..., object], *args: object) -> None:
    """Call a hook of a sensor class.

    Args:
        hook: the class method.
        args: its arguments.

    Raises:
        OptionError: it returned something else than one of its arguments, which would be lost.
    """
    result = hook(*args)
    if result is not None and not any(result is one for one in args):
        cls = getattr(hook, "__self__", None)
        name = f"{getattr(cls, '__name__', type(cls).__name__)}.{getattr(hook, '__name__', 'hook')}"
        raise OptionError(
            f"{name} returned a {type(result).__name__}, which is not used: write the result into the tensor that the "
            "hook is given, for example by out.copy_(...), and return nothing"
        )
