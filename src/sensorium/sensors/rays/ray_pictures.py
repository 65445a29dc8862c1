"""Pictures of what rays measured: scans seen from above, range images, height scans."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sensorium.sensors.pictures import MIN_PICTURE, ImagePair, Picture, ScanPicture
from sensorium.sensors.rays.patterns import GridPattern, PinholePattern
from sensorium.sensors.rays.ray_rig import RayRig


def ray_pictures(
    rig: RayRig, max_range: float, measured: Mapping[str, np.ndarray], truth: Mapping[str, np.ndarray]
) -> list[Picture]:
    """Return the pictures of a reading of rays; none for few rays, which are better shown as lines.

    Args:
        rig: the rays.
        max_range: distance at which returns end, m.
        measured: field -> values, with the distances as "distances".
        truth: the same of ground truth.
    """
    if rig.n_beams < MIN_PICTURE:
        return []
    pattern, shape = rig.pattern, rig.pattern_shape
    true, seen = (_returns(one["distances"].reshape(-1, *shape), max_range) for one in (truth, measured))
    if isinstance(pattern, GridPattern):
        half = [0.5 * count * pattern.resolution for count in shape]
        extent = (-half[0], half[0], -half[1], half[1])
        labels = ("x forward, m", "y left, m")
        return [ImagePair("distances", "m", true[0].T, seen[0].T, extent=extent, labels=labels, top_row_first=False)]
    if isinstance(pattern, PinholePattern):
        return [ImagePair("depth" if rig.is_depth else "distances", "m", true[0], seen[0])]
    directions = _directions(rig, truth)
    found: list[Picture] = []
    if directions is not None:
        origins = pattern.rays()[0] if pattern.n_frames == 1 else np.zeros((1, 3))
        distances = np.stack([true, seen]).reshape(2, -1, rig.n_bundles)  # (2, echoes, rays)
        points = (origins + distances[..., None] * directions).reshape(2, -1, 3)
        azimuths = np.tile(np.degrees(np.arctan2(directions[:, 1], directions[:, 0])), distances.shape[1])
        is_level = len(shape) == 1 or shape[0] == 1
        by_height = not is_level or pattern.n_frames > 1
        found.append(ScanPicture("distances", points[0], points[1], distances.reshape(2, -1), azimuths, by_height))
    if len(shape) == 2 and min(shape) > 1:
        found.append(_range_image("distances", "m", true[0], seen[0], directions))
        if "intensity" in measured:
            powers = [one["intensity"].reshape(-1, *shape)[0] for one in (truth, measured)]
            found.append(_range_image("intensity", "", powers[0], powers[1], directions))
    return found


def _range_image(
    title: str, unit: str, truth: np.ndarray, measured: np.ndarray, directions: np.ndarray | None
) -> ImagePair:
    """Return the image of a scan: azimuth to the left, as seen from the sensor, and elevation upwards."""
    if directions is None:
        return ImagePair(title, unit, truth, measured, stretch=True)
    grid = directions.reshape(*truth.shape, 3)
    azimuths = np.degrees(np.unwrap(np.arctan2(grid[0, :, 1], grid[0, :, 0])))
    elevations = np.degrees(np.arcsin(np.clip(grid[:, 0, 2], -1, 1)))
    if azimuths[0] < azimuths[-1]:
        truth, measured, azimuths = truth[:, ::-1], measured[:, ::-1], azimuths[::-1]
    extent = (float(azimuths[0]), float(azimuths[-1]), float(elevations[0]), float(elevations[-1]))
    labels = ("azimuth, °", "elevation, °")
    return ImagePair(title, unit, truth, measured, extent=extent, labels=labels, top_row_first=False, stretch=True)


def _directions(rig: RayRig, truth: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Return the directions of the rays in the sensor's frame, (rays, 3); None if they change and are not read."""
    if rig.pattern.n_frames == 1:
        return rig.pattern.rays()[1]
    points = truth.get("points")
    if points is None or rig.in_world:
        return None
    first = points.reshape(-1, rig.n_bundles, 3)[0]
    return np.asarray(first / np.maximum(np.linalg.norm(first, axis=1, keepdims=True), 1e-9))


def _returns(distances: np.ndarray, max_range: float) -> np.ndarray:
    """Return distances as float64, NaN without a return."""
    values = np.asarray(distances, float)
    # Without a return a reading holds no_hit: inf, NaN, a value <= 0, or max_range itself.
    return np.where(np.isfinite(values) & (values > 0) & (values < max_range * (1 - 1e-6)), values, np.nan)
