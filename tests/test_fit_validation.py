"""Replay of motions in a scene, and validation of twins: true twins pass, wrong ones fail."""

from pathlib import Path

import numpy as np
import pytest

import sensorium as sn
from sensorium import poses
from sensorium.errors import OptionError
from sensorium.fit.comparison import compare_motion, compare_rest, motion_verdicts, rest_verdicts
from sensorium.fit.estimate import Estimate, Twin
from sensorium.fit.logs import as_log
from sensorium.fit.references import PoseReference, as_reference
from sensorium.fit.replay import replay_pose, replay_rest
from sensorium.fit.validation import validate

DATA = Path(__file__).parents[1].parent / "shared" / "data" / "broad"
G = 9.80665
RATE = 100.0


def pose(seconds=30.0, still=0.0):
    t = np.arange(0, seconds, 1 / RATE)
    on = np.clip((t - still) / 2, 0, 1)[:, None] ** 3
    turns = poses.from_rotation_vector(on * np.stack([np.sin(2 * t), 0.7 * np.sin(3 * t), np.cos(1.3 * t)], axis=1))
    place = on * np.stack([0.1 * np.sin(5 * t), 0.1 * np.cos(4 * t), 0.05 * np.sin(3 * t)], axis=1)
    return PoseReference(t, turns, place)


REFERENCE = pose()


def test_replay_reads_what_the_reference_expects():
    times = np.arange(5, 9, 0.005)
    field = (1e-5, 2e-5, -4e-5)
    arm = np.array([0.05, 0.0, -0.02])
    readings = replay_pose(sn.IMU(link="any"), REFERENCE, times, gravity=G, field=field, lever=arm)
    np.testing.assert_allclose(readings["gyro"], REFERENCE.angular_rate(times).values, atol=1e-5)
    np.testing.assert_allclose(readings["acc"], REFERENCE.specific_force(times, G, arm).values, atol=1e-4)
    np.testing.assert_allclose(readings["mag"], REFERENCE.magnetic_field(times, field).values, atol=2e-7)
    np.testing.assert_array_equal(readings["gyro"], readings["gyro_truth"])


def test_replay_has_the_imperfections_of_the_sensor():
    times = np.arange(5, 25, 0.01)
    options = sn.IMU(
        link="any", gyro_bias=(0.1, 0, 0), gyro_noise=0.01, gyro_misalignment=((1, 0, 0), (0, 2, 0), (0, 0, 1))
    )
    readings = replay_pose(options, REFERENCE, times)
    error = readings["gyro"] - readings["gyro_truth"] * [1, 2, 1]
    np.testing.assert_allclose(error.mean(axis=0), [0.1, 0, 0], atol=2e-3)
    np.testing.assert_allclose(error.std(axis=0), 0.01, rtol=0.1)


def test_replay_at_rest():
    readings = replay_rest(sn.IMU(link="any", acc_noise=0.1), 300, 0.01, 8, gravity=G)
    assert readings["acc"].shape == (300, 8, 3)
    np.testing.assert_allclose(readings["acc"].mean(axis=(0, 1)), [0, 0, G], atol=0.01)
    np.testing.assert_allclose(readings["acc"].std(axis=(0, 1)), 0.1, rtol=0.05)
    np.testing.assert_array_equal(readings["gyro"], 0)


def test_replay_refuses_gaps_and_other_sensors():
    with pytest.raises(OptionError, match=r"needs poses at all times"):
        replay_pose(sn.IMU(link="any"), REFERENCE, np.arange(25, 35, 0.01))
    with pytest.raises(OptionError, match=r"needs options of an IMU, got GPS"):
        replay_rest(sn.GPS(link="any"), 10, 0.01, 1)


# -- comparisons -------------------------------------------------------------------------------------------------------


def white(rng, samples, runs, scale=1.0):
    return scale * rng.normal(size=(samples, runs, 3))


def verdicts(log, twin):
    parts = list(log.transpose(1, 0, 2))
    return {one.subject: one for one in rest_verdicts("gyro", compare_rest(parts, twin, RATE, np.zeros(3)))}


def test_equal_noise_passes_in_most_runs():
    rng = np.random.default_rng(0)
    found = [verdicts(white(rng, 4000, 2), white(rng, 2000, 16)) for _ in range(10)]
    for subject in ("noise", "distribution", "autocorrelation"):
        assert sum(one[subject].holds for one in found) >= 9, subject
    assert "the twin's noise is within 10 % of the log's" in found[0]["noise"].text


def test_wrong_noise_fails():
    rng = np.random.default_rng(1)
    louder = verdicts(white(rng, 4000, 2), white(rng, 2000, 16, 1.3))
    assert not louder["noise"].holds
    assert not louder["distribution"].holds
    assert louder["autocorrelation"].holds  # a factor does not show there
    slow = white(rng, 2001, 16)
    coloured = (slow[1:] + slow[:-1]) / np.sqrt(2)
    found = verdicts(white(rng, 4000, 2), coloured)
    assert found["distribution"].holds
    assert not found["autocorrelation"].holds
    assert not found["noise"].holds


