"""The curriculum of tensor tasks: difficulty per env, what it scales, and what keeps it."""

import json

import pytest
import torch

import sensorium as sn
from sensorium.training import PPOOptions, train_ppo
from sensorium.training.ppo_evaluation import run_episodes

STILL = {"joints": 0.0, "speed": 0.0, "push": 0.0}
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


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


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("name", "n_actions"), [("reach", 7), ("lift", 8)])
def test_imperfections_grow_where_the_goal_is_reached_and_shrink_elsewhere(name, n_actions, device):
    ranges = {"joints.bias": (0.1, 0.2), "joints.rate": (10.0, 20.0)}
    options = {"curriculum": True, "max_steps": 2, "tolerance": 5.0, "joints": 0.0, "randomize_sensors": ranges}
    task = sn.tasks.make(name, n_envs=2, device=device, **options)
    task.reset()
    still = torch.zeros(2, n_actions, device=task.device)
    encoder, rates = task.robot.rig["joints"], task.robot.rig["joints"].bind("rate")
    for episode in range(1, 4):
        for _ in range(2):
            task.step(still)
        assert torch.allclose(task.difficulty.cpu(), torch.tensor(0.1 * episode))
        bias = task.observation()["privileged/sensor_parameters"][:, :-1].cpu()
        assert (bias >= 0.1 * 0.1 * episode - 1e-6).all()
        assert (bias <= 0.2 * 0.1 * episode).all()
        assert torch.equal(encoder.bind("bias").cpu(), bias)
        assert (rates >= 10.0).all()
    if name == "lift":
        task._cube[1, 2] = -0.1  # below the table: the episode fails, though the goal is within the tolerance
    else:
        task._goal[1] += 10.0
        task.step(still)
    task.step(still)
    assert task.terminated.tolist() == [False, name == "lift"]
    expected = [0.3 if name == "lift" else 0.4, 0.2]
    assert task.difficulty.tolist() == pytest.approx(expected)
    bias = encoder.bind("bias").cpu()
    assert (bias[1] <= 0.2 * 0.2 + 1e-6).all()


@pytest.mark.parametrize("device", DEVICES)
def test_without_a_goal_an_episode_of_full_length_is_a_success(device):
    ranges = {"imu.gyro_bias": (0.1, 0.2)}
    task = sn.tasks.make("balance", n_envs=3, device=device, curriculum=True, max_steps=2, randomize_sensors=ranges)
    task.reset()
    still, bias = torch.zeros(3, 2, device=task.device), task.robot.rig["imu"].bind("gyro_bias")
    assert (bias == 0).all()
    for _ in range(6):
        task.step(still)
    assert task.difficulty.tolist() == pytest.approx([0.3] * 3)
    assert (bias >= 0.03 - 1e-6).all()
    task._position[1, 0] += 9.0  # out of range
    if device == "cpu":
        task.scene.world.bind("qvel")[2] = 1e12  # diverges
    task.step(still)
    task.step(still)
    assert task.terminated.tolist() == [False] * 3
    assert task.truncated.tolist()[0] is True
    assert task.difficulty.tolist() == pytest.approx([0.4, 0.2, 0.2 if device == "cpu" else 0.4])
    assert (bias[1] <= 0.2 * 0.2 + 1e-6).all()


def test_the_difficulty_stays_1_without_a_curriculum():
    task = sn.tasks.make("reach", n_envs=2, device="cpu", max_steps=1, tolerance=1e-9)
    task.reset()
    task.step(torch.zeros(2, 7))
    assert task.truncated.all()
    assert task.difficulty.tolist() == [1.0, 1.0]


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
