"""Base classes of ray-casting sensors: their options, and the hooks from hits to readings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, TypeVar

import mujoco
import numpy as np
import torch
from pydantic import AllowInfNan, Field, field_validator, model_validator

from sensorium._arguments import checked_numbers
from sensorium.errors import OptionError
from sensorium.options import checked_integer
from sensorium.pipeline import SensorGroup
from sensorium.pipeline.hold import holds_output
from sensorium.sensors.base import Format, SimpleSensor
from sensorium.sensors.options import Mounted, SimpleSensorOptions
from sensorium.sensors.pictures import Picture
from sensorium.sensors.rays import kernels
from sensorium.sensors.rays.cpu_rays import CpuRays
from sensorium.sensors.rays.ray_backend import IMPERFECTIONS, RayBackend
from sensorium.sensors.rays.ray_pictures import ray_pictures
from sensorium.sensors.rays.ray_rig import RayMount, RayRig
from sensorium.worlds import Names, Painter
from sensorium.worlds.compose import pose

DataT = TypeVar("DataT")

_DRAWN = 400
"""Approximate number of rays of a sensor that are drawn."""


class RayOptions(SimpleSensorOptions, Mounted):
    """Options that all ray-casting sensors share.

    The imperfections act on the distance of each ray that has a return. They are drawn once per ray, so that all fields
    that are computed from the distance agree. A ray without a return stays without one.
    """

    unavailable = {
        "saturation": "set min_range and max_range",
        "deadband": "set min_range",
        "bandwidth": "rays are sampled one by one",
        "filter_order": "rays are sampled one by one",
    }

    min_range: float = Field(default=0.0, ge=0)
    """Minimum range, m. A nearer surface blocks the ray and gives no return."""
    max_range: float = Field(default=100.0, gt=0)
    """Maximum range, m."""
    no_hit: Annotated[float, AllowInfNan(True)] | None = None
    """Distance that a ray without a return reads: ``max_range`` (default), or a value that no distance can have, such
    as ``float("inf")``, ``float("nan")`` or -1."""
    exclude: str | tuple[str, ...] = ()
    """Links that rays pass through, in addition to the one that carries the sensor."""
    exclude_self: bool = False
    """Whether rays also pass through all links of the kinematic tree of the sensor's link, i.e. the whole robot."""
    noise_per_metre: float = Field(default=0.0, ge=0)
    """Increase of the noise's standard deviation per metre of distance."""
    ray_dropout: float = Field(default=0.0, ge=0, le=1)
    """Probability that the return of a ray is lost, for each ray independently. (``dropout`` loses whole samples.)"""

    @field_validator("interpolate")
    @classmethod
    def _interpolate(cls, value: bool) -> bool:
        if value:
            raise ValueError("must be False: a hit and a miss cannot be interpolated")
        return value

    @model_validator(mode="after")
    def _check_range(self) -> RayOptions:
        if self.min_range >= self.max_range:
            raise ValueError(
                f"min_range must be < max_range, got min_range={self.min_range:g} with max_range={self.max_range:g}"
            )
        if self.no_hit is not None and 0 < self.no_hit < self.max_range:
            raise ValueError(
                f"no_hit must not lie between 0 and max_range={self.max_range:g}, got {self.no_hit:g}; "
                "use inf, nan, -1 or max_range"
            )
        return self


