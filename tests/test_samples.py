"""Samples have capture and arrival times, and fast sensors are captured at substeps."""

import math
import re
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
            with pytest.warns(UserWarning, match=r"jitter=0.01 has no effect: .* 0.03 s old. Set substeps=True to"):
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
    ("substeps", "options", "advice"),
    [
        (1, {"jitter": 0.01}, "Raise substeps of the scene and set substeps=True"),
        (2, {"jitter": 1e-9}, "Raise substeps of the scene and set substeps=True"),
        (2, {"jitter": 0.005, "substeps": True}, "Raise substeps of the scene, or"),
        (2, {"jitter": 0.01}, "Set substeps=True to capture at physics substeps, or"),
        (1, {"jitter": 0.01, "rate": 100}, "Raise substeps of the scene and set substeps=True"),
        (2, {"jitter": 0.01, "rate": 50}, "Set substeps=True to capture at physics substeps, or"),
        (2, {"jitter": 0.005, "rate": 200}, "Raise substeps of the scene and set substeps=True"),
    ],
)
def test_warning_of_jitter_without_effect_says_what_has_an_effect(substeps, options, advice):
    scene = falling_box(dt=0.01, substeps=substeps)
    scene.add_sensor(sn.Clock(delay=0.02, **options))
    with pytest.warns(UserWarning, match=rf"with delay=0\.02 every sample is first read when .* old\. {advice}"):
        scene.build()


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
    scene, probe = probe_scene(Probe(delay=0.1, columns=1), n_envs=2)
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


def clock_scene(options, n_envs=2, dt=0.01, substeps=1):
    scene = falling_box(dt=dt, substeps=substeps)
    clock = scene.add_sensor(options)
    scene.build(n_envs=n_envs)
    return scene, clock


def test_sample_that_is_read_is_kept_when_a_lower_delay_lets_others_arrive_with_it():
    scene, clock = clock_scene(sn.Clock(delay=0.05))
    scene.step(count=8)
    clock.set(delay=0.0, envs=[0])
    scene.step()
    with pytest.warns(UserWarning, match=r"2 samples of 'clock'.*lowered delay.*max_delay"):
        samples = clock.read_samples()
    assert samples.count.tolist() == [2, 1]
    np.testing.assert_allclose(clock.read()[:, 0], [0.09, 0.04], atol=1e-9)
    np.testing.assert_allclose(samples.values[:, 0, 0], [0.09, 0.04], atol=1e-9)
    np.testing.assert_allclose(samples.capture[:, 0], [0.09, 0.04], atol=1e-9)
    np.testing.assert_allclose(samples.arrival[:, 0], 0.09, atol=1e-9)


@pytest.mark.parametrize("substeps", [1, 4])
def test_max_delay_has_places_for_every_change_of_the_delay(substeps):
    """All samples are delivered once, whatever is set, and those that arrive together in the order of capture."""
    scene, clock = clock_scene(sn.Clock(delay=0.05, max_delay=0.05, substeps=True), n_envs=50, substeps=substeps)
    rng, seen, most = np.random.default_rng(0), [], 0
    for step in range(60):
        delay = 0.0 if step > 40 else rng.choice([0.0, 0.01, 0.02, 0.05])
        clock.set(delay=delay, jitter=min(delay, 0.05 - delay))
        scene.step()
        samples = clock.read_samples()
        most = max(most, int(samples.count.max()))
        filled = torch.isfinite(samples.capture)
        assert torch.equal(filled.sum(dim=1), samples.count)
        later, younger = samples.arrival.diff(dim=1), samples.capture.diff(dim=1)  # NaN beyond the last
        assert not (later < 0).any()
        assert (younger[later == 0] > 0).all()
        seen.append(samples.capture[0][filled[0]])
    assert most > substeps
    np.testing.assert_allclose(
        torch.cat(seen).sort().values, np.arange(1, 60 * substeps + 1) * 0.01 / substeps, atol=1e-7
    )


@pytest.mark.parametrize("held", [{"dropout": 0.5}, {"rate": 25.0}, {"rate": 20.0, "dropout": 0.7}])
@pytest.mark.parametrize("latency", [{"delay": 0.015}, {"delay": 0.02, "jitter": 0.013}, {"delay": 0.03}])
def test_age_of_interpolated_readings_is_that_of_the_held_samples(held, latency):
    """A clock reads the time of its capture, also where it is mixed from two captures."""
    scene, clock = clock_scene(sn.Clock(interpolate=True, **held, **latency), n_envs=20)
    for step in range(60):
        scene.step()
        np.testing.assert_allclose(clock.age(), scene.time - clock.read()[:, 0], atol=1e-7, err_msg=str(step))
        if step == 30:
            scene.reset(envs=[3])


@pytest.mark.parametrize("max_delay", [None, 0.02])
def test_sample_without_delay_arrives_at_its_capture(max_delay):
    scene, clock = clock_scene(sn.Clock(rate=60, max_delay=max_delay), dt=0.005)
    captures = []
    for _ in range(40):
        scene.step()
        samples = clock.read_samples()
        assert torch.equal(samples.arrival, samples.capture)
        captures += samples.capture[0, : samples.count[0]].tolist()
    np.testing.assert_allclose(captures, np.arange(1, 13) / 60, atol=1e-8)


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


