"""Lift through a camera: images of the policy, networks that see them, and training."""

import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.training import evaluate_ppo, load_policy, ppo_policy, ppo_recipe, train_ppo
from sensorium.training.play import draw_images
from sensorium.training.players import open_player

SMALL = {"n_envs": 4, "horizon": 4, "epochs": 1, "minibatches": 1, "hidden": (16,), "episodes": 2, "steps": 32}
SMALL |= {"task_options": {"camera": True, "max_steps": 6}, "evaluate_every": 32, "checkpoint_every": 32}


@pytest.fixture(scope="module")
def task():
    task = sn.tasks.make("lift", n_envs=4, camera=True, max_steps=6)
    task.reset()
    yield task
    task.close()


def test_the_policy_sees_images_instead_of_the_tracker(task):
    observation = task.as_tensordict()
    assert observation["image_front"].shape == (4, 3, 84, 84)
    assert observation["image_front"].dtype == torch.uint8
    assert observation["actor"].shape == (4, 18 + 3 + 3 + 8)  # joints, hand, goal, last action
    assert "cube" not in task.observation()
    assert "privileged/way_to_cube" in task.observation()
    red = observation["image_front"].float()
    cube = (red[:, 0] > 2 * red[:, 1]) & (red[:, 0] > 2 * red[:, 2]) & (red[:, 0] > 60)
    assert (cube.flatten(1).sum(dim=1) > 5).all()
    columns = [float(each.nonzero()[:, 1].float().mean()) for each in cube]
    sides = task._cube[:, 1].tolist()  # the camera looks back at the robot: y is to the right
    assert (torch.tensor(columns).argsort() == torch.tensor(sides).argsort()).all()


def test_images_have_the_noise_of_the_imager(task):
    measured, truth = task.cameras["front"].read().rgb.int(), task.cameras["front"].read_ground_truth().rgb.int()
    assert 0.2 < float((measured - truth).float().abs().mean()) < 20


def test_images_stay_as_they_were(task):
    first = task.as_tensordict()["image_front"]
    kept = first.clone()
    task.step(torch.ones(4, 8))
    task.step(torch.ones(4, 8))
    assert torch.equal(first, kept)
    assert not torch.equal(task.as_tensordict()["image_front"], kept)


def test_networks_learn_from_images(task):
    options = ppo_recipe("lift", **SMALL)
    algorithm = ppo_policy.make_ppo(options, task.as_tensordict(), 8)
    before = [each.detach().clone() for each in algorithm.actor.cnns.parameters()]
    env = task.as_rsl_rl()
    observation = env.get_observations()
    algorithm.train_mode()
    with torch.inference_mode():
        for _ in range(options.horizon):
            observation, reward, dones, extras = env.step(algorithm.act(observation))
            algorithm.process_env_step(observation, reward, dones, extras)
        algorithm.compute_returns(observation)
    algorithm.update()
    assert all(not torch.equal(a, b) for a, b in zip(before, algorithm.actor.cnns.parameters(), strict=True))
    assert not hasattr(algorithm.critic, "cnns")  # it knows where the cube is


@pytest.mark.slow
def test_training_and_what_the_actor_sees(task, tmp_path):
    train_ppo(ppo_recipe("lift", **SMALL), tmp_path / "a", tensorboard=False)
    assert len(evaluate_ppo(tmp_path / "a", 2).returns) == 2
    with open_player(tmp_path / "a", "last") as player:
        picture = next(draw_images(player, 0.02))
        (image,) = player.images()
    places = np.arange(160) * 84 // 160
    assert np.array_equal(picture[318:478, 2:162], image[places[:, None], places])
    policy, observation = load_policy(tmp_path / "a", task), task.as_tensordict()
    action = policy(observation)
    assert torch.equal(policy({**observation, "critic": observation["critic"] + 1.0}), action)
    assert not torch.equal(policy({**observation, "image_front": 255 - observation["image_front"]}), action)


def test_exported_networks_take_the_images_of_the_task(task):
    observation = task.as_tensordict()
    actor = ppo_policy.make_network(ppo_recipe("lift", **SMALL), observation, "actor", 8).eval()
    with torch.inference_mode():
        expected = actor(observation)
        image = observation["image_front"].float()
        network = actor.as_onnx(verbose=False)
        assert network.input_names == ["obs", "image_front"]
        torch.testing.assert_close(network(observation["actor"], image), expected)
        torch.testing.assert_close(actor.as_jit()(observation["actor"], [image]), expected)


def test_mistakes(task):
    with pytest.raises(sn.OptionError, match=r"observe_cameras: there is no camera 'fornt'.*did you mean 'front'"):
        sn.tasks.make("lift", camera=True, observe_cameras=("fornt",))
    with pytest.raises(sn.OptionError, match="flatten: the policy observes images"):
        task.as_sb3()
    with pytest.raises(sn.OptionError, match="network must be 'mlp' for a task with images, got 'gru'"):
        ppo_policy.make_ppo(ppo_recipe("lift", **{**SMALL, "network": "gru"}), task.as_tensordict(), 8)
