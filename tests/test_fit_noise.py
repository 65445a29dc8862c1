"""Allan deviation, spectrum, drift and the values that readings take, against published figures and closed forms."""

import numpy as np
import pytest
import torch
from scipy import signal

import sensorium as sn
from sensorium.fit.allan import allan_deviation
from sensorium.fit.drift import allan_floor, drift
from sensorium.fit.noise import rest_noise
from sensorium.fit.outliers import outliers
from sensorium.fit.resolution import deadband, resolution, saturation, step_of
from sensorium.fit.spectrum import low_pass_gain, white_noise
from sensorium.fit.timing import dropout, sample_numbers, timing
from sensorium.sensors.allan import drift_of_floor

RATE = 100.0


def overlapping(values, factor):
    """Return the overlapping Allan deviation at one averaging factor."""
    curve = allan_deviation(np.asarray(values, float), 1.0, points=2000)
    return float(curve.deviation[list(curve.tau).index(factor), 0])


def test_allan_deviation_of_published_data():
    """NIST SP 1065, section 12.4: 1000 numbers of a congruential generator, and the 9 values of NBS Monograph 140."""
    numbers = [1234567890]
    while len(numbers) < 1000:
        numbers.append(16807 * numbers[-1] % 2147483647)
    values = np.array(numbers) / 2147483647
    for factor, published in ((1, 2.922319e-01), (10, 9.159953e-02), (100, 3.241343e-02)):
        assert overlapping(values, factor) == pytest.approx(published, rel=1e-6)
    nine = [892, 809, 823, 798, 671, 644, 883, 903, 677]
    assert overlapping(nine, 1) == pytest.approx(91.22945, rel=1e-6)
    assert overlapping(nine, 2) == pytest.approx(85.95287, rel=1e-6)


def test_allan_deviation_follows_the_slopes_of_white_noise_and_random_walk():
    rng = np.random.default_rng(0)
    noise, walk = rng.standard_normal(40000), np.cumsum(rng.standard_normal(40000)) / np.sqrt(RATE)
    white, red = allan_deviation(noise, RATE), allan_deviation(walk, RATE)
    at = slice(5, 25)
    np.testing.assert_allclose(white.deviation[at, 0], np.sqrt(1 / RATE / white.tau[at]), rtol=0.1)
    np.testing.assert_allclose(red.deviation[at, 0], np.sqrt(red.tau[at] / 3), rtol=0.15)
    assert ((white.low < white.deviation) & (white.deviation < white.high)).all()


def test_allan_deviation_does_not_span_segments():
    steps = np.concatenate([np.zeros(500), np.full(500, 9.0)])
    apart = allan_deviation(steps, RATE, [slice(0, 500), slice(500, 1000)])
    assert apart.deviation.max() < 1e-12
    assert allan_deviation(steps, RATE).deviation.max() > 0.1
    with pytest.raises(sn.OptionError, match="at least 3 samples"):
        allan_deviation(np.zeros(2), RATE)


def test_noise_density_is_one_sided_and_without_quantisation():
    rng = np.random.default_rng(1)
    sigma, step = 1.4e-3, 1e-3
    readings = np.rint(sigma * rng.standard_normal(30000) / step) * step
    found = white_noise([readings], RATE, step)
    assert found.density == pytest.approx(sigma * np.sqrt(2 / RATE), rel=4 * found.log_std)
    assert np.isnan(found.bandwidth)


@pytest.mark.parametrize("order", [1, 2])
def test_bandwidth_of_filtered_noise(order):
    rng = np.random.default_rng(2)
    b, a = signal.butter(order, 9.0, fs=RATE)
    readings = signal.lfilter(b, a, rng.standard_normal(40000))[200:]
    found = white_noise([readings], RATE, order=order)
    assert abs(np.log(found.bandwidth / 9.0)) < 4 * found.bandwidth_log_std
    assert abs(np.log(found.density / np.sqrt(2 / RATE))) < 4 * found.log_std
    frequency = np.array([1.0, 9.0, 30.0])
    response = np.abs(signal.freqz(b, a, frequency, fs=RATE)[1]) ** 2
    np.testing.assert_allclose(low_pass_gain(frequency, 9.0, order, RATE), response, rtol=1e-6)


