"""What a transition is made of: its fields by name, shape and type, and batches of them.

A memory keeps one block of rows per field. For an observation space with the keys "imu" and "camera" the fields are

| field | row | type |
| --- | --- | --- |
| observation.imu, observation.camera | the Box's shape | uint8 for uint8 and bool Boxes, else float32 |
| action | the Box's shape | likewise |
| reward | () | float32 |
| next_observation.imu, next_observation.camera | as observation | as observation |
| terminated, truncated | () | uint8, 0 or 1 |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from sensorium.errors import OptionError, did_you_mean, shorten

Rows = Tensor | np.ndarray
"""One value per env or transition, on the first axis."""

_FITS: dict[str, frozenset[Any]] = {
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
"""What a block of a type takes in."""


@dataclass(frozen=True)
class ExperienceField:
    """One quantity of a transition: its name, the shape of one row, and "float32" or "uint8"."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def torch_dtype(self) -> torch.dtype:
        """The type as torch knows it."""
        return torch.uint8 if self.dtype == "uint8" else torch.float32

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize

    def explain(self, value: Rows, size: tuple[int, ...]) -> NoReturn:
        """Raise what is wrong with a value that was to be rows of this field, of that shape together."""
        if tuple(value.shape) != size:
            raise OptionError(f"{self.name}: expected the shape {size}, got {tuple(value.shape)}")
        raise OptionError(f"{self.name}: {value.dtype} does not fit {self.dtype}; convert it first")


@dataclass(frozen=True)
class Transitions:
    """``n`` transitions, as preallocated tensors that sampling fills. Made by ``memory.batch(n)``.

    Example:
        >>> batch = memory.sample(256)
        >>> batch.observation["imu"].shape, batch.reward.shape
        (torch.Size([256, 6]), torch.Size([256]))
    """

    observation: dict[str, Tensor]
    """(n, ...) per key, what the policy saw."""
    action: Tensor
    """(n, ...) what it did."""
    reward: Tensor
    """(n,) what it got for it."""
    next_observation: dict[str, Tensor]
    """(n, ...) per key, what it saw then; at the end of an episode the last observation, not the first of the next."""
    terminated: Tensor
    """(n,) uint8: the episode ended in a state from which nothing follows."""
    truncated: Tensor
    """(n,) uint8: the episode was cut off, by a time limit say; the value of the next state still counts."""
    tensors: tuple[Tensor, ...] = field(repr=False)
    """The tensors above in the order of the layout's fields, rows of one number flattened to (n,)."""

    def __len__(self) -> int:
        return len(self.reward)


