"""The curriculum of ``walk``: difficulty per env, what it scales, and what keeps it."""

import json

import pytest
import torch

import sensorium as sn
from sensorium.training import PPOOptions, train_ppo
from sensorium.training.ppo_evaluation import run_episodes

STILL = {"joints": 0.0, "speed": 0.0, "push": 0.0}


def walk(n_envs=4, **options):
    task = sn.tasks.make("walk", n_envs=n_envs, **{"curriculum": True, **options})
    task.reset()
    return task


def test_commands_and_imperfections_begin_small():
    wide = {"forward": (-1, 1), "left": (-1, 1), "turn": (-1, 1), "standing": 0.0, "seed": 2}
    ranges = {"imu.gyro_bias": (0.1, 0.5)}
    easy, full = (walk(50, curriculum=each, randomize_sensors=ranges, **wide) for each in (True, False))
    assert (easy.difficulty == 0).all()
    assert (full.difficulty == 1).all()
    assert torch.allclose(easy.observation()["command"], 0.25 * full.observation()["command"])
    assert (easy.robot.rig["imu"].bind("gyro_bias") == 0).all()
    assert (full.robot.rig["imu"].bind("gyro_bias") >= 0.1).all()


def test_success_makes_it_harder_and_falls_make_it_easier():
    task = walk(standing=1.0, randomize=STILL, max_steps=5)
    for episode in range(1, 4):
        for _ in range(5):
            task.step(torch.zeros(4, 12))  # stands still, as commanded
        assert torch.allclose(task.difficulty, torch.tensor(0.1 * episode))
    task.scene.world.bind("qpos")[1, 3:7] = torch.tensor([0.0, 1.0, 0.0, 0.0])  # on its back
    *_, terminated, truncated, _ = task.step(torch.zeros(4, 12))
    assert terminated.tolist() == [False, True, False, False]
    assert not truncated.any()
    assert torch.allclose(task.difficulty, torch.tensor([0.3, 0.2, 0.3, 0.3]))
    task.reset()  # an episode that is cut short says nothing
    assert torch.allclose(task.difficulty, torch.tensor([0.3, 0.2, 0.3, 0.3]))


def test_difficulty_is_bounded():
    task = walk(standing=1.0, randomize=STILL, max_steps=1)
    for _ in range(12):
        task.step(torch.zeros(4, 12))
    assert (task.difficulty == 1).all()


def test_evaluations_have_the_full_difficulty_and_keep_it():
    task = walk(max_steps=3)
    seen = []

    class Still:
        def __call__(self, observation):
            seen.append(task.difficulty.clone())
            return torch.zeros(4, 12)

        def reset(self, dones=None):
            pass

    run_episodes(task, Still(), 4)
    assert (seen[0] == 1).all()
    assert (task.difficulty == 0).all()


@pytest.mark.slow
def test_resuming_restores_it(tmp_path):
    small = {"n_envs": 4, "horizon": 4, "epochs": 1, "minibatches": 1, "hidden": (16,), "episodes": 2}
    small |= {"evaluate_every": 32, "checkpoint_every": 32}
    small["task_options"] = {"max_steps": 3, "curriculum": True, "standing": 1.0, "randomize": STILL}
    train_ppo(PPOOptions(steps=64, **small), tmp_path / "whole", tensorboard=False)
    train_ppo(PPOOptions(steps=32, **small), tmp_path / "parts", tensorboard=False)
    train_ppo(PPOOptions(steps=64, **small), tmp_path / "parts", resume=True, tensorboard=False)
    states = [
        json.loads((tmp_path / each / "checkpoints" / f"{64:012d}" / "state.json").read_bytes())
        for each in ("whole", "parts")
    ]
    assert states[0]["difficulty"] == pytest.approx(states[1]["difficulty"])
    assert max(states[0]["difficulty"]) > 0
