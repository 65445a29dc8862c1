"""What sensors that cast rays share: their options, and the steps from hits to readings."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, TypeVar

import mujoco
import numpy as np
import torch
from pydantic import AllowInfNan, Field, field_validator, model_validator

from sensorium.pipeline import SensorGroup
from sensorium.pipeline.layout import n_columns
from sensorium.sensors.base import Format, SimpleSensor
from sensorium.sensors.options import Mounted, SimpleSensorOptions
from sensorium.sensors.rays import kernels
from sensorium.sensors.rays.casting import Caster, Casting, RayMount, RayRig, loss_keys, noise_keys
from sensorium.worlds import Names, Painter
from sensorium.worlds.compose import pose

DataT = TypeVar("DataT")

_COLUMNS = {
    "distances": kernels.DISTANCES,
    "normals": kernels.NORMALS,
    "body_ids": kernels.BODY_IDS,
    "intensity": kernels.INTENSITY,
    "poses": kernels.POSES,
}
_DRAWN = 400
"""Rays that are drawn of a sensor, about."""
_MISSING = {"normals": 0.0, "body_ids": -1.0, "intensity": 0.0}


class RayOptions(SimpleSensorOptions, Mounted):
    """What the options of all ray-casting sensors share.

    The imperfections act on the distance of each ray that has a return, drawn once per ray, so that whatever is
    computed from it agrees; a ray without one stays without.
    """

    unavailable = {
        "saturation": "set min_range and max_range",
        "deadband": "set min_range",
        "bandwidth": "rays are sampled one by one",
        "filter_order": "rays are sampled one by one",
    }

    min_range: float = Field(default=0.0, ge=0)
    """Nearest return, m. Whatever is nearer blocks the ray, and gives no return."""
    max_range: float = Field(default=100.0, gt=0)
    """Farthest return, m."""
    no_hit: Annotated[float, AllowInfNan(True)] | None = None
    """What a ray without a return reads: ``max_range`` (default), or a value that no distance can have, such as
    ``float("inf")``, ``float("nan")`` or -1."""
    exclude: str | tuple[str, ...] = ()
    """Links that rays pass through, besides the one that carries the sensor."""
    exclude_self: bool = False
    """Whether rays also pass through every link of the kinematic tree of the sensor's link: the whole robot."""
    noise_per_metre: float = Field(default=0.0, ge=0)
    """What the noise's standard deviation grows by per metre of distance."""
    ray_dropout: float = Field(default=0.0, ge=0, le=1)
    """Probability that a ray's return is lost; each ray on its own. (``dropout`` loses whole samples.)"""

    @field_validator("interpolate")
    @classmethod
    def _interpolate(cls, value: bool) -> bool:
        if value:
            raise ValueError("there is nothing between a hit and a miss; leave it out")
        return value

    @model_validator(mode="after")
    def _check_range(self) -> RayOptions:
        if self.min_range >= self.max_range:
            raise ValueError(
                f"min_range must be less than max_range, got min_range={self.min_range:g} with "
                f"max_range={self.max_range:g}"
            )
        if self.no_hit is not None and 0 < self.no_hit < self.max_range:
            raise ValueError(
                f"no_hit must not be a distance below max_range={self.max_range:g}, got {self.no_hit:g}; "
                "use inf, nan, -1 or max_range"
            )
        return self


