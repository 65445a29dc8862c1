"""Tactile array: forces and torques on the taxels of a skin on a link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import mujoco
import numpy as np
import torch
from pydantic import Field, model_validator

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.imperfections import Spread
from sensorium.sensors.base import Format
from sensorium.sensors.options import SimpleSensorOptions
from sensorium.sensors.pictures import Picture
from sensorium.sensors.touch.probe_sensor import (
    Point,
    Probing,
    check_count,
    check_normals,
    per_probe,
    unit,
)
from sensorium.sensors.touch.skin_pictures import skin_picture
from sensorium.sensors.touch.skin_sensor import SkinSensor
from sensorium.sensors.touch.tactile_array_backend import (
    CpuTactileArray,
    GpuTactileArray,
    TactileArrayBackend,
)
from sensorium.sensors.touch.tactile_realism import TactileRealism
from sensorium.worlds import Names, Painter

_WRENCH = sum(
    1 << int(field)
    for field in (
        mujoco.mjtConDataField.mjCONDATA_FORCE,
        mujoco.mjtConDataField.mjCONDATA_TORQUE,
        mujoco.mjtConDataField.mjCONDATA_POS,
    )
)
_NET_FORCE = 3  # the contact sensor's "reduce": all contacts as one, at their force-weighted centroid
_SPRING = ("damping", "shear_stiffness", "twist_stiffness", "friction")


class TactileArray(SimpleSensorOptions, TactileRealism, Probing):
    """Options of a tactile array: forces and torques on taxels, (B, n, 3) each.

    Taxels are a grid in the x-y plane of the sensor's frame, facing along z (``grid`` and ``spacing``), or a list
    (``positions`` and ``normals``). The skin protrudes from the taxels by ``radius``. The load of a taxel depends on
    its depth: how far a body reaches behind the surface of the skin, along the taxel's normal. With
    ``depth="nearest"``, it is that of a :class:`~sensorium.sensors.touch.contact_probe.ContactDepthProbe`: how far a
    sphere of this radius goes into the nearest surface, times the cosine between both normals.

    The depths determine where bodies press, and one of two models determines how hard:

    - Without ``stiffness``, the physics engine: the wrench of its contacts between the link and the tracked links is
      shared among the loaded taxels, so that their forces add up to it.
    - With ``stiffness``, a spring and damper per taxel, max(0, stiffness * depth**exponent + damping * rate), with
      springs for shear and twist that slip at the friction limit. The sum of the forces is not related to the engine's.

    The generic imperfections act on the forces, in N. Those of tactile skins act before them, also on the torques.

    Example:
        >>> pad = scene.add_sensor(sn.TactileArray(link="finger", grid=(16, 16), spacing=0.002, gain_spread=0.05))
        >>> pad.read().force   # (B, 256, 3) N
    """

    grid: tuple[int, int] | None = None
    """Rows (along y) and columns (along x) of a grid centred on the sensor's origin. Taxels are numbered row by row,
    from the smallest y and x."""
    spacing: float | None = Field(default=None, gt=0)
    """Distance between neighbouring taxels of the grid, m."""
    positions: tuple[Point, ...] | None = Field(default=None, min_length=1)
    """Alternative to ``grid``: positions of the taxels in the sensor's frame, m."""
    normals: Point | tuple[Point, ...] = (0.0, 0.0, 1.0)
    """Directions out of the skin in the sensor's frame, one for all taxels or one per taxel."""
    radius: Spread = 0.001
    """Distance by which the skin protrudes from a taxel, m, one for all taxels or one per taxel; also the radius of the
    taxel's area."""
    depth: Literal["nearest", "normal"] = "normal"
    """Which depth: into the nearest surface, or along the taxel's normal."""
    exponent: float = Field(default=1.0, gt=0)
    """Exponent of the depth: 1 for a linear spring, 1.5 for a Hertzian contact."""
    stiffness: float | None = Field(default=None, gt=0)
    """Stiffness of a taxel, N / m**exponent. Default: forces come from the engine's contacts with the tracked links, or
    from all contacts of the link if ``tracked`` is not set."""
    damping: float = Field(default=0.0, ge=0)
    """Damping of a taxel, N·s/m. Needs ``stiffness``."""
    shear_stiffness: float = Field(default=1000.0, ge=0)
    """Stiffness of a taxel against tangential motion, N/m. Needs ``stiffness``."""
    twist_stiffness: float = Field(default=0.001, ge=0)
    """Stiffness of a taxel against rotation about its normal, N·m/rad. Needs ``stiffness``."""
    friction: float = Field(default=1.0, ge=0)
    """Coefficient of friction at which shear and twist slip. Needs ``stiffness``."""
    frame: Literal["sensor", "taxel"] = "sensor"
    """Frame of the readings: the sensor's, or each taxel's own, whose z axis is its normal."""

    @model_validator(mode="after")
    def _check_taxel_options(self) -> TactileArray:
        if (self.positions is None) == (self.grid is None):
            raise ValueError("give either grid=(rows, columns) with a spacing, or positions")
        if (self.grid is None) != (self.spacing is None):
            raise ValueError("grid and spacing must be given together")
        if self.grid is not None and min(self.grid) < 1:
            raise ValueError(f"grid must have at least one row and one column, got {self.grid}")
        count = self.count
        if isinstance(self.radius, tuple):
            check_count("radius", self.radius, count)
        check_normals(self.normals, count)
        self._check_taxels(count)
        if self.stiffness is None:
            fields = type(self).model_fields
            unused = [name for name in _SPRING if getattr(self, name) != fields[name].default]
            if unused:
                raise ValueError(
                    f"{', '.join(unused)} needs stiffness: without it, forces come from the engine's contacts"
                )
        return self

    @property
    def count(self) -> int:
        """Number of taxels."""
        return len(self.positions) if self.positions is not None else int(np.prod(self.grid or ()))


