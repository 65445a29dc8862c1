"""Logs that cannot be fitted, or that need a correction: each is named, with what to do."""

import warnings

import numpy as np
import pytest

import sensorium as sn
from sensorium.errors import OptionError

TIME = np.arange(3000) / 100.0
RNG = np.random.default_rng(0)
GYRO = RNG.normal((0.01, -0.02, 0.005), 2e-3, (3000, 3))
ACC = RNG.normal((0, 0, 9.81), 0.02, (3000, 3))
IMU = {"time": TIME, "gyro": GYRO, "acc": ACC}
JOINTS = np.sin(TIME)[:, None] * [1.0, 0.5]


def quiet(fit, *arguments, **options):
    """Return the twin of a fit that must not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return fit(*arguments, **options)


def problem(twin, name):
    found = {one.name: one for one in twin.problems}
    assert name in found, f"{name} is not among {list(found)}"
    return found[name]


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ({name: values[:0] for name, values in IMU.items()}, r"at least 2 samples, got 0; record at least 1 minute"),
        ({name: values[:1] for name, values in IMU.items()}, r"at least 2 samples, got 1"),
        (IMU | {"time": TIME * np.nan}, r"at least 2 samples, got 0"),
        (IMU | {"time": 0 * TIME}, r"the time stamps never increase; log the time of every sample"),
        (IMU | {"gyro": GYRO[:, :2]}, r"gyro must have 3 columns \(x, y, z\), got 2"),
        (IMU | {"acc": ACC[:, 2]}, r"acc must have 3 columns \(x, y, z\), got 1"),
        (IMU | {"gyro": [["a", "b", "c"]] * 3000}, r"the field 'gyro' must be numbers"),
        ({"time": TIME, "foo": GYRO}, r"no channel 'gyro'; it has 'foo'. Name the field gyro"),
        ({"gyro": GYRO}, r"no time stamps; add a field 'time' in seconds, or pass rate=HZ"),
        ("no_such_log.h5", r"there is no log file 'no_such_log.h5'; check the path"),
        (".", r"'.' is a folder; name a log file in it"),
        (None, r"source must be SensorLog or a mapping or a path, got None"),
    ],
)
def test_logs_that_cannot_be_read(log, message):
    with pytest.raises(OptionError, match=message):
        sn.fit.imu(log)


def test_one_reference_for_each_log():
    with pytest.raises(OptionError, match=r"got 1 for 2 logs; pass one reference for each log"):
        sn.fit.imu([IMU, IMU], [{"time": TIME}])


@pytest.mark.parametrize("samples", [2, 3, 5, 50])
def test_logs_that_are_far_too_short(samples):
    twin = quiet(sn.fit.imu, {name: values[:samples] for name, values in IMU.items()})
    assert "record at least 1 minute" in problem(twin, "log.short").fix
    assert not any(one.identifiable for name, one in twin.estimates.items() if name.startswith(("gyro", "acc")))
    assert twin.options(link="torso").gyro == sn.IMU(link="torso").gyro
    assert sn.fit.validate(twin).rest == {}


def test_rows_out_of_order():
    order = RNG.permutation(3000)
    twin = quiet(sn.fit.imu, {name: values[order] for name, values in IMU.items()})
    assert problem(twin, "time.order").fix == "sort the rows by their time stamps"
    assert not {"time.units", "time.jumps", "time.gaps"} & {one.name for one in twin.problems}
    assert not twin.estimates["rate"].identifiable
    assert twin.imperfections() == {}


def test_a_clock_that_jumps_back_is_no_jitter():
    time = TIME - np.where(np.arange(3000) < 1000, 0.0, 3.0)
    twin = quiet(sn.fit.imu, IMU | {"time": time})
    assert "jumps 1 times back" in problem(twin, "time.jumps").message
    assert twin.estimates["rate"].value == pytest.approx(100)
    assert not twin.estimates["jitter"].identifiable


def test_rows_without_a_time_stamp_are_skipped():
    time = TIME.copy()
    time[[100, 2000]] = np.nan
    twin = quiet(sn.fit.imu, IMU | {"time": time})
    assert "2 of 3000 time stamps are NaN" in problem(twin, "time.missing").message
    assert twin.estimates["rate"].value == pytest.approx(100)
    np.testing.assert_allclose(twin.estimates["gyro.bias"].value, [0.01, -0.02, 0.005], atol=3e-4)


def test_time_in_milliseconds():
    twin = sn.fit.imu(IMU | {"time": 1000 * TIME})
    assert '"ms"' in problem(twin, "time.units").fix
    assert twin.imperfections() == {}
    assert sn.fit.validate(twin).verdicts == []


@pytest.mark.parametrize("factor", [1e3, 1e9])
def test_wrong_units_of_time_with_a_reference(factor):
    pose = {"quat": np.tile([1.0, 0, 0, 0], (3000, 1)), "pos": np.zeros((3000, 3))}
    both = sn.fit.imu(IMU | {"time": factor * TIME}, pose | {"time": factor * TIME})
    assert problem(both, "time.units").blocks == "time"
    alone = sn.fit.imu(IMU, pose | {"time": factor * TIME})
    assert problem(alone, "reference.rate").blocks == "reference"
    assert not alone.estimates["acc.bias"].identifiable


def test_a_slow_log_whose_unit_is_stated():
    slow = sn.fit.imu(IMU | {"time": 100 * TIME}, units={"time": "s"})
    assert "time.units" not in {one.name for one in slow.problems}
    assert slow.imperfections()["rate"] == pytest.approx(1)


def test_channels_that_lie_on_their_side():
    found = problem(sn.fit.imu(IMU | {"gyro": GYRO.T}), "gyro.length")
    assert found.fix == "transpose it: rows are samples, columns are axes"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_missing_readings_are_skipped(value):
    gyro = GYRO.copy()
    gyro[500:520] = value
    twin = quiet(sn.fit.imu, IMU | {"gyro": gyro})
    assert "0.67 % of the readings are NaN or infinite" in problem(twin, "gyro.missing").message
    assert "gyro.units" not in {one.name for one in twin.problems}
    np.testing.assert_allclose(twin.estimates["gyro.noise_density"].value, 2e-3 * np.sqrt(0.02), rtol=0.1)


def test_scattered_missing_readings_keep_the_rest():
    gyro = GYRO.copy()
    gyro[RNG.random(3000) < 0.05] = np.nan
    twin = quiet(sn.fit.imu, IMU | {"gyro": gyro})
    assert "rest.missing" not in {one.name for one in twin.problems}
    np.testing.assert_allclose(twin.estimates["gyro.bias"].value, [0.01, -0.02, 0.005], atol=3e-4)
    np.testing.assert_allclose(twin.estimates["gyro.noise_density"].value, 2e-3 * np.sqrt(0.02), rtol=0.1)


def test_an_axis_without_readings_and_a_reference():
    gyro = GYRO.copy()
    gyro[:, 1] = np.nan
    pose = {"time": TIME, "quat": np.tile([1.0, 0, 0, 0], (3000, 1)), "pos": np.zeros((3000, 3))}
    assert problem(sn.fit.imu(IMU | {"gyro": gyro}, pose), "gyro.missing").blocks == "gyro"


def test_no_reading_at_all():
    twin = quiet(sn.fit.imu, IMU | {"gyro": GYRO * np.nan})
    assert problem(twin, "gyro.missing").blocks == "gyro"
    quiet(sn.fit.joint_encoder, {"time": TIME, "joint_pos": JOINTS * np.nan})
    quiet(sn.fit.barometer, {"time": TIME, "pressure": TIME * np.nan})


@pytest.mark.parametrize(
    ("fit", "log", "reference", "message"),
    [
        (sn.fit.joint_encoder, {"joint_pos": JOINTS}, JOINTS[:9], r"got 9 rows for 3000 samples of the log"),
        (sn.fit.joint_encoder, {"joint_pos": JOINTS}, GYRO, r"joint_pos has 2 axes, the reference has 3"),
        (sn.fit.gps, {"pos": GYRO, "fix": 0 * TIME}, None, r"fewer than 4 samples have a fix; record with satellites"),
        (sn.fit.gps, {"latitude": TIME * np.nan, "longitude": TIME, "altitude": TIME}, None, r"fewer than 4 samples"),
        (sn.fit.gps, {"pos": JOINTS}, None, r"pos must have 3 columns \(east, north, up\), got 2"),
        (sn.fit.distance, {"distance": 2 + JOINTS}, None, r"reference is missing; pass the known distances in m"),
        (sn.fit.distance, {"distance": np.full((3000, 2), np.inf)}, 2.0, r"no reading of distance has a return"),
        (sn.fit.force_torque, {"force": JOINTS}, None, r"force must have 3 columns \(x, y, z\), got 2"),
    ],
)
def test_logs_of_other_sensors(fit, log, reference, message):
    with pytest.raises(OptionError, match=message):
        fit({"time": TIME, **log}, reference)


@pytest.mark.parametrize(
    ("fit", "log", "reference", "unit"),
    [
        (sn.fit.joint_encoder, {"joint_pos": np.degrees(JOINTS)}, JOINTS, "deg"),
        (sn.fit.distance, {"distance": 1000 * (3 + JOINTS)}, 3 + JOINTS, "mm"),
        (sn.fit.distance, {"distance": 1000 * RNG.normal(2, 0.01, (3000, 2))}, 2.0, "mm"),
        (sn.fit.barometer, {"pressure": RNG.normal(1013, 0.1, 3000)}, None, "hPa"),
    ],
)
def test_units_of_other_sensors_are_named_and_their_figures_not_used(fit, log, reference, unit):
    (name,) = log
    twin = fit({"time": TIME, **log}, reference)
    found = problem(twin, f"{name}.units")
    assert f'units={{"{name}": "{unit}"}}' in found.fix
    assert found.blocks == name
    assert set(twin.imperfections()) <= {"rate", "jitter", "dropout"}
    right = fit({"time": TIME, **log}, reference, units={name: unit})
    assert f"{name}.units" not in {one.name for one in right.problems}
    assert set(right.imperfections()) - {"rate", "jitter", "dropout"}


def test_a_reference_of_something_else():
    twin = sn.fit.joint_encoder({"time": TIME, "joint_pos": 7 * JOINTS}, JOINTS)
    found = problem(twin, "joint_pos.size")
    assert "7 times the reference" in found.message
    assert "belong together" in found.fix
