"""Figures of data sheets: simulated sensors have the noise, spectra and Allan deviations that the figures say."""

import math
import re
from copy import copy

import numpy as np
import pytest
import torch
from conftest import drop_scene
from probe import HookedDoubleProbe, HookedProbe, Probe, probe_scene

import sensorium as sn
from sensorium.pipeline.filters import low_pass, noise_gain, noise_state
from sensorium.sensors.allan import drift_of_floor, gauss_markov_variance

ENBW = {1: math.pi / 2, 2: math.pi / (2 * math.sqrt(2))}
"""Equivalent noise bandwidth of a low-pass filter of each order, in bandwidths."""


def still_gyro(n_envs, dt, seed=1, **options):
    """Return a built scene with a gyroscope at rest, whose true signal is 0, and the sensor."""
    scene = sn.Scene(dt=dt, substeps=1, gravity=(0, 0, 0))
    scene.add_object(sn.Sphere(), name="ball", free=True)
    imu = scene.add_sensor(sn.IMU(link="ball", uuid="imu", **options))
    scene.build(n_envs=n_envs, seed=seed)
    return scene, imu


def rates(scene, imu, steps):
    """Return the readings of now and of the next steps, (steps + 1, series) float64."""
    out = [imu.read().ang_vel.reshape(-1).clone()]
    for _ in range(steps):
        scene.step()
        out.append(imu.read().ang_vel.reshape(-1).clone())
    return torch.stack(out).double().numpy()


# -- noise density and bandwidth ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("rate", [None, 100.0])
def test_noise_density_passes_through_the_filter(order, rate):
    """D² times the noise bandwidth is the variance, whatever the sample rate: 0.067 for 0.02 /√Hz and 10 Hz."""
    scene, imu = still_gyro(3000, 1e-3, rate=rate, gyro_noise_density=0.02, gyro_bandwidth=10.0, filter_order=order)
    expected = 0.02 * math.sqrt(ENBW[order] * 10.0)
    assert order == 1 or expected == pytest.approx(0.067, abs=5e-4)
    for reading in rates(scene, imu, 3):  # from the first sample on
        assert reading.std() == pytest.approx(expected, rel=0.03)
    scene.step(200)
    assert rates(scene, imu, 0).std() == pytest.approx(expected, rel=0.03)
    scene.reset()
    assert rates(scene, imu, 0).std() == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("order", [1, 2])
def test_filtered_noise_is_correlated_as_the_filter_says_from_the_first_sample_on(order):
    """Correlation exp(-w t) of a first-order filter; exp(-w t / √2) (cos + sin)(w t / √2) of a Butterworth filter."""
    scene, imu = still_gyro(4000, 1e-3, gyro_noise_density=0.02, gyro_bandwidth=10.0, filter_order=order)
    signal = rates(scene, imu, 40)
    for lag in (5, 20, 40):
        t = 2 * math.pi * 10.0 * lag * 1e-3
        phase = t / math.sqrt(2)
        expected = math.exp(-t) if order == 1 else math.exp(-phase) * (math.cos(phase) + math.sin(phase))
        assert np.corrcoef(signal[0], signal[lag])[0, 1] == pytest.approx(expected, abs=0.04)


def test_noise_of_a_bandwidth_that_ticks_cannot_represent():
    """The filter is off, but the noise is that of the analogue bandwidth, which the samples fold down."""
    _, imu = still_gyro(3000, 0.01, gyro_noise_density=0.02, gyro_bandwidth=400.0)
    assert imu.read().ang_vel.std() == pytest.approx(0.02 * math.sqrt(ENBW[2] * 400.0), rel=0.03)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("relative", [1e-3, 0.02, 0.2, 0.45])
