"""Noise, drift, delay, jitter, rate and hooks, compared with theory."""

import gc
import math

import numpy as np
import pytest
import torch
from conftest import drop_scene
from probe import Probe, probe_scene
from thermometer import Thermometer, first_order

import sensorium as sn


def record(scene, sensor, steps, read="read"):
    out = []
    for _ in range(steps):
        scene.step()
        out.append(getattr(sensor, read)().clone())
    return torch.stack(out).double()


def test_noise_and_bias_have_the_given_moments():
    scene, probe = probe_scene(Probe(noise=(0.5, 1.0, 2.0), bias=(1.0, 0.0, -1.0)), n_envs=400)
    error = record(scene, probe, 100) - record(*_twin(400), 100)
    error = error.flatten(0, 1)
    n = len(error)
    for axis, (sigma, bias) in enumerate(((0.5, 1.0), (1.0, 0.0), (2.0, -1.0))):
        assert abs(error[:, axis].mean() - bias) < 4 * sigma / math.sqrt(n)
        assert error[:, axis].std().item() == pytest.approx(sigma, rel=4 / math.sqrt(2 * n))
    lagged = np.corrcoef(error[:-400, 0], error[400:, 0])[0, 1]
    assert abs(lagged) < 4 / math.sqrt(n)
    assert abs(np.corrcoef(error[:, 0], error[:, 1])[0, 1]) < 4 / math.sqrt(n)


def _twin(n_envs, **options):
    return probe_scene(Probe(uuid="clean", **options), n_envs=n_envs)


@pytest.mark.parametrize("dt", [0.01, 0.05])
def test_random_walk_grows_with_the_square_root_of_time_for_any_dt(dt):
    scene, probe = probe_scene(Probe(random_walk=0.3), n_envs=4000, dt=dt)
    for seconds in (0.5, 2.0):
        scene.step(round(seconds / dt) - round(scene.time[0].item() / dt))
        drift = (probe.read() - probe.read_ground_truth()).double().flatten()
        assert drift.std().item() == pytest.approx(0.3 * math.sqrt(seconds), rel=4 / math.sqrt(2 * len(drift)))
        assert abs(drift.mean()) < 4 * 0.3 * math.sqrt(seconds / len(drift))


def test_random_walk_has_independent_increments():
    scene, probe = probe_scene(Probe(random_walk=1.0, columns=1), n_envs=2000)
    truth = record(*_twin(2000, columns=1), 20)
    increments = (record(scene, probe, 20) - truth).squeeze(-1).diff(dim=0)
    assert abs(np.corrcoef(increments[3], increments[4])[0, 1]) < 4 / math.sqrt(2000)
    assert increments.std().item() == pytest.approx(0.1, rel=0.03)


def test_bias_does_not_accumulate_over_resets():
    scene, probe = probe_scene(Probe(bias=0.5, random_walk=1.0), n_envs=2)
    for _ in range(5):
        scene.step(20)
        scene.reset()
        assert torch.allclose(probe.read() - probe.read_ground_truth(), torch.tensor(0.5))


@pytest.mark.parametrize(
    ("delay", "steps"), [(0.0, 0), (0.004, 1), (0.01, 1), (0.011, 2), (0.02, 2), (0.03, 3), (0.255, 26), (1.0, 100)]
)
def test_delay_returns_the_newest_snapshot_that_has_arrived(delay, steps):
    scene, probe = probe_scene(Probe(delay=delay))
    truth = [probe.read_ground_truth().clone()]
    for step in range(1, 130):
        scene.step()
        truth.append(probe.read_ground_truth().clone())
        assert torch.equal(probe.read(), truth[max(0, step - steps)])


def test_interpolated_delay_is_between_snapshots():
    scene, probe = probe_scene(Probe(delay=0.025, interpolate=True))
    truth = record(*_twin(2), 30)
    delayed = record(scene, probe, 30)
    expected = 0.5 * truth[5:-2] + 0.5 * truth[4:-3]
    torch.testing.assert_close(delayed[7:], expected, atol=1e-6, rtol=1e-5)


