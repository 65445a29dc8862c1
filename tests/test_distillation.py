"""A student that imitates the policy of another training."""

import json
import shutil
from pathlib import Path

import pytest
import torch

import sensorium as sn
from sensorium.training import PPOOptions, evaluate_ppo, train_ppo
from sensorium.training.ppo import PPOTrainer

WALK = Path(__file__).parent / "data" / "walk"
SMALL = {"n_envs": 16, "horizon": 8, "epochs": 2, "episodes": 2, "hidden": (64, 64), "teacher": str(WALK)}


@pytest.fixture
def trainer(tmp_path):
    trainer = PPOTrainer(PPOOptions(**SMALL), tmp_path, resume=False, tensorboard=False)
    yield trainer
    trainer.close()


@pytest.mark.slow
def test_the_student_learns_what_the_teacher_does(tmp_path):
    options = PPOOptions(**{**SMALL, "epochs": 10}, learning_rate=3e-3)
    trainer = PPOTrainer(options, tmp_path, resume=False, tensorboard=False)
    trainer._begin_episodes()
    losses = [trainer._update()["behavior"] for _ in range(60)]
    assert sum(losses[-5:]) < 0.3 * sum(losses[:5])
    trainer.close()


def test_the_teacher_acts_as_in_its_own_task(trainer):
    from sensorium.training.ppo_policy import load_actor

    task = trainer.task
    task.reset()
    expected = load_actor(PPOOptions.load(WALK), WALK / "best", task.as_tensordict(), 12)
    for _ in range(5):
        torch.testing.assert_close(trainer.algorithm.teacher(task.as_tensordict()), expected(task.as_tensordict()))
        task.step(torch.zeros(16, 12))


def test_a_teacher_of_ground_truth_sees_the_true_values(tmp_path):
    """It has the weights of the other, and so acts as that does when it is given the true values."""
    from tensordict import TensorDict

    from sensorium.training.ppo_policy import load_actor

    shutil.copytree(WALK, tmp_path / "truth")
    config = json.loads((WALK / "config.json").read_bytes())
    config["task_options"] = {"ground_truth": True}
    (tmp_path / "truth" / "config.json").write_text(json.dumps(config))
    options = PPOOptions(**{**SMALL, "teacher": str(tmp_path / "truth")})
    trainer = PPOTrainer(options, tmp_path / "run", resume=False, tensorboard=False)
    task = trainer.task
    for _ in range(3):
        task.step(torch.zeros(16, 12))
    seen = task.as_tensordict()
    n = seen["actor"].shape[1]
    true = TensorDict({"actor": seen["critic"][:, :n]}, batch_size=[16])
    actor = load_actor(PPOOptions.load(WALK), WALK / "best", seen, 12)
    torch.testing.assert_close(trainer.algorithm.teacher(seen), actor(true))
    assert not torch.allclose(actor(seen), actor(true), atol=1e-3)
    trainer.close()


@pytest.mark.slow
def test_a_distillation_is_resumed_exported_and_evaluated(tmp_path):
    for steps in (256, 512):
        options = PPOOptions(
            **SMALL, steps=steps, evaluate_every=256, checkpoint_every=256, task_options={"max_steps": 20}
        )
        result = train_ppo(options, tmp_path / "run", resume=steps == 512, tensorboard=False)
        assert result.steps == steps
    assert (tmp_path / "run" / "policy.onnx").exists()
    assert len(evaluate_ppo(tmp_path / "run", 2).returns) == 2


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"task": "balance"}, sn.OptionError, "was trained for 'walk', and the student for 'balance'"),
        ({"teacher": "nowhere"}, sn.DatasetError, "nowhere holds no training"),
    ],
)
def test_teachers_that_do_not_fit_raise(tmp_path, options, error, message):
    with pytest.raises(error, match=message):
        train_ppo(PPOOptions(**{**SMALL, **options}), tmp_path / "run", tensorboard=False)


def test_a_teacher_with_a_history_raises(tmp_path):
    shutil.copytree(WALK, tmp_path / "teacher")
    config = json.loads((WALK / "config.json").read_bytes())
    config["task_options"] = {"history": 3}
    (tmp_path / "teacher" / "config.json").write_text(json.dumps(config))
    with pytest.raises(sn.OptionError, match="was trained with history=3, which a teacher cannot have"):
        train_ppo(PPOOptions(**{**SMALL, "teacher": str(tmp_path / "teacher")}), tmp_path / "run", tensorboard=False)