def test_stationary_state_solves_the_lyapunov_equation(order, relative):
    filters = low_pass(torch.tensor([relative]).double(), order, 1.0)
    b0, b1, b2, a1, a2 = (filters[name].item() for name in ("b0", "b1", "b2", "a1", "a2"))
    start = {name: value.item() for name, value in noise_state(filters).items()}
    factor = np.array([[start["l11"], 0.0], [start["l21"], start["l22"]]])
    covariance = factor @ factor.T
    step = np.array([[-a1, 1.0], [-a2, 0.0]])
    kick = np.array([b1 - a1 * b0, b2 - a2 * b0])
    np.testing.assert_allclose(step @ covariance @ step.T + np.outer(kick, kick), covariance, rtol=1e-8, atol=1e-15)
    output = []  # impulse response
    z1 = z2 = 0.0
    for k in range(20_000):
        x = float(k == 0)
        y = b0 * x + z1
        z1, z2 = b1 * x - a1 * y + z2, b2 * x - a2 * y
        output.append(y)
    gain = noise_gain(torch.tensor([relative]).double(), order, 1.0).item()
    assert gain == pytest.approx(np.square(output).sum(), rel=1e-9)


@pytest.mark.slow
def test_noise_follows_changes_of_density_bandwidth_rate_and_noise_per_env():
    scene, imu = still_gyro(
        3000, 1e-3, gyro_noise_density=0.02, gyro_bandwidth=10.0, acc_noise_density=1.0, acc_bandwidth=20.0
    )
    third = [range(i * 1000, (i + 1) * 1000) for i in range(3)]

    def deviations():
        scene.step(150)
        reading = imu.read().ang_vel
        return [reading[list(envs)].std().item() for envs in third]

    def of(density, bandwidth):
        return density * math.sqrt(ENBW[2] * bandwidth)

    imu.set(gyro_noise_density=0.06, envs=third[1])
    imu.set(gyro_noise=0.3, envs=third[2])
    assert deviations() == pytest.approx([of(0.02, 10), of(0.06, 10), 0.3], rel=0.06)
    imu.set(gyro_bandwidth=40.0)
    assert deviations() == pytest.approx([of(0.02, 40), of(0.06, 40), 0.3], rel=0.06)
    imu.set(gyro_bandwidth=None, rate=200.0, envs=third[0])
    assert deviations() == pytest.approx([0.02 * math.sqrt(100), of(0.06, 40), 0.3], rel=0.06)
    imu.set(gyro_noise_density=None, envs=third[1])
    imu.set(gyro_noise_density=0.1, envs=third[2])
    assert deviations() == pytest.approx([0.02 * math.sqrt(100), 0.0, of(0.1, 40)], rel=0.06, abs=1e-6)
    imu.set(gyro_noise=0.2)
    assert deviations() == pytest.approx([0.2, 0.2, 0.2], rel=0.06)
    assert imu.read().lin_acc.std().item() == pytest.approx(of(1.0, 20), rel=0.06)


@pytest.mark.parametrize("options", [HookedProbe, HookedDoubleProbe])
def test_noise_before_the_filter_is_bit_identical_on_warp(options):
    pytest.importorskip("warp")
    from sensorium.pipeline.gpu import GpuKernels
    from sensorium.pipeline.layout import Ticks
    from sensorium.pipeline.protocols import ResetEnvs

    scene = drop_scene()
    probe = scene.add_sensor(options(uuid="p", noise_density=0.3, bandwidth=9.0, drift=0.2, scale_error=0.1))
    scene.build(n_envs=5, seed=3)
    probe.set(bandwidth=20.0, envs=[0])
    probe.set(noise=0.5, envs=[1])
    expected = scene._sensing._of["p"].layout
    layout = copy(expected)
    block = copy(expected.block(probe.group))
    block.store = copy(block.store)
    for name, tensor in vars(expected.block(probe.group).store).items():
        setattr(block.store, name, tensor.clone())
    layout.blocks = {block.store.truth.dtype: block}
    warp = GpuKernels(torch.zeros(1, 5), torch.zeros(5, dtype=torch.int32), layout, Ticks(scene.dt, 1))
    for step in range(8):
        scene.step()  # the timing, which the copy shares, is that of Numba
        before, out = probe.group.truth.clone(), torch.zeros_like(probe.group.truth)
        warp.hardware(block, probe.group, before, out)
        if step == 4:
            scene.reset(envs=[1, 4])
            mask = torch.tensor([False, True, False, False, True])
            warp.reset_hardware(block, probe.group, probe.group.truth.clone(), out, ResetEnvs(mask, None))
        np.testing.assert_array_equal(out.numpy(), probe.group.reading.numpy())
        np.testing.assert_array_equal(block.store.extra.numpy(), expected.block(probe.group).store.extra.numpy())


