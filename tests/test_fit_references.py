"""References of fits: rest segments, smoothing splines, poses with gaps, lever arms."""

from pathlib import Path

import numpy as np
import pytest

from sensorium import poses
from sensorium.errors import OptionError
from sensorium.fit.lever import lever_arm
from sensorium.fit.logs import as_log
from sensorium.fit.references import PoseReference, SensorReference, SignalReference, as_reference
from sensorium.fit.rest import rest_segments
from sensorium.fit.sampling import interpolation_step
from sensorium.fit.splines import SmoothingSpline

DATA = Path(__file__).parents[1].parent / "shared" / "data" / "broad"
TRIALS = sorted(DATA.glob("*.hdf5"))
G = 9.80665
RATE = 120.0


def motion(seconds=30.0, rate=RATE):
    """Return times, quaternions, positions, and the exact angular rate and specific force of a smooth motion."""
    t = np.arange(0, seconds, 1 / rate)
    angles = np.stack([np.sin(2.1 * t), 0.7 * np.sin(3.3 * t + 1), 1.2 * np.sin(1.7 * t + 2)], axis=1)
    turns = poses.from_rotation_vector(angles)
    place = np.stack([0.1 * np.sin(4 * t), 0.15 * np.cos(3 * t), 0.05 * np.sin(6 * t)], axis=1)
    pull = np.stack([-1.6 * np.sin(4 * t), -1.35 * np.cos(3 * t), -1.8 * np.sin(6 * t)], axis=1)
    # the exact rate by differences of 1 µs of the closed form
    h = 1e-6
    later = [np.sin(2.1 * (t + h)), 0.7 * np.sin(3.3 * (t + h) + 1), 1.2 * np.sin(1.7 * (t + h) + 2)]
    after = poses.from_rotation_vector(np.stack(later, axis=1))
    rate_ = poses.rotation_vector(poses.multiply(poses.conjugate(turns), after)) / h
    force = poses.rotate(poses.conjugate(turns), pull + np.array([0, 0, G]))
    return t, turns, place, rate_, force


def noisy(turns, angle, rng):
    return poses.multiply(turns, poses.from_rotation_vector(angle * rng.normal(size=(len(turns), 3))))


# -- rest --------------------------------------------------------------------------------------------------------------


def inertial(moving, rng, step=0.0, rate=100.0):
    t = np.arange(len(moving)) / rate
    swing = np.where(moving, np.sin(5 * t), 0.0)[:, None] * [1.0, 0.5, 0.2]
    gyro = swing + 0.002 * rng.normal(size=(len(t), 3)) + [0.01, -0.02, 0.0]
    acc = 5 * swing + 0.02 * rng.normal(size=(len(t), 3)) + [0, 0, G]
    gyro = np.round(gyro / step) * step if step else gyro
    return as_log({"time": t, "gyro": gyro, "acc": acc})


@pytest.mark.parametrize("step", [0.0, 0.001, 0.01])
def test_rest_is_found_between_motions(step):
    moving = np.zeros(10_000, bool)
    moving[3000:5000] = moving[8000:9700] = True
    runs = rest_segments(inertial(moving, np.random.default_rng(0), step))
    assert all(not moving[run].any() for run in runs)
    assert sum(run.stop - run.start for run in runs) > 0.9 * (~moving).sum()
    assert runs[0].stop - runs[0].start >= runs[-1].stop - runs[-1].start


def test_all_of_a_log_at_rest_is_one_segment():
    assert rest_segments(inertial(np.zeros(5000, bool), np.random.default_rng(1))) == [slice(0, 5000)]
    still = as_log({"time": np.arange(1000) / 100, "gyro": np.full((1000, 3), 0.01)})
    assert rest_segments(still) == [slice(0, 1000)]


def test_motion_all_the_time_has_no_rest():
    assert rest_segments(inertial(np.ones(5000, bool), np.random.default_rng(2))) == []


def test_a_turntable_at_constant_speed_is_not_at_rest():
    rng = np.random.default_rng(3)
    gyro = 0.002 * rng.normal(size=(6000, 3))
    gyro[3500:] += [0, 0, 1.0]
    runs = rest_segments(as_log({"time": np.arange(6000) / 100, "gyro": gyro}))
    assert runs
    assert all(run.stop <= 3500 for run in runs)


def test_a_gap_ends_a_segment():
    log = inertial(np.zeros(4000, bool), np.random.default_rng(4))
    log.time[2000:] += 30
    assert all(np.diff(log.time[run]).max() < 1 for run in rest_segments(log))


@pytest.mark.skipif(not TRIALS, reason="needs the logs in ../shared/data/broad")
def test_rest_of_real_trials_is_rest():
    for trial in TRIALS:
        log = as_log(trial)
        moving = log.channels["movement"][:, 0] > 0
        runs = rest_segments(log)
        assert sum(moving[run].sum() for run in runs) == 0, trial.name
        assert sum(run.stop - run.start for run in runs) > 0.9 * (~moving).sum(), trial.name


