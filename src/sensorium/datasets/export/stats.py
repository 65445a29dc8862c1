"""Statistics of signals and images over episodes, in bounded memory.

Mean, standard deviation, minimum and maximum are exact. Quantiles are exact for up to 65,536 steps; for more steps they
are those of every k-th step. Values that are not finite (a ray without a hit) are ignored; the statistics of a column
without finite values are zero.
"""

from __future__ import annotations

import numpy as np

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
Statistics = dict[str, np.ndarray]
"""Name (min, max, mean, std, q01, ...) -> array of the shape of a row; count -> number of steps, (1,)."""
_MAX_SAMPLES = 1 << 16


class RunningStats:
    """Statistics of one signal.

    Args:
        shape: shape of a row.
        n_rows: total number of rows that will be added.
    """

    def __init__(self, shape: tuple[int, ...], n_rows: int) -> None:
        self._shape, self._every = shape, -(-n_rows // _MAX_SAMPLES)
        width = int(np.prod(shape))
        self._rows = 0
        self._count = np.zeros(width)
        self._mean, self._square = np.zeros(width), np.zeros(width)
        self._min, self._max = np.full(width, np.inf), np.full(width, -np.inf)
        self._sample: list[np.ndarray] = []

    def add(self, rows: np.ndarray) -> None:
        """Add rows, (n, *shape)."""
        values = rows.reshape(len(rows), -1)
        chosen = np.arange(-self._rows % self._every, len(rows), self._every)
        self._sample.append(np.array(values[chosen]))
        self._rows += len(rows)
        values = values.astype(np.float64)
        finite = np.isfinite(values)
        count = finite.sum(axis=0)
        mean = np.where(finite, values, 0.0).sum(axis=0) / np.maximum(count, 1)
        square = (np.where(finite, values - mean, 0.0) ** 2).sum(axis=0)
        total = np.maximum(self._count + count, 1)
        shift = mean - self._mean
        self._square += square + shift**2 * self._count * count / total
        self._mean += shift * count / total
        self._count += count
        self._min = np.minimum(self._min, np.where(finite, values, np.inf).min(axis=0))
        self._max = np.maximum(self._max, np.where(finite, values, -np.inf).max(axis=0))

    def get(self) -> Statistics:
        """Return the statistics of all rows so far."""
        some = self._count > 0
        found = {
            "min": np.where(some, self._min, 0.0),
            "max": np.where(some, self._max, 0.0),
            "mean": self._mean,
            "std": np.sqrt(self._square / np.maximum(self._count, 1)),
        }
        quantiles = _quantiles(np.concatenate(self._sample).astype(np.float64))
        found |= dict(zip(QUANTILES, quantiles, strict=True))
        result = {name: value.reshape(self._shape) for name, value in found.items()}
        return {**result, "count": np.array([self._rows])}


def _quantiles(values: np.ndarray) -> np.ndarray:
    """Return the quantiles of each column, (quantiles, columns)."""
    wanted = list(QUANTILES.values())
    finite = np.isfinite(values)
    if finite.all():
        return np.asarray(np.quantile(values, wanted, axis=0))
    result = np.zeros((len(wanted), values.shape[1]))
    for column in np.flatnonzero(finite.any(axis=0)):
        result[:, column] = np.quantile(values[finite[:, column], column], wanted)
    return result


class ImageStats:
    """Statistics of the channels of images of integers, of shape (channels, 1, 1). Made from histograms.

    Args:
        values: value of each integer, increasing. Default: 8-bit colours, scaled to [0, 1].
        channels: number of channels.
    """

    def __init__(self, values: np.ndarray | None = None, channels: int = 3) -> None:
        self._values = np.arange(256) / 255.0 if values is None else values
        self._counts = np.zeros((channels, len(self._values)), np.int64)
        self._frames = 0

    def add(self, image: np.ndarray) -> None:
        """Add an image, (H, W, channels). Large images are subsampled to about 150 pixels along the longer side."""
        every = max(1, max(image.shape[:2]) // 150)
        for channel, counts in enumerate(self._counts):
            counts += np.bincount(image[::every, ::every, channel].ravel(), minlength=len(counts))
        self._frames += 1

    def merge(self, other: ImageStats) -> None:
        """Add the images of another instance."""
        self._counts += other._counts
        self._frames += other._frames

    def get(self) -> Statistics:
        """Return the statistics of all images so far."""
        value, total = self._values, self._counts.sum(axis=1)
        mean = self._counts @ value / total
        found = {
            "min": value[np.argmax(self._counts > 0, axis=1)],
            "max": value[len(value) - 1 - np.argmax(self._counts[:, ::-1] > 0, axis=1)],
            "mean": mean,
            "std": np.sqrt((self._counts * (value - mean[:, None]) ** 2).sum(axis=1) / total),
        }
        reached = np.cumsum(self._counts, axis=1)
        for name, wanted in QUANTILES.items():  # the value of that rank, like NumPy's method "lower"
            rank = np.floor(wanted * (total - 1)).astype(np.int64)
            found[name] = value[np.argmax(reached > rank[:, None], axis=1)]
        result = {name: each.reshape(-1, 1, 1) for name, each in found.items()}
        return {**result, "count": np.array([self._frames])}
