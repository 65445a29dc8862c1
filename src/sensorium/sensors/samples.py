"""``Samples``: what arrived during a step, with the times of capture and arrival."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import torch

from sensorium.worlds import Envs, env_index

if TYPE_CHECKING:
    from sensorium.pipeline import SensorGroup
    from sensorium.sensors.base import Sensor
    from sensorium.sensors.readings import Branch

DataT = TypeVar("DataT")


class Samples(NamedTuple, Generic[DataT]):
    """The samples of one sensor that arrived during the last step, in the order of their arrival."""

    values: DataT
    """What ``read()`` returned for each, with n places: a tensor (B, n, ...), or a named tuple of such tensors. Places
    from ``count`` on are 0."""
    capture: torch.Tensor
    """(B, n) simulated time of the capture, s; infinite from ``count`` on."""
    arrival: torch.Tensor
    """(B, n) simulated time of the arrival, s; infinite from ``count`` on."""
    count: torch.Tensor  # type: ignore[assignment]  # tuple.count() is not needed here
    """(B,) int64: how many arrived. If more arrived than there are places, the oldest of them are missing."""


class SampleQueue:
    """The samples of one sensor in its ring, and their times. It is evaluated when it is read, so steps cost nothing.

    Args:
        sensor: the sensor.
        group: its group.
        rows: its return columns.
        branch: its measured branch.
    """

    def __init__(self, sensor: Sensor[Any], group: SensorGroup[Any], rows: slice, branch: Branch) -> None:
        self._sensor, self._group, self._rows, self._branch = sensor, group, rows, branch
        self._timing = group.timing(sensor)
        self._n_places = _most_arrivals(sensor, group)
        self._warned = False

    def age(self, envs: Envs) -> torch.Tensor:
        """Return the time since the capture of the reading, (B,) s."""
        late = (self._timing.lag.double() + self._timing.part.double()) * self._group.dt
        index = env_index(envs, self._group.n_envs, self._group.device)
        return late if index is None else late[index]

    def read(self, envs: Envs) -> Samples[Any]:
        """Return the samples that arrived during the last step."""
        index = env_index(envs, self._group.n_envs, self._group.device)
        arrives, offset, values = self._newest_first()
        slots = len(arrives)
        ages = torch.arange(slots, device=arrives.device, dtype=torch.float64)[:, None]
        late = arrives.double()  # ticks from the tick of a sample to its arrival
        whole = torch.ceil(late).clamp(min=0)
        arrived = (whole <= ages) & (whole > ages - self._group.ticks_per_step)
        since = torch.where(arrived, ages - late, -torch.inf)  # ticks since the arrival
        order = since.argsort(dim=0, descending=True, stable=True)  # the oldest arrival first
        count = arrived.sum(dim=0)
        self._warn(count)
        first = (count - self._n_places).clamp(min=0)  # skip the oldest
        places = torch.arange(self._n_places, device=arrives.device)[:, None]
        chosen = order.gather(0, (places + first).clamp(max=slots - 1))
        valid = places < count
        now, dt = self._now(), self._group.dt
        capture = torch.where(valid, now - (chosen + offset.double().gather(0, chosen)) * dt, torch.inf)
        arrival = torch.where(valid, now - (chosen - late.gather(0, chosen)) * dt, torch.inf)
        picked = values.gather(0, chosen[:, None].expand(-1, values.shape[1], -1))
        picked = torch.where(valid[:, None], picked, torch.zeros((), dtype=picked.dtype, device=picked.device))
        if index is not None:
            picked, capture, arrival, count = picked[..., index], capture[:, index], arrival[:, index], count[index]
        return Samples(self._branch.view(picked), capture.T.contiguous(), arrival.T.contiguous(), count)

    def _newest_first(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return arrival and offset (slots, B) and value (slots, columns, B) of the samples of the last ticks."""
        group, timing = self._group, self._timing
        if not len(timing.arrives):  # without delay, only a sample of this tick can have arrived in it
            arrives = torch.where(timing.lag == 0, 0.0, torch.inf)[None]
            return arrives, timing.part[None], self._branch.rows[None]
        assert group.ring is not None
        slots = len(timing.arrives)
        order = (group.step - torch.arange(slots, device=group.device)) % slots
        return timing.arrives[order], timing.offset[order], group.ring.ring[order][:, self._rows]

    def _now(self) -> torch.Tensor:
        """Simulated time, (B,) s."""
        return self._group.ticks.double() * self._group.dt

    def _warn(self, count: torch.Tensor) -> None:
        if self._warned or count.device.type != "cpu" or int(count.max()) <= self._n_places:
            return
        self._warned = True
        warnings.warn(
            f"{int(count.max())} samples of {self._sensor.uuid!r} arrived in a step, but read_samples() has "
            f"{self._n_places} places: the oldest are missing. Construct the sensor with the highest rate and jitter "
            "that you will set",
            stacklevel=4,
        )


def _most_arrivals(sensor: Sensor[Any], group: SensorGroup[Any]) -> int:
    """Return the most samples that can arrive in one step with the options of a sensor."""
    options, dt = sensor.options, group.dt
    period = dt if options.rate is None else max(1 / options.rate, dt)
    if options.rate is None and group.ticks_per_step > 1 and not options.substeps:
        period = dt * group.ticks_per_step  # averaged over a step
    step = dt * group.ticks_per_step
    exact = (step + options.jitter) / period
    most = math.ceil(exact - 1e-6) + (1 if options.jitter else 0)
    return max(1, min(most, group.ring_slots or 1))
