"""``ContractRuns``: scenes and runs of the contract tests, which test classes configure."""

from __future__ import annotations

import unittest
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NoReturn

import torch

from sensorium.sensors import Sensor
from sensorium.sensors.base import sensor_class
from sensorium.sensors.options import SensorOptions
from sensorium.worlds import Scene

_RING_OPTIONS = {"delay", "jitter", "history_length", "substeps"}


class ContractRuns:
    """How to create and run the scenes of the contract tests."""

    imperfections: ClassVar[Mapping[str, Any]] = {"noise": 0.1}
    """Options that make the measured branch differ from ground truth. ``sensor.set`` must be able to change them."""
    seed: ClassVar[int] = 5
    """Seed of every scene."""
    device: ClassVar[str] = "cpu"
    """Device of every scene. On "cuda", use a scene without contacts: the physics of MuJoCo Warp with contacts is not
    bit-identical from run to run."""
    steps: ClassVar[int] = 40
    """Steps of every run, at least 10."""

    def make_scene(self) -> Scene:
        """Return a new, unbuilt scene without sensors, in which the signal changes within ``steps`` steps."""
        raise NotImplementedError

    def make_options(self, **options: Any) -> SensorOptions:
        """Return the sensor's options.

        Args:
            **options: options to set, such as ``uuid``, ``delay`` or those of ``imperfections``.
        """
        raise NotImplementedError

    def drive(self, scene: Scene, step: int) -> None:
        """Apply controls before a step. They must not depend on the batch size.

        Args:
            scene: the scene.
            step: number of the step, from 0.
        """

    # -- helpers ------------------------------------------------------------------------------------------------------

    @property
    def dt(self) -> float:
        """Seconds of one step of the scene."""
        return float(self.make_scene().dt)

    def start(self, n_envs: int = 3, extra: bool = False, **options: Any) -> tuple[Scene, Sensor[Any]]:
        """Build a scene with the sensor under the uuid "probe".

        Args:
            n_envs: number of envs, B.
            extra: whether to add another sensor of the class before it.
            **options: options of the sensor.

        Returns:
            The scene and the sensor.

        Raises:
            unittest.SkipTest: the class has no rings, which the options need. pytest skips the test.
        """
        own = self.make_options(uuid="probe", **options)
        cls = sensor_class(type(own))
        if not cls.uses_ring_pipeline and _RING_OPTIONS & options.keys():
            skip(f"{cls.__name__} has no rings (uses_ring_pipeline is False)")
        scene = self.make_scene()
        if extra:
            scene.add_sensor(self.make_options(uuid="other"))
        sensor: Sensor[Any] = scene.add_sensor(own)
        scene.build(n_envs=n_envs, seed=self.seed, device=self.device)
        return scene, sensor

    @property
    def latency(self) -> dict[str, float]:
        """Options of a delay and jitter of two steps each; none if the class has no rings."""
        if not sensor_class(type(self.make_options())).uses_ring_pipeline:
            return {}
        return {"delay": 2 * self.dt, "jitter": 2 * self.dt}

    def step(self, scene: Scene, step: int) -> None:
        """Make one step with the controls of :meth:`drive`."""
        self.drive(scene, step)
        scene.step()

    def run_samples(self, scene: Scene, sensor: Sensor[Any]) -> list[torch.Tensor]:
        """Make ``steps`` steps and collect the samples: readings before ``_post_process`` if it remembers the samples
        before, else readings; one (B, columns) tensor per step."""
        remembers, out = remembers_samples(sensor), []
        for step in range(self.steps):
            self.step(scene, step)
            out.append(sensor.group.reading[sensor._columns].T.clone() if remembers else flat(sensor.read()))
        return out

    def run(self, scene: Scene, sensor: Sensor[Any], read: str = "read") -> list[torch.Tensor]:
        """Make ``steps`` steps and collect the readings.

        Args:
            scene: a built scene.
            sensor: the sensor to read.
            read: "read" or "read_ground_truth".

        Returns:
            One (B, columns) tensor per step.
        """
        out = []
        for step in range(self.steps):
            self.step(scene, step)
            out.append(flat(getattr(sensor, read)()))
        return out


def remembers_samples(sensor: Sensor[Any]) -> bool:
    """Return whether a reading may depend on the samples before it, since ``_post_process`` uses its previous output or
    states. The readings of two sensors with different samples then differ, also where their samples agree."""
    group = sensor.group
    if not group.post_processed or group.states():
        return group.post_processed
    out = torch.full_like(group.snapshot, 7)
    type(sensor)._post_process(group, group.reading, out, True)
    return not same(out, group.snapshot)


def skip(reason: str) -> NoReturn:
    """Skip a test. pytest handles the exception of the standard library as its own, so that this needs no pytest."""
    raise unittest.SkipTest(reason)


def tensors(reading: torch.Tensor | Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Return the tensors of a reading: one, or one per field of a named tuple."""
    return [reading] if isinstance(reading, torch.Tensor) else list(reading)


def flat(reading: torch.Tensor | Iterable[torch.Tensor], lead: int = 1) -> torch.Tensor:
    """Return a reading as one new tensor: (B, columns), or (B, N, columns) with ``lead=2``."""
    return torch.cat([tensor.flatten(lead) for tensor in tensors(reading)], dim=lead)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two tensors have the same shape, dtype and values. Zeros of either sign count as the same."""
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