@dataclass(frozen=True)
class ExperienceLayout:
    """The fields of a transition, in the order in which they are stored."""

    observation: tuple[ExperienceField, ...]
    action: ExperienceField
    fields: tuple[ExperienceField, ...] = field(init=False, repr=False, compare=False)

    keys: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
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
        """The layout of transitions between these spaces, of one env each.

        Raises:
            OptionError: a space is of another kind; names it.
        """
        if not isinstance(observation_space, spaces.Dict) or not observation_space.spaces:
            raise OptionError(f"observation_space: a Dict of Boxes with at least one key, got {observation_space}")
        if not isinstance(action_space, spaces.Box):
            raise OptionError(f"action_space: a Box, got {action_space}")
        return cls(
            tuple(_field(name, space) for name, space in observation_space.spaces.items()),
            _field("action", action_space),
        )

    @property
    def row_bytes(self) -> int:
        """Bytes of one transition."""
        return sum(each.row_bytes for each in self.fields)

    def to_json(self) -> dict[str, Any]:
        """As JSON holds it; :meth:`from_json` reads it."""
        return {
            "observation": [[each.name, list(each.shape), each.dtype] for each in self.observation],
            "action": [list(self.action.shape), self.action.dtype],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ExperienceLayout:
        """What :meth:`to_json` gave."""
        observation = tuple(ExperienceField(name, tuple(shape), dtype) for name, shape, dtype in data["observation"])
        shape, dtype = data["action"]
        return cls(observation, ExperienceField("action", tuple(shape), dtype))

    def sizes(self, n_rows: int) -> list[tuple[int, ...]]:
        """The shape of each field's values for ``n_rows`` transitions."""
        return [(n_rows, *each.shape) for each in self.fields]

    def collect(
        self,
        observation: Mapping[str, Rows],
        action: Rows,
        reward: Rows,
        next_observation: Mapping[str, Rows],
        terminated: Rows,
        truncated: Rows,
    ) -> list[Rows]:
        """The values of transitions in the order of :attr:`fields`.

        Raises:
            OptionError: a key is missing or unknown.
        """
        keys = self.keys
        if not len(observation) == len(next_observation) == len(keys):
            self._explain_keys(observation, next_observation)
        try:
            return [
                *[observation[key] for key in keys],
                action,
                reward,
                *[next_observation[key] for key in keys],
                terminated,
                truncated,
            ]
        except KeyError:
            self._explain_keys(observation, next_observation)

    def arrays(self, values: Sequence[Rows], sizes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
        """Collected values as arrays of the host, checked.

        Raises:
            OptionError: a value has the wrong shape, or a type that does not fit its field; names it.
        """
        arrays = [
            value.numpy(force=True)
            if isinstance(value, Tensor) and value.dtype in _FITS["float32"]
            else np.asarray(value)
            for value in values
        ]
        for array, size, each in zip(arrays, sizes, self.fields, strict=True):
            if array.shape != size or array.dtype not in _FITS[each.dtype]:
                each.explain(array, size)
        return arrays

    def tensors(self, values: Sequence[Rows], sizes: Sequence[tuple[int, ...]]) -> list[Tensor]:
        """Collected values as tensors, where they are, checked.

        Raises:
            OptionError: as :meth:`arrays`.
        """
        tensors = [torch.as_tensor(value) for value in values]
        for tensor, size, each in zip(tensors, sizes, self.fields, strict=True):
            if tensor.shape != size or tensor.dtype not in _FITS[each.dtype]:
                each.explain(tensor, size)
        return tensors

    def _explain_keys(self, observation: Mapping[str, Rows], next_observation: Mapping[str, Rows]) -> NoReturn:
        missing = [key for key in self.keys if key not in observation]
        what, given = ("next_observation", next_observation)
        if missing or len(observation) != len(self.keys):
            what, given = "observation", observation
        missing = [key for key in self.keys if key not in given]
        unknown = [key for key in given if key not in self.keys]
        hint = did_you_mean(unknown[0], missing or self.keys) if unknown else ""
        raise OptionError(
            f"{what}: missing {shorten(missing)}; unknown {shorten(unknown)}{hint}; the keys are {shorten(self.keys)}"
        )

    def batch(self, n_rows: int, device: torch.device | str = "cpu", pinned: bool = False) -> Transitions:
        """Room for ``n_rows`` transitions on a device, or in page-locked memory of the host."""
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
    """(n, ...) seen as (n, k), or as (n,) where a row is one number: what ``index_select`` handles fastest."""
    size = block[0].numel() if len(block) else 1
    return block.view(len(block)) if size == 1 else block.view(len(block), size)


def check_space_left(n_bytes: int, free: int, where: str) -> None:
    """Raise where ``n_bytes`` are more than what is free.

    Raises:
        OptionError: says how much is asked, how much there is, and what to do.
    """
    if n_bytes > free:
        raise OptionError(
            f"capacity: the blocks take {n_bytes / 1e6:,.0f} MB, and {where} has {free / 1e6:,.0f} MB free; "
            f"lower capacity, or give {where} more room"
        )


def _field(name: str, space: spaces.Space[Any]) -> ExperienceField:
    if not isinstance(space, spaces.Box):
        raise OptionError(f"{name}: a memory stores Boxes, got {space}; flatten nested spaces first")
    return ExperienceField(name, tuple(space.shape), "uint8" if space.dtype in (np.uint8, np.bool_) else "float32")
