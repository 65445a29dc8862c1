"""`sensorium compare` agrees with our own logs of a robot on wheels, and names what differs."""

import numpy as np
import pytest

import sensorium as sn
from sensorium.cli import main
from sensorium.doctor import compare
from sensorium.doctor.transforms import LinkMotions

RIG = """
sensors:
  - name: lidar
    type: Lidar
    mount: {{pos: [0.0, 0.0, 0.28]}}
    options: {{pattern: {{kind: SphericalPattern, fov: [360, 0], n_points: [180, 1]}}, max_range: 12.0,
               exclude_self: true, rate: 10.0, returns: [distances], noise: {ranges}}}
  - name: imu
    type: IMU
    mount: {{pos: [0.0, 0.0, 0.1]}}
    options: {{acc_noise: {acc}, gyro_noise: 0.002, gyro_random_walk: 0.0002, gyro_scale_error: {scale},
               delay: {delay}}}
  - name: odometry
    type: WheelOdometry
    options: {{left: left_wheel, right: right_wheel, radius: {radius}, track: 0.36, counts_per_revolution: 4096}}
"""
SAME = {"ranges": 0.01, "acc": 0.02, "delay": 0.005, "scale": 0.0, "radius": 0.08}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A log of a robot on wheels, recorded by the command, and its rig."""
    folder = tmp_path_factory.mktemp("wheels")
    (folder / "same.yaml").write_text(RIG.format(**SAME))
    words = ["record", "--robot", "diffdrive", "--rig", str(folder / "same.yaml"), "--steps", "600", "--seed", "0"]
    assert main([*words, "--format", "mcap", "--out", str(folder / "log")]) == 0
    return folder, sn.logs.read(folder / "log" / "env_0.mcap")


def failed(found) -> set[str]:
    return {f"{each.channel} {each.subject}" for signal in found.signals for each in signal.verdicts if not each.holds}


@pytest.mark.slow
def test_the_same_rig_agrees(recorded, capsys):
    folder, log = recorded
    assert main(["compare", log.source, "--robot", "diffdrive", "--rig", str(folder / "same.yaml")]) == 0
    out = capsys.readouterr().out
    assert "NO " not in out
    for name in ("lidar.distances", "imu.lin_acc", "imu.ang_vel", "imu.mag", "odometry.speed", "odometry.yaw_rate"):
        for subject in ("prediction", "lag", "noise"):
            assert f"yes robot_{name} {subject}" in out
    for name in ("lidar", "imu", "odometry"):
        assert f"yes robot_{name} latency" in out
    assert "--  robot_odometry.pos: not judged" in out


@pytest.mark.slow
def test_other_options_are_named(recorded, tmp_path):
    _, log = recorded
    other = {"ranges": 0.05, "acc": 0.1, "delay": 0.03, "scale": 0.1, "radius": 0.1}
    wrong = {
        "ranges": {"robot_lidar.distances noise"},
        "acc": {"robot_imu.lin_acc noise"},
        "delay": {"robot_imu latency"},
        "scale": {"robot_imu.ang_vel prediction"},
        "radius": {"robot_odometry.speed prediction"},
    }
    (tmp_path / "all.yaml").write_text(RIG.format(**other))
    found = failed(compare(log, "diffdrive", tmp_path / "all.yaml"))
    for names in wrong.values():
        assert names <= found
    assert not {each for each in found if "mag" in each or "lidar.distances lag" in each}
    (tmp_path / "delay.yaml").write_text(RIG.format(**{**SAME, "delay": 0.03}))
    assert failed(compare(log, "diffdrive", tmp_path / "delay.yaml")) == wrong["delay"]


@pytest.mark.slow
def test_faults_of_the_log_are_named(recorded):
    """A hidden latency and a scale of the scanner, and a hidden latency of the IMU."""
    folder, log = recorded
    scan, imu = log["/robot_lidar"], log["/robot_imu"]
    late = log.with_topics(scan.replace(capture=scan.capture + 0.05), imu.replace(capture=imu.capture + 0.02))
    found = failed(compare(late, "diffdrive", folder / "same.yaml"))
    assert {"robot_lidar.distances lag", "robot_imu.ang_vel lag"} <= found
    long = log.with_topics(scan.replace(fields={"ranges": 1.03 * scan["ranges"]}))
    assert failed(compare(long, "diffdrive", folder / "same.yaml")) == {"robot_lidar.distances prediction"}


@pytest.mark.slow
def test_without_surroundings_scans_are_not_judged(recorded):
    folder, log = recorded
    bare = sn.logs.Log(dict(log), log.source, {name: own for name, own in log.metadata.items() if name != "scene"})
    found = compare(bare, "diffdrive", folder / "same.yaml")
    assert "--world" in found.missing["robot_lidar.distances"]
    assert found.holds, str(found)


def test_joints_follow_from_frames(recorded):
    """Angles of the wheels from /tf are those that the robot drove: speed times time over the radius."""
    import mujoco

    _, log = recorded
    model = mujoco.MjModel.from_xml_string(log.metadata["scene"]["mjcf"])
    motions = LinkMotions(log)
    turned = []
    for name in ("robot/left_wheel", "robot/right_wheel"):
        found = motions.joint(model, model.joint(name).id)
        assert found is not None
        turned.append(found)
    speed = log["/truth/robot_odometry"]["twist.twist.linear.x"]
    rates = [np.gradient(angle, time) for time, angle in turned]
    np.testing.assert_allclose((rates[0] + rates[1])[1:-1] / 2 * 0.08, speed[1:-1], atol=0.02)
    assert motions.in_world("robot/base") is not None
    assert motions.joint(model, model.joint("robot/root").id) is None
