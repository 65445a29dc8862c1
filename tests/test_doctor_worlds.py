"""The doctor on logs of several envs, other worlds, resets, several IMUs and poses, and absurd values."""

import warnings

import numpy as np
import pytest
from test_doctor import FAULTS, JOINTS, ROBOT, change, contract_of

import sensorium as sn
from sensorium.doctor import examine
from sensorium.ros import McapRecorder


def record(folder, *, gravity=(0, 0, -9.81), n_envs=1, reset_every=0, steps=1200, sensors=(), **options):
    """Record a robot that turns and moves its joints; return the log of the first file."""
    scene = sn.Scene(dt=0.005, gravity=gravity)
    scene.add_robot(ROBOT, name="robot")
    trunk = {"link": "robot/trunk"}
    scene.add_sensor(sn.IMU(uuid="imu", acc_noise=0.02, gyro_noise=0.005, **trunk))
    scene.add_sensor(sn.JointEncoder(uuid="joints", robot="robot", joints=JOINTS, noise=1e-3, vel_noise=0.02))
    for sensor in (sn.FramePose(uuid="pose", **trunk), *sensors):
        scene.add_sensor(sensor)
    scene.build(n_envs=n_envs, seed=2)
    control, qpos = scene.world.bind("ctrl"), scene.world.bind("qpos")
    rng = np.random.default_rng(0)
    with McapRecorder(scene, folder, **options) as recorder:
        for k in range(steps):
            if reset_every and k and k % reset_every == 0:
                scene.reset()
                for i in range(qpos.shape[1]):
                    qpos[:, i] = float(rng.uniform(-0.8, 0.8))
                scene.world.forward()
            for i in range(5):
                control[:, i] = 0.4 * np.sin((1.1 + 0.37 * i) * 0.005 * k + i)
            scene.step()
            recorder.step()
    return sn.logs.read(recorder.files[0])


# -- several envs ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def namespaced(tmp_path_factory):
    return record(tmp_path_factory.mktemp("envs"), n_envs=2, namespaces=True)


def test_envs_of_one_file_are_examined_one_by_one(namespaced):
    log = namespaced
    assert log.namespaces == ["/env_0", "/env_1"]
    one = log.in_namespace("/env_1")
    assert "/truth/imu" in one
    assert one["/imu"].name == "/imu"
    report = examine(log, contract_of(one))
    assert report.failed == []
    subjects = {each.subject for each in report}
    assert {"/env_0/imu angular_velocity", "/env_1/imu angular_velocity"} <= subjects
    assert not any("/truth" in each or "/command" in each or "/clock" in each for each in subjects)
    checks = {each.check for each in report if each.verdict == "ok"}
    assert {"joints.order", "gyro.sign", "range"} <= checks  # commands and the contract are found
    with pytest.raises(sn.OptionError, match="has no namespace '/env_7'; it has '/env_0', '/env_1'"):
        log.in_namespace("/env_7")


def test_a_fault_of_one_env_is_named_with_its_topic(namespaced):
    log = change("/env_1/imu", "angular_velocity", np.degrees)(namespaced)
    report = examine(log)
    assert [(each.check, each.subject) for each in report if each.verdict == "fail"] == [
        ("gyro.unit", "/env_1/imu angular_velocity")
    ]


def test_a_log_of_one_robot_has_no_namespaces(tmp_path):
    log = record(tmp_path, steps=20)
    assert log.namespaces == []
    with pytest.raises(sn.OptionError, match="env is for logs of several envs"):
        sn.doctor.compare(log, "quadruped", env=1)


def test_joint_states_of_different_joints_are_left_out(tmp_path):
    log = record(tmp_path, steps=200)
    topic = log["/joints"]
    rows = [values if k % 2 else values[:1] for k, values in enumerate(topic["position"])]
    report = examine(log.with_topics(topic.replace(fields={"position": rows, "velocity": rows})))
    assert report.failed == []
    assert [each.subject for each in report if "different joints or numbers of values" in each.evidence] == ["/joints"]


