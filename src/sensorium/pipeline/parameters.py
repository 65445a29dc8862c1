"""Imperfection parameters: checked, written per column and env, and never copied or re-allocated."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sensorium.errors import OptionError
from sensorium.pipeline.flags import (
    ALIKE,
    BIAS,
    DEADBAND,
    EXTRA_NAMES,
    EXTRA_ROW,
    FILTER,
    FLAGS,
    IDLE,
    INSTABILITY,
    MIX,
    MIX_ROW,
    NOISE,
    OUTLIERS,
    RESOLUTION,
    SATURATION,
    SCALE,
    SPREAD,
    TEMPERATURE,
    UNIFORM,
    WALK,
)
from sensorium.pipeline.storage import PARAMETERS, ColumnStore
from sensorium.worlds import upload

_BITS = {
    "noise": NOISE,
    "bias": BIAS,
    "random_walk": WALK,
    "resolution": RESOLUTION,
    "deadband": DEADBAND,
    "low": SATURATION,
    "high": SATURATION,
}
_NEUTRAL = {"low": -np.inf, "high": np.inf}
_EXTRA_BITS = {
    "scale_error": SCALE,
    "bias_spread": SPREAD,
    "bias_instability": INSTABILITY,
    "temperature_drift": TEMPERATURE,
    "outliers": OUTLIERS,
    "bandwidth": FILTER,
}
_LASTING = ("bias_spread", "bias_instability", "bandwidth")
"""What leaves something behind in each env when it is set to nothing: an offset until the reset, a drift that fades,
the state of a filter. Its flag stays, lest what is set in one env changes the others."""
EXTRA_OPTIONS = (*_EXTRA_BITS, "correlation_time", "temperature", "outlier_size")
"""Further imperfections, whose memory is allocated for sensors whose options name one of them."""
_SIGNED = ("bias", "scale_error", "temperature_drift", "temperature")


@dataclass(frozen=True)
class Write:
    """A checked change, ready to be made: ``target[rows, envs] = values``, then ``after()``."""

    target: torch.Tensor
    rows: slice
    envs: torch.Tensor | None
    values: torch.Tensor  # (rows, n envs or 1)
    after: Callable[[], None]

    def apply(self) -> None:
        """Make the change, in place."""
        values = upload(self.values.to(self.target.dtype), self.target.device)
        if self.envs is None:
            self.target[self.rows] = values
        else:
            self.target[self.rows].index_copy_(1, self.envs, values.expand(-1, len(self.envs)).contiguous())
        self.after()


def as_numbers(option: str, value: Any) -> torch.Tensor:
    """``value`` as a float64 tensor, or an OptionError when it is not made of numbers."""
    if isinstance(value, torch.Tensor):
        tensor = value
    else:
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise OptionError(f"{option} must be numbers, got {value!r}") from error
        if array.dtype.kind not in "fiu":
            raise OptionError(f"{option} must be numbers, got {value!r}")
        tensor = torch.as_tensor(array)
    if tensor.dtype == torch.bool or tensor.is_complex():
        raise OptionError(f"{option} must be numbers, got {tensor.dtype}")
    return tensor.double()


def broadcast(option: str, value: Any, columns: int, n_envs: int) -> torch.Tensor:
    """``value`` as (columns, 1) or (columns, n_envs) float64, on the device that it came from.

    It may be a number, one value per axis (columns,), or one row per env: (n_envs, columns) or (n_envs, 1).
    """
    tensor = as_numbers(option, value)
    if tensor.ndim == 0:
        return tensor.expand(columns, 1)
    if tensor.ndim == 1 and tensor.shape[0] == columns:
        return tensor[:, None]
    if tensor.ndim == 1 and columns == 1 and tensor.shape[0] == n_envs:
        return tensor[None]
    if tensor.ndim == 2 and tensor.shape[0] == n_envs and tensor.shape[1] in (1, columns):
        return tensor.T.expand(columns, n_envs)
    raise OptionError(
        f"{option} must be a number, {'' if columns == 1 else f'one value per axis ({columns},), '}or one row per env "
        f"({n_envs}, {columns}); got shape {tuple(tensor.shape)}"
    )


def check(option: str, values: torch.Tensor, *, least: float | None = None, most: float | None = None) -> torch.Tensor:
    """Raise an OptionError for NaN or values out of range. CUDA tensors pass unseen: looking would wait for them."""
    if values.device.type != "cpu":
        return values
    if bool(values.isnan().any()) or (least is not None and bool(values.isinf().any())):
        raise OptionError(f"{option} must be finite, got {values.flatten()[:4].tolist()}")
    if least is not None and bool((values < least).any()):
        raise OptionError(f"{option} must be at least {least:g}, got {float(values.min()):g}")
    if most is not None and bool((values > most).any()):
        raise OptionError(f"{option} must be at most {most:g}, got {float(values.max()):g}")
    return values


class ColumnParameters:
    """The parameters of one block, with the flags that let the kernels skip what is not used."""

    def __init__(self, store: ColumnStore, dt: float) -> None:
        self._store = store
        self._dt = dt
        self._n_envs = store.truth.shape[1]
        n_columns = len(store.table)
        self._uniform = {name: np.ones(n_columns, bool) for name in (*PARAMETERS, "mix")}
        self._active = {name: np.zeros(n_columns, bool) for name in (*PARAMETERS, "mix")}
        self._mix_row = store.table[:, MIX_ROW].cpu().numpy()
        self._extra_row = store.table[:, EXTRA_ROW].cpu().numpy()
        self._extra_active = {name: np.zeros(n_columns, bool) for name in _EXTRA_BITS}
        self._flags = np.full(n_columns, -1, np.int32)
        self._idle: dict[int, bool] = {}
        self._refresh(slice(0, n_columns))

    def writes(self, name: str, option: str, value: Any, rows: slice, envs: torch.Tensor | None) -> list[Write]:
        """The checked writes that set parameter ``name`` (as options name it) of columns ``rows``."""
        count = rows.stop - rows.start
        n_envs = self._n_envs if envs is None else len(envs)
        if name == "saturation":
            low, high = (None, None) if value is None else _pair(option, value)
            both = []
            for field, bound in (("low", low), ("high", high)):
                given = _NEUTRAL[field] if bound is None else bound
                both.append((field, check(option, broadcast(option, given, count, n_envs))))
            seen = all(values.device.type == "cpu" for _, values in both)
            if seen and bool((both[0][1] > both[1][1]).any()):
                raise OptionError(f"{option} must be (min, max) with min <= max, got {value!r}")
            return [self._write(field, values, rows, envs) for field, values in both]
        values = broadcast(option, 0.0 if value is None else value, count, n_envs)
        check(option, values, least=None if name == "bias" else 0.0)
        if name == "bias" and values.device.type == "cpu" and bool(values.isinf().any()):
            raise OptionError(f"{option} must be finite, got {value!r}")
        if name == "random_walk":
            values = values * self._dt**0.5
        return [self._write(name, values, rows, envs)]

    def extra_writes(
        self, name: str, option: str, value: Any, rows: slice, envs: torch.Tensor | None, order: int
    ) -> list[Write]:
        """The checked writes of one of ``EXTRA_OPTIONS``; ``order`` is that of the filter."""
        store = self._store
        found = self._extra_row[rows]
        found = found[found >= 0]  # neighbours, though not every column of ``rows`` may have one
        if not len(found):
            raise OptionError(
                f"{option}: no memory was allocated for it, because none of its kind was given at construction; "
                f"construct the sensor with {option.split('.')[-1]}={0 if value is None else value}"
            )
        n_envs = self._n_envs if envs is None else len(envs)
        here = slice(int(found[0]), int(found[-1]) + 1)
        if value is None and name in ("temperature", "correlation_time"):
            raise OptionError(f"{option} must be numbers, got None")
        values = broadcast(option, 0.0 if value is None else value, len(found), n_envs)
        check(option, values, least=-1e30 if name in _SIGNED else 0.0, most=1.0 if name == "outliers" else None)
        if name == "correlation_time":
            if values.device.type == "cpu" and bool((values <= 0).any()):
                raise OptionError(f"{option} must be greater than 0, got {value!r}")
            fields = {"decay": -torch.expm1(-self._dt / values)}
        elif name == "bandwidth":
            # with other coefficients the old state means another signal: the filter starts at the next sample
            fields = low_pass(values, order, self._dt) | {"z1": torch.full_like(values, math.nan)}
        else:
            fields = {name: values}

        def after() -> None:
            if name in _EXTRA_BITS:
                unused = values.device.type == "cpu" and envs is None and not bool((values != 0).any())
                kept = self._extra_active[name][rows] & (name in _LASTING)
                self._extra_active[name][rows] = kept | (not unused)
                self._refresh(rows)

        targets = [(store.extra[:, EXTRA_NAMES.index(field)], given) for field, given in fields.items()]
        return [Write(target, here, envs, given, after) for target, given in targets]

    def mix_write(self, option: str, value: Any, rows: slice, envs: torch.Tensor | None) -> list[Write]:
        """The checked write of a 3 x 3 axis matrix for the three columns ``rows``: measured = matrix @ signal."""
        matrix = torch.eye(3) if value is None else as_numbers(option, value)
        n_envs = self._n_envs if envs is None else len(envs)
        if matrix.shape not in ((3, 3), (n_envs, 3, 3)):
            raise OptionError(f"{option} must have shape (3, 3) or ({n_envs}, 3, 3), got {tuple(matrix.shape)}")
        check(option, matrix, least=-1e6)
        first = int(self._mix_row[rows.start])
        flat = self._store.mix.view(-1, self._n_envs)
        values = matrix.reshape(-1, 9).T  # (9, 1 or n)

        def after() -> None:
            identity = matrix.device.type == "cpu" and torch.equal(
                matrix.double(), torch.eye(3).double().expand_as(matrix)
            )
            self._active["mix"][rows] = not identity or (envs is not None and self._active["mix"][rows].any())
            self._refresh(rows)

        return [Write(flat, slice(3 * first, 3 * first + 9), envs, values, after)]

    def _write(self, field: str, values: torch.Tensor, rows: slice, envs: torch.Tensor | None) -> Write:
        target = self._store.parameter(field)

        def after() -> None:
            neutral = _NEUTRAL.get(field, 0.0)
            self._uniform[field][rows] = envs is None and values.shape[1] == 1
            now = target[rows] if target.device.type == "cpu" else values  # on a GPU, what was there stays unseen
            active = (now != neutral).any(dim=1).numpy() if now.device.type == "cpu" else np.array(True)
            # what has drifted stays where it is when the drift stops
            if field == "random_walk" or (envs is not None and now is values):
                active = self._active[field][rows] | active
            self._active[field][rows] = active
            self._refresh(rows)

        return Write(target, rows, envs, values, after)

    def is_idle(self, rows: slice) -> bool:
        """Whether the hardware stage leaves the columns of a group as they are, as things are set now."""
        known = self._idle.get(rows.start)
        if known is None:
            known = self._idle[rows.start] = not bool((self._flags[rows] & ~IDLE).any())
        return known

    def _refresh(self, rows: slice) -> None:
        flags = np.zeros(rows.stop - rows.start, np.int32)
        for name, bit in _BITS.items():
            flags |= np.where(self._active[name][rows], bit, 0).astype(np.int32)
        for name, bit in _EXTRA_BITS.items():
            flags |= np.where(self._extra_active[name][rows], bit, 0).astype(np.int32)
        flags |= np.where(self._active["mix"][rows], MIX, 0).astype(np.int32)
        uniform = np.logical_and.reduce([self._uniform[name][rows] for name in ("noise", "bias", "random_walk")])
        flags |= np.where(uniform, UNIFORM, 0).astype(np.int32)
        limits = ("resolution", "deadband", "low", "high")
        alike = np.logical_and.reduce([self._uniform[name][rows] for name in limits])
        flags |= np.where(alike, ALIKE, 0).astype(np.int32)
        if not np.array_equal(self._flags[rows], flags):
            self._flags[rows] = flags
            self._idle.clear()
            self._store.table[rows, FLAGS] = upload(torch.from_numpy(flags), self._store.table.device)


def low_pass(bandwidth: torch.Tensor, order: int, dt: float) -> dict[str, torch.Tensor]:
    """Coefficients of a digital filter with a gain of -3 dB at ``bandwidth`` Hz, by the bilinear transform.

    First order, or second order after Butterworth. Nothing is filtered where the bandwidth is 0, or so high that steps
    of ``dt`` cannot show it.
    """
    off = (bandwidth <= 0) | (bandwidth * dt > 0.45)
    k = torch.tan(math.pi * torch.where(off, 0.1 / dt, bandwidth) * dt)
    if order == 1:
        scale = 1 / (1 + k)
        b0, a1, a2 = k * scale, (k - 1) * scale, torch.zeros_like(k)
        b1, b2 = b0, torch.zeros_like(k)
    else:
        scale = 1 / (1 + math.sqrt(2) * k + k * k)
        b0, a1, a2 = k * k * scale, 2 * (k * k - 1) * scale, (1 - math.sqrt(2) * k + k * k) * scale
        b1, b2 = 2 * b0, b0
    through = {"b0": 1.0, "b1": 0.0, "b2": 0.0, "a1": 0.0, "a2": 0.0}
    made = {"b0": b0, "b1": b1, "b2": b2, "a1": a1, "a2": a2}
    return {name: torch.where(off, through[name], value) for name, value in made.items()}


def _pair(option: str, value: Any) -> tuple[Any, Any]:
    if isinstance(value, torch.Tensor | np.ndarray) and value.shape == (2,):
        return value[0], value[1]
    if isinstance(value, torch.Tensor | np.ndarray) and value.shape[-1:] == (2,):
        return value[..., :1], value[..., 1:]
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise OptionError(f"{option} must be a pair (min, max), got {value!r}")
    return value[0], value[1]
