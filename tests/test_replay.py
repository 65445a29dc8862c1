"""Replay: readings equal the recorded ones to the bit, and images are those of the scene."""

import json
import shutil

import numpy as np
import pytest
import torch
from conftest import drop_scene
from damage import edited_config
from gl import needs_gl
from test_catalogue import EVERY, ROVER

import sensorium as sn
from sensorium.recording import Retracer
from sensorium.recording.replay import ReplayOptions, replay

IMPERFECT = {"delay": 0.03, "jitter": 0.02, "dropout": 0.1, "stuck": 0.02, "rate": 60.0}


def every_sensor(n_envs, seed=7):
    scene = sn.Scene(dt=0.01, substeps=2, integrator="implicitfast")
    scene.add_object(sn.Plane(), name="ground")
    scene.add_robot(ROVER, name="rover")
    scene.add_object(sn.Box(size=(0.05, 0.05, 0.05)), name="cargo", pos=(0, 0, 0.3), free=True)
    for name, made in EVERY.items():
        fields = type(made).model_fields
        noise = {"noise": 0.01, "random_walk": 0.02} if {"noise", "random_walk"} <= set(fields) else {}
        timing = IMPERFECT if name not in ("clock", "scan") else {}
        given = {key: getattr(made, key) for key in made.model_fields_set}
        scene.add_sensor(type(made)(**(given | noise | timing | {"uuid": name})))
    imu = {"acc_noise": 0.1, "gyro_random_walk": 0.3, "acc_bias": 0.2, "history_length": 3}
    scene.add_sensor(sn.IMU(link="rover/left", uuid="second", **imu))
    scene.build(n_envs=n_envs, seed=seed)
    return scene


def copied(scene):
    return {name: value.clone() for name, value in scene.state_dict().items()}


@pytest.mark.parametrize("n_envs", [1, 9])
def test_replay_reproduces_every_reading(tmp_path, n_envs):
    scene = every_sensor(n_envs)
    rng = np.random.default_rng(0)
    some = [n_envs - 1]
    seen = []
    scene.sensors["second"].set(acc_noise=0.7)
    with sn.recording.Recorder(scene, tmp_path / "a", chunk_bytes=300_000) as recorder:
        for step in range(60):
            if step == 15:
                scene.reset(some)
            if step == 20:
                scene["cargo"].set_pose(pos=(0.1, 0, 0.5), envs=some)
                scene.forward(some)
            if step == 25:
                scene.sensors["second"].set(acc_noise=rng.uniform(0, 2, (len(some), 1)), envs=some)
            if step == 30:
                scene.set_state(scene.get_state()[some] * 1.0, envs=some)
            if step == 35:
                scene["cargo"].set_pose(pos=(0, 0, 0.4))  # takes effect at the next step, without a restart
            scene["rover"].set_ctrl(rng.uniform(-5, 5, (n_envs, 2)))
            scene.step()
            if step == 40:
                scene.reset(some)  # between the step and its recording
                scene.sensors["gps"].set(dropout=0.5)
            recorder.step()
            seen.append(copied(scene))
    recording = sn.datasets.open(tmp_path / "a")
    again = recording.build_scene()
    tracer = Retracer(recording, again)
    for step, expected in enumerate(seen):
        tracer.to(step)
        for name, value in again.state_dict().items():
            assert torch.equal(torch.nan_to_num(value), torch.nan_to_num(expected[name])), f"{name} of step {step}"


def test_recording_started_after_some_steps_is_replayed_exactly(tmp_path):
    scene = every_sensor(2)
    scene.sensors["imu"].set(dropout=0.3)
    scene.step(17)
    seen = []
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        for _ in range(12):
            scene.step()
            recorder.step()
            seen.append(copied(scene))
    recording = sn.datasets.open(tmp_path / "a")
    again = recording.build_scene()
    tracer = Retracer(recording, again)
    for step in (0, 4, 11):  # the steps between are sensed on the way
        tracer.to(step)
        for name, value in again.state_dict().items():
            assert torch.equal(torch.nan_to_num(value), torch.nan_to_num(seen[step][name])), name
    with pytest.raises(IndexError, match="forwards"):
        tracer.to(3)


