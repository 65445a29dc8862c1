"""Recordings of killed processes and on full disks, and recordings that replace others."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from damage import edited_config
from test_recording import ENVIRONMENT, box_scene, record

import sensorium as sn
from sensorium.recording import chunk as chunks
from sensorium.recording.chunk import ChunkWriter

# -- killed processes -------------------------------------------------------------------------------------------------


KILLED = """
import sys, time, sensorium as sn
from test_recording import box_scene
scene = box_scene()
with sn.recording.Recorder(scene, sys.argv[1], chunk_bytes=100_000) as recorder:
    while True:
        scene.step()
        recorder.step()
        print(recorder.n_steps, flush=True)
        time.sleep(0.002)
"""


@pytest.mark.parametrize("moment", [3, 38, 77])
@pytest.mark.slow
def test_killed_process_loses_at_most_the_step_in_flight(tmp_path, moment):
    """A chunk has 39 steps: kill in the first chunk, and where the second and the third begin."""
    command = [sys.executable, "-c", KILLED, str(tmp_path / "a")]
    here = Path(__file__).parent
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, cwd=here) as process:
        while (steps := int(process.stdout.readline())) < moment:
            pass
        process.send_signal(signal.SIGKILL)
        steps = max([steps, *(int(line) for line in process.stdout.read().split("\n")[:-1])])
    interrupted = bool(list((tmp_path / "a").rglob("*.part")))  # false if it was killed between two chunks
    before = sn.recording.check(tmp_path / "a")
    assert before.whole is not interrupted
    report = sn.recording.check(tmp_path / "a", repair=True)
    assert report.whole
    assert bool(report.repaired) is interrupted
    assert steps - 1 <= report.n_steps <= steps + 1
    assert not list((tmp_path / "a").rglob("*.part"))
    assert sn.recording.check(tmp_path / "a", repair=True).repaired == []
    recording, alone = sn.datasets.open(tmp_path / "a"), box_scene()
    assert len(recording) == report.n_steps
    for step in recording:
        alone.step()
        np.testing.assert_array_equal(step["physics"], alone.get_state())


def test_check_drops_an_unfinished_step(tmp_path):
    scene = record(tmp_path / "a", n_steps=10)
    path = tmp_path / "a" / "state" / "common" / "00000000.h5"
    part = path.with_name("00000000.h5.part")
    path.rename(part)
    path.with_suffix(".jsonl").rename(path.with_name("00000000.events.part"))
    with edited_config(tmp_path / "a") as config:
        assert config.pop("n_steps") == 10  # a killed process has not written it
    with h5py.File(part, "r+") as file:
        file["buffers"]["physics"][7, 1, 2] += 1.0  # as if it had not reached the disk
    with pytest.raises(sn.DatasetError, match="interrupted"):
        sn.datasets.open(tmp_path / "a")
    assert sn.recording.check(tmp_path / "a", repair=True).n_steps == 7
    assert len(sn.datasets.open(tmp_path / "a")) == 7
    assert scene.n_envs == 3


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("name", "call"), [("publish", 1), ("publish", 2), ("_cut", 1)])
def test_kill_during_completion_of_a_chunk_loses_nothing(tmp_path, monkeypatch, name, call, after):
    """Kill before and after each operation that completes a chunk."""
    real, calls = getattr(chunks, name), []

    def killed(*arguments):
        calls.append(arguments)
        if after or len(calls) < call:
            made = real(*arguments)
        if len(calls) == call:
            raise KeyboardInterrupt
        return made

    monkeypatch.setattr(chunks, name, killed)
    recorder = sn.recording.Recorder(box_scene(), tmp_path / "a")
    recorder.record(7)
    with pytest.raises(KeyboardInterrupt):
        recorder.close()
    monkeypatch.setattr(chunks, name, real)
    report = sn.recording.check(tmp_path / "a", repair=True)
    assert report.whole
    assert report.n_steps == 7
    assert len(sn.datasets.open(tmp_path / "a")) == 7


def test_check_removes_a_chunk_without_layout(tmp_path):
    record(tmp_path / "a")
    (tmp_path / "a" / "state" / "common" / "00000012.h5.part").write_bytes(b"\x89HDF")
    report = sn.recording.check(tmp_path / "a", repair=True)
    assert report.whole
    assert report.n_steps == 12
    assert not list((tmp_path / "a").rglob("*.part"))


def test_check_refuses_a_recording_that_is_being_written(tmp_path):
    scene = box_scene()
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        recorder.record(3)
        with pytest.raises(sn.DatasetError, match="being written"):
            sn.recording.check(tmp_path / "a", repair=True)
        recorder.record(3)
    assert sn.recording.check(tmp_path / "a", repair=True).n_steps == 6


# -- a full disk ------------------------------------------------------------------------------------------------------


FULL = """
import resource, sys, sensorium as sn
from test_recording import box_scene
scene = box_scene()
recorder = sn.recording.Recorder(scene, sys.argv[1], chunk_bytes=100_000)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
recorder.record(1000)
"""


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_full_disk_keeps_everything_written_before(small_disk):
    record(small_disk / "earlier", n_steps=10, chunk_bytes=10_000)
    earlier = {path: path.read_bytes() for path in (small_disk / "earlier").rglob("*") if path.is_file()}
    scene = box_scene()
    free = shutil.disk_usage(small_disk).free
    recorder = sn.recording.Recorder(scene, small_disk / "a", chunk_bytes=free * 6 // 10)  # a second does not fit
    with pytest.raises(sn.DatasetError, match=r"No space left on device.*Free some disk space") as caught:
        recorder.record(1000)
    assert "state/common" in str(caught.value)
    assert "errno" not in str(caught.value)  # the long text of HDF5 is removed
    scene.step()  # the scene goes on
    with pytest.raises(sn.DatasetError, match="is closed"):
        recorder.step()
    recorder.close()
    assert {path: path.read_bytes() for path in earlier} == earlier
    report = sn.recording.check(small_disk / "a", repair=True)
    assert report.whole
    assert report.repaired == []
    assert len(sn.datasets.open(small_disk / "a")) == report.n_steps
    # it wrote until the smallest chunk did not fit
    smallest = chunks._SLACK + 1024 * len(recorder._row.fields) + recorder._row.n_bytes
    assert shutil.disk_usage(small_disk).free < 1.5 * smallest


@pytest.mark.slow
def test_file_size_limit_raises_disk_full_error(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "a")], capture_output=True, text=True, env=ENVIRONMENT,
        cwd=Path(__file__).parent,
    )  # fmt: skip
    assert done.returncode == 1
    assert "DiskFullError: cannot write" in done.stderr
    assert "File too large" in done.stderr


# -- replacing a recording --------------------------------------------------------------------------------------------


def whole_folder(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_recording_is_replaced_once_the_new_one_has_a_step(tmp_path, monkeypatch):
    record(tmp_path / "a", n_steps=3)
    earlier = whole_folder(tmp_path / "a")
    scene = box_scene()
    with pytest.raises(sn.OptionError, match="no JSON form"):
        sn.recording.Recorder(scene, tmp_path / "a", metadata={"scene": object()}, overwrite=True)
    assert whole_folder(tmp_path / "a") == earlier
    with sn.recording.Recorder(scene, tmp_path / "a", overwrite=True):
        pass  # no step
    assert whole_folder(tmp_path / "a") == earlier

    def full(self, block, events):
        raise sn.DatasetError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr(ChunkWriter, "write", full)
        recorder = sn.recording.Recorder(scene, tmp_path / "a", overwrite=True)
        with pytest.raises(sn.DatasetError, match="disk full"):
            recorder.record(5)
    assert whole_folder(tmp_path / "a") == earlier
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    with sn.recording.Recorder(scene, tmp_path / "a", overwrite=True) as recorder:
        with pytest.raises(sn.DatasetError, match="being written"):
            sn.recording.Recorder(box_scene(), tmp_path / "a", overwrite=True)
        recorder.record(2)  # the first is written when the second is handed over
        assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert len(sn.datasets.open(tmp_path / "a")) == 2


REPLACING = """
import os, signal, sys, sensorium as sn
from test_recording import box_scene
scene = box_scene()
recorder = sn.recording.Recorder(scene, sys.argv[1], overwrite=True)
if sys.argv[2] == "one":
    recorder._output.commit = lambda: os.kill(os.getpid(), signal.SIGKILL)
    recorder.record(3)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("steps", ["none", "one"])
