"""Simulated sensors beside those of a log, over the same motion."""

import re

import numpy as np
import pytest
from test_doctor import JOINTS, ROBOT

import sensorium as sn
from sensorium.doctor import compare
from sensorium.ros import McapRecorder

TURNS = '<joint name="roll" axis="1 0 0"/><joint name="pitch" axis="0 1 0"/><joint name="yaw" axis="0 0 1"/>'
FLOATING = re.sub(r'<position name="(roll|pitch|yaw)".*?/>', "", ROBOT.replace(TURNS, "<freejoint/>"))

RIG = """
sensors:
  - {{name: imu, type: IMU, mount: {{link: trunk}}, options: {{acc_noise: {acc}, gyro_noise: 0.01}}}}
  - {{name: joints, type: JointEncoder, options: {{noise: 0.0005, vel_noise: 0.02}}}}
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A log of a robot whose three base joints turn it, with sensors of a certain noise; and files of robot and rig."""
    folder = tmp_path_factory.mktemp("compare")
    (folder / "robot.xml").write_text(ROBOT)
    scene = sn.Scene(dt=0.005)
    scene.add_robot(ROBOT, name="robot")
    scene.add_sensor(sn.IMU(link="robot/trunk", uuid="robot_imu", acc_noise=0.05, gyro_noise=0.01))
    scene.add_sensor(sn.JointEncoder(robot="robot", uuid="robot_joints", joints=JOINTS, noise=5e-4, vel_noise=0.02))
    scene.build(n_envs=1, seed=5)
    control = scene.world.bind("ctrl")
    with McapRecorder(scene, folder / "log", truth=False) as recorder:
        for k in range(1400):
            t = 0.005 * k
            for i in range(5):
                control[0, i] = 0.4 * min(t, 1.0) ** 2 * np.sin((2.1 + 0.37 * i) * t + i)
            scene.step()
            recorder.step()
    for name, acc in (("same", 0.05), ("noisy", 0.3)):
        (folder / f"{name}.yaml").write_text(RIG.format(acc=acc))
    return folder, sn.logs.read(recorder.files[0])


def verdicts(found):
    return {(each.channel, each.subject): each.holds for signal in found.signals for each in signal.verdicts}


@pytest.mark.slow
def test_the_twin_of_a_simulated_robot_holds(recorded, tmp_path):
    folder, log = recorded
    found = compare(log, folder / "robot.xml", folder / "same.yaml", rate=400)
    assert found.holds, str(found)
    names = {signal.name for signal in found.signals}
    assert {"robot_imu.lin_acc", "robot_imu.ang_vel", "robot_joints.positions", "robot_joints.velocities"} <= names
    gyro = next(signal for signal in found.signals if signal.name == "robot_imu.ang_vel")
    assert np.sqrt(np.mean((gyro.motion.log - gyro.motion.ideal) ** 2)) < 0.02  # the noise of 0.01, and little else
    files = found.plot(tmp_path)
    assert len(files) == len(found.signals)
    assert all(path.stat().st_size > 10_000 for path in files)


@pytest.mark.slow
def test_other_noise_and_a_hidden_latency_are_named(recorded):
    folder, log = recorded
    found = verdicts(compare(log, folder / "robot.xml", folder / "noisy.yaml", rate=400))
    assert not found["robot_imu.lin_acc", "noise"]
    assert found["robot_imu.ang_vel", "noise"]
    late = log.with_topics(log["/robot_imu"].replace(capture=log["/robot_imu"].capture + 0.02))
    found = compare(late, folder / "robot.xml", folder / "same.yaml", rate=400)
    gyro = next(signal for signal in found.signals if signal.name == "robot_imu.ang_vel")
    assert gyro.motion.lag == pytest.approx(0.02, abs=0.002)
    assert not verdicts(found)["robot_imu.ang_vel", "lag"]
    assert verdicts(found)["robot_joints.positions", "prediction"]


@pytest.fixture(scope="module")
def floating(tmp_path_factory):
    """A log of a robot whose base floats, pushed about, with poses; and the folder of robot and rig."""
    folder = tmp_path_factory.mktemp("floating")
    (folder / "robot.xml").write_text(FLOATING)
    (folder / "rig.yaml").write_text(RIG.format(acc=0.05))
    scene = sn.Scene(dt=0.005, gravity=(0, 0, -9.81), disable=("contact",))
    scene.add_robot(FLOATING, name="robot")
    scene.add_sensor(sn.IMU(link="robot/trunk", uuid="robot_imu", acc_noise=0.05, gyro_noise=0.01))
    scene.add_sensor(sn.FramePose(link="robot/shank", uuid="foot"))  # another link than the base
    scene.add_sensor(sn.FramePose(link="robot/trunk", uuid="pose"))
    joints = ("hip", "knee")
    scene.add_sensor(sn.JointEncoder(robot="robot", uuid="robot_joints", joints=joints, noise=5e-4, vel_noise=0.02))
    scene.build(n_envs=1, seed=5)
    push = scene.world.bind("xfrc_applied")
    body = scene.world.model.body("robot/trunk").id
    weight = 9.81 * scene.world.model.body_mass.sum()
    with McapRecorder(scene, folder / "log", truth=False) as recorder:
        for k in range(1000):
            t = 0.005 * k
            push[0, body, 2] = weight + 3 * np.sin(3 * t)
            for i in range(3):
                push[0, body, 3 + i] = 0.02 * np.cos((3.0 + i) * t)
            scene.step()
            recorder.step()
    return folder, sn.logs.read(recorder.files[0])


