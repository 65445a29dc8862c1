"""The doctor names the cause: both clocks, units and signs of joints without commands, motion that is no noise."""

import numpy as np
import pytest
from test_doctor import POSITION, VELOCITY, back_jump, change, late_jump, recorded, replaced, times

import sensorium as sn
from sensorium.cli import main
from sensorium.doctor import examine
from sensorium.doctor.value_checks import white_noise

__all__ = ["recorded"]


def both(jump, *topics):
    def plant(log):
        for topic in topics or [name for name in log if name != "/tf_static"]:
            log = times(topic, capture=jump, arrival=jump)(log)
        return log

    return plant


@pytest.mark.parametrize("jump", [late_jump, back_jump])
@pytest.mark.parametrize("topics", [(), ("/imu",), ("/joints",)])
def test_jumps_of_both_clocks_are_named(recorded, jump, topics):
    """Of the whole computer, and of one topic whose samples are all there."""
    log, contract = recorded
    wrong = both(jump, *topics)(log)
    assert examine(wrong, contract).failed == ["clock"]
    assert examine(wrong).failed == ["clock"]
    text = next(each.evidence for each in examine(wrong) if each.check == "clock" and each.verdict == "fail")
    assert ("go back by" if jump is back_jump else "jump by 2") in text


def test_an_outage_of_one_sensor_is_no_jump(recorded):
    log, contract = recorded
    own = log["/imu"]
    gone = (own.capture < 4) | (own.capture > 6)
    assert examine(log.with_topics(own.take(gone)), contract).failed == ["dropouts"]


@pytest.mark.parametrize(
    ("plant", "check"),
    [
        (change(*POSITION, np.degrees), "joints.unit"),
        (change(*POSITION, replaced(2, np.degrees)), "joints.unit"),
        (change(*VELOCITY, np.degrees), "joints.velocity"),
        (change(*VELOCITY, replaced(1, np.negative)), "joints.velocity"),
    ],
)
def test_units_of_joints_without_commands_are_named(recorded, plant, check):
    log, contract = recorded
    log = log.without("/command/position")
    assert examine(log, contract).failed == []
    assert examine(plant(log)).failed == [check]


def test_positions_are_judged_by_training(recorded):
    """All in degrees, positions and velocities, without commands: only the range of training shows it."""
    log, contract = recorded
    log = change(*POSITION, lambda v: v + 1.0)(log.without("/command/position"))
    seen = next(term for term in contract.observations if term.field == "position")
    object.__setattr__(seen.seen, "min", tuple(1.0 + np.array(seen.seen.min)))
    object.__setattr__(seen.seen, "max", tuple(1.0 + np.array(seen.seen.max)))
    try:
        assert examine(log, contract).failed == []
        degrees = change(*VELOCITY, np.degrees)(change(*POSITION, np.degrees)(log))
        assert examine(degrees, contract).failed[0] == "joints.unit"
        flipped = change(*VELOCITY, replaced(3, np.negative))(change(*POSITION, replaced(3, np.negative))(log))
        assert examine(flipped, contract).failed == ["joints.sign"]
    finally:
        object.__setattr__(seen.seen, "min", tuple(np.array(seen.seen.min) - 1.0))
        object.__setattr__(seen.seen, "max", tuple(np.array(seen.seen.max) - 1.0))


def test_a_position_against_its_velocity_and_command_has_the_wrong_sign():
    time = np.arange(800) / 100
    wave = np.stack([np.sin((2 + i) * time) for i in range(2)], axis=1)
    rate = np.stack([(2 + i) * np.cos((2 + i) * time) for i in range(2)], axis=1)
    texts = {f"name.{i}": np.full(800, f"wheel_{i}") for i in range(2)}
    kind = "sensor_msgs/msg/JointState"
    empty = {"velocity": np.zeros((800, 0))}
    joints = sn.logs.TopicLog("/joints", kind, time, time, {"position": wave * [1, -1], "velocity": rate}, texts)
    asked = sn.logs.TopicLog("/command/velocity", kind, time, time, {**empty, "velocity": rate}, texts)
    assert examine(sn.logs.Log({"/joints": joints, "/command/velocity": asked})).failed == ["joints.sign"]
    good = joints.replace(fields={"position": wave})
    assert examine(sn.logs.Log({"/joints": good, "/command/velocity": asked})).failed == []
    back = good.replace(fields={"velocity": rate * [1, -1]})
    assert examine(sn.logs.Log({"/joints": back, "/command/velocity": asked})).failed == ["joints.velocity"]


@pytest.mark.parametrize("size", [0.003, 0.05])
def test_noise_is_measured_below_jerky_motion(size):
    """Targets that jump 20 times a second, followed within 50 ms, sampled at 200 Hz with noise."""
    rng = np.random.default_rng(0)
    target = np.repeat(rng.normal(0, 1.0, (200, 3)), 10, axis=0)
    motion = np.zeros_like(target)
    for k in range(1, len(target)):
        motion[k] = motion[k - 1] + 0.1 * (target[k] - motion[k - 1])
    for _ in range(2):
        motion = np.apply_along_axis(lambda v: np.convolve(v, np.ones(5) / 5, mode="same"), 0, motion)
    found = white_noise(motion + rng.normal(0, size, motion.shape))
    np.testing.assert_allclose(found, size, rtol=0.6)


def test_noise_of_any_size_is_measured():
    rng = np.random.default_rng(1)
    found = white_noise(rng.normal(0, 0.3, (2000, 40)))
    assert (found > 0.15).all()
    assert (found < 0.35).all()


def test_skipped_checks_state_the_true_reason(recorded):
    log, _ = recorded
    pose = log["/pose"]
    short = log.with_topics(pose.take(pose.capture < 1.0))
    texts = [each.evidence for each in examine(short) if each.check == "gravity.axis"]
    assert texts == ["it and /pose pose.orientation are in the log together for less than 2 s"]
    brief = sn.logs.Log({name: each.take(each.capture < 1.0) for name, each in log.items()}, "", log.metadata)
    texts = [each.evidence for each in examine(brief) if each.check == "gravity.axis"]
    assert len(texts) == 1
    assert "s are needed" in texts[0]


def test_topics_are_mapped(recorded, tmp_path, capsys, monkeypatch):
    log, contract = recorded
    moved = {"/imu": "/imu/data", "/imu/mag": "/imu/data/mag", "/joints": "/joint_states"}
    topics = {}
    for name, own in log.items():
        new = moved.get(name, name)
        topics[new] = sn.logs.TopicLog(new, own.message, own.capture, own.arrival, own.fields, own.texts)
    other = sn.logs.Log(topics, "", log.metadata)
    assert examine(other, contract).failed == ["topics"]
    mapping = {"imu": "/imu/data", "/joints": "/joint_states"}  # by sensor, and by topic
    report = examine(other, contract, topics=mapping)
    assert report.failed == []
    assert any(each.subject == "/imu/data" and each.check == "topics" for each in report)
    with pytest.raises(sn.OptionError, match="the log has no topic '/imu/dat' for 'imu'"):
        examine(other, contract, topics={"imu": "/imu/dat"})
    with pytest.raises(sn.OptionError, match=r"no topic or sensor 'imo' \(did you mean 'imu'"):
        examine(other, contract, topics={"imo": "/imu/data"})
    with pytest.raises(sn.OptionError, match="topics need a policy"):
        examine(other, topics=mapping)
    assert main(["doctor", "a.mcap", "--topics", "imu"]) == 2
    assert "SENSOR=TOPIC" in capsys.readouterr().err
