"""MCAP files of scenes: what is written, compared with the sensors and decoded by other libraries."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
import torch
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_typestore

import sensorium as sn
from sensorium.cli import main
from sensorium.ros import McapRecorder
from sensorium.ros.covariance import variance

ARM = """
<mujoco model="arm">
  <worldbody>
    <body name="base" pos="0 0 0.5">
      <joint name="turn" axis="0 0 1" damping="1"/>
      <geom size="0.1 0.1 0.1" type="box" mass="1"/>
      <body name="hand" pos="0.3 0 0">
        <joint name="lift" axis="0 1 0" damping="1"/>
        <geom size="0.05" mass="0.2"/>
      </body>
    </body>
  </worldbody>
  <actuator><position name="turn_to" joint="turn" kp="20"/><motor name="push" joint="lift"/></actuator>
</mujoco>
"""


def messages(path):
    """Return topic -> [(decoded message, log time in s)], by the package mcap-ros2-support."""
    found = {}
    with open(path, "rb") as file:
        reader = make_reader(file, decoder_factories=[DecoderFactory()])
        for _, channel, message, decoded in reader.iter_decoded_messages():
            found.setdefault(channel.topic, []).append((decoded, message.log_time * 1e-9))
    return found


def stamp(message):
    return message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec


def everything_scene(n_envs=1):
    scene = sn.Scene(dt=0.01)
    scene.add_object(sn.Plane())
    scene.add_robot(ARM, name="arm")
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", pos=(1, 0, 0.3), free=True)
    link = {"link": "box"}
    for options in (
        sn.IMU(uuid="imu", acc_noise=0.1, gyro_noise=(0.1, 0.2, 0.3), **link),
        sn.Attitude(uuid="attitude", **link),
        sn.Magnetometer(uuid="mag", noise=1e-7, **link),
        sn.Barometer(uuid="baro", noise=2.0, **link),
        sn.GPS(uuid="gps", horizontal_error=1.0, vertical_error=2.0, noise=0.5, **link),
        sn.FramePose(uuid="pose", **link),
        sn.ContactForce(uuid="contact_force", **link),
        sn.Contact(uuid="contact", **link),
        sn.Clock(uuid="clock_sensor"),
        sn.JointEncoder(uuid="encoder", robot="arm"),
        sn.JointTorque(uuid="torque", robot="arm"),
        sn.BatteryState(uuid="battery", robot="arm"),
        sn.OpticalFlow(uuid="flow", **link),
        sn.Proximity(uuid="near", positions=((0, 0, 0),), max_range=2.0, **link),
        sn.Proximity(uuid="skin", positions=((0, 0, 0), (0.1, 0, 0)), max_range=2.0, **link),
        sn.TemperatureGrid(uuid="heat", grid_size=(2, 1, 1), **link),
        sn.Lidar(uuid="lidar", returns=("distances", "points", "intensity"), **link),
        sn.Lidar(uuid="scan", pattern=sn.RingPattern(n_points=90), max_range=5.0, **link),
        sn.DepthCamera(uuid="tof", width=8, height=6, **link),
        sn.Camera(
            uuid="eye", resolution=(32, 24), outputs=("rgb", "depth"), renderer="batch", rate=20.0, delay=0.03, **link
        ),
    ):
        scene.add_sensor(options)
    scene.build(n_envs=n_envs, seed=1)
    return scene


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mcap")
    scene = everything_scene()
    truth = []
    with McapRecorder(scene, folder, metadata={"who": "test"}) as recorder:
        for k in range(50):
            scene.world.bind("ctrl")[:] = 0.01 * k
            scene.step()
            recorder.step()
            truth.append({uuid: sensor.read() for uuid, sensor in scene.sensors.items() if uuid == "imu"})
            truth[-1] = {name: value.clone() for name, value in zip(("acc", "gyro"), truth[-1]["imu"][:2], strict=True)}
    (path,) = recorder.files
    return scene, path, truth


def test_another_library_decodes_every_message(log):
    _scene, path, truth = log
    found = messages(path)
    kinds = {topic: type(rows[0][0]).__name__ for topic, rows in found.items()}
    expected = {
        "/imu": "Imu",
        "/imu/mag": "MagneticField",
        "/attitude": "Vector3Stamped",
        "/mag": "MagneticField",
        "/baro": "FluidPressure",
        "/gps": "NavSatFix",
        "/gps/velocity": "TwistStamped",
        "/pose": "PoseStamped",
        "/pose/twist": "TwistStamped",
        "/contact_force": "WrenchStamped",
        "/contact": "PointCloud2",
        "/clock_sensor": "TimeReference",
        "/encoder": "JointState",
        "/torque": "JointState",
        "/battery": "BatteryState",
        "/near": "Range",
        "/skin/distances": "PointCloud2",
        "/heat": "PointCloud2",
        "/lidar": "PointCloud2",
        "/scan": "LaserScan",
        "/tof": "Image",
        "/eye/rgb": "Image",
        "/eye/depth": "Image",
        "/eye/camera_info": "CameraInfo",
        "/clock": "Clock",
        "/tf": "TFMessage",
        "/tf_static": "TFMessage",
        "/episode": "String",
        "/command/position": "JointState",
        "/command/effort": "JointState",
        "/truth/imu": "Imu",
        "/truth/scan": "LaserScan",
    }
    assert {topic: kinds.get(topic) for topic in expected} == expected
    assert len(found["/imu"]) == len(found["/clock"]) == 50
    imu = np.array([[m.angular_velocity.x, m.angular_velocity.y, m.angular_velocity.z] for m, _ in found["/imu"]])
    np.testing.assert_array_equal(imu, torch.cat([row["gyro"] for row in truth]).double().numpy())
    last = found["/imu"][-1][0]
    np.testing.assert_allclose(last.angular_velocity_covariance, np.diag(np.square([0.1, 0.2, 0.3])).ravel())
    np.testing.assert_allclose(last.linear_acceleration_covariance, 0.01 * np.eye(3).ravel())
    assert last.orientation_covariance[0] == -1  # there is no orientation
    np.testing.assert_allclose(found["/gps"][-1][0].position_covariance, np.diag([1.25, 1.25, 4.25]).ravel())


def test_values_are_those_of_the_sensors(log):
    scene, path, _ = log
    found = messages(path)

    def last(topic):
        return found[topic][-1][0]

    read = {uuid: sensor.read() for uuid, sensor in scene.sensors.items()}
    pose = last("/pose").pose
    np.testing.assert_allclose([pose.orientation.w, pose.orientation.x], read["pose"].quat[0, :2])
    assert list(last("/encoder").name) == ["turn", "lift"]
    np.testing.assert_allclose(last("/encoder").position, read["encoder"].positions[0])
    np.testing.assert_allclose(last("/torque").effort, read["torque"][0])
    assert list(last("/command/position").name) == ["turn"]
    np.testing.assert_allclose(last("/command/effort").effort, [0.49])
    assert last("/battery").current == pytest.approx(-read["battery"].current.item())
    assert last("/gps").latitude == read["gps"].latitude.item()
    scan = last("/scan")
    far = np.array(scan.ranges)
    assert np.isinf(far).any()  # REP 117: nothing in range
    hits = read["scan"].distances[0].numpy()
    np.testing.assert_array_equal(far[np.isfinite(far)], hits[np.isfinite(far)])
    directions = scene.sensors["scan"].options.pattern.rays()[1]
    angles = scan.angle_min + scan.angle_increment * np.arange(len(far))
    np.testing.assert_allclose(np.c_[np.cos(angles), np.sin(angles)], directions[:, :2], atol=1e-5)
    cloud = last("/lidar")
    points = np.frombuffer(cloud.data, np.float32).reshape(cloud.width, -1)
    assert [field.name for field in cloud.fields] == ["x", "y", "z", "range", "intensity"]
    np.testing.assert_array_equal(points[:, :3], read["lidar"].points[0].reshape(-1, 3).numpy())
    depth = np.frombuffer(last("/tof").data, np.float32).reshape(6, 8)
    np.testing.assert_array_equal(depth, read["tof"][0].numpy())


def test_frames_lead_from_the_world_to_the_sensors(log):
    scene, path, _ = log
    found = messages(path)
    moving = {each.child_frame_id: each for each in found["/tf"][-1][0].transforms}
    assert {"box", "arm/base", "arm/hand"} == set(moving)
    x = scene.world.bind("xpos")[0, scene.world.model.body("box").id]
    np.testing.assert_allclose([moving["box"].transform.translation.z], [x[2]])
    fixed = {each.child_frame_id: each.header.frame_id for each in found["/tf_static"][0][0].transforms}
    assert fixed["imu"] == "box"
    assert fixed["eye_optical"] == "box"
    # a point on the optical axis of the camera, through both transforms, lies where the camera looks
    import mujoco

    def matrix(transform):
        turn = np.zeros(9)
        q = transform.rotation
        mujoco.mju_quat2Mat(turn, np.array([q.w, q.x, q.y, q.z]))
        t = transform.translation
        return np.vstack([np.c_[turn.reshape(3, 3), [t.x, t.y, t.z]], [0, 0, 0, 1]])

    eye = next(each for each in found["/tf_static"][0][0].transforms if each.child_frame_id == "eye_optical")
    chained = matrix(moving["box"].transform) @ matrix(eye.transform)
    np.testing.assert_allclose(chained, scene.sensors["eye"].cam2world_cv[0], atol=1e-5)


def test_cameras_have_both_times(log):
    _, path, _ = log
    rows = messages(path)["/eye/rgb"]
    captured = [stamp(message) for message, _ in rows]
    np.testing.assert_allclose(np.diff(captured), 0.05, atol=1e-6)
    np.testing.assert_allclose([at - stamp(message) for message, at in rows], 0.03, atol=1e-6)
    assert rows[0][0].encoding == "rgb8"
    assert len(rows[0][0].data) == 32 * 24 * 3


def test_rosbags_reads_the_files_too(log, tmp_path):
    """With the metadata that ``ros2 bag reindex`` would write."""
    _, path, _ = log
    from mcap.reader import make_reader as reader_of

    with open(path, "rb") as file:
        summary = reader_of(file).get_summary()
    folder = tmp_path / "bag"
    folder.mkdir()
    os.link(path, folder / "a.mcap")
    counts = summary.statistics.channel_message_counts
    topics = "".join(
        f"    - topic_metadata: {{name: {channel.topic}, type: {summary.schemas[channel.schema_id].name}, "
        f"serialization_format: cdr, offered_qos_profiles: ''}}\n      message_count: {counts.get(i, 0)}\n"
        for i, channel in summary.channels.items()
    )
    (folder / "metadata.yaml").write_text(
        "rosbag2_bagfile_information:\n  version: 5\n  storage_identifier: mcap\n  duration: {nanoseconds: 1}\n"
        "  starting_time: {nanoseconds_since_epoch: 0}\n"
        f"  message_count: {summary.statistics.message_count}\n  topics_with_message_count:\n{topics}"
        "  compression_format: ''\n  compression_mode: ''\n  relative_file_paths: [a.mcap]\n"
    )
    store, seen = get_typestore(Stores.ROS2_JAZZY), set()
    with Reader(folder) as reader:
        for connection, _, data in reader.messages():
            store.deserialize_cdr(data, connection.msgtype)
            seen.add(connection.topic)
    assert len(seen) == len(summary.channels)


def test_stamps_are_captures_and_log_times_arrivals(tmp_path):
    """Late samples are late, lost ones missing; compared with the queue of the sensor."""
    scene = sn.Scene(dt=0.02, substeps=10)
    scene.add_object(sn.Box(mass=1.0), name="box", free=True)
    imu = scene.add_sensor(
        sn.IMU(link="box", uuid="imu", rate=200.0, delay=0.015, jitter=0.01, dropout=0.2, acc_noise=1.0)
    )
    scene.build(n_envs=2, seed=3)
    expected = [[], []]
    with McapRecorder(scene, tmp_path, truth=False) as recorder:
        for _ in range(40):
            scene.step()
            recorder.step()
            samples = imu.read_samples()
            for env in range(2):
                n = int(samples.count[env])
                times = zip(samples.capture[env, :n].tolist(), samples.arrival[env, :n].tolist(), strict=True)
                expected[env] += list(zip(times, samples.values.lin_acc[env, :n, 0].tolist(), strict=True))
    assert [path.name for path in recorder.files] == ["env_0.mcap", "env_1.mcap"]
    for env, path in enumerate(recorder.files):
        rows = messages(path)["/imu"]
        got = sorted((stamp(message), at, message.linear_acceleration.x) for message, at in rows)
        wanted = sorted((capture, arrival, value) for (capture, arrival), value in expected[env])
        np.testing.assert_allclose(np.array(got), np.array(wanted), atol=1e-8)
        assert 100 < len(got) < 150  # of 160, an eighth of which is lost or on its way
        logged = sn.logs.read(path)["/imu"]
        assert (np.diff(logged.arrival) >= 0).all()
        assert (np.diff(logged.capture) < 0).any()  # with jitter, samples overtake
        assert logged.latency.min() >= 0.015 - 1e-9
        assert logged.latency.max() <= 0.025 + 1e-9


def test_time_goes_on_over_resets(tmp_path):
    scene = sn.Scene(dt=0.01)
    scene.add_object(sn.Sphere(), name="ball", free=True)
    scene.add_sensor(sn.IMU(link="ball", uuid="imu"))
    scene.build(n_envs=1)
    with McapRecorder(scene, tmp_path) as recorder:
        for k in range(30):
            scene.step()
            recorder.step()
            if k % 10 == 9:
                scene.reset()
    log = sn.logs.read(recorder.files[0])
    np.testing.assert_allclose(np.diff(log["/imu"].capture), 0.01, atol=1e-6)
    np.testing.assert_allclose(log["/episode"].arrival, [0.0, 0.1, 0.2])
    assert [text[:13] for text in log["/episode"]["data"]] == ['{"episode": 0', '{"episode": 1', '{"episode": 2']


def test_envs_share_a_file_by_namespaces_and_jpeg_is_compressed(tmp_path):
    scene = sn.Scene(dt=0.01)
    scene.add_object(sn.Plane())
    scene.add_sensor(sn.Camera(uuid="eye", pos=(0, 0, 2), lookat=(0.1, 0, 0), resolution=(32, 24), renderer="batch"))
    scene.build(n_envs=3)
    with McapRecorder(scene, tmp_path, envs=[0, 2], namespaces=True, jpeg=90) as recorder:
        scene.step()
        recorder.step()
    found = messages(tmp_path / "scene.mcap")
    assert [path.name for path in recorder.files] == ["scene.mcap"]
    assert {"/env_0/eye/rgb/compressed", "/env_2/eye/rgb/compressed"} <= set(found)
    assert not any(topic.startswith("/env_1") for topic in found)
    import io

    from PIL import Image

    image = Image.open(io.BytesIO(bytes(found["/env_2/eye/rgb/compressed"][0][0].data)))
    close = np.asarray(image, float) - scene.sensors["eye"].read().rgb[2].numpy()
    assert image.size == (32, 24)
    assert np.abs(close).mean() < 10


@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_many_messages_are_written_as_one_by_one(tmp_path, monkeypatch, compression):
    """Files of BulkMessages and of mcap's own add_message are equal to the byte."""
    from sensorium.ros.bulk_messages import BulkMessages
    from sensorium.ros.mcap_file import McapFile

    rng = np.random.default_rng(0)
    messages = [
        (int(at), int(at) - 5, f"/{'abc'[int(rng.integers(3))]}", rng.bytes(int(rng.integers(8, 9000))))
        for at in rng.integers(10, 1000, 300)
    ]
    for name in ("bulk", "single"):
        if name == "single":
            monkeypatch.setattr(BulkMessages, "of", lambda *_: None)
        file = McapFile(tmp_path / f"{name}.mcap", compression, 50_000, {"a": {"b": 1}})
        for topic in ("/a", "/b", "/c"):
            file.add_topic(topic, "std_msgs/msg/String")
        assert (file._bulk is None) == (name == "single")
        for first in range(0, 300, 70):
            file.write_all(messages[first : first + 70])
        file.close()
    assert (tmp_path / "bulk.mcap").read_bytes() == (tmp_path / "single.mcap").read_bytes()


