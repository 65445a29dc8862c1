"""Images of any sensor are stored as videos; sensors without a place of their own and texts that are too long raise."""

import json

import numpy as np
import pytest
from damage import list_files

import sensorium as sn
from sensorium.datasets import EpisodeWriter, image_formats
from sensorium.generation import GenerateOptions, generate
from sensorium.suites import ArraySensor, DictSensor, SensorSuite

SIZE = (24, 40)
RNG = np.random.default_rng(0)
IMAGES = {
    "camera": RNG.integers(0, 255, (1, 3, 5, 3), np.uint8).repeat(8, 1).repeat(8, 2),
    "grey": RNG.integers(0, 255, (1, 3, 5), np.uint8).repeat(8, 1).repeat(8, 2),
    "grey_channel": RNG.integers(0, 255, (1, 3, 5, 1), np.uint8).repeat(8, 1).repeat(8, 2),
    "with/alpha": RNG.integers(0, 255, (1, *SIZE, 4), np.uint8),
    "heat": RNG.normal(300, 50, (1, *SIZE)).astype(np.float32),
    "small_heat": RNG.normal(300, 50, (1, *SIZE, 1)).astype(np.float16),
    "flow": RNG.normal(0, 5, (1, *SIZE, 2)),
    "counts": RNG.integers(0, 65535, (1, *SIZE), np.uint16),
    "labels": RNG.integers(-5, 2**30, (1, *SIZE), np.int32),
    "mask": RNG.random((1, *SIZE)) > 0.5,
    "late": RNG.integers(0, 255, (1, 3, *SIZE, 3), np.uint8),
    "range_depth": RNG.uniform(0.1, 60, (1, *SIZE)).astype(np.float32),
}
LOSSY = {"camera", "grey", "grey_channel"}


class Recorded:
    """The least that a writer needs of a task: one env, one action."""

    n_envs = 1

    class config:  # noqa: N801
        dt = 0.1

    class robot:  # noqa: N801
        n_actions = 1
        action_names = ("push",)

    def __init__(self, sensors):
        self.suite = SensorSuite(self.n_envs, sensors)

    def describe_scene(self, env):
        return {"instruction": "see"}


def write(folder, sensors, steps=2, n_envs=1):
    """Write an episode of each env; return the first, and what the writer could not write."""
    task = Recorded([])
    task.n_envs = n_envs
    task.suite = SensorSuite(n_envs, sensors)
    writer = EpisodeWriter(folder, task, range(n_envs), {"seed": 0})
    flags = np.zeros(n_envs, bool)
    writer.begin(task.suite.read())
    for step in range(steps):
        last = np.full(n_envs, step == steps - 1)
        writer.add(task.suite.read(), np.zeros((n_envs, 1)), np.zeros(n_envs), flags, last, flags, ~flags)
    writer.close([folder] * n_envs)
    return writer


def image_sensors(images):
    return [
        ArraySensor(name, lambda value=value: value, value.shape[1:], value.dtype, is_image=True)
        for name, value in images.items()
    ]


def test_images_of_every_shape_and_dtype_return_unchanged(tmp_path):
    write(tmp_path, image_sensors(IMAGES))
    episode = sn.datasets.Episode(tmp_path / "episode_000000.h5")
    assert episode.cameras == list(IMAGES)
    assert [path for path in episode.paths() if path.startswith("obs/")] == []
    for name, (value,) in IMAGES.items():
        images = episode.video(name)
        assert images.shape == (3, *value.shape)
        assert images.dtype == value.dtype
        if name in LOSSY:
            assert np.abs(images.astype(int) - value).mean() < 8, name
        elif name == "range_depth":
            assert np.abs(images - value).max() <= 0.00051
        else:
            np.testing.assert_array_equal(images, np.stack([value] * 3), err_msg=name)
    assert episode.video_path("with/alpha").name == "episode_000000_with%2Falpha.mkv"


def test_camera_that_reads_several_images_has_a_video_for_each(tmp_path):
    scene = sn.Scene()
    scene.add_object(sn.Plane())
    options = sn.Camera(uuid="eye", resolution=(40, 24), pos=(1, 0, 1), lookat=(0, 0, 0), outputs=("rgb", "depth"))
    camera = scene.add_sensor(options)
    scene.build()
    write(tmp_path, [camera])
    episode = sn.datasets.Episode(tmp_path / "episode_000000.h5")
    assert set(episode.cameras) == {"eye", "eye_depth"}
    depth = camera.read().depth[0].numpy()
    np.testing.assert_allclose(episode.video("eye_depth")[0], depth, atol=0.00051)
    scene.close()


