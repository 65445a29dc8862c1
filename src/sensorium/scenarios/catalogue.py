"""Scenarios by name."""

from __future__ import annotations

from typing import Any

from sensorium.errors import NameNotFoundError, NotBuiltError, OptionError, did_you_mean, shorten
from sensorium.robots import Robot
from sensorium.scenarios.gamepad import Gamepad
from sensorium.scenarios.keyboard import Keyboard
from sensorium.scenarios.random_acceleration import RandomAcceleration
from sensorium.scenarios.random_path import RandomPath
from sensorium.scenarios.scenario import Scenario
from sensorium.worlds import Scene

_SCENARIOS: dict[str, type[Scenario[Any]]] = {
    cls.name: cls for cls in (RandomAcceleration, RandomPath, Keyboard, Gamepad)
}


def names() -> list[str]:
    """Names of all scenarios."""
    return list(_SCENARIOS)


def options_of(name: str) -> type[Any]:
    """The class of a scenario's options."""
    return _find(name).options_type


def make(name: str, scene: Scene, robot: Robot, seed: int = 0, **options: Any) -> Scenario[Any]:
    """A scenario that drives a robot of a running scene, begun in all envs.

    Args:
        name: "random-acceleration", "random-path", "keyboard" or "gamepad".
        scene: the scene, built.
        robot: the robot, as ``scene.add_module`` returned it.
        seed: what is random about it.
        **options: those of the scenario, e.g. ``speed=0.5`` of "random-path".
    """
    cls = _find(name)
    if not isinstance(robot, Robot):
        raise OptionError(f"robot must be a robot from sn.robots.make, got {robot!r}")
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise OptionError(f"seed must be an integer of at least 0, got {seed!r}")
    try:
        scene.world  # noqa: B018
    except NotBuiltError as error:
        raise NotBuiltError(f"scenarios.make({name!r}) needs a running scene: call scene.build() first") from error
    return cls(scene, robot, seed, cls.options_type(**options))


def _find(name: str) -> type[Scenario[Any]]:
    if name not in _SCENARIOS:
        hint = did_you_mean(name, _SCENARIOS) or f"; there are {shorten(_SCENARIOS)}"
        raise NameNotFoundError(f"there is no scenario {name!r}{hint}")
    return _SCENARIOS[name]
