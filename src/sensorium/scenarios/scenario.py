"""``Scenario``: what decides a robot's actions, step by step."""

from __future__ import annotations

from types import TracebackType
from typing import ClassVar, Generic, Self, TypeVar

import numpy as np
import torch

from sensorium.errors import OptionError
from sensorium.options import Options
from sensorium.pipeline.formula import key
from sensorium.robots import Robot
from sensorium.scenarios import kernels
from sensorium.tree import Buffer, Module
from sensorium.worlds import Envs, Scene, env_ids

OptionsT = TypeVar("OptionsT", bound=Options)

_UPRIGHT = 0.5
"""Cosine of the tilt from which a robot counts as fallen."""


class Scenario(Module, Generic[OptionsT]):
    """Drives one robot of a running scene, in all envs: ``step()`` decides and acts, ``scene.step()`` moves the world.

    What it remembers is in buffers (tag "scenario") on the host, so that ``state_dict()`` and ``load_state_dict()``
    continue where it was. Random numbers depend on (seed, env, number of the draw) alone: an env is driven the same
    way in a batch of any size.

    Args:
        scene: the scene, built.
        robot: the robot in it that is driven.
        seed: what is random about it.
        options: its options.

    Example:
        >>> scenario = sn.scenarios.make("random-path", scene, robot, seed=0)
        >>> for _ in range(1000):
        ...     done = scenario.step()
        ...     scene.step()
        ...     if done.any():
        ...         scene.reset(done)
        ...         scenario.reset(done)
    """

    name: ClassVar[str] = ""
    """What ``make`` calls it."""
    options_type: ClassVar[type[Options]] = Options

    def __init__(self, scene: Scene, robot: Robot, seed: int, options: OptionsT) -> None:
        if robot not in scene.parts.values():
            raise OptionError(f"{robot!r} is not in this scene: add it by scene.add_module, then scene.build()")
        self.options: OptionsT = options
        self._scene, self._robot, self._seed = scene, robot, seed
        self._moves = {name: robot.action_names.index(name) for name in _BASE_ACTIONS if name in robot.action_names}
        self._limits = robot.action_limits.double().numpy()

    # -- what callers call --------------------------------------------------------------------------------------------

    def reset(self, envs: Envs = None) -> None:
        """Begin anew in envs (default: all), after ``scene.reset(envs)``; the robot stands still there."""
        ids = np.arange(self._scene.n_envs) if envs is None else env_ids(envs, self._scene.n_envs)
        assert ids is not None
        if len(ids):
            self._robot.act(torch.zeros(len(ids), self._robot.n_actions), envs=ids)
            self._begin(ids)

    def step(self) -> torch.Tensor:
        """Decide what the robot does in the next step, and tell it.

        Returns:
            Which envs are done, (B,): the scenario has ended there, or the robot has fallen over.
        """
        self._robot.act(self._decide())
        done = self._done()
        if self._fallen is not None:
            done = done | self._fallen
        return torch.from_numpy(done).to(self._scene.device)

    def close(self) -> None:
        """Give back what it took (a terminal, a device)."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- what a scenario defines --------------------------------------------------------------------------------------

    def _begin(self, ids: np.ndarray) -> None:
        """Clear what is remembered of these envs."""

    def _decide(self) -> torch.Tensor:
        """The actions of the next step, (B, n_actions) or (n_actions,)."""
        raise TypeError(f"{type(self).__name__} must define _decide")

    def _done(self) -> np.ndarray:
        """Which envs are done, (B,) bool."""
        return np.zeros(self._scene.n_envs, dtype=bool)

    # -- what it can use ----------------------------------------------------------------------------------------------

    _fallen: np.ndarray | None = None

    def _pose(self) -> np.ndarray:
        """x, y and yaw of the robot in every env, (B, 3); notes which robots have fallen."""
        position, quat = (part.double().numpy(force=True) for part in self._robot.get_pose())
        pose, up = np.empty((len(position), 3)), np.empty(len(position))
        kernels.headings(position, quat, pose, up)
        self._fallen = up < _UPRIGHT
        return pose

    def _keys(self, count: int) -> np.ndarray:
        """Keys of random numbers, (count, 2)."""
        keys = [key(self._seed, f"scenario {self.name}", element) for element in range(count)]
        return np.array(keys, dtype=np.uint32)

    def _buffer(self, *shape: int, dtype: type = np.float64) -> tuple[Buffer, np.ndarray]:
        """A buffer of zeros, one row for each env, and the array that it shows."""
        array: np.ndarray = np.zeros((self._scene.n_envs, *shape), dtype)
        return Buffer(torch.from_numpy(array), {"scenario"}), array

    def _need(self, *names: str) -> None:
        missing = [name for name in names if name not in self._moves]
        if missing:
            raise OptionError(
                f"{self.name} drives by the actions {', '.join(names)}, and {self._robot.name!r} has only "
                f"{', '.join(self._robot.action_names)}; name its actions so (robots.make(actions=...))"
            )

    def _all_actions(self, moves: np.ndarray) -> torch.Tensor:
        """Actions of the robot from forward, left and turn, (B, 3); all others are 0."""
        actions = np.zeros((len(moves), self._robot.n_actions))
        for column, name in enumerate(_BASE_ACTIONS):
            if name in self._moves:
                actions[:, self._moves[name]] = moves[:, column]
        return torch.from_numpy(actions)


_BASE_ACTIONS = ("forward", "left", "turn")
