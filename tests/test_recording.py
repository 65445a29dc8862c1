"""Recording: what is on disk is what was there, whatever happens to the process or the disk."""

import contextlib
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

import av
import h5py
import numpy as np
import pytest
import torch
from conftest import drop_scene
from test_catalogue import EVERY

import sensorium as sn
from sensorium.recording import chunk as chunks
from sensorium.recording import media
from sensorium.recording.chunk import ChunkWriter
from sensorium.recording.colour import to_frame
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
    with sn.recording.Recorder(scene, folder, **options) as recorder:
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
    assert config["version"] == 2
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
    with sn.recording.Recorder(scene, tmp_path / "a", chunk_bytes=20_000) as recorder:
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
    part = episode[3:23:5]
    assert set(part) == set(episode.names)
    assert part["notes.text"] == [seen[step]["notes.text"] for step in range(3, 23, 5)]
    assert part["notes.nothing"] == [None] * 4
    assert episode.column("notes.text") == [step["notes.text"] for step in seen]


def test_text_takes_no_longer_to_read_where_there_is_more_of_it(tmp_path):
    scene = box_scene(n_envs=1)
    scene.add_child("notes", Notes())
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        for step in range(1500):
            scene._children["notes"].text.value = f"step {step}"
            recorder.step()
    episode = sn.datasets.open(tmp_path / "a")
    first, last = [], []
    for times, index in [(first, 0), (last, 1499)] * 5:
        start = time.perf_counter()
        for _ in range(50):
            assert episode[index]["notes.text"] == f"step {index}"
        times.append(time.perf_counter() - start)
    assert min(last) < 4 * min(first)  # walking through the lines before would take a hundred times as long


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
    with pytest.raises(sn.OptionError, match=r"exclude_tags: .* tag 'dpth' .did you mean 'depth'"):
        sn.recording.Recorder(box_scene(), tmp_path / "b", exclude_tags=["dpth"])
    with pytest.raises(TypeError, match="list of tags"):
        sn.recording.Recorder(box_scene(), tmp_path / "b", exclude_tags="depth")
    assert not (tmp_path / "b").exists()
    with pytest.raises(sn.OptionError, match="did you mean 'imu'"):
        episode.read_state_dict(0, include_tags=["imuu"])
    with pytest.raises(sn.NameNotFoundError, match=r"did you mean 'imu.measured'"):
        episode.column("imu.mesured")
    with pytest.raises(sn.NameNotFoundError, match="sensorium replay"):
        episode.read_rgb("front", 0)


def test_recording_does_not_change_the_simulation(tmp_path):
    recorded, bare = box_scene(n_envs=9), box_scene(n_envs=9)
    with sn.recording.Recorder(recorded, tmp_path / "a") as recorder:
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
    with pytest.raises(sn.OptionError, match="not a subclass of Options"):
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
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
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
with sn.recording.Recorder(scene, sys.argv[1], chunk_bytes=100_000) as recorder:
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
    before = sn.recording.check(tmp_path / "a", repair=False)
    assert before.whole is not interrupted
    report = sn.recording.check(tmp_path / "a")
    assert report.whole
    assert bool(report.repaired) is interrupted
    assert steps - 1 <= report.n_steps <= steps + 1
    assert not list((tmp_path / "a").rglob("*.part"))
    assert sn.recording.check(tmp_path / "a").repaired == []
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
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    assert config.pop("n_steps") == 10  # which a process that was killed has not written
    (tmp_path / "a" / "config.json").write_text(json.dumps(config))
    with h5py.File(part, "r+") as file:
        file["buffers"]["physics"][7, 1, 2] += 1.0  # as if it had never reached the disk
    with pytest.raises(sn.DatasetError, match="interrupted"):
        sn.datasets.open(tmp_path / "a")
    assert sn.recording.check(tmp_path / "a").n_steps == 7
    assert len(sn.datasets.open(tmp_path / "a")) == 7
    assert scene.n_envs == 3


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("name", "call"), [("publish", 1), ("publish", 2), ("_cut", 1)])
def test_a_process_may_be_killed_while_it_completes_a_file(tmp_path, monkeypatch, name, call, after):
    """before and after each thing that completing a file does"""
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
    report = sn.recording.check(tmp_path / "a")
    assert report.whole
    assert report.n_steps == 7
    assert len(sn.datasets.open(tmp_path / "a")) == 7


