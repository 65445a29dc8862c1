"""Protocols of the sensors of a scene, which are implemented in layers above this one."""

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
    """Interface of a scene to its sensors. ``sensorium.pipeline.SensorManager`` implements it."""

    step_count: int
    """Steps since ``build()``."""
    on_change: Callable[[str, str, dict[str, Any]], None]
    """Called with uuid, method and arguments of every change of a sensor while the scene runs."""

    @property
    def on_host(self) -> bool:
        """Whether ``step()`` has work to do: False if the graphs of the GPU engine do it all. Fixed by ``build()``."""
        ...

    def add(self, sensor: Any) -> None:
        """Add a sensor, before ``build()``."""
        ...

    def forget(self, sensors: list[Any]) -> None:
        """Remove sensors, before ``build()``."""
        ...

    def declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        """Add the sites and engine sensors that the sensors need to ``spec``."""
        ...

    def build(self, world: World, seed: int, dt: float) -> None:
        """Allocate the storage of all sensors and read their first samples."""
        ...

    def step(self) -> None:
        """Sample the sensors that are due, after a step of the world."""
        ...

    def reset(self, envs: Envs) -> None:
        """Restart the sensors of envs from the current state."""
        ...

    def keep_final(self, mask: torch.Tensor) -> None:
        """Keep the readings of the envs of a mask, (B,) bool, as the last ones of their episodes."""
        ...

    @property
    def episodes(self) -> torch.Tensor:
        """Number of each env's episode, (B,) int64."""
        ...

    def begin_episodes(self, envs: Envs) -> None:
        """Count an episode of envs, before their state is reset."""
        ...

    def set_episodes(self, numbers: torch.Tensor, envs: Envs, env_ids: torch.Tensor | None) -> None:
        """Set which episode, of which env, the next reset of envs begins."""
        ...

    def read(
        self, envs: Envs, history_length: int | None = None, ground_truth: bool = False
    ) -> dict[str, torch.Tensor]:
        """Return class name -> a new tensor (B, columns) of the readings of all sensors of that class."""
        ...

    def bytes_per_env(self) -> int:
        """Return the memory of one env of all sensors besides delays and histories, after ``declare``, bytes."""
        ...

    def describe(self) -> list[dict[str, str]]:
        """Return one row of a table per sensor: column -> text."""
        ...

    def draw(self, painter: Painter, env: int) -> None:
        """Draw what sensors with ``draw_debug=True`` measure in one env."""
        ...

    def close(self) -> None:
        """Free the storage."""
        ...


class SensorSpec(Protocol[SensorT_co]):
    """Interface of sensor options to ``scene.add_sensor``: they create the sensor."""

    def make_sensor(self, taken: set[str]) -> SensorT_co:
        """Create the sensor; a default uuid avoids the names in ``taken``."""
        ...

    def make_sensing(self) -> Sensing:
        """Create the object that runs all sensors of a scene."""
        ...


def sensor_table(title: str, rows: list[dict[str, str]]) -> str:
    """Return a title and a table of :meth:`Sensing.describe` as text."""
    if not rows:
        return f"{title}; no sensors"
    names = list(rows[0])
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
    lines = ["  ".join(row[name].ljust(widths[name]) for name in names).rstrip() for row in rows]
    head = "  ".join(name.ljust(widths[name]) for name in names).rstrip()
    return "\n".join([title, head, "  ".join("-" * widths[name] for name in names), *lines])
