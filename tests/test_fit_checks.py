"""Checks of logs: every problem that makes a fit wrong is named, with its fix, and good logs have none."""

import re
from pathlib import Path

import numpy as np
import pytest

import sensorium as sn
from sensorium import poses
from sensorium.fit.checks import check
from sensorium.fit.field_names import unit_of_ratio
from sensorium.fit.logs import as_log
from sensorium.fit.references import PoseReference, as_reference

DATA = Path(__file__).parents[1].parent / "shared" / "data" / "broad"
TRIALS = sorted(DATA.glob("*.hdf5"))
G = 9.80665
RATE = 100.0
FIELD = np.array([0.0, 2e-5, -4.2e-5])


def recording(seconds=80.0, still=35.0, seed=0):
    """Return an IMU's arrays and a pose reference: rest, then rotation about all axes with little translation."""
    rng = np.random.default_rng(seed)
    t = np.arange(0, seconds, 1 / RATE)
    on = np.clip((t - still) / 2, 0, 1) ** 2
    angles = on[:, None] * np.stack(
        [1.5 * np.sin(1.3 * t), 1.1 * np.sin(1.9 * t + 1), 1.3 * np.sin(1.1 * t + 2)], axis=1
    )
    turns = poses.from_rotation_vector(angles)
    ahead = poses.multiply(poses.conjugate(turns[:-1]), turns[1:])
    rate = poses.rotation_vector(ahead) * RATE
    rate = np.r_[rate[:1], (rate[1:] + rate[:-1]) / 2, rate[-1:]]
    back = poses.conjugate(turns)
    log = {
        "time": t,
        "gyro": rate + 0.002 * rng.normal(size=rate.shape) + [0.01, -0.01, 0.005],
        "acc": poses.rotate(back, [0, 0, G]) + 0.02 * rng.normal(size=rate.shape),
        "mag": poses.rotate(back, FIELD) + 2e-7 * rng.normal(size=rate.shape),
    }
    shaken = poses.multiply(turns, poses.from_rotation_vector(2e-4 * rng.normal(size=rate.shape)))
    return log, {"time": t, "quat": shaken, "pos": 1e-4 * rng.normal(size=rate.shape)}


LOG, POSE = recording()


def names(log, pose=None):
    reference = None if pose is None else as_reference(pose)
    return {problem.name for problem in check(as_log(log), reference)}


def find(name, log, pose=None):
    """Return the problem of that name, which must be there."""
    problems = check(as_log(log), None if pose is None else as_reference(pose))
    found = [problem for problem in problems if problem.name == name]
    assert found, f"{name} is not among {[problem.name for problem in problems]}"
    return found[0]


def rows(log, keep):
    return {name: values[keep] for name, values in log.items()}


def test_a_good_log_has_no_problems():
    assert names(LOG) <= {"rest.short"}
    assert names(LOG, POSE) <= {"rest.short"}


# -- time --------------------------------------------------------------------------------------------------------------


def test_a_short_log():
    assert "3.99 s long" in find("log.short", rows(LOG, slice(0, 400))).message


def test_jumps_of_the_clock():
    time = LOG["time"].copy()
    time[3000:] += 50
    time[5000:] -= 60
    problem = find("time.jumps", LOG | {"time": time})
    assert "1 times back and 1 times ahead" in problem.message
    assert "monotonic" in problem.fix


def test_missing_samples():
    keep = np.random.default_rng(1).random(len(LOG["time"])) > 0.05
    problem = find("time.gaps", rows(LOG, keep))
    lost = float(problem.message.split("(")[1].split(" %")[0])
    assert lost == pytest.approx(100 * (1 - keep.mean()), abs=0.2)


def test_repeated_stamps_and_missing_readings():
    time, gyro = LOG["time"].copy(), LOG["gyro"].copy()
    time[1::200] = time[::200]
    gyro[::10] = np.nan
    assert {"time.repeats", "gyro.missing"} <= names(LOG | {"time": time, "gyro": gyro})
    assert find("gyro.missing", LOG | {"gyro": gyro * np.nan}).blocks == "gyro"


def test_time_in_nanoseconds():
    assert '"ns"' in find("time.units", LOG | {"time": LOG["time"] * 1e9}).fix


# -- rest and motion ---------------------------------------------------------------------------------------------------


def test_no_rest():
    moving = LOG["time"] > 40
    problem = find("rest.missing", rows(LOG, moving))
    assert "lying still" in problem.fix


def test_little_rest_bounds_the_drift_only():
    assert "does not identify" in find("rest.short", rows(LOG, LOG["time"] > 20)).message


def test_no_excitation():
    still = LOG["time"] < 34
    problem = find("gyro.excitation", rows(LOG, still), rows(POSE, still))
    assert "scale, axes and latency are not identified" in problem.message
    assert "turn the sensor about each axis" in problem.fix


def test_a_sensor_that_never_changes():
    assert "axis 1" in find("gyro.constant", LOG | {"gyro": LOG["gyro"] * [1, 0, 1]}).message


# -- units and axes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("channel", "unit", "factor"),
    [
        ("acc", "g", 1 / G),
        ("acc", "mg", 1e3 / G),
        ("mag", "uT", 1e6),
        ("mag", "gauss", 1e4),
        ("gyro", "deg/s", 180 / np.pi),
    ],
)
@pytest.mark.parametrize("pose", [None, POSE], ids=["alone", "with poses"])
def test_wrong_units_are_named_with_the_conversion(channel, unit, factor, pose):
    wrong = LOG | {channel: factor * LOG[channel]}
    problem = find(f"{channel}.units", wrong, pose)
    assert f'"{channel}": "{unit}"' in problem.fix
    assert problem.blocks == channel
    right = as_log(wrong, units={channel: unit})
    assert {one.name for one in check(right, None if pose is None else as_reference(pose))} <= {"rest.short"}


