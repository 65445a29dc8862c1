"""Replays that are killed, split between processes, damaged, or run out of disk: no frame is lost or rendered twice."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import drop_scene
from gl import needs_gl

import sensorium as sn
from sensorium.cameras.render_pass import RenderPass
from sensorium.recording.chunk import Chunk, whole_steps
from sensorium.recording.drafts import Draft, records
from sensorium.recording.replay import ReplayOptions, replay
from sensorium.recording.runs import missing_runs, share

pytestmark = needs_gl
N_FRAMES = 150
OPTIONS = ReplayOptions(images=("rgb", "depth"), segment_frames=60)
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
SCRIPT = """
import resource, sys, sensorium as sn
from sensorium.recording import ReplayOptions
from sensorium.recording import replay
limit = int(sys.argv[4])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
if __name__ == "__main__":
    options = ReplayOptions(images=("rgb", "depth"), segment_frames=60)
    replay(sys.argv[1], sys.argv[2], options, workers=int(sys.argv[3]), progress=lambda n: print(n, flush=True))
"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recording") / "a"
    scene = drop_scene(height=0.5)
    scene.add_sensor(sn.IMU(link="box", uuid="imu", acc_noise=0.1, gyro_random_walk=0.1, delay=0.02))
    scene.add_sensor(sn.Camera(uuid="front", pos=(1.5, 0.3, 0.6), lookat=(0, 0, 0.3), resolution=(96, 64)))
    scene.build(n_envs=2, seed=1)
    with sn.recording.Recorder(scene, folder) as recorder:
        for step in range(N_FRAMES):
            if step % 40 == 0:
                scene["box"].set_pose(pos=(0, 0, 0.5 + step / 200), envs=[1])
                scene.forward([1])
            scene.step()
            recorder.step()
    scene.close()
    return folder


@pytest.fixture(scope="module")
def whole(recording, tmp_path_factory):
    return replay(recording, tmp_path_factory.mktemp("whole") / "b", OPTIONS)


