"""The runtime of policies: messages, buffers, staleness, and what it refuses. Networks here are linear functions."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from deploy_messages import stamp

import sensorium as sn
from sensorium.deploy import ActionTerm, Contract, Latency, ObservationTerm, Policy, run_log
from sensorium.deploy.inputs import SensorInput
from sensorium.deploy.messages import converter, get
from sensorium.errors import NameNotFoundError, OptionError, StaleInputError

RATE = 50.0


def term(**changes):
    """Return a term of an IMU."""
    values = {
        "name": "imu.lin_acc",
        "uuid": "robot_imu",
        "topic": "/imu",
        "message": "sensor_msgs/msg/Imu",
        "field": "linear_acceleration",
        "frame": "robot_imu",
        "unit": "m/s²",
        "shape": (3,),
        "rate": 100.0,
        "latency": Latency(delay=0.01, max=0.01),
    }
    values |= changes
    values.setdefault("noise", (0.0,) * int(np.prod(values["shape"])))
    values.setdefault("history", len(values.get("ages", (0.0,))))
    return ObservationTerm(**values)


JOINTS = {
    "name": "joints.positions",
    "uuid": "robot_joints",
    "topic": "/joints",
    "message": "sensor_msgs/msg/JointState",
    "field": "position",
    "conversion": "joints",
    "names": ("left", "right"),
    "shape": (2,),
    "unit": "rad",
}
COMMAND = {"name": "command", "source": "command", "topic": "", "message": "", "field": "", "shape": (1,), "rate": RATE}
LAST = {**COMMAND, "name": "last_action", "source": "previous_action"}


def make(*terms, **options):
    """Return a policy whose action is the sum of its observation, and whose command is twice that."""
    terms = terms or (term(), term(**JOINTS))
    action = ActionTerm(
        name="body",
        kind="joint_torque",
        names=("a",),
        unit="N·m",
        scale=(2.0,),
        offset=(0.0,),
        min=(None,),
        max=(None,),
        rate=RATE,
    )
    contract = Contract(
        task="t",
        robot="r",
        rate=RATE,
        observations=terms,
        actions=(action,),
        seed=0,
        algorithm="ppo",
        which="best",
        versions={},
    )

    class Sum:
        """A network."""

        def run(self, outputs, inputs):
            total = inputs["observation"].sum(axis=1, keepdims=True)
            return [total, 2 * total]

    return Policy(contract, Sum(), **options)


def imu(x, capture):
    """Return an IMU message as an object with attributes, as rclpy has them."""
    time = stamp(capture)["stamp"]
    header = SimpleNamespace(stamp=SimpleNamespace(**time), frame_id="imu")
    return SimpleNamespace(header=header, linear_acceleration=SimpleNamespace(x=x, y=0.0, z=0.0))


def joints(left, right, capture):
    return {"header": stamp(capture), "name": ["right", "left"], "position": [right, left]}


# -- messages ----------------------------------------------------------------------------------------------------------


def test_objects_and_dicts_are_the_same_messages():
    as_dict = {"header": stamp(1.0), "linear_acceleration": {"x": 1.0, "y": 2.0, "z": 3.0}}
    as_object = imu(1.0, 1.0)
    as_object.linear_acceleration.y, as_object.linear_acceleration.z = 2.0, 3.0
    read = converter(term())
    np.testing.assert_array_equal(read(as_dict), [1, 2, 3])
    np.testing.assert_array_equal(read(as_object), [1, 2, 3])


def test_joints_are_matched_by_name():
    read = converter(term(**JOINTS))
    np.testing.assert_array_equal(read({"name": ["right", "wrist", "left"], "position": [2, 9, 1]}), [1, 2])
    np.testing.assert_array_equal(read({"name": ["robot/left", "robot/right"], "position": [1, 2]}), [1, 2])
    with pytest.raises(NameNotFoundError, match=r"the message has no joint 'left' \(did you mean 'lefts'"):
        read({"name": ["lefts", "right"], "position": [1, 2]})
    with pytest.raises(OptionError, match="must have one value for each of the 2 names"):
        read({"name": ["left", "right"], "position": []})


def test_quaternions_of_ros_become_w_first():
    read = converter(term(field="pose.orientation", conversion="quaternion", shape=(4,)))
    message = {"pose": {"orientation": {"x": 0.1, "y": 0.2, "z": 0.3, "w": 0.9}}}
    np.testing.assert_allclose(read(message), [0.9, 0.1, 0.2, 0.3], rtol=1e-6)
    yaw = converter(term(field="pose.orientation", conversion="yaw", shape=(1,)))
    turned = {"pose": {"orientation": {"x": 0.0, "y": 0.0, "z": np.sin(0.35), "w": np.cos(0.35)}}}
    np.testing.assert_allclose(yaw(turned), [0.7], rtol=1e-6)


def test_point_clouds_times_and_arrays():
    points = np.arange(6, dtype=np.float32).reshape(2, 3)
    fields = [{"name": name, "offset": 4 * number, "datatype": 7, "count": 1} for number, name in enumerate("xyz")]
    cloud = {"fields": fields, "point_step": 12, "is_bigendian": False, "data": points.tobytes()}
    np.testing.assert_array_equal(converter(term(field="value", conversion="points", shape=(2, 3)))(cloud), range(6))
    with pytest.raises(OptionError, match="must have 9 values, got 6"):
        converter(term(field="value", conversion="points", shape=(3, 3)))(cloud)
    named = [{"name": "range", "offset": 0, "datatype": 7, "count": 1}]
    ranges = {"fields": [*fields, {**named[0], "offset": 12}], "point_step": 16, "is_bigendian": False}
    rows = np.arange(8, dtype=np.float32).reshape(2, 4)
    read = converter(term(field="distances", conversion="points", shape=(2,)))
    np.testing.assert_array_equal(read(ranges | {"data": rows.tobytes()}), [3, 7])
    time = converter(term(field="time_ref", conversion="time", shape=(1,)))
    np.testing.assert_allclose(time({"time_ref": {"sec": 3, "nanosec": 500_000_000}}), [3.5])
    np.testing.assert_array_equal(converter(term(field="ranges", shape=(1, 4)))({"ranges": [1, 2, 3, 4]}), [1, 2, 3, 4])


def test_images():
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    message = {"encoding": "rgb8", "height": 2, "width": 4, "step": 12, "is_bigendian": 0, "data": pixels.tobytes()}
    image = {"conversion": "image", "noise": (), "dtype": "uint8"}
    np.testing.assert_array_equal(converter(term(shape=(2, 4, 3), **image))(message), pixels)
    np.testing.assert_array_equal(
        converter(term(shape=(2, 4, 3), **image))(message | {"encoding": "bgr8"}), pixels[..., ::-1]
    )
    depth = np.array([[1000, 2500]], np.uint16)
    metres = {"encoding": "16UC1", "height": 1, "width": 2, "step": 4, "is_bigendian": 0, "data": depth.tobytes()}
    read = converter(term(shape=(1, 2), **{**image, "dtype": "float32"}))
    np.testing.assert_allclose(read(metres), [[1.0, 2.5]])
    with pytest.raises(OptionError, match=r"must have shape \(3, 4, 3\)"):
        converter(term(shape=(3, 4, 3), **image))(message)


def test_missing_fields_and_wrong_shapes_name_the_term():
    policy = make()
    with pytest.raises(
        NameNotFoundError, match=r"'imu.lin_acc' of the topic '/imu', message 1: the message has no field"
    ):
        policy.feed("/imu", {"header": stamp(0.0), "angular_velocity": {}}, 0.0)
    with pytest.raises(OptionError, match=r"message 2: the field 'linear_acceleration' must have shape \(3,\), got 2"):
        policy.feed("/imu", {"header": stamp(0.0), "linear_acceleration": [1.0, 2.0]}, 0.0)
    with pytest.raises(NameNotFoundError, match=r"no topic '/imi' \(did you mean '/imu'"):
        policy.feed("/imi", {}, 0.0)
    with pytest.raises(NameNotFoundError, match="there is no 'b'"):
        get({"a": {"c": 1}}, "a.b")


# -- time --------------------------------------------------------------------------------------------------------------


def ready(time=1.0, **options):
    """Return a policy with a message on each topic."""
    policy = make(**options)
    policy.feed("/imu", imu(1.0, time), time)
    policy.feed("/joints", joints(10.0, 100.0, time), time)
    return policy


def test_acts_on_the_newest_sample_that_has_arrived():
    policy = ready()
    policy.feed("/imu", imu(5.0, 1.01), 1.05)  # it arrives after the decision
    assert policy.act(1.02) == pytest.approx(2 * 111.0)
    policy.reset()
    policy.feed("/imu", imu(2.0, 1.02), 1.03)
    policy.feed("/imu", imu(7.0, 1.01), 1.04)  # captured before the sample that arrived first
    policy.feed("/joints", joints(0.0, 0.0, 1.03), 1.04)
    assert policy.act(1.05) == pytest.approx(2 * 2.0)


def test_history_is_what_was_current_before():
    """Entry k is the newest sample that had arrived k steps before; before the first sample it is that sample."""
    source = SensorInput(term(ages=(0.0, 0.01, 0.02, 0.5)), "/imu")
    for number in range(5):
        source.add(np.array([number, 0, 0], np.float32), 0.01 * number, 0.01 * number + 0.004)
    out = np.zeros((4, 3), np.float32)
    source.fill(0.045, out)
    assert out[:, 0].tolist() == [4, 3, 2, 0]
    source.fill(0.0439, out)
    assert out[:, 0].tolist() == [3, 2, 1, 0]


def test_old_samples_are_forgotten():
    source = SensorInput(term(), "/imu")
    for number in range(1000):
        source.add(np.zeros(3, np.float32), 0.01 * number, 0.01 * number)
    assert len(source._values) < 300


def test_stale_and_missing_inputs_are_refused_by_name():
    policy = make()
    policy.feed("/joints", joints(0.0, 0.0, 1.0), 1.0)
    with pytest.raises(StaleInputError, match=r"'imu.lin_acc' of the topic '/imu': no message has arrived") as missing:
        policy.act(1.0)
    assert (missing.value.term, missing.value.topic, missing.value.age) == ("imu.lin_acc", "/imu", None)
    policy.feed("/imu", imu(0.0, 1.0), 1.0)
    policy.act(1.035)  # latency 10 ms and 2.5 periods of 10 ms
    policy.feed("/joints", joints(0.0, 0.0, 1.06), 1.06)
    with pytest.raises(StaleInputError, match=r"is 0.060 s old, and the limit is 0.035 s") as stale:
        policy.act(1.06)
    assert stale.value.term == "imu.lin_acc"
    assert stale.value.age == pytest.approx(0.06)
    assert stale.value.limit == pytest.approx(0.035)
    assert policy.ages(1.06) == pytest.approx({"imu.lin_acc": 0.06, "joints.positions": 0.0})


def test_limits_of_staleness_can_be_set():
    assert ready(stale_after=0.5).act(1.4) is not None
    policy = ready(stale_after={"imu.lin_acc": 0.5})
    with pytest.raises(StaleInputError, match=r"'joints.positions'"):
        policy.act(1.4)
    with pytest.raises(NameNotFoundError, match="no term 'imu' of a sensor"):
        make(stale_after={"imu": 0.5})
    with pytest.raises(OptionError, match="must be > 0 s, got 0"):
        make(stale_after=0)


def test_decisions_are_made_at_the_rate():
    policy = ready(stale_after=10.0)
    first = policy.act(1.0)
    policy.feed("/imu", imu(2.0, 1.001), 1.001)
    assert policy.act(1.005) == first  # held
    assert policy.act(1.019) > first  # a timer that is 1 ms early
    made = 0
    policy = ready(stale_after=10.0)
    for tick in range(1000):  # called at 1 kHz for 1 s
        before = policy._next
        policy.act(1.0 + tick * 1e-3)
        made += policy._next != before
    assert made in (50, 51)
    with pytest.raises(OptionError, match=r"call reset\(\)"):
        policy.act(0.5)


def test_clocks_that_cannot_be_are_refused():
    policy = ready()
    with pytest.raises(
        OptionError, match=r"message 2 arrived at 0.500000 s, before the message before it at 1.000000 s"
    ):
        policy.feed("/imu", imu(0.0, 0.4), 0.5)
    with pytest.raises(OptionError, match=r"after it arrived at 1.100000 s: the clocks differ"):
        policy.feed("/imu", imu(0.0, 1.2), 1.1)
    other = ready(stamps="arrival")
    other.feed("/imu", imu(3.0, 500.0), 1.01)
    assert other.act(1.01) == pytest.approx(2 * 113.0)
    assert other.ages(1.02)["imu.lin_acc"] == pytest.approx(0.01)


def test_topics_can_be_renamed():
    policy = make(topics={"/imu": "/imu/data"})
    assert policy.topics == {"/imu/data": "sensor_msgs/msg/Imu", "/joints": "sensor_msgs/msg/JointState"}
    policy.feed("/imu/data", imu(1.0, 1.0), 1.0)
    with pytest.raises(NameNotFoundError, match="topics: the policy has no topic '/imus'"):
        make(topics={"/imus": "/imu/data"})


def test_commands_and_previous_actions():
    ages = (0.0, 0.02)
    policy = make(term(), term(**COMMAND, ages=ages), term(**LAST, ages=ages), stale_after=10.0)
    assert policy.command_names == ["command"]
    policy.feed("/imu", imu(1.0, 1.0), 1.0)
    with pytest.raises(OptionError, match="'command' is missing"):
        policy.act(1.0)
    with pytest.raises(NameNotFoundError, match=r"no command 'commands_' \(did you mean 'command'"):
        policy.act(1.0, {"commands_": 1.0})
    with pytest.raises(OptionError, match="'command' must be 1 finite values"):
        policy.act(1.0, {"command": [1.0, 2.0]})
    assert policy.act(1.0, {"command": 3.0}) == pytest.approx(2 * (1 + 3 + 3))  # the first command counts as before
    assert policy.act(1.02, {"command": 4.0}) == pytest.approx(2 * (1 + 4 + 3 + 7))
    assert policy.act(1.04, {"command": 4.0}) == pytest.approx(2 * (1 + 4 + 4 + 15 + 7))
    policy.reset()
    policy.feed("/imu", imu(1.0, 1.0), 1.0)
    assert policy.act(1.0, {"command": 3.0}) == pytest.approx(2 * 7)


def test_scale_offset_and_clip():
    policy = make(term(scale=2.0, offset=1.0, clip=(-5.0, 5.0)))
    policy.feed("/imu", imu(10.0, 1.0), 1.0)
    assert policy.act(1.0) == pytest.approx(2 * (5 + 1 + 1))


def test_rays_without_return_read_as_in_training():
    policy = make(term(field="ranges", shape=(3,), no_return=30.0))
    policy.feed("/imu", {"header": stamp(1.0), "ranges": [1.0, np.inf, np.nan]}, 1.0)
    assert policy.observe(1.0).tolist() == [1.0, 30.0, 30.0]


def test_small_depth_images_are_vectors():
    policy = make(term(shape=(1, 2), conversion="image", message="sensor_msgs/msg/Image", field="data"))
    pixels = np.array([[0.5, 1.5]], np.float32)
    message = {"encoding": "32FC1", "height": 1, "width": 2, "step": 8, "is_bigendian": 0, "data": pixels.tobytes()}
    policy.feed("/imu", {"header": stamp(1.0), **message}, 1.0)
    assert policy.observe(1.0).tolist() == [0.5, 1.5]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_readings_that_are_not_finite_count_as_lost(value):
    policy = make()
    policy.feed("/imu", imu(value, 1.0), 1.0)
    policy.feed("/joints", joints(0.0, 0.0, 1.0), 1.0)
    with pytest.raises(
        StaleInputError,
        match=r"'imu.lin_acc' .*no message has arrived \(1 message with NaN, infinity or .* not counted\)",
    ):
        policy.act(1.0)
    policy.feed("/imu", imu(2.0, 1.01), 1.01)
    policy.feed("/imu", imu(value, 1.02), 1.02)
    assert policy.observe(1.02)[0] == 2.0
    policy.feed("/imu", imu(value, 1.06), 1.06)
    policy.feed("/joints", joints(0.0, 0.0, 1.06), 1.06)
    with pytest.raises(
        StaleInputError, match=r"0.050 s old.* \(2 messages with NaN, infinity or no unit quaternion not counted\);"
    ):
        policy.act(1.06)


def test_joint_states_of_other_publishers_are_ignored():
    policy = ready()
    policy.feed("/joints", {"header": stamp(1.01), "name": ["grip"], "position": [9.0]}, 1.01)
    assert policy.observe(1.01)[3:].tolist() == [10.0, 100.0]
    with pytest.raises(NameNotFoundError, match="no joint 'right'"):
        policy.feed("/joints", {"header": stamp(1.02), "name": ["left"], "position": [9.0]}, 1.02)
    several = {"header": stamp(1.03), "name": ["a/left", "b/left", "right"], "position": [1.0, 2.0, 3.0]}
    with pytest.raises(OptionError, match=r"several joints 'left': .*a/left.*b/left"):
        policy.feed("/joints", several, 1.03)


@pytest.mark.parametrize(
    ("message", "what"),
    [
        ({"header": {"stamp": {"sec": "x", "nanosec": 0}}}, "'/imu' has no stamp in its header that can be read"),
        ({"header": {}}, "'/imu' has no stamp"),
        ({"header": None, "linear_acceleration": {"x": 1.0}}, "'linear_acceleration' cannot be read: KeyError"),
        ({"header": None, "linear_acceleration": ["a", "b", "c"]}, "'linear_acceleration' cannot be read: ValueError"),
    ],
)
def test_messages_of_wrong_types_change_nothing(message, what):
    policy = ready()
    with pytest.raises(OptionError, match=what):
        policy.feed("/imu", message, 1.01)
    assert policy.observe(1.01).tolist() == [1.0, 0.0, 0.0, 10.0, 100.0]


def test_a_message_is_taken_whole_or_not_at_all():
    policy = make(term(), term(name="imu.ang_vel", field="angular_velocity"))
    policy.feed("/imu", {**vars(imu(1.0, 1.0)), "angular_velocity": [1.0, 1.0, 1.0]}, 1.0)
    with pytest.raises(OptionError):
        policy.feed("/imu", {**vars(imu(2.0, 1.01)), "angular_velocity": [2.0]}, 1.01)
    assert policy.observe(1.01).tolist() == [1.0, 0.0, 0.0, 1.0, 1.0, 1.0]


def test_times_that_are_not_finite_are_refused():
    policy = ready()
    with pytest.raises(OptionError, match="now must be a finite time in s, got nan"):
        policy.act(float("nan"))
    with pytest.raises(OptionError, match=r"stale_after must be a number or a mapping or None, got '1'"):
        make(stale_after="1")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.act("1"), "now must be a finite time in s, got '1'"),
        (lambda p: p.ages(None), "now must be a finite time in s, got None"),
        (lambda p: p.observe(10**400), "now must be a finite time in s, got 1000"),
        (lambda p: p.observe(1.0, [0.5]), r"commands must be a mapping of names to values, got \[0.5\]"),
        (lambda p: p.observe(1.0, {"command": "fast", "before": 1.0}), "'command' must be 1 finite values, got 'fast'"),
        (lambda p: p.act(1.0, {"commandd": 1.0}), "no command 'commandd' .did you mean 'command'"),
        (lambda p: p.feed(["/imu"], {}, 1.0), r"the policy has no topic \['/imu'\]"),
        (
            lambda p: p.feed("/imu", {"header": {"stamp": {"sec": np.nan, "nanosec": 0}}}, 1.0),
            "the stamp of .*'/imu' must be a finite time",
        ),
    ],
)
def test_wrong_arguments_are_named_and_are_no_decision(call, message):
    policy = make(term(), term(**COMMAND), term(**{**COMMAND, "name": "before", "ages": (0.02,)}))
    policy.feed("/imu", imu(1.0, 1.0), 1.0)
    given = {"command": 2.0, "before": 3.0}
    assert policy.observe(1.0, given)[3:].tolist() == [2.0, 3.0]
    with pytest.raises((OptionError, NameNotFoundError), match=message):
        call(policy)
    with pytest.raises(OptionError, match="'before' must be"):
        policy.observe(1.0, {"command": 9.0, "before": "x"})
    assert policy.observe(1.02, {"command": 4.0, "before": 5.0})[3:].tolist() == [4.0, 3.0]


# -- logs --------------------------------------------------------------------------------------------------------------


def test_a_log_is_run_at_the_rate_and_gaps_are_refused():
    def log():
        for number in range(200):
            time = 10.0 + 0.01 * number
            if not 100 <= number < 120:
                yield "/imu", imu(float(number), time), time
            yield "/joints", joints(0.0, 0.0, time), time
            yield "/other", {}, time

    policy = make()
    run = run_log(policy, log())
    assert len(run.times) + len(run.refused) == 100
    np.testing.assert_allclose(np.diff(run.times).min(), 0.02)
    numbers = np.round((run.times - 10.0) / 0.01)
    held = np.where((numbers >= 100) & (numbers < 120), 99, numbers)
    np.testing.assert_allclose(run.commands[:, 0], 2 * held, atol=1e-3)
    np.testing.assert_allclose(run.observations[:, 0], held, atol=1e-3)
    assert all("imu.lin_acc" in text for _, text in run.refused)
    assert len(run.refused) == 8  # the gap of 0.2 s, after 35 ms


# -- the ROS 2 node ----------------------------------------------------------------------------------------------------


def test_the_node_of_the_example_handles_messages_without_ros():
    path = Path(__file__).parent.parent / "examples" / "ros2_node.py"
    spec = importlib.util.spec_from_file_location("ros2_node", path)
    node = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(node)
    policy = make(term(), term(**{**COMMAND, "shape": (3,)}))
    published, warned = [], []
    runner = node.Runner(policy, lambda **fields: published.append(fields), warned.append)
    runner.tick(1.0)
    assert not published
    assert "'imu.lin_acc' of the topic '/imu': no message has arrived" in warned[0]
    policy.feed("/imu", imu(1.0, 1.02), 1.02)
    runner.drive(0.5, 0.0, 0.25)
    runner.tick(1.02)
    assert published == [{"name": ["a"], "effort": [2 * (1.0 + 0.5 + 0.25)]}]


def test_main_of_the_example_subscribes_publishes_and_ticks(monkeypatch):
    """With stand-ins for rclpy: messages of all topics reach the policy, and commands are published."""
    path = Path(__file__).parent.parent / "examples" / "ros2_node.py"
    spec = importlib.util.spec_from_file_location("ros2_node", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    policy = make(term(), term(**{**COMMAND, "shape": (3,)}))
    monkeypatch.setattr(Policy, "load", staticmethod(lambda file, topics: policy))
    subscribed, timers, published, clock = {}, [], [], [1.02]
    now = SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=round(clock[0] * 1e9)))
    node = SimpleNamespace(
        create_publisher=lambda kind, topic, depth: SimpleNamespace(publish=published.append),
        create_subscription=lambda kind, topic, callback, depth: subscribed.update({topic: (kind, callback)}),
        create_timer=lambda period, callback: timers.append((period, callback)),
        get_clock=lambda: now,
        get_logger=lambda: SimpleNamespace(warning=lambda text: None),
    )
    ros = SimpleNamespace(init=lambda: None, create_node=lambda name: node, spin=lambda node: None)
    utilities = SimpleNamespace(get_message=lambda name: lambda **fields: (name, fields))
    monkeypatch.setitem(sys.modules, "rclpy", ros)
    monkeypatch.setitem(sys.modules, "rosidl_runtime_py", SimpleNamespace(utilities=utilities))
    monkeypatch.setitem(sys.modules, "rosidl_runtime_py.utilities", utilities)
    module.main(module.Options("policy.onnx"))
    assert set(subscribed) == {"/imu", "cmd_vel"}
    subscribed["/imu"][1](imu(1.0, 1.02))
    twist = SimpleNamespace(linear=SimpleNamespace(x=0.5, y=0.0), angular=SimpleNamespace(z=0.25))
    subscribed["cmd_vel"][1](twist)
    ((period, tick),) = timers
    assert period == pytest.approx(1 / policy.rate)
    tick()
    assert published == [("sensor_msgs/msg/JointState", {"name": ["a"], "effort": [2 * (1.0 + 0.5 + 0.25)]})]


# -- package -----------------------------------------------------------------------------------------------------------


def test_deploy_needs_neither_torch_nor_mujoco_nor_numba():
    heavy = ["torch", "mujoco", "numba", "gymnasium", "pydantic", "onnx", "warp"]
    code = f"import sys, sensorium.deploy; print([name for name in {heavy} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_loading_without_onnxruntime_names_the_extra(monkeypatch, tmp_path):
    from sensorium.deploy import policy

    monkeypatch.setattr(policy, "read_contract", lambda path: None)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(sn.OptionError, match=r"sensorium\[deploy\]"):
        Policy.load(tmp_path / "policy.onnx")


@pytest.mark.parametrize("conversion", ["quaternion", "yaw"])
def test_an_orientation_that_is_none_counts_as_lost(conversion):
    """Drivers send zeros before they have an orientation, which would be a yaw of 0."""
    shape = (4,) if conversion == "quaternion" else (1,)
    kind = {"message": "geometry_msgs/msg/PoseStamped", "field": "pose.orientation", "conversion": conversion}
    policy = make(term(name="pose", topic="/pose", shape=shape, **kind))

    def feed(time, **parts):
        policy.feed("/pose", {"header": stamp(time), "pose": {"orientation": parts}}, time)

    feed(1.0, x=0.0, y=0.0, z=0.0, w=0.0)
    assert not policy.is_ready
    with pytest.raises(StaleInputError, match="1 message with NaN, infinity or no unit quaternion not counted"):
        policy.act(1.0)
    feed(1.0, x=0.0, y=0.0, z=0.6, w=0.8)
    expected = [0.8, 0.0, 0.0, 0.6] if conversion == "quaternion" else [2 * np.arctan2(0.6, 0.8)]
    np.testing.assert_allclose(policy.observe(1.0), expected, rtol=1e-6)


def test_a_log_of_two_publishers_of_joints_begins_when_its_own_joints_arrived():
    policy = make(term(**JOINTS))
    others = {"header": stamp(0.0), "name": ["gripper"], "position": [1.0]}
    own = [
        ("/joints", {"header": stamp(t), "name": ["left", "right"], "position": [t, t]}, t) for t in (0.1, 0.11, 0.12)
    ]
    run = run_log(policy, [("/joints", others, 0.0), *own])
    assert run.refused == []
    np.testing.assert_allclose(run.times, [0.1, 0.12])


def test_topics_of_different_messages_are_not_mapped_to_one():
    with pytest.raises(OptionError, match="'/x' stands for topics of different messages, sensor_msgs/msg/Imu and"):
        make(topics={"/imu": "/x", "/joints": "/x"})
    with pytest.raises(OptionError, match="arrival must be a finite time in s, got None"):
        make(term()).feed("/imu", {}, None)
