"""The generic imperfections, compared with closed forms: spectra, transfer functions, distributions."""

import math

import numpy as np
import pytest
import torch
from probe import HookedProbe, Probe, ProbeSensor, probe_scene

import sensorium as sn

DT = 0.01
OMEGA = 3.0  # of the probe's signal, rad/s


def errors(steps, n_envs=64, probe=Probe, seed=1, **options):
    """Return measured minus ground truth, (steps, B, columns)."""
    scene, sensor = probe_scene(probe(uuid="p", **options), n_envs=n_envs, seed=seed)
    out = np.empty((steps, n_envs, 3))
    for step in range(steps):
        scene.step()
        out[step] = (sensor.read().double() - sensor.read_ground_truth().double()).numpy()
    return out


def allan_deviation(signal, m):
    """Return the overlapping Allan deviation of samples (n, series) at averages of m, over all series."""
    phase = np.cumsum(np.concatenate([np.zeros((1, signal.shape[1])), signal]), axis=0)
    second = phase[2 * m :] - 2 * phase[m:-m] + phase[: -2 * m]
    return math.sqrt((second**2).mean() / (2 * m**2))


@pytest.mark.slow
def test_allan_deviation_has_the_slopes_of_white_noise_and_walk():
    noise, walk = 0.1, 0.02
    error = errors(30_000, n_envs=16, noise=noise, random_walk=walk).reshape(30_000, -1)
    spans = {m: allan_deviation(error, m) for m in (1, 3, 10, 86, 1000, 3000)}
    for m, deviation in spans.items():
        tau = m * DT
        assert deviation == pytest.approx(math.sqrt(noise**2 * DT / tau + walk**2 * tau / 3), rel=0.06)
    assert math.log(spans[3] / spans[1], 3) == pytest.approx(-0.5, abs=0.02)
    assert math.log(spans[3000] / spans[1000], 3) == pytest.approx(0.5, abs=0.05)
    crossing = math.sqrt(3 * DT) * noise / walk  # where noise and walk contribute the same
    assert round(crossing / DT) == 87
    assert spans[86] == pytest.approx(math.sqrt(2 * noise**2 * DT / crossing), rel=0.04)


@pytest.mark.parametrize("rate", [None, 25.0])
def test_noise_density_gives_the_variance_of_the_sampled_signal(rate):
    """A one-sided density D over the band up to half the sampling rate f gives a variance of D² f / 2."""
    density, f = 0.03, rate or 1 / DT
    error = errors(400, noise_density=density, rate=rate, bias=0.0)
    if rate:  # only at sampling instants; between them the signal changes but the reading does not
        error = error[3::4]
    assert error.std() == pytest.approx(density * math.sqrt(f / 2), rel=0.02)


def test_noise_density_can_be_set_and_excludes_noise():
    scene, sensor = probe_scene(Probe(noise=0.5), n_envs=400)
    sensor.set(noise_density=0.02, envs=list(range(200)))
    scene.step()
    error = (sensor.read() - sensor.read_ground_truth()).std(dim=1)
    assert error[:200].mean() < 0.25 < error[200:].mean()
    with pytest.raises(sn.OptionError, match="set noise or noise_density, not both"):
        Probe(noise=0.1, noise_density=0.1)
    with pytest.raises(sn.OptionError, match="twice"):
        sensor.set(noise=0.1, noise_density=0.1)


@pytest.mark.slow
def test_gauss_markov_drift_is_stationary_and_correlated():
    sigma, tau = 0.5, 0.2
    error = errors(600, n_envs=300, drift=sigma, drift_time=tau)
    assert error[0].std() == pytest.approx(sigma, rel=0.06)  # already at the first step
    assert error.std() == pytest.approx(sigma, rel=0.03)
    assert abs(error.mean()) < 4 * sigma / math.sqrt(error.size * DT / (2 * tau))
    for lag in (5, 20, 40):
        correlation = (error[lag:] * error[:-lag]).mean() / error.var()
        assert correlation == pytest.approx(math.exp(-lag * DT / tau), abs=0.03)


