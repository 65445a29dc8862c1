"""Ranges of random values, as options."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import AfterValidator

_LARGEST = 1e6


def _in_order(value: tuple[float, float]) -> tuple[float, float]:
    if value[0] > value[1]:
        raise ValueError("must be (low, high) with low <= high")
    if max(map(abs, value)) > _LARGEST:  # values are drawn as float32
        raise ValueError(f"must be (low, high) with values <= {_LARGEST:g}")
    return value


def _not_negative(value: tuple[float, float]) -> tuple[float, float]:
    if value[0] < 0:
        raise ValueError("must be (low, high) with low >= 0")
    return value


def _positive(value: tuple[float, float]) -> tuple[float, float]:
    if value[0] <= 0:
        raise ValueError("must be (low, high) with low > 0")
    return value


Range: TypeAlias = Annotated[tuple[float, float], AfterValidator(_in_order)]
"""A range (low, high) as an option."""
FactorRange: TypeAlias = Annotated[Range, AfterValidator(_not_negative)]
"""A range of factors, which are not negative."""
PositiveRange: TypeAlias = Annotated[Range, AfterValidator(_positive)]
"""A range of factors > 0, as of masses."""
