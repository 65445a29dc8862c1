"""Pictures of one reading, for sensors that see space: images, scans seen from above, arrows on a skin.

A picture fills three axes: ground truth, measured, and the error. Truth and measured share limits and colour scale.
Sensors return their pictures in the hook ``_plotted_pictures``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable

Extent = tuple[float, float, float, float]
"""Left, right, bottom and top of an image."""
MIN_PICTURE = 13
"""Number of values from which a reading of points in space is shown as a picture; fewer are lines and bars."""
_TRUTH, _MEASURED = "0.35", "C3"
_MANY = 10_000
"""Number of values from which the largest are not allowed to set the colour scale alone."""
_SMALL = "small"
_PLAIN = "0.85"
"""Colour of pixels without a value."""


class Picture(Protocol):
    """What a reading looks like, beside ground truth."""

    @property
    def title(self) -> str:
        """Name of what is shown, e.g. "depth"."""

    @property
    def error_unit(self) -> str:
        """Unit of the error, "" for none."""

    @property
    def aspect(self) -> float:
        """Height of one of the axes divided by its width."""

    def error(self) -> np.ndarray:
        """Return measured minus true values, NaN where either is missing."""

    def draw(self, axes: np.ndarray) -> None:
        """Draw ground truth, measured and error into three axes."""


@dataclass(frozen=True)
class ImagePair:
    """A true and a measured image on one colour scale, and the image of their difference.

    Args:
        title: name, e.g. "depth".
        unit: unit of the values.
        truth: the true image, (H, W) values or (H, W, 3) colours.
        measured: the measured image.
        errors: the error image (H, W). Default: the difference of the values, whose sign is shown.
        error_unit: unit of the error. Default: that of the values.
        extent: left, right, bottom and top in the units of the labels. Default: pixels, which are not labelled.
        labels: labels of the axes.
        top_row_first: whether the first row is at the top.
        names: names of the rows, from the first.
        stretch: whether pixels need not be square, because the axes have different units.
    """

    title: str
    unit: str
    truth: np.ndarray
    measured: np.ndarray
    errors: np.ndarray | None = None
    error_unit: str = ""
    extent: Extent | None = None
    labels: tuple[str, str] | None = None
    top_row_first: bool = True
    names: tuple[str, ...] = ()
    stretch: bool = False

    def __post_init__(self) -> None:
        if not self.error_unit and self.errors is None:
            object.__setattr__(self, "error_unit", self.unit)

    @property
    def aspect(self) -> float:
        """Height of the image divided by its width; at most 4 to either side."""
        return 0.45 if self.stretch else float(np.clip(self._true_aspect(), 0.25, 4.0))

    def error(self) -> np.ndarray:
        """Return the error image."""
        if self.errors is not None:
            return self.errors
        with np.errstate(invalid="ignore"):
            return np.asarray(_finite(self.measured) - _finite(self.truth))

    def draw(self, axes: np.ndarray) -> None:
        """Draw ground truth, measured and error into three axes."""
        colours = self.truth.ndim == 3
        low, high = (None, None) if colours else limits(self.truth, self.measured)
        for one, image, name in zip(axes, (self.truth, self.measured), ("ground truth", "measured"), strict=False):
            drawn = self._image(one, image if colours else _finite(image), low, high, "viridis")
            one.set_title(f"{self.title}: {name}", fontsize=_SMALL)
            if name == "measured" and not colours:
                colour_bar(one, drawn, self.unit)
        error = self.error()
        most = float(np.nanmax(np.abs(error), initial=0.0))
        signed = self.errors is None
        shown = float(np.nanpercentile(np.abs(error), 99.5)) if most > 0 else 1.0
        shown = shown or most
        colours_of_error = "RdBu_r" if signed else "magma" if most > 0 else "Greys"
        drawn = self._image(axes[2], error, -shown if signed else 0.0, shown, colours_of_error)
        axes[2].set_title("error" if most > 0 else "error: none", fontsize=_SMALL)
        if most > 0:
            colour_bar(axes[2], drawn, self.error_unit)

    def _image(self, axes: Axes, image: np.ndarray, low: float | None, high: float | None, map_: str) -> ScalarMappable:
        axes.set_facecolor(_PLAIN)
        origin: Literal["upper", "lower"] = "upper" if self.top_row_first else "lower"
        fit: Literal["auto", "equal"] = "auto" if self.stretch or not 0.25 < self._true_aspect() < 4 else "equal"
        drawn = axes.imshow(
            image,
            cmap=map_,
            vmin=low,
            vmax=high,
            extent=self.extent,
            origin=origin,
            interpolation="nearest",
            aspect=fit,
        )
        if self.labels is None:
            axes.set_xticks([])
            axes.set_yticks([])
        else:
            axes.set_xlabel(self.labels[0], fontsize=_SMALL)
            axes.set_ylabel(self.labels[1], fontsize=_SMALL)
            axes.tick_params(labelsize=_SMALL)
        if self.names:
            axes.set_yticks(np.arange(len(self.names)) + 0.5, self.names)
            axes.tick_params(axis="y", labelsize="xx-small")
        return drawn

    def _true_aspect(self) -> float:
        height, width = self.truth.shape[:2]
        if self.extent is not None:
            width, height = (abs(self.extent[1] - self.extent[0]), abs(self.extent[3] - self.extent[2]))
        return float(height / max(width, 1e-9))


@dataclass(frozen=True)
class ScanPicture:
    """The returns of a scan seen from above, and the error of each ray's distance over its azimuth.

    Args:
        title: name of the scan.
        truth: true returns in the sensor's frame (x forward, y left, z up), (n, 3) m; NaN without a return.
        measured: measured returns, (n, 3) m.
        distances: true and measured distance of each ray, (2, n) m; NaN without a return.
        azimuths: azimuth of each ray, (n,) degrees.
        heights: whether returns are coloured by their height, as those of a scan with several rows are.
    """

    title: str
    truth: np.ndarray
    measured: np.ndarray
    distances: np.ndarray
    azimuths: np.ndarray
    heights: bool = False
    aspect: float = 1.0
    error_unit: str = "m"

    def error(self) -> np.ndarray:
        """Return the error of each ray's distance, m."""
        return np.asarray(self.distances[1] - self.distances[0])

    def draw(self, axes: np.ndarray) -> None:
        """Draw ground truth, measured and error into three axes."""
        low, high = limits(self.truth[:, 2], self.measured[:, 2])
        count = len(self.truth)
        size = float(np.clip(6000 / count, 1.0, 8.0))
        for one, points, name in zip(axes, (self.truth, self.measured), ("ground truth", "measured"), strict=False):
            seen = points[np.isfinite(points).all(axis=1)]
            if self.heights:
                drawn = one.scatter(seen[:, 0], seen[:, 1], size, seen[:, 2], vmin=low, vmax=high, linewidths=0)
                if name == "measured":
                    colour_bar(one, drawn, "height, m")
            else:
                if name == "measured":
                    one.scatter(self.truth[:, 0], self.truth[:, 1], size, color="0.75", linewidths=0, label="truth")
                colour = _TRUTH if name == "ground truth" else _MEASURED
                one.scatter(seen[:, 0], seen[:, 1], size, color=colour, linewidths=0, label=name)
            one.plot(0, 0, marker=(3, 0, -90), color="k", markersize=7)  # the sensor, pointing forward
            one.set_title(f"seen from above: {name}", fontsize=_SMALL)
            one.set_xlabel(f"x forward, m ({len(seen):,} of {count:,} rays return)", fontsize=_SMALL)
            one.set_ylabel("y left, m", fontsize=_SMALL)
        self._frame(axes[:2])
        axes[2].scatter(self.azimuths, self.error(), min(size, 4.0), color=_MEASURED, linewidths=0)
        axes[2].axhline(0.0, color=_TRUTH, linewidth=0.8)
        axes[2].set_title("error of the distance", fontsize=_SMALL)
        axes[2].set_xlabel("azimuth, °", fontsize=_SMALL)
        axes[2].set_ylabel("measured - truth, m", fontsize=_SMALL)
        axes[2].grid(alpha=0.3)
        for one in axes:
            one.tick_params(labelsize=_SMALL)

    def _frame(self, axes: np.ndarray) -> None:
        """Give both views the same square limits, around the sensor and all returns."""
        both = np.concatenate([self.truth, self.measured, np.zeros((1, 3))])[:, :2]
        low, high = np.nanmin(both, axis=0), np.nanmax(both, axis=0)
        middle, half = (low + high) / 2, max(float((high - low).max()) * 0.54, 0.1)
        for one in axes:
            one.set(
                xlim=(middle[0] - half, middle[0] + half), ylim=(middle[1] - half, middle[1] + half), aspect="equal"
            )
            one.grid(alpha=0.3)


