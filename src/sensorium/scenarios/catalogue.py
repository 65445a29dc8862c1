"""The catalogue of scenarios."""

from __future__ import annotations

from typing import Any

from sensorium._arguments import checked
from sensorium.errors import NameNotFoundError, NotBuiltError, OptionError, did_you_mean, shorten
from sensorium.options import Options
from sensorium.robots import Robot
from sensorium.scenarios.gamepad import Gamepad
from sensorium.scenarios.keyboard import Keyboard
from sensorium.scenarios.random_acceleration import RandomAcceleration
from sensorium.scenarios.random_path import RandomPath
from sensorium.scenarios.scenario import Scenario
from sensorium.worlds import Scene, SceneRobot

_SCENARIOS: dict[str, type[Scenario[Any]]] = {
    cls.name: cls for cls in (RandomAcceleration, RandomPath, Keyboard, Gamepad)
}


def names() -> list[str]:
    """Return the names of all scenarios."""
    return list(_SCENARIOS)


@checked
def options_of(name: str) -> type[Options]:
    """Return the class of the options of a scenario."""
    return _find(name).options_type


@checked
def make(name: str, scene: Scene, robot: SceneRobot, seed: int = 0, **options: Any) -> Scenario[Any]:
    """Create a scenario that drives a robot of a running scene, and start it in all envs.

    Args:
        name: "random-acceleration", "random-path", "keyboard" or "gamepad".
        scene: the scene, built.
        robot: the robot that ``scene.add_robot`` returned.
        seed: seed of the random numbers.
        **options: options of the scenario, e.g. ``speed=0.5`` of "random-path".

    Raises:
        NameNotFoundError: there is no such scenario.
        NotBuiltError: the scene was not built.

    Example:
        >>> scenario = sn.scenarios.make("random-path", scene, robot, seed=0, speed=0.5)
    """
    cls = _find(name)
    if not isinstance(robot, Robot):
        raise OptionError(f"robot must be a robot that scene.add_robot returned, got {robot!r}")
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise OptionError(f"seed must be an integer >= 0, got {seed!r}")
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