def test_another_seed_changes_the_readings(tmp_path):
    """The tests above are meaningful: readings depend on the random state."""
    scene = every_sensor(2)
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        recorder.record(5)
    with edited_config(tmp_path / "a") as config:
        config["scene"]["seed"] += 1
    recording = sn.datasets.open(tmp_path / "a")
    again = recording.build_scene()
    Retracer(recording, again).to(4)
    assert not np.array_equal(again.state_dict()["second.measured"], recording[4]["second.measured"])
    np.testing.assert_array_equal(again.state_dict()["second.ground_truth"], recording[4]["second.ground_truth"])


class Lamp(sn.Module):
    """A user module outside the physics that writes its own replay data."""

    def __init__(self) -> None:
        self.brightness = sn.Buffer(0.0)
        self.written = []

    def _write_replay_data(self) -> None:
        self.written.append(self.brightness.value)


def test_user_modules_write_their_replay_data(tmp_path):
    scene = drop_scene()
    scene.build()
    scene.add_child("lamp", Lamp())
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        for step in range(4):
            scene._children["lamp"].brightness.value = step / 2
            scene.step()
            recorder.step()
    recording = sn.datasets.open(tmp_path / "a")
    again = recording.build_scene()
    again.load_state_dict(recording.read_state_dict(2))  # the rebuilt scene has no lamp
    lamp = Lamp()
    again.add_child("lamp", lamp)
    Retracer(recording, again).to(3)
    assert lamp.written == [0.0, 0.5, 1.0, 1.5]


# -- images -----------------------------------------------------------------------------------------------------------

KINDS = ("rgb", "depth", "segmentation", "instance", "normals")


def camera_scene(n_envs=2):
    scene = drop_scene(height=0.5)
    scene.add_object(sn.Sphere(radius=0.1, rgba=(1, 0, 0, 1)), name="ball", pos=(0.3, 0, 0.8), free=True)
    scene.add_sensor(sn.IMU(link="box", uuid="imu", acc_noise=0.1, delay=0.02))
    scene.add_sensor(sn.Camera(uuid="front", pos=(1.5, 0.3, 0.6), lookat=(0, 0, 0.3), resolution=(64, 48)))
    scene.add_sensor(
        sn.Camera(uuid="late", pos=(0, 1.5, 0.6), lookat=(0, 0, 0.3), resolution=(48, 32), rate=30.0, delay=0.02)
    )
    scene.build(n_envs=n_envs, seed=1)
    scene["ball"].set_pose(pos=np.array([[0.3, 0.1 * env, 0.8] for env in range(n_envs)]))
    scene.forward()
    return scene


@pytest.fixture(scope="module")
def falling(tmp_path_factory):
    folder = tmp_path_factory.mktemp("falling") / "a"
    scene = camera_scene()
    frames = []
    with sn.recording.Recorder(scene, folder) as recorder:
        for _ in range(30):
            scene.step()
            recorder.step()
            read = {name: scene.sensors[name].read().rgb.clone() for name in ("front", "late")}
            frames.append(read)
    scene.close()
    return folder, frames


def same(a, b):
    """Assert that two recordings hold the same frames."""
    assert len(a) == len(b)
    for index in range(len(a)):
        left, right = a[index], b[index]
        assert set(left) == set(right)
        for name in left:
            np.testing.assert_array_equal(left[name], right[name], err_msg=f"{name} of frame {index}")
        for name, header in a.images.items():
            one, other = (recording._image(header["kind"], name, index, None) for recording in (a, b))
            if header["kind"] == "rgb":  # video compression depends on where the files begin
                assert np.abs(one.astype(int) - other).mean() < 2
            else:
                np.testing.assert_array_equal(one, other)