def test_a_random_walk_that_the_twin_lacks_shows_at_long_times():
    rng = np.random.default_rng(2)
    log = white(rng, 8000, 2)
    log += 0.15 * np.cumsum(rng.normal(size=log.shape), axis=0) / np.sqrt(RATE) * 3
    found = verdicts(log, white(rng, 8000, 16))["noise"]
    assert not found.holds
    assert "from 0.01 to" in found.text


def test_lag_and_residual_in_motion():
    t = np.arange(0, 20, 0.01)
    rng = np.random.default_rng(3)
    signal = lambda t: np.stack([np.sin(3 * t), np.cos(2 * t), np.sin(5 * t)], axis=1)  # noqa: E731
    noise = 0.01 * rng.normal(size=(len(t), 3))
    found = compare_motion(t, signal(t - 0.003) + noise, signal(t), signal(t), 0.01)
    assert found.lag == pytest.approx(0.003, abs=3 * found.lag_std)
    assert found.lag_std < 3e-4
    prediction, lag = motion_verdicts("gyro", "rad/s", found)
    assert prediction.holds
    assert not lag.holds
    assert "3.0" in lag.text
    assert "behind the twin" in lag.text
    exact = compare_motion(t, signal(t) + noise, signal(t), signal(t - 0.1), 0.01)
    assert all(one.holds for one in motion_verdicts("gyro", "rad/s", exact))
    wrong = compare_motion(t, 1.5 * signal(t) + noise, signal(t), signal(t), 0.01)
    assert not motion_verdicts("gyro", "rad/s", wrong)[0].holds


# -- validation --------------------------------------------------------------------------------------------------------


def make_log(options, reference, delay, seconds, seed):
    """Return a log of a simulated IMU: at rest, then along the reference."""
    still = replay_rest(options, int(20 * RATE), 1 / RATE, 1, gravity=G, seed=seed)
    times = np.arange(25, seconds - 1, 1 / RATE)
    moving = replay_pose(options, reference, times - delay, gravity=G, seed=seed + 1)
    log = {"time": np.r_[np.arange(len(still["gyro"])) / RATE, times]}
    for name in ("gyro", "acc"):
        log[name] = np.concatenate([still[name][:, 0], moving[name]])
    return as_log(log)


def make_twin(delay=0.004, density=1e-3, **extra):
    estimates = [
        Estimate.normal("delay", delay, 1e-5, "s"),
        Estimate.normal("gyro.bias", np.array([0.02, 0, -0.01]), 1e-4, "rad/s"),
        Estimate.positive("gyro.noise_density", np.full(3, density), 0.01, "rad/s/√Hz"),
        Estimate.positive("acc.noise_density", np.full(3, 0.01), 0.01, "m/s²/√Hz"),
    ]
    return Twin("imu", {one.name: one for one in estimates}, **extra)


@pytest.fixture(scope="module")
def case():
    reference = pose(45, still=22)
    options = make_twin().options(link="any")
    return make_log(options, reference, 0.004, 44, seed=7), reference


def test_the_true_twin_has_all_properties(case):
    log, reference = case
    found = validate(make_twin(), log, reference, seed=11)
    assert {(one.channel, one.subject) for one in found.verdicts} == {
        (channel, subject)
        for channel in ("gyro", "acc")
        for subject in ("noise", "distribution", "autocorrelation", "prediction", "lag")
    }
    assert all(one.holds for one in found.verdicts), str(found)


def test_a_wrong_twin_lacks_them(case):
    log, reference = case
    found = validate(make_twin(delay=0.012, density=2e-3), log, reference, seed=11)
    failed = {(one.channel, one.subject) for one in found.verdicts if not one.holds}
    assert {("gyro", "noise"), ("gyro", "distribution"), ("gyro", "lag"), ("acc", "lag")} <= failed
    lag = next(one for one in found.verdicts if one.subject == "lag" and one.channel == "gyro")
    assert found.motion["gyro"].lag == pytest.approx(-0.008, abs=3e-4)
    assert "ahead of the twin" in lag.text


def test_what_validate_needs(case):
    with pytest.raises(OptionError, match=r"the twin has no log"):
        validate(make_twin())
    with pytest.raises(OptionError, match=r"needs a pose reference"):
        validate(make_twin(), case[0], {"time": case[0].time, "gyro": case[0].channels["gyro"]})


@pytest.mark.slow
@pytest.mark.skipif(len(list(DATA.glob("*.hdf5"))) < 3, reason="needs the logs in ../shared/data/broad")
def test_the_fit_of_one_real_trial_predicts_another():
    first, _, second = sorted(DATA.glob("*rotation*.hdf5"))[:3]
    twin = sn.fit.imu(as_log(first, units={"mag": "uT"}), as_reference(str(first)), progress=False)
    found = validate(twin, second, second, units={"mag": "uT"})
    held = {(one.channel, one.subject) for one in found.verdicts if one.holds}
    assert {
        ("gyro", "distribution"),
        ("gyro", "prediction"),
        ("gyro", "lag"),
        ("acc", "prediction"),
    } <= held
    motion = found.motion["gyro"]
    before, after = np.std(motion.log - motion.ideal), np.std(motion.log - motion.twin)
    assert after < 0.5 * before or after < 2 * motion.error
