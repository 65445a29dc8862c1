"""Wrong calls of objects that read files: the message names the argument, and a failed call changes nothing."""

from os import PathLike
from pathlib import Path

import numpy as np
import pytest
from conftest import drop_scene
from fuzz_paths import listing, make_files
from gymnasium import spaces

import sensorium as sn
from sensorium.errors import IndexRangeError, NameNotFoundError


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recordings") / "drop"
    scene = drop_scene(height=0.3)
    scene.add_sensor(sn.IMU(link="box", uuid="imu"))
    scene.build(n_envs=2)
    with sn.recording.Recorder(scene, folder) as recorder:
        for _ in range(6):
            scene.step()
            recorder.step()
    return sn.recording.Recording(folder)


@pytest.fixture
def topic():
    times = 0.1 * np.arange(4)
    return sn.logs.TopicLog("/imu", "sensor_msgs/msg/Imu", times, times, {"angular_velocity.x": np.zeros(4)})


@pytest.fixture(scope="module")
def pose():
    times = 0.01 * np.arange(500)
    return sn.fit.PoseReference(times, np.tile((1.0, 0.0, 0.0, 0.0), (500, 1)), np.zeros((500, 3)))


@pytest.fixture(scope="module")
def room():
    return sn.scenarios.OccupancyMap(np.zeros((4, 6), np.int8), 0.5)


# -- recordings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r[6], "has 6 steps; there is no step 6"),
        (lambda r: r.step(-7), "has 6 steps; there is no step -7"),
        (lambda r: r.column("box.position", range(4, 8)), r"the range must lie in \[0, 6\], got range\(4, 8\)"),
    ],
)
def test_steps_that_do_not_exist_raise(recording, call, message):
    with pytest.raises(IndexRangeError, match=message):
        call(recording)
    with pytest.raises(IndexError, match=r"there is no step|the range"):  # the built-in type, for loops over indices
        call(recording)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r["box.position"], "a step number must be an integer, got 'box.position'"),
        (lambda r: r.read_state_dict(2.0), "Recording.read_state_dict: index must be an integer, got 2.0"),
        (lambda r: r["a":], r"slice\('a', None, None\) selects no steps: slice indices must be integers"),
        (lambda r: r.step(2, "physics"), "names must be a collection of names of buffers, got 'physics'"),
        (lambda r: r.seek(2, 3), "Recording.seek: scene must be Scene, got 2"),
        (lambda r: r.build_scene(device=1), "device must be text or None, got 1"),
        (
            lambda r: r.read_rgb(["front"], 0),
            r"name must be the name of an image buffer or of a camera, got \['front'\]",
        ),
    ],
)
def test_wrong_arguments_of_a_recording_are_named(recording, call, message):
    with pytest.raises(sn.OptionError, match=message):
        call(recording)


def test_unknown_buffers_and_images_raise(recording):
    with pytest.raises(NameNotFoundError, match=r"no buffer 'box.positio' .did you mean 'box.position'"):
        recording.column("box.positio")
    with pytest.raises(NameNotFoundError, match="no rgb images 'front'; render them with `sensorium replay"):
        recording.read_rgb("front", 0)


def test_a_wrong_step_does_not_move_the_scene(recording):
    scene = recording.build_scene()
    tracer = sn.recording.Retracer(recording, scene)
    tracer.to(2)
    before = scene.get_state().clone()
    for step, error in ((99, IndexRangeError), ("3", sn.OptionError), (1, IndexRangeError)):
        with pytest.raises(error):
            tracer.to(step)
    assert tracer.index == 2
    assert (scene.get_state() == before).all()
    assert tracer.to(-1).number == recording.step(5).number


# -- logs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.message_at(4), "/imu has 4 messages; there is no message 4"),
        (lambda t: t.take([0, 9]), "/imu has 4 messages; there is no message 9"),
        (lambda t: t.take(2), r"messages must be a slice, numbers \(n,\) or a mask of shape \(4,\), got 2"),
        (lambda t: t.take(np.ones(3, bool)), r"or a mask of shape \(4,\)"),
        (lambda t: t.replace(capture=np.zeros(3)), "(capture|arrival) must be one time per message"),
        (lambda t: t.replace(fields={"a": np.zeros(5)}), "'a' must have one row for each of the 4 messages"),
        (lambda t: t[0], "path must be text, got 0"),
    ],
)
def test_wrong_rows_of_a_topic_are_named(topic, call, message):
    with pytest.raises(sn.OptionError, match=message):
        call(topic)