def test_spectral_lines_do_not_count_as_noise():
    rng = np.random.default_rng(3)
    t = np.arange(30000) / RATE
    readings = rng.standard_normal(30000) + 0.8 * np.sin(2 * np.pi * 21.3 * t)
    found = white_noise([readings], RATE)
    assert found.lines > 0
    assert found.density == pytest.approx(np.sqrt(2 / RATE), rel=0.03)


def noise_with(walk=0.0, size=0.0, time=1.0, samples=20000, seed=0):
    """Return white noise of 1 per sample with a random walk or a Gauss-Markov drift, (samples, 1)."""
    rng = np.random.default_rng(seed)
    keep = np.exp(-1 / (RATE * time))
    input_ = size * np.sqrt(1 - keep**2) * rng.standard_normal(samples)
    input_[0] = size * rng.standard_normal()
    slow = signal.lfilter([1.0], [1.0, -keep], input_)
    red = walk / np.sqrt(RATE) * np.cumsum(rng.standard_normal(samples))
    return (rng.standard_normal(samples) + slow + red)[:, None]


def test_random_walk_is_told_from_gauss_markov_drift():
    white, error = np.array([1.0]), np.array([0.006])
    walk = drift([noise_with(walk=0.3)], RATE, white, error)
    assert walk.kind == "walk"
    assert walk.walk_interval[0] < 0.3 < walk.walk_interval[1]
    slow = drift([noise_with(size=1.0, time=5.0)], RATE, white, error)
    assert slow.kind == "gauss_markov"
    assert slow.size_interval[0] < 1.0 < slow.size_interval[1]
    assert slow.time_interval[0] < 5.0 < slow.time_interval[1]
    none = drift([noise_with()], RATE, white, error)
    assert none.kind == "none"
    assert none.walk[0] < 0.05


def test_drift_needs_enough_samples():
    assert drift([noise_with(samples=12)], RATE, np.array([1.0]), np.array([0.1])) is None


def test_floor_is_the_minimum_of_the_model():
    floor, white, time = (torch.tensor([one]).double() for one in (0.02, 0.05, 30.0))
    size = float(drift_of_floor(floor, white, time))
    assert allan_floor(0.05**2, np.array([size]), np.array([30.0]))[0] == pytest.approx(0.02, rel=0.01)


def test_rest_without_change_bounds_the_noise():
    found = rest_noise("", [np.zeros((500, 2))], RATE, "m", np.full(2, 0.01))
    density = next(one for one in found.estimates if one.name == "noise_density")
    assert not density.identifiable
    assert "hidden by their step" in density.reason


def test_noise_below_the_step_comes_from_the_levels():
    rng = np.random.default_rng(4)
    readings = np.rint((0.3 * rng.standard_normal((20000, 1)) + 0.2) / 1.0)
    found = rest_noise("", [readings], RATE, "m", np.array([1.0]))
    density = next(one for one in found.estimates if one.name == "noise_density")
    low, high = density.interval
    assert low[0] < 0.3 * np.sqrt(2 / RATE) < high[0]


# -- values of readings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0.0, 0.37])
@pytest.mark.parametrize("rounding", [0.0, 1e-16, 0.08])
def test_step_of_noisy_multiples(offset, rounding):
    rng = np.random.default_rng(5)
    step = 1.0653e-3
    counts = np.rint(400 * np.sin(np.arange(4000) / 90) + 2 * rng.standard_normal(4000))
    values = (counts + offset) * step + rounding * step * rng.uniform(-0.5, 0.5, 4000)
    found = step_of(values)
    assert abs(found.size - step) <= max(found.error, 1e-6 * step)
    assert found.error < 2e-3 * step