def test_what_was_never_laid_out_is_removed(tmp_path):
    record(tmp_path / "a")
    (tmp_path / "a" / "state" / "common" / "00000012.h5.part").write_bytes(b"\x89HDF")
    report = sn.recording.check(tmp_path / "a")
    assert report.whole
    assert report.n_steps == 12
    assert not list((tmp_path / "a").rglob("*.part"))


def test_check_leaves_a_recording_alone_while_it_is_written(tmp_path):
    scene = box_scene()
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        recorder.record(3)
        with pytest.raises(sn.DatasetError, match="being written"):
            sn.recording.check(tmp_path / "a")
        recorder.record(3)
    assert sn.recording.check(tmp_path / "a").n_steps == 6


# -- memory and threads -----------------------------------------------------------------------------------------------


def test_a_slow_disk_holds_the_scene_back(tmp_path, monkeypatch):
    write, waiting = ChunkWriter.write, []

    def slow(self, block, events):
        time.sleep(0.01)
        write(self, block, events)

    monkeypatch.setattr(ChunkWriter, "write", slow)
    scene = box_scene()
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
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
        pytest.skip("mounting a small disk needs to be root")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_harms_nothing_that_was_written(small_disk):
    record(small_disk / "earlier", n_steps=10, chunk_bytes=10_000)
    earlier = {path: path.read_bytes() for path in (small_disk / "earlier").rglob("*") if path.is_file()}
    scene = box_scene()
    room = shutil.disk_usage(small_disk).free
    recorder = sn.recording.Recorder(
        scene, small_disk / "a", chunk_bytes=room * 6 // 10
    )  # there is no room for a second
    with pytest.raises(sn.DatasetError, match=r"No space left on device.*[Ff]ree some space") as caught:
        recorder.record(1000)
    assert "state/common" in str(caught.value)
    assert "errno" not in str(caught.value)  # HDF5 says more than anybody wants to know
    scene.step()  # the scene goes on
    with pytest.raises(sn.DatasetError, match="was closed"):
        recorder.step()
    recorder.close()
    assert {path: path.read_bytes() for path in earlier} == earlier
    report = sn.recording.check(small_disk / "a")
    assert report.whole
    assert report.repaired == []
    assert len(sn.datasets.open(small_disk / "a")) == report.n_steps
    # it was written until there was no room for the smallest file
    smallest = chunks._SLACK + 1024 * len(recorder._row.fields) + recorder._row.n_bytes
    assert shutil.disk_usage(small_disk).free < 1.5 * smallest


def test_a_limit_on_file_size_is_a_clear_error(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "a")], capture_output=True, text=True, env=ENVIRONMENT,
        cwd=Path(__file__).parent,
    )  # fmt: skip
    assert done.returncode == 1
    assert "DiskFullError: cannot write" in done.stderr
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
    (folder / "config.json").write_text(json.dumps(config | {"version": 3}))
    for call in (sn.datasets.open, sn.recording.check):
        with pytest.raises(sn.DatasetError, match=r"version 3 .* install a newer one"):
            call(folder)


def test_files_that_are_missing_truncated_foreign_or_changed(tmp_path):
    folder = damaged(tmp_path)
    paths = sorted((folder / "state" / "common").glob("*.h5"))
    assert len(paths) > 3
    whole = paths[1].read_bytes()

    paths[1].unlink()
    with pytest.raises(sn.DatasetError, match=r"the steps \d+ to \d+ are missing"):
        sn.datasets.open(folder)
    assert "are missing before it" in str(sn.recording.check(folder))

    half = len(whole) // 2
    for data in (whole[:half], b"", b"not HDF5 at all"):
        paths[1].write_bytes(data)
        with pytest.raises(sn.DatasetError, match=rf"{paths[1].name} is not a whole file"):
            sn.datasets.open(folder)
        report = sn.recording.check(folder)
        assert not report.whole
        assert report.n_steps == int(paths[1].stem)
        assert paths[1].read_bytes() == data  # check repairs nothing by guessing

    record(tmp_path / "other", scene=box_scene(n_envs=2), chunk_bytes=10_000)
    shutil.copy(sorted((tmp_path / "other" / "state" / "common").glob("*.h5"))[1], paths[1])
    assert not sn.recording.check(folder).whole

    paths[1].write_bytes(whole)
    assert sn.recording.check(folder).whole
    flipped = bytearray(whole)
    with h5py.File(paths[1]) as file:
        flipped[file["buffers"]["physics"].id.get_offset() + 5] ^= 1
    paths[1].write_bytes(flipped)
    report = sn.recording.check(folder)
    assert "is damaged" in str(report)
    assert report.n_steps == int(paths[1].stem)