@needs_gl
def test_replayed_images_equal_the_scene_images(falling, tmp_path):
    folder, frames = falling
    seen = replay(folder, tmp_path / "seen", ReplayOptions(images=KINDS, segment_frames=12))
    assert len(seen) == 30
    assert set(seen.images) == {f"{camera}.{kind}" for camera in ("front", "late") for kind in KINDS}
    source = sn.datasets.open(folder)
    for index in (0, 13, 29, 12, 11):
        for name in source.names:
            np.testing.assert_array_equal(seen[index][name], source[index][name], err_msg=name)
        for camera in ("front", "late"):  # without and with rate and delay
            error = np.abs(seen.read_rgb(camera, index).astype(int) - frames[index][camera].numpy())
            assert error.mean() < 3, f"{camera}, {index}"
    scene = source.build_scene()
    for output in KINDS[1:]:
        getattr(scene, f"enable_{output}_rendering")()
    for index in (5, 28):
        scene.load_state_dict(source.read_state_dict(index), strict=False)
        scene.write_replay_data()
        now = scene.sensors["front"].read()
        np.testing.assert_array_equal(seen.read_depth("front", index), now.depth)
        np.testing.assert_array_equal(seen.read_segmentation("front.segmentation", index), now.segmentation)
        np.testing.assert_array_equal(seen.read_instance("front", index, env=1), now.instance[1])
        np.testing.assert_array_equal(seen.read_normals("front", index), now.normals)
    assert np.isinf(seen.read_depth("front", 0)).any()
    assert seen.images["front.depth"] == {
        "kind": "depth", "codec": "hdf5-shuffle-gzip", "unit": "m", "scale": 1.0, "dtype": "float32",
        "shape": [48, 64], "fps": 100.0,
    }  # fmt: skip
    files = sorted(str(path.relative_to(tmp_path / "seen")) for path in (tmp_path / "seen").rglob("*.mp4"))
    assert files[0] == "rgb/front.rgb/env0000/00000000.mp4"
    assert len(files) == 2 * 2 * 3
    report = sn.recording.check(tmp_path / "seen")
    assert report.whole
    assert report.n_files == 2 + 3 + 3 * 2 * 2 * len(KINDS)


@needs_gl
def test_replay_of_a_replay_is_identical(falling, tmp_path):
    first = replay(falling[0], tmp_path / "b")
    same(first, replay(tmp_path / "b", tmp_path / "c"))


class Interrupt:
    """Interrupts a replay after some frames, as Ctrl-C does."""

    def __init__(self, after):
        self.left = after

    def __call__(self, count):
        self.left -= count
        if self.left <= 0:
            raise KeyboardInterrupt


@needs_gl
def test_interrupted_replay_resumes_without_rewriting_files(falling, tmp_path):
    options = ReplayOptions(images=("rgb", "depth"), interval=2, segment_frames=4)
    whole = replay(falling[0], tmp_path / "whole", options)
    assert len(whole) == 15
    for frames in (3, 5):
        with pytest.raises(KeyboardInterrupt):
            replay(falling[0], tmp_path / "b", options, resume=True, progress=Interrupt(frames))
    written = {path: path.stat().st_ino for path in (tmp_path / "b").rglob("*") if path.suffix in (".h5", ".mp4")}
    assert len(written) > 8
    assert not sn.recording.check(tmp_path / "b").whole
    resumed = []
    again = replay(falling[0], tmp_path / "b", options, resume=True, progress=resumed.append)
    assert resumed[0] >= 5  # frames that were complete
    assert sum(resumed) == 15
    assert {path: path.stat().st_ino for path in written} == written  # no file was written again
    same(whole, again)
    assert sn.recording.check(tmp_path / "b").whole


@needs_gl
def test_killed_replay_resumes(falling, tmp_path):
    options = ReplayOptions(images=("rgb",), interval=3, segment_frames=4)
    whole = replay(falling[0], tmp_path / "whole", options)
    shutil.copytree(tmp_path / "whole", tmp_path / "b")
    state = tmp_path / "b" / "state" / "common"
    (state / "00000004.jsonl").unlink()
    (state / "00000004.h5").rename(state / "00000004.h5.part")  # the chunk is the last file of a run
    with pytest.raises(sn.DatasetError, match="missing before 00000008"):
        sn.datasets.open(tmp_path / "b")
    same(whole, replay(falling[0], tmp_path / "b", options, resume=True))