@pytest.mark.parametrize(
    ("sensor", "message"),
    [
        (ArraySensor("strip", lambda: np.zeros((1, 5)), (5,), is_image=True), "'strip' have shape"),
        (ArraySensor("wide", lambda: np.zeros((1, 4, 4)), (4, 4), np.longdouble, is_image=True), "'wide' have shape"),
        (ArraySensor("actions/action", lambda: np.zeros((1, 2)), (2,)), "'actions/action', which the file itself uses"),
        (ArraySensor("a//b", lambda: np.zeros((1, 2)), (2,)), "the uuid 'a//b' cannot be stored"),
        (ArraySensor("../up", lambda: np.zeros((1, 2)), (2,)), "the uuid '../up' cannot be stored"),
        (ArraySensor("taken/below", lambda: np.zeros((1, 2)), (2,)), "which the sensor 'taken' uses; rename"),
    ],
    ids=["axes", "dtype", "reserved", "empty part", "parent", "below another"],
)
def test_sensors_without_a_place_raise_when_the_writer_is_made(tmp_path, sensor, message):
    taken = ArraySensor("taken", lambda: np.zeros((1, 2)), (2,))
    with pytest.raises(sn.OptionError, match=message):
        EpisodeWriter(tmp_path, Recorded([taken, sensor]), [0], {})
    assert not list(tmp_path.iterdir())


def test_plain_camera_parameters_are_stored(tmp_path):
    matrix = np.arange(9, dtype=np.float32).reshape(1, 3, 3)
    sensors = [
        ArraySensor("sensor_param_own", lambda: matrix, (3, 3)),
        ArraySensor(
            "sensor_param_other", lambda: {"bend": matrix, "intrinsic": matrix}, {"bend": (3, 3), "intrinsic": (3, 3)}
        ),
    ]
    write(tmp_path, sensors)
    episode = sn.datasets.Episode(tmp_path / "episode_000000.h5")
    for path in ("own", "other/bend", "other/intrinsic_cv"):
        np.testing.assert_array_equal(episode[f"obs/sensor_param/{path}"][1], matrix[0])


def test_text_that_is_too_long_costs_only_its_episode(tmp_path):
    step = iter(range(100))

    def read():
        now = next(step)
        return [{"words": "w" * (30 if env == 1 and now >= 2 else 1)} for env in range(3)]

    writer = write(tmp_path, [DictSensor("notes", read, 24), *image_sensors({})], steps=4, n_envs=3)
    assert list(writer.failed) == [1]
    assert writer.failed[1].startswith("step 2: 'notes': the text of env 1 needs 42 bytes and str_max_len is 24")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["episode_000000.h5", "episode_000002.h5"]
    assert sn.datasets.Episode(tmp_path / "episode_000002.h5").text("notes")[4] == {"words": "w"}


def test_generation_names_the_text_that_was_too_long(tmp_path):
    options = GenerateOptions(
        task="balance", policy="random", episodes=1, envs=1, options={"str_max_len": 40}, max_attempts=1
    )
    with (
        pytest.warns(UserWarning, match="episode 0 is not written: step 0: 'task_info'"),
        pytest.raises(
            sn.GenerationError,
            match="episode_000000 could not be written: step 0: 'task_info': the text of env 0 needs",
        ),
    ):
        generate(options, tmp_path / "balance")


def test_robot_without_move_groups_is_saved(tmp_path):
    options = GenerateOptions(task="balance", policy="random", episodes=2, envs=2, options={"max_steps": 20})
    generate(options, tmp_path / "balance")
    assert sn.datasets.validate(tmp_path / "balance").valid
    episode = sn.datasets.open(tmp_path / "balance")[1]
    task = sn.tasks.make("balance", n_envs=1)
    joints = task.robot.entity.joint_names
    assert episode.scene["move_groups"] == {"body": joints}
    articulation = episode["env_states/articulations/robot"]
    np.testing.assert_array_equal(episode["obs/agent/qpos"], articulation[:, : len(joints)])
    np.testing.assert_array_equal(episode["obs/agent/qvel"], articulation[:, len(joints) :])
    commanded = [reading["body"] for reading in episode.text("actions/commanded_action")[1:-1]]
    np.testing.assert_allclose(commanded, episode["actions/action"][:-1], rtol=1e-6)
    assert episode.text("actions/commanded_action")[-1] == {}
    assert len(np.unique(episode["actions/action"])) > 2
    task.close()


