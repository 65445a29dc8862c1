"""Tactile array: a skin of taxels on a link, each with the force and torque on it."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import mujoco
import numpy as np
import torch
from pydantic import Field, model_validator

from sensorium.pipeline.imperfections import Spread
from sensorium.pipeline.launch import launch, replayable
from sensorium.sensors.base import Format
from sensorium.sensors.options import SimpleSensorOptions
from sensorium.sensors.touch.kernels import share_wrenches, spring_forces
from sensorium.sensors.touch.probes import Point, ProbeSensor, Probing, check_count, check_normals, per_probe, unit
from sensorium.sensors.touch.tactile_realism import Skin, TactileRealism, realism_parameters
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
    (``positions`` and ``normals``). The skin stands ``radius`` proud of the taxels, and a taxel is loaded by its depth:
    how far a sphere of that radius goes into the nearest surface, as for a
    :class:`~sensorium.sensors.touch.contact_probe.ContactDepthProbe`.

    How deep things go in says where they press. How hard comes from one of two models. Without a ``stiffness`` it
    comes from the physics engine: the wrench of its contacts between the link and what is tracked is shared among the
    loaded taxels, so that their forces add up to it. With one, every taxel is a spring and damper of its own,
    k * depth**exponent + damping * rate, never pulling, with a spring for shear and one for twist that slip at the
    friction limit; then the sum is what that law says.

    The generic imperfections act on the forces, in newtons; those of tactile skins before them, on the torques too.

    Example:
        >>> pad = scene.add_sensor(sn.TactileArray(link="finger", grid=(16, 16), spacing=0.002, gain_spread=0.05))
        >>> pad.read().force   # (B, 256, 3) N
    """

    grid: tuple[int, int] | None = None
    """Rows (along y) and columns (along x) of a grid centred on the sensor's origin; taxels are counted row by row,
    from the smallest y and x."""
    spacing: float | None = Field(default=None, gt=0)
    """Distance between neighbours of the grid, m."""
    positions: tuple[Point, ...] | None = Field(default=None, min_length=1)
    """The taxels instead of a grid, in the sensor's frame, m."""
    normals: Point | tuple[Point, ...] = (0.0, 0.0, 1.0)
    """Direction out of the skin, in the sensor's frame, one for all or one a taxel."""
    radius: Spread = 0.001
    """How far the skin stands proud of a taxel, m, one for all or one a taxel; also the radius of the taxel's area."""
    exponent: float = Field(default=1.0, gt=0)
    """Exponent of the depth: 1 for a linear spring, 1.5 for a Hertzian contact."""
    stiffness: float | None = Field(default=None, gt=0)
    """Stiffness of a taxel, N / m**exponent. Default: forces come from the engine's contacts with what is tracked, or
    all contacts of the link where ``tracked`` is not given."""
    damping: float = Field(default=0.0, ge=0)
    """Damping of a taxel, N s/m. Needs ``stiffness``, as those below do."""
    shear_stiffness: float = Field(default=1000.0, ge=0)
    """Stiffness of a taxel against tangential motion, N/m."""
    twist_stiffness: float = Field(default=0.001, ge=0)
    """Stiffness of a taxel against rotation about its normal, N m/rad."""
    friction: float = Field(default=1.0, ge=0)
    """Coefficient of friction at which shear and twist slip."""
    frame: Literal["sensor", "taxel"] = "sensor"
    """The frame of the readings: the sensor's, or each taxel's own, whose z is its normal."""

    @model_validator(mode="after")
    def _check_taxel_options(self) -> TactileArray:
        if (self.positions is None) == (self.grid is None):
            raise ValueError("give the taxels as grid=(rows, columns) with a spacing, or as positions")
        if (self.grid is None) != (self.spacing is None):
            raise ValueError("grid and spacing belong together")
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
                    f"{', '.join(unused)} needs a stiffness: without one, forces come from the engine's contacts"
                )
        return self

    @property
    def count(self) -> int:
        """Number of taxels."""
        return len(self.positions) if self.positions is not None else int(np.prod(self.grid or ()))


KinematicTaxel = TactileArray


class TactileArrayData(NamedTuple):
    """What n taxels read, in the frame of the options."""

    force: torch.Tensor
    """Force that acts on each taxel, (B, n, 3) N: pressing is against the normal, so negative along it."""
    torque: torch.Tensor
    """Torque that acts on each taxel about its own position, (B, n, 3) N m: twist, along its normal."""


