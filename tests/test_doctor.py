"""The doctor: faults that are planted into simulated and real logs are named by the right check, and only by it."""

from pathlib import Path

import numpy as np
import pytest

import sensorium as sn
from sensorium.deploy.contract import ActionTerm, Contract, Latency, ObservationTerm, Seen
from sensorium.doctor import examine
from sensorium.doctor.tables import read_any
from sensorium.ros import McapRecorder

DATA = Path(__file__).parents[2] / "shared" / "data"

ROBOT = """
<mujoco model="robot">
  <worldbody>
    <body name="trunk" pos="0 0 1">
      <joint name="roll" axis="1 0 0"/><joint name="pitch" axis="0 1 0"/><joint name="yaw" axis="0 0 1"/>
      <geom size="0.2 0.1 0.05" type="box" mass="4"/>
      <body name="thigh" pos="0.2 0 0">
        <joint name="hip" axis="0 1 0" damping="0.3"/>
        <geom type="capsule" fromto="0 0 0 0.15 0 0" size="0.02" mass="0.2"/>
        <body name="shank" pos="0.15 0 0">
          <joint name="knee" axis="0 0 1" damping="0.3"/>
          <geom type="capsule" fromto="0 0 0 0.15 0 0" size="0.02" mass="0.1"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="roll" joint="roll" kp="200" dampratio="1" ctrlrange="-2 2"/>
    <position name="pitch" joint="pitch" kp="200" dampratio="1" ctrlrange="-2 2"/>
    <position name="yaw" joint="yaw" kp="200" dampratio="1" ctrlrange="-2 2"/>
    <position name="hip" joint="hip" kp="30" dampratio="1" ctrlrange="-2 2"/>
    <position name="knee" joint="knee" kp="30" dampratio="1" ctrlrange="-2 2"/>
  </actuator>
</mujoco>
"""
JOINTS = ("roll", "pitch", "yaw", "hip", "knee")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A log of a robot that turns and moves its joints, and the contract of a policy for it."""
    scene = sn.Scene(dt=0.005)
    scene.add_robot(ROBOT, name="robot")
    trunk = {"link": "robot/trunk"}
    scene.add_sensor(
        sn.IMU(uuid="imu", rate=200.0, acc_noise=0.05, gyro_noise=0.01, delay=0.012, jitter=0.005, **trunk)
    )
    scene.add_sensor(sn.FramePose(uuid="pose", rate=100.0, rot_noise=0.001, **trunk))
    scene.add_sensor(
        sn.JointEncoder(uuid="joints", robot="robot", joints=JOINTS, noise=1e-3, vel_noise=0.02, delay=0.005)
    )
    scene.build(n_envs=1, seed=2)
    control = scene.world.bind("ctrl")
    order = [scene.world.model.actuator(f"robot/{name}").id for name in JOINTS]
    folder = tmp_path_factory.mktemp("doctor")
    with McapRecorder(scene, folder, truth=False) as recorder:
        for k in range(2400):
            t = k * 0.005
            wave = [0.4 * np.sin((1.1 + 0.37 * i) * t + i) + 0.1 * np.sin((3.1 + 0.5 * i) * t) for i in range(5)]
            for i, value in zip(order, wave, strict=True):
                control[0, i] = value
            scene.step()
            recorder.step()
    log = sn.logs.read(recorder.files[0])
    return log, contract_of(log)


def seen(values):
    values = values.reshape(len(values), -1)
    figures = {name: tuple(getattr(values, name)(axis=0).tolist()) for name in ("min", "max", "mean", "std")}
    return Seen(samples=len(values), **figures)


def contract_of(log):
    def term(name, topic, message, field, unit, rate, noise, delay, names=()):
        values = np.asarray(log[topic][field])
        return ObservationTerm(
            name=name, uuid=topic[1:], topic=topic, message=message, field=field, frame=topic[1:], unit=unit,
            conversion="joints" if names else "values", names=names, shape=(values.shape[1],), rate=rate,
            noise=(noise,) * values.shape[1], latency=Latency(delay=delay, jitter=0.005, max=delay + 0.005),
            seen=seen(values),
        )  # fmt: skip

    imu, joints = "sensor_msgs/msg/Imu", "sensor_msgs/msg/JointState"
    observations = (
        term("acc", "/imu", imu, "linear_acceleration", "m/s²", 200.0, 0.05, 0.012),
        term("gyro", "/imu", imu, "angular_velocity", "rad/s", 200.0, 0.01, 0.012),
        term("positions", "/joints", joints, "position", "rad", 200.0, 1e-3, 0.005, JOINTS),
        term("velocities", "/joints", joints, "velocity", "rad/s", 200.0, 0.02, 0.005, JOINTS),
    )
    one = (1.0,) * 5
    action = ActionTerm(
        name="joints", kind="joint_position", names=JOINTS, unit="rad", scale=one, offset=(0.0,) * 5, min=(None,) * 5,
        max=(None,) * 5, rate=50.0,
    )  # fmt: skip
    return Contract(
        task="t", robot="r", rate=50.0, observations=observations, actions=(action,), seed=0, algorithm="ppo",
        which="last", versions={},
    )  # fmt: skip


def change(topic, path, function):
    """Return a topic with a field changed: ``function`` takes and returns (n, k)."""

    def edit(log):
        own = log[topic]
        if path in own.fields:
            return log.with_topics(own.replace(fields={path: function(np.array(own[path]))}))
        axes = "wxyz" if f"{path}.w" in own.fields else "xyz"
        values = function(np.array(own[path]))
        return log.with_topics(own.replace(fields={f"{path}.{a}": values[:, i] for i, a in enumerate(axes)}))

    return edit


def times(topic, capture=lambda t: t, arrival=lambda t: t):
    return lambda log: log.with_topics(
        log[topic].replace(capture=capture(log[topic].capture.copy()), arrival=arrival(log[topic].arrival.copy()))
    )


def keep(topic, rows):
    return lambda log: log.with_topics(log[topic].take(rows(len(log[topic]))))


def noisy(size):
    return lambda values: values + np.random.default_rng(0).normal(0, size, values.shape)


def replaced(column, function):
    def edit(values):
        values[:, column] = function(values[:, column])
        return values

    return edit


def frozen(values):
    values[500:900] = values[500]
    return values


def not_a_number(values):
    values[100, 0] = np.nan
    return values


def renamed(log):
    own = log["/joints"]
    return log.with_topics(own.replace(texts={"name.1": np.full(len(own), "pitch_joint")}))


def other_type(log):
    own = log["/imu"]
    return log.with_topics(type(own)("/imu", "geometry_msgs/msg/WrenchStamped", own.capture, own.arrival, own.fields))


def late_jump(t):
    return t + np.where(np.arange(len(t)) > len(t) // 2, 2.0, 0.0)


def back_jump(t):
    return t - np.where(np.arange(len(t)) > len(t) // 2, 3.0, 0.0)


def shaken(t):
    return t - np.random.default_rng(0).uniform(0, 4e-3, len(t))


ACC, GYRO = ("/imu", "linear_acceleration"), ("/imu", "angular_velocity")
QUAT, POSITION, VELOCITY = ("/pose", "pose.orientation"), ("/joints", "position"), ("/joints", "velocity")
SWAP = [1, 0, 2]

FAULTS = {
    "acceleration in g": (change(*ACC, lambda v: v / 9.81), "gravity.magnitude"),
    "acceleration in mg": (change(*ACC, lambda v: v / 9.81e-3), "gravity.magnitude"),
    "gravity removed": (change(*ACC, lambda v: v - v.mean(axis=0)), "gravity.magnitude"),
    "accelerometer scale": (change(*ACC, lambda v: 1.3 * v), "gravity.magnitude"),
    "acceleration with the opposite sign": (change(*ACC, lambda v: -v), "gravity.sign"),
    "accelerometer z down": (change(*ACC, lambda v: v * [1, -1, -1]), "gravity.sign"),
    "accelerometer x and y swapped": (change(*ACC, lambda v: v[:, SWAP]), "gravity.axis"),
    "accelerometer y up": (change(*ACC, lambda v: v[:, [0, 2, 1]]), "gravity.axis"),
    "gyroscope in degrees": (change(*GYRO, np.degrees), "gyro.unit"),
    "gyroscope with the opposite sign": (change(*GYRO, lambda v: -v), "gyro.sign"),
    "gyroscope z with the opposite sign": (change(*GYRO, lambda v: v * [1, 1, -1]), "gyro.sign"),
    "gyroscope x and y swapped": (change(*GYRO, lambda v: v[:, SWAP]), "gyro.axis"),
    "quaternion in the order x, y, z, w": (change(*QUAT, lambda q: q[:, [1, 2, 3, 0]]), "quaternion.order"),
    "quaternion shifted": (change(*QUAT, lambda q: q[:, [3, 0, 1, 2]]), "quaternion.order"),
    "quaternion inverted": (change(*QUAT, lambda q: q * [1, -1, -1, -1]), "quaternion.direction"),
    "joints in another order": (change(*POSITION, lambda v: v[:, [0, 1, 2, 4, 3]]), "joints.order"),
    "joint with the opposite sign": (change(*POSITION, replaced(3, np.negative)), "joints.sign"),
    "joints in degrees": (change(*POSITION, np.degrees), "joints.unit"),
    "encoder offset": (change(*POSITION, replaced(4, lambda v: v + 0.4)), "joints.offset"),
    "velocities in degrees": (change(*VELOCITY, np.degrees), "joints.velocity"),
    "velocity with the opposite sign": (change(*VELOCITY, replaced(2, np.negative)), "joints.velocity"),
    "joint renamed": (renamed, "joints.names"),
    "topic missing": (lambda log: log.without("/imu"), "topics"),
    "topic of another type": (other_type, "topics"),
    "half the rate": (keep("/imu", lambda n: np.arange(0, n, 2)), "rate"),
    "samples lost": (keep("/imu", lambda n: np.random.default_rng(1).random(n) > 0.1), "dropouts"),
    "stamps with jitter": (times("/imu", capture=shaken), "jitter"),
    "latency": (times("/imu", arrival=lambda t: t + 0.05), "latency"),
    "clock jumps forward": (times("/imu", capture=late_jump), "clock"),
    "clock jumps back": (times("/joints", capture=back_jump), "clock"),
    "arrival before capture": (times("/imu", arrival=lambda t: t - 0.5), "clock"),
    "noise": (change(*GYRO, noisy(0.08)), "noise"),
    "noise of an encoder": (change(*POSITION, noisy(0.01)), "noise"),
    "frozen": (change(*ACC, frozen), "frozen"),
    "not a number": (change(*GYRO, not_a_number), "finite"),
    "outside the range of training": (change(*VELOCITY, lambda v: 2.5 * v), "range"),
}  # fmt: skip


def test_a_clean_log_raises_no_alarm(recorded):
    log, contract = recorded
    report = examine(log, contract)
    assert report.failed == []
    assert {"gravity.axis", "gyro.sign", "quaternion", "joints.order", "range", "noise", "latency"} <= {
        each.check for each in report if each.verdict == "ok"
    }
    assert examine(log).failed == []  # without a policy


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_named_by_its_check(recorded, fault):
    log, contract = recorded
    plant, check = FAULTS[fault]
    report = examine(plant(log), contract)
    assert report.failed == [check]
    assert all(each.fix for each in report if each.verdict == "fail")


def test_faults_without_orientation_are_found_by_gravity(recorded):
    """From the mean direction in training, and from how gravity turns."""
    log, contract = recorded
    log = log.without("/pose")
    assert examine(log, contract).failed == []
    for fault in ("acceleration with the opposite sign", "accelerometer y up", "gyroscope in degrees"):
        plant, check = FAULTS[fault]
        assert examine(plant(log), contract).failed == [check], fault


def test_a_rotated_sensor_is_judged_in_the_frame_of_its_link(tmp_path):
    """The mounting pose is in the log, on /tf_static."""
    scene = sn.Scene(dt=0.005)
    scene.add_robot(ROBOT, name="robot")
    for name, euler in (("imu", (np.pi, 0, 0)), ("other", (np.pi / 2, 0, 0.3))):
        scene.add_sensor(sn.IMU(link="robot/trunk", uuid=name, euler=euler))
    scene.add_sensor(sn.FramePose(link="robot/trunk", uuid="pose"))
    scene.build(seed=2)
    control = scene.world.bind("ctrl")
    with McapRecorder(scene, tmp_path, truth=False) as recorder:
        for k in range(1200):
            for i in range(5):
                control[0, i] = 0.4 * np.sin((1.1 + 0.37 * i) * 0.005 * k + i)
            scene.step()
            recorder.step()
    log = sn.logs.read(recorder.files[0])
    for name in ("/imu", "/other"):
        assert examine(log.without(*({"/imu", "/other"} - {name}))).failed == []
    wrong = change("/imu", "angular_velocity", lambda v: -v)(log.without("/other"))
    assert examine(wrong).failed == ["gyro.sign"]


def test_signals_without_values_are_examined(recorded):
    log, contract = recorded
    broken = change(*ACC, lambda v: v * np.nan)(change(*GYRO, lambda v: v * np.nan)(log))
    assert examine(broken, contract).failed == ["finite"]
    assert "nothing could be checked" in str(examine(sn.logs.Log({})))


def test_joints_at_rest_are_not_judged_by_their_noise():
    """Encoders with noise of a robot that stands still."""
    rng = np.random.default_rng(0)
    time = np.arange(600) / 100
    texts = {f"name.{i}": np.full(600, f"j{i}") for i in range(4)}
    fields = {"position": rng.normal(0, 3e-3, (600, 4)), "velocity": rng.normal(0, 0.02, (600, 4))}
    topic = sn.logs.TopicLog("/joints", "sensor_msgs/msg/JointState", time, time, fields, texts)
    assert examine(sn.logs.Log({"/joints": topic})).failed == []


# -- real logs ---------------------------------------------------------------------------------------------------------

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the real logs in ../shared/data are not here")
TRIALS = sorted(path.name for path in (DATA / "broad").glob("*.hdf5")) if DATA.is_dir() else []

REAL_FAULTS = {
    name: (plant, check)
    for name, (plant, check) in FAULTS.items()
    if check.split(".")[0] in ("gravity", "gyro", "frozen", "finite")
} | {
    "quaternion in the order x, y, z, w": (change(*QUAT, lambda q: q[:, [1, 2, 3, 0]]), "quaternion.order"),
    "quaternion inverted": (change(*QUAT, lambda q: q * [1, -1, -1, -1]), "quaternion.direction"),
    "clock jumps forward": (times("/imu", capture=late_jump), "clock"),
    "magnetic field in µT": (change("/imu/mag", "magnetic_field", lambda v: 1e6 * v), "magnetic.unit"),
}


@needs_data
@pytest.mark.parametrize("trial", TRIALS)
def test_real_trials_raise_no_alarm(trial):
    assert examine(DATA / "broad" / trial, units={"mag": "uT"}).failed == []


@needs_data
@pytest.mark.parametrize("fault", REAL_FAULTS)
@pytest.mark.parametrize(
    "trial",
    [
        pytest.param(trial, marks=[] if "slow_rotation_B" in trial else pytest.mark.slow)
        for trial in TRIALS
        if "rotation" in trial
    ],
)
def test_faults_in_real_trials_are_named(trial, fault):
    plant, check = REAL_FAULTS[fault]
    log = read_any(DATA / "broad" / trial, units={"mag": "uT"})
    assert examine(plant(log)).failed == [check]


@needs_data
@pytest.mark.parametrize(
    ("check", "plant"),
    [
        ("joints.order", change("/joint_states", "position", lambda v: v[:, [1, 0, *range(2, 12)]])),
        ("joints.sign", change("/joint_states", "position", replaced(7, np.negative))),
        ("joints.unit", change("/joint_states", "position", np.degrees)),
        ("joints.offset", change("/joint_states", "position", replaced(5, lambda v: v + 0.5))),
        (None, lambda log: log),
    ],
)
def test_faults_in_the_joints_of_a_real_robot_are_named(check, plant):
    log = read_any(DATA / "go2" / "air_chirp.npz")
    assert examine(plant(log)).failed == ([] if check is None else [check])


# -- files, command line -----------------------------------------------------------------------------------------------


def test_the_command_prints_findings_and_plots(recorded, tmp_path, capsys, monkeypatch):
    from sensorium.cli import main

    log, contract = recorded
    monkeypatch.setattr("sensorium.deploy.read_contract", lambda path: contract)
    path = Path(log.source)
    assert (
        main(["doctor", "policy.onnx", str(path), "--plots", str(tmp_path / "p"), "--json", str(tmp_path / "a.json")])
        == 0
    )
    out = capsys.readouterr().out
    assert "all " in out
    assert "checks passed" in out
    assert {"acc.png", "gyro.png", "positions.png", "velocities.png"} == {
        each.name for each in (tmp_path / "p").iterdir()
    }
    assert '"verdict": "ok"' in (tmp_path / "a.json").read_text()
    assert main(["doctor", str(path)]) == 0
    assert main(["doctor", "policy.onnx"]) == 2
    assert main(["doctor", str(tmp_path / "none.mcap")]) == 2


def test_exit_codes_tell_failed_checks_from_bad_input(recorded, tmp_path, capsys, monkeypatch):
    """1 for a failed check, 2 for files that cannot be read or written; plots are tried before the examination."""
    from sensorium.cli import main

    log, contract = recorded
    monkeypatch.setattr("sensorium.deploy.read_contract", lambda path: contract)
    path = Path(log.source)
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert main(["doctor", str(cut)]) == 2
    assert "ends too early" in capsys.readouterr().err
    with pytest.warns(UserWarning, match="ends too early"):
        assert main(["doctor", str(cut), "--partial"]) == 0
    (tmp_path / "text.mcap").write_text("no log")
    assert main(["doctor", str(tmp_path / "text.mcap")]) == 2
    assert main(["compare", str(tmp_path / "text.mcap"), "--robot", "quadruped"]) == 2
    (tmp_path / "robot.xml").write_text("<mujoco")
    assert main(["compare", str(path), "--robot", str(tmp_path / "robot.xml")]) == 2
    capsys.readouterr()
    for words in (["--plots", str(cut / "p")], ["--json", str(cut / "a.json")]):
        assert main(["doctor", "policy.onnx", str(path), *words]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert f"{words[0]}: cannot write" in err
    assert main(["compare", str(path), "--robot", "quadruped", "--out", str(cut / "p")]) == 2
    assert "--out: cannot write" in capsys.readouterr().err
    monkeypatch.setattr("sensorium.doctor.tables.read", lambda *_, **__: FAULTS["frozen"][0](log))
    assert main(["doctor", str(path)]) == 1
    monkeypatch.setattr("sensorium.doctor.tables.read", lambda *_, **__: sn.logs.Log({}))
    assert main(["doctor", str(path)]) == 2


def test_too_few_messages_do_not_pass(recorded):
    log, contract = recorded
    short = sn.logs.Log({name: topic.take(slice(0, 1)) for name, topic in log.items()})
    report = examine(short, contract)
    assert set(report.failed) == {"topics"}
    assert "1 messages of" in report.findings[0].evidence


def test_json_must_be_a_file(recorded, tmp_path, capsys):
    from sensorium.cli import main

    assert main(["doctor", str(recorded[0].source), "--json", str(tmp_path)]) == 2
    assert "--json must be a file" in capsys.readouterr().err


def test_empty_logs_are_examined(tmp_path):
    assert examine(sn.logs.Log({})).findings == []
    with pytest.raises(sn.OptionError, match="units is for logs without messages"):
        read_any(Path("a.mcap"), units={"mag": "uT"})