def test_units_of_ratios():
    assert unit_of_ratio("gyro", 57.0) == "deg/s"
    assert unit_of_ratio("acc", 1 / 9.7) == "g"
    assert unit_of_ratio("acc", 1.0) is None
    assert unit_of_ratio("acc", 3.0) is None


def test_an_accelerometer_with_a_wrong_scale_is_no_unit():
    assert names(LOG | {"acc": 1.3 * LOG["acc"]}) >= {"acc.size"}


@pytest.mark.parametrize("pose", [None, POSE], ids=["alone", "with poses"])
def test_swapped_axes(pose):
    problem = find("gyro.axes", LOG | {"gyro": LOG["gyro"][:, [1, 0, 2]]}, pose)
    assert "x = y, y = x, z = z" in problem.message
    assert problem.blocks == "gyro"


def test_a_sensor_that_is_mounted_with_a_turn_is_no_error():
    turned = {name: LOG[name][:, [1, 0, 2]] * [1, -1, 1] for name in ("gyro", "acc", "mag")}
    problem = find("gyro.axes", LOG | turned, POSE)
    assert "turned by 90°" in problem.message
    assert problem.blocks == ""


def test_a_reversed_accelerometer():
    assert "sign is reversed" in find("acc.sign", LOG | {"acc": -LOG["acc"]}, POSE).message


# -- poses -------------------------------------------------------------------------------------------------------------


def test_swapped_order_of_quaternions():
    problem = find("reference.order", LOG, POSE | {"quat": np.roll(POSE["quat"], -1, axis=1)})
    assert problem.blocks == "reference"
    assert 'quat_order="xyzw"' in problem.fix
    reference = PoseReference(POSE["time"], np.roll(POSE["quat"], -1, axis=1), POSE["pos"], quat_order="xyzw")
    assert {one.name for one in check(as_log(LOG), reference)} <= {"rest.short"}


def test_inverse_quaternions():
    problem = find("reference.inverse", LOG, POSE | {"quat": poses.conjugate(POSE["quat"])})
    assert "world into the body" in problem.message


def test_offset_between_clocks():
    problem = find("reference.clock", LOG, POSE | {"time": POSE["time"] - 1.5})
    assert re.search(r"1\.(49|50|51) s behind", problem.message)  # compared at 100 Hz
    assert "latency and clock offset cannot be told apart" in problem.message
    problem = find("reference.clock", LOG, POSE | {"time": POSE["time"] + 1e9})
    assert "overlap for 0.0 s" in problem.message


@pytest.mark.parametrize(("offset", "blocks"), [(0.3, ""), (1.5, "reference")])
def test_an_offset_beyond_the_search_blocks_the_reference(offset, blocks):
    assert find("reference.clock", LOG, POSE | {"time": POSE["time"] - offset}).blocks == blocks


@pytest.mark.parametrize(("unit", "factor"), [("m", 1.0), ("cm", 100.0), ("mm", 1000.0)])
def test_positions_in_other_units(unit, factor):
    time = POSE["time"]
    swing = 0.2 * np.stack([np.sin(4 * time), np.sin(5 * time), np.sin(6 * time)], axis=1)
    pull = -swing * np.array([4.0, 5.0, 6.0]) ** 2
    log = LOG | {"acc": LOG["acc"] + poses.rotate(poses.conjugate(POSE["quat"]), pull)}
    pose = POSE | {"pos": factor * (POSE["pos"] + swing)}
    if unit == "m":
        assert "reference.units" not in names(log, pose)
    else:
        problem = find("reference.units", log, pose)
        assert f"they are in {unit}" in problem.message
        assert problem.blocks == "acc"
        bias = sn.fit.imu(log, pose).estimates["acc.bias"]
        assert not bias.identifiable
        assert "units" in bias.reason


def test_poses_of_another_run():
    other = recording(seed=3)[1]
    turned = other | {"quat": np.roll(POSE["quat"], 2500, axis=0)[::-1]}
    assert find("reference.mismatch", LOG, turned).blocks == "reference"


def test_a_world_with_y_up():
    turn = np.array([np.sqrt(0.5), -np.sqrt(0.5), 0, 0])
    moved = POSE | {"quat": poses.multiply(turn, POSE["quat"]), "pos": poses.rotate(turn, POSE["pos"])}
    assert "y is up there" in find("reference.vertical", LOG, moved).message


# -- other sensors -----------------------------------------------------------------------------------------------------


def test_pressure_in_hectopascal():
    log = as_log({"time": LOG["time"], "pressure": 1013 + LOG["gyro"][:, 0]})
    (problem,) = [one for one in check(log, None, "barometer") if one.name == "pressure.units"]
    assert '"hPa"' in problem.fix or '"mbar"' in problem.fix


@pytest.mark.slow
@pytest.mark.skipif(not TRIALS, reason="needs the logs in ../shared/data/broad")
@pytest.mark.parametrize("trial", TRIALS, ids=lambda path: path.stem)
def test_real_trials(trial):
    log = as_log(trial, units={"mag": "uT"})
    found = {problem.name for problem in check(log, as_reference(log))}
    assert found <= {"reference.gaps", "reference.interpolated", "rest.short", "gyro.excitation"}
    assert "mag.units" in {problem.name for problem in check(as_log(trial))}
    swapped = {"time": log.time, "quat": np.roll(log.channels["quat"], -1, axis=1), "pos": log.channels["pos"]}
    problems = {problem.name: problem for problem in check(log, as_reference(swapped))}
    assert "reference.order" in problems