class RaySensor(SimpleSensor[DataT]):
    """Base of all ray-casting sensors.

    Intermediate columns are the distances (inf without a return), on which all imperfections act. They are followed by
    the normals, bodies, intensities and times that are read, by the poses at capture if points are in the world frame,
    and by the turns of a pattern that changes.
    """

    def _make_rig(self) -> RayRig:
        """Return the rays that the sensor casts."""
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
        return self._rig.return_format

    def _get_intermediate_format(self) -> Format:
        return self._rig.intermediate_format

    def _detach(self) -> None:
        super()._detach()
        group = self.__dict__.get("group")  # a sensor that was never built has none
        backend = getattr(group, "backend", None)  # an interrupted build may end before it is set
        if isinstance(backend, CpuRays):
            backend.close()

    def _channels(self) -> dict[str, slice]:
        return {"": slice(0, self._rig.n_beams)}

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        return {name: ("custom", slice(0, 1)) for name in IMPERFECTIONS}

    def _draw(self, painter: Painter, env: int) -> None:
        """Draw rays with a return (some hundreds of them), and the returns (some thousands)."""
        backend: RayBackend = self.group.backend
        distances = self._true_distances(env)
        turns = self._true_turns(env)
        starts, ends = backend.layout.segments(self.group.world, self._position, env, distances, turns)
        hit = np.isfinite(ends).all(axis=1)
        if self._rig.scan_rate is not None:  # beams that were not scanned in this step were cast from another pose
            hit &= backend.fired_beams(self._position, env)
        painter.points(ends[hit][:: max(1, int(hit.sum()) // (8 * _DRAWN))], (1.0, 0.8, 0.1, 1.0), 0.012)
        for start, end in list(zip(starts[hit], ends[hit], strict=True))[:: max(1, int(hit.sum()) // (_DRAWN // 2))]:
            painter.line(start, end, (1.0, 0.4, 0.1, 0.25), 0.0015)

    def _plotted_pictures(
        self, measured: Mapping[str, np.ndarray], truth: Mapping[str, np.ndarray]
    ) -> Sequence[Picture]:
        own, true = (one if "distances" in one else {"distances": one["value"]} for one in (measured, truth))
        return ray_pictures(self._rig, self.options.max_range, own, true)

    def returns_in_world(self, env: int, distances: np.ndarray | None = None) -> np.ndarray:
        """Return where rays end in one env, at the sensor's current pose.

        Args:
            env: the env.
            distances: distances of all rays as the sensor reads them, m. Default: those of the current reading.

        Returns:
            (n, 3) m in the world frame, of the n rays with a return.

        Raises:
            OptionError: ``env`` is no env, or ``distances`` are not one number for each ray.
        """
        env = checked_integer("env", env, 0, self.group.n_envs - 1)
        reading = self.read()
        values = reading if isinstance(reading, torch.Tensor) else reading.distances  # type: ignore[attr-defined]
        own = values[env, 0] if self.options.history_length else values[env]
        flat = checked_numbers("distances", own.numpy(force=True) if distances is None else distances).reshape(-1)
        if len(flat) != own.numel():
            raise OptionError(f"distances must be those of {own.numel()} rays, got {len(flat)}")
        hit = np.isfinite(flat) & (flat > 0) & (flat < self.options.max_range * (1 - 1e-6))
        layout = self.group.backend.layout
        ends = layout.segments(
            self.group.world, self._position, env, np.where(hit, flat, np.inf), self._true_turns(env)
        )
        return np.asarray(ends[1][hit])

    def _true_distances(self, env: int) -> np.ndarray:
        """Return the true distances of all beams in one env, (beams,) m, inf without a return."""
        first = self._columns.start
        return self.group.truth[first : first + self._rig.n_beams, env].numpy(force=True)

    def _true_turns(self, env: int) -> np.ndarray | None:
        """Return the turn of each slot of a pattern that changes, (slots,), or None."""
        first = self._rig.first_columns(self._columns.start).get(kernels.TURNS)
        return None if first is None else self.group.truth[first : first + self._rig.n_slots, env].numpy(force=True)

    @classmethod
    def _build_group(cls, group: SensorGroup[RayBackend]) -> RayBackend:
        if group.is_gpu:
            from sensorium.sensors.rays.gpu_rays import GpuRays

            return GpuRays(group)
        return CpuRays(group)

    @classmethod
    def _reset_group(cls, group: SensorGroup[RayBackend], mask: torch.Tensor) -> None:
        group.backend.reset(mask)

    @classmethod
    def _update_raw_data(cls, group: SensorGroup[RayBackend], out: torch.Tensor) -> None:
        group.backend.update(out)

    @classmethod
    def _apply_hardware_imperfections(cls, group: SensorGroup[RayBackend], data: torch.Tensor) -> None:
        group.backend.roughen(data)
        super()._apply_hardware_imperfections(group, data)
        group.backend.hold(data)

    @classmethod
    @holds_output
    def _post_process(
        cls, group: SensorGroup[RayBackend], data: torch.Tensor, out: torch.Tensor, is_measured: bool
    ) -> None:
        group.backend.post_process(data, out)