@dataclass(frozen=True)
class SkinPicture:
    """Values of points on a skin, seen along its normals: colours, and arrows for the tangential part of vectors.

    Args:
        title: name of the values.
        unit: their unit.
        positions: positions of the points in the plane of the picture, (n, 2) m.
        truth: true values, (n,) numbers; or (n, 3): two tangential components, and the one along the normal.
        measured: measured values, likewise.
        axis_names: names of the two axes.
        normal: what the colour of a vector is, e.g. "along z".
    """

    title: str
    unit: str
    positions: np.ndarray
    truth: np.ndarray
    measured: np.ndarray
    axis_names: tuple[str, str] = ("x", "y")
    normal: str = ""
    error_unit: str = field(init=False, default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "error_unit", self.unit)

    @property
    def aspect(self) -> float:
        """Height of the skin divided by its width."""
        width, height = np.ptp(self.positions, axis=0) + self._pitch()
        return float(np.clip(height / max(width, 1e-9), 0.35, 2.5))

    def error(self) -> np.ndarray:
        """Return the error of each point: a number, or the vector's."""
        return np.asarray(self.measured - self.truth)

    def draw(self, axes: np.ndarray) -> None:
        """Draw ground truth, measured and error into three axes."""
        vectors = self.truth.ndim == 2
        pitch, places = self._pitch(), self.positions * 1e3  # mm
        parts = (self.truth, self.measured, self.error())
        low, high = limits(*((self.truth[:, 2], self.measured[:, 2]) if vectors else (self.truth, self.measured)))
        longest = max(float(np.linalg.norm(part[:, :2], axis=1).max()) for part in parts) if vectors else 0.0
        if longest < 1e-3 * max(abs(low), abs(high)):
            longest = 0.0  # arrows of rounding errors
        for one, values, name in zip(axes, parts, ("ground truth", "measured", "error"), strict=True):
            error = name == "error"
            shade = values[:, 2] if vectors else values
            most = float(np.nanmax(np.abs(shade), initial=0.0))
            ends = (-(most or 1.0), most or 1.0) if error else (low, high)
            none = ": none" if not values.any() else ""
            drawn = one.scatter(*places.T, 28, shade, cmap="RdBu_r" if error else "viridis", vmin=ends[0], vmax=ends[1])
            if longest > 0:
                one.quiver(
                    *places.T, *values[:, :2].T, color="k", angles="xy", width=0.006,
                    scale_units="xy", scale=longest / (0.95 * pitch * 1e3),
                )  # fmt: skip
            if name == "measured" or (error and not none):
                colour_bar(one, drawn, f"{self.normal}, {self.unit}" if self.normal else self.unit)
            scale = f"\n(longest arrow: {longest:.2g} {self.unit})" if longest > 0 and not error else ""
            one.set_title(f"error{none}" if error else f"{self.title}: {name}{scale}", fontsize=_SMALL)
            one.set_aspect("equal", adjustable="datalim")
            one.margins(0.12)
            one.set_xlabel(f"{self.axis_names[0]}, mm", fontsize=_SMALL)
            one.set_ylabel(f"{self.axis_names[1]}, mm", fontsize=_SMALL)
            one.tick_params(labelsize=_SMALL)

    def _pitch(self) -> float:
        """Return the distance between neighbouring points, m."""
        if len(self.positions) < 2:
            return 0.01
        some = self.positions[:400]
        gaps = np.linalg.norm(some[:, None] - self.positions[None], axis=-1)
        gaps[np.arange(len(some)), np.arange(len(some))] = np.inf
        return float(np.median(gaps.min(axis=1)))


