"""What sensors deliver during a step, collected over some steps: values with times of capture and arrival."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

if TYPE_CHECKING:
    from sensorium.cameras.camera import CameraSensor
    from sensorium.sensors.base import Sensor

Drained = tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]
"""Field -> values of n samples (n, ...), capture times and arrival times (n,) s."""


class Collected:
    """Samples of some steps."""

    def __init__(self) -> None:
        self._rows: list[tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]] = []

    def _keep(self, values: dict[str, np.ndarray], capture: np.ndarray, arrival: np.ndarray) -> None:
        self._rows.append((values, capture, arrival))

    def drain(self) -> Drained:
        """Return the samples so far, and forget them."""
        if not self._rows:
            return {}, np.zeros(0), np.zeros(0)
        fields = self._rows[0][0]
        values = {name: np.concatenate([row[0][name] for row in self._rows]) for name in fields}
        times = [np.concatenate([row[k] for row in self._rows]) for k in (1, 2)]
        self._rows.clear()
        return values, times[0], times[1]


class StepReads:
    """What sensors read in this step in all envs: each is read once, for all files."""

    def __init__(self) -> None:
        self._samples: dict[str, tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray]] = {}
        self._truths: dict[str, dict[str, np.ndarray]] = {}

    def clear(self) -> None:
        """Forget everything, at the next step."""
        self._samples.clear()
        self._truths.clear()

    def samples(self, sensor: Sensor[Any]) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
        """Return values (B, n, ...) by field, capture and arrival times (B, n), and counts (B,)."""
        if sensor.uuid not in self._samples:
            samples = sensor.read_samples()
            values = {name: value.numpy(force=True) for name, value in fields_of(samples.values).items()}
            times = (samples.capture.numpy(force=True), samples.arrival.numpy(force=True))
            count = np.minimum(samples.count.numpy(force=True), samples.capture.shape[1])
            self._samples[sensor.uuid] = (values, *times, count)
        return self._samples[sensor.uuid]

    def truth(self, sensor: Sensor[Any]) -> dict[str, np.ndarray]:
        """Return the ground truth by field, (B, ...)."""
        if sensor.uuid not in self._truths:
            truth = sensor.read_ground_truth(history_length=0)
            self._truths[sensor.uuid] = {name: value.numpy(force=True) for name, value in fields_of(truth).items()}
        return self._truths[sensor.uuid]


class SampleSource(Collected):
    """The samples of one sensor that arrive in one env."""

    def __init__(self, reads: StepReads, sensor: Sensor[Any], env: int) -> None:
        super().__init__()
        self._reads, self._sensor, self._env = reads, sensor, env

    def take(self, now: float, offset: float) -> None:
        """Collect the samples that arrived during the last step; ``offset`` (s) is added to their times."""
        values, capture, arrival, count = self._reads.samples(self._sensor)
        n, env = int(count[self._env]), self._env
        if n:
            own = {name: value[env, :n] for name, value in values.items()}
            self._keep(own, capture[env, :n] + offset, arrival[env, :n] + offset)


class TruthSource(Collected):
    """The ground truth of one sensor in one env, in every step."""

    def __init__(self, reads: StepReads, sensor: Sensor[Any], env: int) -> None:
        super().__init__()
        self._reads, self._sensor, self._env = reads, sensor, env

    def take(self, now: float, offset: float) -> None:
        """Collect the ground truth of now."""
        env = slice(self._env, self._env + 1)
        values = {name: value[env].copy() for name, value in self._reads.truth(self._sensor).items()}
        time = np.array([now + offset])
        self._keep(values, time, time)


class CameraSource:
    """The frames of one camera that arrive in one env."""

    def __init__(self, camera: CameraSensor, env: int) -> None:
        self.camera, self._env = camera, env
        self._last: float | None = None

    def restart(self, time: float) -> None:
        """Skip the frame that was captured at a reset, which a driver would not deliver."""
        self._last = round(time, 9)

    def take(self, now: float) -> tuple[dict[str, np.ndarray], float, float] | None:
        """Return images (1, H, W, ...) by output, capture and arrival time, s; None if no new frame has arrived."""
        capture, arrival = self._times(now)
        if self._last is not None and capture == self._last:
            return None
        self._last = capture
        images = self.camera.read(envs=[self._env])
        if self.camera.options.history_length:
            images = type(images)(*(None if each is None else each[:, 0] for each in images))
        named = zip(images._fields, images, strict=True)
        return {name: image.numpy(force=True) for name, image in named if image is not None}, capture, arrival

    def _times(self, now: float) -> tuple[float, float]:
        if not self.camera.is_timed:
            return now, now
        group, env = self.camera.group, self._env
        timing = group.timing(self.camera)
        lag = int(timing.lag[env])
        capture = now - (lag + float(timing.part[env])) * group.dt
        slots = len(timing.arrives)
        late = float(timing.arrives[(group.step - lag) % slots, env]) if slots and lag < slots else 0.0
        arrival = now - (lag - late) * group.dt if np.isfinite(late) else now
        return round(capture, 9), max(capture, min(arrival, now))


def fields_of(reading: torch.Tensor | NamedTuple) -> dict[str, torch.Tensor]:
    """Return field -> tensor of a reading; a plain tensor has the field ""."""
    if isinstance(reading, torch.Tensor):
        return {"": reading}
    return dict(zip(reading._fields, reading, strict=True))
