"""Entities and PPO: what the actor of an entity sees, its files, and ``PPOBrain``."""

import json
import re

import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.cli import main
from sensorium.training import (
    EntityOptions,
    PPOBrain,
    PPOOptions,
    evaluate_ppo,
    load_brain,
    load_policy,
    recipe,
    train,
    train_ppo,
)

SENSORS = {
    "sensors": [
        {"name": "imu", "type": "IMU", "mount": {"link": "torso"}, "options": {"acc_noise": 0.05}},
        {"name": "joints", "type": "JointEncoder", "options": {"delay": 0.01}},
    ]
}
PRIVILEGED = {"sensors": [{"name": "pose", "type": "FramePose", "mount": {"link": "torso"}}]}
ENTITY = EntityOptions(robot="balancer", sensors=SENSORS, privileged=PRIVILEGED)
SMALL = {"n_envs": 4, "horizon": 4, "epochs": 1, "minibatches": 1, "hidden": (16,), "episodes": 2}
SMALL |= {"task_options": {"max_steps": 6}, "evaluate_every": 32, "checkpoint_every": 32}


def options(steps=64, **changes):
    return PPOOptions(**{"task": "balance", "entity": ENTITY, "steps": steps, **SMALL, **changes})


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "balance"
    assert train_ppo(options(), folder).finished
    return folder


def entity(folder, **brain_options):
    brain_options = {"folder": folder, **brain_options}
    return sn.TrainableEntity("balancer", ENTITY.sensors, PPOBrain, brain_options=brain_options)


def test_the_actor_observes_the_sensors_of_the_entity_and_the_critic_more():
    task = options().make_task()
    assert {part.uuid for part in task.actor_parts} == {"imu", "joints", "last_action"}
    task.reset()
    groups = task.as_tensordict()
    assert groups["actor"].shape == (4, 9 + 4 + 2)  # accelerations, rates and field; two joints; two actions
    pose = task.robot.rig["pose"].read_ground_truth()
    assert groups["critic"].shape[1] >= groups["actor"].shape[1] + sum(part[0].numel() for part in pose)
    assert bool((groups["critic"] == pose.pos[:, 2:3]).any())
    assert not bool((groups["actor"] == pose.pos[:, 2:3]).any())


def test_a_training_of_an_entity_has_the_files_of_any_training(trained, tmp_path, capsys):
    assert PPOOptions.load(trained) == options()
    config = json.loads((trained / "config.json").read_bytes())
    assert config["entity"]["sensors"]["sensors"][1]["options"] == {"delay": 0.01}
    assert len(evaluate_ppo(trained, episodes=3).returns) == 3
    assert main(["play", str(trained), "--seconds", "0.1", "--out", str(tmp_path / "balance.mp4")]) == 0
    contract = json.loads((trained / "policy.json").read_bytes())
    assert {term["name"].split(".")[0] for term in contract["observations"]} == {"imu", "joints", "last_action"}
    folder = tmp_path / "halves"
    train_ppo(options(steps=32), folder, tensorboard=False)
    train_ppo(options(steps=64), folder, resume=True, tensorboard=False)
    for name in ("last/policy.safetensors", "last/policy.json", "best/policy.safetensors"):
        assert (folder / name).read_bytes() == (trained / name).read_bytes()
    with pytest.raises(sn.OptionError, match=r"entity is .* and cannot change on resume"):
        train_ppo(options(entity=None), folder, resume=True)


def test_the_brain_decides_as_the_policy_does(trained):
    robot = entity(trained)
    task = sn.tasks.make("balance", entity=robot, n_envs=3, seed=5, device="cpu")
    observation, _ = task.reset()
    expected = load_policy(trained, task)(task.as_tensordict()).detach()
    assert torch.equal(robot.decide_batch(observation, deterministic=True), expected)
    observation, *_ = task.step(expected)
    expected = load_policy(trained, task)(task.as_tensordict()).detach()
    arrays = {
        uuid: {name: part.numpy() for name, part in value.items()} if isinstance(value, dict) else value.numpy()
        for uuid, value in observation.items()
    }
    action = robot.decide_batch(arrays, deterministic=True)
    assert isinstance(action, np.ndarray)
    assert np.array_equal(action, expected.numpy())
    one = {
        uuid: {name: part[1] for name, part in value.items()} if isinstance(value, dict) else value[1]
        for uuid, value in arrays.items()
    }
    assert np.allclose(robot.decide(one, deterministic=True), expected[1], atol=1e-6)


def test_exploration_follows_the_seed(trained):
    brains = [entity(trained, seed=seed) for seed in (3, 3, 4)]
    task = sn.tasks.make("balance", entity=brains[0], n_envs=2000, seed=5, device="cpu")
    observation, _ = task.reset()
    untouched = torch.get_rng_state()
    first, second, third = (robot.brain.decide_batch(observation) for robot in brains)
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    assert torch.equal(torch.get_rng_state(), untouched)
    spread = (first - brains[0].brain.decide_batch(observation, deterministic=True)).std(dim=0)
    saved = load_policy(trained, task).distribution.std_param
    assert torch.allclose(spread, saved.detach(), rtol=0.1)