@pytest.mark.slow
def test_kill_while_replacing_a_recording(tmp_path, steps):
    record(tmp_path / "a", n_steps=3)
    earlier = whole_folder(tmp_path / "a")
    command = [sys.executable, "-c", REPLACING, str(tmp_path / "a"), steps]
    subprocess.run(command, env=ENVIRONMENT, cwd=Path(__file__).parent)
    assert len(list(tmp_path.iterdir())) == 2
    assert not sn.recording.check(tmp_path / "a").whole
    report = sn.recording.check(tmp_path / "a", repair=True)
    assert report.whole, report
    assert report.repaired
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    if steps == "none":
        assert whole_folder(tmp_path / "a") == earlier
    else:
        assert report.n_steps == 1


def test_recording_without_config_can_be_replaced(tmp_path, monkeypatch):
    """The process was killed before it wrote config.json."""
    record(tmp_path / "whole")
    (tmp_path / "a" / "state" / "common").mkdir(parents=True)
    shutil.copy(tmp_path / "whole" / "scene.xml", tmp_path / "a")
    report = sn.recording.check(tmp_path / "a", repair=True)
    assert not report.whole
    assert "has no steps" in str(report)
    with pytest.raises(sn.DatasetError, match=r"without steps"):
        sn.datasets.open(tmp_path / "a")
    record(tmp_path / "a", n_steps=4)
    assert sn.recording.check(tmp_path / "a", repair=True).n_steps == 4
    (tmp_path / "b" / "state" / "common").mkdir(parents=True)
    (tmp_path / "b" / "letter.txt").write_text("dear")
    with pytest.raises(sn.DatasetError, match="not a recording"):
        record(tmp_path / "b", overwrite=True)
    assert (tmp_path / "b" / "letter.txt").exists()
