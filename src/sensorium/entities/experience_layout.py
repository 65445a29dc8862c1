"""``ExperienceLayout``: the fields of a transition by name, shape and dtype, and batches of transitions.

A memory stores one block of rows per field. For an observation space with the keys "imu" and "camera" the fields are
as below. Nested spaces have dotted names: "imu.ang_vel".

| field | shape of a row | dtype |
| --- | --- | --- |
| observation.imu, observation.camera | the Box's shape | uint8 for uint8 and bool Boxes, else float32 |
| action | the Box's shape | same |
| reward | () | float32 |
| next_observation.imu, next_observation.camera | as observation | as observation |
| terminated, truncated | () | uint8, 0 or 1 |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from sensorium._arguments import checked, is_masked
from sensorium._system import check_memory
from sensorium._tensors import host_array, plain_tensor
from sensorium.entities.device import usable_device
from sensorium.entities.nesting import NestedRows, Rows, flat_space, flat_values, refuse_observation
from sensorium.errors import DeviceError, OptionError, did_you_mean, shorten
from sensorium.options import checked_integer

RowsT = TypeVar("RowsT", bound=Rows)

_ACCEPTED: dict[str, frozenset[Any]] = {
    "uint8": frozenset([torch.uint8, torch.bool, *map(np.dtype, ("uint8", "bool"))]),
    "float32": frozenset(
        [
            *(torch.float16, torch.float32, torch.float64, torch.bool),
            *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
            *map(np.dtype, ("float16", "float32", "float64", "bool")),
            *map(np.dtype, ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")),
        ]
    ),
}
"""Dtype of a block -> dtypes of the values that it accepts."""


_ROWS = frozenset({np.ndarray, Tensor})
"""Types of the values of most observations; they are no mappings, which takes longer to find out."""
_MAX_FLOAT32 = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class ExperienceField:
    """One quantity of a transition: its name, the shape of one row, and its dtype, "float32" or "uint8"."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype as a torch dtype."""
        return torch.uint8 if self.dtype == "uint8" else torch.float32

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize

    @cached_property
    def must_be_finite(self) -> bool:
        """Whether its values must be finite: not those of observations.

        The depth of the sky is infinite, and a sensor without a reading may return NaN.
        """
        return "observation." not in self.name

    def check_finite(self, value: np.ndarray) -> None:
        """Raise OptionError if a value is NaN or infinite in float32."""
        # the sum of squares is one pass without temporary memory; elements are checked only if it is too large
        if abs(float(np.vdot(value, value))) <= _MAX_FLOAT32:
            return
        bad = ~(np.abs(value) <= _MAX_FLOAT32)
        if bad.any():
            row = int(np.argwhere(bad)[0][0])
            raise OptionError(
                f"{self.name} must be finite in float32; the row of env {row} has {float(value[bad].flat[0])!r}"
            )

    def refuse(self, value: Rows, shape: tuple[int, ...]) -> NoReturn:
        """Raise an error that says why a value cannot be stored in this field.

        Args:
            value: the value.
            shape: the shape that it must have.

        Raises:
            OptionError: always.
        """
        if tuple(value.shape) != shape:
            raise OptionError(f"{self.name} must have shape {shape}, got {tuple(value.shape)}")
        raise OptionError(f"{self.name} is stored as {self.dtype}, which cannot hold {value.dtype}; convert it first")


@dataclass(frozen=True)
class Transitions:
    """A batch of n transitions, in preallocated tensors that sampling fills. ``memory.batch(n)`` makes it.

    Example:
        >>> batch = memory.sample(256)
        >>> batch.observation["imu"].shape, batch.reward.shape
        (torch.Size([256, 6]), torch.Size([256]))
    """

    observation: dict[str, Tensor]
    """(n, ...) by key, the observation of the policy."""
    action: Tensor
    """(n, ...), its action."""
    reward: Tensor
    """(n,), the reward."""
    next_observation: dict[str, Tensor]
    """(n, ...) by key, the next observation. At the end of an episode it is the last observation of that episode."""
    terminated: Tensor
    """(n,) uint8, whether the episode ended in a terminal state."""
    truncated: Tensor
    """(n,) uint8, whether the episode was cut off, for example by a time limit. The next state still has a value."""
    tensors: tuple[Tensor, ...] = field(repr=False)
    """The tensors above in the order of the layout's fields. Fields of one number per row are flattened to (n,)."""

    def __len__(self) -> int:
        return len(self.reward)


