"""``Policy``: the base of all policies of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from sensorium.errors import OptionError
from sensorium.suites import DictSensor, ObservationSensor
from sensorium.tasks.task import Task
from sensorium.worlds import Envs


class Policy:
    """The base of policies. Derive from it and define :meth:`get_action`.

    Args:
        task: the task in which it acts. ``task.register_policy(policy)`` connects the two.

    Example:
        >>> class Still(sn.policies.Policy):
        ...     def get_action(self, observation):
        ...         return np.zeros((self.task.n_envs, self.task.robot.n_actions))
    """

    task: Task[Any]
    phases: ClassVar[tuple[str, ...]] = ()
    """Names of the phases that the policy goes through."""

    def __init__(self, task: Task[Any]) -> None:
        if not hasattr(task, "n_envs") or not hasattr(task, "robot"):
            raise OptionError(f"{type(self).__name__}: task must be a task, got {task!r:.80}")
        self.task = task
        self._phase_index = {name: number for number, name in enumerate(self.phases)}

    def get_all_phases(self) -> dict[str, int]:
        """Return the phases of the policy: name -> index. Empty if it has none."""
        return dict(self._phase_index)

    def use_phase_index(self, index: Mapping[str, int]) -> None:
        """Number the phases as a policy does that combines several policies.

        Args:
            index: name -> index, of at least the phases of this policy.
        """
        if not isinstance(index, Mapping):
            raise OptionError(f"index must be a mapping of names to numbers, got {index!r:.80}")
        self._phase_index = dict(index)

    def phase(self, env: int) -> str:
        """Return the name of the current phase in an env."""
        raise TypeError(f"{type(self).__name__} must define phase(env)")

    def _phase_sensor(self) -> DictSensor:
        """Return the sensor ``policy_phase``: dicts ``{"phase": name, "index": int}``.

        The index is that of :meth:`get_all_phases`, or -1 for a phase that ``phases`` does not name.
        """

        def read() -> list[dict[str, Any]]:
            names = [self.phase(env) for env in range(self.task.n_envs)]
            return [{"phase": name, "index": self._phase_index.get(name, -1)} for name in names]

        return DictSensor("policy_phase", read, self.task.config.str_max_len)

    def get_action(self, observation: dict[str, Any]) -> np.ndarray:
        """Return the next action, (B, n). Rows of envs that are done are ignored.

        Args:
            observation: the observation of the suite.
        """
        raise TypeError(f"{type(self).__name__} must define get_action(observation)")

    def reset(self, envs: Envs = None) -> None:
        """Handle the start of an episode in some envs. Does nothing by default."""

    def create_policy_sensors(self) -> list[ObservationSensor]:
        """Return the sensors that the policy contributes to the suite. ``task.register_policy`` calls it once."""
        return []