def moving_box():
    scene = sn.Scene(dt=0.01)
    scene.add_object(sn.Box(), name="box", free=True)
    scene.add_sensor(sn.IMU(link="box", uuid="imu"))
    scene.build(n_envs=2)
    return scene


def test_an_error_leaves_part_files(tmp_path):
    """What was recorded is in files with their temporary names, which state the error."""
    scene = moving_box()

    def record():
        with sn.ros.McapRecorder(scene, tmp_path / "a") as recorder:
            for _ in range(50):
                scene.step()
                recorder.step()
            raise RuntimeError("the motor is hot")

    with pytest.raises(RuntimeError, match="the motor is hot"):
        record()
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["env_0.mcap.part", "env_1.mcap.part"]
    with pytest.warns(UserWarning, match=r"is not whole: RuntimeError: the motor is hot ended its recording"):
        log = sn.logs.read(tmp_path / "a" / "env_1.mcap.part")
    assert len(log["/imu"]) == 50
    assert not log.is_complete
    assert len(messages(tmp_path / "a" / "env_1.mcap.part")["/imu"]) == 50  # by another library


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"envs": [True]}, r"envs must be .*integer.*, got \[True\]"),
        ({"envs": [2]}, r"envs must lie in \[0, 2\), got 2"),
        ({"jpeg": True}, "jpeg must be an integer or None, got True"),
        ({"jpeg": 0}, r"jpeg must be a quality"),
    ],
)
def test_bad_options_are_refused(tmp_path, options, text):
    with pytest.raises(sn.OptionError, match=text):
        sn.ros.McapRecorder(moving_box(), tmp_path / "a", **options)
    assert not (tmp_path / "a").exists()