def test_step_of_sparse_counts_in_float32():
    """4,000 readings over 70,000 counts: most counts never occur."""
    rng = np.random.default_rng(6)
    step = 3.0278e-5
    counts = np.rint(35000 * np.sin(np.linspace(0, 40, 4000)) + 3 * rng.standard_normal(4000))
    values = (counts * step + 0.8).astype(np.float32).astype(float)
    assert step_of(values).size == pytest.approx(step, rel=1e-5)


def test_continuous_readings_have_no_step():
    rng = np.random.default_rng(7)
    values = 9.81 + rng.standard_normal((5000, 2)).astype(np.float32).astype(float)
    found = resolution("acc.resolution", values, "m/s²")
    assert not found.identifiable
    assert found.value.max() < 0.01


def test_saturation_is_where_readings_stay():
    rng = np.random.default_rng(8)
    values = 3 * np.sin(np.arange(3000) / 40)[:, None] + 0.05 * rng.standard_normal((3000, 1))
    clipped = saturation("saturation", np.clip(values, -2.0, 2.5), "m")
    assert clipped.value == pytest.approx([-2.0, 2.5])
    assert not saturation("saturation", values, "m").identifiable
    one_side = saturation("saturation", np.minimum(values, 2.5), "m")
    assert one_side.value[1] == 2.5
    assert one_side.value[0] == -np.inf


def test_dead_band_is_a_gap_around_zero():
    rng = np.random.default_rng(9)
    values = np.sin(np.arange(20000) / 50)[:, None] + 0.01 * rng.standard_normal((20000, 1))
    found = deadband("deadband", np.where(np.abs(values) < 0.08, 0.0, values), "m")
    assert found.identifiable
    assert found.interval[0][0] <= 0.08 <= found.interval[1][0]
    assert not deadband("deadband", values, "m").identifiable
    grid = np.rint(values / 0.02) * 0.02
    assert not deadband("deadband", grid, "m").identifiable


def test_outliers_are_counted_and_measured():
    rng = np.random.default_rng(10)
    values = rng.standard_normal((20000, 3))
    hit = rng.uniform(size=values.shape) < 0.01
    values[hit] += 20.0 * rng.choice([-1, 1], hit.sum())
    share, size = outliers("gyro.", [values], "rad/s")
    assert share.interval[0] < hit.mean() < share.interval[1]
    assert size.interval[0] < 20.0 < size.interval[1]
    (none,) = outliers("gyro.", [rng.standard_normal((20000, 3))], "rad/s")
    assert not none.identifiable


# -- time stamps -------------------------------------------------------------------------------------------------------


def test_rate_jitter_and_lost_samples():
    rng = np.random.default_rng(11)
    time = np.arange(5000) / 204.1 + rng.uniform(0, 0.002, 5000) + 1.7e9
    kept = rng.uniform(size=5000) > 0.03
    kept[[0, -1]] = True
    found = {one.name: one for one in timing(time[kept])}
    for name, truth in (("rate", 204.1), ("jitter", 0.002), ("lost_stamps", 1 - kept.mean())):
        low, high = found[name].interval
        assert low <= truth <= high, name
    np.testing.assert_array_equal(sample_numbers(time[kept]), np.flatnonzero(kept))


def test_regular_stamps_have_no_jitter():
    found = {one.name: one for one in timing(np.arange(1000) * 0.0035)}
    assert not found["jitter"].identifiable
    assert found["rate"].value == pytest.approx(1 / 0.0035)


def test_held_readings_are_lost_samples_unless_they_are_periodic():
    rng = np.random.default_rng(12)
    values = rng.standard_normal((8000, 3))
    held = values.copy()
    for k in np.flatnonzero(rng.uniform(size=8000) < 0.05)[1:]:
        held[k] = held[k - 1]
    found = dropout("dropout", held)
    assert found.interval[0] < 0.05 < found.interval[1]
    slow = np.repeat(values[:4000], 2, axis=0)
    assert "slower than the log" in dropout("dropout", slow).reason
    assert not dropout("dropout", values).identifiable