def test_slow_gauss_markov_drift_is_accurate_in_float32():
    error = errors(300, n_envs=300, drift=0.5, drift_time=1e5)
    step = np.diff(error, axis=0).std()
    assert step == pytest.approx(0.5 * math.sqrt(2 * DT / 1e5), rel=0.05)


def test_turn_on_bias_is_drawn_once_per_episode():
    scene, sensor = probe_scene(Probe(uuid="p", bias_spread=(0.1, 1.0, 0.0)), n_envs=2000)
    first = sensor.read() - sensor.read_ground_truth()
    scene.step(5)
    assert torch.allclose(sensor.read() - sensor.read_ground_truth(), first, atol=1e-6)
    assert first.std(dim=0).tolist() == pytest.approx([0.1, 1.0, 0.0], rel=0.08, abs=1e-9)
    scene.reset(range(1000))
    second = sensor.read() - sensor.read_ground_truth()
    assert torch.allclose(second[1000:], first[1000:], atol=1e-6)
    assert not torch.isclose(second[:1000, :2], first[:1000, :2]).any()
    assert abs(np.corrcoef(first[:1000, 1], second[:1000, 1])[0, 1]) < 0.15


@pytest.mark.parametrize("probe", [Probe, HookedProbe])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("ratio", [0.3, 1.0, 3.0])
def test_low_pass_filter_has_the_gain_and_phase_of_its_transfer_function(order, ratio, probe):
    cutoff = OMEGA / ratio / (2 * math.pi)
    scene, sensor = probe_scene(probe(uuid="p", bandwidth=cutoff, filter_order=order), n_envs=1)
    scene.step(2000)
    n = round(3 * 2 * math.pi / OMEGA / DT)
    times, values = np.empty(n), np.empty(n)
    for i in range(n):
        scene.step()
        times[i], values[i] = scene.time[0].item(), sensor.read()[0, 0].item()
    basis = np.stack([np.sin(OMEGA * times), np.cos(OMEGA * times)], axis=1)
    (a, b), *_ = np.linalg.lstsq(basis, values, rcond=None)
    s = 1j * ratio
    expected = 1 / (1 + s) if order == 1 else 1 / (1 + math.sqrt(2) * s + s * s)
    assert math.hypot(a, b) == pytest.approx(abs(expected), rel=2e-3)
    assert math.atan2(b, a) == pytest.approx(np.angle(expected), abs=5e-3)


def test_low_pass_filter_starts_at_rest_and_does_not_change_ground_truth():
    scene, sensor = probe_scene(Probe(uuid="p", bandwidth=0.5), n_envs=4)
    torch.testing.assert_close(sensor.read(), sensor.read_ground_truth())
    scene.step(30)
    truth = torch.sin(OMEGA * scene.time + torch.arange(4))
    torch.testing.assert_close(sensor.read_ground_truth()[:, 0].double(), truth.double(), atol=1e-5, rtol=1e-5)
    assert (sensor.read()[:, 0] - truth).abs().max() > 0.1
    scene.reset([1])
    torch.testing.assert_close(sensor.read()[1], sensor.read_ground_truth()[1])


def test_bandwidth_above_the_nyquist_range_has_no_effect():
    assert np.abs(errors(20, bandwidth=60.0)).max() == 0.0


def test_scale_error_and_temperature_drift():
    scene, sensor = probe_scene(Probe(scale_error=(0.1, 0.0, -0.5), temperature_drift=0.02), n_envs=3)
    sensor.set(temperature=[[25.0], [85.0], [-15.0]])
    scene.step()
    expected = sensor.read_ground_truth() * torch.tensor([1.1, 1.0, 0.5])
    expected += torch.tensor([[0.0], [1.2], [-0.8]])
    torch.testing.assert_close(sensor.read(), expected)