def test_the_command_writes_namespaces_and_jpeg(tmp_path, capsys):
    (tmp_path / "rig.yaml").write_text(
        "sensors:\n  - {name: cam, type: Camera, options: {resolution: [32, 24]}}\n  - {name: imu, type: IMU}\n"
    )
    words = ["record", "--rig", str(tmp_path / "rig.yaml"), "--steps", "3", "--envs", "2", "--out", str(tmp_path / "a")]
    assert main([*words, "--namespaces"]) == 2
    assert "--format mcap" in capsys.readouterr().err
    assert main([*words, "--format", "mcap", "--jpeg", "200"]) == 2
    assert main([*words, "--format", "mcap", "--namespaces", "--jpeg", "90"]) == 0
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["scene.mcap"]
    log = sn.logs.read(tmp_path / "a" / "scene.mcap")
    assert log.namespaces == ["/env_0", "/env_1"]
    assert log["/env_1/robot_cam/rgb/compressed"].message == "sensor_msgs/msg/CompressedImage"


def test_a_failed_start_leaves_nothing(tmp_path):
    scene = sn.Scene()
    scene.add_object(sn.Sphere(), name="ball", free=True)
    scene.add_sensor(sn.IMU(link="ball", uuid="imu"))
    scene.build(n_envs=2)
    (tmp_path / "env_1.mcap").write_bytes(b"old")
    with pytest.raises(sn.OptionError, match=r"env_1.mcap exists already"):
        McapRecorder(scene, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["env_1.mcap"]
    with pytest.raises(sn.OptionError, match=r"envs must lie in \[0, 2\), got 5"):
        McapRecorder(scene, tmp_path / "b", envs=[5])
    with pytest.raises(sn.OptionError, match=r"compression must be"):
        McapRecorder(scene, tmp_path / "b", compression="gzip")
    assert not (tmp_path / "b").exists()


def test_signals_with_the_same_topic_are_refused(tmp_path):
    for uuids in (("clock",), ("imu", "imu/mag")):
        scene = sn.Scene()
        scene.add_object(sn.Sphere(), name="ball", free=True)
        scene.add_sensor(sn.IMU(link="ball", uuid=uuids[0]))
        for uuid in uuids[1:]:
            scene.add_sensor(sn.Magnetometer(link="ball", uuid=uuid))
        scene.build()
        with pytest.raises(sn.OptionError, match="two signals have the topic"):
            McapRecorder(scene, tmp_path / "a")
        assert not (tmp_path / "a").exists()


def test_steps_that_were_not_recorded_are_named(tmp_path):
    scene = sn.Scene()
    scene.add_object(sn.Sphere(), name="ball", free=True)
    scene.add_sensor(sn.IMU(link="ball", uuid="imu"))
    scene.build(n_envs=2)
    for bad, text in (
        ([0, 0], "each once"),
        (0, "envs must be a sequence"),
        ([0.5], "envs must be a sequence"),
        ([2], "must lie in"),
        ([], "at least one"),
    ):
        with pytest.raises(sn.OptionError, match=text):
            McapRecorder(scene, tmp_path / "b", envs=bad)
    with pytest.raises(sn.OptionError, match="JSON form"):
        McapRecorder(scene, tmp_path / "b", metadata={"a": np.zeros(3)})
    with McapRecorder(scene, tmp_path / "b") as recorder:
        scene.step()
        recorder.step()
        scene.step(count=10)
        with pytest.warns(UserWarning, match="10 steps were made between two calls"):
            recorder.step()


# -- reading -----------------------------------------------------------------------------------------------------------


def test_what_was_recorded_is_read(log):
    _scene, path, truth = log
    read = sn.logs.read(path)
    np.testing.assert_array_equal(
        read["/imu"]["angular_velocity"], torch.cat([row["gyro"] for row in truth]).double().numpy()
    )
    assert read["/encoder"].names == ["turn", "lift"]
    assert read["/imu"].message == "sensor_msgs/msg/Imu"
    assert read["/imu"].rate == pytest.approx(100, rel=1e-3)
    assert read["/pose"]["pose.orientation"].shape == (50, 4)
    assert read.metadata["sensorium"]["who"] == "test"
    assert "/imu" in str(read)
    some = sn.logs.read(path, topics=["/gps"])
    assert list(some) == ["/gps"]


def test_resampling_is_what_a_reader_would_have_had(tmp_path):
    """Compared with ``sensor.read()`` in every step."""
    scene = sn.Scene(dt=0.01)
    scene.add_object(sn.Box(mass=1.0), name="box", free=True)
    imu = scene.add_sensor(
        sn.IMU(link="box", uuid="imu", rate=40.0, delay=0.03, jitter=0.03, dropout=0.2, acc_noise=1.0)
    )
    scene.build(n_envs=1, seed=3)
    times, values, ages = [], [], []
    with McapRecorder(scene, tmp_path, truth=False) as recorder:
        for _ in range(100):
            scene.step()
            recorder.step()
            times.append(scene.time[0].item())
            values.append(imu.read().lin_acc[0].double().numpy().copy())
            ages.append(imu.age()[0].item())
    log = sn.logs.read(recorder.files[0], strict=False)
    start = 20
    found = sn.logs.resample(log, {"acc": ("/imu", "linear_acceleration")}, rate=100, start=times[start])
    n = len(found["time"])
    np.testing.assert_allclose(found["time"], times[start : start + n], atol=1e-9)
    np.testing.assert_array_equal(found["acc"], values[start : start + n])
    np.testing.assert_allclose(found["age/acc"], ages[start : start + n], atol=1e-6)


def test_bad_files_are_named(log, tmp_path):
    _, path, _ = log
    data = path.read_bytes()
    (tmp_path / "cut.mcap").write_bytes(data[: len(data) * 2 // 3])
    with pytest.raises(sn.DatasetError, match=r"cut.mcap ends too early; \d+ messages of \d+ topics .*partial=True"):
        sn.logs.read(tmp_path / "cut.mcap")
    with pytest.warns(UserWarning, match="ends too early"):
        some = sn.logs.read(tmp_path / "cut.mcap", partial=True)
    assert not some.is_complete
    (tmp_path / "foreign.mcap").write_bytes(b"PK\3\4" + bytes(100))
    with pytest.raises(sn.DatasetError, match=r"foreign.mcap is no MCAP file"):
        sn.logs.read(tmp_path / "foreign.mcap")
    with pytest.raises(sn.OptionError, match=r"there is no log file"):
        sn.logs.read(tmp_path / "none.mcap")
    with pytest.raises(sn.OptionError, match=r"no messages on the topic '/imuu'"):
        sn.logs.read(path, topics=["/imuu"])
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 0xFF
    (tmp_path / "flipped.mcap").write_bytes(flipped)
    with pytest.raises(sn.DatasetError, match=r"flipped.mcap"):
        sn.logs.read(tmp_path / "flipped.mcap")
    read = sn.logs.read(path)
    with pytest.raises(sn.OptionError, match=r"has no topic '/imy' \(did you mean '/imu'"):
        read["/imy"]
    with pytest.raises(sn.OptionError, match=r"has no field 'angular_velocty'"):
        read["/imu"]["angular_velocty"]


def write(path, rows, message="sensor_msgs/msg/Imu", encoding="cdr"):
    from mcap.writer import Writer

    from sensorium.ros.definitions import schema

    with open(path, "wb") as file:
        writer = Writer(file)
        writer.start()
        channel = writer.register_channel(
            "/a", encoding, writer.register_schema(message, "ros2msg", schema(message).encode())
        )
        for data, at in rows:
            writer.add_message(channel, at, data, at)
        writer.finish()
    return path


def test_bad_messages_are_named_by_topic_and_number(tmp_path):
    from sensorium.ros.messages import make_encoder

    good = make_encoder("sensor_msgs/msg/Imu", {}).encode({"header.stamp.sec": [1]})[0].tobytes()
    path = write(tmp_path / "short.mcap", [(good, 0), (good, 1), (good[:50], 2)])
    with pytest.raises(sn.DatasetError, match=r"short.mcap, topic /a \(sensor_msgs/msg/Imu\): message 2 "):
        sn.logs.read(path)
    path = write(tmp_path / "back.mcap", [(good, 0), (good, 2_000_000_000), (good, 1_000_000_000)])
    with pytest.raises(sn.DatasetError, match=r"topic /a: time runs backwards by 1 s at message 2"):
        sn.logs.read(path)
    assert len(sn.logs.read(path, strict=False)["/a"]) == 3
    path = write(tmp_path / "other.mcap", [(b"x", 0)], encoding="protobuf")
    with pytest.raises(sn.DatasetError, match=r"none of the 1 topics of .* can be decoded"):
        sn.logs.read(path)
    with pytest.raises(sn.DatasetError, match=r"topic /a .*: cannot decode sensor_msgs/msg/Imu encoded as 'protobuf'"):
        sn.logs.read(path, topics=["/a"])


def chunked(path):
    """Write 60 messages on each of two topics in chunks of about 10; return (offset, size) of the chunks' data."""
    from sensorium.ros.mcap_file import McapFile
    from sensorium.ros.messages import make_encoder

    imu, mag = (make_encoder(f"sensor_msgs/msg/{name}", {}) for name in ("Imu", "MagneticField"))
    file = McapFile(path, "zstd", 4000, {"sensorium": {"seed": 1}})
    file.add_topic("/imu", "sensor_msgs/msg/Imu")
    file.add_topic("/mag", "sensor_msgs/msg/MagneticField")
    for k in range(60):
        data = [
            (f"/{name}", encoder.encode({"header.stamp.sec": [k], f"{field}.x": [float(k)]})[0].tobytes())
            for name, encoder, field in (("imu", imu, "angular_velocity"), ("mag", mag, "magnetic_field"))
        ]
        file.write_all([(k * 10**9, k * 10**9, topic, each) for topic, each in data])
    file.close()
    with open(path, "rb") as stream:
        return [
            (each.chunk_start_offset, each.chunk_length) for each in make_reader(stream).get_summary().chunk_indexes
        ]


def test_damaged_chunks_hide_only_their_own_messages(tmp_path):
    """Also if it is the first chunk, which holds the definitions: they are repeated at the end of the file."""
    chunks = chunked(tmp_path / "whole.mcap")
    assert len(chunks) >= 4
    data = (tmp_path / "whole.mcap").read_bytes()
    path = tmp_path / "damaged.mcap"
    lost_so_far = 0
    for start, length in chunks:
        flipped = bytearray(data)
        flipped[start + length - 20] ^= 0xFF
        path.write_bytes(flipped)
        with pytest.raises(sn.DatasetError) as error:
            sn.logs.read(path)
        found = re.search(r"lost are .*messages (\d+) to (\d+) of /imu", str(error.value))
        assert found, str(error.value)
        assert "partial=True" in str(error.value)
        first, last = int(found[1]), int(found[2])
        assert first == lost_so_far
        lost_so_far = last + 1
        with pytest.warns(UserWarning, match=rf"a chunk is damaged .* messages {first} to {last} of /imu"):
            log = sn.logs.read(path, partial=True)
        assert not log.is_complete
        kept = [k for k in range(60) if not first <= k <= last]
        assert log["/imu"]["angular_velocity"][:, 0].tolist() == kept
        assert log["/imu"].capture.tolist() == kept
        assert log.metadata["sensorium"] == {"seed": "1"}
    assert lost_so_far == 60


def test_damage_between_chunks_keeps_what_is_before_it(tmp_path):
    chunks = chunked(tmp_path / "whole.mcap")
    data = bytearray((tmp_path / "whole.mcap").read_bytes())
    data[chunks[2][0] + 1] ^= 0xFF  # length of the record
    data[chunks[2][0] + 6] ^= 0xFF
    path = tmp_path / "damaged.mcap"
    path.write_bytes(data)
    with pytest.raises(sn.DatasetError, match=r"damaged.mcap: it is damaged after message \d+ of /imu"):
        sn.logs.read(path)
    with pytest.warns(UserWarning, match="it is damaged after message"):
        log = sn.logs.read(path, partial=True)
    assert 10 < len(log["/imu"]) < 60


def test_any_flipped_byte_is_an_error_or_harmless(tmp_path):
    """No other exception, and with partial=True always the messages of the other chunks."""
    chunked(tmp_path / "whole.mcap")
    data = (tmp_path / "whole.mcap").read_bytes()
    rng = np.random.default_rng(0)
    path = tmp_path / "damaged.mcap"
    for at in rng.integers(8, len(data), 150).tolist():
        flipped = bytearray(data)
        flipped[at] ^= int(rng.integers(1, 256))
        path.write_bytes(flipped)
        with contextlib.suppress(sn.DatasetError):
            assert len(sn.logs.read(path)["/imu"]) == 60
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sn.logs.read(path, partial=True)


def test_bad_messages_are_skipped_in_partial_files(tmp_path):
    from sensorium.ros.messages import make_encoder

    good = make_encoder("sensor_msgs/msg/Imu", {}).encode({"header.stamp.sec": [1]})[0].tobytes()
    path = write(tmp_path / "short.mcap", [(good, 0), (good[:50], 1), (good, 2), (b"", 3)])
    with pytest.warns(UserWarning, match=r"topic /a \(.*\): 2 of 4 messages do not fit .*: message 1 has 46 bytes"):
        assert sn.logs.read(path, partial=True)["/a"].arrival.tolist() == [0.0, 2e-9]
    path = write(tmp_path / "json.mcap", [(b'{"x": 1}', 0), (b"{", 1), (b"[]", 2)], encoding="json")
    with pytest.raises(sn.DatasetError, match="message 1 is no JSON"):
        sn.logs.read(path)
    with pytest.warns(UserWarning, match="2 of 3 messages do not fit"):
        assert sn.logs.read(path, partial=True)["/a"]["x"].tolist() == [1]


KILLED = """
import sys
import sensorium as sn
from sensorium.ros import McapRecorder
scene = sn.Scene(dt=0.01)
scene.add_object(sn.Sphere(), name="ball", free=True)
scene.add_sensor(sn.IMU(link="ball", uuid="imu", rate=500.0))
scene.build(n_envs=1)
with McapRecorder(scene, sys.argv[1]) as recorder:
    for k in range(10**9):
        scene.step()
        recorder.step()
        if k == 2000:
            print("go", flush=True)
"""


@pytest.mark.slow
def test_a_kill_leaves_a_file_up_to_the_last_chunk(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().strip() == "go"
    time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert [path.name for path in tmp_path.iterdir()] == ["env_0.mcap.part"]
    with pytest.warns(UserWarning, match="ends too early"):
        log = sn.logs.read(tmp_path / "env_0.mcap.part", partial=True)
    imu = log["/imu"]
    assert len(imu) > 1000
    np.testing.assert_allclose(np.diff(imu.capture), 0.002, atol=1e-6)


@pytest.mark.slow
def test_memory_stays_flat(tmp_path):
    import resource

    scene = sn.Scene(dt=0.01)
    scene.add_object(sn.Sphere(), name="ball", free=True)
    scene.add_sensor(sn.IMU(link="ball", uuid="imu"))
    scene.build(n_envs=1)
    with McapRecorder(scene, tmp_path) as recorder:
        peaks = []
        for _ in range(4):
            for _ in range(500):
                scene.step()
                recorder.step()
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert peaks[-1] - peaks[1] < 4000  # kB


@pytest.mark.parametrize(
    ("dt", "options"),
    [
        (1e-3, {"gyro_noise_density": 0.02, "gyro_bandwidth": 20.0, "filter_order": 1}),
        (1e-3, {"gyro_noise_density": 0.02, "gyro_bandwidth": 20.0, "filter_order": 2, "rate": 100}),
        (1e-3, {"gyro_noise_density": 0.02, "gyro_bandwidth": 400.0, "filter_order": 1, "rate": 100}),
        (0.01, {"gyro_noise_density": 0.02, "gyro_bandwidth": 200.0, "filter_order": 1}),  # too high for ticks
        (0.01, {"gyro_noise_density": (0.02, 0.01, 0.03), "rate": 50}),
        (0.01, {"gyro_noise_density": 2e-3, "gyro_bias_instability": 5e-3, "gyro_drift_time": 100.0}),
        (0.01, {"gyro_bias_instability": 5e-3}),
        (0.01, {"gyro_noise": 0.01, "gyro_bias_spread": 0.02, "gyro_drift": 0.01, "gyro_resolution": 0.01}),
    ],
)
def test_covariances_are_those_of_a_sensor_at_rest(dt, options):
    """The variance that messages state is that of readings over 2,500 envs, within 12 %: 4 standard errors."""
    scene = sn.Scene(dt=dt, substeps=1)
    scene.add_object(sn.Box(size=(1, 1, 1), mass=1.0), name="box")
    imu = scene.add_sensor(sn.IMU(link="box", uuid="imu", **options))
    scene.build(n_envs=2500, seed=3)
    seen = []
    for _ in range(3):
        scene.step(count=10)
        seen.append(imu.read().ang_vel.double().numpy().copy())
    measured = np.concatenate(seen).var(axis=0)
    np.testing.assert_allclose(variance(imu, "gyro", 3), measured, rtol=0.12)
    assert variance(imu, "acc", 3).max() == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_of_the_command_leaves_whole_files(tmp_path, number):
    """What was recorded is readable under its final name, and the exit code names the signal."""
    words = ["record", "--robot", "diffdrive", "--scenario", "random-acceleration", "--steps", "1000000", "--envs", "2"]
    command = [sys.executable, "-m", "sensorium", *words, "--format", "mcap", "--out", str(tmp_path / "a")]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    part = tmp_path / "a" / "env_1.mcap.part"
    try:
        deadline = time.monotonic() + 300
        while not (part.exists() and part.stat().st_size > 10_000) and time.monotonic() < deadline:
            time.sleep(0.05)
        running.send_signal(number)
        out, err = running.communicate(timeout=120)
    finally:
        running.kill()
    assert running.returncode == 128 + number, err
    assert f"the recorded steps in {tmp_path / 'a'} are kept" in err
    assert "Traceback" not in out + err
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["env_0.mcap", "env_1.mcap"]
    counts = set()
    for env in range(2):
        path = tmp_path / "a" / f"env_{env}.mcap"
        counts |= {len(sn.logs.read(path)["/clock"]), len(messages(path)["/clock"])}  # by ours and by another library
    assert len(counts) == 1
    assert counts.pop() > 30


@pytest.mark.slow
def test_ctrl_c_in_a_script_leaves_whole_files(tmp_path):
    """At any time, also while messages are collected or written."""
    code = KILLED.replace("k == 2000", "k == 100")
    for wait in (0.0, 0.013, 0.057, 0.111):
        out = tmp_path / str(wait)
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout.readline().strip() == "go"
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert err.rstrip().endswith("KeyboardInterrupt")
        log = sn.logs.read(out / "env_0.mcap")
        assert len(log["/clock"]) >= 100
        assert len(np.unique(log["/clock"].arrival)) == len(log["/clock"])
        assert abs(len(log["/tf"]) - len(log["/clock"])) <= 1
