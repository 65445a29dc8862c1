"""Logs of real sensors: files, field names, units, time stamps, and errors that say what to pass."""

import json
import sys

import h5py
import numpy as np
import pytest

import sensorium as sn
from sensorium.errors import DatasetError, OptionError
from sensorium.fit.field_names import channel_of, group_columns, split_unit
from sensorium.fit.logs import as_log

TIME = np.arange(50) * 0.01
GYRO = np.random.default_rng(0).normal(size=(50, 3))
QUAT = np.tile([0.8, 0.0, 0.6, 0.0], (50, 1))


def write_csv(path, header, columns):
    rows = [",".join(header), *(",".join(repr(float(cell)) for cell in row) for row in np.column_stack(columns))]
    path.write_text("\n".join(rows) + "\n")
    return path


# -- sources -----------------------------------------------------------------------------------------------------------


def test_arrays_hdf5_npz_and_csv_hold_the_same_log(tmp_path):
    logs = [as_log({"time": TIME, "gyro": GYRO})]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["t"], file["imu/angular_velocity"] = TIME, GYRO
    np.savez(tmp_path / "a.npz", timestamp=TIME, imu_gyr=GYRO)
    write_csv(tmp_path / "a.csv", ["time", "wx", "wy", "wz"], [TIME, GYRO])
    logs += [as_log(tmp_path / name) for name in ("a.h5", "a.npz", "a.csv")]
    for log in logs:
        np.testing.assert_array_equal(log.time, TIME)
        np.testing.assert_array_equal(log.channels["gyro"], GYRO)
        assert log.rate == pytest.approx(100)
    assert logs[1].source.endswith("a.h5")
    assert len({log.hash for log in logs}) == 4


def test_hash_depends_on_the_content_alone():
    log = as_log({"time": TIME, "gyro": GYRO})
    assert as_log({"gyro": GYRO.copy(), "time": TIME}).hash == log.hash
    changed = GYRO.copy()
    changed[3, 1] += 1e-9
    assert as_log({"time": TIME, "gyro": changed}).hash != log.hash


def test_sampling_rate_replaces_time_stamps(tmp_path):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file.attrs["sampling_rate"] = 200.0
        file["imu_gyr"] = GYRO
    np.testing.assert_allclose(as_log(tmp_path / "a.hdf5").time, np.arange(50) / 200)
    np.testing.assert_allclose(as_log({"gyro": GYRO}, rate=50.0).time, np.arange(50) / 50)
    np.testing.assert_allclose(as_log({"gyro": GYRO, "fs": 25.0}).time, np.arange(50) / 25)
    with pytest.raises(OptionError, match=r"no time stamps; add a field 'time' in seconds, or pass rate=HZ"):
        as_log({"gyro": GYRO})