# -- bias instability --------------------------------------------------------------------------------------------------


def allan_deviation(signal, m):
    """Return the overlapping Allan deviation of samples (n, series) at averages of m, over all series."""
    phase = np.cumsum(np.concatenate([np.zeros((1, signal.shape[1])), signal]), axis=0)
    second = phase[2 * m :] - 2 * phase[m:-m] + phase[: -2 * m]
    return math.sqrt((second**2).mean() / (2 * m**2))


def test_gauss_markov_variance_peaks_where_ieee_952_says():
    u = torch.linspace(0.01, 20, 100_000).double()
    g = gauss_markov_variance(u)
    assert u[g.argmax()].item() == pytest.approx(1.89, abs=0.01)
    assert g.max().sqrt().item() == pytest.approx(0.618, abs=1e-3)
    assert gauss_markov_variance(torch.tensor(1e-3).double()).item() == pytest.approx(2e-3 / 3, rel=1e-3)


def test_floor_of_the_total_curve_is_the_bias_instability():
    floor, time = 0.5, 40.0
    shares = torch.tensor([0.08, 0.1, 0.15, 0.2, 0.24]).double()  # N² / (B² T)
    white = (shares * floor**2 * time).sqrt()
    drift = drift_of_floor(torch.full_like(white, floor), white, torch.full_like(white, time))
    u = torch.linspace(1e-3, 1.89, 100_000).double()
    for n, sigma in zip(white, drift, strict=True):
        curve = (n**2 / (u * time) + sigma**2 * gauss_markov_variance(u)).sqrt()
        assert curve.min().item() == pytest.approx(floor, rel=1e-3)
        assert curve.argmin() < len(u) - 1  # a floor, after which the curve rises


def test_drift_of_a_floor_at_the_limits():
    def drift(floor, white, time):
        return drift_of_floor(*(torch.tensor([one]).double() for one in (floor, white, time))).item()

    assert drift(0.5, 0.0, 100.0) == pytest.approx(0.5 / 0.618)
    assert drift(0.5, 1e-4, 100.0) == pytest.approx(1.5 * 0.5 / 0.618)  # nearly noiseless
    assert drift(0.0, 0.1, 100.0) == 0.0
    assert drift(0.5, 100.0, 100.0) == 0.0  # noise alone stays above


@pytest.mark.slow
@pytest.mark.parametrize("name", ["consumer_mems", "automotive"])
def test_simulated_allan_deviation_dips_to_the_bias_instability_of_the_sheet(name):
    """BMI160: 6 °/h; ASM330LHH: 3 °/h. White noise at 0.1 s has the density of the sheet, divided by √2."""
    density, floor, seconds = {"consumer_mems": (0.007, 6.0, 150), "automotive": (0.005, 3.0, 300)}[name]
    options = sn.presets.imu(name, link="ball", gyro_resolution=0.0, gyro_bias_spread=0.0, acc=sn.AxisImperfections())
    scene = sn.Scene(dt=1 / options.rate, substeps=1, gravity=(0, 0, 0))
    scene.add_object(sn.Sphere(), name="ball", free=True)
    imu = scene.add_sensor(options)
    scene.build(n_envs=100, seed=2)
    block = 20
    signal = np.empty((round(seconds * options.rate / block), 300))
    for i in range(len(signal)):
        total = torch.zeros(300)
        for _ in range(block):
            scene.step()
            total += imu.read().ang_vel.reshape(-1)
        signal[i] = np.degrees((total / block).numpy()) * 3600
    dt = block / options.rate
    assert allan_deviation(signal, 4) == pytest.approx(density * 3600 / math.sqrt(2 * 4 * dt), rel=0.03)
    curve = [allan_deviation(signal, round(tau / dt)) for tau in (10, 15, 20, 25, 30, 40, 50, 60) if tau < seconds / 4]
    assert min(curve) == pytest.approx(floor, rel=0.06)


