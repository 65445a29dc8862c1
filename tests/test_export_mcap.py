"""MCAP exports of datasets hold the messages that a recorder of the same scene writes, read by other libraries."""

import json
from pathlib import Path

import numpy as np
import pytest
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory

import sensorium as sn
from sensorium.generation import GenerateOptions, generate

RIG = """
sensors:
  - {name: imu, type: IMU, mount: {link: hand, pos: [0.01, 0, 0], euler: [0.3, 0, 0]},
     options: {rate: 100, delay: 0.01, acc_noise: 0.02, gyro_noise: [0.001, 0.002, 0.003]}}
  - {name: encoders, type: JointEncoder, options: {noise: 0.001}}
  - {name: wrist, type: ForceTorque, mount: {link: hand}}
  - {name: hand, type: FramePose, mount: {link: hand}}
  - {name: battery, type: BatteryState}
  - {name: memory, type: IMU, mount: {link: hand}, options: {history_length: 3}}
  - {name: lidar, type: Lidar, mount: {link: hand}, options: {pattern: {kind: SphericalPattern, fov: [360, 0],
     n_points: [36, 1]}, max_range: 5.0, returns: [distances]}}
  - {name: camera, type: Camera, mount: {link: hand}, options: {resolution: [32, 24], outputs: [rgb, depth, normals]}}
"""
STEPS = 30


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A dataset of one episode of an arm with many sensors, and its export."""
    folder = tmp_path_factory.mktemp("mcap")
    (folder / "rig.yaml").write_text(RIG)
    options = {"max_steps": STEPS}
    rig = str(folder / "rig.yaml")
    generate(GenerateOptions(task="pick", policy="random", episodes=1, envs=1, rig=rig, options=options), folder / "a")
    assert sn.datasets.validate(folder / "a").valid
    sn.datasets.export(folder / "a", "mcap", folder / "b")
    return folder


def decoded(path: Path) -> dict[str, list]:
    """Return topic -> (type, log time, message), by mcap-ros2-support."""
    found: dict[str, list] = {}
    with open(path, "rb") as file:
        reader = make_reader(file, decoder_factories=[DecoderFactory()])
        for schema, channel, message, content in reader.iter_decoded_messages():
            found.setdefault(channel.topic, []).append((schema.name, message.log_time, content))
    return found


def xyz(vector) -> list[float]:
    return [vector.x, vector.y, vector.z]


def test_sensors_have_the_messages_of_drivers(made):
    episode = sn.datasets.Dataset(made / "a")[0]
    found = decoded(made / "b" / "episode_000000.mcap")
    below = "obs/extra/robot_"
    for topic, uuid in (("/robot_imu", "imu"), ("/robot_memory", "memory")):
        acc, gyro, mag = (episode[f"{below}{uuid}/{name}"] for name in ("lin_acc", "ang_vel", "mag"))
        acc, gyro, mag = (each[:, 0] if uuid == "memory" else each for each in (acc, gyro, mag))
        assert found[topic][0][0] == "sensor_msgs/msg/Imu"
        np.testing.assert_array_equal([xyz(each.linear_acceleration) for *_, each in found[topic]], acc)
        np.testing.assert_array_equal([xyz(each.angular_velocity) for *_, each in found[topic]], gyro)
        np.testing.assert_array_equal([xyz(each.magnetic_field) for *_, each in found[f"{topic}/mag"]], mag)
    joints = [each for *_, each in found["/robot_encoders"]]
    np.testing.assert_array_equal([each.position for each in joints], episode[f"{below}encoders/positions"])
    np.testing.assert_array_equal([each.velocity for each in joints], episode[f"{below}encoders/velocities"])
    assert joints[0].name[:2] == ["joint1", "joint2"]
    forces = [xyz(each.wrench.force) for *_, each in found["/robot_wrist"]]
    np.testing.assert_array_equal(forces, episode[f"{below}wrist/force"])
    turns = [each.pose.orientation for *_, each in found["/robot_hand"]]
    np.testing.assert_array_equal([[q.w, q.x, q.y, q.z] for q in turns], episode[f"{below}hand/quat"])
    far = episode[f"{below}lidar/distances"].reshape(-1, 36)
    scans = np.array([each.ranges for *_, each in found["/robot_lidar"]])
    np.testing.assert_array_equal(scans, np.where(far == 5.0, np.inf, far))
    state = [each for *_, each in found["/joint_states"]]
    np.testing.assert_array_equal([each.position for each in state], episode["obs/agent/qpos"])
    np.testing.assert_array_equal([each.velocity for each in state], episode["obs/agent/qvel"])
    assert list(state[0].name) == [*(f"joint{i}" for i in range(1, 8)), "finger_joint1", "finger_joint2"]
    charge = [each.percentage for *_, each in found["/robot_battery"]]
    np.testing.assert_array_equal(charge, episode[f"{below}battery/charge"][:, 0])


def test_times_are_those_of_steps_and_the_metadata_states_it(made):
    found = decoded(made / "b" / "episode_000000.mcap")
    steps = np.arange(STEPS + 1) * 20_000_000
    for topic, rows in found.items():
        times = [time for _, time, _ in rows]
        if topic in ("/episode", "/tf_static"):
            assert times == [0]
            continue
        first = 1 if topic == "/action" or topic.startswith("/step/") else 0
        assert times == steps[first:].tolist(), topic
        if hasattr(rows[0][2], "header"):
            assert [each.header.stamp.sec * 10**9 + each.header.stamp.nanosec for *_, each in rows] == times
    metadata = sn.logs.read(made / "b" / "episode_000000.mcap").metadata
    assert "both the time of the step" in metadata["sensorium"]["times"]
    assert metadata["sensorium"]["task"] == "pick"
    assert metadata["sensorium"]["seed"] == "0"
    assert "mujoco" in json.loads(metadata["sensorium"]["versions"])
    assert metadata["frames"]["robot_imu"] == "robot/hand"
    assert metadata["frames"]["base"] == "world"
    assert json.loads(metadata["sensors"]["robot_imu"])["kind"] == "IMU"
    assert "move_groups" in metadata["scene"]


def test_constants_are_those_of_a_recorder(made, tmp_path):
    """Frames, covariances, angles and mounts equal those that McapRecorder writes for the same robot."""
    robot = sn.robots.make("franka", rig=made / "rig.yaml")
    scene = sn.Scene(dt=0.02, substeps=10)
    scene.add_robot(robot, name="robot")
    scene.build()
    with sn.ros.McapRecorder(scene, tmp_path / "log") as recorder:
        for _ in range(3):
            scene.step()
            recorder.step()
    scene.close()
    theirs, ours = decoded(recorder.files[0]), decoded(made / "b" / "episode_000000.mcap")
    shared = [topic for topic in theirs if topic in ours and topic.startswith("/robot_")]
    assert {"/robot_imu", "/robot_imu/mag", "/robot_encoders", "/robot_lidar", "/robot_battery"} <= set(shared)
    assert {"/robot_camera/rgb", "/robot_camera/depth", "/robot_camera/normals"} <= set(shared)
    for topic in shared:
        (kind, _, own), (other_kind, _, other) = ours[topic][0], theirs[topic][0]
        assert kind == other_kind, topic
        for name in own.__slots__:
            if name.endswith("covariance") or name in ("angle_min", "angle_increment", "range_max", "step"):
                np.testing.assert_allclose(getattr(own, name), getattr(other, name), err_msg=f"{topic} {name}")
        assert own.header.frame_id == other.header.frame_id, topic
        assert getattr(own, "encoding", "") == getattr(other, "encoding", ""), topic
    info, other = ours["/robot_camera/camera_info"][0][2], theirs["/robot_camera/camera_info"][0][2]
    np.testing.assert_allclose(info.k, other.k, rtol=1e-6)
    np.testing.assert_allclose(info.p, other.p, rtol=1e-6)
    mounts = [{t.child_frame_id: t for t in each["/tf_static"][0][2].transforms} for each in (ours, theirs)]
    for frame in ("robot_imu", "robot_lidar"):
        own, other = (each[frame] for each in mounts)
        assert own.header.frame_id == other.header.frame_id == "robot/hand"
        np.testing.assert_allclose(xyz(own.transform.translation), xyz(other.transform.translation))
        np.testing.assert_allclose(xyz(own.transform.rotation), xyz(other.transform.rotation))


def test_frames_are_those_of_the_episode(made):
    episode = sn.datasets.Dataset(made / "a")[0]
    found = decoded(made / "b" / "episode_000000.mcap")
    frames = [{each.child_frame_id: each for each in message.transforms} for *_, message in found["/tf"]]
    cube = [xyz(each["red_cube"].transform.translation) for each in frames]
    np.testing.assert_array_equal(cube, episode["env_states/actors/red_cube"][:, :3])
    base = [xyz(each["base"].transform.translation) for each in frames]
    np.testing.assert_array_equal(base, episode["obs/extra/robot_base_pose"][:, :3])
    matrices = episode["obs/sensor_param/robot_camera/extrinsic_cv"]
    for matrix, each in zip(matrices, frames, strict=True):
        there = each["robot_camera_optical"].transform.translation
        np.testing.assert_allclose(matrix[:3, :3] @ xyz(there) + matrix[:3, 3], 0, atol=1e-5)
    assert frames[0]["robot/link0"].header.frame_id == "world"
    assert found["/tcp_pose"][0][2].header.frame_id == "base"


def test_rosbags_reads_every_message(made):
    rosbags = pytest.importorskip("rosbags.highlevel")
    with rosbags.AnyReader([made / "b" / "episode_000000.mcap"]) as reader:
        counts: dict[str, int] = {}
        for connection, _, data in reader.messages():
            reader.deserialize(data, connection.msgtype)
            counts[connection.topic] = counts.get(connection.topic, 0) + 1
    assert counts["/robot_imu"] == counts["/robot_camera/rgb"] == STEPS + 1
    assert counts["/step/rewards"] == counts["/action"] == STEPS


def test_a_sensor_without_all_its_fields_has_columns(made, tmp_path):
    out = sn.datasets.export(made / "a", "mcap", tmp_path / "out", exclude=["robot_imu.lin_acc", "privileged.*"])
    found = decoded(out / "episode_000000.mcap")
    assert "/robot_imu" not in found
    assert found["/observation/robot_imu/ang_vel"][0][0] == "sensor_msgs/msg/PointCloud2"
    assert found["/robot_imu/mag"][0][0] == "sensor_msgs/msg/MagneticField"
    assert not any(topic.startswith("/truth") for topic in found)


def test_the_export_is_read_and_examined(made, capsys):
    from sensorium.cli import main

    assert main(["doctor", str(made / "b" / "episode_000000.mcap")]) in (0, 1)
    assert "clock" in capsys.readouterr().out
