"""``RememberingEntity``: how an entity stores its transitions and learns from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from gymnasium import spaces

from sensorium.entities.brain import Brain, required_brain
from sensorium.entities.cluster_buffer import VectorizedClusterBuffer
from sensorium.entities.cluster_options import ClusterOptions
from sensorium.entities.experience_layout import ExperienceLayout
from sensorium.entities.memory import Memory
from sensorium.entities.memory_choice import AnyMemory, make_memory
from sensorium.entities.nesting import Rows
from sensorium.entities.tensor_transitions import TensorTransitions, check_all_decide
from sensorium.entities.transition_builder import TransitionBuilder
from sensorium.errors import OptionError
from sensorium.options import checked_integer
from sensorium.suites import SensorSuite
from sensorium.worlds import Envs, env_ids

AnyMemoryT = TypeVar("AnyMemoryT", bound=AnyMemory)


class RememberingEntity:
    """The memory of an entity, filled with the results of its decisions; :class:`TrainableEntity` makes these."""

    observation_space: spaces.Dict
    """Space of one env's observation."""
    action_space: spaces.Box
    """Space of one env's action."""
    suite: SensorSuite
    """The sensors of the entity."""
    brain: Brain | None
    """The brain, or None."""
    _memory_in_use: AnyMemory | None
    _transitions: TransitionBuilder | TensorTransitions | None
    _read_tensors: Callable[[], Mapping[str, Any]] | None

    @property
    def memory(self) -> AnyMemory | None:
        """The memory, or None. Assign one to continue with it, for example ``Memory.load(folder)``.

        Raises:
            OptionError: what is assigned is no memory, or one of other observations or actions.
        """
        return self._memory_in_use

    @memory.setter
    def memory(self, value: AnyMemory | None) -> None:
        if value is None:
            self._memory_in_use = self._transitions = None
            return
        if not isinstance(value, Memory | VectorizedClusterBuffer):
            raise OptionError(f"memory must be a Memory, a VectorizedClusterBuffer or None, got {value!r:.80}")
        own = ExperienceLayout.of(self.observation_space, self.action_space)
        if value.layout != own:
            raise OptionError(f"the memory has the fields {value.layout}, and the entity has {own}")
        self._use_memory(value, getattr(value, "n_envs", self.suite.n_envs))

    def start_memory(self, memory: int | ClusterOptions, n_envs: int, **options: object) -> AnyMemory:
        """Make a new, empty :attr:`memory`, and return it.

        Args:
            memory: transitions that a :class:`Memory` holds, or the options of a :class:`VectorizedClusterBuffer`.
            n_envs: number of envs, B.
            **options: further arguments of that class, for example ``shared=True`` or ``seed``.
        """
        return self._use_memory(
            make_memory(self.observation_space, self.action_space, memory, n_envs, **options), n_envs
        )

    def attach_memory(self, name: str, writer: int) -> Memory:
        """Write to the shared memory of another process, instead of a memory of its own, and return it.

        Args:
            name: ``memory.name`` there, of ``start_memory(..., shared=True)`` or of
                :meth:`VectorizedClusterBuffer.share`.
            writer: ring that this process writes.

        Raises:
            NameNotFoundError: there is no shared memory of that name.
            OptionError: another process writes that ring, or the memory is for another entity.
        """
        memory = Memory.attach(name, writer)
        own = ExperienceLayout.of(self.observation_space, self.action_space)
        if memory.layout != own:
            fields = memory.layout
            memory.close()
            raise OptionError(f"the memory {name!r} has the fields {fields}, and the entity has {own}")
        return self._use_memory(memory, memory.n_envs)

    def _use_memory(self, memory: AnyMemoryT, n_envs: int) -> AnyMemoryT:
        self._memory_in_use = memory
        self._transitions = (TransitionBuilder if self._read_tensors is None else TensorTransitions)(memory, n_envs)
        return memory

    def experience(
        self,
        reward: Rows,
        observation: Mapping[str, Any],
        terminated: Rows,
        truncated: Rows,
        due: np.ndarray | None = None,
    ) -> None:
        """Store the result of a step with the actions of :meth:`choose`.

        Args:
            reward: (B,).
            observation: observation after the step; for episodes that ended in it, their last observation.
            terminated, truncated: (B,) bool.
            due: (B,) bool, the envs that decide next. Default: all.

        Raises:
            OptionError: a reward is not finite (tensors are not validated), or there are not B of them.
        """
        if isinstance(self._transitions, TensorTransitions):
            check_all_decide("due", due)
            self._transitions.add_step(reward, observation, terminated, truncated)
        elif self._transitions is not None:
            self._transitions.add_step(reward, observation, terminated, truncated, due)

    def interrupt(self, envs: Envs = None) -> None:
        """Discard the open transitions of envs whose episodes are reset before they ended.

        In a tensor task these are all envs, or none.
        """
        ids = env_ids(envs, self.suite.n_envs)
        if isinstance(self._transitions, TensorTransitions):
            if ids is not None and 0 < len(ids) < self.suite.n_envs:
                raise OptionError(f"envs: in a tensor task, all envs are interrupted together, got {ids}; use None")
            if ids is None or len(ids):
                self._transitions.discard()
        elif self._transitions is not None and self._transitions.n_envs == self.suite.n_envs:
            self._transitions.discard(slice(None) if ids is None else ids)

    def learn(self, gradient_steps: int) -> dict[str, float]:
        """Let the brain learn from the memory, and return values to log.

        Raises:
            OptionError: the entity has no memory, or no brain that learns.
        """
        gradient_steps = checked_integer("gradient_steps", gradient_steps, lower=1)
        learn = getattr(required_brain(self.brain), "learn", None)
        if learn is None:
            raise OptionError(f"the brain {type(self.brain).__name__} does not learn: it has no method learn()")
        if self._memory_in_use is None:
            raise OptionError("the entity has no memory: make it with memory=100_000, or call start_memory()")
        log: dict[str, float] = learn(self._memory_in_use, gradient_steps)
        return log