def test_folders_that_are_in_use(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    scene = box_scene()
    with pytest.raises(sn.DatasetError, match="is a file"):
        sn.recording.Recorder(scene, tmp_path / "file")
    for overwrite, match in ((False, "is not empty"), (True, "no recording")):
        with pytest.raises(sn.DatasetError, match=match):
            sn.recording.Recorder(scene, tmp_path / "full", overwrite=overwrite)
    assert (tmp_path / "full" / "letter.txt").read_text() == "dear"
    record(tmp_path / "a", n_steps=3, scene=scene)
    record(tmp_path / "a", n_steps=5, scene=scene, overwrite=True)
    assert len(sn.datasets.open(tmp_path / "a")) == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "file", "full"]
    with sn.recording.Recorder(scene, tmp_path / "b"), pytest.raises(sn.DatasetError, match="recorded already"):
        sn.recording.Recorder(scene, tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_buffers_that_cannot_be_recorded(tmp_path):
    scene = box_scene()
    scene.add_child("odd", sn.Buffer([1, 2]))
    with pytest.raises(sn.DatasetError, match="'odd' holds list"):
        sn.recording.Recorder(scene, tmp_path / "a")
    scene._children["odd"].value = np.zeros(3)
    recorder = sn.recording.Recorder(scene, tmp_path / "a")
    scene.step()
    recorder.step()
    scene._children["odd"].value = np.zeros(4)
    scene.step()
    with pytest.raises(sn.DatasetError, match=r"'odd' changed its shape from \(3,\) to \(4,\)"):
        recorder.step()
    recorder.close()
    assert sn.recording.check(tmp_path / "a").n_steps == 1


def test_two_buffers_of_one_name_are_an_error(tmp_path):
    scene = box_scene()
    scene.things = {"a.b": sn.Buffer(1.0), "a": Notes()}
    scene.things["a"].b = sn.Buffer(2.0)
    with pytest.raises(sn.TreeError, match=r"things\.a\.b"):
        sn.recording.Recorder(scene, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_failed_start_leaves_nothing_behind(tmp_path):
    scene = sn.Scene()
    scene.add_object(sn.Box(), name="box")
    scene.build()
    with pytest.raises(sn.OptionError, match="no JSON form"):
        sn.recording.Recorder(scene, tmp_path / "a", metadata={"scene": object()})
    assert not (tmp_path / "a").exists()
    record(tmp_path / "a", scene=scene)


# -- a recording that takes the place of another ----------------------------------------------------------------------


def whole_folder(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_recording_is_replaced_when_there_is_a_step(tmp_path, monkeypatch):
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
        raise sn.DatasetError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(ChunkWriter, "write", full)
        recorder = sn.recording.Recorder(scene, tmp_path / "a", overwrite=True)
        with pytest.raises(sn.DatasetError, match="no room"):
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
    recorder._place.keep = lambda: os.kill(os.getpid(), signal.SIGKILL)
    recorder.record(3)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("steps", ["none", "one"])
def test_a_process_may_be_killed_while_it_replaces_a_recording(tmp_path, steps):
    record(tmp_path / "a", n_steps=3)
    earlier = whole_folder(tmp_path / "a")
    command = [sys.executable, "-c", REPLACING, str(tmp_path / "a"), steps]
    subprocess.run(command, env=ENVIRONMENT, cwd=Path(__file__).parent)
    assert len(list(tmp_path.iterdir())) == 2
    assert not sn.recording.check(tmp_path / "a", repair=False).whole
    report = sn.recording.check(tmp_path / "a")
    assert report.whole, report
    assert report.repaired
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    if steps == "none":
        assert whole_folder(tmp_path / "a") == earlier
    else:
        assert report.n_steps == 1


def test_a_recording_that_had_just_begun_can_be_replaced(tmp_path, monkeypatch):
    """its process was killed before config.json was there"""
    record(tmp_path / "whole")
    (tmp_path / "a" / "state" / "common").mkdir(parents=True)
    shutil.copy(tmp_path / "whole" / "scene.xml", tmp_path / "a")
    report = sn.recording.check(tmp_path / "a")
    assert not report.whole
    assert "was begun and has no step" in str(report)
    with pytest.raises(sn.DatasetError, match=r"begun and has no step.*--overwrite"):
        sn.datasets.open(tmp_path / "a")
    with pytest.raises(sn.DatasetError, match="is not empty"):
        record(tmp_path / "a")
    record(tmp_path / "a", n_steps=4, overwrite=True)
    assert sn.recording.check(tmp_path / "a").n_steps == 4
    (tmp_path / "b" / "state" / "common").mkdir(parents=True)
    (tmp_path / "b" / "letter.txt").write_text("dear")
    with pytest.raises(sn.DatasetError, match="no recording"):
        record(tmp_path / "b", overwrite=True)
    assert (tmp_path / "b" / "letter.txt").exists()


# -- what check finds -------------------------------------------------------------------------------------------------


def test_check_misses_files_of_the_scene(tmp_path):
    (tmp_path / "stone.xml").write_text(
        STONE.replace('<include file="parts/joint.xml"/>', "").replace("</mujoco>", PARTS.removeprefix("<mujoco>"))
    )
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "stone.obj").write_text(MESH)
    scene = sn.Scene()
    scene.add_object(tmp_path / "stone.xml", name="stone")
    scene.build()
    record(tmp_path / "a", scene=scene)
    assert sn.recording.check(tmp_path / "a").whole
    mesh = next((tmp_path / "a" / "assets").rglob("stone.obj"))
    config = tmp_path / "a" / "config.json"
    now = json.loads(config.read_text())
    for form in (now, {key: value for key, value in now.items() if key != "files"} | {"version": 1}):
        config.write_text(json.dumps(form))
        mesh.unlink()
        assert "stone.obj" in str(sn.recording.check(tmp_path / "a"))
        mesh.write_text(MESH)
        assert sn.recording.check(tmp_path / "a").whole
    config.write_text(json.dumps(now))
    mesh.write_text(MESH.replace("1", "2", 1))
    assert "stone.obj was changed" in str(sn.recording.check(tmp_path / "a"))


@pytest.mark.parametrize(
    "damage", [lambda text: b"", lambda text: text[:-9], lambda text: text + text, lambda text: b"{"]
)
def test_check_finds_damaged_events(tmp_path, damage):
    record(tmp_path / "a")
    path = tmp_path / "a" / "state" / "common" / "00000000.jsonl"
    path.write_bytes(damage(path.read_bytes()))
    report = sn.recording.check(tmp_path / "a")
    assert "00000000.jsonl was changed or truncated" in str(report)
    assert report.n_steps == 0
    assert "run `sensorium check" not in str(report)  # which is what was run
    with pytest.raises(sn.DatasetError, match="sensorium check"):
        sn.datasets.open(tmp_path / "a")


@pytest.mark.parametrize("key", ["dt", "fields", "others", "metadata", "scene.n_envs", "scene.contents"])
def test_check_finds_what_the_configuration_does_not_say(tmp_path, key):
    record(tmp_path / "a")
    path = tmp_path / "a" / "config.json"
    config = json.loads(path.read_text())
    *above, name = key.split(".")
    (config[above[0]] if above else config).pop(name)
    path.write_text(json.dumps(config))
    assert f"config.json does not say '{key}'" in str(sn.recording.check(tmp_path / "a"))
    with pytest.raises(sn.DatasetError, match=f"does not say '{key}'"):
        sn.datasets.open(tmp_path / "a")


def test_check_finds_values_that_changed_places(tmp_path):
    record(tmp_path / "a")
    with h5py.File(tmp_path / "a" / "state" / "common" / "00000000.h5", "r+") as file:
        data = file["buffers"]["physics"]
        data[5] = np.roll(data[5], 1, axis=1)
    assert "step 5 is damaged" in str(sn.recording.check(tmp_path / "a"))


def test_recordings_of_the_first_version_are_read(tmp_path):
    record(tmp_path / "a")
    path = tmp_path / "a" / "state" / "common" / "00000000.h5"
    with h5py.File(path, "r+") as file:  # its sums were of 64-bit words
        row = chunks._row_of(file)
        for index in range(len(file["check"])):
            block = np.zeros(row.n_bytes, np.uint8)
            for array, name in zip(row.arrays(block), file["buffers"], strict=True):
                array[...] = file["buffers"][name][index]
            words = block.view(np.uint64)
            file["check"][index] = np.uint64(1 << 63) | np.add.reduce(words) ^ (
                np.bitwise_xor.reduce(words) >> np.uint64(1)
            )
        del file.attrs["version"]
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    del config["files"], config["n_steps"]
    (tmp_path / "a" / "config.json").write_text(json.dumps(config | {"version": 1}))
    assert sn.recording.check(tmp_path / "a").whole
    assert len(sn.datasets.open(tmp_path / "a")) == 12
    path.rename(path.with_name("00000000.h5.part"))
    path.with_suffix(".jsonl").rename(path.with_name("00000000.events.part"))
    with h5py.File(path.with_name("00000000.h5.part"), "r+") as file:
        file["buffers"]["physics"][9, 1, 2] += 1.0
    assert sn.recording.check(tmp_path / "a").n_steps == 9
    assert sn.recording.check(tmp_path / "a").whole


FRAMES = np.random.default_rng(0).integers(0, 255, (20, 24, 32, 3), np.uint8)


@pytest.mark.parametrize("size", [(24, 32), (25, 32), (24, 31)])
def test_colour_is_what_ffmpeg_makes_of_it(size):
    noise = np.random.default_rng(0).integers(0, 256, (*size, 3)).astype(np.uint8)
    corners = np.stack(np.meshgrid(*[[0, 255]] * 3), -1).reshape(2, 4, 3).repeat(12, 0).repeat(8, 1).astype(np.uint8)
    for image in (noise, corners[: size[0], : size[1]]):
        ours = to_frame(image)
        form = "yuv444p" if image.shape[0] % 2 or image.shape[1] % 2 else "yuv420p"
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
        theirs = av.video.reformatter.VideoReformatter().reformat(frame, format=form, interpolation="AREA")
        assert ours.format.name == form
        apart = ours.to_ndarray().astype(int) - theirs.to_ndarray().astype(int)
        assert np.abs(apart).max() <= 1  # they round otherwise


@pytest.mark.parametrize("kind", ["rgb", "depth"])
def test_damaged_images_are_found(tmp_path, kind):
    frames = FRAMES if kind == "rgb" else FRAMES[..., 0].astype(np.float32)
    about = {**media.KINDS[kind], "kind": kind, "shape": list(frames.shape[1:]), "dtype": str(frames.dtype), "fps": 10}
    path = tmp_path / f"a{about['file']}"
    writer = media.writer(path, about)
    for number, frame in enumerate(frames):
        writer.write(frame, key=number % 12 == 0)
    writer.close()
    media.finish(path, about, len(frames))
    whole = path.read_bytes()
    assert media.verify(path, 2) == 20
    if kind == "rgb":
        with av.open(str(path)) as video:
            assert video.metadata["comment"] == "codec: h264, unit: sRGB, scale: 1.0"
    else:
        with h5py.File(path) as file:
            assert dict(file["frames"].attrs) == {"codec": "hdf5-shuffle-gzip", "unit": "m", "scale": 1.0}
            np.testing.assert_array_equal(file["frames"], frames)
    for place in np.linspace(0.2, 0.8, 7):
        damaged = bytearray(whole)
        damaged[int(place * len(whole))] ^= 16
        path.write_bytes(damaged)
        with pytest.raises(sn.DatasetError, match="replay"):
            media.verify(path, 2)
    half = len(whole) // 2
    for data in (
        whole[:half],
        b"",
        whole[:-1],
        whole[:half] + bytes(255 - byte for byte in whole[half : half + 200]) + whole[half + 200 :],
    ):
        path.write_bytes(data)
        with pytest.raises(sn.DatasetError, match="replay"):
            media.verify(path, 2)
    if kind == "rgb":
        path.write_bytes(whole[: -media._BOX.size])  # as of version 1: it is decoded
        assert media.verify(path, 1) == 20
        path.write_bytes((whole[:5000] + b"\0" * 2000 + whole[7000:])[: -media._BOX.size])
        with pytest.raises(sn.DatasetError, match="replay"):
            media.verify(path, 1)


# -- values per env ---------------------------------------------------------------------------------------------------


def test_fields_that_differ_per_env_are_recorded(tmp_path):
    """masses from the start, gravity from a later step on, and masses that change once more"""
    scene = box_scene(n_envs=9)
    rng = np.random.default_rng(1)
    scene.world.expand("body_mass")[:, -1] = torch.from_numpy(rng.uniform(0.5, 3, 9))
    scene.world.update_constants()
    readings = []
    with sn.recording.Recorder(scene, tmp_path / "a", chunk_bytes=30_000) as recorder:
        for step in range(40):
            if step == 12:
                scene.world.expand("opt.gravity")[:, 0] = torch.linspace(0, 3, 9)
            if step == 25:
                scene.world.expand("body_mass")[3, -1] = 7.0
                scene.world.update_constants([3])
            scene.step()
            recorder.step()
            readings.append(scene.sensors["imu"].read().lin_acc.clone())
    state = scene.get_state()
    assert (state[1:] - state[:-1]).abs().max() > 1e-3  # envs do differ
    assert sum(path.stat().st_size for path in (tmp_path / "a").rglob("*.jsonl")) < 60_000  # kept where they change
    episode = sn.datasets.open(tmp_path / "a")
    assert "world.opt.gravity" not in episode[11]
    assert episode[12]["world.opt.gravity"][8, 0] == 3
    assert episode[24:26]["world.body_mass"][:, 3, -1].tolist() == [episode[0]["world.body_mass"][3, -1], 7.0]

    again = episode.build_scene()
    np.testing.assert_array_equal(again.world.expanded["body_mass"], episode[0]["world.body_mass"])
    again.step(12)
    np.testing.assert_array_equal(again.get_state(), episode[11]["physics"])
    again.load_state_dict(episode.read_state_dict(30))
    again.write_replay_data()
    again.step(9)
    np.testing.assert_array_equal(again.get_state(), state)

    other = episode.build_scene()
    for step in (0, 11, 12, 25, 39):
        episode.seek(other, step)
        assert torch.equal(other.sensors["imu"].read().lin_acc, readings[step])
    seen = sn.recording.replay(tmp_path / "a", tmp_path / "b", sn.recording.ReplayOptions(interval=3))
    for frame in (3, 13):
        for name, value in episode[3 * frame].items():
            np.testing.assert_array_equal(seen[frame][name], value, err_msg=name)


def test_fields_that_differ_per_env_may_be_left_out(tmp_path):
    scene = box_scene()
    with sn.recording.Recorder(scene, tmp_path / "a", exclude_tags=[*sn.recording.IMAGE_TAGS, "pose"]) as recorder:
        recorder.record(2)
        scene.world.expand("body_mass")
        recorder.record(2)
    names = sn.datasets.open(tmp_path / "a").names
    assert "world.body_mass" in names
    assert "box.position" not in names
    record(tmp_path / "b", scene=scene, exclude_tags=["model"])
    assert "world.body_mass" not in sn.datasets.open(tmp_path / "b").names


def test_a_scene_is_brought_to_a_step_with_its_sensors(tmp_path):
    scene = box_scene()
    scene.add_child("notes", Notes())
    seen = []
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        for step in range(40):
            if step == 20:
                scene.reset([1])
            scene.step()
            recorder.step()
            seen.append(scene.sensors["imu"].read().lin_acc.clone())
    episode = sn.datasets.open(tmp_path / "a")
    again = episode.build_scene()
    for step in (20, 24, 7, 31, -1):  # forwards and back
        episode.seek(again, step)
        assert torch.equal(again.sensors["imu"].read().lin_acc, seen[step])
        np.testing.assert_array_equal(again.get_state(), episode[step]["physics"])
    episode.seek(again, 30)
    for step in range(31, 40):  # and they go on as they did
        again.step()
        assert torch.equal(again.sensors["imu"].read().lin_acc, seen[step])
    episode.seek(again, 34)  # from the start: it was somewhere else
    assert torch.equal(again.sensors["imu"].read().lin_acc, seen[34])


def test_going_back_needs_sensors_that_were_not_changed(tmp_path):
    scene = box_scene()
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        recorder.record(5)
        scene.sensors["imu"].set(acc_noise=3.0)
        recorder.record(5)
    episode = sn.datasets.open(tmp_path / "a")
    again = episode.build_scene()
    episode.seek(again, 8)
    with pytest.raises(sn.DatasetError, match=r"changed before step 8.*build_scene"):
        episode.seek(again, 3)
    np.testing.assert_array_equal(again.get_state(), episode[8]["physics"])


# -- envs that stand still --------------------------------------------------------------------------------------------

ROD = """
<mujoco><worldbody><body name="rod" pos="0 0 1"><joint name="hinge" axis="0 1 0" damping="0.1"/>
<geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.03"/></body></worldbody>
<actuator><motor name="m" joint="hinge"/></actuator></mujoco>
"""


@pytest.mark.parametrize("how", ["held", "diverged"])
def test_envs_that_stand_still_are_retraced_and_go_on_standing(tmp_path, how):
    scene = sn.Scene(dt=0.01)
    scene.add_robot(ROD, name="arm")
    scene.add_sensor(sn.IMU(link="rod", pos=(0.4, 0, 0), uuid="imu", delay=0.02))
    scene.add_sensor(sn.JointTorque(robot="arm", uuid="torque"))
    scene.build(n_envs=3)
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        for step in range(14):
            push = np.full((3, 1), 0.1 * step)
            if step == 5 and how == "held":
                scene.hold([1])
            if step == 5 and how == "diverged":
                push[1] = 1e14
            if step == 10:
                scene.reset(envs=[1])
            scene["arm"].set_ctrl(push)
            with contextlib.suppress(sn.DivergenceError):
                scene.step()
            recorder.step()
    episode = sn.datasets.open(tmp_path / "a")
    again = episode.build_scene()
    tracer = sn.recording.Retracer(episode, again)
    for step in range(14):
        tracer.to(step)
        for uuid in ("imu", "torque"):
            seen, recorded = again.sensors[uuid].measured.value, episode[step][f"{uuid}.measured"]
            np.testing.assert_array_equal(seen.numpy(), recorded, err_msg=f"{uuid} at step {step}")
    for at in (5, 7):
        other = episode.build_scene()
        episode.seek(other, at)
        other.step(2)
        np.testing.assert_allclose(other.time, episode[at + 2]["physics"][:, 0])


def test_steps_that_are_missing_at_the_end_are_told(tmp_path):
    record(tmp_path / "a", n_steps=30, chunk_bytes=4000)
    files = sorted((tmp_path / "a" / "state" / "common").glob("*.h5"))
    assert len(files) > 2
    first = int(files[-1].stem)
    files[-1].unlink()
    report = sn.recording.check(tmp_path / "a")
    assert not report.whole
    assert f"the steps {first} to 29 are missing at the end" in str(report)
    with pytest.warns(UserWarning, match=f"the steps {first} to 29 that were recorded are missing at the end"):
        assert len(sn.datasets.open(tmp_path / "a")) == first
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    del config["n_steps"]  # as where the process was killed: then the events of a file tell
    (tmp_path / "a" / "config.json").write_text(json.dumps(config))
    report = sn.recording.check(tmp_path / "a")
    assert f"{first:08d}.jsonl has no file of steps" in str(report)
    files[-1].with_suffix(".jsonl").unlink()
    assert sn.recording.check(tmp_path / "a").whole