@pytest.mark.parametrize(("rate", "dt", "substeps"), [(30, 0.01, 1), (300, 0.01, 10), (60, 0.005, 1)])
def test_means_over_unequal_windows_are_reported_with_rates_that_are_exact(rate, dt, substeps):
    def build(rate):
        scene = falling_box(dt=dt, substeps=substeps)
        force = scene.add_sensor(sn.ContactForce(link="box", uuid="force", window="mean", rate=rate))
        scene.add_sensor(sn.ContactForce(link="box", uuid="instant", rate=rate))
        scene.build()
        return force

    with pytest.warns(UserWarning, match=r"ContactForce\(uuid='force'\)\.window=\"mean\" with rate=\d+: ") as caught:
        build(rate)
    assert len(caught) == 1
    advised = re.search(r"e\.g\. (\S+) or (\S+)$", str(caught[0].message)).groups()
    lower, higher = map(float, advised)
    assert lower < rate < higher
    for exact in (lower, higher):
        force = build(exact)  # without a warning, which would be an error
    force.set(rate=lower)
    with pytest.warns(UserWarning, match=r"ContactForce\(uuid='force'\)\.window=\"mean\" with rate=\d+: "):
        force.set(rate=rate)


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


# -- bulk reads and replay ---------------------------------------------------------------------------------------------


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


def sensed(scene):
    """Return uuid -> reading, age and samples of every sensor, as a flat list of tensors."""
    out = {}
    for uuid, sensor in scene.sensors.items():
        values, *rest = sensor.read_samples()
        columns = values if isinstance(values, tuple) else (values,)
        out[uuid] = [tensor.clone() for tensor in (sensor.measured.value, sensor.age(), *rest, *columns)]
    return out


@pytest.mark.parametrize(("delay", "jitter"), [(0.0, 0.0), (0.005, 0.005), (0.01, 0.004), (0.02, 0.0), (0.02, 0.01)])
def test_replay_reproduces_samples_and_ages_from_every_restart_on(tmp_path, delay, jitter):
    """Also in the first steps after a restart, while samples from before it would still be on their way."""
    scene = falling_box(height=0.3, substeps=8)
    late = {"delay": delay, "jitter": jitter}
    scene.add_sensor(sn.IMU(link="box", uuid="imu", rate=200, acc_random_walk=0.1, acc_noise=0.1, **late))
    scene.add_sensor(sn.Clock(uuid="clock", rate=200, **late))
    scene.add_sensor(sn.Clock(uuid="every", substeps=True, history_length=3, **late))
    scene.add_sensor(sn.IMU(link="box", uuid="slow", acc_noise=0.1, delay=delay))
    scene.build(n_envs=3, seed=7)
    scene.step(3)
    state = scene.get_state()
    live = []
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        for step in range(20):
            if step == 6:
                scene.reset(envs=[1])
            if step == 10:
                scene.set_state(state[[0, 2]], envs=[0, 2])
            scene.step()
            if step == 13:
                scene.reset(envs=[2])
            if step == 16:
                scene.reset()
            recorder.step()
            live.append(sensed(scene))
    recording = sn.datasets.open(tmp_path / "a")
    traced, sought = recording.build_scene(), recording.build_scene()
    tracer = sn.recording.Retracer(recording, traced)
    visits = [(traced, step, tracer.to) for step in range(20)]
    visits += [(sought, step, lambda step: recording.seek(sought, step)) for step in (7, 0, 1, 17, 10, 14)]
    for again, step, visit in visits:
        visit(step)
        for uuid, tensors in sensed(again).items():
            for number, (now, then) in enumerate(zip(tensors, live[step][uuid], strict=True)):
                assert torch.equal(now, then), f"{uuid}, step {step}, tensor {number}"
            assert (again.sensors[uuid].read_samples().capture >= 0).all()


def test_samples_keep_their_times_where_only_states_after_steps_are_known():
    """Recordings of a GPU have no states before the last substep. Sensors then see one state in all substeps."""
    scenes = []
    for _ in range(2):
        scene = falling_box(substeps=8)
        scene.add_sensor(sn.Clock(uuid="clock", rate=200, delay=0.01, jitter=0.004))
        scene.build(n_envs=2, seed=7)
        scenes.append(scene)
    live, again = scenes
    for step in range(1, 6):
        live.step()
        again.retrace(None, live.get_state().numpy(), step)
        now, then = (scene.sensors["clock"].read_samples() for scene in (again, live))
        for name in ("capture", "arrival", "count"):
            assert torch.equal(getattr(now, name), getattr(then, name)), f"{name}, step {step}"
        assert torch.equal(again.sensors["clock"].age(), live.sensors["clock"].age())


@pytest.mark.parametrize(
    "options", [{}, {"delay": 0.012, "jitter": 0.011}, {"rate": 100.0, "delay": 0.03, "jitter": 0.03}]
)
def test_the_kernel_picks_what_torch_picks(options):
    """The kernel of the CPU and the tensor code of GPUs return the same bits."""
    scene = sn.Scene(dt=0.01, substeps=5)
    scene.add_object(sn.Sphere(), name="ball", free=True)
    imu = scene.add_sensor(sn.IMU(link="ball", uuid="imu", gyro_noise=0.1, dropout=0.1, **options))
    scene.build(n_envs=5, seed=1)
    for k in range(40):
        scene.step()
        if k == 20:
            scene.reset([1, 3])
        for ours, theirs in zip(imu._queue._pick_on_cpu(), imu._queue._pick(), strict=True):
            assert torch.equal(ours, theirs.to(ours.dtype)), k
