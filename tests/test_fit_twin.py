"""Estimates and twins: tables, options, randomisation, several runs."""

import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.fit.estimate import Estimate, Twin
from sensorium.fit.problems import Problem
from sensorium.fit.runs import combine


def imu_twin(**changes):
    """Return a twin of an IMU with one estimate of each kind."""
    estimates = [
        Estimate.normal("rate", 200.0, 0.001, "Hz"),
        Estimate.normal("delay", 0.004, 0.0002, "s"),
        Estimate.normal("gyro.bias", [0.01, -0.02, 0.005], [1e-3] * 3, "rad/s"),
        Estimate.positive("gyro.noise_density", [2e-4] * 3, [0.05] * 3, "rad/s/√Hz"),
        Estimate.positive("gyro.noise", [2e-3] * 3, [0.05] * 3, "rad/s"),
        Estimate.normal("gyro.misalignment", np.eye(3), np.full((3, 3), 1e-3), ""),
        Estimate.positive("gyro.bandwidth", 60.0, 0.02, "Hz"),
        Estimate("gyro.saturation", np.array([-np.inf, 35.0]), (np.array([-np.inf, 35.0]),) * 2, "rad/s"),
        Estimate.at_most("gyro.random_walk", [1e-5] * 3, "rad/s/√s", "no drift in 60 s of rest"),
        Estimate.missing("acc.bias", "m/s²", "at rest a bias looks like a tilt", (3,)),
        Estimate.normal("acc.lever", [0.0, 0.0, 0.01], [1e-4] * 3, "m"),
        Estimate.positive("mag.noise_density", [1e-7] * 3, [0.05] * 3, "T/√Hz"),
    ]
    return Twin("imu", {one.name: one for one in estimates}, **changes)


def test_intervals_of_estimates():
    normal = Estimate.normal("bias", [1.0, 2.0], [0.1, 0.2], "m")
    np.testing.assert_allclose(normal.interval, [[0.804, 1.608], [1.196, 2.392]], atol=1e-3)
    np.testing.assert_allclose(normal.std, [0.1, 0.2])
    positive = Estimate.positive("noise", 2.0, 0.1, "m")
    assert positive.interval[0] * positive.interval[1] == pytest.approx(4.0)
    missing = Estimate.missing("bias", "m", "why", (3,))
    assert not missing.identifiable
    assert np.isnan(missing.value).all()
    assert np.isinf(missing.interval[1]).all()


def test_table_shows_value_interval_and_reason():
    text = str(imu_twin(problems=[Problem("time.jumps", "two jumps", "record again")]))
    for part in ("gyro.noise_density", "rad/s/√Hz", "no drift in 60 s", "≤ 1e-05", "time.jumps", "0.00022059"):
        assert part in text


def test_options_hold_what_is_identified():
    options = imu_twin().options(link="torso")
    assert isinstance(options, sn.IMU)
    assert options.gyro.noise_density == (2e-4, 2e-4, 2e-4)
    assert options.gyro.noise == 0.0
    assert options.gyro.saturation == (None, 35.0)
    assert options.gyro.random_walk == 0.0
    assert options.gyro.bandwidth == 60.0
    assert options.acc.bias == 0.0
    assert options.delay == 0.004
    assert options.max_delay > 0.0045


def test_given_options_replace_fitted_ones():
    options = imu_twin().options(link="torso", gyro_noise=0.5, delay=0.0, max_delay=0.1)
    assert options.gyro.noise == 0.5
    assert options.gyro.noise_density is None
    assert options.delay == 0.0


def test_channels_of_unknown_unit_are_not_used():
    problem = Problem("mag.units", "47 is no field in T", 'pass units={"mag": "uT"}', blocks="mag")
    assert imu_twin().options(link="torso").mag.noise_density is not None
    assert imu_twin(problems=[problem]).options(link="torso").mag.noise_density is None


def test_a_longer_delay_makes_the_ring_longer():
    options = imu_twin().options(link="torso", delay=0.2)
    assert options.delay == 0.2
    assert options.max_delay >= 0.2


def test_a_channel_has_no_order_of_its_filter():
    band = Estimate.positive("bandwidth", 6.0, 0.01, "Hz")
    twin = Twin("channel", {"bandwidth": band}, settings={"filter_order": 1})
    assert twin.options().bandwidth == 6.0


def test_jitter_has_at_least_its_own_delay():
    twin = Twin("imu", {"jitter": Estimate.positive("jitter", 0.003, 0.01, "s")})
    options = twin.options(link="torso")
    assert options.delay == options.jitter == 0.003


def test_unknown_kind():
    with pytest.raises(sn.OptionError, match="did you mean 'imu'"):
        Twin("imus", {}).options()


def test_samples_have_the_fitted_spread_and_fit_the_sensor():
    twin = imu_twin()
    scene = sn.Scene(dt=0.005)
    scene.add_object(sn.Box(), name="torso", free=True)
    imu = scene.add_sensor(twin.options(link="torso"))
    scene.build(n_envs=64)
    imu.set(**twin.sample(envs=64, seed=3))
    drawn = twin.sample(envs=4000, seed=1)
    np.testing.assert_allclose(drawn["gyro_bias"].mean(0), [0.01, -0.02, 0.005], atol=1e-4)
    np.testing.assert_allclose(drawn["gyro_bias"].std(0), 1e-3, rtol=0.1)
    np.testing.assert_allclose(drawn["gyro_misalignment"].std(0), 1e-3, rtol=0.1)
    assert (drawn["gyro_noise_density"] > 0).all()
    assert drawn["gyro_bandwidth"].shape == (4000, 1)
    assert "rate" not in drawn
    assert torch.equal(drawn["delay"], twin.sample(envs=4000, seed=1)["delay"])
    assert not torch.equal(drawn["delay"], twin.sample(envs=4000, seed=2)["delay"])
    with pytest.raises(sn.OptionError, match=r"envs must be an integer in \[1, "):
        twin.sample(envs=0)


def test_several_runs_give_the_spread_of_the_bias():
    rng = np.random.default_rng(0)
    twins = []
    for _ in range(40):
        bias = rng.normal([0.01, 0.0, -0.01], 0.003)
        twins.append(
            Twin(
                "imu",
                {
                    "gyro.bias": Estimate.normal("gyro.bias", bias, [1e-4] * 3, "rad/s"),
                    "gyro.noise_density": Estimate.positive(
                        "gyro.noise_density", rng.normal(2e-4, 4e-6, 3), 0.02, "rad/s/√Hz"
                    ),
                },
            )
        )
    both = combine(twins)
    spread = both.estimates["gyro.bias_spread"]
    assert ((spread.interval[0] < 0.003) & (spread.interval[1] > 0.003)).all()
    np.testing.assert_allclose(both.estimates["gyro.noise_density"].value, 2e-4, rtol=0.02)
    assert both.options(link="torso").gyro.bias_spread == tuple(spread.value)
    with pytest.raises(sn.OptionError, match="empty list"):
        combine([])
