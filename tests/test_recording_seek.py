"""Rebuilt scenes: model fields per env, seeking to a step, and held envs."""

import contextlib

import numpy as np
import pytest
import torch
from test_recording import Notes, box_scene, record

import sensorium as sn

# -- model fields per env ---------------------------------------------------------------------------------------------


def test_model_fields_per_env_are_recorded_and_replayed(tmp_path):
    """Masses from the start, gravity from a later step on, and masses that change again."""
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
    assert (state[1:] - state[:-1]).abs().max() > 1e-3  # the envs differ
    assert (
        sum(path.stat().st_size for path in (tmp_path / "a").rglob("*.jsonl")) < 60_000
    )  # stored only where they change
    recording = sn.datasets.open(tmp_path / "a")
    assert "world.opt.gravity" not in recording[11]
    assert recording[12]["world.opt.gravity"][8, 0] == 3
    assert recording[24:26]["world.body_mass"][:, 3, -1].tolist() == [recording[0]["world.body_mass"][3, -1], 7.0]

    again = recording.build_scene()
    np.testing.assert_array_equal(again.world.expanded["body_mass"], recording[0]["world.body_mass"])
    again.step(12)
    np.testing.assert_array_equal(again.get_state(), recording[11]["physics"])
    again.load_state_dict(recording.read_state_dict(30))
    again.write_replay_data()
    again.step(9)
    np.testing.assert_array_equal(again.get_state(), state)

    other = recording.build_scene()
    for step in (0, 11, 12, 25, 39):
        recording.seek(other, step)
        assert torch.equal(other.sensors["imu"].read().lin_acc, readings[step])
    seen = sn.recording.replay(tmp_path / "a", tmp_path / "b", sn.recording.ReplayOptions(interval=3))
    for frame in (3, 13):
        for name, value in recording[3 * frame].items():
            np.testing.assert_array_equal(seen[frame][name], value, err_msg=name)


def test_model_fields_per_env_can_be_excluded(tmp_path):
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


def test_seek_restores_sensors_forwards_and_backwards(tmp_path):
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
    recording = sn.datasets.open(tmp_path / "a")
    again = recording.build_scene()
    for step in (20, 24, 7, 31, -1):  # forwards and backwards
        recording.seek(again, step)
        assert torch.equal(again.sensors["imu"].read().lin_acc, seen[step])
        np.testing.assert_array_equal(again.get_state(), recording[step]["physics"])
    recording.seek(again, 30)
    for step in range(31, 40):  # they continue as recorded
        again.step()
        assert torch.equal(again.sensors["imu"].read().lin_acc, seen[step])
    recording.seek(again, 34)  # from the start: the scene has moved since
    assert torch.equal(again.sensors["imu"].read().lin_acc, seen[34])


def test_seek_before_a_sensor_change_raises(tmp_path):
    scene = box_scene()
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        recorder.record(5)
        scene.sensors["imu"].set(acc_noise=3.0)
        recorder.record(5)
    recording = sn.datasets.open(tmp_path / "a")
    again = recording.build_scene()
    recording.seek(again, 8)
    with pytest.raises(sn.DatasetError, match=r"sensors were changed before step 8.*build_scene"):
        recording.seek(again, 3)
    np.testing.assert_array_equal(again.get_state(), recording[8]["physics"])


# -- held envs --------------------------------------------------------------------------------------------------------


ROD = """
<mujoco><worldbody><body name="rod" pos="0 0 1"><joint name="hinge" axis="0 1 0" damping="0.1"/>
<geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.03"/></body></worldbody>
<actuator><motor name="m" joint="hinge"/></actuator></mujoco>
"""


@pytest.mark.parametrize("how", ["held", "diverged"])
def test_held_and_diverged_envs_are_retraced_and_stay_held(tmp_path, how):
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
    recording = sn.datasets.open(tmp_path / "a")
    again = recording.build_scene()
    tracer = sn.recording.Retracer(recording, again)
    for step in range(14):
        tracer.to(step)
        for uuid in ("imu", "torque"):
            seen, recorded = again.sensors[uuid].measured.value, recording[step][f"{uuid}.measured"]
            np.testing.assert_array_equal(seen.numpy(), recorded, err_msg=f"{uuid} at step {step}")
    for at in (5, 7):
        other = recording.build_scene()
        recording.seek(other, at)
        other.step(2)
        np.testing.assert_allclose(other.time, recording[at + 2]["physics"][:, 0])
