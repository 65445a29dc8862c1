"""What a page of recorded data shows: a thing that can be brought to any step, with images and arrays beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from sensorium.worlds import Scene

POINTS = 1000
"""Points of a line over time, about."""
_POSE = ("x", "y", "z", "qw", "qx", "qy", "qz")
_NAMED: dict[int, tuple[str, ...]] = {
    1: ("",),
    3: _POSE[:3],
    4: _POSE[3:],
    7: _POSE,
    13: (*_POSE, "vx", "vy", "vz", "wx", "wy", "wz"),
}
"""What columns are called where nothing else says so."""


class Series(NamedTuple):
    """One array over time."""

    times: np.ndarray
    """Seconds since the first step, (n,)."""
    measured: np.ndarray
    """(n, columns) float64."""
    truth: np.ndarray | None
    """Ground truth of the same shape, where it was recorded beside."""
    labels: Sequence[str]
    """Names of the columns."""


class Texts(NamedTuple):
    """What a sensor said in words, one entry for each step."""

    said: list[str]


class PageSource(Protocol):
    """A data set or a recording, at one of its episodes or envs. One thread at a time may use it."""

    title: str
    """What it is, in words: "the data set data/pick"."""
    kind: str
    """What one chooses from: "Episode" or "Env"."""
    keys: list[int]
    """Their numbers, in order."""
    key: int
    """The one that is chosen."""
    scene: Scene
    """The scene of it, built; may be another one after :meth:`choose`."""
    env: int
    """Which env of that scene."""
    hidden: frozenset[str]
    """uuids of cameras whose place is not known at every step."""
    n_steps: int
    """How many steps can be shown."""
    dt: float
    """Seconds from one to the next."""
    images: dict[str, str]
    """Name -> kind ("rgb", "depth", ...) of the images."""
    names: list[str]
    """Of the arrays and texts."""

    def label(self, key: int) -> str:
        """A line about an episode or env, unlike those of all others."""
        ...

    def choose(self, key: int) -> None:
        """Go to an episode or env."""
        ...

    def pose(self, step: int) -> None:
        """Put everything in the scene where it was at a step."""
        ...

    def image(self, name: str, step: int) -> np.ndarray:
        """An image as it was recorded, (H, W, ...)."""
        ...

    def series(self, name: str) -> Series | Texts:
        """An array over all steps."""
        ...

    def close(self) -> None:
        """Free the scene, and close files."""
        ...


def as_columns(values: np.ndarray) -> np.ndarray:
    """Rows of any shape as (n, columns) float64."""
    return np.asarray(values, np.float64).reshape(len(values), -1)


def names_of(count: int, known: Sequence[str] = ()) -> Sequence[str]:
    """Names of that many columns: those that are known, if they are as many."""
    if len(known) == count:
        return known
    return _NAMED.get(count, tuple(map(str, range(count))))
