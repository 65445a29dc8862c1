"""Logs of robots as datasets."""

import json

import numpy as np
import pytest

import sensorium as sn
from sensorium.datasets.episode_writer import EpisodeWriter
from sensorium.ros import McapRecorder


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    scene = sn.Scene(dt=0.01)
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", pos=(0, 0, 0.5), free=True)
    scene.add_sensor(sn.IMU(link="box", uuid="imu", rate=50.0, delay=0.02, gyro_noise=0.1))
    scene.add_sensor(
        sn.Camera(uuid="eye", pos=(0, -2, 1), lookat=(0, 0, 0.3), resolution=(64, 48), renderer="batch", rate=10.0)
    )
    scene.build(seed=1)
    with McapRecorder(scene, tmp_path_factory.mktemp("log")) as recorder:
        for _ in range(60):
            scene.step()
            recorder.step()
    return sn.logs.read(recorder.files[0])


FIELDS = {"gyro": ("/imu", "angular_velocity"), "acc": ("/imu", "linear_acceleration"), "front": ("/eye/rgb", "data")}


def test_a_log_becomes_a_dataset_with_the_values_of_a_reader(log, tmp_path):
    data = sn.datasets.from_log(log, tmp_path / "data", FIELDS, rate=20, action=("/imu", "linear_acceleration"))
    assert sn.datasets.validate(tmp_path / "data").valid
    expected = sn.logs.resample(log, FIELDS, rate=20)
    episode = data[0]
    assert episode.length == len(expected["time"]) - 1
    np.testing.assert_array_equal(episode["obs/extra/gyro"], expected["gyro"].astype(np.float32))
    np.testing.assert_allclose(episode["actions/action"], expected["acc"][1:])
    assert episode["truncated"].tolist() == [False] * (episode.length - 1) + [True]
    images = np.stack(list(episode.video("front")))
    raw = expected["front"].reshape(images.shape)
    assert np.abs(images.astype(int) - raw).mean() < 4  # a compressed video
    assert json.loads(json.dumps(episode.scene))["log"] == log.source


@pytest.mark.parametrize("name", ["lerobot", "robomimic", "mcap"])
def test_it_is_exported_like_generated_ones(log, tmp_path, name):
    sn.datasets.from_log(log, tmp_path / "data", FIELDS, rate=20, action=("/imu", "angular_velocity"), task="walk")
    out = sn.datasets.export(tmp_path / "data", name, tmp_path / name)
    assert any(out.rglob("*.parquet" if name == "lerobot" else "*.hdf5" if name == "robomimic" else "*.mcap"))


def test_mistakes_are_named(log, tmp_path):
    with pytest.raises(sn.OptionError, match=r"has no topic '/imy' \(did you mean '/imu'"):
        sn.datasets.from_log(log, tmp_path / "a", {"gyro": ("/imy", "angular_velocity")}, rate=20)
    with pytest.raises(sn.OptionError, match="fields must name"):
        sn.datasets.from_log(log, tmp_path / "a", {}, rate=20)
    assert not (tmp_path / "a").exists()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x").touch()
    with pytest.raises(sn.DatasetError, match="is not empty"):
        sn.datasets.from_log(log, tmp_path / "b", FIELDS, rate=20)
    with pytest.raises(sn.DatasetError, match="shorter than two steps"):
        sn.datasets.from_log(log, tmp_path / "c", FIELDS, rate=20, start=0.55, stop=0.58)


@pytest.mark.parametrize("method", ["__init__", "begin", "add", "close"])
def test_a_failure_leaves_no_folder(log, tmp_path, monkeypatch, method):
    """Neither the folder nor parts of it, unless the folder was there before."""

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(EpisodeWriter, method, fail)
    with pytest.raises(OSError, match="no space left"):
        sn.datasets.from_log(log, tmp_path / "a", FIELDS, rate=20)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "b").mkdir()
    with pytest.raises(OSError, match="no space left"):
        sn.datasets.from_log(log, tmp_path / "b", FIELDS, rate=20)
    assert list((tmp_path / "b").iterdir()) == []