# -- splines -----------------------------------------------------------------------------------------------------------


def test_spline_and_its_errors():
    rng = np.random.default_rng(0)
    t = np.arange(0, 60, 1 / RATE)
    w = 2 * np.pi * 2
    spline = SmoothingSpline(t, np.c_[np.sin(w * t), np.cos(w * t)] + rng.normal(size=(len(t), 2)) * [1e-3, 2e-3])
    np.testing.assert_allclose(spline.noise, [1e-3, 2e-3], rtol=0.06)
    inner = slice(100, -100)
    for order, (sine, cosine) in enumerate(
        [(np.sin, np.cos), (np.cos, lambda x: -np.sin(x)), (lambda x: -np.sin(x), lambda x: -np.cos(x))]
    ):
        error = spline(t, order) - w**order * np.c_[sine(w * t), cosine(w * t)]
        measured = error[inner].std(axis=0)
        assert (measured < 1.1 * spline.std(order)).all()
        assert (measured > 0.3 * spline.std(order)).all()  # nor far too careful


def test_spline_needs_samples_in_order():
    with pytest.raises(OptionError, match=r"at least 8 samples with increasing time stamps"):
        SmoothingSpline([0, 1, 2], [0, 1, 2])
    with pytest.raises(OptionError, match=r"at least 8 samples with increasing time stamps"):
        SmoothingSpline(np.zeros(20), np.zeros(20))


def test_linear_interpolation_is_found_and_corrected():
    slow = np.arange(0, 40, 1 / 100)
    t = np.arange(0.1, 39.9, 1 / 286)
    w = 2 * np.pi * 6.17
    values = np.interp(t, slow, np.sin(w * slow))[:, None]
    assert interpolation_step(t, values) == pytest.approx(0.01, rel=0.03)
    assert interpolation_step(t, np.sin(w * t)[:, None]) is None
    assert interpolation_step(t, np.zeros((len(t), 1))) is None
    assert interpolation_step(t, np.where(t < 10, 1.0, np.cos(w * (t - 10)))[:, None]) is None  # it rests for 10 s
    reference = SignalReference(t, values)
    middle = t[1000:-1000]
    amplitude = 2 * np.mean(reference.smooth(middle)[:, 0] * np.sin(w * middle))
    assert np.sinc(0.0617) ** 2 == pytest.approx(0.9875, abs=1e-3)  # what linear interpolation leaves at 6.17 of 100 Hz
    assert amplitude == pytest.approx(1.0, abs=4e-3)


def test_repeated_samples_are_dropped_and_named():
    t = np.arange(0, 20, 0.005)
    held = np.sin(2 * np.floor(t / 0.02) * 0.02)[:, None]
    reference = SignalReference(t, held)
    assert [problem.name for problem in reference.problems] == ["reference.held"]
    assert "about 50 Hz" in reference.problems[0].message
    assert np.abs(reference.smooth(t[200:-200])[:, 0] - np.sin(2 * t[200:-200])).max() < 0.02


# -- poses -------------------------------------------------------------------------------------------------------------


def test_rate_and_force_of_a_known_motion():
    rng = np.random.default_rng(5)
    t, turns, place, rate, force = motion()
    pose = PoseReference(t, noisy(turns, 5e-4, rng), place + 1e-4 * rng.normal(size=place.shape))
    inner = slice(60, -60)
    found = pose.angular_rate(t)
    assert np.nanstd((found.values - rate)[inner]) < 1.2 * found.std[inner].mean()
    assert np.nanstd((found.values - rate)[inner]) < 0.03
    found = pose.specific_force(t, G)
    assert np.nanstd((found.values - force)[inner]) < 1.2 * found.std[inner].mean()
    field = np.array([0.0, 2e-5, -4e-5])
    expected = poses.rotate(poses.conjugate(turns), field)
    assert np.nanmax(np.abs(pose.magnetic_field(t, field).values - expected)) < 1e-7


def test_signs_of_quaternions_do_not_matter():
    t, turns, *_ = motion(10)
    flipped = turns * np.where(np.arange(len(turns)) % 3 == 0, -1.0, 1.0)[:, None]
    a, b = PoseReference(t, turns).angular_rate(t).values, PoseReference(t, flipped).angular_rate(t).values
    np.testing.assert_allclose(a, b, atol=1e-9)


def test_gaps_are_not_used_and_named():
    t, turns, place, rate, _ = motion()
    turns, place = turns.copy(), place.copy()
    turns[1000:1005] = np.nan  # 42 ms: bridged
    turns[2000:2100] = place[2000:2100] = np.nan
    turns[:50] = np.nan
    pose = PoseReference(t, turns, place)
    valid = pose.valid(t)
    assert valid[1002]
    assert not valid[2000:2100].any()
    assert not valid[:50].any()
    assert valid.mean() > 0.9
    found = pose.angular_rate(t).values
    assert np.isnan(found[2050]).all()
    np.testing.assert_allclose(found[990:1015], rate[990:1015], atol=0.01)
    (problem,) = [one for one in pose.problems if one.name == "reference.gaps"]
    assert "1 gaps of up to 0.84 s, which are not used" in problem.message
    assert "0.4 s at the ends" in problem.message


