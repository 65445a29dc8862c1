"""Imperfection parameters of columns: checks, and writes per column and env, in place."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from sensorium._arguments import as_array
from sensorium._tensors import plain_tensor
from sensorium.errors import OptionError
from sensorium.pipeline.filters import low_pass, noise_state
from sensorium.pipeline.flags import (
    ALIKE,
    BIAS,
    DEADBAND,
    DRIFT,
    EXTRA_NAMES,
    EXTRA_ROW,
    FILTER,
    FLAGS,
    IDLE,
    INPUT_NOISE,
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
from sensorium.pipeline.imperfections import MAX_MAGNITUDE
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
LIVE_PARAMETERS = ("noise", "bias", "resolution", "deadband")
"""Parameters whose stored values are those of the options."""
_NEUTRAL = {"low": -np.inf, "high": np.inf}
_EXTRA_BITS = {
    "scale_error": SCALE,
    "bias_spread": SPREAD,
    "drift": DRIFT,
    "temperature_drift": TEMPERATURE,
    "outliers": OUTLIERS,
    "bandwidth": FILTER,
    "input_noise": INPUT_NOISE,
}
_LASTING = ("bias_spread", "drift", "bandwidth")
"""Options that leave state behind in an env when they are set to 0: an offset until the reset, a drift that fades, the
state of a filter. Their flag stays set. Otherwise setting one env to 0 could change the others."""
EXTRA_PARAMETERS = (*_EXTRA_BITS, "drift_time", "temperature", "outlier_size")
"""Parameters of further imperfections."""
EXTRA_OPTIONS = (*(name for name in EXTRA_PARAMETERS if name != "input_noise"), "bias_instability")
"""Options that set them. Memory is allocated for sensors whose options set at least one of them."""
_FIELDS = {"drift": "drift_size"}
"""Parameter -> its field in ``EXTRA_NAMES``, if that has another name."""
_UPPER = {"outliers": 1.0}
"""Upper bounds of parameters that are not lengths in the unit of the signal."""
_SIGNED = ("bias", "scale_error", "temperature_drift", "temperature")


@dataclass(frozen=True)
class Write:
    """A checked change that can be applied: ``target[rows, envs] = values``, then ``after()``.

    Attributes:
        target: storage, (all rows, B).
        rows: the rows to write.
        envs: ids of the envs to write, (n,) int64; None for all.
        values: (rows, 1) or (rows, n).
        after: called after the write.
    """

    target: torch.Tensor
    rows: slice
    envs: torch.Tensor | None
    values: torch.Tensor
    after: Callable[[], None]

    def apply(self) -> None:
        """Write the values in place."""
        values = upload(self.values.to(self.target.dtype), self.target.device)
        if self.envs is None:
            self.target[self.rows] = values
        else:
            self.target[self.rows].index_copy_(1, self.envs, values.expand(-1, len(self.envs)).contiguous())
        self.after()


def as_numbers(option: str, value: object) -> torch.Tensor:
    """Return ``value`` as a float64 tensor, on the device that it came from.

    Args:
        option: name of the option, for error messages.
        value: a number, an array, a tensor, or nested sequences of numbers.

    Raises:
        OptionError: ``value`` does not consist of numbers.
    """
    if isinstance(value, torch.Tensor):
        tensor = plain_tensor(option, value)
    else:
        array = as_array(value)
        if array.dtype.kind not in "fiu":
            raise OptionError(f"{option} must be numbers, got {value!r}")
        tensor = torch.as_tensor(array)
    if tensor.dtype == torch.bool or tensor.is_complex():
        raise OptionError(f"{option} must be numbers, got {tensor.dtype}")
    return tensor.double()


def broadcast(option: str, value: object, columns: int, n_envs: int) -> torch.Tensor:
    """Return ``value`` as a (columns, 1) or (columns, n_envs) float64 tensor, on the device that it came from.

    Args:
        option: name of the option, for error messages.
        value: a number, one value per axis (columns,), or one row per env, (n_envs, columns) or (n_envs, 1).
        columns: number of columns.
        n_envs: number of envs that are written.

    Raises:
        OptionError: ``value`` does not consist of numbers, or has another shape.
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


def check(option: str, values: torch.Tensor, *, lower: float | None = None, upper: float | None = None) -> torch.Tensor:
    """Return ``values`` if they are in range.

    Values in CUDA tensors are not validated, since that would synchronise with the GPU.

    Args:
        option: name of the option, for error messages.
        values: the values.
        lower: lower bound; with one, infinite values are refused as well.
        upper: upper bound.

    Raises:
        OptionError: a value is NaN or out of range.
    """
    if values.device.type != "cpu":
        return values
    if bool(values.isnan().any()) or (lower is not None and bool(values.isinf().any())):
        raise OptionError(f"{option} must be finite, got {values.flatten()[:4].tolist()}")
    if lower is not None and bool((values < lower).any()):
        raise OptionError(f"{option} must be >= {lower:g}, got {float(values.min()):g}")
    if upper is not None and bool((values > upper).any()):
        raise OptionError(f"{option} must be <= {upper:g}, got {float(values.max()):g}")
    return values


