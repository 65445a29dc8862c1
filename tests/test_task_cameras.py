"""Cameras of tasks: every option of ``Camera``, in Python, files and on the command line, saved with the data."""

import json
from itertools import pairwise

import numpy as np
import pytest

import sensorium as sn
from sensorium.cli import main
from sensorium.errors import OptionError
from sensorium.generation import GenerateOptions, generate
from sensorium.tasks import TaskCamera

SMALL = {"name": "front", "resolution": (48, 32)}
REAL = {**SMALL, "profile": "rgbd", "depth": True, "rate": 25, "delay": 0.02}


def test_every_camera_option_reaches_the_scene():
    assert set(sn.Camera.model_fields) <= set(TaskCamera.model_fields)
    given = {
        "profile": "rgbd",
        "renderer": "raster",
        "quality": "balanced",
        "anti_aliasing": 2,
        "rate": 25,
        "delay": 0.04,
        "jitter": 0.03,
        "dropout": 0.1,
        "near": 0.05,
        "far": 20,
        "exposure": 0.002,
        "principal_point": (20, 15),
        "up": (0, 1, 0),
    }
    task = sn.tasks.make("pick", cameras=[{**SMALL, **given}])
    options = task.cameras["front"].options
    for name, value in given.items():
        assert getattr(options, name) == (sn.CameraProfile.named("rgbd") if name == "profile" else value), name
    assert task.cameras["front"].uuid == "front"
    task.close()


def test_default_is_an_ideal_camera():
    task = sn.tasks.make("pick", cameras=[{**SMALL, "depth": True}])
    observation, _ = task.reset()
    truth = task.cameras["front"].read_ground_truth()
    np.testing.assert_array_equal(observation["front"], truth.rgb)
    np.testing.assert_array_equal(observation["front_depth"], truth.depth)
    assert task.config.cameras[0].profile is None
    task.close()


def test_observations_are_what_the_imperfect_camera_measures():
    task = sn.tasks.make("pick", seed=1, cameras=[REAL])
    observation, _ = task.reset()
    camera = task.cameras["front"]
    assert observation in task.suite.space
    assert (observation["front"] != camera.read_ground_truth().rgb.numpy()).mean() > 0.5
    np.testing.assert_array_equal(observation["front"], camera.read().rgb)
    seen = observation["front_depth"] > 0
    error = observation["front_depth"][seen] / camera.read_ground_truth().depth.numpy()[seen] - 1
    assert 0 < np.median(np.abs(error)) < 0.1
    action = np.zeros((1, task.action_space.shape[1]), np.float32)
    frames = [task.step(action)[0]["front"] for _ in range(4)]  # 50 steps/s, 25 frames/s, each one step late
    changed = [bool((one != other).any()) for one, other in pairwise(frames)]
    assert changed == [True, False, True] or changed == [False, True, False]
    task.close()


def test_first_frame_of_a_timed_camera_shows_the_drawn_pose():
    timed = {**SMALL, "pose_jitter": 0.3, "rate": 25}
    task = sn.tasks.make("pick", n_envs=2, seed=4, cameras=[timed])
    for _ in range(2):
        observation, _ = task.reset()
        np.testing.assert_array_equal(observation["front"], task.cameras["front"].read_ground_truth().rgb)
    assert (observation["front"][0] != observation["front"][1]).any()
    task.close()


def test_all_outputs_and_histories_are_observed():
    outputs = ("rgb", "depth", "instance", "normals", "points")
    task = sn.tasks.make(
        "pick", cameras=[{**SMALL, "outputs": outputs}, {**SMALL, "name": "late", "history_length": 3}]
    )
    observation, _ = task.reset()
    assert observation in task.suite.space
    shapes = {name: observation[name].shape[1:] for name in task.suite if name.startswith(("front", "late"))}
    assert shapes == {
        "front": (32, 48, 3),
        "front_depth": (32, 48),
        "front_instance": (32, 48),
        "front_normals": (32, 48, 3),
        "front_points": (32, 48, 3),
        "late": (3, 32, 48, 3),
    }
    points, depth = observation["front_points"][0], observation["front_depth"][0]
    assert np.isnan(points[~np.isfinite(depth)]).all()
    assert observation["object_image_points"]["late"]["pickup_obj"]["visible"][0, 0] > 0
    task.close()


def test_episodes_contain_the_profile(tmp_path):
    cameras = [REAL, {**SMALL, "name": "ideal", "outputs": ("rgb", "depth", "normals")}]
    options = GenerateOptions(
        task="pick", episodes=1, envs=1, options={"cameras": cameras, "max_steps": 3}, keep_failed=True, max_attempts=1
    )
    with pytest.raises(sn.GenerationError):
        generate(options, tmp_path / "a")
    (path,) = (tmp_path / "a" / "failed").glob("*.h5")
    episode = sn.datasets.Episode(path)
    assert episode.cameras == ["front", "front_depth", "ideal", "ideal_depth", "ideal_normals"]
    assert episode.camera_profile("front_depth") == sn.CameraProfile.named("rgbd")
    assert (episode.camera_options("front")["rate"], episode.camera_options("front")["delay"]) == (25, 0.02)
    assert episode.camera_profile("ideal") is None
    with pytest.raises(sn.errors.NameNotFoundError, match=r"has no camera 'fornt'.*did you mean 'front'"):
        episode.camera_profile("fornt")  # None would mean an ideal camera
    normals = episode.video("ideal_normals")
    assert normals.shape == (4, 32, 48, 3)
    assert normals.dtype == np.float32
    task = sn.tasks.make("pick", cameras=cameras, max_steps=3)
    task.register_policy(sn.policies.make("planner", task))
    observation, _ = task.reset(numbers=[episode.number])
    for kind in ("front_depth", "ideal_depth"):  # 0 is "no reading", infinity "nothing hit"
        read, stored = observation[kind][0], episode.video(kind)[0]
        np.testing.assert_array_equal(np.isfinite(stored), np.isfinite(read))
        np.testing.assert_array_equal(stored == 0, read == 0)
    np.testing.assert_array_equal(normals[0], observation["ideal_normals"][0])
    assert (observation["front_depth"] == 0).any()
    task.close()


