"""Episodes that end since the physics diverged, and trainings that end before an evaluation is due."""

import json

import pytest
from test_training import QUICK

from sensorium.cli import main
from sensorium.training import PPOOptions, recipe, tensor_trainer, train, train_ppo
from sensorium.training import trainer as trainer_module
from sensorium.training.log import TrainingLog
from sensorium.training.ppo import PPOTrainer
from sensorium.training.trainer import Trainer

SLOW_ARRAYS, SLOW_TENSORS = (pytest.param(kind, marks=pytest.mark.slow) for kind in ("arrays", "tensors"))

# -- episodes whose physics diverged -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [SLOW_ARRAYS, SLOW_TENSORS, "ppo"])
def test_diverged_episodes_are_counted(tmp_path, capsys, monkeypatch, kind):
    """Three envs diverge, and one more after a resume."""
    broken = [2, 0, 1]

    def break_env(now):
        if broken and now.steps % 24 == 0:
            trainers[-1].task.scene.world.bind("qvel")[broken.pop(), :] = 1e12

    trainers, logged = [], []
    owner = PPOTrainer if kind == "ppo" else Trainer
    start = owner.__init__

    def make(self, *arguments):
        start(self, *arguments)
        trainers.append(self)

    monkeypatch.setattr(owner, "__init__", make)
    monkeypatch.setattr(trainer_module, "LOG_EVERY", 2)
    monkeypatch.setattr(tensor_trainer, "LOG_EVERY", 2)
    monkeypatch.setattr(TrainingLog, "add", lambda self, steps, values: logged.append(values))
    if kind == "ppo":
        sizes = {"n_envs": 4, "horizon": 2, "hidden": (16,), "episodes": 2, "minibatches": 1}
        options = PPOOptions(task="balance", steps=96, task_options={"max_steps": 30}, **sizes)
        run = train_ppo
    else:
        device = None if kind == "arrays" else "cpu"
        options, run = recipe("balance", **{**QUICK, "steps": 96, "device": device, "warmup": 200}), train
    result = run(options, tmp_path / "run", tensorboard=False, progress=break_env)
    assert not broken
    assert result.diverged == 3
    assert sum(values.get("episode/ended/diverged", 0) for values in logged) == 3
    broken.append(3)
    more = options.model_copy(update={"steps": 192})
    assert run(more, tmp_path / "run", resume=True, tensorboard=False, progress=break_env).diverged == 4
    arguments = ["train", "balance", "--out", str(tmp_path / "run"), "--resume", "--steps", "200", "--no-tensorboard"]
    assert main(arguments) == 0
    assert "the physics diverged in 4 episodes, which ended there" in capsys.readouterr().out


# -- trainings that end before an evaluation is due -------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["arrays", "tensors", "ppo"])
def test_training_that_stopped_early_is_evaluated_when_its_steps_are_enough(tmp_path, capsys, kind):
    folder, seen = tmp_path / "run", []
    how = {"tensorboard": False, "progress": seen.append, "stop": lambda: len(seen) == 3}
    if kind == "ppo":
        sizes = {"n_envs": 4, "horizon": 2, "hidden": (16,), "episodes": 2, "minibatches": 1}
        result = train_ppo(PPOOptions(task="balance", steps=96, task_options={"max_steps": 30}, **sizes), folder, **how)
    else:
        result = train(recipe("balance", **{**QUICK, "device": None if kind == "arrays" else "cpu"}), folder, **how)
    assert not result.finished
    assert result.best is None  # the end of an interrupted training does not wait for episodes
    assert result.new_steps == result.steps == (24 if kind == "ppo" else 12)
    arguments = ["train", "balance", "--out", str(folder), "--resume", "--no-tensorboard", "--steps"]
    assert main([*arguments, str(result.steps)]) == 0
    output = capsys.readouterr().out
    assert (folder / "curve.png").is_file()
    assert main(["evaluate", str(folder), "--episodes", "2"]) == 0
    assert f"nothing to train: {folder} has {result.steps} steps, and --steps is {result.steps}" in output
    assert [each["steps"] for each in json.loads((folder / "evaluations.json").read_bytes())] == [result.steps]
    assert main([*arguments, "40"]) == 0
    assert "nothing to train" not in capsys.readouterr().out
    assert [each["steps"] for each in json.loads((folder / "evaluations.json").read_bytes())] == [result.steps, 40]