def test_latency_is_drawn_once_per_sample_uniform_and_independent():
    """Every sample arrives delay + U[0, jitter) after its capture, independent of other samples and envs."""
    scene, probe = probe_scene(Probe(delay=0.02, jitter=0.02, columns=1), n_envs=200, dt=0.001)
    latency = torch.full((200, 400), torch.nan, dtype=torch.float64)  # by env and step of capture
    for _ in range(300):
        scene.step()
        samples = probe.read_samples()
        for env, place in zip(*torch.where(torch.isfinite(samples.capture)), strict=True):
            step = round(samples.capture[env, place].item() / 0.001)
            assert torch.isnan(latency[env, step]), "a sample arrives once"
            latency[env, step] = samples.arrival[env, place] - samples.capture[env, place]
    drawn = latency[:, 1:250]  # those of the last steps have not all arrived
    assert torch.isfinite(drawn).all()
    share = ((drawn - 0.02) / 0.02).flatten().numpy()
    assert share.min() > -1e-6
    assert share.max() < 1 + 1e-6
    n = len(share)
    counts = np.histogram(share, bins=20, range=(0, 1))[0]
    assert ((counts - n / 20) ** 2 / (n / 20)).sum() < 43.8  # 0.1% of chi-square with 19 degrees of freedom
    assert abs(np.corrcoef(drawn[:, 1:].flatten(), drawn[:, :-1].flatten())[0, 1]) < 4 / math.sqrt(n)
    assert abs(np.corrcoef(drawn[1:].flatten(), drawn[:-1].flatten())[0, 1]) < 4 / math.sqrt(n)


def test_reading_is_the_youngest_sample_that_has_arrived():
    """Readings follow from the times that ``read_samples`` returns, and never go back in time."""
    scene, probe = probe_scene(Probe(delay=0.02, jitter=0.02, noise=1.0, columns=1, dropout=0.2), n_envs=20, dt=0.003)
    youngest = [(0.0, probe.read()[env, 0].item()) for env in range(20)]
    for _ in range(200):
        scene.step()
        samples = probe.read_samples()
        for env in range(20):
            arrived = [
                (samples.capture[env, i].item(), samples.values[env, i, 0].item()) for i in range(samples.count[env])
            ]
            youngest[env] = max([youngest[env], *arrived])
        assert probe.read()[:, 0].tolist() == [value for _, value in youngest]
        expected = [scene.time[env].item() - capture for env, (capture, _) in enumerate(youngest)]
        np.testing.assert_allclose(probe.age().numpy(), expected, atol=1e-9)


@pytest.mark.parametrize("rate", [1.0, 7.0, 30.0, 60.0, 99.0, 100.0])
def test_rate_is_the_number_of_samples_per_second(rate):
    scene, probe = probe_scene(Probe(rate=rate, noise=1.0))
    readings = record(scene, probe, 1000)
    changes = int((readings.diff(dim=0).abs().amax(dim=(1, 2)) > 0).sum())
    assert abs(changes - rate * 9.99) <= 1


def test_sampling_instants_follow_the_time_of_each_env():
    """An env that is reset later samples later: sampling instants depend on simulated time, not on calls."""
    scene, probe = probe_scene(Probe(rate=10.0, columns=1), n_envs=2)
    scene.step(3)
    scene.reset(envs=[1])
    changed = [[], []]
    before = probe.read().clone()
    for _ in range(40):
        scene.step()
        for env in range(2):
            if probe.read()[env] != before[env]:
                changed[env].append(round(scene.time[env].item() * 100))
        before = probe.read().clone()
    assert changed == [[10, 20, 30, 40], [10, 20, 30, 40]]


def test_dropout_is_the_fraction_of_lost_samples():
    scene, probe = probe_scene(Probe(dropout=0.3, noise=1.0, columns=2), n_envs=100)
    readings = record(scene, probe, 200)
    held = readings.diff(dim=0) == 0
    assert torch.equal(held[..., 0], held[..., 1]), "all columns of a sample are lost together"
    n = held[..., 0].numel()
    assert held[..., 0].double().mean().item() == pytest.approx(0.3, abs=4 * math.sqrt(0.21 / n))


def test_quantisation_saturation_and_deadband():
    scene, probe = probe_scene(Probe(resolution=0.25, saturation=(-1.5, 2.0), deadband=0.5, columns=3), n_envs=50)
    for _ in range(100):
        scene.step()
        got, truth = probe.read(), probe.read_ground_truth()
        assert torch.equal(got, (got / 0.25).round() * 0.25)
        assert got.min() >= -1.5
        assert got.max() <= 2.0
        assert (got[truth.abs() < 0.499] == 0).all()
        inside = (truth.abs() > 0.501) & (truth > -1.5) & (truth < 2)
        assert (got - truth)[inside].abs().max() <= 0.1250001


