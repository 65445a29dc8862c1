"""Logs as robots write them: several publishers on one topic, and times since 1970. Written by another library."""

import json

import numpy as np
import pytest
from mcap.writer import Writer
from mcap_ros2.writer import Writer as RosWriter

import sensorium as sn
from sensorium.doctor import compare, examine
from sensorium.doctor.links import Links
from sensorium.doctor.transforms import LinkMotions
from sensorium.fit import as_log
from sensorium.ros.definitions import schema
from sensorium.ros.topics import IMU, JOINT_STATE, TF

EPOCH = 1_731_900_000.0
"""A time of today: float64 has steps of 2.4e-7 s there."""


def header(time, frame=""):
    nanoseconds = round(time * 1e9)
    return {"stamp": {"sec": nanoseconds // 10**9, "nanosec": nanoseconds % 10**9}, "frame_id": frame}


def write(path, messages):
    """Write (topic, type, message, log time in s)."""
    with open(path, "wb") as file:
        writer = RosWriter(file)
        known = {}
        for topic, kind, message, time in messages:
            if kind not in known:
                known[kind] = writer.register_msgdef(kind, schema(kind))
            at = round(time * 1e9)
            writer.write_message(topic, known[kind], message, log_time=at, publish_time=at)
        writer.finish()
    return sn.logs.read(path)


def joints(names, position, time):
    return "/joint_states", JOINT_STATE, {"header": header(time), "name": names, "position": position}, time


def transforms(topic, pairs, time, turn=(0.0, 0.0, 0.0, 1.0)):
    found = []
    for k, (parent, child) in enumerate(pairs):
        rotation = dict(zip("xyzw", turn, strict=True))
        transform = {"translation": {"x": float(k), "y": time - EPOCH, "z": 0.0}, "rotation": rotation}
        found.append({"header": header(time, parent), "child_frame_id": child, "transform": transform})
    return topic, TF, {"transforms": found}, time


def test_a_message_at_the_time_of_a_step_has_arrived_in_time_since_1970(tmp_path):
    times = EPOCH + 0.01 * np.arange(400)
    log = write(
        tmp_path / "a.mcap",
        [
            ("/imu", IMU, {"header": header(time), "angular_velocity": {"x": float(k), "y": 0.0, "z": 0.0}}, time)
            for k, time in enumerate(times)
        ],
    )
    seen = sn.logs.resample(log, {"gyro": ("/imu", "angular_velocity")}, rate=50)
    np.testing.assert_array_equal(seen["gyro"][:, 0], np.arange(0, 400, 2))
    assert np.abs(seen["age/gyro"]).max() < 1e-6
    for name in ("time", "age/gyro"):
        with pytest.raises(sn.OptionError, match=f"fields: '{name}' is a name of the result itself"):
            sn.logs.resample(log, {name: ("/imu", "angular_velocity")}, rate=50)


@pytest.mark.parametrize("other", [["left", "right"], ["left", "right", "thumb"]])
def test_joints_of_two_publishers_on_one_topic_are_not_mixed(tmp_path, other):
    rows = []
    for k in range(50):
        rows.append(joints(["a", "b"], [float(k), -float(k)], EPOCH + 0.02 * k))
        rows.append(joints(other, [9.0] * len(other), EPOCH + 0.02 * k + 0.01))
    log = write(tmp_path / "a.mcap", rows)
    topic = log["/joint_states"]
    assert topic.names == ["a", "b"]
    assert [message["name"] for _, message, _ in log.messages()] == [["a", "b"], other] * 50
    field = {"q": ("/joint_states", "position")}
    with pytest.raises(sn.OptionError, match=r"different joints.*/joint_states/0 has 'a', 'b'; /joint_states/1 has"):
        sn.logs.resample(log, field, rate=50)
    with pytest.raises(sn.OptionError, match="joint_states/1/joint_pos"):
        as_log(tmp_path / "a.mcap")
    assert [each.subject for each in examine(log) if "different joints" in each.evidence] == ["/joint_states"]
    arm, hand = topic.split_joints()
    assert (arm.name, arm.names, hand.names) == ("/joint_states/0", ["a", "b"], other)
    np.testing.assert_array_equal(hand["position"], np.full((50, len(other)), 9.0))
    split = log.with_topics(arm, hand)
    seen = sn.logs.resample(split, {"q": ("/joint_states/0", "position")}, rate=50)["q"]
    np.testing.assert_array_equal(seen[:, 0], np.minimum(np.arange(len(seen)), 49))


def test_joints_that_change_their_order_keep_their_columns(tmp_path):
    rows = [
        joints(*((["a", "b"], [float(k), -1.0]) if k % 3 else (["b", "a"], [-1.0, float(k)])), EPOCH + 0.01 * k)
        for k in range(60)
    ]
    log = write(tmp_path / "a.mcap", rows)
    seen = sn.logs.resample(log, {"q": ("/joint_states", "position")}, rate=100)["q"]
    assert log["/joint_states"].split_joints()[0].names == ["b", "a"]
    np.testing.assert_array_equal(seen, np.stack([np.full(60, -1.0), np.arange(60.0)], axis=1))
    np.testing.assert_array_equal(as_log(tmp_path / "a.mcap").channels["joint_pos"], seen)


def test_names_of_json_messages_of_several_publishers(tmp_path):
    with open(tmp_path / "a.mcap", "wb") as file:
        writer = Writer(file)
        writer.start()
        kind = writer.register_schema(JOINT_STATE, "jsonschema", b"{}")
        channel = writer.register_channel("/joint_states", "json", kind)
        for k in range(4):
            names = ["a"] if k % 2 else ["b", "c"]
            data = json.dumps({"name": names, "position": [float(k)] * len(names)}).encode()
            writer.add_message(channel, k * 10**9, data, k * 10**9)
        writer.finish()
    topic = sn.logs.read(tmp_path / "a.mcap")["/joint_states"]
    assert [topic.message_at(k)["name"] for k in range(4)] == [["b", "c"], ["a"]] * 2
    assert [part["position"].tolist() for part in topic.split_joints()] == [[[0, 0], [2, 2]], [[1], [3]]]


def test_transforms_of_several_publishers_are_all_read(tmp_path):
    """One node sends the base, another one two links: their messages have different lengths."""
    rows = []
    for k in range(20):
        rows.append(transforms("/tf", [("odom", "base")], EPOCH + 0.1 * k))
        rows.append(transforms("/tf", [("base", "hip"), ("hip", "knee")], EPOCH + 0.1 * k + 0.05))
    log = write(tmp_path / "a.mcap", rows)
    motions = LinkMotions(log)
    for name, parent, start in (("base", "odom", 0.0), ("hip", "base", 0.05), ("knee", "hip", 0.05)):
        found = motions.of(name)
        assert found is not None
        assert found.parent == parent
        np.testing.assert_allclose(found.time - EPOCH, start + 0.1 * np.arange(20), atol=1e-6)
        np.testing.assert_allclose(found.pos[:, 1], found.time - EPOCH, atol=1e-6)
        assert (found.pos[:, 0] == (name == "knee")).all()
    np.testing.assert_array_equal(np.isnan(log["/tf"]["transforms.1.transform.rotation"]).all(axis=1), [1, 0] * 20)


def test_a_mount_in_the_second_of_two_static_transforms_is_known(tmp_path):
    """The IMU is upside down on its link, as another publisher of /tf_static says than that of the lidar."""
    rows = [
        transforms("/tf_static", [("base", "lidar")], EPOCH),
        transforms("/tf_static", [("base", "camera"), ("base", "imu")], EPOCH, (1.0, 0.0, 0.0, 0.0)),
    ]
    rows += [("/imu", IMU, {"header": header(EPOCH + 0.01 * k, "imu")}, EPOCH + 0.01 * k) for k in range(9)]
    log = write(tmp_path / "a.mcap", rows)
    mount = Links(log).of_imu(log["/imu"])
    assert mount.link == "base"
    np.testing.assert_allclose(mount.rotation, np.diag([1.0, -1.0, -1.0]), atol=1e-12)


def test_actions_of_a_log_are_those_that_follow_the_observation(tmp_path):
    """The dataset pairs each observation with the command of the step that begins there, as the simulation had it."""
    scene = sn.Scene(dt=0.02)
    scene.add_object(sn.Plane())
    robot = scene.add_robot("balancer", name="robot")
    scene.add_sensor(sn.JointEncoder(robot="robot", joints=["left_wheel", "right_wheel"], uuid="wheels"))
    scene.build(seed=0)
    rng = np.random.default_rng(0)
    actions, seen = [], []
    with sn.ros.McapRecorder(scene, tmp_path / "log") as recorder:
        for _ in range(30):
            actions.append(rng.uniform(-0.1, 0.1, 2))
            robot.act(actions[-1])
            scene.step()
            recorder.step()
            seen.append(scene.sensors["wheels"].read().positions[0].numpy().copy())
    log = sn.logs.read(recorder.files[0])
    fields = {"q": ("/wheels", "position")}
    data = sn.datasets.from_log(log, tmp_path / "data", fields, rate=50, action=("/command/effort", "effort"))
    np.testing.assert_allclose(data[0]["obs/extra/q"], np.array(seen), atol=1e-6)
    torque = 0.5 * np.array(actions)  # N·m: the motors have a gear of 0.5
    np.testing.assert_allclose(data[0]["actions/action"], torque[1:], atol=1e-6)


BODY = '<body><joint name="{}" axis="0 1 0"/><geom size="0.1"/></body>'
ACTUATORS = f"""<mujoco><worldbody>{"".join(map(BODY.format, "abcd"))}</worldbody>
<actuator>
  <motor joint="a" gear="50"/>
  <position joint="b" kp="3" gear="2"/>
  <velocity joint="c" kv="4" gear="2"/>
  <intvelocity joint="d" kp="5" actrange="-3 3"/>
</actuator></mujoco>"""


def test_commands_are_in_the_units_of_the_joints(tmp_path):
    """A motor with a gear of 50 and a control of 0.1 gives 5 N·m; a servo with a gear of 2 turns half as far."""
    scene = sn.Scene(dt=0.01)
    scene.add_robot(ACTUATORS, name="robot")
    scene.build(seed=0)
    with sn.ros.McapRecorder(scene, tmp_path, truth=False) as recorder:
        scene.world.bind("ctrl")[0, :] = 0.1
        scene.step()
        recorder.step()
    log = sn.logs.read(recorder.files[0])
    found = {
        name: (log[f"/command/{name}"].names, log[f"/command/{name}"][name][0].tolist())
        for name in ("effort", "position", "velocity")
    }
    assert found == {"effort": (["a"], [5.0]), "position": (["b"], [0.05]), "velocity": (["c", "d"], [0.05, 0.1])}


@pytest.mark.parametrize(("is_held", "failed"), [(False, ["joints.unit"]), (True, [])])
def test_a_joint_that_is_held_is_not_blamed_for_degrees(is_held, failed):
    """Both move by some hundredths of their commands: because of the unit, or because soft stops hold them."""
    rng = np.random.default_rng(0)
    time = 0.01 * np.arange(600)
    asked = np.stack([0.5 * np.sin(2 * time), 0.5 * np.sin(3 * time)], axis=1)
    own = np.clip(asked, -0.01, 0.01) + 0.015 * asked if is_held else np.radians(asked)
    names = {f"name.{i}": np.full(600, name) for i, name in enumerate("ab")}
    topics = {
        name: sn.logs.TopicLog(name, JOINT_STATE, time, time, {"position": values}, names)
        for name, values in (("/joints", own + rng.normal(0, 1e-4, own.shape)), ("/command/position", asked))
    }
    assert examine(sn.logs.Log(topics)).failed == failed


URDF = """<robot name="swing"><link name="base"/>
<link name="arm"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
<visual><geometry><box size="0.1 0.1 0.1"/></geometry></visual></link>
<joint name="swing" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/>
<limit lower="-2" upper="2" effort="9" velocity="9"/></joint></robot>"""
RIG = "sensors: [{name: imu, type: IMU, mount: {link: arm}, options: {acc_noise: 0.02, gyro_noise: 0.002, rate: 200}}]"


@pytest.mark.slow
def test_a_urdf_follows_a_log_in_time_since_1970(tmp_path):
    """The motion is a closed form. A clock whose step is rounded would drift by 1.2 ms."""
    (tmp_path / "swing.urdf").write_text(URDF)
    (tmp_path / "rig.yaml").write_text(RIG)
    rng = np.random.default_rng(0)
    rows = []
    for k in range(600):
        time = 0.005 * k
        angle, speed = 0.6 * np.sin(5 * time), 3.0 * np.cos(5 * time)
        rows.append(joints(["swing"], [angle], EPOCH + time))
        rows.append(joints(["wheel", "other"], [0.0, 0.0], EPOCH + time + 1e-4))
        gyro, acc = np.array([0.0, speed, 0.0]), 9.81 * np.array([-np.sin(angle), 0.0, np.cos(angle)])
        values = (("angular_velocity", gyro + rng.normal(0, 0.002, 3)), ("linear_acceleration", acc))
        message = {name: dict(zip("xyz", own.tolist(), strict=True)) for name, own in values}
        for axis, error in zip("xyz", rng.normal(0, 0.02, 3).tolist(), strict=True):
            message["linear_acceleration"][axis] += error
        rows.append(("/imu", IMU, {"header": header(EPOCH + time), **message}, EPOCH + time))
    log = write(tmp_path / "a.mcap", rows)
    found = compare(log, tmp_path / "swing.urdf", tmp_path / "rig.yaml", rate=4000)
    lags = {signal.name: signal.motion.lag for signal in found.signals}
    assert abs(lags["robot_imu.ang_vel"]) < 2e-4
    assert abs(lags["robot_imu.lin_acc"]) < 5e-4
    assert found.holds, str(found)


@pytest.mark.parametrize(("said", "free", "match"), [(1000, 2**40, "instead of 1000"), (2**24, 2**20, "of memory are")])
def test_chunks_that_do_not_fit_in_memory_are_not_decompressed(tmp_path, monkeypatch, said, free, match):
    """A chunk of some hundred bytes that holds 16 MiB of zeros; files of 1 MB could hold 20 GB."""
    zstandard, records = pytest.importorskip("zstandard"), pytest.importorskip("mcap.records")
    builder = pytest.importorskip("mcap.data_stream").RecordBuilder()
    data = zstandard.compress(bytes(2**24))
    builder.write(b"\x89MCAP0\r\n")
    records.Header("ros2", "").write(builder)
    records.Chunk("zstd", data, 0, 0, 0, said).write(builder)
    records.DataEnd(0).write(builder)
    records.Footer(0, 0, 0).write(builder)
    builder.write(b"\x89MCAP0\r\n")
    (tmp_path / "a.mcap").write_bytes(builder.end())
    monkeypatch.setattr("sensorium._system.free_memory", lambda: free)
    monkeypatch.setattr("mcap.stream_reader.breakup_chunk", None)
    with pytest.raises(sn.DatasetError, match=match):
        sn.logs.read(tmp_path / "a.mcap")
