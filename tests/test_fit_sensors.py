"""Fits of simulated logs: intervals cover the true values. ``benchmarks/fit.py`` counts 200 runs of each case."""

import numpy as np
import pytest
from fit_cases import CASES, DT, encoders
from fit_scenes import GRAVITY, coverage, rest, simulate, swing

import sensorium as sn
from sensorium.fit.calibration import calibrate
from sensorium.fit.latency import coarse_lag
from sensorium.fit.magnetic import iron_by_turning
from sensorium.fit.replay import replay_pose

QUICK = ("time stamps", "distance", "barometer")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_intervals_cover_the_truth(name):
    runs = 3
    total = hit = 0
    for estimate, (covered, identified, count) in coverage(CASES[name], runs, seed=5).items():
        assert identified >= 0.5 * count, f"{estimate} is identified in {identified} of {count}"
        assert covered >= 0.5 * identified, f"{estimate}: {covered} of {identified} intervals cover the truth"
        total, hit = total + identified, hit + covered
    assert hit >= 0.85 * total


@pytest.mark.slow
def test_encoder_options_read_like_the_log():
    """The twin's own sensor has the noise, bias and scale of the sensor that made the log."""
    options = next(encoders(1, seed=2)).options(robot="body")
    assert options.bias[0] == pytest.approx(0.05, abs=3e-4)
    assert options.scale_error[0] == pytest.approx(0.01, abs=1e-3)
    assert options.resolution[0] == pytest.approx(2e-3, rel=1e-5)
    assert options.delay == pytest.approx(0.03, abs=3e-4)
    ((_, readings, truth),) = simulate({"e": options}, rest(3000, DT), 1)
    error = (readings["positions"] - truth["positions"])[100:, 0, 0]
    assert error.mean() == pytest.approx(0.05, abs=1e-3)
    assert error.std() == pytest.approx(np.hypot(3e-3, 2e-3 / np.sqrt(12)), rel=0.1)


# -- calibration -------------------------------------------------------------------------------------------------------


def waves(t):
    """Return three smooth signals, (n, 3)."""
    return np.stack([np.sin(2.1 * t), np.cos(3.3 * t) + 0.2 * np.sin(9 * t), np.sin(1.3 * t + 1)], axis=1)


def test_lag_is_found_below_a_sample():
    t = np.arange(4000) / 100
    matrix = np.array([[1.02, 0.05, 0], [-0.03, 0.98, 0.01], [0, 0.02, 1.01]])
    readings = waves(t - 0.0437) @ matrix.T + [0.1, -0.2, 0.3]
    assert coarse_lag(readings, waves(t), 100.0, 0.5) == pytest.approx(0.04, abs=0.011)
    for exact in (False, True):
        found = calibrate(t, readings, waves, exact=exact)
        assert found.delay == pytest.approx(0.0437, abs=1e-5)
        np.testing.assert_allclose(found.matrix, matrix, atol=1e-4)
        np.testing.assert_allclose(found.bias, [0.1, -0.2, 0.3], atol=1e-4)


def test_noise_of_neither_side_shrinks_the_matrix():
    rng = np.random.default_rng(1)
    t = np.arange(20000) / 100
    readings = waves(t) + 0.5 * rng.standard_normal((20000, 3))
    found = calibrate(t, readings, waves, noise=np.full(3, 0.5))
    assert (np.abs(found.matrix - np.eye(3)) < 4 * found.matrix_std + 1e-3).all()
    noisy = waves(t) + 0.5 * rng.standard_normal((20000, 3))

    def reference(at):
        return np.stack([np.interp(at, t, axis) for axis in noisy.T], axis=1)

    found = calibrate(t, waves(t), reference, lag=False)
    assert (np.abs(found.matrix - np.eye(3)) < 4 * found.matrix_std + 1e-3).all()


def test_gaps_and_nan_are_skipped():
    t = np.arange(3000) / 100

    def gappy(at):
        return np.where(((at > 5) & (at < 8))[:, None], np.nan, waves(at))

    readings = waves(t) + 1.0
    readings[200:220] = np.nan
    found = calibrate(t, readings, gappy)
    np.testing.assert_allclose(found.bias, 1.0, atol=1e-6)
    assert calibrate(t, readings, lambda at: np.full((len(at), 3), np.nan)) is None


def test_hard_and_soft_iron_from_all_orientations():
    rng = np.random.default_rng(3)
    field = rng.standard_normal((8000, 3))
    field = 4.8e-5 * field / np.linalg.norm(field, axis=1, keepdims=True)
    matrix = np.array([[1.1, 0.04, 0.01], [0.04, 0.95, -0.02], [0.01, -0.02, 1.0]])
    matrix /= np.cbrt(np.linalg.det(matrix))
    readings = field @ matrix.T + [1e-5, -2e-5, 5e-6] + 2e-7 * rng.standard_normal((8000, 3))
    found = iron_by_turning(readings)
    np.testing.assert_allclose(found.bias, [1e-5, -2e-5, 5e-6], atol=1e-7)
    np.testing.assert_allclose(found.matrix, matrix, atol=2e-3)
    assert iron_by_turning(readings[np.abs(field[:, 2]) < 5e-6]) is None


# -- what a log does not show ------------------------------------------------------------------------------------------


