"""Replay with replaced, added and removed sensors, and the warnings where it is not exact."""

import json
import warnings

import numpy as np
import pytest
from conftest import drop_scene
from damage import edited_chunk, edited_config

import sensorium as sn
from sensorium.cli import main
from sensorium.recording.events import events_checksum
from sensorium.recording.replay import ReplayOptions, replay
from sensorium.robots import RigSensor, SensorRig

RING = {"kind": "RingPattern", "n_points": 12}
RIG = SensorRig(
    sensors=(
        RigSensor(name="imu", type="IMU", options={"acc_noise": 0.1, "gyro_random_walk": 0.01, "delay": 0.02}),
        RigSensor(name="lidar", type="Lidar", options={"pattern": RING, "noise": 0.01}),
    )
)


def drive(folder, robots=("robot",), n_steps=12):
    scene = sn.Scene(dt=0.01, substeps=2)
    scene.add_object(sn.Plane(), name="ground")
    scene.add_object(sn.Box(size=(0.2, 2, 1)), name="wall", pos=(2, 0, 0.5))
    for number, name in enumerate(robots):
        scene.add_robot("diffdrive", name=name, rig=RIG, pos=(0, number, 0))
    scene.build(n_envs=2, seed=3)
    with sn.recording.Recorder(scene, folder) as recorder:
        for step in range(n_steps):
            for name in robots:
                scene[name].act([0.5, 0.3])
            if step == 5:
                for name in robots:
                    scene[name].rig["imu"].set(acc_noise=0.4)
            scene.step()
            recorder.step()
    scene.close()
    return sn.datasets.open(folder)


@pytest.fixture(scope="module")
def driven(tmp_path_factory):
    return drive(tmp_path_factory.mktemp("driven") / "a")


@pytest.mark.parametrize("uuid", ["robot_imu", "imu"])
def test_rig_sensor_is_replaced(driven, tmp_path, uuid):
    file = tmp_path / "suite.json"
    file.write_text(json.dumps([{"type": "IMU", "uuid": uuid, "link": "robot/base"}]))
    assert main(["replay", str(driven.folder), "--out", str(tmp_path / "b"), "--sensors", str(file)]) == 0
    seen = sn.datasets.open(tmp_path / "b")
    assert seen.names == driven.names  # the new sensor has the place of the old one
    for step in range(len(driven)):
        now, then = seen[step], driven[step]
        np.testing.assert_array_equal(now["robot.rig.imu.measured"], now["robot.rig.imu.ground_truth"])
        assert not np.array_equal(then["robot.rig.imu.measured"], then["robot.rig.imu.ground_truth"])
        for name in set(driven.names) - {"robot.rig.imu.measured"}:
            np.testing.assert_array_equal(now[name], then[name], err_msg=f"{name} of step {step}")
    scene = seen.build_scene()
    assert scene.sensors["robot_imu"].options.acc.noise == 0
    assert scene["robot"].rig["imu"] is scene.sensors["robot_imu"]
    again = replay(tmp_path / "b", tmp_path / "c")  # changes of the old sensor do not apply to the new one
    np.testing.assert_array_equal(again[11]["robot.rig.imu.measured"], seen[11]["robot.rig.imu.measured"])


def test_ambiguous_rig_sensor_name_raises(tmp_path):
    drive(tmp_path / "a", robots=("red", "blue"), n_steps=2)
    with pytest.raises(sn.OptionError, match=r"several sensors.*'?red_imu'?, '?blue_imu'?"):
        replay(tmp_path / "a", tmp_path / "b", ReplayOptions(sensors=(sn.IMU(uuid="imu", link="red/base"),)))
    twice = (sn.IMU(uuid="red_imu", link="red/base"),) * 2
    with pytest.raises(sn.OptionError, match="two of the sensors replace 'red_imu'"):
        replay(tmp_path / "a", tmp_path / "b", ReplayOptions(sensors=twice))
    new = (sn.IMU(uuid="extra", link="red/base"),) * 2
    with pytest.raises(sn.OptionError, match="two of the sensors have the uuid 'extra'"):
        replay(tmp_path / "a", tmp_path / "b", ReplayOptions(sensors=new))
    assert not (tmp_path / "b").exists()


def test_only_sensors_removes_the_recorded_ones(driven, tmp_path):
    file = tmp_path / "suite.json"
    file.write_text(json.dumps([{"type": "FramePose", "uuid": "pose", "link": "robot/base"}]))
    words = ["replay", str(driven.folder), "--out", str(tmp_path / "b"), "--sensors", str(file), "--only-sensors"]
    assert main(words) == 0
    seen = sn.datasets.open(tmp_path / "b")
    assert not [name for name in seen.names if ".rig." in name]
    assert {name.split(".")[0] for name in seen.names} >= {"pose", "robot", "physics"}
    scene = seen.build_scene()
    assert list(scene.sensors) == ["pose"]
    assert scene["robot"].rig.names == []
    np.testing.assert_array_equal(seen[9]["robot.position"], driven[9]["robot.position"])
    scene.load_state_dict(seen.read_state_dict(9))


