"""``ReadingCheck``: whether a reading has the structure of its space, in a fraction of a microsecond per array."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces


class ReadingCheck:
    """Checks keys, shapes and dtypes of readings. Values are not validated, which would take a pass over all data.

    Args:
        space: the space of a reading of all envs.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        self._parts: list[tuple[str, ReadingCheck]] | None = None
        self._count: int | None = None
        self._shape, self._dtype = space.shape, space.dtype
        if isinstance(space, spaces.Dict):
            self._parts = [(name, ReadingCheck(part)) for name, part in space.items()]
        elif isinstance(space, spaces.Tuple):  # one dict per env
            self._count = len(space)

    def fits(self, value: Any) -> bool:
        """Return whether a reading has the keys, shapes and dtypes of the space."""
        if self._parts is not None:
            if not isinstance(value, dict) or len(value) != len(self._parts):
                return False
            for name, part in self._parts:  # noqa: SIM110  # all() would make a generator
                if name not in value or not part.fits(value[name]):
                    return False
            return True
        if self._count is not None:
            return isinstance(value, tuple) and len(value) == self._count
        if self._shape is None:
            return True
        return isinstance(value, np.ndarray) and value.shape == self._shape and value.dtype == self._dtype