def drift_of(sensor):
    """Return the standard deviation of the drift as the kernels read it, (B, columns)."""
    from sensorium.pipeline.flags import E_DRIFT_SIZE

    return sensor._manager._of[sensor.uuid].layout.block(sensor.group).store.extra[:, E_DRIFT_SIZE].T


def test_drift_follows_what_the_floor_depends_on():
    _, sensor = probe_scene(Probe(uuid="p", noise=0.4, bias_instability=0.01, drift_time=100.0), n_envs=3)

    def expected(noise_at_1_s, floor=0.01, time=100.0):
        values = (torch.tensor([one]).double() for one in (floor, noise_at_1_s, time))
        return pytest.approx([drift_of_floor(*values).item()] * 3)

    changes = [
        ({}, expected(0.04)),
        ({"noise": 0.5}, expected(0.05)),
        ({"rate": 50.0}, expected(0.5 / math.sqrt(50))),
        ({"drift_time": 300.0}, expected(0.5 / math.sqrt(50), time=300.0)),
        ({"noise_density": 0.08}, expected(0.08 / math.sqrt(2), time=300.0)),
        ({"bandwidth": 20.0}, expected(0.08 / math.sqrt(2), time=300.0)),
        # samples at 5 Hz fold down the noise of 20 Hz
        ({"rate": 5.0}, expected(0.08 * math.sqrt(ENBW[2] * 20.0 / 5.0), time=300.0)),
        ({"bias_instability": (0.02, 0.02, 0.02)}, expected(0.08 * math.sqrt(ENBW[2] * 4), floor=0.02, time=300.0)),
    ]
    for change, after in changes:
        if change == {"bandwidth": 20.0}:
            _, sensor = probe_scene(
                Probe(noise_density=0.08, bias_instability=0.01, drift_time=300.0, rate=50.0, bandwidth=40.0), n_envs=3
            )
        if change:
            sensor.set(**change, envs=[0, 2])
            assert drift_of(sensor)[1].tolist() != after
            sensor.set(**change)
        for env in drift_of(sensor).tolist():
            assert env == pytest.approx(after.expected, rel=0.05)
    sensor.set(drift=0.7, envs=[1])
    sensor.set(noise_density=0.0)
    assert drift_of(sensor)[:, 0].tolist() == pytest.approx([0.02 / 0.618, 0.7, 0.02 / 0.618], rel=1e-3)
    sensor.set(bias_instability=None)
    assert drift_of(sensor).abs().max() == 0


def test_bias_instability_hidden_by_noise_raises_and_changes_nothing():
    with pytest.raises(
        sn.OptionError, match=r"Probe\.bias_instability=0\.001 is hidden by white noise.*raise drift_time"
    ):
        probe_scene(Probe(noise=1.0, bias_instability=0.001))
    _, sensor = probe_scene(Probe(noise=0.01, bias_instability=0.001))
    before = drift_of(sensor).clone()
    with pytest.raises(sn.OptionError, match="hidden by white noise"):
        sensor.set(noise=5.0)
    assert torch.equal(drift_of(sensor), before)
    sensor.set(noise=0.01)  # the failed call left no trace


