"""The observations that a cluster buffer sorts by, as vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sensorium.entities.cluster_options import ClusterOptions
from sensorium.entities.experience_layout import ExperienceLayout
from sensorium.errors import NameNotFoundError, OptionError, did_you_mean, shorten


class SortWorkspace:
    """Arrays for sorting up to n transitions.

    Args:
        n: number of transitions.
        width: numbers of an observation that are clustered.
        clusters: number of clusters.
    """

    def __init__(self, n: int, width: int, clusters: int) -> None:
        self.features = torch.zeros((n, width))
        self.scores = torch.zeros((n, clusters))
        self.labels = torch.zeros(n, dtype=torch.int64)
        self.rows = np.zeros(n, np.int64)
        self.places = np.arange(n)
        self.serials = np.zeros(n, np.int64)


def fill_features(
    features: Tensor,
    arrays: Sequence[np.ndarray],
    columns: Sequence[tuple[int, slice]],
    rows: np.ndarray | slice = slice(None),
) -> None:
    """Concatenate the clustered observations of some rows into ``features``."""
    numbers = features.numpy()
    for place, part in columns:
        numbers[:, part] = arrays[place][rows].reshape(len(numbers), -1)


def clustered_columns(layout: ExperienceLayout, options: ClusterOptions) -> list[tuple[int, slice]]:
    """Return the clustered observations: their position among the fields, and their columns of the features.

    Raises:
        OptionError: there is nothing to cluster.
        NameNotFoundError: ``options.keys`` names an unknown observation.
    """
    if options.clusters == 1:
        return []
    keys = options.keys
    if keys is None:
        keys = tuple(each.name for each in layout.observation if each.dtype == "float32")
    if not keys:
        raise OptionError("keys: there is no float32 observation to cluster; name the observations, or use clusters=1")
    columns, start = [], 0
    for key in keys:
        places = [place for place, name in enumerate(layout.keys) if name == key or name.startswith(f"{key}.")]
        if not places:
            hint = did_you_mean(key, layout.keys) or f"; there are {shorten(layout.keys)}"
            raise NameNotFoundError(f"keys: there is no observation {key!r}{hint}")
        for place in places:
            size = int(np.prod(layout.observation[place].shape, dtype=np.int64))
            columns.append((place, slice(start, start + size)))
            start += size
    return columns
