"""Distillation: a policy that imitates a teacher, by rsl_rl, with the files of a training by PPO."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rsl_rl.algorithms import Distillation
from rsl_rl.storage import RolloutStorage
from tensordict import TensorDict

from sensorium.errors import OptionError
from sensorium.tasks.tensor import TensorTask
from sensorium.tasks.tensor.observations import Observations
from sensorium.training.ppo_options import PPOOptions
from sensorium.training.ppo_policy import load_actor, make_network
from sensorium.training.run_folder import brain_folder

if TYPE_CHECKING:
    from rsl_rl.models import MLPModel


_EXPLORATION = 0.1
"""Default standard deviation of the student's actions: so much that it sees what its own errors lead to."""


class Teacher(torch.nn.Module):
    """The policy of another training, which observes what it was trained with, in the scene of the student.

    It may observe ground truth, and readings that the student does not observe.

    Args:
        folder: folder of the teacher's training by PPO.
        task: the task of the student.
        n_actions: number of actions.

    Raises:
        OptionError: the teacher is of another task, sees images or a history, has a memory, or is an entity's policy.
        DatasetError: the folder holds no policy for the robot's readings and actions.
    """

    is_recurrent = False

    def __init__(self, folder: Path, task: TensorTask[Any], n_actions: int) -> None:
        super().__init__()
        options = PPOOptions.load(folder)
        config = options.make_config()
        if options.task != task.name:
            raise OptionError(f"teacher: {folder} was trained for {options.task!r}, and the student for {task.name!r}")
        for name, value, plain in (
            ("history", config.history, 1),
            ("observe_cameras", config.observe_cameras, ()),
            ("network", options.network, "mlp"),
            ("entity", options.entity, None),
        ):
            if value != plain:
                what = name if name == "entity" else f"{name}={value!r}"
                raise OptionError(f"teacher: {folder} was trained with {what}, which a teacher cannot have")
        self._observations = Observations(task.robot, config.observe, config.ground_truth, task.observe, dict)
        parts = self._observations.actor_parts
        self._actor = load_actor(options, brain_folder(folder, "best"), self._observed(), n_actions, parts)

    def _observed(self) -> TensorDict:
        self._observations.update()
        seen = self._observations.values[:, : self._observations.n_actor]
        return TensorDict({"actor": seen}, batch_size=[len(seen)], device=seen.device)

    def forward(self, obs: TensorDict) -> torch.Tensor:
        """Return the mean actions (B, n) for the current state. ``obs`` is what the student observes of it."""
        actions: torch.Tensor = self._actor(self._observed())
        return actions

    def reset(self, dones: torch.Tensor | None = None, hidden_state: object = None) -> None:
        """Do nothing: there is no memory."""

    def get_hidden_state(self) -> None:
        """Return None: there is no memory."""


class Imitation(Distillation):  # type: ignore[misc]  # rsl_rl has no types
    """rsl_rl's distillation with the names and the files of its PPO, so that one trainer runs both.

    The student acts, with exploration, and learns what the teacher would have done in its place.
    """

    def __init__(self, options: PPOOptions, task: TensorTask[Any], observation: TensorDict, n_actions: int) -> None:
        assert options.teacher is not None
        device = str(observation.device)
        torch.manual_seed(options.seed)
        quiet = {} if "exploration" in options.model_fields_set else {"exploration": _EXPLORATION}
        super().__init__(
            make_network(options.model_copy(update=quiet), observation, "actor", n_actions),
            Teacher(Path(options.teacher), task, n_actions),
            RolloutStorage("distillation", options.n_envs, options.horizon, observation, [n_actions], device),
            num_learning_epochs=options.epochs,
            gradient_length=options.horizon,
            learning_rate=options.learning_rate,
            max_grad_norm=1.0,
            device=device,
        )

    @property
    def actor(self) -> MLPModel:
        """The student."""
        return self.student

    @property
    def critic(self) -> Teacher:
        """The teacher."""
        return self.teacher

    def save(self) -> dict[str, Any]:
        """Return the student and the optimizer; see rsl_rl's PPO."""
        return {
            "actor_state_dict": self.student.state_dict(),
            "critic_state_dict": {},
            "optimizer_state_dict": self.optimizer.state_dict(),
        }

    def load(self, loaded_dict: dict[str, Any], load_cfg: dict[str, Any] | None, strict: bool) -> bool:
        """Load what :meth:`save` returned."""
        self.student.load_state_dict(loaded_dict["actor_state_dict"], strict=strict)
        self.optimizer.load_state_dict(loaded_dict["optimizer_state_dict"])
        return True