def test_recorded_task_keeps_and_replays_the_profile(tmp_path):
    task = sn.tasks.make("pick", cameras=[{**SMALL, "profile": "rgbd"}])
    task.reset()
    with sn.recording.Recorder(task.scene, tmp_path / "run") as recorder:
        for _ in range(2):
            task.step(np.zeros((1, task.action_space.shape[1]), np.float32))
            recorder.step()
        seen = task.cameras["front"].read().rgb.clone()
    task.close()
    recording = sn.datasets.open(tmp_path / "run")
    scene = recording.build_scene()
    sn.recording.Retracer(recording, scene).to(1)
    camera = scene.sensors["front"]
    assert camera.options.profile == sn.CameraProfile.named("rgbd")
    np.testing.assert_array_equal(camera.read().rgb, seen)
    scene.close()


@pytest.mark.slow
def test_camera_files_and_command_line(tmp_path, capsys):
    file = tmp_path / "cameras.yaml"
    file.write_text(
        "- {name: front, resolution: [48, 32], depth: true, profile: rgbd}\n"
        "- {name: top, pos: [0.5, 0, 2], lookat: [0.5, 0.01, 0], resolution: [32, 32], profile: {vignette: 0.5}}\n"
    )
    front, top = sn.tasks.load_cameras(file)
    assert front["pos"] == sn.tasks.CAMERA_VIEWS["front"]["pos"]
    assert top["pos"] == [0.5, 0, 2]
    arguments = ["generate", "pick", "--episodes", "1", "--envs", "1", "--max-attempts", "1", "--keep-failed"]
    arguments += ["--option", "max_steps=2", "--cameras", str(file), "wrist", "--resolution", "32", "32"]
    arguments += ["--camera-option", "rate=25", "wrist.profile=action", "--out", str(tmp_path / "a")]
    assert main(arguments) == 1
    assert "0 of 1 episodes succeeded" in capsys.readouterr().err
    (path,) = (tmp_path / "a" / "failed").glob("*.h5")
    episode = sn.datasets.Episode(path)
    assert episode.camera_profile("front") == sn.CameraProfile.named("rgbd")
    assert episode.camera_profile("top") == sn.CameraProfile(vignette=0.5)
    assert episode.camera_profile("wrist") == sn.CameraProfile.named("action")
    assert [episode.camera_options(name)["rate"] for name in ("front", "top", "wrist")] == [25, 25, 25]
    header = json.loads((tmp_path / "a" / "dataset.json").read_text())
    assert header["options"]["options"]["cameras"][2]["profile"] == "action"


def test_invalid_cameras_are_named(tmp_path, capsys):
    with pytest.raises(OptionError, match=r"name and uuid are the same option"):
        TaskCamera(name="a", uuid="b")
    assert TaskCamera(uuid="b").name == "b"
    with pytest.raises(OptionError, match="need lookat"):
        TaskCamera(name="a", quat=(1, 0, 0, 0), pose_jitter=0.1)
    with pytest.raises(OptionError, match="must not end in _depth"):
        TaskCamera(name="a_normals")
    assert TaskCamera(name="a", quat=(1, 0, 0, 0)).to_camera(None).lookat is None
    assert TaskCamera(name="a", focal_length=50).to_camera(None).fov is None
    (tmp_path / "bad.yaml").write_text("- {name: front, profil: rgbd}\n")
    with pytest.raises(OptionError, match=r"bad.yaml: entry 0: .*'profil' \(did you mean 'profile'\?\)"):
        sn.tasks.load_cameras(tmp_path / "bad.yaml")
    out = ["--out", str(tmp_path / "x")]
    assert main(["generate", "pick", "--cameras", "front", "--camera-option", "frnt.rate=3", *out]) == 2
    assert "there is no camera 'frnt' (did you mean 'front'?)" in capsys.readouterr().err
    assert main(["generate", "pick", "--camera-option", "rate=3", *out]) == 2
    assert "--camera-option needs --cameras" in capsys.readouterr().err


def test_jitter_without_delay_is_the_old_name_of_pose_jitter():
    with pytest.warns(DeprecationWarning, match="use pose_jitter"):
        camera = TaskCamera(name="front", jitter=0.15)
    assert (camera.pose_jitter, camera.jitter) == (0.15, 0)
    camera = TaskCamera(name="front", jitter=0.01, delay=0.02)
    assert (camera.pose_jitter, camera.jitter) == (0, 0.01)
