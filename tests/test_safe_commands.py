"""Commands run no code that lies in the working folder, and write nothing where links lead."""

import os
import subprocess
import sys

import pytest

import sensorium as sn
from sensorium.cli import main
from sensorium.user_modules import import_modules

ENTRY = "import sys\nfrom sensorium.cli import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
"""The script that pip installs as ``sensorium``."""
NAMES = ("av", "h5py", "numpy", "torch", "pickle", "signal", "multiprocessing", "threading", "yaml", "own_sensors")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded") / "a"
    scene = sn.Scene()
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", pos=(0, 0, 0.5), free=True)
    scene.add_sensor(sn.IMU(link="box", uuid="imu"))
    scene.build(n_envs=2)
    with sn.recording.Recorder(scene, folder) as recorder:
        recorder.record(8)
    return folder


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """A working folder with modules that leave a file when they are imported."""
    folder = tmp_path / "trap"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text("import pathlib\npathlib.Path(__file__).with_name('SPRUNG').touch()\n")
    (tmp_path / "sensorium").write_text(ENTRY)
    return folder


def run(trap, *words, timeout=300):
    paths = [path for path in sys.path if path and path != str(trap)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(
        [sys.executable, str(trap.parent / "sensorium"), *map(str, words)],
        cwd=trap,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_no_module_of_the_working_folder_is_imported(recorded, trap, workers):
    done = run(trap, "replay", recorded, "--out", "seen", "--workers", workers)
    assert done.returncode == 0, done.stderr
    assert not (trap / "SPRUNG").exists()


def test_python_m_does_not_search_the_working_folder(recorded, trap):
    paths = [path for path in sys.path if path and path != str(trap)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "sensorium", "validate", str(recorded)]
    done = subprocess.run(command, cwd=trap, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert not (trap / "SPRUNG").exists()


@pytest.mark.slow
def test_a_module_of_the_working_folder_needs_its_path(recorded, trap):
    done = run(trap, "replay", recorded, "--out", "seen", "--module", "own_sensors")
    assert done.returncode == 2
    assert "import the file as own_sensors.py" in done.stderr
    assert not (trap / "SPRUNG").exists()
    done = run(trap, "replay", recorded, "--out", "seen", "--module", "own_sensors.py")
    assert done.returncode == 0, done.stderr
    assert (trap / "SPRUNG").exists()


OWN = """
import sensorium as sn

class TiltOptions(sn.IMU):
    pass
"""


@pytest.mark.slow
def test_workers_of_a_replay_import_the_file_of_a_sensor(tmp_path, monkeypatch, capsys):
    (tmp_path / "own_tilt.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    try:
        import_modules(["own_tilt.py"])
        scene = sn.Scene()
        scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", free=True)
        scene.add_sensor(sys.modules["own_tilt"].TiltOptions(link="box", uuid="tilt"))
        scene.build()
        with sn.recording.Recorder(scene, "a") as recorder:
            recorder.record(6)
        assert main(["replay", "a", "--out", "b", "--workers", "2", "--module", "own_tilt.py"]) == 0
        assert len(sn.recording.Recording("b")) == 6
    finally:
        sys.modules.pop("own_tilt", None)
    capsys.readouterr()


# -- links ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def victim(tmp_path):
    path = tmp_path / "victim.txt"
    path.write_text("precious")
    yield path
    assert path.read_text() == "precious"


def test_writers_replace_links(tmp_path, victim, monkeypatch):
    from fractions import Fraction

    import numpy as np

    from sensorium.datasets.episode_file import EpisodeFile, Skeleton
    from sensorium.datasets.image_formats import ImageEncoding
    from sensorium.datasets.video_streams import VideoStream
    from sensorium.files import temporary_path
    from sensorium.recording.chunk import ChunkWriter
    from sensorium.recording.drafts import Draft
    from sensorium.recording.rows import Row, RowField

    (tmp_path / "a.draft").symlink_to(victim)
    draft = Draft(tmp_path / "a.draft")
    draft.add(b"data")
    draft.close()

    for name in ("00000000.h5.part", "00000000.events.part"):
        (tmp_path / name).symlink_to(victim)
    writer = ChunkWriter(tmp_path, Row([RowField("x", "int64", ())]), 0, 4)
    writer.write(np.zeros(8, np.uint8), [{"values": {}}])
    writer.close()

    monkeypatch.setattr(os, "urandom", bytes)  # the names of temporary files can be known only so
    episode = tmp_path / "episode_000000.h5"
    temporary_path(episode).symlink_to(victim)
    file = EpisodeFile(episode, 0, Skeleton())
    file.close()
    assert not file.part.is_symlink()

    video = tmp_path / "front.mp4"
    temporary_path(video).symlink_to(victim)
    encoding = ImageEncoding.from_attributes("front", {}, (32, 32))
    stream = VideoStream(video, encoding, Fraction(10))
    stream.write(np.zeros((32, 32, 3), np.uint8))
    stream.close(tmp_path)
    assert video.is_file()
    assert not video.is_symlink()


def test_trials_of_output_folders_touch_no_file(tmp_path, victim):
    from sensorium.cli.arguments import check_output

    folder = tmp_path / "out"
    folder.mkdir()
    (folder / ".sensorium").symlink_to(victim)
    before = victim.stat().st_mtime_ns
    check_output("--out", folder)
    assert [path.name for path in folder.iterdir()] == [".sensorium"]
    assert victim.stat().st_mtime_ns == before


def test_export_does_not_empty_a_linked_folder(tmp_path, victim):
    from sensorium.datasets.export.folder import whole_folder

    (tmp_path / "out.part").symlink_to(tmp_path, target_is_directory=True)
    with whole_folder(tmp_path / "out") as part:
        (part / "file").write_text("new")
    assert (tmp_path / "out" / "file").read_text() == "new"


@pytest.mark.parametrize("name", ["victim.txt", "../victim.txt", "a/../../victim.txt", "", "a/link"])
def test_names_in_manifests_stay_in_the_folder(tmp_path, victim, name):
    from sensorium.links import inside

    folder = tmp_path / "data"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "link").symlink_to(victim)
    name = str(victim) if name == "victim.txt" else name
    with pytest.raises(sn.DatasetError, match="leads out of"):
        inside(folder, name)
    (folder / "a" / "file").touch()
    (folder / "own").symlink_to(folder / "a" / "file")
    assert inside(folder, "own").is_file()
    assert inside(folder, "a/file").is_file()


def test_links_that_leave_a_recording_are_problems(recorded, tmp_path, victim):
    import shutil

    folder = shutil.copytree(recorded, tmp_path / "copy")
    assert sn.recording.check(folder).whole
    (folder / "assets").mkdir(exist_ok=True)
    (folder / "assets" / "link").symlink_to(victim)
    report = sn.recording.check(folder)
    assert "is a link that leads out of the recording" in report.problems[0]


def test_a_recording_cannot_name_a_model_outside(recorded, tmp_path, victim):
    from sensorium.recording.describe import load_scene
    from sensorium.recording.folder import read_config

    config = read_config(recorded)
    config["scene"]["contents"][0]["model"] = {"file": str(victim)}
    with pytest.raises(sn.DatasetError, match="leads out of the folder"):
        load_scene(config, recorded)


def test_generate_refuses_links_that_leave_the_folder(tmp_path, victim):
    from sensorium.generation import GenerateOptions, generate

    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "failed").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(sn.DatasetError, match="is a link that leads out of"):
        generate(GenerateOptions(task="balance", policy="random", episodes=1, envs=1), folder)


# -- names ------------------------------------------------------------------------------------------------------------


def test_names_of_folders_and_metrics_are_no_markup(monkeypatch, capsys):
    from types import SimpleNamespace

    from sensorium.cli.evaluate import Evaluate

    result = SimpleNamespace(metrics={"[/b]": 1.0}, fraction=None, mean=1.0, returns=[1.0], success=1.0)
    monkeypatch.setattr(Evaluate, "_evaluate", lambda self: result)
    assert main(["evaluate", "run[/red]"]) == 0
    printed = capsys.readouterr().out
    assert "run[/red]" in printed
    assert "[/b]" in printed


def test_texts_of_twins_are_no_markup():
    from sensorium.fit import Estimate, Twin

    estimate = Estimate(name="acc[/b]", value=1.0, interval=(0.9, 1.1), unit="[/m]", identifiable=True, reason="[/x]")
    twin = Twin(kind="IMU", estimates={"acc[/b]": estimate})
    assert "acc[/b]" in str(twin)
    assert "&lt;" in Twin(kind="<script>", estimates={})._repr_html_()