def test_rest_says_what_it_does_not_identify():
    rng = np.random.default_rng(4)
    n = 6000
    log = {
        "time": np.arange(n) * 0.01,
        "gyro": 1e-3 * rng.standard_normal((n, 3)),
        "acc": [0, 0, 9.81] + 0.02 * rng.standard_normal((n, 3)),
    }
    twin = sn.fit.imu(log)
    for name in ("gyro.delay", "gyro.misalignment", "acc.bias", "acc.misalignment", "delay", "gyro.random_walk"):
        assert not twin.estimates[name].identifiable, name
        assert "record" in twin.estimates[name].reason or "reference" in twin.estimates[name].reason
    assert twin.estimates["gyro.bias"].identifiable
    assert twin.options(link="torso").delay == 0.0


@pytest.mark.slow
def test_channels_with_different_latencies():
    motion = swing(4000, 0.01, still=8.0)
    exact = sn.fit.PoseReference(motion.time, motion.quat, motion.pos)
    time = motion.time[100:-100]
    options = sn.IMU(link="body/base", gyro_noise_density=2e-4, acc_noise_density=2e-3)
    read = {late: replay_pose(options, exact, time - late, gravity=GRAVITY) for late in (0.012, 0.004)}
    log = {"time": time, "gyro": read[0.012]["gyro"], "acc": read[0.004]["acc"]}
    pose = {"time": motion.time, "quat": motion.quat, "pos": motion.pos}
    twin = sn.fit.imu(log, reference=pose, gravity=GRAVITY)
    assert twin.estimates["gyro.delay"].value == pytest.approx(0.012, abs=3e-4)
    assert twin.estimates["acc.delay"].value == pytest.approx(0.004, abs=3e-4)
    assert twin.estimates["delay"].value == twin.estimates["gyro.delay"].value
    assert "that of gyro, for all channels: a simulated IMU has one latency; acc is 8 ms earlier" in str(
        twin.estimates["delay"].reason
    )
    # the accelerometer of a second IMU
    second = twin.options(link="torso", delay=twin.estimates["acc.delay"].value)
    assert second.delay == pytest.approx(0.004, abs=3e-4)
    assert second.max_delay >= second.delay


def test_early_readings_are_a_clock_offset():
    t = np.arange(3000) / 100
    twin = sn.fit.channel({"time": t, "value": waves(t + 0.02)}, reference=waves(t))
    assert not twin.estimates["delay"].identifiable
    assert "clocks" in twin.estimates["delay"].reason


def test_logs_without_the_channels_of_a_sensor():
    log = {"time": np.arange(100) / 100, "speed": np.zeros(100)}
    for fit in (sn.fit.imu, sn.fit.joint_encoder, sn.fit.force_torque, sn.fit.barometer):
        with pytest.raises(sn.OptionError, match="has no channel"):
            fit(log)
    with pytest.raises(sn.OptionError, match="neither 'pos' nor"):
        sn.fit.gps(log)
    with pytest.raises(sn.OptionError, match="kind must be one of"):
        sn.fit.distance({"time": [0, 1], "distance": [1, 1]}, 1.0, kind="sonar")
    with pytest.raises(sn.OptionError, match="name one of the channels"):
        sn.fit.channel({"time": np.arange(100) / 100, "speed": np.zeros(100), "level": np.zeros(100)})


def test_better_imu_as_reference():
    motion = swing(4000, 0.01, still=6.0)
    options = {
        "cheap": sn.IMU(link="body/base", uuid="cheap", gyro_noise=0.01, gyro_bias=(0.02, 0, -0.01), delay=0.03),
        "good": sn.IMU(link="body/base", uuid="good", gyro_noise=1e-4, acc_noise=1e-3),
    }
    found = {name: readings for name, readings, _ in simulate(options, motion, 1)}
    log, better = (
        {"time": motion.time, "gyro": found[name]["ang_vel"][:, 0], "acc": found[name]["lin_acc"][:, 0]}
        for name in ("cheap", "good")
    )
    twin = sn.fit.imu(log, reference=better)
    assert twin.estimates["gyro.delay"].value == pytest.approx(0.03, abs=1e-3)
    np.testing.assert_allclose(twin.estimates["gyro.bias"].value, [0.02, 0, -0.01], atol=1e-3)


def test_temperature_drift_of_a_sensor_that_warms_up():
    rng = np.random.default_rng(6)
    n = 12000
    heat = 22 + 15 * (1 - np.exp(-np.arange(n) / 4000))
    slope = np.array([2e-4, -1e-4, 3e-4])
    gyro = np.outer(heat - 25, slope) + [0.01, -0.02, 0.005] + 2e-3 * rng.standard_normal((n, 3))
    twin = sn.fit.imu({"time": np.arange(n) * 0.01, "gyro": gyro, "temperature": heat})
    found, bias = twin.estimates["gyro.temperature_drift"], twin.estimates["gyro.bias"]
    assert (np.abs(found.value - slope) < 3 * found.std).all()
    np.testing.assert_allclose(bias.value, [0.01, -0.02, 0.005], atol=3e-4)
    assert twin.options(link="torso").gyro.temperature_drift == tuple(found.value)
    constant = sn.fit.imu({"time": np.arange(n) * 0.01, "gyro": gyro, "temperature": np.full(n, 30.0)})
    assert "warms up" in constant.estimates["gyro.temperature_drift"].reason
