"""Clusters of observations: standardised, projected on their principal components, and grouped by k-means."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sensorium.errors import OptionError

_ITERATIONS = 100


@dataclass(frozen=True)
class Clusters:
    """Which cluster an observation belongs to: that of the nearest centroid in the space of principal components."""

    mean: Tensor
    """(D,) of the observations that were fitted."""
    scale: Tensor
    """(D,) their standard deviations; 1 where they do not vary."""
    components: Tensor
    """(D, P) the directions in which standardised observations vary most, as orthonormal columns."""
    centroids: Tensor
    """(K, P) in the space of the components."""
    slope: Tensor
    """(D, K) and"""
    offset: Tensor
    """(K,): ``offset + (x - mean) @ slope`` is the squared distance to each centroid, less what is the same for all."""

    @classmethod
    def fit(cls, features: Tensor, clusters: int, components: int, generator: torch.Generator) -> Clusters:
        """Fit to (N, D) float32 features. Rows that are not finite are left out. The same for the same generator.

        Raises:
            OptionError: there are fewer different observations than clusters.
        """
        x = features[torch.isfinite(features).all(1)].double()
        if len(x) < clusters:
            raise OptionError(f"clusters: {clusters} are asked for, and only {len(x)} finite observations to fit")
        mean = x.mean(0)
        scale = x.std(0, correction=0)
        scale = torch.where(scale > 1e-12 * (1 + mean.abs()), scale, 1.0)
        x = (x - mean) / scale
        _, _, directions = torch.linalg.svd(x.T @ x)
        basis = directions[: min(components, x.shape[1])].T
        largest = basis.abs().argmax(0)
        basis = basis * basis[largest, torch.arange(basis.shape[1])].sign()  # else the signs are the solver's choice
        centroids = k_means(x @ basis, clusters, generator)
        slope = (-2.0 / scale)[:, None] * (basis @ centroids.T)
        offset = centroids.square().sum(1)
        return cls(*(each.float().contiguous() for each in (mean, scale, basis, centroids, slope, offset)))

    def label(self, features: Tensor, scores: Tensor, labels: Tensor) -> None:
        """The cluster of each row of (N, D) features, which are centred in place.

        Args:
            features: (N, D).
            scores: (N, K) room to work in.
            labels: (N,) int64, filled.
        """
        features -= self.mean
        torch.addmm(self.offset, features, self.slope, out=scores)
        torch.argmin(scores, 1, out=labels)


def k_means(points: Tensor, clusters: int, generator: torch.Generator) -> Tensor:
    """(K, P) centroids of (N, P) points: k-means++ to begin with, then Lloyd's iterations until nothing moves.

    Raises:
        OptionError: there are fewer different points than clusters.
    """
    first = torch.randint(len(points), (1,), generator=generator)
    chosen = points[first]
    nearest = (points - chosen).square().sum(1)
    while len(chosen) < clusters:
        if not bool((nearest > 0).any()):
            raise OptionError(
                f"clusters: {clusters} are asked for, and only {len(chosen)} different observations to fit"
            )
        new = points[torch.multinomial(nearest, 1, generator=generator)]
        chosen = torch.cat([chosen, new])
        nearest = torch.minimum(nearest, (points - new).square().sum(1))
    for _ in range(_ITERATIONS):
        distances = torch.cdist(points, chosen)
        labels = distances.argmin(1)
        counts = torch.bincount(labels, minlength=clusters)
        moved = torch.zeros_like(chosen).index_add_(0, labels, points) / counts.clamp(min=1)[:, None]
        empty = counts == 0
        if bool(empty.any()):  # a cluster that lost its points starts again at those farthest from their centroids
            farthest = distances.gather(1, labels[:, None])[:, 0].topk(int(empty.sum())).indices
            moved[empty] = points[farthest]
        if torch.equal(moved, chosen):
            break
        chosen = moved
    return chosen
