"""``Clusters``: a k-means clustering of observations in the space of their principal components."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sensorium._arguments import checked
from sensorium.errors import OptionError

_MAX_ITERATIONS = 100


@dataclass(frozen=True)
class Clusters:
    """Fitted clusters. An observation belongs to the nearest centroid in the space of the principal components."""

    mean: Tensor
    """(D,) mean of the fitted observations."""
    scale: Tensor
    """(D,) their standard deviations; 1 where they do not vary."""
    components: Tensor
    """(D, P) orthonormal columns: the directions in which standardised observations vary most."""
    centroids: Tensor
    """(K, P) in the space of the components."""
    slope: Tensor
    """(D, K); see :attr:`offset`."""
    offset: Tensor
    """(K,): ``offset + (x - mean) @ slope`` is the squared distance to each centroid minus a value common to all."""

    @classmethod
    @checked
    def fit(cls, features: Tensor, clusters: int, components: int, generator: torch.Generator) -> Clusters:
        """Fit clusters. The result only depends on the features and the state of the generator.

        Args:
            features: (N, D) float32. Rows that are not finite are skipped.
            clusters: number of clusters, K.
            components: maximum number of principal components, P.
            generator: random generator.

        Raises:
            OptionError: there are fewer different observations than clusters.
        """
        x = features[torch.isfinite(features).all(1)].double()
        if len(x) < clusters:
            raise OptionError(f"cannot fit {clusters} clusters to only {len(x)} finite observations")
        mean = x.mean(0)
        scale = x.std(0, correction=0)
        scale = torch.where(scale > 1e-12 * (1 + mean.abs()), scale, 1.0)
        x = (x - mean) / scale
        _, _, directions = torch.linalg.svd(x.T @ x)
        basis = directions[: min(components, x.shape[1])].T
        largest = basis.abs().argmax(0)
        basis = basis * basis[largest, torch.arange(basis.shape[1])].sign()  # the solver's signs are arbitrary
        centroids = k_means(x @ basis, clusters, generator)
        slope = (-2.0 / scale)[:, None] * (basis @ centroids.T)
        offset = centroids.square().sum(1)
        return cls(*(each.float().contiguous() for each in (mean, scale, basis, centroids, slope, offset)))

    def label(self, features: Tensor, scores: Tensor, labels: Tensor) -> None:
        """Find the cluster of each observation.

        Args:
            features: (N, D); they are centred in place.
            scores: (N, K) workspace.
            labels: (N,) int64, filled.
        """
        features -= self.mean
        torch.addmm(self.offset, features, self.slope, out=scores)
        torch.argmin(scores, 1, out=labels)


def k_means(points: Tensor, clusters: int, generator: torch.Generator) -> Tensor:
    """Return the centroids (K, P) of points (N, P): k-means++ initialisation, then Lloyd's iterations to convergence.

    Raises:
        OptionError: there are fewer different points than clusters.
    """
    first = torch.randint(len(points), (1,), generator=generator)
    centroids = points[first]
    nearest = (points - centroids).square().sum(1)
    while len(centroids) < clusters:
        if not bool((nearest > 0).any()):
            raise OptionError(f"cannot fit {clusters} clusters to only {len(centroids)} different observations")
        new = points[torch.multinomial(nearest, 1, generator=generator)]
        centroids = torch.cat([centroids, new])
        nearest = torch.minimum(nearest, (points - new).square().sum(1))
    for _ in range(_MAX_ITERATIONS):
        distances = torch.cdist(points, centroids)
        labels = distances.argmin(1)
        counts = torch.bincount(labels, minlength=clusters)
        moved = torch.zeros_like(centroids).index_add_(0, labels, points) / counts.clamp(min=1)[:, None]
        empty = counts == 0
        if bool(empty.any()):  # an empty cluster restarts at a point that is farthest from its centroid
            farthest = distances.gather(1, labels[:, None])[:, 0].topk(int(empty.sum())).indices
            moved[empty] = points[farthest]
        if torch.equal(moved, centroids):
            break
        centroids = moved
    return centroids
