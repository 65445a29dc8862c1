"""``columns``: the index of columns of a field of the physics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch

Columns: TypeAlias = slice | torch.Tensor
"""An index of columns."""


def columns(ids: Sequence[int], device: torch.device) -> Columns:
    """Return an index of the columns ``ids``: a slice if they follow each other, which reads and writes without copies.

    Args:
        ids: the columns.
        device: device of the field.
    """
    first = ids[0] if len(ids) else 0
    if list(ids) == list(range(first, first + len(ids))):
        return slice(first, first + len(ids))
    return torch.tensor(ids, device=device)