@pytest.mark.parametrize("only", [False, True])
def test_recorded_changes_are_not_applied_to_a_replacement(driven, tmp_path, only):
    """A lidar has no option acc_noise."""
    lidar = sn.Lidar(uuid="robot_imu", link="robot/base", pattern=sn.RingPattern(n_points=5))
    seen = replay(driven.folder, tmp_path / "b", ReplayOptions(sensors=(lidar,), only_sensors=only))
    assert seen[11]["robot.rig.imu.measured"].shape == (2, 20)
    assert ("robot.rig.lidar.measured" in seen.names) is not only
    assert len(replay(tmp_path / "b", tmp_path / "c")) == 12


def sign(events):
    """Update the checksums of the steps after a change of their events file."""
    with edited_chunk(events.with_suffix(".h5")) as file:
        checks = file["check"][()]
        for line in events.read_bytes().splitlines():
            row = json.loads(line)["row"]
            checks[row] = int(checks[row]) & ~(0x7FFFFFFF << 32) | events_checksum(line) << 32
        file["check"][...] = checks


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ('"acc_noise"', '"acc_nose"', r"step 5 calls set\(acc_nose=...\) of the sensor 'robot_imu'"),
        ('"method": "set"', '"method": "_detach"', r"step 5 calls _detach\(\)"),
    ],
)
def test_impossible_changes_raise_before_anything_is_written(tmp_path, old, new, match):
    drive(tmp_path / "a", n_steps=8)
    events = tmp_path / "a" / "state" / "common" / "00000000.jsonl"
    events.write_text(events.read_text().replace(old, new))
    sign(events)
    with pytest.raises(sn.DatasetError, match=match):
        replay(tmp_path / "a", tmp_path / "b")
    assert not (tmp_path / "b").exists()


# -- limits of exactness ----------------------------------------------------------------------------------------------


def falling(folder):
    scene = drop_scene()
    scene.add_sensor(sn.IMU(link="box", uuid="imu", gyro_random_walk=0.1))
    scene.build(n_envs=2, seed=1)
    with sn.recording.Recorder(scene, folder) as recorder:
        recorder.record(12)
    scene.close()


