"""``Scenario``: base class of the scenarios, which drive a robot step by step."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import ClassVar, Generic, Self, TypeVar

import numpy as np
import torch

from sensorium._arguments import checked
from sensorium.errors import OptionError
from sensorium.options import Options
from sensorium.pipeline.formula import key
from sensorium.robots import Robot
from sensorium.scenarios import kernels
from sensorium.tree import Buffer, Module
from sensorium.worlds import Envs, Scene, env_ids

OptionsT = TypeVar("OptionsT", bound=Options)

_UPRIGHT = 0.5
"""Cosine of the tilt beyond which a robot has fallen."""


class Scenario(Module, Generic[OptionsT]):
    """Drives one robot of a running scene in all envs.

    ``step()`` decides and acts; ``scene.step()`` advances the simulation. A scenario is the root of a component tree:
    ``robot``, its own buffers (tag "scenario", on the host), then the rest of ``scene``. ``scenario.update_state()``,
    ``scenario.state_dict(include_tags=["rgb"])``, ``scenario.enable_rgb_rendering()`` and the like work on all of them,
    and ``load_state_dict()`` continues where ``state_dict()`` was taken. It may also be registered below the scene
    (``scene.add_child("scenario", scenario)``), to be recorded with it. Random numbers depend on (seed, env, number of
    the draw) only, so an env is driven in the same way in a batch of any size.

    Args:
        scene: the scene, built.
        robot: the robot to drive, which is in the scene.
        seed: seed of the random numbers.
        options: the options.

    Raises:
        OptionError: the robot is not in the scene, or has no actions or unlimited ones.

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
    """Name in :func:`make`."""
    options_type: ClassVar[type[Options]] = Options

    @checked
    def __init__(self, scene: Scene, robot: Robot, seed: int, options: OptionsT) -> None:
        if robot not in scene.modules.values():
            raise OptionError(f"{robot!r} is not in this scene: call scene.add_robot(robot), then scene.build()")
        self.options: OptionsT = options
        self.robot = self._robot = robot
        self._scene, self._seed = scene, seed
        self._moves = {name: robot.action_names.index(name) for name in _BASE_ACTIONS if name in robot.action_names}
        self._limits = robot.action_limits.double().numpy()
        if not len(self._limits) or not np.isfinite(self._limits).all():
            raise OptionError(
                f"{self.name} needs a robot with limited actions, got {robot!r}; give its actuators a ctrlrange, or "
                "give actions to scene.add_robot"
            )

    # -- the tree -----------------------------------------------------------------------------------------------------

    @property
    def scene(self) -> Scene:
        """The scene."""
        return self._scene

    def _root_slots(self) -> Iterator[tuple[str, Module | Buffer]]:
        yield from self._slots()
        yield "scene", self._scene

    def _write_replay_data(self) -> None:
        self._scene._write_replay_data()  # the full state first: the robot follows, before the rest of the scene

    # -- public methods -----------------------------------------------------------------------------------------------

    def reset(self, envs: Envs = None) -> None:
        """Restart the scenario in envs (default: all), after ``scene.reset(envs)``. The action there becomes 0."""
        ids = np.arange(self._scene.n_envs) if envs is None else env_ids(envs, self._scene.n_envs)
        assert ids is not None
        if len(ids):
            self._robot.act(torch.zeros(len(ids), self._robot.n_actions), envs=ids)
            self._begin(ids)

    def step(self) -> torch.Tensor:
        """Choose the action of the next step and give it to the robot.

        Returns:
            Whether each env is done, (B,) bool: the scenario has ended there, or the robot has fallen over.
        """
        self._robot.act(self._decide())
        done = self._done()
        if self._fallen is not None:
            done = done | self._fallen
        return torch.from_numpy(done).to(self._scene.device)

    def close(self) -> None:
        """Release resources such as a terminal or a device."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- hooks of a scenario ------------------------------------------------------------------------------------------

    def _begin(self, ids: np.ndarray) -> None:
        """Restart the state of these envs."""

    def _decide(self) -> torch.Tensor:
        """Return the action of the next step, (B, n_actions) or (n_actions,)."""
        raise TypeError(f"{type(self).__name__} must define _decide")

    def _done(self) -> np.ndarray:
        """Return whether each env is done, (B,) bool."""
        return np.zeros(self._scene.n_envs, dtype=bool)

    # -- helpers of a scenario ----------------------------------------------------------------------------------------

    _fallen: np.ndarray | None = None

    def _pose(self) -> np.ndarray:
        """Return x, y in m and yaw in rad of the robot, (B, 3), and remember which robots have fallen."""
        position, quat = (part.double().numpy(force=True) for part in self._robot.get_pose())
        pose, up = np.empty((len(position), 3)), np.empty(len(position))
        kernels.headings(position, quat, pose, up)
        self._fallen = up < _UPRIGHT
        return pose

    def _keys(self, count: int) -> np.ndarray:
        """Return keys of random numbers, (count, 2)."""
        keys = [key(self._seed, f"scenario {self.name}", element) for element in range(count)]
        return np.array(keys, dtype=np.uint32)

    def _buffer(self, *shape: int, dtype: type = np.float64) -> tuple[Buffer, np.ndarray]:
        """Return a buffer of zeros with one row per env, and the array behind it."""
        array: np.ndarray = np.zeros((self._scene.n_envs, *shape), dtype)
        return Buffer(torch.from_numpy(array), {"scenario"}), array

    def _need(self, *names: str) -> None:
        """Raise OptionError unless the robot has these actions."""
        missing = [name for name in names if name not in self._moves]
        if missing:
            raise OptionError(
                f"{self.name} needs the actions {', '.join(names)}, but {self._robot.name!r} has "
                f"{', '.join(self._robot.action_names)}; define them with scene.add_robot(..., actions=...)"
            )

    def _all_actions(self, moves: np.ndarray) -> torch.Tensor:
        """Return actions of the robot for forward, left and turn, (B, 3); all others are 0."""
        actions = np.zeros((len(moves), self._robot.n_actions))
        for column, name in enumerate(_BASE_ACTIONS):
            if name in self._moves:
                actions[:, self._moves[name]] = moves[:, column]
        return torch.from_numpy(actions)


_BASE_ACTIONS = ("forward", "left", "turn")
