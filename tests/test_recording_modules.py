"""Recordings of modules that only the recording program can create, and the files of a replay."""

import re
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.recording import Recorder, Recording, ReplayOptions, Retracer, replay


class Counter(sn.Module):
    """A module outside the physics: numbers, text, and buffers in containers."""

    def __init__(self, n_envs=2):
        self.count = sn.Buffer(torch.zeros(n_envs), {"mine"})
        self.word = sn.Buffer("a", {"mine"})
        self.cells = {"k": [sn.Buffer(torch.zeros(n_envs, 2), {"mine"})]}
        self.written = []

    def _write_replay_data(self):
        self.written.append(float(self.count.value[0]))


def make_scene():
    scene = sn.Scene()
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2)), name="box", pos=(0, 0, 0.5), free=True)
    scene.add_sensor(sn.IMU(link="box", uuid="imu", acc_noise=0.1))
    scene.add_sensor(sn.Camera(uuid="front", pos=(1.5, 0.3, 0.6), lookat=(0, 0, 0.3), resolution=(32, 24)))
    scene.build(n_envs=2)
    return scene


@pytest.fixture
def recorded(tmp_path):
    """A recording with a module, a buffer of a scene, and a buffer of an entity that are not in its contents."""
    scene = make_scene()
    scene.counter = Counter()
    scene.mood = sn.Buffer(None, {"mine"})
    scene["box"].note = sn.Buffer(torch.zeros(2), {"mine"})
    with Recorder(scene, tmp_path / "a") as recorder:
        for step in range(6):
            scene.step()
            scene.counter.count.value[:] = step
            scene.counter.word.value = f"word {step}"
            scene.counter.cells["k"][0].value[:] = step
            scene["box"].note.value[:] = 10 + step
            recorder.step()
    return Recording(tmp_path / "a")


MINE = {"counter.count", "counter.word", "counter.cells.k.0", "mood", "box.note"}


def test_buffers_of_own_modules_are_read(recorded):
    values = recorded.read_state_dict(3, include_tags=["mine"])
    assert set(values) == MINE
    assert values["counter.word"] == "word 3"
    assert values["counter.count"].tolist() == [3, 3]
    assert set(recorded.read_state_dict_common(3)) == set(recorded.read_state_dict(3)) == set(recorded.names)


@pytest.mark.parametrize("how", ["attribute", "child", "not at all"])
def test_own_modules_are_restored_by_load_state_dict(recorded, how):
    scene = recorded.build_scene()
    counter = Counter()
    if how == "attribute":
        scene.counter = counter
    elif how == "child":
        scene.add_child("counter", counter)
    assert scene.load_state_dict(recorded.read_state_dict(4)) == {}
    scene.write_replay_data()
    np.testing.assert_array_equal(scene.get_state(), recorded[4]["physics"])
    state = scene.state_dict(include_tags=["mine"])
    assert set(state) == MINE
    assert state["counter.word"] == "word 4"
    assert state["counter.cells.k.0"].tolist() == [[4, 4], [4, 4]]
    assert state["box.note"].tolist() == [14, 14]
    assert counter.written == ([] if how == "not at all" else [4.0])
    assert how == "not at all" or counter.count.value.tolist() == [4, 4]


def test_own_modules_are_restored_by_seek_and_replay(recorded, tmp_path):
    scene = recorded.build_scene()
    recorded.seek(scene, 2)
    assert scene.state_dict(include_tags=["mine"])["counter.word"] == "word 2"
    own = recorded.build_scene()
    own.counter = Counter()
    Retracer(recorded, own).to(3)
    assert own.counter.written == [0.0, 1.0, 2.0, 3.0]
    seen = replay(recorded.folder, tmp_path / "b")
    assert set(seen.names) == set(recorded.names)
    for step in range(6):
        for name, value in recorded[step].items():
            np.testing.assert_array_equal(seen[step][name], value, err_msg=name)
    twice = replay(tmp_path / "b", tmp_path / "c")
    assert twice[5]["counter.word"] == "word 5"


def test_sensors_that_replay_removes_are_not_restored(recorded, tmp_path):
    options = ReplayOptions(sensors=(sn.FramePose(link="box", uuid="pose"),), only_sensors=True)
    names = replay(recorded.folder, tmp_path / "b", options).names
    assert "imu.measured" not in names
    assert {"pose.measured", *MINE} <= set(names)


def test_the_documented_files_are_those_that_are_written(recorded, tmp_path):
    kinds = ("rgb", "depth", "segmentation", "instance", "normals")
    replay(recorded.folder, tmp_path / "b", ReplayOptions(images=kinds))
    page = (Path(__file__).parent.parent / "docs" / "record_replay.md").read_text()
    block = re.search(r"## Files\n\n```\n(.*?)```", page, re.DOTALL).group(1)
    patterns = [line.split()[0].rstrip(",") for line in block.splitlines()]
    globs = []
    for pattern in patterns:
        wild = re.sub(r"\d{2,}", "[0-9]*", pattern.replace("NAME", "*"))
        globs.append(wild + "*" if wild.endswith("/") else wild)
    globs += [glob.replace("depth/", f"{kind}/") for glob in globs if glob.startswith("depth/") for kind in kinds[2:]]
    written = {
        path.relative_to(folder).as_posix()
        for folder in (recorded.folder, tmp_path / "b")
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }
    assert not [name for name in written if not any(fnmatch(name, glob) for glob in globs)]
    optional = ("occupancy_map/", "assets/")
    assert not [
        glob for glob in globs if not glob.startswith(optional) and not any(fnmatch(name, glob) for name in written)
    ]
