"""Random numbers of sensors depend on the episode, and any episode can be made again."""

import re

import numpy as np
import pytest
import torch
from probe import Probe, probe_scene

import sensorium as sn


def noisy_box(n_envs):
    scene = sn.Scene(dt=0.01, substeps=2)
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", pos=(0, 0, 0.5), free=True)
    noise = {"acc_noise": 1.0, "acc_random_walk": 0.5, "acc_bias_spread": 1.0}
    slow = scene.add_sensor(sn.IMU(link="box", uuid="slow", dropout=0.2, delay=0.03, jitter=0.03, **noise))
    fast = scene.add_sensor(sn.IMU(link="box", uuid="fast", rate=200, delay=0.02, jitter=0.01, **noise))
    scene.build(n_envs=n_envs, seed=3)
    return scene, slow, fast


def test_any_episode_of_any_env_can_be_made_again_in_another_scene():
    scene, *sensors = noisy_box(8)
    for steps in (5, 17):
        scene.step(count=steps)
        scene.reset()
    assert scene.episodes.tolist() == [2] * 8
    again, *copies = noisy_box(2)
    again.set_episodes([9, 2], env_ids=[0, 5])
    again.reset()
    assert again.episodes.tolist() == [9, 2]
    for _ in range(12):
        for sensor, copy in zip(sensors, copies, strict=True):
            assert torch.equal(copy.read().lin_acc[1], sensor.read().lin_acc[5])
            assert not torch.isclose(copy.read().lin_acc[0], sensor.read().lin_acc[0]).any()
        scene.step()
        again.step()
    again.reset(envs=[1])
    assert again.episodes.tolist() == [9, 3]


def test_every_reset_draws_anew_and_forward_does_not():
    scene, probe = probe_scene(Probe(noise=1.0, bias_spread=1.0), n_envs=1000)
    first = probe.read() - probe.read_ground_truth()
    scene.forward()
    assert torch.equal(probe.read() - probe.read_ground_truth(), first)
    for restart in (scene.reset, lambda: scene.set_state(scene.get_state())):
        restart()
        second = probe.read() - probe.read_ground_truth()
        assert abs(np.corrcoef(first.flatten(), second.flatten())[0, 1]) < 0.1
        first = second


def test_set_episodes_acts_at_the_next_reset():
    """Until then the running episode continues, with its number and its noise."""
    scene, twin = (probe_scene(Probe(noise=1.0), n_envs=3) for _ in range(2))
    scene[0].set_episodes([7, 8], envs=[2, 0], env_ids=5)
    for _ in range(3):
        for one, _ in (scene, twin):
            one.step()
        assert scene[0].episodes.tolist() == [0, 0, 0]
        assert torch.equal(scene[1].read(), twin[1].read())
    for envs, episodes in (([1], [0, 1, 0]), ([2, 1], [0, 2, 7]), (None, [8, 3, 8])):
        scene[0].reset(envs)
        assert scene[0].episodes.tolist() == episodes
    other, probe = probe_scene(Probe(noise=1.0), n_envs=6)
    other.set_episodes(8)
    other.set_state(other.get_state())
    noise = [sensor.read() - sensor.read_ground_truth() for sensor in (scene[1], probe)]
    torch.testing.assert_close(noise[0][0], noise[1][5])
    torch.testing.assert_close(noise[0][2], noise[1][5])


@pytest.mark.parametrize("name", ["numbers", "env_ids"])
@pytest.mark.parametrize(
    "bad", [2**31, 2**70, -1, 0.5, True, "one", [0, -1], [1, 2, 3], [[0], [1]], [[0, 1]], [0, None], 1j]
)
def test_bad_numbers_of_episodes_are_named(name, bad):
    scene, _ = probe_scene(Probe(), n_envs=2)
    with pytest.raises(
        sn.OptionError, match=rf"^{name} must be an integer in \[0, 2147483647\].*{re.escape(str(bad))}"
    ):
        scene.set_episodes(**({"numbers": 5} | {name: bad}))
    with pytest.raises(sn.OptionError, match=r"^numbers must .*got None"):
        scene.set_episodes(None)
    scene.reset()
    assert scene.episodes.tolist() == [1, 1]


def test_failed_calls_do_not_count_an_episode():
    scene, _ = probe_scene(Probe(), n_envs=2)
    for call in (
        lambda: scene.reset(envs=[5]),
        lambda: scene.set_state(torch.zeros(1, 1)),
        lambda: scene.set_episodes(-1),
        lambda: scene.set_episodes(0.5),
    ):
        with pytest.raises(sn.OptionError):
            call()
    assert scene.episodes.tolist() == [0, 0]