@needs_gl
def test_replay_with_other_cameras_and_sensors(falling, tmp_path):
    file = tmp_path / "more.json"
    file.write_text(
        json.dumps(
            [
                {"type": "Camera", "uuid": "top", "pos": [0, 0, 3], "lookat": [0, 0.01, 0], "resolution": [31, 21]},
                {"type": "IMU", "uuid": "imu", "link": "box"},
                {"type": "Lidar", "uuid": "lidar", "link": "box", "pattern": {"kind": "RingPattern", "n_points": 8}},
            ]
        )
    )
    added = sn.recording.load_sensors(file)
    options = ReplayOptions(images=("rgb", "depth"), sensors=added, cameras=("top",), interval=10, max_frames=2)
    seen = replay(falling[0], tmp_path / "seen", options)
    assert len(seen) == 2
    assert list(seen.source_steps) == [0, 10]
    assert set(seen.images) == {"top.rgb", "top.depth"}
    assert seen.read_rgb("top", 1).shape == (2, 21, 31, 3)  # odd sizes keep all pixels
    source = sn.datasets.open(falling[0])
    np.testing.assert_array_equal(seen[1]["box.position"], source[10]["box.position"])
    np.testing.assert_array_equal(seen[1]["imu.measured"], seen[1]["imu.ground_truth"])  # the new sensor is ideal
    assert not np.array_equal(source[10]["imu.measured"], source[10]["imu.ground_truth"])
    assert "lidar.measured" in seen.names
    scene = seen.build_scene()
    scene.load_state_dict(seen.read_state_dict(1))
    smaller = ReplayOptions(images=("depth",), resolution=(32, 24), renderer="raster", max_frames=1)
    assert replay(falling[0], tmp_path / "small", smaller).read_depth("front", 0).shape == (2, 24, 32)


def test_invalid_replays_raise(falling, tmp_path):
    folder = falling[0]
    with pytest.raises(sn.errors.NameNotFoundError, match="did you mean 'front'"):
        replay(folder, tmp_path / "b", ReplayOptions(images=("rgb",), cameras=("frint",)))
    with pytest.raises(sn.OptionError, match="images"):
        ReplayOptions(images=("rgbd",))
    with pytest.raises(sn.OptionError, match="interval"):
        ReplayOptions(interval=0)
    with pytest.raises(sn.DatasetError, match="which holds its source"):
        replay(folder, folder, overwrite=True)
    assert not (tmp_path / "b").exists()
    replay(folder, tmp_path / "b", ReplayOptions(interval=15))
    with pytest.raises(sn.DatasetError, match="is not empty"):
        replay(folder, tmp_path / "b", ReplayOptions(interval=15))
    with pytest.raises(sn.DatasetError, match="another interval"):
        replay(folder, tmp_path / "b", ReplayOptions(interval=10), resume=True)
    with pytest.raises(sn.DatasetError, match="not a replay"):
        replay(tmp_path / "b", folder, resume=True)
    scene = drop_scene()
    scene.build()
    with sn.recording.Recorder(scene, tmp_path / "blind") as recorder:
        recorder.record(2)
    with pytest.raises(sn.OptionError, match="no cameras to render rgb"):
        replay(tmp_path / "blind", tmp_path / "c", ReplayOptions(images=("rgb",)))
    with pytest.raises(sn.DatasetError, match="replay of another recording"):
        replay(tmp_path / "blind", tmp_path / "b", ReplayOptions(interval=15), resume=True)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('{"sensors": 3}', "expected a list"),
        ("[3]", "expected a list"),
        ('[{"uuid": "a"}]', "needs a type"),
        ('[{"type": "Lidra", "link": "box"}]', "did you mean 'Lidar'"),
        ('[{"type": "Camera", "pso": [0, 0, 0]}]', "did you mean 'pos'"),
        ("[", "cannot read"),
    ],
)
def test_invalid_sensor_files_raise(tmp_path, text, match):
    file = tmp_path / "sensors.json"
    file.write_text(text)
    with pytest.raises(sn.OptionError, match=match) as caught:
        sn.recording.load_sensors(file)
    assert "sensors.json" in str(caught.value)
