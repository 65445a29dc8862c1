"""Reach on tensors: targets, actions as joint velocities, rewards, arms of other robots, and learning by PPO."""

import mujoco
import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.tasks.tensor import TensorReach
from sensorium.training import ppo_recipe, train_ppo
from sensorium.training.ppo_evaluation import run_episodes


def reach(n_envs=4, **options):
    task = sn.tasks.make("reach", n_envs=n_envs, device="cpu", **options)
    task.reset()
    return task


def test_targets_are_drawn_in_their_box_and_sensed():
    task = reach(64, seed=2)
    assert isinstance(task, TensorReach)
    target = task.scene.world.bind("mocap_pos")[:, 0].float()
    low, high = (torch.tensor(corner) for corner in (task.config.low, task.config.high))
    assert (target >= low).all()
    assert (target <= high).all()
    assert (target.amax(dim=0) - target.amin(dim=0) > 0.8 * (high - low)).all()
    observation = task.observation()
    assert torch.allclose(observation["privileged/target"]["pos"], target, atol=1e-5)  # the base is at the origin
    error = observation["target"]["pos"] - target
    assert 0.001 < float(error.std()) < 0.003
    before = target.clone()
    task.reset()
    assert (task.scene.world.bind("mocap_pos")[:, 0].float() != before).any(dim=1).all()
    few = reach(2, seed=2)
    assert torch.equal(few.scene.world.bind("mocap_pos")[:, 0].float(), before[:2])


def test_actions_are_velocities_of_joint_targets():
    task = reach(2, joints=0.0, speed=1.0)
    start = task.target.clone()
    action = torch.zeros(2, 7)
    action[0, 0], action[1, 3] = 1.0, -5.0  # clipped to -1
    for _ in range(20):
        task.step(action)
    moved = task.target - start
    expected = torch.zeros(2, 7, dtype=moved.dtype)
    expected[0, 0], expected[1, 3] = 0.8, -0.8
    expected[1, 3] = max(-0.8, task.scene.model.actuator("robot/joint4").ctrlrange[0] - float(start[1, 3]))
    assert torch.allclose(moved, expected, atol=1e-6)
    assert task.robot.get_joint_positions()[0, 0] == pytest.approx(0.8, abs=0.05)
    assert task.single_action_space.shape == (7,)
    assert (task.scene.world.bind("qpos")[:, 7:9] > 0.038).all()  # the fingers stay open


def test_rewards_are_those_of_the_distance_of_the_tool():
    task = reach(2, seed=4, near=0.2)
    for _ in range(5):
        task.step(torch.rand(2, 7) - 0.5)
    model, data = task.scene.model, mujoco.MjData(task.scene.model)
    data.qpos[:] = task.scene.world.bind("qpos")[1]
    data.mocap_pos[:] = task.scene.world.bind("mocap_pos")[1]
    mujoco.mj_kinematics(model, data)
    way = data.mocap_pos[0] - data.site("robot/tcp").xpos
    assert np.allclose(task.observation()["privileged/way"][1], way, atol=1e-5)
    distance = np.linalg.norm(way)
    assert float(task.rewards()["near"][1]) == pytest.approx(1 / (1 + (distance / 0.2) ** 2), abs=1e-5)
    assert float(task.last_metrics()["distance"][1]) == pytest.approx(distance, abs=1e-5)


def test_success_is_judged_at_the_end():
    class Still:
        def __call__(self, observation):
            return torch.zeros(2, 7)

        def reset(self, dones=None):
            pass

    near, far = (reach(2, max_steps=3, joints=0.0, tolerance=tolerance) for tolerance in (2.0, 0.001))
    assert run_episodes(near, Still(), 2).successes == (True, True)
    assert run_episodes(far, Still(), 2).successes == (False, False)


@pytest.mark.parametrize(("robot", "n_joints"), [("yam", 6), ("floating_gripper", 6), ("mobile_franka", 7)])
def test_other_arms(robot, n_joints):
    task = reach(2, robot=robot)
    assert task.single_action_space.shape == (n_joints,)
    before = task.tool().clone()
    for _ in range(10):
        _, reward, *_ = task.step(torch.full((2, n_joints), 0.5))
    assert torch.isfinite(reward).all()
    assert ((task.tool() - before).norm(dim=1) > 0.02).all()


def test_mistakes():
    with pytest.raises(sn.OptionError, match="'reach' needs a robot with an arm, got 'balancer'"):
        reach(robot="balancer")
    with pytest.raises(sn.OptionError, match=r"high must be >= low \(0.3, -0.35, 0.7\)"):
        reach(low=(0.3, -0.35, 0.7))


@pytest.mark.slow
def test_ppo_learns_to_reach(tmp_path):
    options = ppo_recipe("reach", steps=80_000, evaluate_every=80_000, checkpoint_every=80_000)
    result = train_ppo(options, tmp_path / "a", tensorboard=False)
    assert result.best.fraction > 0.5  # 0.13 without learning; 0.75 was measured