class RaySensor(SimpleSensor[DataT]):
    """The steps from hits to readings.

    Intermediate columns are the distances, inf without a return, on which all imperfections act; then what was asked
    for of normals, bodies and intensities, and the poses at capture where points are wanted in the world frame.
    """

    def _make_rig(self) -> RayRig:
        """What it casts, by its options."""
        raise TypeError(f"{type(self).__name__} must define _make_rig")

    @cached_property
    def _rig(self) -> RayRig:
        return self._make_rig()

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        options, asked_by = self.options, f"{type(self.options).__name__}(uuid={self.uuid!r})"
        body = names.body(options.link, f"{asked_by}.link").name
        others = [options.exclude] if isinstance(options.exclude, str) else options.exclude
        excluded = tuple(names.body(other, f"{asked_by}.exclude").name for other in others)
        pos, quat = pose(options.pos, options.quat, options.euler)
        matrix = np.zeros(9)
        mujoco.mju_quat2Mat(matrix, quat)
        limits = (options.min_range, options.max_range)
        self._mount = RayMount(body, pos, matrix.reshape(3, 3), excluded, options.exclude_self, limits)

    def _get_return_format(self) -> Format:
        shape = self._rig.shape
        return {name: shape if width == 1 else (*shape, width) for name, width in _widths(self._rig)}

    def _get_intermediate_format(self) -> Format:
        rig = self._rig
        columns: dict[str, tuple[int, ...]] = {
            name: (rig.n_beams, width) for name, width in _widths(rig) if name in _COLUMNS
        }
        if "points" in rig.fields and rig.in_world:
            columns["poses"] = (rig.n_slots, kernels.POSE)
        return columns

    def _channels(self) -> dict[str, slice]:
        return {"": slice(0, self._rig.n_beams)}

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return {name: ("custom", slice(0, 1)) for name in ("noise_per_metre", "ray_dropout")}

    def _draw(self, painter: Painter, env: int) -> None:
        """Rays with a return, up to where they end, some hundreds of them; and the returns, some thousands."""
        views: Any = self.group
        caster: Casting = views.caster
        starts, ends = caster.spans(self._position, env, self._true_distances(env))
        hit = np.isfinite(ends).all(axis=1)
        if self._rig.scan_rate is not None:  # what was not scanned in this step was seen from elsewhere
            hit &= caster.fired_beams(self._position, env)
        painter.points(ends[hit][:: max(1, int(hit.sum()) // (8 * _DRAWN))], (1.0, 0.8, 0.1, 1.0), 0.012)
        for start, end in list(zip(starts[hit], ends[hit], strict=True))[:: max(1, int(hit.sum()) // _DRAWN)]:
            painter.line(start, end, (1.0, 0.4, 0.1, 0.35), 0.002)

    def _true_distances(self, env: int) -> np.ndarray:
        """Ground truth of every beam in one env, inf without a return."""
        first = self._columns.start
        return self.group.truth[first : first + self._rig.n_beams, env].numpy(force=True)

    @classmethod
    def _build_group(cls, group: SensorGroup) -> None:
        views: Any = group  # what a class adds to its group
        places = [_first_columns(sensor, part) for sensor, part in zip(group.sensors, group.slices, strict=True)]
        rigs = [sensor._rig for sensor in group.sensors]
        mounts = [sensor._mount for sensor in group.sensors]
        seed = group.seed
        keyed = [(seed, sensor.uuid, rig.n_beams) for sensor, rig in zip(group.sensors, rigs, strict=True)]
        views.noise_keys = np.concatenate([noise_keys(*each) for each in keyed])
        views.loss_keys = np.concatenate([loss_keys(*each) for each in keyed])
        if group.world.is_gpu:
            from sensorium.sensors.rays.gpu_casting import GraphCaster

            views.caster = GraphCaster(group, rigs, mounts, places)
        else:
            views.caster = Caster(group, rigs, mounts, places)
        if views.caster.scans:
            group.state("signal")
            group.state("held")
        views.readers = [_RayReader(sensor, group, views.caster, i) for i, sensor in enumerate(group.sensors)]
        if group.world.is_gpu:
            views.caster.set_readers(
                [{name: to for name, _, to in reader.fields} for reader in views.readers],
                np.array([(reader.no_hit, reader.no_return) for reader in views.readers]),
                [reader.rays for reader in views.readers],
                [views.noise_keys, views.loss_keys],
            )

    @classmethod
    def _reset_group(cls, group: SensorGroup, mask: torch.Tensor) -> None:
        views: Any = group
        if not group.world.is_gpu:
            views.caster.restarted = np.flatnonzero(mask.numpy()).astype(np.int32)

    @classmethod
    def _update_raw_data(cls, group: SensorGroup, out: torch.Tensor) -> None:
        views: Any = group
        caster = views.caster
        signal = group.state("signal") if caster.scans else out  # rays that are not due keep their signal
        caster.cast(signal if group.world.is_gpu else group.array(signal))
        if caster.scans:
            out.copy_(signal)

    @classmethod
    def _apply_hardware_imperfections(cls, group: SensorGroup, data: torch.Tensor) -> None:
        views: Any = group
        if group.world.is_gpu:
            views.caster.roughen(data)
            super()._apply_hardware_imperfections(group, data)
            if views.caster.scans:
                views.caster.hold(data, group.state("held"))
            return
        caster: Caster = views.caster
        growth, loss = (group.parameters[name].numpy() for name in ("noise_per_metre", "ray_dropout"))
        kernels.roughen(caster.table, group.array(data), growth, loss, views.noise_keys, views.loss_keys, group.step)
        super()._apply_hardware_imperfections(group, data)
        if caster.scans:
            kernels.hold(caster.table, caster.fired, group.array(data), group.state("held").numpy())

    @classmethod
    def _post_process(cls, group: SensorGroup, data: torch.Tensor, out: torch.Tensor, is_measured: bool) -> None:
        views: Any = group
        if group.world.is_gpu:
            views.caster.read(data, out)
            return
        for reader in views.readers:
            reader.fill(group.array(data), group.array(out))


class _RayReader:
    """From intermediate columns of one sensor to what is read of it."""

    def __init__(self, sensor: Any, group: SensorGroup, caster: Casting, position: int) -> None:
        options = sensor.options
        self._columns = _first_columns(sensor, group.slices[position])
        self._first = self._columns[kernels.DISTANCES]
        rig = sensor._rig
        self._slots, self._n_beams, self._in_world = rig.n_slots, rig.n_beams, rig.in_world
        self._limits = caster.limits[position]
        self.no_hit = np.float32(options.max_range if options.no_hit is None else options.no_hit)
        # a point without a return is drawn at the distance that is read, where that is one
        self.no_return = self.no_hit if 0 <= self.no_hit < np.inf else np.float32(np.nan)
        self.rays = caster.mounted[position] if rig.in_world else (caster.starts[position], caster.vectors[position])
        self.fields: list[tuple[str, int, int]] = []
        to = group.return_slices[position].start
        for name, width in _widths(rig):
            self.fields.append((name, width, to))
            to += width * self._n_beams

    def fill(self, data: np.ndarray, out: np.ndarray) -> None:
        first = self._first
        for name, width, to in self.fields:
            if name == "distances":
                kernels.limit(data, first, self._n_beams, self._limits, self.no_hit, out, to)
            elif name != "points":
                source = self._columns[_COLUMNS[name]]
                missing = np.float32(_MISSING[name])
                kernels.pass_on(data, first, source, self._n_beams, width, missing, out, to)
            elif self._in_world:
                poses = self._columns[kernels.POSES]
                kernels.world_points(data, first, poses, self._slots, self._limits, self.no_return, *self.rays, out, to)
            else:
                kernels.sensor_points(data, first, self._limits, self.no_return, *self.rays, out, to)


def _widths(rig: RayRig) -> list[tuple[str, int]]:
    """The fields that are read of a ray, and how many numbers each has."""
    return [(name, 3 if name in ("points", "normals") else 1) for name in rig.fields]


def _first_columns(sensor: Any, part: slice) -> dict[int, int]:
    """The first column in the group of each kind of signal that a sensor has."""
    places, start = {}, part.start
    for name, shape in sensor._get_intermediate_format().items():
        places[_COLUMNS[name]] = start
        start += n_columns(shape)
    return places
