"""The decorator of the Numba kernels of sensor classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile a kernel at its first call, and keep it on disk.

    IEEE arithmetic as written (no fast math), so that the same bits come for every batch size. Numba's cache notices
    changes of the file that a kernel stands in alone, so a kernel must call none of another file.
    """
    jitted: F = numba.njit(nogil=True, cache=True, error_model="numpy")(function)
    return jitted
