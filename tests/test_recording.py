"""Recording: the files match the simulation, and the scene is rebuilt from them."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time

import h5py
import numpy as np
import pytest
import torch
from conftest import drop_scene
from test_catalogue import EVERY

import sensorium as sn
from sensorium.recording.chunk import ChunkWriter
from sensorium.worlds.contents import decode, encode

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


class Notes(sn.Module):
    """A user module with buffers of every kind."""

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


def test_recording_folder_layout(tmp_path):
    record(tmp_path / "a", n_steps=5, metadata={"who": "me"}, chunk_bytes=1)
    files = sorted(str(path.relative_to(tmp_path / "a")) for path in (tmp_path / "a").rglob("*") if path.is_file())
    steps = [f"state/common/{number:08d}.{kind}" for number in range(5) for kind in ("h5", "jsonl")]
    assert files == ["config.json", "scene.xml", *steps]
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    assert config["format"] == "sensorium-episode"
    assert config["version"] == 3
    assert config["scene"]["seed"] == 5
    assert config["scene"]["n_envs"] == 3
    assert set(config["versions"]) == {
        *("sensorium", "mujoco", "torch", "numpy", "h5py", "av", "gymnasium", "python", "machine")
    }
    with h5py.File(tmp_path / "a" / "state" / "common" / "00000002.h5") as file:
        assert set(file["buffers"]) == {field["name"] for field in config["fields"]}
        assert file["buffers"]["box.position"].shape == (1, 3, 3)
        assert file["buffers"]["physics"].dtype == np.float64
    assert sn.datasets.open(tmp_path / "a").metadata == {"who": "me"}


def test_every_buffer_of_every_step_is_recorded(tmp_path):
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
    recording = sn.datasets.open(tmp_path / "a")
    assert len(recording) == len(list(recording)) == 30
    assert len(list((tmp_path / "a" / "state" / "common").glob("*.h5"))) > 2
    for step, expected in enumerate(seen):
        read = recording[step]
        assert list(read) == sorted(expected, key=list(read).index)
        for name, value in expected.items():
            np.testing.assert_array_equal(read[name], value, err_msg=f"{name} of step {step}")
            assert type(read[name]) is (np.ndarray if isinstance(value, torch.Tensor) else type(value)), name
    part = recording[3:23:5]
    assert set(part) == set(recording.names)
    assert part["notes.text"] == [seen[step]["notes.text"] for step in range(3, 23, 5)]
    assert part["notes.nothing"] == [None] * 4
    assert recording.column("notes.text") == [step["notes.text"] for step in seen]


def test_reading_text_takes_constant_time(tmp_path):
    scene = box_scene(n_envs=1)
    scene.add_child("notes", Notes())
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        for step in range(1500):
            scene._children["notes"].text.value = f"step {step}"
            recorder.step()
    recording = sn.datasets.open(tmp_path / "a")
    first, last = [], []
    for times, index in [(first, 0), (last, 1499)] * 5:
        start = time.perf_counter()
        for _ in range(50):
            assert recording[index]["notes.text"] == f"step {index}"
        times.append(time.perf_counter() - start)
    assert min(last) < 4 * min(first)  # scanning all lines would take about 100 times as long


def test_reading_steps_slices_columns_and_tags(tmp_path):
    record(tmp_path / "a", chunk_bytes=10_000)
    recording = sn.datasets.open(tmp_path / "a")
    np.testing.assert_array_equal(recording[-1]["physics"], recording[11]["physics"])
    part = recording[3:11:2]
    assert part["imu.measured"].shape == (4, 3, *recording[0]["imu.measured"].shape[1:])
    np.testing.assert_array_equal(part["imu.measured"][1], recording[5]["imu.measured"])
    np.testing.assert_array_equal(
        recording.column("box.position"), np.stack([step["box.position"] for step in recording])
    )
    assert set(recording.read_state_dict(0, include_tags=["imu"])) == {"imu.measured", "imu.ground_truth"}
    assert "imu.measured" not in recording.read_state_dict(0, exclude_tags=["measured"])
    np.testing.assert_allclose(recording.column("physics")[:, 0, 0], 0.01 * np.arange(1, 13))  # the first is the time
    with pytest.raises(IndexError, match="has 12 steps"):
        recording[12]
    with pytest.raises(sn.OptionError, match=r"exclude_tags: .* tag 'dpth' .did you mean 'depth'"):
        sn.recording.Recorder(box_scene(), tmp_path / "b", exclude_tags=["dpth"])
    with pytest.raises(sn.OptionError, match=r"write exclude_tags=\['depth'\]"):
        sn.recording.Recorder(box_scene(), tmp_path / "b", exclude_tags="depth")
    assert not (tmp_path / "b").exists()
    with pytest.raises(sn.OptionError, match="did you mean 'imu'"):
        recording.read_state_dict(0, include_tags=["imuu"])
    with pytest.raises(sn.errors.NameNotFoundError, match=r"did you mean 'imu.measured'"):
        recording.column("imu.mesured")
    with pytest.raises(sn.errors.NameNotFoundError, match="sensorium replay"):
        recording.read_rgb("front", 0)


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
def test_sensor_options_round_trip_through_json(name):
    options = EVERY[name]
    again = decode(json.loads(json.dumps(encode(options))))
    assert again == options
    assert again.model_fields_set == options.model_fields_set


def test_decode_does_not_import_modules():
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


@pytest.mark.slow
def test_scene_is_rebuilt_from_the_folder_alone(tmp_path):
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
        recording = sn.datasets.open({str(tmp_path / "elsewhere")!r})
        scene = recording.build_scene()
        scene.load_state_dict(recording.read_state_dict(39))
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


def test_loaded_state_equals_the_recorded_state(tmp_path):
    scene = box_scene()
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        recorder.record(20)
    recording = sn.datasets.open(tmp_path / "a")
    again = recording.build_scene()
    again.load_state_dict(recording.read_state_dict(12))
    again.write_replay_data()
    np.testing.assert_array_equal(again.get_state(), recording[12]["physics"])
    again.step(7)
    np.testing.assert_array_equal(again.get_state(), recording[19]["physics"])
    np.testing.assert_allclose(again.time, 0.2)


# -- memory and threads -----------------------------------------------------------------------------------------------


def test_slow_disk_blocks_the_recorder(tmp_path, monkeypatch):
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
            waiting.append(recorder._queue.qsize())
        taken = time.perf_counter() - start
    assert max(waiting) <= 1
    assert taken > 0.01 * 17
    assert len(sn.datasets.open(tmp_path / "a")) == 20


def test_close_ends_all_threads(tmp_path):
    before = threading.active_count()
    record(tmp_path / "a")
    assert threading.active_count() == before
