"""Recording: what is on disk is what was there, whatever happens to the process or the disk."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from conftest import drop_scene
from test_catalogue import EVERY

import sensorium as sn
from sensorium.datasets import chunk as chunks
from sensorium.datasets.chunk import ChunkWriter
from sensorium.worlds.contents import decode, encode

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


class Notes(sn.Module):
    """Buffers of all kinds that a user's module may have."""

    def __init__(self) -> None:
        self.text = sn.Buffer("start", {"notes"})
        self.nothing = sn.Buffer(None, {"notes"})
        self.number = sn.Buffer(0, {"notes"})
        self.flag = sn.Buffer(False, {"notes"})
        self.table = sn.Buffer(np.zeros((2, 3), np.int16), {"notes"})


def box_scene(n_envs=3, seed=5, **options):
    scene = drop_scene(height=0.3, **options)
    scene.add_sensor(sn.IMU(link="box", uuid="imu", acc_noise=0.1, gyro_random_walk=0.1, delay=0.02))
    scene.build(n_envs=n_envs, seed=seed)
    return scene


def record(folder, n_steps=12, scene=None, **options):
    scene = box_scene() if scene is None else scene
    with sn.datasets.Recorder(scene, folder, **options) as recorder:
        recorder.record(n_steps)
    return scene


# -- what is on disk --------------------------------------------------------------------------------------------------


def test_the_layout_of_a_recording(tmp_path):
    record(tmp_path / "a", n_steps=5, metadata={"who": "me"}, chunk_bytes=1)
    files = sorted(str(path.relative_to(tmp_path / "a")) for path in (tmp_path / "a").rglob("*") if path.is_file())
    steps = [f"state/common/{number:08d}.{kind}" for number in range(5) for kind in ("h5", "jsonl")]
    assert files == ["config.json", "scene.xml", *steps]
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    assert config["format"] == "sensorium-episode"
    assert config["version"] == 1
    assert config["scene"]["seed"] == 5
    assert config["scene"]["n_envs"] == 3
    assert set(config["versions"]) == {"sensorium", "mujoco", "torch", "numpy", "python", "machine"}
    with h5py.File(tmp_path / "a" / "state" / "common" / "00000002.h5") as file:
        assert set(file["buffers"]) == {field["name"] for field in config["fields"]}
        assert file["buffers"]["box.position"].shape == (1, 3, 3)
        assert file["buffers"]["physics"].dtype == np.float64
    assert sn.datasets.open(tmp_path / "a").metadata == {"who": "me"}


def test_a_recording_holds_every_buffer_of_every_step(tmp_path):
    scene = box_scene()
    scene.add_child("notes", Notes())
    notes = scene._children["notes"]
    seen = []
    with sn.datasets.Recorder(scene, tmp_path / "a", chunk_bytes=20_000) as recorder:
        for step in range(30):
            scene.step()
            notes.text.value = f"step {step // 4}"
            notes.number.value = step
            notes.flag.value = step % 3 == 0
            notes.table.value[:] = step
            recorder.step()
            state = scene.state_dict()
            seen.append(
                {
                    k: v.clone() if hasattr(v, "clone") else v.copy() if hasattr(v, "copy") else v
                    for k, v in state.items()
                }
            )
    episode = sn.datasets.open(tmp_path / "a")
    assert len(episode) == len(list(episode)) == 30
    assert len(list((tmp_path / "a" / "state" / "common").glob("*.h5"))) > 2
    for step, expected in enumerate(seen):
        read = episode[step]
        assert list(read) == sorted(expected, key=list(read).index)
        for name, value in expected.items():
            np.testing.assert_array_equal(read[name], value, err_msg=f"{name} of step {step}")
            assert type(read[name]) is (np.ndarray if isinstance(value, torch.Tensor) else type(value)), name