def test_outliers_have_the_given_probability_and_size():
    error = errors(500, n_envs=100, outliers=0.05, outlier_size=7.0)
    off = np.abs(error) > 1
    assert off.mean() == pytest.approx(0.05, rel=0.06)
    assert np.abs(error[off]) == pytest.approx(7.0, abs=1e-4)
    assert (error[off] > 0).mean() == pytest.approx(0.5, abs=0.03)


def test_sensors_stick_after_exponential_times_and_recover_at_reset():
    scene, sensor = probe_scene(Probe(uuid="p", stuck=2.0), n_envs=3000)
    scene.step(50)
    before = sensor.read().clone()
    scene.step()
    moving = (sensor.read() != before).all(dim=1)
    assert moving.float().mean() == pytest.approx(math.exp(-2.0 * 0.51), abs=0.03)
    scene.reset((~moving).nonzero().flatten())
    before = sensor.read().clone()
    scene.step()
    assert (sensor.read() != before).all(dim=1).float().mean() > 0.95
    sensor.set(stuck=1e9, envs=[5])
    held = sensor.read()[5].clone()
    scene.step(3)
    assert torch.equal(sensor.read()[5], held)


def test_set_raises_for_imperfections_without_memory():
    _, sensor = probe_scene(Probe(uuid="p"), n_envs=2)
    with pytest.raises(sn.OptionError, match=r"Probe\.outliers was not set at construction.*outliers="):
        sensor.set(outliers=0.1)
    assert "outliers" not in sensor.parameter_names
    scene, sensor = probe_scene(Probe(uuid="p", outliers=0.0), n_envs=2)
    sensor.set(outliers=1.0, outlier_size=2.0, envs=[1])
    scene.step()
    off = (sensor.read() - sensor.read_ground_truth()).abs()
    torch.testing.assert_close(off, torch.tensor([[0.0] * 3, [2.0] * 3]))


@pytest.mark.parametrize(
    "bad", [{"outliers": 1.5}, {"bandwidth": -1.0}, {"drift_time": 0.0}, {"bias_spread": -1.0}, {"stuck": -1.0}]
)
def test_bad_values_raise(bad):
    with pytest.raises(sn.OptionError, match=next(iter(bad))):
        Probe(**bad)
    _, sensor = probe_scene(Probe(uuid="p", outliers=0.0), n_envs=2)
    with pytest.raises(sn.OptionError, match=next(iter(bad))):
        sensor.set(**bad)


def noise_per_sample(sensor):
    """Return the noise per sample as the kernels read it, (B, columns)."""
    return sensor._manager._of[sensor.uuid].layout.block(sensor.group).store.parameter("noise").T


def per_env(*values):
    return [[value] for value in values]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([{"rate": 50.0}, {"noise_density": 1.0}], [5.0, 5.0, 5.0]),
        ([{"rate": 50.0, "noise_density": 1.0}], [5.0, 5.0, 5.0]),
        ([{"noise_density": 2.0, "envs": [0]}, {"rate": 50.0}], [10.0, 5.0, 5.0]),
        ([{"rate": 50.0, "envs": [2]}, {"noise_density": 2.0}], [200**0.5, 200**0.5, 10.0]),
        ([{"noise": 0.5, "envs": [0]}, {"rate": 50.0}], [0.5, 5.0, 5.0]),
        ([{"noise": 0.5}, {"rate": 50.0}], [0.5, 0.5, 0.5]),
        ([{"noise_density": per_env(1.0, 2.0, 3.0)}, {"rate": per_env(50.0, 25.0, 10.0)}], [5.0, 50**0.5, 45**0.5]),
        ([{"noise_density": per_env(1.0, 2.0, 3.0)}, {"rate": 50.0, "envs": [2, 0]}], [5.0, 200**0.5, 15.0]),
        ([{"noise_density": None, "envs": [1]}, {"rate": 50.0}], [5.0, 0.0, 5.0]),
        ([{"noise_density": None}, {"rate": 50.0}], [0.0, 0.0, 0.0]),
        ([{"rate": 50.0}, {"rate": None}], [50**0.5] * 3),
    ],
)
def test_noise_follows_the_density_and_rate_of_each_env(calls, expected):
    _scene, sensor = probe_scene(Probe(uuid="p", noise_density=1.0), n_envs=3)
    for call in calls:
        sensor.set(**call)
    assert noise_per_sample(sensor).tolist() == [pytest.approx([value] * 3) for value in expected]


