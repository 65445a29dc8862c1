"""Samples have capture and arrival times, fast sensors are captured at substeps, and episodes can be made again."""

import math
import warnings

import numpy as np
import pytest
import torch
from probe import Probe, probe_scene

import sensorium as sn


def falling_box(height=0.5, dt=0.02, substeps=10):
    scene = sn.Scene(dt=dt, substeps=substeps)
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", pos=(0, 0, height), free=True)
    return scene


# -- fast sensors ------------------------------------------------------------------------------------------------------


def test_fast_sensor_returns_the_samples_of_a_step_with_their_times():
    """At 200 Hz in a loop of 50 Hz, the k-th sample of an episode is captured at k / 200 s and holds the true time."""
    scene = falling_box()
    clock = scene.add_sensor(sn.Clock(rate=200, delay=0.006))
    scene.build(n_envs=2)
    captured = []
    for step in range(1, 20):
        scene.step()
        samples = clock.read_samples()
        n = int(samples.count[0])
        captured += samples.capture[0, :n].tolist()
        np.testing.assert_allclose(samples.arrival[0, :n], samples.capture[0, :n] + 0.006, atol=1e-7)
        assert (samples.arrival[0, :n] <= step * 0.02 + 1e-9).all()
        assert (samples.arrival[0, :n] > (step - 1) * 0.02).all()
        # captured in the substep of 2 ms that contains the instant
        expected = [math.ceil(time / 0.002 - 1e-6) * 0.002 for time in samples.capture[0, :n].tolist()]
        np.testing.assert_allclose(samples.values[0, :n, 0], expected, atol=1e-9)
        assert torch.isinf(samples.capture[0, n:]).all()
        assert (samples.values[0, n:] == 0).all()
    np.testing.assert_allclose(captured, np.arange(1, len(captured) + 1) / 200, atol=1e-7)
    assert len(captured) == pytest.approx(19 * 4, abs=2)


def test_substeps_resolve_delay_and_history():
    scene = falling_box(dt=0.01, substeps=5)
    clock = scene.add_sensor(sn.Clock(substeps=True, delay=0.004, history_length=4))
    scene.build()
    scene.step(count=3)
    expected = 0.03 - 0.004 - 0.002 * np.arange(4)
    np.testing.assert_allclose(clock.read()[0, :, 0], expected, atol=1e-9)
    np.testing.assert_allclose(clock.age(), 0.004, atol=1e-9)


def test_jitter_below_a_step_shows_at_substeps_only():
    ages = {}
    for substeps in (False, True):
        scene = falling_box(dt=0.01, substeps=10)
        options = sn.Clock(uuid="late", delay=0.02, jitter=0.01, substeps=substeps)
        late = scene.add_sensor(options)
        if substeps:
            scene.build(n_envs=50)
        else:
            with pytest.warns(UserWarning, match=r"jitter=0.01 has no effect: .* when it is 0.03 s old"):
                scene.build(n_envs=50)
        scene.step(count=10)
        seen = []
        for _ in range(20):
            scene.step()
            seen.append(late.age())
        ages[substeps] = torch.stack(seen)
    np.testing.assert_allclose(ages[False], 0.03, atol=1e-9)
    assert ages[True].std() > 5e-4
    assert ages[True].min() >= 0.02
    assert ages[True].max() < 0.03


@pytest.mark.parametrize(
    ("sensor", "highest"), [(sn.IMU(link="box", rate=501), "500 Hz"), (sn.Camera(rate=51), "50 Hz")]
)
def test_rate_above_the_physics_raises(sensor, highest):
    scene = falling_box()
    scene.add_sensor(sensor)
    with pytest.raises(sn.OptionError, match=rf"rate={sensor.rate:g} is too high.*highest possible rate is {highest}"):
        scene.build()


def test_rate_above_that_of_capture_cannot_be_set():
    scene, probe = probe_scene(Probe(rate=50.0))
    with pytest.raises(sn.OptionError, match=r"rate=200 exceeds the 100 Hz"):
        probe.set(rate=200.0)
    assert scene.describe()


def test_sensors_of_one_class_at_steps_and_at_substeps_keep_their_order():
    scene = falling_box()
    for uuid, rate in (("a", None), ("b", 200), ("c", 25)):
        scene.add_sensor(sn.Clock(uuid=uuid, rate=rate))
    scene.build(n_envs=3)
    scene.step(count=3)
    bulk = scene.read_sensors()
    assert bulk["Clock"].shape == (3, 3)
    for column, uuid in enumerate("abc"):
        assert torch.equal(bulk["Clock"][:, column], scene.sensors[uuid].read()[:, 0])