class ColumnParameters:
    """Writes the parameters of one block, and the flags by which the kernels skip unused stages.

    Args:
        store: tensors of the block.
        dt: seconds of one tick.

    Attributes:
        flags: flags of the columns, (C,) int32.
    """

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
        self.flags = np.full(n_columns, -1, np.int32)
        self._idle: dict[int, bool] = {}
        self._refresh(slice(0, n_columns))

    def writes(self, name: str, option: str, value: object, rows: slice, envs: torch.Tensor | None) -> list[Write]:
        """Return the checked writes that set one parameter of columns ``rows``.

        Args:
            name: the generic parameter: "noise", "bias", "random_walk", "resolution", "deadband" or "saturation".
            option: name of the option, for error messages.
            value: see :func:`broadcast`; for "saturation" a pair (min, max). None disables the imperfection.
            rows: columns of the block.
            envs: ids of the envs, (n,) int64; None for all.

        Raises:
            OptionError: the value cannot be used.
        """
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
        check(option, values, lower=-MAX_MAGNITUDE if name == "bias" else 0.0, upper=MAX_MAGNITUDE)
        if name == "random_walk":
            values = values * self._dt**0.5
        return [self._write(name, values, rows, envs)]

    def live(self, name: str, rows: slice) -> torch.Tensor:
        """Return the live values of a parameter of columns ``rows``, (columns, B), which may be written in place.

        From then on the kernels assume that they differ per env and are not 0.

        Args:
            name: one of :data:`LIVE_PARAMETERS`.
            rows: columns of the block.
        """
        self._uniform[name][rows] = False
        self._active[name][rows] = True
        self._refresh(rows)
        return self._store.parameter(name)[rows]

    def extra_writes(
        self, name: str, option: str, value: object, rows: slice, envs: torch.Tensor | None, order: int
    ) -> list[Write]:
        """Return the checked writes of one of ``EXTRA_PARAMETERS``; ``order`` is the order of the low-pass filter.

        The other arguments are those of :meth:`writes`.
        """
        store = self._store
        found = self._extra_row[rows]
        found = found[found >= 0]  # contiguous, but columns of ``rows`` may have none
        if not len(found):
            raise OptionError(
                f"{option}: no memory was allocated for this imperfection; construct the sensor with "
                f"{option.split('.')[-1]}={0 if value is None else value}"
            )
        n_envs = self._n_envs if envs is None else len(envs)
        here = slice(int(found[0]), int(found[-1]) + 1)
        if value is None and name in ("temperature", "drift_time"):
            raise OptionError(f"{option} must be numbers, got None")
        values = broadcast(option, 0.0 if value is None else value, len(found), n_envs)
        check(option, values, lower=-MAX_MAGNITUDE if name in _SIGNED else 0.0, upper=_UPPER.get(name, MAX_MAGNITUDE))
        if name == "drift_time":
            if values.device.type == "cpu" and bool((values <= 0).any()):
                raise OptionError(f"{option} must be > 0, got {value!r}")
            fields = {"decay": -torch.expm1(-self._dt / values)}
        elif name == "bandwidth":
            # the old state does not fit the new coefficients: NaN restarts the filter at the next sample
            filters = low_pass(values, order, self._dt)
            fields = filters | noise_state(filters) | {"z1": torch.full_like(values, math.nan)}
        else:
            fields = {_FIELDS.get(name, name): values}

        def after() -> None:
            if name in _EXTRA_BITS:
                unused = values.device.type == "cpu" and envs is None and not bool((values != 0).any())
                kept = self._extra_active[name][rows] & (name in _LASTING)
                self._extra_active[name][rows] = kept | (not unused)
                self._refresh(rows)

        targets = [(store.extra[:, EXTRA_NAMES.index(field)], given) for field, given in fields.items()]
        return [Write(target, here, envs, given, after) for target, given in targets]

    def mix_write(self, option: str, value: object, rows: slice, envs: torch.Tensor | None) -> list[Write]:
        """Return the checked write of an axis matrix for the three columns ``rows``: measured = matrix @ signal.

        Args:
            option: name of the option, for error messages.
            value: (3, 3), or (envs, 3, 3); None for the identity.
            rows: three columns of the block.
            envs: ids of the envs, (n,) int64; None for all.

        Raises:
            OptionError: the value cannot be used.
        """
        matrix = torch.eye(3) if value is None else as_numbers(option, value)
        n_envs = self._n_envs if envs is None else len(envs)
        if matrix.shape not in ((3, 3), (n_envs, 3, 3)):
            raise OptionError(f"{option} must have shape (3, 3) or ({n_envs}, 3, 3), got {tuple(matrix.shape)}")
        check(option, matrix, lower=-1e6)
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
            now = target[rows] if target.device.type == "cpu" else values  # on a GPU, old values are not read
            active = (now != neutral).any(dim=1).numpy() if now.device.type == "cpu" else np.array(True)
            # a walk keeps its value when it stops; on a GPU, the values of the other envs are not known
            if field == "random_walk" or (envs is not None and now is values):
                active = self._active[field][rows] | active
            self._active[field][rows] = active
            self._refresh(rows)

        return Write(target, rows, envs, values, after)

    def is_idle(self, rows: slice) -> bool:
        """Return whether the hardware stage leaves the columns of a group unchanged with the current parameters."""
        known = self._idle.get(rows.start)
        if known is None:
            known = self._idle[rows.start] = not bool((self.flags[rows] & ~IDLE).any())
        return known

    def _refresh(self, rows: slice) -> None:
        """Update the flags of columns ``rows``."""
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
        if not np.array_equal(self.flags[rows], flags):
            self.flags[rows] = flags
            self._idle.clear()
            self._store.table[rows, FLAGS] = upload(torch.from_numpy(flags), self._store.table.device)


def _pair(option: str, value: object) -> tuple[object, object]:
    if isinstance(value, torch.Tensor | np.ndarray) and value.shape == (2,):
        return value[0], value[1]
    if isinstance(value, torch.Tensor | np.ndarray) and value.shape[-1:] == (2,):
        return value[..., :1], value[..., 1:]
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise OptionError(f"{option} must be a pair (min, max), got {value!r}")
    return value[0], value[1]
