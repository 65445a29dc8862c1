"""Elastomer: displacements of the markers on a soft pad when a body is pressed into it (as in GelSight)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from pydantic import Field, model_validator

from sensorium.pipeline import SensorGroup
from sensorium.sensors.base import Format
from sensorium.sensors.options import SimpleSensorOptions
from sensorium.sensors.pictures import Picture
from sensorium.sensors.touch.elastomer_backend import CpuElastomer, ElastomerBackend, GpuElastomer
from sensorium.sensors.touch.probe_sensor import Probing
from sensorium.sensors.touch.skin_pictures import skin_picture
from sensorium.sensors.touch.skin_sensor import SkinSensor
from sensorium.sensors.touch.tactile_realism import TactileRealism


class ElastomerDisplacement(SimpleSensorOptions, TactileRealism, Probing):
    """Options of a soft pad with a grid of markers, whose displacements a camera behind the pad tracks.

    The free surface of the pad is the x-y plane of the sensor's frame, and its outside is along z; markers fill
    ``size`` evenly. Bodies that reach behind this plane indent the pad: the depth h at a marker is how far a body
    reaches behind the plane there, measured along z, at most ``thickness``. Mount the plane in front of the link's
    rigid surface, by up to ``thickness``, because bodies penetrate rigid surfaces by almost nothing in the engine's
    contacts.

    The displacement of a marker is a sum over all indented marker positions q at distance r, with the depth h(q) and
    the drag s(q):

    - dilation, outward from q: 2 nu * dA / (2 pi thickness) * h * r / dilation_length² * exp(-r² / (2
      dilation_length²)), where dA is the area of a marker. Material that is pushed down moves sideways, more so in a
      thin pad and in one that keeps its volume.
    - shear, along s: dA / (2 pi shear_length²) * s * exp(-r² / (2 shear_length²)). The middle of a large contact moves
      with the body that sticks to it.
    - the depth h of the marker itself, into the pad.

    The drag s is the tangential motion of the body since it touched, at most friction * 2 (1 + nu) * h: the shear that
    friction holds before the body slips.

    Example:
        >>> gel = scene.add_sensor(sn.ElastomerDisplacement(link="finger", pos=(0, 0, 0.022), grid=(9, 7)))
        >>> gel.read()   # (B, 9, 7, 3) m
    """

    grid: tuple[int, int] = (9, 9)
    """Rows (along y) and columns (along x) of markers, numbered from the smallest y and x."""
    size: tuple[float, float] = (0.02, 0.02)
    """Extent of the pad along x and y, m. Markers are at the centres of equal cells."""
    thickness: float = Field(default=0.004, gt=0)
    """Thickness of the pad and maximum indentation, m."""
    poisson_ratio: float = Field(default=0.48, ge=0, le=0.5)
    """Poisson ratio nu: 0.5 for a pad that keeps its volume, 0 for one that does not bulge."""
    dilation_length: float = Field(default=0.002, gt=0)
    """Decay length of the dilation, m."""
    shear_length: float = Field(default=0.002, gt=0)
    """Decay length of the shear, m."""
    friction: float = Field(default=1.0, ge=0)
    """Coefficient of friction between the pad and bodies."""

    @model_validator(mode="after")
    def _check_pad(self) -> ElastomerDisplacement:
        if min(self.grid) < 1:
            raise ValueError(f"grid must have at least one row and one column, got {self.grid}")
        if min(self.size) <= 0:
            raise ValueError(f"size must be > 0, got {self.size}")
        self._check_taxels(self.grid[0] * self.grid[1])
        return self


ElastomerTaxel = ElastomerDisplacement


class ElastomerDisplacementSensor(SkinSensor[torch.Tensor], options=ElastomerDisplacement):
    """Elastomer pad. See :class:`ElastomerDisplacement`. Reads (B, rows, columns, 3) m, in the sensor's frame."""

    kind = "elastomer"
    vector_fields = ("value",)
    units = {"value": "m"}

    def _local(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        (rows, columns), (width, height) = self.options.grid, self.options.size
        x = ((np.arange(columns) + 0.5) / columns - 0.5) * width
        y = ((np.arange(rows) + 0.5) / rows - 0.5) * height
        positions = np.stack([*np.meshgrid(x, y), np.zeros((rows, columns))], axis=-1).reshape(-1, 3)
        return positions, np.broadcast_to((0.0, 0.0, 1.0), positions.shape), np.zeros(len(positions))

    def _plotted_pictures(
        self, measured: Mapping[str, np.ndarray], truth: Mapping[str, np.ndarray]
    ) -> Sequence[Picture]:
        positions = self._local()[0]
        return [skin_picture("displacement", "mm", positions, 1e3 * measured["value"], 1e3 * truth["value"])]

    def _rigid_depth(self) -> float:
        return self.options.thickness

    def _get_return_format(self) -> Format:
        return (*self.options.grid, 3)

    @classmethod
    def _build_group(cls, group: SensorGroup[ElastomerBackend]) -> ElastomerBackend:
        return GpuElastomer(group) if group.is_gpu else CpuElastomer(group)
