"""Tasks of several entities as environments of PettingZoo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pettingzoo import ParallelEnv

from sensorium.errors import EpisodeOverError, OptionError, shorten
from sensorium.suites import pick_env
from sensorium.tasks.shared import SharedTask
from sensorium.tasks.shown import RENDER_MODES, Shown, Space, checked_render_mode


class ParallelView(ParallelEnv[str, Any, np.ndarray]):  # type: ignore[misc]
    """A task of several entities, in one env, as a ``ParallelEnv``: its agents are the entities, by name.

    Each step is one of the task. An agent that decides at a lower rate is handed an observation and a reward in every
    step, and ``infos[agent]["due"]`` tells whether its next action counts; in between, the last one is held, and its
    action may be left out. Agents that have ended leave ``agents``; the others go on.

    Args:
        task: with ``n_envs=1`` and ``autoreset=False``.
        flatten: whether observations are one float32 array each, images left out, instead of a dict.
        render_mode: "rgb_array" for ``render()`` to give pictures, (480, 640, 3) uint8.

    Attributes:
        task: what it shows.
    """

    def __init__(self, task: SharedTask, flatten: bool = False, render_mode: str | None = None) -> None:
        if task.n_envs != 1:
            raise OptionError(f"as_parallel_env takes a task of one env, and this one has {task.n_envs}")
        if task.config.autoreset:
            raise OptionError("whoever steps a ParallelEnv resets it: make the task with autoreset=False")
        self.task = task
        self.render_mode = checked_render_mode(render_mode)
        self.metadata = {
            "name": f"sensorium_{task.name}_v0",
            "render_modes": list(RENDER_MODES),
            "render_fps": round(1 / task.config.dt),
            "is_parallelizable": True,
        }
        self.possible_agents = list(task.entities)
        self.agents: list[str] = []
        self._shown = {name: Shown(suite, None, flatten) for name, suite in task.suites.items()}
        self.observation_spaces: dict[str, Space] = {name: shown.space for name, shown in self._shown.items()}
        self.action_spaces: dict[str, Space] = {
            name: member.single_action_space for name, member in task.members.items()
        }

    def observation_space(self, agent: str) -> Space:
        """Of one agent: the same object at each call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Space:
        """Of one agent: the same object at each call."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Begin an episode; with a seed, the first one of that seed. ``options`` are not used."""
        if seed is not None:
            self.task.reseed(seed)
        observations, infos = self.task.reset()
        self.agents = list(self.possible_agents)
        told = {
            name: {"episode_number": int(info["episode"][0]), "due": bool(info["due"][0])}
            for name, info in infos.items()
        }
        return self._see(observations), told

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Act once, all agents that have not ended.

        Raises:
            EpisodeOverError: all have; or there was no reset yet.
            OptionError: an action is that of an agent that has ended, or cannot be used. Nothing was done.
        """
        if not self.agents:
            raise EpisodeOverError("there are no agents left: call reset()")
        gone = [name for name in actions if name in self.possible_agents and name not in self.agents]
        if gone:
            raise OptionError(f"{gone[0]!r} has ended and cannot act; there are {shorten(self.agents)}")
        told = {name: _row(name, action) for name, action in actions.items()}
        observations, rewards, terminated, truncated, infos = self.task.step(told)
        result = (
            self._see(observations),
            {name: float(rewards[name][0]) for name in self.agents},
            {name: bool(terminated[name][0]) for name in self.agents},
            {name: bool(truncated[name][0]) for name in self.agents},
            {name: _of_one(infos[name]) for name in self.agents},
        )
        self.agents = [name for name in self.agents if not (result[2][name] or result[3][name])]
        return result

    def _see(self, observations: Mapping[str, Any]) -> dict[str, Any]:
        return {name: pick_env(self._shown[name].of_all(observations[name]), 0) for name in self.agents}

    def render(self) -> np.ndarray | None:
        """A picture, (480, 640, 3) uint8; None without a ``render_mode``."""
        return None if self.render_mode is None else self.task.render()

    def close(self) -> None:
        """Free the scene."""
        self.task.close()


def _row(name: str, action: Any) -> np.ndarray:
    try:
        return np.asarray(action)[None]
    except ValueError:
        raise OptionError(f"the action of {name!r} must be an array of numbers, and this one is ragged") from None


def _of_one(info: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: bool(info[name][0]) for name in ("success", "due")}
    return told | {"failed": info["failed"][0]} if "failed" in info else told
