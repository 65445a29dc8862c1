"""Rough ground of ``walk``: a height field that all envs share, places on it, and heights around the robot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np
import torch
from pydantic import Field

from sensorium.options import Options
from sensorium.tasks.tensor.sensor_timing import timing_options
from sensorium.worlds import Plane, Scene

if TYPE_CHECKING:
    from sensorium.sensors import Sensor
    from sensorium.sensors.rays.raycaster import RayData
    from sensorium.tasks.tensor.walk import WalkConfig

_SAMPLE = 0.2
"""Distance of the samples of the height field, m."""
_COARSE = 5
"""Distance of the samples of its hills, in samples of the height field. They make up half of the heights."""
_RIM = 2.0
"""Width of the rim of the map over which heights fall to 0, m. Beyond it the ground is flat."""
_STEP_DOWN = 0.01
"""Height of the rim above the flat ground, m."""
_CLEARANCE = 0.01
"""Distance of the robot from the highest ground below it at the start, m."""
_SCAN = "height_scan"
"""Name of the height scan."""
_ABOVE = 1.0
"""Height above the torso from which the height scan looks down, m."""


class RoughGround(Options):
    """Rough ground of ``walk``, and the scan of heights around the robot."""

    height: float = Field(default=0.08, gt=0)
    """Maximum height of the ground, m. Neighbouring samples, 0.2 m apart, differ by up to half of it."""
    size: float = Field(default=40.0, ge=10.0, le=100.0)
    """Length of the sides of the map, m. Episodes begin in its central half."""
    scan: tuple[float, float] = (1.0, 0.6)
    """Length and width of the height scan, m, centred below the torso and aligned with its heading."""
    resolution: float = Field(default=0.2, gt=0)
    """Distance of the rays of the height scan, m."""
    noise: float = Field(default=0.02, ge=0)
    """Noise of the heights that the policy observes with ``observe_heights``, m."""
    delay: float = Field(default=0.02, ge=0)
    """Delay of the heights that the policy observes, s."""


class WalkGround:
    """The ground of a task.

    Args:
        options: options of the ground.
        seed: seed of its heights.
    """

    def __init__(self, options: RoughGround, seed: int) -> None:
        self.options = options
        self._samples = _heights(options, seed)

    def add_to(self, scene: Scene) -> None:
        """Add the ground to a scene."""
        scene.add_terrain(Plane(), name="floor", pos=(0.0, 0.0, -_STEP_DOWN))
        spec, half = mujoco.MjSpec(), self.options.size / 2
        spec.modelname = "ground"
        top, count = float(self._samples.max()), len(self._samples)
        values = (self._samples / top).ravel()
        spec.add_hfield(name="ground", nrow=count, ncol=count, size=[half, half, top, 0.5], userdata=values)
        body = spec.worldbody.add_body(name="ground")
        body.add_geom(
            name="ground", type=mujoco.mjtGeom.mjGEOM_HFIELD, hfieldname="ground", rgba=(0.45, 0.47, 0.42, 1.0)
        )
        scene.add_terrain(spec, name="ground")

    def add_scan(self, scene: Scene, link: str, config: WalkConfig) -> None:
        """Add the height scan below a link, with the timing that the options of the task draw."""
        from sensorium.sensors.rays.patterns import GridPattern
        from sensorium.sensors.rays.raycaster import Raycaster

        measured = {"noise": self.options.noise, "delay": self.options.delay}
        self._scan: Sensor[RayData] = scene.add_sensor(
            Raycaster(
                uuid=_SCAN,
                link=link,
                alignment="yaw",
                pos=(0.0, 0.0, _ABOVE),
                exclude_self=True,
                returns=("distances",),
                pattern=GridPattern(size=self.options.scan, resolution=self.options.resolution),
                **timing_options(_SCAN, measured, config),
            )
        )

    def start(self, device: torch.device) -> None:
        """Copy the heights to a device."""
        self._table = torch.from_numpy(self._samples).to(device, torch.float32).flatten()
        side = torch.linspace(-0.3, 0.3, 7, device=device)
        self._footprint = torch.cartesian_prod(side, side)  # (49, 2)

    def height_at(self, xy: torch.Tensor) -> torch.Tensor:
        """Return the height of the ground at points (..., 2) in m, bilinear between the samples of the height field."""
        count = len(self._samples)
        place = ((xy + self.options.size / 2) / _SAMPLE).clamp(0.0, count - 1.001)
        corner = place.long()
        x, y = (place - corner).unbind(-1)
        index = corner[..., 1] * count + corner[..., 0]
        low = self._table[index] * (1 - x) + self._table[index + 1] * x
        high = self._table[index + count] * (1 - x) + self._table[index + count + 1] * x
        return low * (1 - y) + high * y

    def places(self, unit: torch.Tensor) -> torch.Tensor:
        """Return where robots begin, (B, 3) m: x, y and how much they are raised, from numbers (B, 2) in [-1, 1)."""
        xy = unit * self.options.size / 4
        below = self.height_at(xy[:, None] + self._footprint)
        return torch.cat((xy, below.amax(dim=1, keepdim=True) + _CLEARANCE), dim=1)

    def scan(self, ground_truth: bool) -> torch.Tensor:
        """Return the heights of the torso above the ground around it, (B, n) m; they are true or measured ones."""
        reading = self._scan.read_ground_truth() if ground_truth else self._scan.read()
        assert reading.distances is not None
        return reading.distances.flatten(1) - _ABOVE


def _heights(options: RoughGround, seed: int) -> np.ndarray:
    """Return samples of the ground's height (n, n), m: rows along y, columns along x."""
    count = round(options.size / _SAMPLE) + 1
    rng = np.random.default_rng(seed)
    coarse = rng.uniform(0.0, 0.5, (count // _COARSE + 2,) * 2)
    at = np.arange(count) / _COARSE
    whole, part = at.astype(int), at % 1.0
    along_x = coarse[:, whole] * (1 - part) + coarse[:, whole + 1] * part
    hills = along_x[whole] * (1 - part)[:, None] + along_x[whole + 1] * part[:, None]
    heights = options.height * (hills + rng.uniform(0.0, 0.5, (count, count)))
    edge = np.minimum(np.arange(count), np.arange(count)[::-1]) * _SAMPLE / _RIM
    return heights * np.minimum.outer(edge, edge).clip(0.0, 1.0)