@dataclass(frozen=True)
class ExperienceLayout:
    """The fields of a transition in the order in which they are stored.

    Attributes:
        observation: the fields of the observation, without prefix.
        action: the field of the action.
        fields: all fields of a transition.
        keys: names of the observation fields.
    """

    observation: tuple[ExperienceField, ...]
    action: ExperienceField
    fields: tuple[ExperienceField, ...] = field(init=False, repr=False, compare=False)

    keys: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given = (*self.observation, self.action) if isinstance(self.observation, tuple) else (self.observation,)
        wrong = [one for one in given if not isinstance(one, ExperienceField)]
        if wrong:
            raise OptionError(f"ExperienceLayout: all fields must be ExperienceField, got {wrong[0]!r:.80}")
        object.__setattr__(self, "keys", tuple(each.name for each in self.observation))
        fields = [
            *(ExperienceField(f"observation.{each.name}", each.shape, each.dtype) for each in self.observation),
            self.action,
            ExperienceField("reward", (), "float32"),
            *(ExperienceField(f"next_observation.{each.name}", each.shape, each.dtype) for each in self.observation),
            ExperienceField("terminated", (), "uint8"),
            ExperienceField("truncated", (), "uint8"),
        ]
        object.__setattr__(self, "fields", tuple(fields))

    @classmethod
    def of(cls, observation_space: spaces.Dict, action_space: spaces.Box) -> ExperienceLayout:
        """Return the layout of transitions for the spaces of one env.

        Raises:
            OptionError: the observation space is not a Dict of Boxes that may nest, or the action space is not a Box.
        """
        if not isinstance(observation_space, spaces.Dict) or not observation_space.spaces:
            raise OptionError(f"observation_space must be a Dict of Boxes that is not empty, got {observation_space}")
        if not isinstance(action_space, spaces.Box):
            raise OptionError(f"action_space must be a Box, got {action_space}")
        return cls(
            tuple(_field(name, box) for name, box in flat_space(observation_space).items()),
            _field("action", action_space),
        )

    @property
    def row_bytes(self) -> int:
        """Bytes of one transition."""
        return sum(each.row_bytes for each in self.fields)

    def to_json(self) -> dict[str, Any]:
        """Return the layout in a form that JSON can hold; :meth:`from_json` reads it."""
        return {
            "observation": [[each.name, list(each.shape), each.dtype] for each in self.observation],
            "action": [list(self.action.shape), self.action.dtype],
        }

    @classmethod
    @checked
    def from_json(cls, data: Mapping[str, Any]) -> ExperienceLayout:
        """Return the layout of a result of :meth:`to_json`.

        Raises:
            OptionError: it is not such a result.
        """
        try:
            fields = [*data["observation"], ("action", *data["action"])]
            made = [ExperienceField(name, tuple(shape), dtype) for name, shape, dtype in fields]
        except (KeyError, TypeError, ValueError) as error:
            raise OptionError(f"ExperienceLayout: data must be a result of to_json(), got {data!r:.80}") from error
        return cls(tuple(made[:-1]), made[-1])

    def shapes(self, n_rows: int) -> list[tuple[int, ...]]:
        """Return the shape of each field's values for ``n_rows`` transitions."""
        return [(n_rows, *each.shape) for each in self.fields]

    def collect(
        self,
        observation: NestedRows,
        action: Rows,
        reward: Rows,
        next_observation: NestedRows,
        terminated: Rows,
        truncated: Rows,
    ) -> list[Rows]:
        """Return the values of transitions in the order of :attr:`fields`. Observations may be nested.

        Raises:
            OptionError: an observation is not a mapping, or a key is missing or unknown.
        """
        keys = self.keys
        before, after = _flat("observation", observation), _flat("next_observation", next_observation)
        if not len(before) == len(after) == len(keys):
            self._refuse_keys(before, after)
        try:
            return [
                *[before[key] for key in keys],
                action,
                reward,
                *[after[key] for key in keys],
                terminated,
                truncated,
            ]
        except KeyError:
            self._refuse_keys(before, after)

    def arrays(self, values: Sequence[Rows], shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
        """Return collected values as host arrays.

        Args:
            values: result of :meth:`collect`.
            shapes: result of :meth:`shapes`.

        Raises:
            OptionError: a value has the wrong shape, or a dtype that its field does not accept.
        """
        try:
            arrays = [value if type(value) is np.ndarray else _host_array(value) for value in values]
        except (ValueError, TypeError, RuntimeError) as error:  # RuntimeError: of tensors that are not plain
            raise OptionError(f"transitions must be arrays or tensors of numbers: {error}") from error
        for array, shape, each in self._with_fields(arrays, shapes):
            if array.shape != shape or array.dtype not in _ACCEPTED[each.dtype]:
                each.refuse(array, shape)
            if each.must_be_finite and array.dtype.kind == "f":
                each.check_finite(array)
        return arrays

    def tensors(self, values: Sequence[Rows], shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
        """Return collected values as tensors on the devices where they are; arguments and errors as :meth:`arrays`."""
        try:
            if any(map(is_masked, values)):
                raise ValueError("an array has masked elements")
            tensors = [torch.as_tensor(value) for value in values]
        except (ValueError, TypeError, RuntimeError) as error:
            raise OptionError(f"transitions must be arrays or tensors of numbers: {error}") from error
        tensors = [plain_tensor("transitions", tensor) for tensor in tensors]
        for tensor, shape, each in self._with_fields(tensors, shapes):
            if tensor.shape != shape or tensor.dtype not in _ACCEPTED[each.dtype]:
                each.refuse(tensor, shape)
        return tensors

    def _with_fields(
        self, values: Sequence[RowsT], shapes: Sequence[tuple[int, ...]]
    ) -> Iterable[tuple[RowsT, tuple[int, ...], ExperienceField]]:
        """Return collected values with their shapes and fields."""
        try:
            if len(values) == len(shapes) == len(self.fields):
                return zip(values, shapes, self.fields, strict=True)
        except (TypeError, RuntimeError):  # the shapes have no length
            pass
        raise OptionError(
            f"values and shapes must be results of collect() and shapes(), with {len(self.fields)} entries; got "
            f"{len(values)} values and the shapes {shapes!r:.80}"
        )

    def _refuse_keys(self, observation: Mapping[str, Rows], next_observation: Mapping[str, Rows]) -> NoReturn:
        missing = [key for key in self.keys if key not in observation]
        name, given = ("next_observation", next_observation)
        if missing or len(observation) != len(self.keys):
            name, given = "observation", observation
        missing = [key for key in self.keys if key not in given]
        unknown = [key for key in given if key not in self.keys]
        hint = did_you_mean(unknown[0], missing or self.keys) if unknown else ""
        raise OptionError(
            f"{name} must have the keys {shorten(self.keys)}; missing: {shorten(missing)}; unknown: "
            f"{shorten(unknown)}{hint}"
        )

    @checked
    def batch(self, n_rows: int, device: torch.device | str = "cpu", pinned: bool = False) -> Transitions:
        """Return an empty batch of ``n_rows`` transitions.

        Args:
            n_rows: number of transitions.
            device: device of the tensors.
            pinned: whether to allocate page-locked host memory.

        Raises:
            OptionError: there is not enough memory.
            DeviceError: the device does not exist, or there is no GPU that page-locked memory is for.
        """
        n_rows, device = checked_integer("n_rows", n_rows), usable_device(device)
        if device.type == "cpu":
            check_memory("n_rows", n_rows, "the transitions of a batch", self.row_bytes)
        if pinned and not torch.cuda.is_available():
            raise DeviceError("pinned=True needs a CUDA device, and torch finds none; use pinned=False")
        whole = [
            torch.zeros((n_rows, *each.shape), dtype=each.torch_dtype, device=device, pin_memory=pinned)
            for each in self.fields
        ]
        names = self.keys
        n = len(names)
        return Transitions(
            observation=dict(zip(names, whole[:n], strict=True)),
            action=whole[n],
            reward=whole[n + 1],
            next_observation=dict(zip(names, whole[n + 2 : 2 * n + 2], strict=True)),
            terminated=whole[-2],
            truncated=whole[-1],
            tensors=tuple(flat_rows(each) for each in whole),
        )


def flat_rows(block: Tensor) -> Tensor:
    """Return a block (n, ...) as (n, k), or as (n,) if a row is one number: ``index_select`` is fastest on these."""
    size = block[0].numel() if len(block) else 1
    return block.view(len(block)) if size == 1 else block.view(len(block), size)


def _host_array(value: Rows) -> np.ndarray:
    if not isinstance(value, Tensor):
        if is_masked(value):
            raise ValueError("an array has masked elements")
        return np.asarray(value)
    if value.dtype not in _ACCEPTED["float32"]:
        return host_array("transitions", value)
    if value.is_cpu and not value.requires_grad and not value.is_neg():
        return value.numpy()
    return value.numpy(force=True)  # takes several times as long


def _flat(name: str, observation: NestedRows) -> Mapping[str, Rows]:
    if type(observation) is Tensor:  # type: ignore[comparison-overlap]  # a sparse one has values()
        refuse_observation(name, observation)
    try:
        values = observation.values()
    except (AttributeError, RuntimeError):  # RuntimeError: another tensor
        refuse_observation(name, observation)
    for each in values:
        if type(each) not in _ROWS and isinstance(each, Mapping):
            return flat_values(observation)
    return observation  # type: ignore[return-value]


def _field(name: str, space: spaces.Box) -> ExperienceField:
    return ExperienceField(name, tuple(space.shape), "uint8" if space.dtype in (np.uint8, np.bool_) else "float32")
