"""Numbers of steps that users set."""

from __future__ import annotations

from numbers import Integral

from sensorium.errors import OptionError


def check_step(name: str, step: object) -> int:
    """Return the number of a step as an integer.

    Args:
        name: the option, for the message.
        step: the value.

    Raises:
        OptionError: it is not an integer in [0, 2**62).
    """
    if not isinstance(step, Integral) or isinstance(step, bool) or not 0 <= int(step) < 2**62:
        raise OptionError(f"{name} must be an integer >= 0, got {step!r}")
    return int(step)