def test_more_samples_than_places_are_counted_and_reported():
    scene, probe = probe_scene(Probe(delay=0.005, max_delay=0.1, columns=1), n_envs=2)
    probe.set(delay=0.05, jitter=0.05)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        most = 0
        for _ in range(200):
            scene.step()
            samples = probe.read_samples()
            assert samples.capture.shape == (2, 1)
            most = max(most, int(samples.count.max()))
    assert most > 1
    assert len(caught) == 1
    assert str(caught[0].message).startswith("2 samples of 'probe' arrived in a step, but read_samples() has 1 places")


# -- averaging ---------------------------------------------------------------------------------------------------------


def test_mean_forces_add_up_to_the_change_of_momentum():
    scene = falling_box(height=0.6, dt=0.01)
    force = scene.add_sensor(sn.ContactForce(link="box", window="mean"))
    slow = scene.add_sensor(sn.ContactForce(link="box", uuid="slow", window="mean", rate=20))
    scene.build(n_envs=2)
    impulse = slow_impulse = 0.0
    for _ in range(120):
        scene.step()
        impulse += force.read()[0, 2].item() * 0.01
        if int(slow.read_samples().count[0]):
            slow_impulse += slow.read()[0, 2].item() * 0.05
    momentum = 9.81 * 1.2 + scene.world.bind("qvel")[0, 2].item()
    assert impulse == pytest.approx(momentum, rel=1e-4)
    assert slow_impulse == pytest.approx(momentum, rel=1e-4)


def test_mean_starts_afresh_in_reset_envs_only():
    scene = falling_box(height=0.6, dt=0.01)
    clock = scene.add_sensor(sn.ContactForce(link="box", window="mean", rate=10))
    twin = falling_box(height=0.6, dt=0.01)
    undisturbed = twin.add_sensor(sn.ContactForce(link="box", window="mean", rate=10))
    for one in (scene, twin):
        one.build(n_envs=2)
        one.step(count=33)
    scene.reset(envs=[1])
    for _ in range(60):
        scene.step()
        twin.step()
        assert torch.equal(clock.read()[0], undisturbed.read()[0])
        assert torch.equal(clock.read_ground_truth()[0], undisturbed.read_ground_truth()[0])


# -- faults ------------------------------------------------------------------------------------------------------------


def test_stuck_sensor_repeats_its_value_with_new_capture_times():
    scene, probe = probe_scene(Probe(noise=1.0, stuck=1e9, delay=0.02), n_envs=3)
    first = probe.read().clone()
    scene.step(count=10)
    assert torch.equal(probe.read(), first)
    np.testing.assert_allclose(probe.age(), 0.02, atol=1e-9)
    assert probe.read_samples().count.tolist() == [1, 1, 1]


def test_lost_samples_do_not_arrive():
    scene, probe = probe_scene(Probe(dropout=1.0), n_envs=3)
    scene.step(count=10)
    assert probe.read_samples().count.tolist() == [0, 0, 0]
    np.testing.assert_allclose(probe.age(), 0.1, atol=1e-9)


# -- episodes ----------------------------------------------------------------------------------------------------------


def noisy_box(n_envs):
    scene = falling_box(dt=0.01, substeps=2)
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


def test_bulk_reads_take_history_and_ground_truth():
    scene, *probes = probe_scene(*(Probe(uuid=uuid, noise=1.0, history_length=3) for uuid in "ab"), n_envs=4)
    scene.step(count=5)
    bulk = scene.read_sensors(history_length=2, envs=[3, 1])["Probe"]
    assert bulk.shape == (2, 2, 6)
    for number, probe in enumerate(probes):
        assert torch.equal(bulk[..., 3 * number : 3 * number + 3], probe.read(history_length=2, envs=[3, 1]))
    truth = scene.read_sensors(ground_truth=True)["Probe"]
    assert torch.equal(truth[:, :3], probes[0].read_ground_truth()[:, 0])
    with pytest.raises(sn.OptionError, match="history_length=4"):
        scene.read_sensors(history_length=4)


def test_replay_reproduces_sensors_that_are_captured_at_substeps(tmp_path):
    scene = falling_box(height=0.3)
    scene.add_sensor(sn.IMU(link="box", uuid="imu", rate=200, acc_noise=0.1, delay=0.006, jitter=0.004))
    scene.add_sensor(sn.ContactForce(link="box", uuid="force", window="mean", noise=0.1))
    scene.build(n_envs=2, seed=4)
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        recorder.record(10)
        scene.reset(envs=[1])
        recorder.record(20)
    recording = sn.datasets.open(tmp_path / "a")
    again = recording.build_scene()
    for index in (3, 11, 12, 29):
        recording.seek(again, index)
        for uuid in ("imu", "force"):
            expected = recording[index][f"{uuid}.measured"]
            np.testing.assert_array_equal(again.sensors[uuid].measured.value, expected, err_msg=f"{uuid}, {index}")
