"""``Samples``: what arrived during a step, with the times of capture and arrival."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch

from sensorium.worlds import Envs, env_index

if TYPE_CHECKING:
    from sensorium.pipeline import SensorGroup
    from sensorium.sensors.base import Sensor
    from sensorium.sensors.readings import Branch

DataT = TypeVar("DataT")
Picked = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
_HALVES = (torch.float16, torch.bfloat16)
"""Types that kernels cannot hold."""


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
    """(B,) int64: how many arrived. If they exceed the places, those with the oldest capture are missing."""


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
        late = (self._timing.lag.double() + self._timing.part.double() + self._held()) * self._group.dt
        index = env_index(envs, self._group.n_envs, self._group.device)
        return late if index is None else late[index]

    def _held(self) -> torch.Tensor | float:
        """How much older than their ticks the captures of interpolated snapshots are, in ticks, mixed like these."""
        timing, slots = self._timing, len(self._timing.offset)
        if not self._sensor.options.interpolate or not slots:
            return 0.0
        ages = torch.stack([timing.lag, timing.lag + 1]).clamp(max=slots - 1)
        newer, older = timing.offset.double().gather(0, (self._group.step - ages.long()) % slots)
        return newer + (older - newer) * timing.part.double()

    def read(self, envs: Envs) -> Samples[Any]:
        """Return the samples that arrived during the last step."""
        index = env_index(envs, self._group.n_envs, self._group.device)
        pick = self._pick_on_cpu if self._group.device.type == "cpu" else self._pick
        picked, capture, arrival, count = pick()
        if index is not None:
            picked, capture, arrival, count = picked[..., index], capture[:, index], arrival[:, index], count[index]
        return Samples(self._branch.view(picked), capture.T.contiguous(), arrival.T.contiguous(), count)

    def _pick_on_cpu(self) -> Picked:
        """Do what :meth:`_pick` does, by a kernel: forty calls of torch take 0.7 ms, for any number of samples."""
        from sensorium.sensors import sample_kernels

        group, timing, step = self._group, self._timing, self._group.step
        if len(timing.arrives):
            assert group.ring is not None
            parts = timing.arrives, timing.offset, group.ring.ring[:, self._rows]
        else:
            parts, step = self._newest_first(), 0
        if parts[2].dtype in _HALVES:
            return self._pick()
        arrives, offset, ring = (each.numpy() for each in parts)
        values = np.zeros((self._n_places, *ring.shape[1:]), ring.dtype)
        capture, arrival = (np.full((self._n_places, group.n_envs), np.inf) for _ in range(2))
        count = np.zeros(group.n_envs, np.int64)
        ticks, dt = group.ticks.numpy(), float(group.dt)
        sample_kernels.pick_samples(
            arrives, offset, ring, int(step), ticks, group.ticks_per_step, dt, values, capture, arrival, count
        )
        found = torch.from_numpy(values), torch.from_numpy(capture), torch.from_numpy(arrival), torch.from_numpy(count)
        self._warn(found[3])
        return found

    def _pick(self) -> Picked:
        """Return values (places, columns, B), capture and arrival times (places, B) s, and how many arrived (B,)."""
        arrives, offset, values = self._newest_first()
        slots = len(arrives)
        ages = torch.arange(slots, device=arrives.device, dtype=torch.float64)[:, None]
        late = arrives.double()  # ticks from the tick of a sample to its arrival
        whole = torch.ceil(late).clamp(min=0)
        arrived = (whole <= ages) & (whole > ages - self._group.ticks_per_step)
        count = arrived.sum(dim=0)
        self._warn(count)
        kept = arrived & (arrived.cumsum(dim=0) <= self._n_places)  # those with the youngest captures
        since = torch.where(kept, ages - late, -torch.inf)  # ticks since the arrival
        # the oldest arrival first, and of those that arrived together, the oldest capture
        order = slots - 1 - since.flip(0).argsort(dim=0, descending=True, stable=True)
        places = torch.arange(self._n_places, device=arrives.device)[:, None]
        chosen = order[: self._n_places]
        valid = places < count
        now, dt = self._now(), self._group.dt
        capture = torch.where(valid, now - (chosen + offset.double().gather(0, chosen)) * dt, torch.inf)
        arrival = torch.where(valid, now - (chosen - late.gather(0, chosen)) * dt, torch.inf)
        picked = values.gather(0, chosen[:, None].expand(-1, values.shape[1], -1))
        picked = torch.where(valid[:, None], picked, torch.zeros((), dtype=picked.dtype, device=picked.device))
        return picked, capture, arrival, count

    def _newest_first(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return arrival and offset (slots, B) and value (slots, columns, B) of the samples of the last ticks."""
        group, timing = self._group, self._timing
        if not len(timing.arrives):  # without delay, only a sample of this tick can have arrived in it
            arrives = torch.where(timing.lag == 0, -timing.part, torch.inf)[None]
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
            f"{self._n_places} places: the oldest are missing. More arrive after set() raised rate or jitter, or "
            "lowered delay. Construct the sensor with the highest rate that you will set, and with max_delay",
            stacklevel=4,
        )


def _most_arrivals(sensor: Sensor[Any], group: SensorGroup[Any]) -> int:
    """Return the most samples that can arrive in one step with the options of a sensor.

    With ``max_delay``, this holds for all latencies up to it, since ``set`` may change them between two samples.
    """
    options, dt = sensor.options, group.dt
    period = dt if options.rate is None else max(1 / options.rate, dt)
    if options.rate is None and group.ticks_per_step > 1 and not options.substeps:
        period = dt * group.ticks_per_step  # averaged over a step
    step = dt * group.ticks_per_step
    spread = options.jitter if options.max_delay is None else options.max_delay  # between the latencies of two samples
    most = math.ceil((step + spread) / period - 1e-6) + (1 if spread else 0)
    return max(1, min(most, group.ring_slots or 1))
