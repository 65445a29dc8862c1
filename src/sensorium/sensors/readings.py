"""``Branch``: the tensors that ``read()`` and ``read_ground_truth()`` return, as views of the pipeline's storage."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import TYPE_CHECKING, Any

import torch

from sensorium.errors import OptionError
from sensorium.pipeline.layout import n_columns
from sensorium.worlds import Envs, env_index

if TYPE_CHECKING:
    from sensorium.pipeline import SensorGroup

Format = tuple[int, ...] | dict[str, tuple[int, ...]]
"""Shape of a reading without the env axis, or field -> shape."""


class Branch:
    """One branch (measured or ground truth) of one sensor's readings.

    Args:
        group: the sensor's group.
        cache: the group's return cache of this branch, (return columns, B).
        history: the group's history of this branch, (2 * length - 1, return columns, B); empty without history.
        rows: the sensor's return columns.
        layout: format of a reading.
        data: the named tuple of a reading; None for a plain tensor.
        own_length: the sensor's option ``history_length``.
    """

    def __init__(
        self,
        group: SensorGroup[Any],
        cache: torch.Tensor,
        history: torch.Tensor,
        rows: slice,
        layout: Format,
        data: Callable[..., Any] | None,
        own_length: int | None,
    ) -> None:
        self._group, self._layout, self._data = group, layout, data
        self.rows = cache[rows]
        self.now = self.view(self.rows)
        flat = self.rows if isinstance(layout, dict) else self.rows.unflatten(0, layout)
        self._flat = flat.movedim(-1, 0)
        length = group.history_length
        self._windows = [history[i : i + length, rows] for i in range(length)]
        self._own = [self.view(window[:own_length]) for window in self._windows] if own_length else []

    @property
    def has_windows(self) -> bool:
        """Whether a plain read returns history."""
        return bool(self._own)

    def flat(self) -> torch.Tensor:
        """Return the branch as one tensor, always the same: (B, *shape), or (B, columns) if a reading has fields."""
        return self._flat

    def select(self, envs: Envs, history_length: int | None, call: str) -> Any:
        """Return a reading of some envs, or a window of readings, as a fresh copy unless all of it was asked for.

        Args:
            envs: which envs; None for all.
            history_length: number of readings, newest first; 0 for the current one without history, None for the
                sensor's own.
            call: how errors name the call, e.g. ``read on 'imu'``.
        """
        now = self.now
        if history_length is not None:
            now = self.view(self.window(history_length, call))  # (B, ...) if it is 0
        elif self._own:
            now = self._own[self._newest()]
        if history_length is None and envs is None:
            return now
        index = env_index(envs, self._group.n_envs, self._group.device)

        def pick(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.clone(memory_format=torch.contiguous_format) if index is None else tensor[index]

        return pick(now) if isinstance(now, torch.Tensor) else type(now)(*(pick(tensor) for tensor in now))

    def pick(self, rows: torch.Tensor, envs: Envs) -> Any:
        """Return storage of this branch's shape, (columns, B), as a reading of some envs; None for a view of all."""
        index = env_index(envs, self._group.n_envs, self._group.device)
        return self.view(rows if index is None else rows[..., index])

    def window(self, history_length: int, call: str) -> torch.Tensor:
        """Return storage of the last readings, (history_length, columns, B), newest first; (columns, B) if it is 0.

        Raises:
            OptionError: as many are not kept.
        """
        self._check_length(history_length, call)
        return self._windows[self._newest()][:history_length] if history_length else self.rows

    def _check_length(self, history_length: int, call: str) -> None:
        name, _, uuid = call.partition(" on ")
        allocated = self._group.history_length
        if not isinstance(history_length, Integral) or isinstance(history_length, bool):
            raise OptionError(f"{name}: history_length must be an integer, got {history_length!r}")
        if 0 <= history_length <= allocated:
            return
        limit = f"at most {allocated} is allocated" if allocated else "no history is allocated"
        if history_length < 0:
            raise OptionError(f"{name}(history_length={history_length}) on {uuid}: must be >= 0; {limit}")
        raise OptionError(
            f"{name}(history_length={history_length}) on {uuid}: {limit}; construct the sensor with "
            f"history_length={history_length} or more"
        )

    def _newest(self) -> int:
        """Return the index of the window that starts with this tick."""
        length = self._group.history_length
        return length - 1 - self._group.step % length

    def view(self, rows: torch.Tensor) -> Any:
        """Return storage (..., columns, B) as a reading: a tensor, or named tuple of tensors, (B, ..., *shape)."""
        if not isinstance(self._layout, dict):
            return rows.unflatten(-2, self._layout).movedim(-1, 0)
        fields, start = {}, 0
        for name, shape in self._layout.items():
            count = n_columns(shape)
            fields[name] = rows.narrow(-2, start, count).unflatten(-2, shape).movedim(-1, 0)
            start += count
        assert self._data is not None
        return self._data(**fields)