def test_a_reader_finds_steps_slices_and_tags(tmp_path):
    record(tmp_path / "a", chunk_bytes=10_000)
    episode = sn.datasets.open(tmp_path / "a")
    np.testing.assert_array_equal(episode[-1]["physics"], episode[11]["physics"])
    part = episode[3:11:2]
    assert part["imu.measured"].shape == (4, 3, *episode[0]["imu.measured"].shape[1:])
    np.testing.assert_array_equal(part["imu.measured"][1], episode[5]["imu.measured"])
    np.testing.assert_array_equal(episode.column("box.position"), np.stack([step["box.position"] for step in episode]))
    assert set(episode.read_state_dict(0, include_tags=["imu"])) == {"imu.measured", "imu.ground_truth"}
    assert "imu.measured" not in episode.read_state_dict(0, exclude_tags=["measured"])
    np.testing.assert_allclose(episode.column("physics")[:, 0, 0], 0.01 * np.arange(1, 13))  # the first is the time
    with pytest.raises(IndexError, match="has 12 steps"):
        episode[12]
    with pytest.raises(sn.OptionError, match="did you mean 'imu'"):
        episode.read_state_dict(0, include_tags=["imuu"])
    with pytest.raises(sn.NameNotFoundError, match=r"did you mean 'imu.measured'"):
        episode.column("imu.mesured")
    with pytest.raises(sn.NameNotFoundError, match="sensorium replay"):
        episode.read_rgb("front", 0)


def test_recording_does_not_change_the_simulation(tmp_path):
    recorded, bare = box_scene(n_envs=9), box_scene(n_envs=9)
    with sn.datasets.Recorder(recorded, tmp_path / "a") as recorder:
        for _ in range(40):
            recorded.step()
            recorder.step()
            bare.step()
    assert torch.equal(recorded.get_state(), bare.get_state())
    assert torch.equal(recorded.read_sensors()["IMU"], bare.read_sensors()["IMU"])


# -- rebuilding -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERY)
def test_options_are_made_again_from_json(name):
    options = EVERY[name]
    again = decode(json.loads(json.dumps(encode(options))))
    assert again == options
    assert again.model_fields_set == options.model_fields_set


def test_json_names_no_code_to_run():
    with pytest.raises(sn.OptionError, match="import that module first"):
        decode({"type": "antigravity:Options", "options": {}})
    assert "antigravity" not in sys.modules
    with pytest.raises(sn.OptionError, match="not a kind of Options"):
        decode({"type": "sensorium.worlds.scene:Scene", "options": {}})
    with pytest.raises(sn.OptionError, match="no JSON form"):
        encode(object())


MESH = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n"
STONE = """<mujoco model="stone"><compiler meshdir="meshes"/><include file="parts/joint.xml"/>
<asset><mesh name="stone" file="stone.obj" scale="0.1234567890123 .1 .1"/></asset></mujoco>"""
PARTS = """<mujoco><worldbody><body name="stone" pos="0.123456789012345 0 0.5"><freejoint/>
<geom type="mesh" mesh="stone"/></body></worldbody></mujoco>"""


def test_the_folder_alone_makes_the_scene_again(tmp_path):
    models = tmp_path / "models"
    (models / "meshes").mkdir(parents=True)
    (models / "parts").mkdir()
    (models / "stone.xml").write_text(STONE)
    (models / "parts" / "joint.xml").write_text(PARTS)
    (models / "meshes" / "stone.obj").write_text(MESH)
    scene = sn.Scene(dt=0.02, substeps=4, gravity=(0.1, 0, -9.0), sky=((0, 0, 1), (1, 1, 1)))
    scene.add_terrain(sn.Plane(), name="ground", euler=(0.01, 0, 0))
    scene.add_object(models / "stone.xml", name="stone", quat=(1, 0.1, 0, 0))
    scene.add_object(sn.Sphere(radius=0.1), name="ball", pos=(0.5, 0, 1), free=True)
    scene.add_light("spot", pos=(0, 0, 3), cutoff=30)
    scene.add_sensor(sn.ContactForce(link="stone/stone", uuid="force", noise=0.1))
    scene.build(n_envs=2, seed=11)
    record(tmp_path / "a", n_steps=40, scene=scene)
    expected = scene.get_state().numpy()
    shutil.rmtree(models)
    shutil.move(tmp_path / "a", tmp_path / "elsewhere")
    code = f"""
        import numpy as np, os, sensorium as sn
        os.chdir("/")
        episode = sn.datasets.open({str(tmp_path / "elsewhere")!r})
        scene = episode.build_scene()
        scene.load_state_dict(episode.read_state_dict(39))
        scene.write_replay_data()
        np.save({str(tmp_path / "state.npy")!r}, scene.get_state().numpy())
        assert scene.dt == 0.02 and scene.n_envs == 2 and scene.seed == 11
        assert list(scene.entities) == ["ground", "stone", "ball"]
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=ENVIRONMENT
    )
    assert done.returncode == 0, done.stderr
    assert "differs" not in done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "state.npy"), expected)


def test_a_state_is_brought_back_exactly(tmp_path):
    scene = box_scene()
    with sn.datasets.Recorder(scene, tmp_path / "a") as recorder:
        recorder.record(20)
    episode = sn.datasets.open(tmp_path / "a")
    again = episode.build_scene()
    again.load_state_dict(episode.read_state_dict(12))
    again.write_replay_data()
    np.testing.assert_array_equal(again.get_state(), episode[12]["physics"])
    again.step(7)
    np.testing.assert_array_equal(again.get_state(), episode[19]["physics"])
    np.testing.assert_allclose(again.time, 0.2)


# -- processes that are killed ----------------------------------------------------------------------------------------

KILLED = """
import sys, time, sensorium as sn
from test_recording import box_scene
scene = box_scene()
with sn.datasets.Recorder(scene, sys.argv[1], chunk_bytes=100_000) as recorder:
    while True:
        scene.step()
        recorder.step()
        print(recorder.n_steps, flush=True)
        time.sleep(0.002)
