"""Balance on tensors: which form ``make`` returns, its starts, rewards and ends, and learning by PPO."""

import math

import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.tasks.tensor import TensorBalance
from sensorium.training import PPOOptions, ppo_recipe, train_ppo


def balance(n_envs=4, **options):
    task = sn.tasks.make("balance", n_envs=n_envs, device="cpu", **options)
    task.reset()
    return task


def test_the_device_selects_the_form_of_the_task():
    assert isinstance(balance(), TensorBalance)
    assert isinstance(sn.tasks.make("balance"), sn.tasks.Balance)
    entity = sn.TrainableEntity(robot="balancer", sensors=[sn.IMU(link="torso")])
    assert isinstance(sn.tasks.make("balance", entity=entity), sn.tasks.Balance)
    assert isinstance(sn.tasks.make("balance", entity=entity, device="cpu"), TensorBalance)
    assert sn.tasks.names().count("balance") == 1


def test_starts_differ_and_do_not_depend_on_the_batch():
    many = balance(64, seed=3, tilt=0.2)
    lean, way, turned = many._state()
    assert lean.max() <= 0.2
    assert lean.max() > 0.15
    assert len(lean.unique()) == 64
    assert (way == 0).all()
    assert turned.max() < 1e-3
    heading = torch.atan2(many._heading[:, 1], many._heading[:, 0])
    assert heading.max() - heading.min() > 5.5
    few = balance(2, seed=3, tilt=0.2)
    assert torch.equal(few.scene.get_state(), many.scene.get_state()[:2])


def test_rewards_are_those_of_the_task_on_arrays():
    task, other = balance(3, seed=1), sn.tasks.make("balance", n_envs=3)
    other.reset()
    for _ in range(4):
        task.step(torch.tensor([[0.5, -0.2], [0.1, 0.1], [-1.0, 0.7]]))
    other._start_left = task._heading.double().numpy()
    for field in ("qpos", "qvel", "ctrl"):
        other.scene.world.bind(field).copy_(task.scene.world.bind(field))
    other.scene.forward()
    expected = other.rewards()["balance"]
    assert np.allclose(sum(task.rewards().values()), expected, atol=1e-5)
    assert len(set(expected.round(4).tolist())) == 3


def test_falls_and_being_out_of_range_terminate_without_reward():
    task = balance(3, fall=0.5, range=1.0)
    qpos = task.scene.world.bind("qpos")
    qpos[0, 3:7] = torch.tensor([math.cos(0.3), 0.0, math.sin(0.3), 0.0])
    qpos[1, 0] += 1.1
    _, reward, terminated, truncated, _ = task.step(torch.zeros(3, 2))
    assert terminated.tolist() == [True, True, False]
    assert not truncated.any()
    assert reward[:2].tolist() == [0, 0]
    assert reward[2] > 0.9
    found = task.log.take()
    assert (found["ended/fall"], found["ended/range"]) == (1, 1)


def test_a_robot_with_sensors_keeps_them():
    rig = sn.robots.SensorRig(sensors=(sn.robots.RigSensor(name="gyro", type="IMU"),))
    task = sn.tasks.make("balance", sn.robots.make("balancer", rig=rig), device="cpu", observe=("gyro/ang_vel",))
    assert task.robot.rig.names == ["gyro"]
    assert task.groups()["actor"].shape == (1, 5)  # with the last action


def test_recipes_of_ppo():
    assert ppo_recipe("balance", seed=3).n_envs == 64
    assert ppo_recipe("walk") == PPOOptions()
    with pytest.raises(sn.OptionError, match="did you mean 'horizon'"):
        ppo_recipe("balance", horizn=3)


@pytest.mark.slow
def test_ppo_learns_to_balance(tmp_path):
    options = ppo_recipe("balance", steps=120_000, evaluate_every=120_000, checkpoint_every=120_000)
    result = train_ppo(options, tmp_path / "a", tensorboard=False)
    assert result.best.fraction > 0.6  # 0.04 without learning