class TactileArraySensor(ProbeSensor[TactileArrayData], options=TactileArray):
    """See :class:`TactileArray`. Engine forces are those of the substep that ended now."""

    kind = "tactile_array"
    vector_fields = ("force", "torque")
    Data = TactileArrayData

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        super()._declare(spec, names)
        self._wrenches = []
        if self.options.stiffness is None:
            for number, target in enumerate(self._tracked or (None,)):
                sensor = spec.add_sensor(
                    name=f"{self.uuid}:wrench{number}",
                    type=mujoco.mjtSensor.mjSENS_CONTACT,
                    reftype=mujoco.mjtObj.mjOBJ_BODY,
                    refname=self._link,  # the second body of a contact is the one that the force acts on
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

    def _get_return_format(self) -> Format:
        n = self.options.count
        return {"force": (n, 3), "torque": (n, 3)}

    def _channels(self) -> dict[str, slice]:
        return {"": slice(0, 3 * self.options.count)}

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return realism_parameters()

    def _draw(self, painter: Painter, env: int) -> None:
        """The taxels, and the forces on them, 5 cm a newton."""
        super()._draw(painter, env)
        if self.options.frame != "sensor":
            return
        world = self.group.world
        probes = self._probes(world.model)
        origin, rotation = (world.bind(name)[env, probes.link].numpy() for name in ("xpos", "xmat"))
        rotation = rotation.reshape(3, 3)
        forces = self._truths.force[env].double().numpy() @ (rotation @ self._frame()[1]).T
        for position, force in zip(origin + probes.positions @ rotation.T, forces, strict=True):
            painter.arrow(position, 0.05 * force, width=0.002)

    @classmethod
    def _build_group(cls, group: Any) -> None:
        super()._build_group(group)
        field, world, model = group.field, group.world, group.world.model
        locals_ = [sensor._local() for sensor in group.sensors]
        group.skin = Skin(group, [positions for positions, _, _ in locals_], width=3, blocks=2)
        axes = [tangents(normals) for _, normals, _ in locals_]  # (n, 3, 3) in the sensor's frame, rows t1, t2, normal
        rotations = [sensor._frame()[1] for sensor in group.sensors]
        in_link = np.concatenate([rows @ rotation.T for rows, rotation in zip(axes, rotations, strict=True)])
        shown = np.concatenate(
            [
                rows if sensor.options.frame == "sensor" else np.broadcast_to(np.eye(3), rows.shape)
                for rows, sensor in zip(axes, group.sensors, strict=True)
            ]
        )
        law = np.array(
            [
                (o.exponent, o.stiffness or 0.0, o.damping, o.shear_stiffness, o.twist_stiffness, o.friction)
                for o in (sensor.options for sensor in group.sensors)
            ]
        )
        addresses = [[int(model.sensor(name).adr[0]) for name in sensor._wrenches] for sensor in group.sensors]
        wrenches = np.full((len(addresses), max(1, *map(len, addresses))), -1, np.int64)
        for row, of_sensor in zip(wrenches, addresses, strict=True):
            row[: len(of_sensor)] = of_sensor
        n = len(field.probes)
        common = field.sensors, field.probes, np.ascontiguousarray(in_link), np.ascontiguousarray(shown), law
        xpos, xmat, cvel = (world.bind(name).numpy() for name in ("xpos", "xmat", "cvel"))
        com, data = world.bind("subtree_com").numpy(), world.bind("sensordata").numpy()
        group.sharing, group.springs = (
            any(sensor.options.stiffness is None for sensor in group.sensors),
            any(sensor.options.stiffness is not None for sensor in group.sensors),
        )
        group.share_arguments = (*common, wrenches, data, xpos, xmat, field.depth, np.zeros((n, 2)))
        # touching, displacement along t1 and t2 and rotation about the normal since touch
        motion = group.state("motion", 4 * n).numpy()
        root = model.body_rootid.astype(np.int64)
        group.spring_arguments = (
            *common,
            *(xmat, cvel, com, root, field.depth, field.position, field.body, motion, group.dt),
        )

    @classmethod
    @replayable
    def _update_raw_data(cls, group: Any, out: torch.Tensor) -> None:
        group.field.update()
        array = group.array(out)
        if group.sharing:
            launch(share_wrenches, *group.share_arguments, array)
        if group.springs:
            launch(spring_forces, *group.spring_arguments, array)

    @classmethod
    @replayable
    def _apply_hardware_imperfections(cls, group: Any, data: torch.Tensor) -> None:
        group.skin.imperfect(data)


def tangents(normals: np.ndarray) -> np.ndarray:
    """Frames (n, 3, 3) with rows t1, t2, normal, right-handed.

    t1 is at right angles to y (along x for normals along z), and for normals along y at right angles to x.
    """
    along_y = np.abs(normals[:, 1]) > 0.999
    across = np.where(along_y[:, None], (1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    first = unit(np.cross(across, normals))
    return np.stack([first, np.cross(normals, first), normals], axis=1)