def test_observations_that_do_not_fit_are_refused(trained):
    robot = entity(trained)
    task = sn.tasks.make("balance", entity=robot, n_envs=2, device="cpu")
    observation, _ = task.reset()
    brain = robot.brain
    without = {**observation, "imu": {"lin_acc": observation["imu"]["lin_acc"]}}
    with pytest.raises(sn.OptionError, match=re.escape("'imu.ang_vel'")):
        brain.decide_batch(without)
    with pytest.raises(sn.OptionError, match=re.escape("'last_action' must have the shape (B, 2), got (2, 3)")):
        brain.decide_batch({**observation, "last_action": torch.zeros(2, 3)})
    more = {**observation, "privileged/pose": torch.full((2, 3), 7.0), "other": torch.zeros(2, 1)}
    assert torch.equal(
        brain.decide_batch(more, deterministic=True), brain.decide_batch(observation, deterministic=True)
    )


def test_a_brain_of_a_task_with_fewer_actions_than_the_robot(tmp_path):
    """The fingers of the arm do nothing in "reach"."""
    senses = {"sensors": [{"name": "joints", "type": "JointEncoder"}]}
    arm = EntityOptions(robot="franka", sensors=senses)
    train_ppo(options(steps=16, task="reach", entity=arm), tmp_path / "reach", tensorboard=False)
    robot = sn.TrainableEntity("franka", arm.sensors, PPOBrain, brain_options={"folder": tmp_path / "reach"})
    assert robot.action_space.shape != (7,)
    task = sn.tasks.make("reach", entity=robot, n_envs=2, device="cpu")
    observation, _ = task.reset()
    assert robot.decide_batch(observation, deterministic=True).shape == (2, 7)
    assert f"folder: {tmp_path / 'reach'}" in robot.to_yaml()


def test_values_without_an_axis_of_their_own_are_one_column(trained):
    brain = PPOBrain.__new__(PPOBrain)
    brain.folder, brain.device = trained, torch.device("cpu")
    assert brain._row({"height": np.arange(3.0)}, "height", ()).tolist() == [[0.0], [1.0], [2.0]]


def test_policies_that_are_no_brain_are_refused(trained, tmp_path):
    train_ppo(options(steps=16, network="gru", memory=8, entity=None), tmp_path / "gru", tensorboard=False)
    with pytest.raises(sn.OptionError, match="network='gru'"):
        entity(tmp_path / "gru")
    with pytest.raises(sn.DatasetError, match="holds no training"):
        entity(tmp_path / "none")
    with pytest.raises(sn.OptionError, match="did you mean 'best'"):
        entity(trained, which="bets")
    other = sn.TrainableEntity("quadruped", ENTITY.sensors, PPOBrain, brain_options={"folder": trained})
    with pytest.raises(sn.OptionError, match="has 2 actions, and the entity"):
        other.decide_batch({})
    header = json.loads((trained / "best" / "policy.json").read_bytes())
    old = tmp_path / "old"
    for name in ("config.json", "best/policy.safetensors"):
        (old / name).parent.mkdir(parents=True, exist_ok=True)
        (old / name).write_bytes((trained / name).read_bytes())
    header.pop("inputs")
    (old / "best" / "policy.json").write_text(json.dumps(header))
    with pytest.raises(sn.DatasetError, match="of an earlier version"):
        entity(old)
    with pytest.raises(sn.DatasetError, match="holds a training by PPO: use evaluate_ppo"):
        load_brain(trained)
    teaching = options(steps=16, teacher=str(trained))
    with pytest.raises(sn.OptionError, match="trained with entity, which a teacher cannot have"):
        train_ppo(teaching, tmp_path / "student")


def test_an_entity_and_a_robot_exclude_each_other(tmp_path):
    with pytest.raises(sn.OptionError, match="do not pass robot"):
        train_ppo(options(task_options={"robot": "balancer"}), tmp_path / "one")
    with pytest.raises(sn.OptionError, match="rig: with an entity"):
        train_ppo(options(task_options={"rig": SENSORS}), tmp_path / "two")
    assert not list(tmp_path.iterdir())


def test_a_training_by_sac_is_no_training_by_ppo(tmp_path):
    train(recipe("balance", steps=32, n_envs=2, warmup=16, episodes=1), tmp_path / "sac", tensorboard=False)
    with pytest.raises(sn.DatasetError, match="not a training by PPO"):
        entity(tmp_path / "sac")


def test_a_policy_is_refused_by_a_task_that_gives_it_something_else(tmp_path):
    senses = {
        "sensors": [
            {"name": "imu", "type": "IMU", "mount": {"link": "torso"}},
            {"name": "joints", "type": "JointEncoder"},
        ]
    }
    entity = EntityOptions(robot="balancer", sensors=senses)
    options = PPOOptions(task="balance", entity=entity, n_envs=4, steps=32, horizon=8, hidden=(8,), episodes=1)
    train_ppo(options, tmp_path / "run", tensorboard=False)
    task = sn.tasks.make("balance", n_envs=2, device="cpu")
    assert task.observation_matrix().shape[1] >= 15
    text = (
        r"observes 'imu\.mag' \(3,\), .*which the task does not give; the task gives 'attitude' \(3,\).* of an entity"
    )
    with pytest.raises(sn.DatasetError, match=text):
        load_policy(tmp_path / "run", task, which="last")