def limits(*values: np.ndarray) -> tuple[float, float]:
    """Return the limits of one colour scale for all arrays: the smallest and the largest finite value.

    Without a finite value they are (0, 1). Values that differ by less than 0.5% get one colour, not the whole scale. Of
    many values, the largest 1% are beyond the upper limit: a horizon would take most of the scale.
    """
    flat = np.concatenate([np.asarray(one, float).ravel() for one in values])
    finite = flat[np.isfinite(flat)]
    if not finite.size:
        return 0.0, 1.0
    low = float(finite.min())
    high = float(np.percentile(finite, 99) if finite.size > _MANY else finite.max())
    if high <= low:
        return low - 0.5, low + 0.5  # equal limits would be expanded by a colour bar, and differ beside it
    missing = 0.005 * max(abs(low), abs(high)) - (high - low)
    return (low - missing / 2, high + missing / 2) if missing > 0 else (low, high)


def colour_bar(axes: Axes, drawn: ScalarMappable | Artist, label: str) -> None:
    """Add a colour bar beside axes without changing their size, so that axes in a grid stay aligned."""
    bar = axes.figure.colorbar(drawn, cax=axes.inset_axes((1.03, 0.0, 0.045, 1.0)))  # type: ignore[arg-type]
    bar.set_label(label, fontsize=_SMALL)
    bar.ax.tick_params(labelsize="x-small")


def _finite(image: np.ndarray) -> np.ndarray:
    values = np.asarray(image, float)
    return np.where(np.isfinite(values), values, np.nan)