KinematicTaxel = TactileArray


class TactileArrayData(NamedTuple):
    """Reading of n taxels, in the frame of the options."""

    force: torch.Tensor
    """Force that acts on each taxel, (B, n, 3) N; pressure is negative along the normal."""
    torque: torch.Tensor
    """Torque that acts on each taxel about its own position, (B, n, 3) N·m: twist about its normal."""


class TactileArraySensor(SkinSensor[TactileArrayData], options=TactileArray):
    """Tactile array. See :class:`TactileArray`.

    Forces of the engine are those of the substep that ended at the reading.
    """

    kind = "tactile_array"
    vector_fields = ("force", "torque")
    Data = TactileArrayData
    units = {"force": "N", "torque": "N·m"}

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        super()._declare(spec, names)
        self._wrenches = []
        if self.options.stiffness is None:
            for number, target in enumerate(self._tracked or (None,)):
                sensor = spec.add_sensor(
                    name=f"{self.uuid}:wrench{number}",
                    type=mujoco.mjtSensor.mjSENS_CONTACT,
                    reftype=mujoco.mjtObj.mjOBJ_BODY,
                    refname=self._link,  # the force acts on the second body of a contact
                )
                if target is not None:
                    sensor.objtype, sensor.objname = mujoco.mjtObj.mjOBJ_BODY, target
                sensor.intprm[:3] = _WRENCH, _NET_FORCE, 1
                self._wrenches.append(sensor.name)

    def _local(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        options, count = self.options, self.options.count
        if options.positions is not None:
            positions = np.asarray(options.positions)
        else:
            rows, columns = options.grid
            y, x = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
            flat = np.stack([x - (columns - 1) / 2, y - (rows - 1) / 2, np.zeros_like(x)], axis=-1)
            positions = flat.reshape(-1, 3) * options.spacing
        normals = unit(per_probe(options.normals, count, 3))
        return positions, normals, per_probe(options.radius, count, 1)[:, 0]

    def _plotted_pictures(
        self, measured: Mapping[str, np.ndarray], truth: Mapping[str, np.ndarray]
    ) -> Sequence[Picture]:
        positions = self._local()[0]
        forces = skin_picture("force", "N", positions, measured["force"], truth["force"])
        twists = (measured["torque"][:, 2], truth["torque"][:, 2])
        return [forces, skin_picture("torque about z", "N·m", positions, *twists)]

    def _rigid_depth(self) -> float | None:
        return 0.0 if self.options.depth == "normal" else None

    def _get_return_format(self) -> Format:
        n = self.options.count
        return {"force": (n, 3), "torque": (n, 3)}

    def _channels(self) -> dict[str, slice]:
        return {"": slice(0, 3 * self.options.count)}

    def _draw(self, painter: Painter, env: int) -> None:
        """Draw the taxels, and the forces on them with 5 cm per newton."""
        super()._draw(painter, env)
        if self.options.frame != "sensor":
            return
        world = self.group.world
        probes = self._probes(world.model)
        origin, rotation = (world.bind(name)[env, probes.link].double().numpy(force=True) for name in ("xpos", "xmat"))
        rotation = rotation.reshape(3, 3)
        forces = self._truths.force[env].double().numpy(force=True) @ (rotation @ self._frame()[1]).T
        for position, force in zip(origin + probes.positions @ rotation.T, forces, strict=True):
            painter.arrow(position, 0.05 * force, width=0.002)

    @classmethod
    def _build_group(cls, group: SensorGroup[TactileArrayBackend]) -> TactileArrayBackend:
        return GpuTactileArray(group) if group.is_gpu else CpuTactileArray(group)
