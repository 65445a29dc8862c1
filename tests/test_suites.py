"""Suites: uuids, spaces that contain every observation, and text that is never truncated."""

import json
import time

import numpy as np
import pytest
import torch
from conftest import drop_scene
from gl import needs_gl
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

import sensorium as sn
from sensorium import poses
from sensorium.errors import DuplicateNameError, NameNotFoundError, OptionError
from sensorium.suites import ArraySensor, DictSensor, JsonSpace, SensorSuite, decode, encode, pick_env
from sensorium.suites.reading_check import ReadingCheck
from sensorium.suites.text import to_texts

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
dicts = st.dictionaries(st.text(max_size=6), json_values, max_size=4)


@given(st.lists(dicts, min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_text_round_trips_through_the_disk_format(values):
    longest = max(len(text.encode()) for text in encode("info", values, None))
    stored = encode("info", values, longest)
    assert stored.dtype == np.uint8
    assert stored.shape == (len(values), longest)
    assert decode(stored) == values
    assert decode(encode("info", values, None)) == values
    assert all(value in JsonSpace() for value in values)


def test_text_that_does_not_fit_raises_with_its_length():
    value = {"text": "ü" * 50}
    needed = len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())
    sensor = DictSensor("task_info", lambda: [{}, value], str_max_len=needed - 1)
    with pytest.raises(OptionError, match=rf"'task_info'.*env 1 needs {needed} bytes.*{needed - 1}"):
        sensor.to_disk(sensor.read())
    assert decode(DictSensor("task_info", lambda: [value], needed).to_disk([value])) == [value]


@pytest.mark.parametrize(
    "value", [{"a": float("nan")}, {"a": np.float32(1)}, {1: "a"}, {"a": (1, 2)}, [], "a", {"a": {"b": object()}}]
)
def test_values_that_are_not_json_are_not_in_the_space(value):
    assert value not in JsonSpace()


@given(
    st.lists(
        st.dictionaries(st.text(max_size=5), st.lists(st.floats(allow_nan=False, allow_infinity=False))), min_size=1
    )
)
@settings(deadline=None)
def test_of_numbers_gives_the_same_text(values):
    assert to_texts("arm", values, of_numbers=True) == to_texts("arm", values)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_dicts_of_numbers_must_be_finite(bad):
    values = [{"arm": [0.0]}, {"NaN": [1.0, bad]}]
    with pytest.raises(OptionError, match="'arm': the value of env 1 is not JSON"):
        to_texts("arm", values, of_numbers=True)
    assert to_texts("arm", [{"NaN": [1.0]}], of_numbers=True) == [b'{"NaN":[1.0]}']
    with pytest.raises(OptionError, match="'arm': the value of env 7 is not JSON"):
        to_texts("arm", [{"a": np.zeros(2)}], [7], of_numbers=True)


def test_texts_that_contain_separators_are_not_split():
    for value in ({"a": "},{"}, {"a": [{}, {"b": 1}]}, {"a": "}\n{"}, {}):
        values = [{"first": 1.5e-9}, value, {}, {"last": "ü"}]
        assert decode(encode("info", values, 100)) == values


def test_nan_never_reaches_the_disk():
    with pytest.raises(OptionError, match="not JSON"):
        encode("info", [{"a": float("nan")}], None)


def suite_of_scene():
    scene = drop_scene(height=0.5)
    imu = scene.add_sensor(sn.IMU(uuid="imu", link="box", acc_noise=0.1, delay=0.02))
    touch = scene.add_sensor(sn.Contact(uuid="contact", link="box"))
    scene.build(n_envs=3)
    suite = SensorSuite(3, [imu, touch], "robot 'box'")
    suite.add(ArraySensor("height", lambda: scene["box"].get_pose()[0][:, 2:].numpy(), (1,)), "task 'drop'")
    suite.add(DictSensor("task_info", lambda: [{"env": env} for env in range(3)], 64), "task 'drop'")
    return scene, suite


def test_every_observation_is_in_the_space_and_keeps_the_order():
    scene, suite = suite_of_scene()
    assert list(suite.space.spaces) == list(suite.read()) == [*list(suite)] == ["imu", "contact", "height", "task_info"]
    for _ in range(60):
        scene.step()
        seen = suite.read()
        assert seen in suite.space
        for env in range(3):
            assert {uuid: pick_env(value, env) for uuid, value in seen.items()} in suite.single_space
    assert suite.space["contact"] == spaces.Box(0, 1, (3, 1), np.bool_)
    assert suite.space["imu"]["lin_acc"].dtype == np.float32
    wrong = dict(seen, height=seen["height"].astype(np.float64))
    assert wrong not in suite.space
    assert dict(seen, task_info=seen["task_info"][:2]) not in suite.space


def test_observations_are_the_measured_readings():
    scene, suite = suite_of_scene()
    scene.step(30)
    seen, imu = suite.read()["imu"]["lin_acc"], scene["imu"]
    assert np.array_equal(seen, imu.read().lin_acc.numpy())
    assert np.abs(seen - imu.read_ground_truth().lin_acc.numpy()).min() > 0


def test_later_steps_do_not_change_an_observation():
    scene, suite = suite_of_scene()
    scene.step()
    first = suite.read()
    kept = {"height": first["height"].copy(), "acc": first["imu"]["lin_acc"].copy()}
    scene.step(20)
    np.testing.assert_array_equal(first["height"], kept["height"])
    np.testing.assert_array_equal(first["imu"]["lin_acc"], kept["acc"])
    assert not np.array_equal(suite.read()["height"], kept["height"])


def test_duplicate_uuid_raises_with_both_owners_and_adds_nothing():
    _, suite = suite_of_scene()
    new = ArraySensor("speed", lambda: np.zeros((3, 1)), (1,))
    with pytest.raises(DuplicateNameError, match=r"'height'.*task 'drop'.*policy 'mine'"):
        suite.extend([new, ArraySensor("height", lambda: np.zeros((3, 1)), (1,))], "policy 'mine'")
    assert "speed" not in suite
    with pytest.raises(DuplicateNameError, match=r"'speed'.*policy 'mine'"):
        suite.extend([new, new], "policy 'mine'")
    suite.add(new, "policy 'mine'")
    assert suite.owner("speed") == "policy 'mine'"
    assert "speed" in suite.space.spaces


def test_unknown_uuids_and_non_sensors_raise():
    _, suite = suite_of_scene()
    with pytest.raises(NameNotFoundError, match=r"'hieght'.*did you mean 'height'"):
        suite["hieght"]
    with pytest.raises(OptionError, match="a suite takes an ObservationSensor"):
        suite.add("height")
    with pytest.raises(OptionError, match="str_max_len"):
        DictSensor("a", list, 1)


def test_disk_format_has_every_sensor():
    _, suite = suite_of_scene()
    stored = suite.to_disk(suite.read())
    assert list(stored) == list(suite)
    assert stored["task_info"].shape == (3, 64)
    assert decode(stored["task_info"]) == [{"env": 0}, {"env": 1}, {"env": 2}]


# -- poses ------------------------------------------------------------------------------------------------------------


def random_poses(n, seed=0):
    rng = np.random.default_rng(seed)
    quat = rng.normal(size=(n, 4))
    return poses.make(rng.normal(size=(n, 3)), quat / np.linalg.norm(quat, axis=1, keepdims=True))


def matrix(pose):
    w, x, y, z = pose[3:]
    turn = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    return np.block([[turn, pose[:3, None]], [np.zeros((1, 3)), np.ones((1, 1))]])


def test_poses_compose_like_matrices():
    a, b = random_poses(20), random_poses(20, 1)
    for one, two, product, seen in zip(a, b, poses.compose(a, b), poses.relative(a, b), strict=True):
        np.testing.assert_allclose(matrix(product), matrix(one) @ matrix(two), atol=1e-12)
        np.testing.assert_allclose(matrix(seen), np.linalg.inv(matrix(one)) @ matrix(two), atol=1e-12)


def test_axes_and_rotation_vectors_round_trip():
    for pose in random_poses(50, 2):
        turn = matrix(pose)[:3, :3]
        back = matrix(poses.make(np.zeros(3), poses.from_axes(*turn.T)))
        np.testing.assert_allclose(back[:3, :3], turn, atol=1e-12)
        again = poses.from_rotation_vector(poses.rotation_vector(pose[3:]))
        np.testing.assert_allclose(np.abs(again @ pose[3:]), 1, atol=1e-12)
    assert np.allclose(poses.rotation_vector(np.array([1.0, 0, 0, 0])), 0)
    np.testing.assert_allclose(poses.rotation_vector(poses.yaw(0.3)), [0, 0, 0.3], atol=1e-12)


def test_towards_reaches_position_and_orientation_together():
    start, goal = random_poses(10, 3), random_poses(10, 4)
    reach, turn = np.full(10, 0.1), np.full(10, 0.2)
    pose, steps = start, np.zeros(10, int)
    for _ in range(200):
        new = poses.towards(pose, goal, reach, turn)
        assert (np.linalg.norm(new[:, :3] - pose[:, :3], axis=1) <= 0.1 + 1e-9).all()
        apart = 1 - np.abs((new[:, 3:] * goal[:, 3:]).sum(axis=1))
        steps += (np.linalg.norm((new - goal)[:, :3], axis=1) > 1e-6) | (apart > 1e-9)
        pose = new
    np.testing.assert_allclose(pose[:, :3], goal[:, :3], atol=1e-9)
    spin = np.linalg.norm(poses.rotation_vector(poses.multiply(goal[:, 3:], poses.conjugate(start[:, 3:]))), axis=1)
    far = np.linalg.norm(goal[:, :3] - start[:, :3], axis=1)
    assert (np.abs(steps - np.ceil(np.maximum(far / 0.1, spin / 0.2)) + 1) <= 1).all()


def test_sensor_tensors_become_arrays():
    _, suite = suite_of_scene()
    assert all(not isinstance(value, torch.Tensor) for value in suite.read()["imu"].values())


def test_reading_outside_the_declared_space_raises():
    suite = SensorSuite(2, [ArraySensor("height", lambda: np.zeros(2), (1,))], "task 'mine'")
    with pytest.raises(OptionError, match=r"'height' of task 'mine' reads float32 \(2,\)"):
        suite.read()
    suite = SensorSuite(2, [DictSensor("info", lambda: [{}])], "task 'mine'")
    with pytest.raises(OptionError, match="'info' of task 'mine' reads 1 dicts"):
        suite.read()
    for wrong in ({"a": np.float32(1)}, {"a": float("nan")}, {1: 2}, {"a": {1, 2}}, {"a": (1,)}, {"a": "\ud800"}):
        with pytest.raises(OptionError, match="'info': the value of env 0 is not JSON"):
            encode("info", [wrong], None)


def test_suite_is_a_mapping():
    _, suite = suite_of_scene()
    assert suite.get("nothing", 3) == 3
    assert suite.get("height") is suite["height"]
    with pytest.raises(OptionError, match="lacks 'imu'"):
        suite.to_disk({})


@pytest.mark.parametrize(
    "sensor",
    [
        sn.Lidar(link="torso", pattern=sn.RingPattern(), no_hit=float("inf"), uuid="seen"),
        pytest.param(
            sn.Camera(resolution=(48, 48), pos=(0.06, 0, 0.2), outputs=("points",), uuid="seen"), marks=needs_gl
        ),
    ],
)
def test_nan_readings_are_in_their_spaces(sensor):
    """Sensors read NaN where a ray hits nothing."""
    entity = sn.TrainableEntity("balancer", [sensor])
    task = sn.tasks.make("balance", entity=entity, n_envs=2)
    observation, _ = task.reset()
    points = observation["seen"]["points"]
    assert np.isnan(points).any()
    assert observation in entity.suite.space
    env = task.as_gymnasium()
    assert env.reset()[0] in env.observation_space
    wrong = {**observation, "seen": {**observation["seen"], "points": points.astype(np.float64)}}
    assert wrong not in entity.suite.space


class Changing(ArraySensor):
    """A sensor whose readings are set by the test."""

    def __init__(self, uuid, shape):
        super().__init__(uuid, dict, shape)
        self.value = None

    def read(self):
        return self.value


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (np.zeros((2, 4), np.float32), r"'x' of me reads float32 \(2, 4\)"),
        (np.zeros((1, 3), np.float32), r"'x' of me reads float32 \(1, 3\)"),
        (np.zeros((2, 3)), r"'x' of me reads float64 \(2, 3\)"),
        ({"x": np.zeros((2, 3), np.float32)}, r"'x' of me reads \{'x': float32"),
        ([[0.0] * 3] * 2, "'x' of me reads list"),
    ],
)
def test_later_readings_of_another_shape_or_dtype_raise(value, match):
    sensor = Changing("x", (3,))
    suite = SensorSuite(2, [sensor], "me")
    sensor.value = np.zeros((2, 3), np.float32)
    for _ in range(3):
        suite.read()
    sensor.value = value
    with pytest.raises(OptionError, match=match):
        suite.read()
    sensor.value = np.full((2, 3), 7, np.float32)
    assert suite.read()["x"][0, 0] == 7


