"""Tasks of several entities as PettingZoo environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from pettingzoo import ParallelEnv

from sensorium.errors import EpisodeOverError, OptionError, shorten
from sensorium.suites import pick_env
from sensorium.tasks.checks import check_names
from sensorium.tasks.observation_view import RENDER_MODES, ObservationView, Space, checked_render_mode
from sensorium.tasks.protocols import EntityLike
from sensorium.tasks.shared_task import SharedTask


class _Config(Protocol):
    @property
    def dt(self) -> float: ...


class AgentTask(Protocol):
    """A task of several entities, as its views see it."""

    name: str

    @property
    def entities(self) -> Mapping[str, EntityLike]: ...
    @property
    def config(self) -> _Config: ...
    def render(self, env: int = 0) -> np.ndarray:
        """Return an image of one env."""

    def close(self) -> None:
        """Free the scene."""


class AgentsView(ParallelEnv[str, Any, Any]):  # type: ignore[misc]
    """What the views of tasks of several entities have in common: agents, spaces and images.

    Args:
        task: the task.
        observation_spaces, action_spaces: spaces of one env, by agent.
        render_mode: "rgb_array" for ``render()`` to return images, (480, 640, 3) uint8.

    Raises:
        OptionError: the render mode is unknown.
    """

    def __init__(
        self,
        task: AgentTask,
        observation_spaces: dict[str, Space],
        action_spaces: dict[str, Space],
        render_mode: str | None,
    ) -> None:
        self._images, self.render_mode = task, checked_render_mode(render_mode)
        self.metadata = {
            "name": f"sensorium_{task.name}_v0",
            "render_modes": list(RENDER_MODES),
            "render_fps": round(1 / task.config.dt),
            "is_parallelizable": True,
        }
        self.possible_agents = list(task.entities)
        self.agents: list[str] = []
        self.observation_spaces, self.action_spaces = observation_spaces, action_spaces

    def observation_space(self, agent: str) -> Space:
        """Return the observation space of an agent in one env, the same object at each call."""
        check_names("agent", [agent], self.observation_spaces)
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Space:
        """Return the action space of an agent in one env, the same object at each call."""
        check_names("agent", [agent], self.action_spaces)
        return self.action_spaces[agent]

    def render(self) -> np.ndarray | None:
        """Return an image of the first env, (480, 640, 3) uint8, or None without a ``render_mode``."""
        return None if self.render_mode is None else self._images.render()

    def close(self) -> None:
        """Free the scene."""
        self._images.close()


class ParallelView(AgentsView):
    """A shared task of one env as a PettingZoo ``ParallelEnv``. Its agents are the entities, by name.

    Each step is one step of the task. An agent with a lower decision rate gets an observation and a reward in every
    step. ``infos[agent]["due"]`` says whether its next action is used. Otherwise its last action is held, and the
    action is optional. Agents whose episodes have ended are removed from ``agents``; the others continue.

    Args:
        task: made with ``n_envs=1`` and ``autoreset=False``.
        flatten: whether each observation is one float32 array without images, instead of a dict.
        render_mode: "rgb_array" for ``render()`` to return images, (480, 640, 3) uint8.

    Attributes:
        task: the task.

    Raises:
        OptionError: the task has several envs or ``autoreset``, or the render mode is unknown.
    """

    def __init__(self, task: SharedTask, flatten: bool = False, render_mode: str | None = None) -> None:
        if task.n_envs != 1:
            raise OptionError(f"as_parallel_env needs a task of one env, got n_envs={task.n_envs}")
        if task.config.autoreset:
            raise OptionError("a ParallelEnv is reset by its user: make the task with autoreset=False")
        self.task = task
        self._views = {name: ObservationView(suite, None, flatten) for name, suite in task.suites.items()}
        spaces: dict[str, Space] = {name: view.space for name, view in self._views.items()}
        actions: dict[str, Space] = {name: member.single_action_space for name, member in task.members.items()}
        super().__init__(task, spaces, actions, render_mode)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Begin an episode. With a seed, it is the first episode of that seed. ``options`` are ignored."""
        if seed is not None:
            self.task.reseed(seed)
        observations, infos = self.task.reset()
        self.agents = list(self.possible_agents)
        agent_infos = {
            name: {"episode_number": int(info["episode"][0]), "due": bool(info["due"][0])}
            for name, info in infos.items()
        }
        return self._select(observations), agent_infos

    def step(
        self, actions: Mapping[str, ArrayLike]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Step all agents whose episodes have not ended.

        Raises:
            EpisodeOverError: all have ended, or the env was never reset.
            OptionError: an action belongs to an agent that has ended, or cannot be used. The state is unchanged.
        """
        if not self.agents:
            raise EpisodeOverError("there are no agents left: call reset()")
        if not isinstance(actions, Mapping):
            raise OptionError(f"actions must be a mapping of agents to actions, got {actions!r:.80}")
        gone = [name for name in actions if name in self.possible_agents and name not in self.agents]
        if gone:
            raise OptionError(
                f"the episode of {gone[0]!r} has ended, so it cannot act; agents are {shorten(self.agents)}"
            )
        rows = {name: _row(name, action) for name, action in actions.items()}
        observations, rewards, terminated, truncated, infos = self.task.step(rows)
        result = (
            self._select(observations),
            {name: float(rewards[name][0]) for name in self.agents},
            {name: bool(terminated[name][0]) for name in self.agents},
            {name: bool(truncated[name][0]) for name in self.agents},
            {name: _single_info(infos[name]) for name in self.agents},
        )
        self.agents = [name for name in self.agents if not (result[2][name] or result[3][name])]
        return result

    def _select(self, observations: Mapping[str, Any]) -> dict[str, Any]:
        return {name: pick_env(self._views[name].select(observations[name]), 0) for name in self.agents}


def _row(name: str, action: ArrayLike) -> np.ndarray:
    try:
        return np.asarray(action)[None]
    except ValueError:
        raise OptionError(f"the action of {name!r} must be an array of numbers; this one is ragged") from None


def _single_info(info: Mapping[str, Any]) -> dict[str, Any]:
    single = {name: bool(info[name][0]) for name in ("success", "due")}
    return single | {"failed": info["failed"][0]} if "failed" in info else single
