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