def test_order_of_quaternions():
    t, turns, *_ = motion(10)
    a, b = PoseReference(t, turns), PoseReference(t, np.roll(turns, -1, axis=1), quat_order="xyzw")
    np.testing.assert_allclose(a.angular_rate(t).values, b.angular_rate(t).values)
    with pytest.raises(OptionError, match=r"quat_order must be 'wxyz' or 'xyzw', got 'zyx'"):
        PoseReference(t, turns, quat_order="zyx")


def test_bad_poses_are_errors():
    t, turns, *_ = motion(10)
    with pytest.raises(OptionError, match=r"quat must be numbers of shape \(n, 4\)"):
        PoseReference(t, turns[:, :3])
    with pytest.raises(OptionError, match=r"no row with a unit quaternion"):
        PoseReference(t, turns * np.nan)
    with pytest.raises(OptionError, match=r"has no positions"):
        PoseReference(t, turns).specific_force(t)
    assert [one.name for one in PoseReference(t, 1.1 * turns).problems] == ["reference.norm"]


def test_lever_arm_comes_back():
    rng = np.random.default_rng(6)
    t, turns, place, rate, force = motion()
    arm = np.array([0.02, -0.01, 0.03])
    pose = PoseReference(t, noisy(turns, 2e-4, rng), place + 5e-5 * rng.normal(size=place.shape))
    exact = PoseReference(t, turns, place)
    acc = force + exact.lever_matrix(t) @ arm + [0.1, 0, -0.1] + 0.02 * rng.normal(size=force.shape)
    found = lever_arm(pose, t, acc, G)
    assert found.identifiable
    np.testing.assert_allclose(found.value, arm, atol=4 * found.std.max())
    assert found.std.max() < 2e-3
    expected = force + np.cross(exact.angular_acceleration(t), arm) + np.cross(rate, np.cross(rate, arm))
    np.testing.assert_allclose(force + exact.lever_matrix(t) @ arm, expected, atol=0.02)


def test_lever_arm_is_not_identified_without_rotation():
    rng = np.random.default_rng(7)
    t, _, place, *_ = motion()
    still = noisy(np.tile([1.0, 0, 0, 0], (len(t), 1)), 1e-4, rng)
    pose = PoseReference(t, still, place + 1e-4 * rng.normal(size=place.shape))
    found = lever_arm(pose, t, np.tile([0, 0, G], (len(t), 1)) + 0.02 * rng.normal(size=place.shape), G)
    assert not found.identifiable
    assert "rotate the sensor" in found.reason


# -- other references --------------------------------------------------------------------------------------------------


def test_another_sensor_is_a_reference():
    t, _, _, rate, force = motion(10)
    reference = as_reference({"time": t, "gyro": rate, "acc": force})
    assert isinstance(reference, SensorReference)
    inner = slice(60, -60)
    np.testing.assert_allclose(reference.angular_rate(t).values[inner], rate[inner], atol=2e-3)
    np.testing.assert_allclose(reference.specific_force(t).values[inner], force[inner], atol=2e-2)
    with pytest.raises(OptionError, match=r"no channel 'mag'"):
        reference.magnetic_field(t, (0, 0, 1))


def test_a_trajectory_gives_velocities():
    t = np.arange(0, 20, 0.01)
    joints = SignalReference(t, np.stack([np.sin(t), np.cos(2 * t)], axis=1))
    values, std = joints(t[100:-100], derivative=1)
    np.testing.assert_allclose(values, np.stack([np.cos(t), -2 * np.sin(2 * t)], axis=1)[100:-100], atol=1e-3)
    assert std.shape == values.shape


def test_a_log_without_poses_and_readings_is_no_reference():
    with pytest.raises(OptionError, match=r"has neither 'quat' nor 'gyro', 'acc' or 'mag'; it has level"):
        as_reference({"time": np.arange(100.0), "level": np.zeros(100)})


@pytest.mark.slow
@pytest.mark.skipif(not TRIALS, reason="needs the logs in ../shared/data/broad")
def test_real_poses_were_interpolated_from_120_hz_and_agree_with_the_gyroscope():
    for trial in TRIALS:
        log = as_log(trial)
        pose = as_reference(log)
        assert 1 / pose.interpolated == pytest.approx(120, rel=0.01)
        rate, std = pose.angular_rate(log.time - 0.0042)
        rows = np.isfinite(rate).all(axis=1) & (log.channels["movement"][:, 0] > 0)
        residual = (rate - log.channels["gyro"])[rows]
        assert residual.std() < 3 * np.sqrt(np.mean(std[rows] ** 2))
        assert residual.std() < 0.1
