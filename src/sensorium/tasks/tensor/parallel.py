"""Tensor tasks of several entities as PettingZoo environments, on arrays of one env or on tensors of B envs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from sensorium._arguments import as_array, checked
from sensorium.errors import EpisodeOverError, OptionError
from sensorium.suites import pick_env
from sensorium.tasks.observation_view import Space
from sensorium.tasks.parallel import AgentsView
from sensorium.tasks.tensor.gym import Selection, Values, as_arrays
from sensorium.tasks.tensor.shared import ByEntity, SharedTensorTask

Result = tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any], dict[str, dict[str, Any]]]
"""By agent: observations, rewards, terminations, truncations and infos."""


class TensorParallelView(AgentsView):
    """A tensor task of several entities as a PettingZoo ``ParallelEnv``. Its agents are the entities, by name.

    With ``output="numpy"`` it has one env, arrays and numbers, and its user resets it. The episodes of all agents end
    together, so ``agents`` is empty then.

    With ``output="torch"`` it has B envs, and everything is a tensor of B rows on the device of the task, without a
    copy to the host and without waiting for the device. An env whose episode ends begins a new one in the same step, so
    all agents stay in ``agents``. ``infos[agent]["final_obs"]`` is the observation of all envs before that.

    An agent observes what its policy may observe: its sensors and what the task adds, nothing privileged. The view sets
    ``task.autoreset``, so a task has one view at a time.

    Args:
        task: the task; with ``n_envs=1`` for arrays.
        flatten: whether each observation is one float32 array or tensor, instead of a dict.
        render_mode: "rgb_array" for ``render()`` to return an image of the first env, (480, 640, 3) uint8.
        output: "numpy" or "torch".

    Attributes:
        task: the task.
        num_envs: number of envs, B.

    Raises:
        OptionError: the task has several envs and ``output`` is "numpy", or the render mode is unknown.

    Example:
        >>> env = sn.tasks.make("walk", entities=dogs, n_envs=1024, device="cuda").as_parallel_env(output="torch")
        >>> observations, infos = env.reset(seed=1)
        >>> actions = {agent: torch.zeros(1024, 12, device="cuda") for agent in env.agents}
        >>> observations, rewards, terminations, truncations, infos = env.step(actions)
    """

    @checked
    def __init__(
        self,
        task: SharedTensorTask,
        flatten: bool = False,
        render_mode: str | None = None,
        output: Literal["numpy", "torch"] = "numpy",
    ) -> None:
        self._use_torch = output == "torch"
        if task.n_envs != 1 and not self._use_torch:
            raise OptionError(
                f'as_parallel_env needs a task of one env, got n_envs={task.n_envs}; use output="torch" for tensors of '
                "all envs"
            )
        self.task, self.num_envs = task, task.n_envs
        self._selections = {name: Selection(member, None, flatten) for name, member in task.members.items()}
        spaces: dict[str, Space] = {name: each.space for name, each in self._selections.items()}
        actions: dict[str, Space] = {name: member.single_action_space for name, member in task.members.items()}
        super().__init__(task, spaces, actions, render_mode)
        task.autoreset = self._use_torch

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Begin an episode in every env. With a seed, it is the first episode of that seed. ``options`` are ignored.

        Returns:
            By agent: observations; and infos, ``{"episode_number": ...}``, an integer or (B,) of them.
        """
        if seed is not None:
            self.task.reseed(seed)
        observations, infos = self.task.reset()
        self.agents = list(self.possible_agents)
        numbers = {name: info["episode"] for name, info in infos.items()}
        return self._select(observations), {
            name: {"episode_number": each if self._use_torch else int(each)} for name, each in numbers.items()
        }

    def step(self, actions: Mapping[str, Any]) -> Result:
        """Apply the actions of all agents: (n,) each, with ``output="torch"`` (B, n).

        Raises:
            EpisodeOverError: the episode has ended, or ``reset()`` was not called.
            OptionError: an action is missing or cannot be used. The state is unchanged.
        """
        if not self.agents:
            raise EpisodeOverError("there are no agents left: call reset()")
        if self._use_torch:
            return self._step_tensors(actions)
        if not isinstance(actions, Mapping):
            raise OptionError(f"actions must be a mapping of agents to actions, got {actions!r:.80}")
        rows = {name: self._row(name, action) for name, action in actions.items()}
        observations, rewards, terminated, truncated, _ = self.task.step(rows)
        result = (
            self._select(observations),
            {name: float(rewards[name]) for name in self.agents},
            {name: bool(terminated[name]) for name in self.agents},
            {name: bool(truncated[name]) for name in self.agents},
            {name: dict[str, Any]() for name in self.agents},
        )
        if any(result[2][name] or result[3][name] for name in self.agents):
            self.agents = []
        return result

    def _row(self, name: str, action: object) -> np.ndarray:
        """Return the action of an agent as that of the only env, (1, n)."""
        row, space = as_array(action), self.action_space(name)
        if row.shape != space.shape:
            raise OptionError(f"the action of {name!r} must have shape {space.shape}, got {row.shape}")
        return row[None]

    def _step_tensors(self, actions: Mapping[str, Any]) -> Result:
        observations, rewards, terminated, truncated, infos = self.task.step(actions)
        final = {
            name: {"final_obs": each.read_final(infos[name]["final_obs"])} for name, each in self._selections.items()
        }
        return self._select(observations), rewards, terminated, truncated, final

    def _select(self, observations: ByEntity) -> dict[str, Any]:
        return {name: self._output(each.read(observations[name])) for name, each in self._selections.items()}

    def _output(self, value: Values) -> Any:
        return value if self._use_torch else pick_env(as_arrays(value), 0)
