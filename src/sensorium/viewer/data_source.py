"""The source of a page: recorded data that can be shown at any step, with images and arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from sensorium.worlds import Scene

POINTS = 1000
"""Approximate number of points of a line."""
_POSE = ("x", "y", "z", "qw", "qx", "qy", "qz")
_COLUMN_NAMES: dict[int, tuple[str, ...]] = {
    1: ("",),
    3: _POSE[:3],
    4: _POSE[3:],
    7: _POSE,
    13: (*_POSE, "vx", "vy", "vz", "wx", "wy", "wz"),
}
"""Number of columns -> their default names."""


class Series(NamedTuple):
    """One array over time."""

    times: np.ndarray
    """Seconds since the first step, (n,)."""
    measured: np.ndarray
    """Values, (n, columns) float64."""
    truth: np.ndarray | None
    """Ground truth of the same shape, if it was recorded."""
    labels: Sequence[str]
    """Names of the columns."""


class Texts(NamedTuple):
    """The texts of a sensor, one per step."""

    entries: list[str]


class PageSource(Protocol):
    """A dataset or a recording, at one of its episodes or envs. Not thread-safe."""

    title: str
    """What it is, in words: "the dataset data/pick"."""
    kind: str
    """What the user chooses from: "Episode" or "Env"."""
    keys: list[int]
    """Numbers of the episodes or envs, in order."""
    key: int
    """The chosen episode or env."""
    scene: Scene
    """Its scene, built. It can be another one after :meth:`choose`."""
    env: int
    """The env of that scene."""
    hidden: frozenset[str]
    """uuids of cameras whose pose is not known at every step."""
    n_steps: int
    """Number of steps that can be shown."""
    dt: float
    """Seconds from one step to the next."""
    images: dict[str, str]
    """Image name -> kind ("rgb", "depth", ...)."""
    names: list[str]
    """Names of the arrays and texts."""

    def label(self, key: int) -> str:
        """Return a unique line of text about an episode or env."""
        ...

    def choose(self, key: int) -> None:
        """Switch to another episode or env."""
        ...

    def pose(self, step: int) -> None:
        """Set the scene to a step."""
        ...

    def returns(self, step: int) -> dict[str, np.ndarray]:
        """Return where the rays of lidars ended at the step that the scene is set to: name -> (n, 3) m in the world."""
        ...

    def image(self, name: str, step: int) -> np.ndarray:
        """Return a recorded image, (H, W, ...)."""
        ...

    def series(self, name: str) -> Series | Texts:
        """Return an array or the texts over all steps."""
        ...

    def close(self) -> None:
        """Free the scene and close the files."""
        ...


def as_columns(values: np.ndarray) -> np.ndarray:
    """Return rows of any shape as (n, columns) float64."""
    return np.asarray(values, np.float64).reshape(len(values), -1)


def column_names(count: int, known: Sequence[str] = ()) -> Sequence[str]:
    """Return names for ``count`` columns: the known ones if their number matches, else default names."""
    if len(known) == count:
        return known
    return _COLUMN_NAMES.get(count, tuple(map(str, range(count))))