def test_rows_of_a_topic_are_slices_numbers_and_masks(topic):
    for rows in (slice(1, 3), [1, 2], np.array([1, -2]), np.array([False, True, True, False])):
        assert topic.take(rows).arrival.tolist() == pytest.approx([0.1, 0.2])
    assert len(topic.take([])) == 0
    log = sn.logs.Log({"/imu": topic})
    with pytest.raises(sn.OptionError, match="names must each be text, got 3"):
        log.without(3)


# -- fits --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["orientation", "angular_rate", "valid", "lever_matrix", "specific_force"])
@pytest.mark.parametrize(
    ("times", "got"),
    [(0.5, r"got 0.5 of shape \(\)"), ([[0.5]], r"got \[\[0.5\]\] of shape \(1, 1\)"), ("0.5", "got '0.5'")],
)
def test_wrong_times_of_a_pose_reference_are_named(pose, name, times, got):
    with pytest.raises(sn.OptionError, match=f"^t must be numbers.*{got}"):
        getattr(pose, name)(times)


def test_wrong_vectors_of_a_pose_reference_are_named(pose):
    with pytest.raises(sn.OptionError, match=r"lever must be numbers of shape \(3,\), got \(0.1, 0.2\)"):
        pose.specific_force([1.0], lever=(0.1, 0.2))
    with pytest.raises(sn.OptionError, match="gravity must be finite numbers, got nan"):
        pose.specific_force([1.0], gravity=float("nan"))
    with pytest.raises(sn.OptionError, match=r"field must be numbers of shape \(3,\)"):
        pose.magnetic_field([1.0], 5e-5)
    np.testing.assert_allclose(pose.specific_force([1.0, 2.0], gravity=10.0).values, [[0, 0, 10.0]] * 2, atol=1e-9)


@pytest.mark.parametrize(("envs", "seed"), [(0, 0), (2.0, 0), (2, -1), (2, None), (10**12, 0)])
def test_wrong_sizes_and_seeds_of_a_twin_are_named(envs, seed):
    twin = sn.fit.Twin("imu", {"gyro.bias": sn.fit.Estimate.normal("gyro.bias", np.zeros(3), np.ones(3), "rad/s")})
    assert twin.sample(2, seed=1)["gyro_bias"].shape == (2, 3)
    with pytest.raises(sn.OptionError, match=r"Twin.sample: (envs|seed) must be an integer"):
        twin.sample(envs, seed)


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        (5, sn.OptionError, "Twin.save: path must be a path, got 5"),
        ("", sn.OptionError, "Twin.save: path must be a path, got ''"),
        ("my\0.yaml", sn.OptionError, "Twin.save: path must be a path"),
        ("twin.txt", sn.OptionError, "must end in .yaml, got 'twin.txt'"),
        ("file/twin.yaml", sn.DatasetError, r"cannot write file/twin.yaml: (File exists|Not a directory)"),
    ],
)
def test_wrong_paths_of_a_twin_are_named(tmp_path, monkeypatch, path, error, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(error, match=message):
        sn.fit.Twin("imu", {}).save(path)
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


# -- maps --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.is_free(0.5), r"points must be numbers of shape \(..., 2\), got 0.5 of shape \(\)"),
        (lambda m: m.is_free([1.0, float("nan")]), "points must be finite numbers"),
        (lambda m: m.to_world([1, 2, 3]), r"pixels must be numbers of shape \(..., 2\)"),
        (lambda m: m.dilated("0.5"), "radius must be a number, got '0.5'"),
        (lambda m: m.sample_free(-1), "count must be an integer in"),
        (lambda m: m.save(None), "OccupancyMap.save: folder must be a path, got None"),
    ],
)
def test_wrong_arguments_of_a_map_are_named(room, call, message):
    with pytest.raises(sn.OptionError, match=message):
        call(room)


def test_points_far_outside_a_map_are_not_free(room):
    assert room.is_free([[1.0, 1.0], [1e300, 0.0], [-1e300, 0.0]]).tolist() == [True, False, False]