# -- gravity and resets ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("gravity", [(0, 0, -1.62), (0, 0, -3.71), (0, 0, -24.8), (0, 0, 0), (3.0, 0, -9.0)])
def test_other_worlds_raise_no_alarm(tmp_path, gravity):
    """Moon, Mars, Jupiter, no gravity, and a scene that is tilted by its gravity."""
    log = record(tmp_path, gravity=gravity)
    report = examine(log)
    assert report.failed == []
    magnitude = next(each for each in report if each.check == "gravity.magnitude")
    assert magnitude.verdict == ("ok" if any(gravity) else "skip")
    if any(gravity):
        assert any(each.check == "gravity.axis" and each.verdict == "ok" for each in report)
        in_g = change("/imu", "linear_acceleration", lambda v: v / 9.81)(log)
        assert examine(in_g).failed == ["gravity.magnitude"]
        inverted = change("/imu", "linear_acceleration", lambda v: -v)(log)
        assert examine(inverted).failed == ["gravity.sign"]
    wrong = change("/imu", "angular_velocity", lambda v: v * [1, 1, -1])(log)
    assert examine(wrong).failed == ["gyro.sign"]


@pytest.mark.parametrize("reset_every", [40, 150])
def test_resets_raise_no_alarm(tmp_path, reset_every):
    """The robot jumps to another pose at every reset; faults are found in spite of it."""
    log = record(tmp_path, reset_every=reset_every)
    assert len(log["/episode"]) == 1200 // reset_every
    assert examine(log, contract_of(log)).failed == []
    assert examine(log.without("/pose")).failed == []
    for fault in ("gyroscope z with the opposite sign", "velocity with the opposite sign", "quaternion inverted"):
        plant, check = FAULTS[fault]
        assert examine(plant(log)).failed == [check], fault


# -- several IMUs and poses --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Two IMUs on the trunk and one on the shank, with poses of thigh, trunk, shank, and of the shank in the trunk."""
    sensors = (
        sn.IMU(uuid="second", link="robot/trunk", euler=(0.3, 0, 1.2)),
        sn.IMU(uuid="foot", link="robot/shank"),
        sn.FramePose(uuid="pose_thigh", link="robot/thigh"),
        sn.FramePose(uuid="pose_shank", link="robot/shank"),
        sn.FramePose(uuid="pose_trunk", link="robot/trunk"),
        sn.FramePose(uuid="inner", link="robot/shank", relative_to="robot/trunk"),
    )
    return record(tmp_path_factory.mktemp("several"), sensors=sensors)


@pytest.mark.slow
def test_all_imus_and_poses_are_checked(several):
    report = examine(several)
    assert report.failed == []
    good = {(each.check, each.subject) for each in report if each.verdict == "ok"}
    for topic in ("/imu", "/second", "/foot"):
        assert {("gyro.sign", f"{topic} angular_velocity"), ("gravity.axis", f"{topic} linear_acceleration")} <= good
    assert {("quaternion", f"{each} pose.orientation") for each in ("/pose", "/pose_shank", "/pose_trunk")} <= good
    with_shank = next(each for each in report if each.check == "gyro.sign" and each.subject.startswith("/foot "))
    assert "/pose_shank" in with_shank.evidence  # not the pose of another link