def test_every_parameter_can_be_set_per_env():
    scene, probe = probe_scene(Probe(max_delay=0.1), n_envs=4)
    probe.set(bias=torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), envs=[3, 0])
    probe.set(saturation=(-0.1, 0.1), envs=[1])
    probe.set(delay=[[0.0], [0.01], [0.02], [0.03]])
    probe.set(rate=10.0, dropout=0.0, envs=[2])
    truth = []
    for _ in range(20):
        scene.step()
        truth.append(probe.read_ground_truth().clone())
    got = probe.read()
    torch.testing.assert_close(got[0], truth[-1][0] + torch.tensor([4.0, 5.0, 6.0]))
    torch.testing.assert_close(got[1], truth[-2][1].clamp(-0.1, 0.1))
    torch.testing.assert_close(got[3], truth[-4][3] + torch.tensor([1.0, 2.0, 3.0]))
    torch.testing.assert_close(got[2], truth[9][2])
    probe.set(bias=0.0, saturation=None, delay=0.0, rate=None)
    scene.step()
    assert torch.equal(probe.read(), probe.read_ground_truth())


def test_read_with_envs_returns_a_copy_in_that_order():
    scene, probe = probe_scene(Probe(history_length=2), n_envs=4)
    scene.step(3)
    picked = probe.read(envs=[3, 1])
    assert torch.equal(picked, probe.read()[[3, 1]])
    kept = picked.clone()
    scene.step()
    assert torch.equal(picked, kept)
    assert probe.read(envs=torch.tensor([True, False, True, False])).shape == (2, 2, 3)


def test_a_history_length_of_0_reads_without_history():
    scene, kept, plain = probe_scene(Probe(uuid="kept", history_length=3), Probe(uuid="plain"), n_envs=4)
    scene.step(3)
    for probe in (kept, plain):
        assert torch.equal(probe.read(history_length=0), probe.read_ground_truth(history_length=0))
        assert probe.read(history_length=0, envs=[1]).shape == (1, 3)
    assert torch.equal(kept.read(history_length=0), kept.read()[:, 0])
    assert torch.equal(scene.read_sensors(history_length=0)["Probe"], scene.read_sensors()["Probe"])


def test_read_sensors_returns_copies_by_class():
    scene = drop_scene()
    first = scene.add_sensor(sn.IMU(link="box", uuid="a"))
    second = scene.add_sensor(sn.IMU(link="box", uuid="b", acc_noise=0.1))
    touch = scene.add_sensor(sn.Contact(link="box"))
    scene.build(n_envs=3)
    scene.step()
    read = scene.read_sensors()
    assert {name: tuple(value.shape) for name, value in read.items()} == {"IMU": (3, 18), "Contact": (3, 1)}
    assert torch.equal(read["IMU"][:, :3], first.read().lin_acc)
    assert torch.equal(read["IMU"][:, 9:12], second.read().lin_acc)
    assert torch.equal(scene.read_sensors(envs=[2])["Contact"], touch.read()[[2]])
    kept = read["IMU"].clone()
    scene.step(20)
    assert torch.equal(read["IMU"], kept)


def test_return_storage_is_allocated_only_if_needed():
    """Without delay, history or post-process the cache is the working buffer. Rings have as many slots as needed."""
    scene = drop_scene()
    plain = scene.add_sensor(sn.ContactForce(link="box"))
    late = scene.add_sensor(sn.IMU(link="box", delay=0.035, jitter=0.01, history_length=3))
    touch = scene.add_sensor(sn.Contact(link="box"))
    scene.build(n_envs=2)
    assert plain.read().data_ptr() == plain.group.reading.data_ptr()
    assert plain.read_ground_truth().data_ptr() == plain.group.truth.data_ptr()
    assert plain.group.ring is None
    assert len(late.group.ring) == math.ceil(0.045 / 0.01 - 1e-6) + 1
    assert late.group.history.shape[0] == 6
    assert touch.read().data_ptr() == touch.group.snapshot.data_ptr()
    assert touch.group.ring is None


def test_response_of_the_documented_thermometer():
    """After a step in temperature, the reading follows 1 - exp(-t / tau); ground truth changes at once."""
    scene = sn.Scene(dt=0.01, substeps=1, gravity=(0, 0, 0))
    scene.add_object(sn.Box(), name="box", free=True)
    meter = scene.add_sensor(Thermometer(link="box", time_constant=0.2, ground_temperature=20.0, lapse=10.0))
    scene.build(n_envs=2)
    assert meter.read().tolist() == [[20.0], [20.0]], "the first reading is the air temperature, not 0"
    scene["box"].set_pose(pos=(0, 0, 1), envs=[1])
    for step in range(1, 80):
        scene.step()
        assert meter.read_ground_truth()[:, 0].tolist() == pytest.approx([20.0, 10.0])
        expected = 20.0 - 10.0 * first_order(step * 0.01, 0.2)
        assert meter.read()[1, 0].item() == pytest.approx(expected, abs=1e-4)
        assert meter.read()[0, 0].item() == pytest.approx(20.0, abs=1e-4)