def test_a_map_names_the_folder_that_cannot_be_written(room, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(sn.DatasetError, match=r"cannot write .*file: File exists"):
        room.save(tmp_path / "file")


# -- long names --------------------------------------------------------------------------------------------------------

LONG, DEEP = "x" * 300, "x/" * 3000


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (sn.datasets.open, "open: folder must be a path of names of at most 255 bytes, got one of 300: 'xxx"),
        (sn.recording.Recording, "Recording: folder must be a path of names of at most 255 bytes, got one of 300"),
        (sn.logs.read, "read: path must be a path of names of at most 255 bytes, got one of 300"),
        (sn.presets.load, "load: path must be a path of names of at most 255 bytes"),
        (sn.fit.as_log, "as_log: source must be a path of names of at most 255 bytes"),
        (sn.robots.make, "there is no robot or model file 'xxx.*; the robots are"),
        (lambda name: sn.tasks.make("pick", robot=name), "robot.* 'xxx"),
        (lambda name: sn.Scene().add_robot(name), "there is no robot and no model file 'xxx.*; the robots are"),
        (lambda name: sn.Scene().add_object(name), "there is no model file 'xxx"),
        (
            lambda name: sn.generation.GenerateOptions(task="pick", rig=name),
            "must be a path of names of at most 255 bytes",
        ),
        (sn.TrainableEntity.from_yaml, "YAML:1: expected a mapping"),
        (lambda name: sn.TrainableEntity.from_yaml(f"{name}.yaml"), "there is no file 'xxx"),
    ],
)
def test_names_that_are_too_long_for_files(call, words):
    with pytest.raises(sn.SensoriumError, match=words):
        call(LONG)
    for name in (DEEP, "\ud800"):
        with pytest.raises(sn.SensoriumError):
            call(name)


def test_long_paths_name_the_limit():
    with pytest.raises(sn.OptionError, match="folder must be a path of at most 4095 bytes, got 6000: 'x/x/"):
        sn.datasets.open(DEEP)
    with pytest.raises(sn.OptionError, match="folder must be a path of valid characters, got"):
        sn.datasets.open("\ud800")
    with pytest.raises(sn.OptionError, match="at most 255 bytes, got one of 256"):
        sn.datasets.open("\u00e9" * 128)


def test_long_text_is_no_path():
    text = f"<mujoco><!--{LONG}--><worldbody><body name='a'><geom size='0.1'/></body></worldbody></mujoco>"
    assert sn.Scene().add_object(text, name="box").name == "box"


def test_the_file_of_an_episode_has_its_number():
    with pytest.raises(sn.OptionError, match=r"must be episode_NUMBER, got 'data/other\.h5'"):
        sn.datasets.Episode(Path("data/other.h5"))


# -- paths that cannot be written --------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with files, folders and FIFOs that are in the way."""
    monkeypatch.chdir(tmp_path)
    make_files((".html", ".mp4", ".onnx", ".png", ".yaml"))
    return tmp_path


@pytest.fixture(scope="module")
def drawn():
    """A built scene with a sensor that can be drawn."""
    scene = drop_scene(height=0.3)
    scene.add_sensor(sn.IMU(link="box", uuid="imu"))
    scene.build(n_envs=1)
    return scene


def memory():
    box = spaces.Box(-1, 1, (1,))
    return sn.entities.Memory(spaces.Dict({"height": box}), box, 16, 1)


WRITERS = {
    ".png": {
        "plot": lambda scene, path: scene.sensors["imu"].plot(path=path),
        "snapshot": lambda scene, path: scene.snapshot(path=path, width=16, height=16),
    },
    ".html": {
        "report": lambda scene, path: sn.fit.report(sn.fit.Twin("imu", {}), path),
        "report without pictures": lambda scene, path: sn.fit.report(sn.fit.Twin("imu", {}), path, pictures=False),
    },
    ".yaml": {"twin": lambda scene, path: sn.fit.Twin("imu", {}).save(path)},
    ".onnx": {"policy": lambda scene, path: sn.training.export_policy(WALK, path)},
    "": {
        "map": lambda scene, path: sn.scenarios.OccupancyMap(np.zeros((2, 2)), 0.1).save(path),
        "memory": lambda scene, path: memory().save(path),
        "recorder": lambda scene, path: sn.recording.Recorder(scene, path),
        "log": lambda scene, path: sn.ros.McapRecorder(scene, path).step(),
        "dataset": lambda scene, path: sn.generation.generate(GENERATED, path),
        "training": lambda scene, path: sn.training.train(sn.training.recipe("balance"), path),
    },
}
WALK = Path(__file__).parent / "data" / "walk"
GENERATED = sn.generation.GenerateOptions(task="balance", policy="random", episodes=2, envs=2, options={"max_steps": 2})


@pytest.mark.parametrize(("suffix", "name"), [(suffix, name) for suffix, named in WRITERS.items() for name in named])
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("file/name{}", "file"),
        ("fifo/new/name{}", "fifo"),
        ("/dev/full/name{}", "/dev/full"),
        ("folder{}", "folder"),
        ("fifo{}", "fifo"),
        (f"new/{'x' * 240}{{}}", "choose a shorter name"),
    ],
)
def test_paths_that_cannot_be_written_are_named(folder, drawn, suffix, name, path, words):
    if not suffix and ("x" in path or (name in ("map", "log") and path == "folder{}")):
        pytest.skip("the path can be used")
    before = listing()
    with pytest.raises(sn.SensoriumError, match=words):
        WRITERS[suffix][name](drawn, path.format(suffix))
    assert listing() == before