def test_hdf5_units_and_groups(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, factor in (("left", 1.0), ("right", 2.0)):
            file[f"{name}/time"], file[f"{name}/gyro"] = TIME, factor * GYRO
            file[f"{name}/gyro"].attrs["units"] = "deg/s"
    with pytest.raises(
        OptionError, match=r"'left/gyro' and 'right/gyro' all look like 'gyro'; pass .* or group=.left."
    ):
        as_log(tmp_path / "a.h5")
    fields = {"gyro": "left/gyro", "time": "left/time"}
    np.testing.assert_allclose(as_log(tmp_path / "a.h5", fields=fields).channels["gyro"], np.radians(GYRO))
    log = as_log(tmp_path / "a.h5", group="right")
    np.testing.assert_allclose(log.channels["gyro"], np.radians(2 * GYRO))
    assert log.units == {"gyro": "deg/s"}
    with pytest.raises(OptionError, match=r"has no group 'rihgt' \(did you mean 'right'\?\)"):
        as_log(tmp_path / "a.h5", group="rihgt")


def test_euroc_header_has_units_and_axes(tmp_path):
    header = ["#timestamp [ns]", *(f"w_RS_S_{a} [rad s^-1]" for a in "xyz"), *(f"a_RS_S_{a} [m s^-2]" for a in "xyz")]
    write_csv(tmp_path / "imu.csv", header, [TIME * 1e9, GYRO, 2 * GYRO])
    log = as_log(tmp_path / "imu.csv")
    np.testing.assert_allclose(log.time, TIME, atol=1e-12)
    np.testing.assert_array_equal(log.channels["gyro"], GYRO)
    np.testing.assert_array_equal(log.channels["acc"], 2 * GYRO)


def test_quaternions_are_ordered_by_the_names_of_their_columns(tmp_path):
    write_csv(tmp_path / "pose.csv", ["t", "qx", "qy", "qz", "qw"], [TIME, QUAT[:, 1:], QUAT[:, :1]])
    np.testing.assert_array_equal(as_log(tmp_path / "pose.csv").channels["quat"], QUAT)


@pytest.mark.parametrize(
    "text",
    [
        "time;gyro_x;gyro_y;gyro_z\n0,0;1,5;2;3\n0,1;1,5;2;3\n",
        "# my robot, run 3\n\ntime,gyro_x,gyro_y,gyro_z\n0.0,1.5,2,3\n0.1,1.5,2,3\n",
        "# my robot\n# time,gyro_x,gyro_y,gyro_z\n0.0,1.5,2,3\n0.1,1.5,2,3\n",
    ],
)
def test_decimal_commas_and_comments_before_the_header(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    log = as_log(tmp_path / "a.csv")
    np.testing.assert_array_equal(log.time, [0.0, 0.1])
    np.testing.assert_array_equal(log.channels["gyro"], [[1.5, 2, 3]] * 2)


def test_missing_cells_are_nan_and_delimiters_are_found(tmp_path):
    (tmp_path / "a.csv").write_text("time;gyro_x;gyro_y;gyro_z\n0.0;1;2;3\n0.1;;2;lost\n0.2;1;2;3\n")
    values = as_log(tmp_path / "a.csv").channels["gyro"]
    np.testing.assert_array_equal(np.isnan(values), [[0, 0, 0], [1, 0, 1], [0, 0, 0]])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "0.0,1.0\n0.1,2.0\n", "has no header; its first line must name the columns"),
        ("a.csv", "", "is empty"),
        ("a.csv", "time,gyro_x\n0,1\n0.1\n", "row 3 has 1 columns, the header has 2"),
        ("a.csv", "time,v,v\n0,1,2\n", "two columns are named 'v'"),
        ("a.bag", "x", "a log file must end in .h5, .hdf5, .npz, .csv"),
        ("a.npz", "x", "cannot read"),
        ("a.h5", "x", "cannot read"),
    ],
)
def test_broken_files_are_named(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises((OptionError, DatasetError), match=message):
        as_log(tmp_path / name)


def test_there_is_no_such_file():
    with pytest.raises(OptionError, match=r"there is no log file 'nowhere.h5'"):
        as_log("nowhere.h5")
    with pytest.raises(OptionError, match=r"source must be SensorLog or a mapping or a path, got 3"):
        as_log(3)


def test_mcap_needs_its_package(tmp_path, monkeypatch):
    (tmp_path / "a.mcap").write_bytes(b"x")
    for name in [each for each in sys.modules if each.split(".")[0] == "mcap"] + ["mcap"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(OptionError, match=r"pip install 'sensorium\[ros\]'"):
        as_log(tmp_path / "a.mcap")


@pytest.mark.parametrize("encoding", ["json", "cdr"])
def test_mcap_messages_become_channels(tmp_path, encoding):
    """Files are written by the package mcap, as another project would."""
    from mcap.writer import Writer
    from mcap_ros2.writer import Writer as RosWriter

    from sensorium.ros.definitions import schema

    path = tmp_path / "a.mcap"
    contents = [
        {
            "header": {"stamp": {"sec": 7, "nanosec": k * 10_000_000}, "frame_id": "imu"},
            "angular_velocity": {"x": x, "y": y, "z": z},
            "linear_acceleration": {"x": 2 * x, "y": 2 * y, "z": 2 * z},
            "orientation": {"x": 0.0, "y": 0.0, "z": 0.0, "w": 1.0},
        }
        for k, (x, y, z) in enumerate(GYRO)
    ]
    with open(path, "wb") as file:
        if encoding == "json":
            writer = Writer(file)
            writer.start()
            kind = writer.register_schema("sensor_msgs/msg/Imu", "jsonschema", b"{}")
            channel = writer.register_channel("/imu/data", "json", kind)
            for k, content in enumerate(contents):
                writer.add_message(channel, k, json.dumps(content).encode(), k)
        else:
            writer = RosWriter(file)
            kind = writer.register_msgdef("sensor_msgs/msg/Imu", schema("sensor_msgs/msg/Imu"))
            for k, content in enumerate(contents):
                writer.write_message("/imu/data", kind, content, k, k)
        writer.finish()
    log = as_log(path)
    np.testing.assert_allclose(log.time, 7 + TIME)
    np.testing.assert_allclose(log.channels["gyro"], GYRO)
    np.testing.assert_allclose(log.channels["acc"], 2 * GYRO)


# -- names and units ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "channel"),
    [
        ("imu_gyr", "gyro"),
        ("angular_velocity", "gyro"),
        ("imu0/linear_acceleration", "acc"),
        ("imu_mag", "mag"),
        ("opt_quat", "quat"),
        ("opt_pos", "pos"),
        ("dof_pos", "joint_pos"),
        ("des_dof_pos", "joint_command"),
        ("Stamp", "time"),
    ],
)
def test_names_are_recognised(name, channel):
    assert channel_of(name)[0] == channel


def test_other_names_are_kept():
    assert channel_of("movement") is None
    log = as_log({"time": TIME, "movement": TIME > 0.2, "a": TIME})
    assert set(log.channels) == {"movement", "a"}  # one column named "a" is no accelerometer


def test_the_whole_name_wins_over_its_end():
    log = as_log({"time": TIME, "gyro": GYRO, "other_gyro": 2 * GYRO})
    np.testing.assert_array_equal(log.channels["gyro"], GYRO)
    np.testing.assert_array_equal(log.channels["other_gyro"], 2 * GYRO)


def test_fields_are_named_by_the_user():
    source = {"clock": TIME, "p": GYRO[:, 0], "q": GYRO[:, 1], "r": GYRO[:, 2]}
    log = as_log(source, fields={"time": "clock", "gyro": ["p", "q", "r"]})
    np.testing.assert_array_equal(log.channels["gyro"], GYRO)
    with pytest.raises(OptionError, match=r"fields\['gyro'\]: arrays has no field 'pp'"):
        as_log(source, fields={"gyro": "pp"})


def test_units_are_converted():
    source = {"time": 1e3 * TIME, "gyro": GYRO, "acc": GYRO, "mag": GYRO}
    log = as_log(source, units={"time": "ms", "gyro": "deg/s", "acc": "g", "mag": "uT"})
    np.testing.assert_allclose(log.time, TIME)
    np.testing.assert_allclose(log.channels["gyro"], np.radians(GYRO))
    np.testing.assert_allclose(log.channels["acc"], 9.80665 * GYRO)
    np.testing.assert_allclose(log.channels["mag"], 1e-6 * GYRO)
    with pytest.raises(OptionError, match=r"units\['gyro'\] must be one of rad/s, deg/s, mrad/s, got 'degs'"):
        as_log(source, units={"gyro": "degs"})
    with pytest.raises(OptionError, match=r"arrays has no channel 'gyr' \(did you mean 'gyro'\?\)"):
        as_log(source, units={"gyr": "deg/s"})


def test_units_in_names():
    assert split_unit("time_ns") == ("time", "ns")
    assert split_unit("gyro_x (dps)") == ("gyro_x", "deg/s")
    assert split_unit("dof_pos[3]") == ("dof_pos[3]", None)


def test_columns_are_grouped_in_order():
    names = ["t", "a_z", "a_x", "a_y", *(f"q{k}" for k in (10, 0, 2, 1, 3, 4, 5, 6, 7, 8, 9))]
    groups = group_columns(names)
    assert groups["a"] == ["a_x", "a_y", "a_z"]
    assert groups["q"] == [f"q{k}" for k in range(11)]
    assert groups["t"] == ["t"]


# -- logs --------------------------------------------------------------------------------------------------------------


def test_a_channel_of_another_length_is_named():
    log = as_log({"time": TIME, "gyro": GYRO, "mag": GYRO[::2]})
    assert set(log.channels) == {"gyro"}
    assert [problem.name for problem in log.problems] == ["mag.length"]


def test_parts_and_missing_channels():
    log = as_log({"time": TIME, "gyro": GYRO})
    part = log.part(slice(10, 20))
    np.testing.assert_array_equal(part.channels["gyro"], GYRO[10:20])
    assert part.duration == pytest.approx(0.09)
    assert part.hash == log.hash
    with pytest.raises(OptionError, match=r'no channel \'acc\'.*pass fields=\{"acc": "ITS_NAME"\}'):
        log.need("acc")


def test_time_stamps_must_increase_somewhere():
    with pytest.raises(OptionError, match=r"time stamps never increase"):
        as_log({"time": np.zeros(50), "gyro": GYRO})
    with pytest.raises(OptionError, match=r"must be numbers"):
        as_log({"time": ["a", "b"], "gyro": GYRO})


def test_truth_in_a_recording_is_not_taken_for_the_sensor(tmp_path):
    scene = sn.Scene(dt=0.01)
    scene.add_object(sn.Box(), name="box", free=True)
    imu = scene.add_sensor(sn.IMU(link="box", uuid="imu", gyro_bias=0.5))
    scene.build()
    with sn.ros.McapRecorder(scene, tmp_path) as recorder:
        for _ in range(20):
            scene.step()
            recorder.step()
    log = as_log(recorder.files[0])
    np.testing.assert_allclose(log.channels["gyro"], np.full((20, 3), imu.read().ang_vel.numpy()[0]), rtol=1e-6)