def test_targets_of_an_implicit_group_are_the_set_points_of_its_servos():
    model = """<mujoco><worldbody>
        <body name="base"><joint name="a" type="hinge"/><geom size="0.1"/>
        <body name="arm" pos="0 0 0.3"><joint name="b" type="slide" axis="1 0 0"/><geom size="0.1"/>
        <body name="hand" pos="0 0 0.3"><joint name="c" type="hinge"/><geom size="0.1"/></body></body></body>
        </worldbody><actuator>
        <position name="pa" joint="a" kp="50" gear="2" ctrlrange="-1 1"/>
        <velocity name="vb" joint="b" kv="5" ctrlrange="-1 1"/>
        <motor name="mc" joint="c" ctrlrange="-1 1"/></actuator></mujoco>"""
    scene = sn.Scene(dt=0.05)
    robot = scene.add_robot(sn.robots.make(model), name="robot")
    scene.build(n_envs=2)
    robot.act(np.array([[0.5, 1.0, 1.0], [-0.5, 0.2, 0.0]]))
    (group,) = robot.groups.values()
    assert group.description.joints == ("a", "b", "c")
    np.testing.assert_allclose(group.target, [[0.25, 0.05, 0.0], [-0.25, 0.01, 0.0]], atol=1e-9)
    scene.close()


def test_validate_reports_images_that_are_arrays(tmp_path):
    import h5py

    options = GenerateOptions(task="balance", policy="random", episodes=1, envs=1, options={"max_steps": 3})
    generate(options, tmp_path / "balance")
    (path,) = (tmp_path / "balance").glob("*.h5")
    with h5py.File(path, "r+") as file:
        length = len(file["traj_0/rewards"])
        file["traj_0/obs/extra/eye/rgb"] = np.zeros((length + 1, 24, 40, 3), np.uint8)
    list_files(tmp_path / "balance")
    (problem,) = sn.datasets.validate(tmp_path / "balance").problems
    assert "obs/extra/eye/rgb holds images as an array instead of a video" in problem


def test_old_files_have_formats_by_name():
    form = image_formats.ImageEncoding.from_attributes("top_depth", {"codec": "ffv1"}, (24, 40))
    assert (form.kind, form.shape, form.dtype) == ("depth", (24, 40), np.float32)
    form = image_formats.ImageEncoding.from_attributes("top_segmentation", {}, (48, 40))
    assert (form.kind, form.shape) == ("segmentation", (24, 40, 2))
    assert json.loads(form.attributes()["shape"]) == [24, 40, 2]


def test_negative_depth_is_no_reading(tmp_path):
    depth = np.array([[[-2.0, -1e-4, 0.0, 1.5, 70.0, np.inf]]], np.float32).repeat(4, 1)
    write(tmp_path, [ArraySensor("tof_depth", lambda: depth, depth.shape[1:], is_image=True)])
    stored = sn.datasets.dataset.Episode(tmp_path / "episode_000000.h5").video("tof_depth")
    np.testing.assert_allclose(stored[0, 0], [np.inf, np.inf, np.inf, 1.5, 65.535, np.inf])


def test_damaged_videos_raise(tmp_path):
    image = RNG.integers(0, 255, (1, *SIZE, 4), np.uint8)
    write(tmp_path, image_sensors({"alpha": image}), steps=20)
    episode = sn.datasets.dataset.Episode(tmp_path / "episode_000000.h5")
    path = episode.video_path("alpha")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(sn.DatasetError, match=r"frames instead of 21.*sensorium validate"):
        episode.video("alpha")
    path.write_bytes(b"nothing")
    with pytest.raises(sn.DatasetError, match="sensorium validate"):
        episode.video("alpha")
    path.unlink()
    with pytest.raises(sn.DatasetError, match="sensorium validate"):
        episode.video("alpha")