@pytest.mark.parametrize("path", ["imu.nonesuch", "imu.pn", "new/imu.pgf", "imu.txt"])
def test_unknown_formats_of_figures_are_named(folder, drawn, path):
    before = listing()
    with pytest.raises(sn.OptionError, match=rf"must end in \.png, \.jpg.*\.webp, got '{path}'"):
        drawn.sensors["imu"].plot(path=path)
    assert listing() == before


def test_figures_are_written_in_the_format_of_their_suffix(folder, drawn):
    for name, begin in (("a.PNG", b"\x89PNG"), ("new/b.pdf", b"%PDF"), ("c", b"\x89PNG"), ("d.jpg", b"\xff\xd8")):
        drawn.sensors["imu"].plot(path=name)
        assert Path(name).read_bytes().startswith(begin)


def test_a_report_whose_pictures_cannot_be_written_leaves_nothing(folder):
    Path("imu_figures").touch()
    before = listing()
    with pytest.raises(sn.DatasetError, match="imu_figures: File exists; a file is where a folder is needed"):
        sn.fit.report(sn.fit.Twin("imu", {}), "imu.html")
    assert listing() == before


@pytest.mark.parametrize(
    "read",
    [sn.deploy.read_contract, sn.CameraProfile.load, sn.TileMap.from_xml, sn.logs.read, sn.presets.load],
)
def test_pipes_are_not_read(folder, read):
    """Reading one would wait forever for a writer."""
    with pytest.raises(sn.SensoriumError, match=r"fifo\.yaml"):
        read("fifo.yaml")


@pytest.mark.parametrize("path", ["file", "fifo", "file/name", "/dev/full/name", "folder"])
def test_folders_without_a_training_say_so(folder, path):
    for call in (sn.training.PPOOptions.load, sn.training.TrainOptions.load, sn.training.evaluate_ppo):
        with pytest.raises(sn.DatasetError, match=f"{path} holds no training: config.json is missing"):
            call(path)


def test_a_file_without_suffix_is_no_model(folder):
    before = listing()
    with pytest.raises(sn.errors.ModelError, match=r"file is not a model: give an MJCF or URDF file"):
        sn.Scene().add_object("file")
    assert listing() == before
    assert not Path("MUJOCO_LOG.TXT").exists()


# -- files and values of others ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "read",
    [sn.CameraProfile.load, sn.robots.SensorRig.load, sn.presets.load, sn.tasks.load_cameras],
)
@pytest.mark.parametrize("text", ["[" * 20000, "a: " + "1" * 5000 + "\nb: [", "when: 2026-99-99"])
def test_malformed_files_of_options_are_named(folder, read, text):
    Path("options.yaml").write_text(text)
    with pytest.raises(sn.SensoriumError, match=r"options\.yaml"):
        read("options.yaml")


@pytest.mark.parametrize("name", ["config.json", "dataset.json"])
def test_deep_json_is_damaged(folder, name):
    Path(name).write_text("[" * 100000)
    calls = [sn.training.PPOOptions.load, sn.training.TrainOptions.load] if name == "config.json" else []
    for call in (*calls, sn.datasets.open):
        with pytest.raises(sn.DatasetError, match="nested too deeply"):
            call(".")


@pytest.mark.parametrize("value", ["text", object(), [[1], [2, 3]]])
def test_sources_of_observations_return_numbers(value):
    sensor = sn.suites.ArraySensor("height", lambda: value, (1,))
    with pytest.raises(sn.OptionError, match="a source of observations must return numbers"):
        sn.SensorSuite(2, [sensor]).read()


@pytest.mark.parametrize("value", [b"bytes", 5])
def test_paths_are_text(value):
    class Odd(PathLike):
        def __fspath__(self):
            return value

    with pytest.raises(sn.OptionError, match="read: path must be a path of text"):
        sn.logs.read(Odd())


@pytest.mark.parametrize("text", ["no\0name", "\ud800"])
def test_names_in_datasets_can_be_stored(topic, text):
    for name in ("task", "robot"):
        with pytest.raises(sn.OptionError, match=f"{name} must be text that HDF5 can store"):
            sn.datasets.from_log(sn.logs.Log({"/imu": topic}), "logged", {"a": ("/imu", "b")}, 50.0, **{name: text})
