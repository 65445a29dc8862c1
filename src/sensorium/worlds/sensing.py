"""What a scene needs of its sensors, which lie in layers above it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import mujoco
import torch

from sensorium.tree import Module
from sensorium.worlds.names import Names
from sensorium.worlds.painter import Painter
from sensorium.worlds.world import Envs, World

SensorT = TypeVar("SensorT", bound=Module)
SensorT_co = TypeVar("SensorT_co", bound=Module, covariant=True)


class Sensing(Protocol):
    """What a scene needs of its sensors; the sensor pipeline fulfils it."""

    step_count: int
    """Steps since build."""
    on_change: Callable[[str, str, dict[str, Any]], None]
    """Is told of every change of a sensor while running: uuid, method, arguments."""

    @property
    def on_host(self) -> bool:
        """Whether ``step()`` has work to do: not where the world's own graph does it all. Fixed by ``build()``."""
        ...

    def add(self, sensor: Any) -> None: ...
    def forget(self, sensors: list[Any]) -> None: ...
    def declare(self, spec: mujoco.MjSpec, names: Names) -> None: ...
    def build(self, world: World, seed: int, dt: float) -> None: ...
    def step(self) -> None: ...
    def reset(self, envs: Envs) -> None: ...
    def read(self, envs: Envs) -> dict[str, torch.Tensor]: ...
    def describe(self) -> list[dict[str, str]]: ...
    def draw(self, painter: Painter, env: int) -> None: ...
    def close(self) -> None: ...


class SensorSpec(Protocol[SensorT_co]):
    """What ``scene.add_sensor`` takes: the options of a sensor, which know how to make it."""

    def make_sensor(self, taken: set[str]) -> SensorT_co: ...
    def make_sensing(self) -> Sensing: ...