def test_failed_set_of_a_density_changes_nothing():
    _scene, sensor = probe_scene(Probe(uuid="p", noise_density=1.0), n_envs=3)
    for bad in (-1.0, "much", [1.0, 2.0]):
        with pytest.raises(sn.OptionError, match="noise_density"):
            sensor.set(rate=50.0, noise_density=bad)
    sensor.set(rate=None)
    assert noise_per_sample(sensor).tolist() == [pytest.approx([50**0.5] * 3)] * 3


@pytest.mark.parametrize("probe", [Probe, HookedProbe])
@pytest.mark.parametrize("before", [None, 20.0])
@pytest.mark.parametrize("after", [None, 5.0])
def test_changing_the_bandwidth_does_not_disturb_a_constant_signal(before, after, probe):
    scene, sensor = probe_scene(probe(bandwidth=before, bias_spread=0.0), n_envs=3)
    world = scene.world
    scene.step(30)
    held = world.time.clone()
    sensor.set(bandwidth=after, envs=[0, 2])
    for _ in range(5):
        world.time.copy_(held - DT)  # the probe's signal depends on time only
        scene.step()
        truth = sensor.read_ground_truth()
        torch.testing.assert_close(sensor.read()[[0, 2]], truth[[0, 2]], atol=1e-5, rtol=1e-5)


def test_filter_recovers_from_a_signal_that_was_not_finite():
    class Faulty(Probe):
        """A probe that reads infinity in env 1 at the sixth step."""

    class FaultySensor(ProbeSensor, options=Faulty):
        @classmethod
        def _update_raw_data(cls, group, out):
            super()._update_raw_data(group, out)
            if round(float(group.world.time[0]) / DT) == 6:
                out[:, 1] = math.inf

    scene, sensor = probe_scene(Faulty(bandwidth=5.0), n_envs=2)
    scene.step(6)
    assert not sensor.read()[1].isfinite().any()
    assert sensor.read()[0].isfinite().all()
    scene.step(2)
    assert sensor.read().isfinite().all()


LASTING = {
    "stuck": ({"stuck": 1e9}, {"stuck": 0.0}, {"stuck": 1e-9}),
    "turn-on bias": (
        {"bias_spread": 1.0, "temperature_drift": 0.0},
        {"bias_spread": 0.0},
        {"temperature_drift": 0.01},
    ),
    "drift": ({"drift": 1.0}, {"drift": 0.0}, {"drift": 0.01}),
    "filter": ({"bandwidth": 5.0}, {"bandwidth": None}, {"bandwidth": 5.0}),
}


@pytest.mark.parametrize("effect", LASTING)
@pytest.mark.parametrize("all_envs", [None, [0, 1]])
def test_lasting_effects_in_one_env_do_not_depend_on_settings_of_another(effect, all_envs):
    options, off, again = LASTING[effect]
    seen = []
    for disturbed in (False, True):
        scene, sensor = probe_scene(Probe(uuid="p", noise=0.1, **options), n_envs=2)
        scene.step(50)
        sensor.set(envs=all_envs, **off)
        scene.step(2)
        for change in (off, again) if disturbed else ():
            sensor.set(envs=[0], **change)
            scene.step()
        scene.step(1 if disturbed else 3)
        seen.append(sensor.read()[1].clone())
    assert torch.equal(*seen)