"""


@pytest.mark.parametrize("moment", [3, 38, 77])
def test_a_killed_process_loses_at_most_what_was_in_flight(tmp_path, moment):
    """files are of 39 steps: killed in the first, where the second begins, and where the third does"""
    command = [sys.executable, "-c", KILLED, str(tmp_path / "a")]
    here = Path(__file__).parent
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, cwd=here) as process:
        while (steps := int(process.stdout.readline())) < moment:
            pass
        process.send_signal(signal.SIGKILL)
        steps = max([steps, *(int(line) for line in process.stdout.read().split("\n")[:-1])])
    interrupted = bool(list((tmp_path / "a").rglob("*.part")))  # it may have been between two files
    before = sn.datasets.check(tmp_path / "a", repair=False)
    assert before.whole is not interrupted
    report = sn.datasets.check(tmp_path / "a")
    assert report.whole
    assert bool(report.repaired) is interrupted
    assert steps - 1 <= report.n_steps <= steps + 1
    assert not list((tmp_path / "a").rglob("*.part"))
    assert sn.datasets.check(tmp_path / "a").repaired == []
    episode, alone = sn.datasets.open(tmp_path / "a"), box_scene()
    assert len(episode) == report.n_steps
    for step in episode:
        alone.step()
        np.testing.assert_array_equal(step["physics"], alone.get_state())


def test_a_step_that_was_not_finished_is_dropped(tmp_path):
    scene = record(tmp_path / "a", n_steps=10)
    path = tmp_path / "a" / "state" / "common" / "00000000.h5"
    part = path.with_name("00000000.h5.part")
    path.rename(part)
    path.with_suffix(".jsonl").rename(path.with_name("00000000.events.part"))
    with h5py.File(part, "r+") as file:
        file["buffers"]["physics"][7, 1, 2] += 1.0  # as if it had never reached the disk
    with pytest.raises(sn.DatasetError, match="interrupted"):
        sn.datasets.open(tmp_path / "a")
    assert sn.datasets.check(tmp_path / "a").n_steps == 7
    assert len(sn.datasets.open(tmp_path / "a")) == 7
    assert scene.n_envs == 3


def test_a_process_may_be_killed_while_it_completes_a_file(tmp_path, monkeypatch):
    """after each thing that completing a file does"""
    calls = ("write_whole", "publish", "_cut")
    for number, name in enumerate(calls):
        for after in (False, True):
            folder = tmp_path / f"{number}{after}"
            real = getattr(chunks, name)

            def killed(*arguments, real=real, after=after):
                if after:
                    real(*arguments)
                raise KeyboardInterrupt

            monkeypatch.setattr(chunks, name, killed)
            recorder = sn.datasets.Recorder(box_scene(), folder)
            recorder.record(7)
            with pytest.raises(KeyboardInterrupt):
                recorder.close()
            monkeypatch.setattr(chunks, name, real)
            report = sn.datasets.check(folder)
            assert report.whole, (name, after)
            assert report.n_steps == 7, (name, after)
            assert len(sn.datasets.open(folder)) == 7


def test_what_was_never_laid_out_is_removed(tmp_path):
    record(tmp_path / "a")
    (tmp_path / "a" / "state" / "common" / "00000012.h5.part").write_bytes(b"\x89HDF")
    report = sn.datasets.check(tmp_path / "a")
    assert report.whole
    assert report.n_steps == 12
    assert not list((tmp_path / "a").rglob("*.part"))


def test_check_leaves_a_recording_alone_while_it_is_written(tmp_path):
    scene = box_scene()
    with sn.datasets.Recorder(scene, tmp_path / "a") as recorder:
        recorder.record(3)
        with pytest.raises(sn.DatasetError, match="being written"):
            sn.datasets.check(tmp_path / "a")
        recorder.record(3)
    assert sn.datasets.check(tmp_path / "a").n_steps == 6


# -- memory and threads -----------------------------------------------------------------------------------------------


def test_a_slow_disk_holds_the_scene_back(tmp_path, monkeypatch):
    write, waiting = ChunkWriter.write, []

    def slow(self, block, events):
        time.sleep(0.01)
        write(self, block, events)

    monkeypatch.setattr(ChunkWriter, "write", slow)
    scene = box_scene()
    with sn.datasets.Recorder(scene, tmp_path / "a") as recorder:
        start = time.perf_counter()
        for _ in range(20):
            scene.step()
            recorder.step()
            waiting.append(recorder._filled.qsize())
        taken = time.perf_counter() - start
    assert max(waiting) <= 1
    assert taken > 0.01 * 17
    assert len(sn.datasets.open(tmp_path / "a")) == 20


def test_closing_leaves_no_threads(tmp_path):
    before = threading.active_count()
    record(tmp_path / "a")
    assert threading.active_count() == before


# -- a full disk ------------------------------------------------------------------------------------------------------

FULL = """
import resource, sys, sensorium as sn
from test_recording import box_scene
scene = box_scene()
recorder = sn.datasets.Recorder(scene, sys.argv[1], chunk_bytes=100_000)
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
recorder.record(1000)
"""


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small disk needs to be root")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_harms_nothing_that_was_written(small_disk):
    record(small_disk / "earlier", n_steps=10, chunk_bytes=10_000)
    earlier = {path: path.read_bytes() for path in (small_disk / "earlier").rglob("*") if path.is_file()}
    scene = box_scene()
    recorder = sn.datasets.Recorder(scene, small_disk / "a", chunk_bytes=40_000)
    with pytest.raises(sn.DatasetError, match=r"No space left on device.*[Ff]ree some space") as caught:
        recorder.record(1000)
    assert "state/common" in str(caught.value)
    scene.step()  # the scene goes on
    with pytest.raises(sn.DatasetError, match="was closed"):
        recorder.step()
    recorder.close()
    assert {path: path.read_bytes() for path in earlier} == earlier
    report = sn.datasets.check(small_disk / "a")
    assert report.whole
    assert 20 < report.n_steps < 1000
    assert len(sn.datasets.open(small_disk / "a")) == report.n_steps


def test_a_limit_on_file_size_is_a_clear_error(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "a")], capture_output=True, text=True, env=ENVIRONMENT,
        cwd=Path(__file__).parent,
    )  # fmt: skip
    assert done.returncode == 1
    assert "DatasetError: cannot write" in done.stderr
    assert "File too large" in done.stderr


# -- bad input --------------------------------------------------------------------------------------------------------


def damaged(tmp_path, **options):
    record(tmp_path / "a", chunk_bytes=10_000, **options)
    return tmp_path / "a"


def test_folders_that_are_no_recordings(tmp_path):
    with pytest.raises(sn.DatasetError, match="there is no folder"):
        sn.datasets.open(tmp_path / "nothing")
    with pytest.raises(sn.DatasetError, match=r"no recording: it has no config.json"):
        sn.datasets.open(tmp_path)
    (tmp_path / "config.json").write_text('{"name": "something else"}')
    with pytest.raises(sn.DatasetError, match="not written by Sensorium"):
        sn.datasets.open(tmp_path)
    (tmp_path / "config.json").write_text('{"format": "sensor')
    with pytest.raises(sn.DatasetError, match="cannot be read"):
        sn.datasets.open(tmp_path)
    (tmp_path / "config.json").write_text('{"format": "sensorium-episode", "version": 1}')
    with pytest.raises(sn.DatasetError, match="damaged"):
        sn.datasets.open(tmp_path)


def test_a_newer_version_is_refused(tmp_path):
    folder = damaged(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"version": 2}))
    for call in (sn.datasets.open, sn.datasets.check):
        with pytest.raises(sn.DatasetError, match=r"version 2 .* install a newer one"):
            call(folder)


def test_files_that_are_missing_truncated_foreign_or_changed(tmp_path):
    folder = damaged(tmp_path)
    paths = sorted((folder / "state" / "common").glob("*.h5"))
    assert len(paths) > 3
    whole = paths[1].read_bytes()

    paths[1].unlink()
    with pytest.raises(sn.DatasetError, match=r"the steps \d+ to \d+ are missing"):
        sn.datasets.open(folder)
    assert "are missing before it" in str(sn.datasets.check(folder))

    for data in (whole[: len(whole) // 2], b"", b"not HDF5 at all"):
        paths[1].write_bytes(data)
        with pytest.raises(sn.DatasetError, match=rf"{paths[1].name} is not a whole file"):
            sn.datasets.open(folder)
        report = sn.datasets.check(folder)
        assert not report.whole
        assert report.n_steps == int(paths[1].stem)
        assert paths[1].read_bytes() == data  # check repairs nothing by guessing

    record(tmp_path / "other", scene=box_scene(n_envs=2), chunk_bytes=10_000)
    shutil.copy(sorted((tmp_path / "other" / "state" / "common").glob("*.h5"))[1], paths[1])
    assert not sn.datasets.check(folder).whole

    paths[1].write_bytes(whole)
    assert sn.datasets.check(folder).whole
    flipped = bytearray(whole)
    with h5py.File(paths[1]) as file:
        flipped[file["buffers"]["physics"].id.get_offset() + 5] ^= 1
    paths[1].write_bytes(flipped)
    report = sn.datasets.check(folder)
    assert "is damaged" in str(report)
    assert report.n_steps == int(paths[1].stem)


def test_folders_that_are_in_use(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    scene = box_scene()
    with pytest.raises(sn.DatasetError, match="is a file"):
        sn.datasets.Recorder(scene, tmp_path / "file")
    for overwrite, match in ((False, "is not empty"), (True, "no recording")):
        with pytest.raises(sn.DatasetError, match=match):
            sn.datasets.Recorder(scene, tmp_path / "full", overwrite=overwrite)
    assert (tmp_path / "full" / "letter.txt").read_text() == "dear"
    record(tmp_path / "a", n_steps=3, scene=scene)
    record(tmp_path / "a", n_steps=5, scene=scene, overwrite=True)
    assert len(sn.datasets.open(tmp_path / "a")) == 5
    with sn.datasets.Recorder(scene, tmp_path / "b"), pytest.raises(sn.DatasetError, match="recorded already"):
        sn.datasets.Recorder(scene, tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_buffers_that_cannot_be_recorded(tmp_path):
    scene = box_scene()
    scene.add_child("odd", sn.Buffer([1, 2]))
    with pytest.raises(sn.DatasetError, match="'odd' holds list"):
        sn.datasets.Recorder(scene, tmp_path / "a")
    scene._children["odd"].value = np.zeros(3)
    recorder = sn.datasets.Recorder(scene, tmp_path / "a")
    scene.step()
    recorder.step()
    scene._children["odd"].value = np.zeros(4)
    scene.step()
    with pytest.raises(sn.DatasetError, match=r"'odd' changed its shape from \(3,\) to \(4,\)"):
        recorder.step()
    recorder.close()
    assert sn.datasets.check(tmp_path / "a").n_steps == 1


def test_two_buffers_of_one_name_are_an_error(tmp_path):
    scene = box_scene()
    scene.things = {"a.b": sn.Buffer(1.0), "a": Notes()}
    scene.things["a"].b = sn.Buffer(2.0)
    with pytest.raises(sn.TreeError, match=r"things\.a\.b"):
        sn.datasets.Recorder(scene, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_failed_start_leaves_nothing_behind(tmp_path):
    scene = sn.Scene()
    scene.add_object(sn.Box(), name="box")
    scene.build()
    with pytest.raises(sn.OptionError, match="no JSON form"):
        sn.datasets.Recorder(scene, tmp_path / "a", metadata={"scene": object()})
    assert not (tmp_path / "a").exists()
    record(tmp_path / "a", scene=scene)