def test_later_readings_must_have_the_same_keys_and_number_of_dicts():
    sensor = Changing("x", {"a": (1,), "b": {"c": (2,)}})
    good = {"a": np.zeros((2, 1), np.float32), "b": {"c": np.zeros((2, 2), np.float32)}}
    texts = [{"a": 1}, {"b": 2}]
    suite = SensorSuite(2, [sensor, DictSensor("text", lambda: texts)])
    sensor.value = good
    suite.read()
    suite.read()
    inner = {"c": np.zeros((2, 2), np.float32), "d": np.zeros((2, 2), np.float32)}
    for bad in ({"a": good["a"]}, {**good, "z": good["a"]}, {**good, "b": inner}, {**good, "b": {"c": good["a"]}}):
        sensor.value = bad
        with pytest.raises(OptionError, match="'x' of suite reads"):
            suite.read()
    sensor.value = good
    texts.pop()
    with pytest.raises(OptionError, match="'text' of suite reads 1 dicts"):
        suite.read()


def test_checking_every_reading_is_cheap():
    check = ReadingCheck(spaces.Dict({str(number): spaces.Box(-1, 1, (2, 3)) for number in range(10)}))
    value = {str(number): np.zeros((2, 3), np.float32) for number in range(10)}
    assert check.fits(value)
    times = []
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(100):
            check.fits(value)
        times.append(time.perf_counter() - start)
    assert min(times) / 1000 < 5e-6  # per array; a pass over its values would take as long for 1,000 numbers


def test_first_reading_with_nan_says_so():
    suite = SensorSuite(2, [ArraySensor("height", lambda: np.full((2, 1), np.nan), (1,))])
    with pytest.raises(sn.OptionError, match="its shapes and dtypes are right, but it has NaN"):
        suite.read()