def test_replay_of_a_replay_with_interval_warns(tmp_path):
    falling(tmp_path / "a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen = replay(tmp_path / "a", tmp_path / "b", ReplayOptions(interval=3))
    with pytest.warns(UserWarning, match="only one step in 3 of .*replay the original recording"):
        again = replay(tmp_path / "b", tmp_path / "c")
    np.testing.assert_array_equal(again[3]["box.position"], seen[3]["box.position"])
    assert not np.array_equal(again[3]["imu.measured"], seen[3]["imu.measured"])


def test_replay_on_another_device_warns(tmp_path):
    falling(tmp_path / "a")
    with edited_config(tmp_path / "a") as config:
        config["scene"]["device"] = "cuda"
    with pytest.warns(UserWarning, match="recorded on cuda and is replayed on cpu.*not to the bit"):
        seen = replay(tmp_path / "a", tmp_path / "b", ReplayOptions(device="cpu"))
    assert seen.config["scene"]["device"] == "cpu"


# -- scenes -----------------------------------------------------------------------------------------------------------


class Station(sn.SceneModule):
    """A module that holds sensors as an attribute, in a list and in a dict."""

    def attach(self, scene, name):
        self.first = scene.add_sensor(sn.IMU(link="box", uuid="first"))
        self.listed = [scene.add_sensor(sn.IMU(link="box", uuid=f"listed_{number}")) for number in range(2)]
        self.named = {"left": scene.add_sensor(sn.IMU(link="box", uuid="left"))}


def paths(scene):
    uuids = {id(sensor): uuid for uuid, sensor in scene.sensors.items()}
    return {path: uuids[id(module)] for path, module in scene.named_modules() if id(module) in uuids}


def test_sensors_are_removed_and_replaced_anywhere_in_the_tree():
    scene = drop_scene()
    scene.add_module("station", Station())
    scene.add_sensor(sn.IMU(link="box", uuid="own"))
    places = paths(scene)
    for uuid in ("first", "listed_1", "left", "own"):
        pose = scene.replace_sensor(uuid, sn.FramePose(link="box", uuid="another"))
        assert scene.sensors[uuid] is pose
    assert paths(scene) == places
    for uuid in ("first", "listed_0", "left"):
        scene.remove_sensor(uuid)
    with pytest.raises(sn.errors.NameNotFoundError, match="did you mean 'listed_1'"):
        scene.remove_sensor("listed_0")
    with pytest.raises(sn.OptionError, match="replace_sensor takes"):
        scene.replace_sensor("own", "IMU")
    assert paths(scene) == {"station.listed.1": "listed_1", "own": "own"}
    scene.build(n_envs=2)
    again = sn.Scene.from_contents(json.loads(json.dumps(scene.contents)), {"substeps": 2})
    again.build(n_envs=2)
    assert list(again.state_dict()) == list(scene.state_dict())
    with pytest.raises(sn.errors.AlreadyBuiltError):
        scene.remove_sensor("own")


# -- replacing a replay -----------------------------------------------------------------------------------------------


def test_replaced_replay_is_kept_until_the_new_one_has_a_frame(driven, tmp_path, monkeypatch):
    from sensorium.recording.replay_job import ReplayJob

    replay(driven.folder, tmp_path / "b")
    before = {path: path.read_bytes() for path in (tmp_path / "b").rglob("*") if path.is_file()}

    def fail(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ReplayJob, "run", fail)
        with pytest.raises(KeyboardInterrupt):
            replay(driven.folder, tmp_path / "b", ReplayOptions(interval=2), overwrite=True)
    assert {path: path.read_bytes() for path in (tmp_path / "b").rglob("*") if path.is_file()} == before
    with pytest.raises(sn.DatasetError, match="not empty"):
        replay(driven.folder, tmp_path / "b", ReplayOptions(interval=2))
    assert len(replay(driven.folder, tmp_path / "b", ReplayOptions(interval=2), overwrite=True)) == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b"]


def test_sensor_changes_before_and_after_a_restart_are_replayed(tmp_path):
    """Sensors start with the values set before the restart, and continue with those set after it."""
    for number, (before, after) in enumerate(
        [
            ({"acc_bias_spread": 1.0}, {"acc_bias_spread": 2.0}),
            ({"acc_noise": 1.0}, {"acc_noise": 0.0}),
            ({"acc_bias": 1.0, "envs": [0]}, {"acc_bias": 2.0}),
        ]
    ):
        scene = drop_scene()
        imu = scene.add_sensor(sn.IMU(link="box", uuid="imu", acc_bias_spread=0.0, delay=0.03))
        scene.build(n_envs=3)
        scene.step(2)
        imu.set(**before)
        scene.reset()
        imu.set(**after)
        with sn.recording.Recorder(scene, tmp_path / f"a{number}") as recorder:
            recorder.record(5)
        assert_replays_exactly(tmp_path / f"a{number}", tmp_path / f"b{number}")


def test_sensor_changes_by_masks_of_many_envs_are_replayed(tmp_path):
    scene = drop_scene()
    imu = scene.add_sensor(sn.IMU(link="box", uuid="imu"))
    scene.build(n_envs=1500)
    scene.step()
    ids = [7]
    for env, bias in ((500, 1.0), (600, 2.0)):
        mask = np.zeros(1500, bool)
        mask[env] = True
        imu.set(acc_bias=bias, envs=mask)
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        imu.set(acc_bias=3.0, envs=ids)
        ids.append(8)  # changing the list later has no effect
        recorder.record(2)
    assert_replays_exactly(tmp_path / "a", tmp_path / "b")


def test_journal_drops_overwritten_changes():
    scene = drop_scene()
    imu = scene.add_sensor(sn.IMU(link="box"))
    scene.build(n_envs=8)
    rng = np.random.default_rng(0)
    for _ in range(300):
        imu.set(acc_bias=float(rng.normal()), envs=rng.random(8) < 0.3)
        imu.set(gyro_noise=float(rng.random()))
    assert len(list(scene._journal._changes)) <= 8 + 1


def test_second_recording_keeps_sensor_changes_of_the_first(tmp_path):
    scene = drop_scene()
    imu = scene.add_sensor(sn.IMU(link="box", uuid="imu", acc_noise=0.1, delay=0.02))
    scene.build(n_envs=2, seed=3)
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        for _ in range(3):
            scene.step()
            imu.set(acc_noise=5.0)  # after the step, and noted as such
            recorder.step()
    scene.reset()
    read = []
    with sn.recording.Recorder(scene, tmp_path / "b") as recorder:
        for _ in range(6):
            scene.step()
            recorder.step()
            read.append(imu.read().lin_acc.clone())
    recording = sn.datasets.open(tmp_path / "b")
    again = replay(tmp_path / "b", tmp_path / "c", ReplayOptions())
    for step in range(6):
        assert np.array_equal(again[step]["imu.measured"], recording[step]["imu.measured"])
        assert np.array_equal(recording[step]["imu.measured"][:, :3], read[step].numpy())


def test_unrecorded_steps_issue_a_warning(tmp_path):
    scene = drop_scene()
    scene.add_sensor(sn.IMU(link="box"))
    scene.build()
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        scene.step()
        recorder.step()
        scene.step(3)
        with pytest.warns(UserWarning, match=r"2 step\(s\) of the scene were not recorded"):
            recorder.step()


def assert_replays_exactly(source, out):
    then, now = sn.datasets.open(source), replay(source, out)
    for step in range(len(then)):
        for name in then.names:
            np.testing.assert_array_equal(now[step][name], then[step][name], err_msg=f"{name} of step {step}")
