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


def box_at_rest(substeps, options, dt=0.02):
    scene = sn.Scene(dt=dt, substeps=substeps)
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", pos=(0, 0, 0.5))
    sensor = scene.add_sensor(options)
    scene.build(n_envs=3, seed=3)
    return scene, sensor


def arrived(scene, sensor, steps):
    """Return (value, capture time, arrival time) of every sample of env 1 that arrives within some steps."""
    samples = []
    for _ in range(steps):
        scene.step()
        queue = sensor.read_samples()
        rows = torch.cat([queue.values[1], queue.capture[1, :, None], queue.arrival[1, :, None]], dim=1)
        samples += rows[: int(queue.count[1])].tolist()
    return np.array(samples)


@pytest.mark.parametrize("substeps", [10, 40])
def test_draws_of_a_sample_do_not_depend_on_the_substeps(substeps):
    """Substeps of 4, 2 and 0.5 ms; 100 samples per second are captured at the same instants with each."""
    options = sn.ContactForce(
        link="box",
        uuid="position",
        rate=100.0,
        noise=1.0,
        outliers=0.2,
        outlier_size=10.0,
        dropout=0.2,
        delay=0.02,
        jitter=0.02,
    )
    coarse, fine = (arrived(*box_at_rest(count, options, dt=0.02), 30) for count in (5, substeps))
    taken = {round(one[3], 6): one for one in coarse}
    common = [(taken[round(one[3], 6)], one) for one in fine if round(one[3], 6) in taken]
    assert 35 < len(common) < 55  # of 60 samples, 48 are not lost, and the last ones are still on their way
    ours, theirs = (np.array(values) for values in zip(*common, strict=True))
    np.testing.assert_array_equal(ours[:, :3], theirs[:, :3])
    assert np.abs(ours[:, :3]).max() > 8.0, "no outlier"
    assert np.std(ours[:, 4] - ours[:, 3]) > 0.003, "no jitter"
    # an arrival is seen at a tick
    np.testing.assert_allclose(ours[:, 4], theirs[:, 4], atol=0.004 + 1e-6)
    lost = [{round(k * 0.01, 6) for k in range(1, 50)} - {round(one[3], 6) for one in all_} for all_ in (coarse, fine)]
    assert lost[0] == lost[1]
    assert len(lost[0]) > 3


def test_between_samples_the_noise_is_held_and_the_walk_goes_on():
    """A walk of 10 samples has the spread of the whole time, not of 10 steps."""
    scene, probe = probe_scene(Probe(rate=10.0, random_walk=1.0, uuid="walk"), n_envs=4000)
    scene.step(count=round(1.0 / scene.dt))
    walk = (probe.read() - probe.read_ground_truth()).flatten()
    assert walk.std().item() == pytest.approx(1.0, rel=0.03)


def test_a_rate_of_one_sample_per_step_draws_as_no_rate_does():
    readings = []
    for rate in (None, 50.0):
        scene, sensor = box_at_rest(1, sn.ContactForce(link="box", uuid="p", rate=rate, noise=1.0))
        readings.append([])
        for _ in range(20):
            scene.step()
            readings[-1].append(sensor.read().clone())
    for one, other in zip(*readings, strict=True):
        assert torch.equal(one, other)


def test_samples_are_independent():
    """The noise of consecutive samples, of axes and of envs is uncorrelated and has the given spread."""
    scene = sn.Scene(dt=0.02, substeps=4)
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box")
    sensor = scene.add_sensor(sn.ContactForce(link="box", rate=50 / 3, noise=1.0, random_walk=1e-9))
    scene.build(n_envs=2000, seed=1)
    taken = []
    for _ in range(12):
        scene.step(count=3)
        taken.append(sensor.read().numpy().copy())
    taken = np.array(taken)  # (samples, envs, axes)
    assert np.std(taken) == pytest.approx(1.0, rel=0.01)
    assert abs(np.mean(taken[1:] * taken[:-1])) < 0.015
    assert abs(np.mean(taken[:, 1:] * taken[:, :-1])) < 0.015
    assert abs(np.mean(taken[..., 0] * taken[..., 1])) < 0.02