class Running:
    """A replay in its own process, after its first frames are complete."""

    def __init__(self, recording, out, workers=1, frames=20, limit=0):
        self.out = Path(out)
        script = self.out.parent / "run.py"
        script.write_text(SCRIPT)
        words = [sys.executable, str(script), str(recording), str(out), str(workers), str(limit)]
        self.process = subprocess.Popen(
            words, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.reported = 0
        for line in self.process.stdout:
            self.reported += int(line)
            if self.reported >= frames:
                break

    def kill(self):
        self.process.kill()
        self.reported += sum(int(line) for line in self.process.stdout if line.endswith("\n"))
        self.process.communicate()
        return self.reported


def on_disk(folder):
    """Return the number of complete frames, in finished and unfinished files."""
    state = folder / "state" / "common"
    finished = sum(len(Chunk(path)) for path in state.glob("*.h5"))
    parts = [part for part in state.glob("*.h5.part") if not part.with_suffix("").exists()]
    for part in parts:
        drafts = [folder / "rgb" / "front.rgb", folder / "depth" / "front.depth"]
        files = [path for draft in drafts for path in draft.glob(f"*/{part.name[:8]}.*.frames.part")]
        finished += min(whole_steps(part), *(len(records(path)) for path in files)) if len(files) == 4 else 0
    return finished


def same(a, b, rgb_too=True):
    assert len(a) == len(b)
    for index in range(len(a)):
        left, right = a[index], b[index]
        assert set(left) == set(right)
        for name in left:
            np.testing.assert_array_equal(left[name], right[name], err_msg=f"{name} of frame {index}")
        same_depth(a.read_depth("front", index), b.read_depth("front", index))
        colours = a.read_rgb("front", index), b.read_rgb("front", index)
        if rgb_too:
            np.testing.assert_array_equal(*colours, err_msg=f"colour of frame {index}")
        else:  # up to the next key frame, a video depends on where its file begins
            assert np.abs(colours[0].astype(int) - colours[1]).mean() < 1


def same_depth(a, b):
    np.testing.assert_array_equal(a, b)


def interrupt(count):
    raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("frames", [20, 85])  # in the first file, and after a complete file
def test_killed_replay_loses_no_frame_and_renders_none_twice(recording, whole, tmp_path, monkeypatch, frames):
    running = Running(recording, tmp_path / "b", frames=frames)
    reported = running.kill()
    there = on_disk(tmp_path / "b")
    assert frames <= reported <= there < N_FRAMES
    assert there <= reported + 2  # one on its way to the disk, and one that was not reported any more
    rendered = []
    render = RenderPass.render
    monkeypatch.setattr(RenderPass, "render", lambda self, *given: rendered.append(1) or render(self, *given))
    with pytest.raises(KeyboardInterrupt):  # renders only what building the scene needs
        replay(recording, tmp_path / "c", OPTIONS, progress=interrupt)
    for_the_scene = len(rendered)
    rendered.clear()
    reports = []
    resumed = replay(recording, tmp_path / "b", OPTIONS, resume=True, progress=reports.append)
    assert reports[0] == there
    assert sum(reports) == N_FRAMES
    assert len(rendered) - for_the_scene == N_FRAMES - there
    same(whole, resumed, rgb_too=False)
    assert sn.recording.check(tmp_path / "b").whole
    assert not list((tmp_path / "b").rglob("*.part"))


@pytest.mark.slow
def test_check_keeps_complete_frames_of_a_killed_replay(recording, tmp_path):
    Running(recording, tmp_path / "b").kill()
    there = on_disk(tmp_path / "b")
    report = sn.recording.check(tmp_path / "b", repair=True)
    assert report.n_steps == there
    assert any(f"kept {there} frames" in text for text in report.repaired)
    assert sn.datasets.open(tmp_path / "b").read_rgb("front", there - 1).shape == (2, 64, 96, 3)


@pytest.mark.slow
def test_two_workers_write_the_same_frames_as_one(recording, whole, tmp_path):
    pids, reports = set(), []

    def progress(count):
        reports.append(count)
        pids.update(child.pid for child in multiprocessing.active_children())

    shared = replay(recording, tmp_path / "b", OPTIONS, workers=2, progress=progress)
    assert len(pids) == 2
    assert sum(reports) == N_FRAMES
    firsts = sorted(int(path.stem) for path in (tmp_path / "b" / "state" / "common").glob("*.h5"))
    assert firsts == [0, 60, 74, 120]
    same(whole, shared)


def test_frames_are_shared_evenly_between_workers():
    for n_frames in (2, 3, 7, 64, 99, 100, 101, 150, 1000):
        for workers in (1, 2, 3, 8):
            key_interval = min(12, max(1, n_frames // 64))
            shares = share(missing_runs([], n_frames), workers, 100, key_interval)
            assert len(shares) == min(workers, n_frames)
            runs = [run for each in shares for run in each]
            assert [frame for first, count in runs for frame in range(first, first + count)] == list(range(n_frames))
            assert all(count <= 100 for _, count in runs)
            counts = [sum(count for _, count in runs) for runs in shares]
            assert max(counts) - min(counts) <= 2 * key_interval
    assert missing_runs([(0, 5), (10, 2)], 20) == [(5, 5), (12, 8)]
    assert share([(5, 5), (12, 8)], 2, 100, 12) == [[(5, 5)], [(12, 8)]]
    assert share([(5, 3)], 2, 100, 12) == [[(5, 1)], [(6, 2)]]


def children(pid):
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            after = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if after[0] != "Z" and int(after[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_workers_end_with_their_parent_and_keep_its_lock_until_then(recording, whole, tmp_path):
    running = Running(recording, tmp_path / "b", workers=2, frames=10)
    workers = children(running.process.pid)
    assert len(workers) >= 2
    with pytest.raises(sn.DatasetError, match="is being written by another process"):
        replay(recording, tmp_path / "b", OPTIONS, resume=True)
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    running.process.kill()
    running.process.wait()
    for pipe in (running.process.stdout, running.process.stderr):
        pipe.close()
    with pytest.raises(sn.DatasetError, match="is being written by another process"):
        replay(recording, tmp_path / "b", OPTIONS, resume=True)  # the workers are still alive
    for pid in workers:
        os.kill(pid, signal.SIGCONT)
    end = time.monotonic() + 60
    while time.monotonic() < end and any(map(alive, workers)):
        time.sleep(0.05)
    assert not any(map(alive, workers))
    there = on_disk(tmp_path / "b")
    assert there >= 10
    reports = []
    same(whole, replay(recording, tmp_path / "b", OPTIONS, resume=True, progress=reports.append), rgb_too=False)
    assert reports[0] == there


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [cut, flip, Path.unlink])
@pytest.mark.parametrize("name", ["rgb/front.rgb/env0001/00000010.mp4", "depth/front.depth/env0000/00000010.h5"])
def test_damaged_files_are_rendered_again(recording, whole, tmp_path, damage, name):
    options = ReplayOptions(images=("rgb", "depth"), segment_frames=10, max_frames=25)
    first = replay(recording, tmp_path / "b", options)
    before = {path: path.stat().st_ctime_ns for path in (tmp_path / "b").rglob("*") if path.suffix in (".h5", ".mp4")}
    damage(tmp_path / "b" / name)
    reports = []
    with pytest.warns(UserWarning, match="frames 10 to 19 are missing or damaged"):
        again = replay(recording, tmp_path / "b", options, resume=True, progress=reports.append)
    assert reports[0] == 15
    assert sum(reports) == 25
    for path, made in before.items():
        assert (path.stat().st_ctime_ns == made) is (path.stem != "00000010"), path
    assert sn.recording.check(tmp_path / "b").whole
    for index in range(25):
        np.testing.assert_array_equal(again.read_rgb("front", index), first.read_rgb("front", index))
        same_depth(again.read_depth("front", index), whole.read_depth("front", index))


# -- a full disk ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_file_size_limit_raises_and_the_replay_resumes(recording, whole, tmp_path):
    running = Running(recording, tmp_path / "b", frames=10_000, limit=115_000)
    _, text = running.process.communicate()
    assert running.process.returncode == 1
    last = text.strip().splitlines()[-1]
    assert last.startswith("sensorium.files.DiskFullError: cannot write ")
    assert last.endswith(": File too large. Free some disk space; everything written before is complete.")
    there = on_disk(tmp_path / "b")
    assert there >= running.reported > 10
    reports = []
    same(whole, replay(recording, tmp_path / "b", OPTIONS, resume=True, progress=reports.append), rgb_too=False)
    assert reports[0] == there


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_full_disk_keeps_complete_frames(recording, whole, tmp_path, workers):
    disk = tmp_path / "disk"
    disk.mkdir()
    size = ["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", disk]
    if subprocess.run(size, capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        (disk / "filler").write_bytes(b"x" * 500_000)
        reports = []
        with pytest.raises(sn.DatasetError) as caught:
            replay(recording, disk / "b", OPTIONS, workers=workers, progress=reports.append)
        assert str(caught.value).startswith(f"cannot write {disk}")
        assert ": No space left on device. Free some disk space" in str(caught.value)
        assert on_disk(disk / "b") >= sum(reports) > 5
        subprocess.run(["mount", "-o", "remount,size=50m", disk], check=True)
        again = []
        same(whole, replay(recording, disk / "b", OPTIONS, resume=True, progress=again.append), rgb_too=False)
        assert again[0] >= sum(reports)
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_unfinished_draft_records_are_ignored(tmp_path):
    draft = Draft(tmp_path / "a")
    parts = [b"one", b"", b"x" * 1000]
    for part in parts:
        draft.add(part)
    draft.close()
    data = (tmp_path / "a").read_bytes()
    held = records(tmp_path / "a")
    assert [data[offset : offset + size] for offset, size in held] == parts
    for length in range(len(data)):
        (tmp_path / "b").write_bytes(data[:length])
        assert len(records(tmp_path / "b")) == (0 if length < 11 else 1 if length < 19 else 2)
    assert records(tmp_path / "nothing") == []