def test_set_checks_the_constraints_of_custom_options():
    scene = sn.Scene(dt=0.01, substeps=1)
    scene.add_object(sn.Box(), name="box", free=True)
    meter = scene.add_sensor(Thermometer(link="box"))
    scene.build(n_envs=2)
    for bad in (-1.0, 0.0, float("inf"), [[0.1], [-0.1]]):
        with pytest.raises(sn.OptionError, match="time_constant"):
            meter.set(time_constant=bad)
    meter.set(time_constant=[[0.1], [0.2]])


def test_overridden_cache_update_also_runs_in_a_reset():
    class Shifted(Probe):
        pass

    from probe import ProbeSensor

    class ShiftedSensor(ProbeSensor, options=Shifted):
        @classmethod
        def _apply_transform(cls, group, data, timeline, is_measured):
            data.mul_(2)

        @classmethod
        def _update_shared_cache(cls, group, ground_truth, measured):
            super()._update_shared_cache(group, ground_truth, measured)
            measured.add_(100)

    scene, shifted = probe_scene(Shifted())
    for call in (lambda: None, scene.step, scene.reset):
        call()
        torch.testing.assert_close(shifted.read(), shifted.read_ground_truth() + 100)


def test_sensor_without_columns():
    """With ``keeps_columns = False``, hooks run in every step and reset, without storage in the pipeline."""

    class Clicker(sn.sensors.SensorOptions):
        pass

    class ClickerSensor(sn.sensors.Sensor[int], options=Clicker):
        keeps_columns = False

        @classmethod
        def _build_group(cls, group):
            return {"clicks": 0, "resets": []}

        @classmethod
        def _update_shared_cache(cls, group, ground_truth, measured):
            group.backend["clicks"] += 1

        @classmethod
        def _reset_group(cls, group, mask):
            group.backend["resets"].append(mask.nonzero().flatten().tolist())

        def read(self, envs=None, history_length=None):
            return self.group.backend["clicks"]

    scene = drop_scene()
    clicker = scene.add_sensor(Clicker())
    scene.add_sensor(sn.IMU(link="box"))
    scene.build(n_envs=3)
    scene.step(4)
    scene.reset(envs=[1])
    assert clicker.read() == 4
    assert clicker.group.backend["resets"] == [[0, 1, 2], [1]]


def test_custom_delay_hook():
    """A class may combine older snapshots in its own way. The history holds what was read."""

    class Mean(Probe):
        pass

    from probe import ProbeSensor

    class MeanSensor(ProbeSensor, options=Mean):
        @classmethod
        def _apply_delay(cls, group, ring, out):
            torch.add(ring[0], ring[1], out=out)

    scene, mean = probe_scene(Mean(history_length=2))
    truth = [mean.read_ground_truth()[:, 0].clone()]
    for _ in range(6):
        scene.step()
        truth.append(mean.read_ground_truth()[:, 0].clone())
    torch.testing.assert_close(mean.read()[:, 0], truth[-1] + truth[-2])
    torch.testing.assert_close(mean.read()[:, 1], truth[-2] + truth[-3])


@pytest.mark.slow
def test_steps_and_reads_do_not_leak_memory():
    """Memory does not grow over many steps, reads, sets and resets."""
    import tracemalloc
    from pathlib import Path

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4

    scene = drop_scene()
    imu = scene.add_sensor(sn.IMU(link="box", acc_noise=0.1, delay=0.02, jitter=0.02, history_length=4))
    touch = scene.add_sensor(sn.Contact(link="box"))
    scene.build(n_envs=4)

    def use(steps):
        for _ in range(steps):
            scene.step()
            imu.read()
            touch.read()
        scene.reset(envs=[1])
        imu.set(acc_noise=0.2, envs=[0])

    use(300)
    gc.collect()
    tracemalloc.start()
    before, rss = tracemalloc.get_traced_memory()[0], resident()
    for _ in range(10):
        use(300)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 20_000
    assert resident() - rss < 4_000  # KiB