@pytest.mark.slow
@pytest.mark.parametrize("topic", ["/imu", "/second", "/foot"])
def test_a_fault_of_any_imu_is_named(several, topic):
    report = examine(change(topic, "angular_velocity", lambda v: -v)(several))
    assert [(each.check, each.subject) for each in report if each.verdict == "fail"] == [
        ("gyro.sign", f"{topic} angular_velocity")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("topic", ["/pose", "/pose_shank", "/pose_trunk"])
def test_a_fault_of_any_pose_is_named(several, topic):
    report = examine(change(topic, "pose.orientation", lambda q: q * [1, -1, -1, -1])(several))
    assert [(each.check, each.subject) for each in report if each.verdict == "fail"] == [
        ("quaternion.direction", f"{topic} pose.orientation")
    ]


def test_a_frozen_imu_on_a_limb_is_named_once(several):
    def plant(values):
        values = values.copy()
        values[300:800] = values[330]
        return values

    assert examine(change("/foot", "linear_acceleration", plant)(several)).failed == ["frozen"]


def test_an_imu_without_a_pose_of_its_link_is_judged_by_gravity(several):
    """The trunk's pose is not that of the shank."""
    log = several.without("/pose_shank")
    assert examine(log).failed == []
    wrong = change("/foot", "angular_velocity", np.degrees)(log)
    report = examine(wrong)
    assert [(each.check, each.subject) for each in report if each.verdict == "fail"] == [
        ("gyro.unit", "/foot angular_velocity")
    ]


def test_a_heading_of_wheels_is_not_compared_with_a_robot_that_tilts(several):
    own = several["/pose"]
    yaw = {f"pose.orientation.{axis}": np.zeros(len(own)) for axis in "xy"}
    yaw |= {"pose.orientation.w": np.cos(own.capture), "pose.orientation.z": np.sin(own.capture)}
    log = several.without("/pose", "/pose_trunk").with_topics(own.replace(fields=yaw))
    report = examine(log)
    assert report.failed == []
    assert any("heading only" in each.evidence for each in report if each.verdict == "skip")


def test_turns_about_one_axis_blame_the_gyroscope(tmp_path):
    """An inverted orientation would look the same, and the finding says so."""
    scene = sn.Scene(dt=0.005)
    scene.add_robot(ROBOT, name="robot")
    scene.add_sensor(sn.IMU(uuid="imu", link="robot/trunk", acc_noise=0.02, gyro_noise=0.005))
    scene.add_sensor(sn.FramePose(uuid="pose", link="robot/trunk"))
    scene.build()
    control, yaw = scene.world.bind("ctrl"), scene.world.model.actuator("robot/yaw").id
    with McapRecorder(scene, tmp_path) as recorder:
        for k in range(1000):
            control[0, yaw] = np.sin(0.01 * k)
            scene.step()
            recorder.step()
    log = sn.logs.read(recorder.files[0])
    assert examine(log).failed == []
    report = examine(change("/imu", "angular_velocity", lambda v: -v)(log))
    (failed,) = (each for each in report if each.verdict == "fail")
    assert failed.check == "gyro.sign"
    assert "or its rotation is inverted" in failed.evidence


# -- absurd values -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [-1e38, 1e300, np.inf, np.nan])
@pytest.mark.parametrize(
    ("topic", "path"),
    [
        ("/imu", "angular_velocity"),
        ("/imu", "linear_acceleration"),
        ("/imu/mag", "magnetic_field"),
        ("/joints", "position"),
        ("/joints", "velocity"),
        ("/pose", "pose.orientation"),
        ("/pose", "pose.position"),
    ],
)
def test_absurd_values_are_named_once(namespaced, topic, path, value):
    def plant(values):
        values = values.astype(np.float64)
        values[[100, 300, 301], 1] = value
        return values

    log = namespaced.in_namespace("/env_0")
    contract = contract_of(log)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = examine(change(topic, path, plant)(log), contract)
    if topic == "/pose" and np.isnan(value):  # motion capture that lost its markers
        assert report.failed == []
        return
    failed = [each for each in report if each.verdict == "fail"]
    assert [(each.check, each.subject) for each in failed] == [("finite", f"{topic} {path}")]
    assert f"3 of 1200 messages hold no reading, the first is number 100: {value:g}" in failed[0].evidence


@pytest.mark.parametrize("seed", [2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 1, 3))])
def test_resets_of_a_tumbling_box_raise_no_alarm(tmp_path, seed):
    scene = sn.Scene(dt=0.01)
    scene.add_object(sn.Plane())
    box = scene.add_object(sn.Box(size=(0.2, 0.3, 0.1), mass=1.0), name="box", pos=(0, 0, 1.0), free=True)
    late = {"delay": 0.015, "jitter": 0.015, "dropout": 0.05}
    scene.add_sensor(sn.IMU(link="box", uuid="imu", rate=100, acc_noise=0.05, gyro_noise=0.01, **late))
    scene.add_sensor(sn.FramePose(link="box", uuid="pose"))
    scene.build(n_envs=2, seed=seed)
    rng = np.random.default_rng(seed)
    with McapRecorder(scene, tmp_path) as recorder:
        for k in range(600):
            if k in (0, 299):
                scene.reset(None if k == 0 else [1])
                scene.world.bind("qvel")[:, 3:] = scene.world.bind("qvel").new_tensor(rng.normal(0, 2, (2, 3)))
                scene.world.forward()
            scene.step()
            recorder.step()
    assert box.name == "box"
    for file in recorder.files:
        assert examine(file).failed == []