@pytest.mark.slow
def test_a_base_with_a_free_joint_follows_poses(floating):
    """The pose of the base drives the scene; the IMU on it reads what the log's one read."""
    folder, log = floating
    found = compare(log, folder / "robot.xml", folder / "rig.yaml", rate=400)
    gyro = next(signal for signal in found.signals if signal.name == "robot_imu.ang_vel")
    size = np.sqrt(np.mean(gyro.motion.log**2))
    assert size > 0.1
    assert np.sqrt(np.mean((gyro.motion.log - gyro.motion.ideal) ** 2)) < 0.05 * size + 0.02
    assert verdicts(found)["robot_imu.ang_vel", "noise"]


@pytest.mark.slow
def test_an_imu_on_a_base_without_a_pose_is_not_judged(floating):
    """Neither without any pose, nor with that of another link; joints are compared all the same."""
    folder, log = floating
    for without in (("/pose", "/foot"), ("/pose",)):
        found = compare(log.without(*without), folder / "robot.xml", folder / "rig.yaml", rate=400)
        assert {signal.name for signal in found.signals} == {"robot_joints.positions", "robot_joints.velocities"}
        for name in ("robot_imu.ang_vel", "robot_imu.lin_acc", "robot_imu.mag"):
            assert "not judged: the log has no pose of the base" in found.missing[name]
        assert "--  robot_imu.ang_vel: not judged" in str(found)


@pytest.mark.slow
def test_an_imu_behind_a_joint_that_the_log_lacks_is_not_judged(recorded):
    folder, log = recorded
    own = log["/robot_joints"]
    names = {"name.1": np.full(len(own), "another")}
    found = compare(log.with_topics(own.replace(texts=names)), folder / "robot.xml", folder / "same.yaml", rate=400)
    assert "no positions of the joint 'robot/pitch'" in found.missing["robot_imu.ang_vel"]


@pytest.mark.slow
def test_the_lag_of_a_motion_below_the_noise_is_not_judged(recorded):
    """A gyroscope whose noise is far above its motion; the encoders show a lag."""
    folder, log = recorded
    own = log["/robot_imu"]
    rng = np.random.default_rng(0)
    noisy = {f"angular_velocity.{axis}": rng.normal(0, 30.0, len(own)) for axis in "xyz"}
    found = compare(log.with_topics(own.replace(fields=noisy)), folder / "robot.xml", folder / "same.yaml", rate=400)
    judged = verdicts(found)
    assert ("robot_imu.ang_vel", "lag") not in judged
    assert ("robot_joints.positions", "lag") in judged
    assert "below the noise" in found.missing["robot_imu.ang_vel lag"]


def test_unknown_sensors_and_topics_are_named(recorded):
    folder, log = recorded
    files = (folder / "robot.xml", folder / "same.yaml")
    with pytest.raises(sn.OptionError, match=r"no sensor 'robot_imo' \(did you mean 'robot_imu'"):
        compare(log, *files, topics={"robot_imo": "/robot_imu"})
    with pytest.raises(sn.OptionError, match=r"no topic '/robot_inu' for 'robot_imu' \(did you mean '/robot_imu'"):
        compare(log, *files, topics={"robot_imu": "/robot_inu"})


def test_a_log_without_motion_is_named(recorded, tmp_path):
    folder, log = recorded
    with pytest.raises(sn.OptionError, match="the log has no motion of 'robot'"):
        compare(log.without("/robot_joints"), folder / "robot.xml", folder / "same.yaml", rate=400)
    with pytest.raises(sn.OptionError, match=r"the robot 'franka' has no sensors; .*--rig"):
        compare(log, "franka", rate=400)
    with pytest.raises(sn.OptionError, match="no topic of the robot's sensors"):
        compare(log.without("/robot_imu", "/robot_imu/mag"), folder / "robot.xml", _only_imu(tmp_path))


def _only_imu(folder):
    path = folder / "imu.yaml"
    path.write_text("sensors:\n  - {name: imu, type: IMU, mount: {link: trunk}}\n")
    return path


@pytest.mark.slow
def test_the_command_compares(recorded, tmp_path, capsys):
    from sensorium.cli import main

    folder, log = recorded
    words = ["compare", log.source, "--robot", str(folder / "robot.xml"), "--rig", str(folder / "same.yaml")]
    assert main([*words, "--out", str(tmp_path / "out"), "--rate", "100"]) in (0, 1)
    out = capsys.readouterr().out
    assert "robot_imu.ang_vel prediction" in out
    assert (tmp_path / "out" / "robot_imu_ang_vel.png").is_file()
