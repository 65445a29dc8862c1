"""Rough ground of ``walk``: its heights, places per env, standing, the height scan, and what the policy observes."""

import mujoco
import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.tasks.tensor.walk_ground import RoughGround, WalkGround

QUIET = {"joints": 0.0, "speed": 0.0, "push": 0.0}
SMALL = {"size": 12.0}


def walk(n_envs=8, **options):
    task = sn.tasks.make("walk", n_envs=n_envs, **{"terrain": "rough", "ground": SMALL, "randomize": QUIET, **options})
    task.reset()
    return task


def test_heights_are_those_of_the_height_field():
    task = walk(1)
    model, data = task.scene.model, mujoco.MjData(task.scene.model)
    mujoco.mj_forward(model, data)
    points = np.random.default_rng(0).uniform(-7.0, 7.0, (300, 2))
    found = task._ground.height_at(torch.from_numpy(points)).numpy()
    geom = np.zeros(1, np.int32)
    for point, height in zip(points, found, strict=True):
        groups = np.array([1, 0, 0, 0, 0, 0], np.uint8)
        start = np.array([*point, 5.0])
        body = model.body("robot/torso").id
        seen = 5.0 - mujoco.mj_ray(model, data, start, np.array([0, 0, -1.0]), groups, 1, body, geom)
        if np.abs(point).max() > 6.0:
            assert seen == pytest.approx(-0.01)  # the flat ground beyond the map
        elif model.body(model.geom_bodyid[geom[0]]).rootid != body:
            assert seen == pytest.approx(height, abs=0.02)  # cells are triangles there, and bilinear here
    inner = task._ground._samples[10:-10, 10:-10]
    assert 0.03 < np.ptp(inner) <= 0.08
    assert not np.array_equal(WalkGround(RoughGround(**SMALL), 1)._samples, task._ground._samples)


def test_the_dog_stands_at_another_place_in_each_env_and_episode():
    task = walk()
    qpos = task.scene.world.bind("qpos")
    start = qpos[:, :3].clone()
    assert len(start[:, 0].unique()) == 8
    assert start[:, :2].abs().max() <= 3.0
    assert len(start[:, 2].unique()) == 8  # the height follows the ground
    for _ in range(100):
        _, _, terminated, _, _ = task.step(torch.zeros(8, 12))
        assert not terminated.any()
    height = task.observation()["privileged/height"][:, 0]
    assert height.min() > 0.24
    assert height.max() < 0.35
    task.reset()
    assert (qpos[:, :2] != start[:, :2]).any(dim=1).all()
    few = walk(2)
    assert torch.equal(few.scene.world.bind("qpos")[:, :3], start[:2])


def test_falls_are_judged_above_the_ground():
    task = walk(2, ground={"size": 12.0, "height": 0.5}, randomize={**QUIET, "payload": (0, 0)})
    qpos = task.scene.world.bind("qpos")
    ground = task._ground.height_at(qpos[0, :2])
    qpos[0, 2] = ground + 0.12  # below half of its height, on high ground
    assert task.failures()["fall"].tolist() == [True, False]


def test_heights_are_scanned_around_the_robot():
    task = walk(4)
    task.step(torch.zeros(4, 12))
    observation = task.observation()
    assert "heights" not in observation
    heights = observation["privileged/heights"]
    assert heights.shape == (4, 6 * 4)
    qpos = task.scene.world.bind("qpos")
    turn = torch.atan2(2 * (qpos[:, 3] * qpos[:, 6]), 1 - 2 * qpos[:, 6] ** 2)
    x, y = np.meshgrid(np.linspace(-0.5, 0.5, 6), np.linspace(-0.3, 0.3, 4), indexing="ij")
    grid = torch.from_numpy(np.column_stack([x.ravel(), y.ravel()]))
    for env in range(4):
        c, s = torch.cos(turn[env]), torch.sin(turn[env])
        points = grid @ torch.stack((torch.stack((c, s)), torch.stack((-s, c)))) + qpos[env, :2]
        expected = qpos[env, 2] - task._ground.height_at(points)
        assert torch.allclose(heights[env].double(), expected, atol=0.025)
    assert heights.std(dim=1).min() > 0.003


def test_the_policy_can_observe_heights_with_noise():
    task = walk(16, observe_heights=True, ground={**SMALL, "noise": 0.05})
    for _ in range(3):
        observation = task.step(torch.zeros(16, 12))[0]
    error = observation["heights"] - observation["privileged/heights"]
    assert 0.03 < float(error.std()) < 0.07
    assert task.groups()["actor"].shape == (16, 45 + 24)
    exact = walk(2, observe_heights=True, ground_truth=True).observation()
    assert torch.equal(exact["heights"], exact["privileged/heights"])


def test_flat_ground_is_the_default():
    task = sn.tasks.make("walk", n_envs=2)
    assert "privileged/heights" not in task.observation()
    with pytest.raises(sn.OptionError, match="terrain"):
        sn.tasks.make("walk", terrain="hilly")