def test_drift_and_bias_instability_exclude_each_other():
    with pytest.raises(sn.OptionError, match="set drift or bias_instability, not both"):
        Probe(drift=0.1, bias_instability=0.1)
    _, sensor = probe_scene(Probe(drift=0.1))
    with pytest.raises(sn.OptionError, match="twice"):
        sensor.set(drift=0.1, bias_instability=0.1)
    mine = sn.Imperfections(bias_instability=0.1) | sn.Imperfections(drift=0.2)
    assert (mine.drift, mine.bias_instability) == (0.2, None)
    options = sn.presets.imu("consumer_mems", link="b", gyro_drift=0.1)
    assert (options.gyro.drift, options.gyro.bias_instability) == (0.1, None)


# -- units -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("convert", "arguments", "text"),
    [
        ("from_discrete_noise", (0.1, 0.0), "rate must be > 0, got 0.0"),
        ("from_walk_per_step", (0.1, -1.0), "dt must be > 0, got -1.0"),
        ("from_ug_per_sqrt_hz", ("100",), "density must be a finite number, got '100'"),
        ("from_deg_per_hour", (float("nan"),), "rate must be a finite number, got nan"),
        ("from_continuous_noise", (-0.1,), "sigma must be >= 0, got -0.1"),
        ("from_visibility", (0,), "distance must be > 0, got 0"),
        ("from_rain_rate", (-5.0,), "rate must be >= 0, got -5.0"),
    ],
)
def test_units_refuse_what_no_data_sheet_says(convert, arguments, text):
    with pytest.raises(sn.OptionError, match=re.escape(text)):
        getattr(sn.units, convert)(*arguments)


def test_units_agree_with_each_other():
    units = sn.units
    # angle random walk: the heading after one hour of white noise has N as its standard deviation, in degrees
    density, rate = units.from_deg_per_sqrt_hour(0.3), 100.0
    sample = density * math.sqrt(rate / 2)
    assert math.degrees(sample / rate * math.sqrt(3600 * rate)) == pytest.approx(0.3)
    density = units.from_mps_per_sqrt_hour(0.06)
    assert density * math.sqrt(rate / 2) / rate * math.sqrt(3600 * rate) == pytest.approx(0.06)
    # Kalibr: discrete = continuous / √dt
    assert units.from_continuous_noise(0.001) * math.sqrt(rate / 2) == pytest.approx(0.001 * math.sqrt(rate))
    assert units.from_discrete_noise(0.01, rate) * math.sqrt(rate / 2) == pytest.approx(0.01)
    # a walk of n steps has √n times the deviation of one
    assert units.from_walk_per_step(1e-3, dt=0.01) * math.sqrt(100 * 0.01) == pytest.approx(1e-3 * math.sqrt(100))
    assert units.from_ug_per_sqrt_hz(180.0) == pytest.approx(180e-6 * 9.80665)
    assert units.from_ug(1e6) == pytest.approx(9.80665)
    assert units.from_dps_per_sqrt_hz(180.0) == pytest.approx(math.pi)
    assert units.from_deg_per_hour(180.0 * 3600) == pytest.approx(math.pi)


def test_converted_units_give_the_walks_they_name():
    """Integrated rates of 1,000 gyroscopes spread as their angle random walk says; biases as the walk per step."""
    scene, imu = still_gyro(1000, 0.01, gyro_noise_density=sn.units.from_deg_per_sqrt_hour(0.5))
    angle = rates(scene, imu, 400)[1:].sum(axis=0) * 0.01
    assert np.degrees(angle).std() == pytest.approx(0.5 * math.sqrt(4.0 / 3600), rel=0.05)
    scene, imu = still_gyro(1000, 0.01, gyro_random_walk=sn.units.from_walk_per_step(1e-3, dt=0.01))
    assert rates(scene, imu, 100)[-1].std() == pytest.approx(1e-3 * math.sqrt(100), rel=0.05)


# -- dead band ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("probe", [Probe, HookedProbe])
def test_dead_band_returns_positive_zero(probe):
    scene, sensor = probe_scene(probe(uuid="p", deadband=9.0), n_envs=8)
    for _ in range(3):  # after the reset, and after steps
        assert (sensor.read_ground_truth() < 0).any()
        assert (sensor.read() == 0).all()
        assert not sensor.read().signbit().any()
        scene.step()
