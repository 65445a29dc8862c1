"""``TensorTrainer``: the training of an entity in a tensor task, with its memory and its brain on the task's device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sensorium.tasks.tensor import TensorTask
from sensorium.training.evaluation import SEED
from sensorium.training.tensor_evaluation import TensorEvaluator
from sensorium.training.trainer import LOG_EVERY, Trainer


class TensorTrainer(Trainer):
    """A training on the device ``options.device``. Most users call :func:`train`.

    Observations, actions and transitions stay on the device. Losses are copied to the host after each step.
    """

    task: TensorTask[Any]  # type: ignore[assignment]

    def _make_task(self) -> TensorTask[Any]:  # type: ignore[override]
        self._last_return: float | None = None
        return self.options.make_tensor_task(self.entity, self.options.n_envs, self.options.seed)

    def _make_evaluator(self) -> TensorEvaluator:  # type: ignore[override]
        return TensorEvaluator(self.options, self.brain, self.options.episodes, self.options.seed + SEED)

    def _memory_device(self) -> str:
        return str(self.task.device)

    def _step(self) -> dict[str, float]:
        options, task, observation = self.options, self.task, self._observation
        self.brain.observe(observation)
        if self.steps < options.warmup:
            rng = np.random.default_rng([options.seed, self.steps])
            low, high = task.single_action_space.low, task.single_action_space.high
            drawn = rng.uniform(low, high, (task.n_envs, len(low))).astype(np.float32)
            action = torch.from_numpy(drawn).to(task.device)
        else:
            action = torch.as_tensor(self.entity.decide_batch(observation))
        after, reward, terminated, truncated, info = task.step(action)
        self.memory.add(observation, action, reward, info["final_obs"], terminated, truncated)
        self._observation = after
        self.steps += options.n_envs
        scalars: dict[str, float] = {}
        if self.steps // options.n_envs % LOG_EVERY == 0:
            scalars = self._take_log()
        if self.steps > options.warmup:
            scalars |= self.brain.learn(self.memory, options.gradient_steps)
        return scalars

    def _take_log(self) -> dict[str, float]:
        """Return means over the episodes that ended; raises an error if a reward was not finite."""
        means = self.task.log.take()
        self._last_return = means.get("return", self._last_return)
        self.diverged += int(means.get("ended/diverged", 0))
        return {f"episode/{name}": value for name, value in means.items() if name != "return"}

    def _begin_episodes(self) -> None:
        self.task.robot.set_noise_step(self.steps // self.options.n_envs)
        self._observation, _ = self.task.reset()

    def _mean_return(self) -> float | None:
        return self._last_return

    def _task_state(self) -> dict[str, Any]:
        self._take_log()  # so that no checkpoint follows a reward that is not finite
        return {"episode": self.task.episode.tolist(), "difficulty": self.task.difficulty.tolist()}

    def _restore_task(self, state: dict[str, Any]) -> None:
        self.task.episode.copy_(torch.tensor(state["episode"]))
        self.task.difficulty.copy_(torch.tensor(state["difficulty"]))
