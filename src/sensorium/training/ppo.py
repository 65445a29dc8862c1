"""``train_ppo``: train a policy by PPO on a tensor task, with evaluations and checkpoints.

::

    DIR/config.json           options; see PPOOptions
    DIR/robot/                the robot's model file with the files that it names, if the robot is not one of a name
    DIR/checkpoints/STEPS/    networks, optimizer, random state and counters after STEPS steps
    DIR/best/                 the policy of the best evaluation
    DIR/last/                 the policy of the last checkpoint
    DIR/evaluations.json      all evaluations
    DIR/curve.png             the learning curve: evaluations over steps
    DIR/policy.onnx           the best policy when the training ended, with its contract; policy.json is the contract
    DIR/tensorboard/          scalars over steps

All envs begin new episodes after an evaluation or a checkpoint, so that what follows depends only on the contents of
the checkpoint. On the CPU, a training that was killed and is resumed takes exactly the steps that it would have taken.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from sensorium._arguments import checked
from sensorium.errors import OptionError
from sensorium.training import checkpoints, ppo_policy
from sensorium.training.curve import write_evaluations
from sensorium.training.evaluation import Evaluation
from sensorium.training.log import TrainingLog
from sensorium.training.policy_file import export_at_end
from sensorium.training.ppo_evaluation import run_episodes
from sensorium.training.ppo_memory import check_rollout, explain_too_little_memory
from sensorium.training.ppo_options import PPOOptions
from sensorium.training.robot_files import save_with_robot, with_stored_robot
from sensorium.training.run_folder import run_folder
from sensorium.training.trainer import Progress, TrainResult, torch_threads

if TYPE_CHECKING:
    from rsl_rl.algorithms import PPO

    from sensorium.training.distillation import Imitation


class PPOTrainer:
    """A training by PPO, from its start or from its newest checkpoint. Most users call :func:`train_ppo`.

    Args:
        options: options of the training.
        folder: folder of the training.
        resume: whether to continue from the newest checkpoint.
        tensorboard: whether to write a TensorBoard log.
    """

    @checked
    def __init__(self, options: PPOOptions, folder: Path, resume: bool, tensorboard: bool) -> None:
        self.options, self.folder = options, folder
        self._precision = torch.get_float32_matmul_precision()
        if torch.device(options.device).type == "cuda":
            torch.set_float32_matmul_precision("high")  # TF32: an update with 16,384 envs takes two thirds of the time
        self.task = options.make_task()
        self.env = self.task.as_rsl_rl()
        try:
            self.algorithm = self._make_algorithm()
        except BaseException:
            self.task.close()
            torch.set_float32_matmul_precision(self._precision)
            raise
        self.steps = 0
        self.evaluations: list[dict[str, Any]] = []
        self.best: Evaluation | None = None
        self.diverged = 0
        self._recent: float | None = None
        checkpoint = checkpoints.newest(folder / "checkpoints") if resume else None
        if checkpoint is not None:
            self._restore(checkpoint)
        self._log = TrainingLog(folder, self.steps, tensorboard)

    def _make_algorithm(self) -> PPO | Imitation:
        observation, n_actions = self.env.get_observations(), self.env.num_actions
        check_rollout(self.options, observation, n_actions)
        if self.options.teacher is None:
            return ppo_policy.make_ppo(self.options, observation, n_actions)
        from sensorium.training.distillation import Imitation

        return Imitation(self.options, self.task, observation, n_actions)

    def run(self, progress: Callable[[Progress], None], stop: Callable[[], bool]) -> TrainResult:
        """Train until the last step, or until ``stop()`` returns True."""
        start, first = time.perf_counter(), self.steps
        per_update = self.options.n_envs * self.options.horizon
        evaluation: Evaluation | None = None
        finished, saved = True, self.steps
        with torch_threads(self.options.threads):
            self._begin_episodes()
            while self.steps < self.options.steps:
                if stop():
                    finished = False
                    break
                losses = self._update()
                self.steps += per_update
                seconds = time.perf_counter() - start
                rate = (self.steps - first) / seconds
                self._write_log(losses, rate)
                done = self.steps >= self.options.steps
                if done or self._passed(self.options.evaluate_every, per_update):
                    evaluation = self._evaluate()
                if done or self._passed(self.options.checkpoint_every, per_update):
                    self._save()
                    saved = self.steps
                progress(Progress(self.steps, self.options.steps, rate, self._recent, evaluation))
            if not finished and self.steps > saved:
                self._save()
            if finished and self.steps and not self.evaluations:  # resumed with no more steps than it had
                self._evaluate()
                self._save()
        return TrainResult(
            self.folder, self.steps, time.perf_counter() - start, finished, self.best, self.diverged, self.steps - first
        )

    def _update(self) -> dict[str, float]:
        """Take ``horizon`` steps in all envs and update the networks; returns the losses."""
        algorithm, env = self.algorithm, self.env
        algorithm.train_mode()
        observation = env.get_observations()
        with torch.inference_mode():
            for _ in range(self.options.horizon):
                observation, reward, dones, extras = env.step(algorithm.act(observation))
                algorithm.process_env_step(observation, reward, dones, extras)
            algorithm.compute_returns(observation)
        return dict(algorithm.update())

    def _write_log(self, losses: dict[str, float], rate: float) -> None:
        means = self.task.log.take()
        self._recent = means.get("return", self._recent)
        self.diverged += int(means.get("ended/diverged", 0))
        scalars = {f"episode/{name}": value for name, value in means.items()}
        scalars |= {f"loss/{name}": value for name, value in losses.items()}
        spread = float(self.algorithm.get_policy().output_std.detach().mean())
        scalars |= {"steps_per_second": rate, "learning_rate": self.algorithm.learning_rate, "exploration": spread}
        self._log.add(self.steps, scalars)

    def _begin_episodes(self) -> None:
        self.task.reset()
        if self.options.stagger:
            count = self.task.step_count
            count.copy_(torch.arange(len(count), device=count.device) * self.task.config.max_steps // len(count))
        for network in (self.algorithm.actor, self.algorithm.critic):
            network.reset()

    def _passed(self, every: int, per_update: int) -> bool:
        """Return whether the last update was the first one at or after a multiple of ``every``."""
        return self.steps // every > (self.steps - per_update) // every

    # -- evaluation ---------------------------------------------------------------------------------------------------

    def _evaluate(self) -> Evaluation:
        self.algorithm.eval_mode()
        result = run_episodes(self.task, self.algorithm.get_policy(), self.options.episodes)
        self.evaluations.append({"steps": self.steps, **result.summary(), "episodes": result.model_dump(mode="json")})
        write_evaluations(self.folder, self.evaluations)
        scalars = {f"evaluation/{name}": value for name, value in result.metrics.items()}
        self._log.add(self.steps, {"evaluation/return": result.mean, **scalars})
        if self.best is None or result.mean > self.best.mean:
            self.best = result
            self._save_actor("best")
        self._begin_episodes()
        return result

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        checkpoints.save(self.folder / "checkpoints", self.steps, self._write)
        self._save_actor("last")
        self._begin_episodes()

    def _save_actor(self, name: str) -> None:
        actor = self.algorithm.get_policy()
        ppo_policy.save_actor(actor, self.folder / name, self.task.actor_parts, self.env.num_actions)

    def _write(self, folder: Path) -> None:
        from safetensors.torch import save

        # not by save_file, whose error of a full disk is no OSError
        (folder / "training.safetensors").write_bytes(save(ppo_policy.to_tensors(self.algorithm)))
        state = {
            "steps": self.steps,
            "learning_rate": self.algorithm.learning_rate,
            "episode": self.task.episode.tolist(),
            "difficulty": self.task.difficulty.tolist(),
            "diverged": self.diverged,
            "evaluations": self.evaluations,
            "best": None if self.best is None else self.best.model_dump(mode="json"),
        }
        (folder / checkpoints.STATE).write_text(json.dumps(state))

    def _restore(self, folder: Path) -> None:
        from safetensors.torch import load_file

        state, tensors = checkpoints.read_state(folder), load_file(folder / "training.safetensors")
        with checkpoints.explain_wrong_state(folder):
            self.steps, self.evaluations = state["steps"], state["evaluations"]
            self.best = None if state["best"] is None else Evaluation(**state["best"])
            self.task.episode.copy_(torch.tensor(state["episode"]))
            self.task.difficulty.copy_(torch.tensor(state.get("difficulty", 1.0)))
            self.diverged = state.get("diverged", 0)  # earlier versions did not count them
            learning_rate = float(state["learning_rate"])
        ppo_policy.from_tensors(self.algorithm, tensors, learning_rate)

    def close(self) -> None:
        """Free the scene."""
        torch.set_float32_matmul_precision(self._precision)
        self._log.close()
        self.task.close()


@checked
def train_ppo(
    options: PPOOptions,
    folder: str | Path,
    *,
    resume: bool = False,
    tensorboard: bool = True,
    progress: Callable[[Progress], None] = lambda progress: None,
    stop: Callable[[], bool] = lambda: False,
) -> TrainResult:
    """Train a policy by PPO. The arguments are those of :func:`~sensorium.training.train`.

    Raises:
        OptionError: the folder is not empty, its training has other options, or rsl_rl is not installed.
        DatasetError: the folder holds no training to resume, or all its checkpoints are damaged.

    Example:
        >>> result = train_ppo(PPOOptions(task="walk", device="cuda", n_envs=4096), "runs/walk")
        >>> result.best.metrics["tracking"]      # 1 is perfect
    """
    _require_rsl_rl()
    folder = Path(folder)
    options = with_stored_robot(options, folder)
    with (
        explain_too_little_memory(options),
        run_folder(folder, resume, options, lambda path: with_stored_robot(PPOOptions.load(path), path), {"steps"}),
        closing(PPOTrainer(options, folder, resume, tensorboard)) as trainer,
    ):
        save_with_robot(options, folder)
        result = trainer.run(progress, stop)
    if result.finished:
        export_at_end(folder)
    return result


def _require_rsl_rl() -> None:
    try:
        import rsl_rl  # noqa: F401
    except ImportError:
        raise OptionError("PPO needs rsl_rl: pip install 'sensorium[train]'") from None
