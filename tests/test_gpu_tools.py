"""Plots, snapshots, traces, states, recordings and the viewer of a scene on a GPU."""

import urllib.request
import warnings

import numpy as np
import pytest
import torch
from conftest import ARM, drop_scene
from gl import needs_gl

import sensorium as sn

pytestmark = pytest.mark.gpu


@pytest.fixture
def built():
    scene = drop_scene(height=0.3)
    scene.add_sensor(sn.IMU(link="box", uuid="imu", acc_noise=0.1))
    scene.add_sensor(sn.FramePose(link="box", uuid="pose", history_length=4))
    scene.build(n_envs=3, seed=1, device="cuda")
    scene.step(count=5)
    yield scene
    scene.close()


def test_plots_and_traces_are_drawn(built, tmp_path):
    for uuid in ("imu", "pose"):
        built.sensors[uuid].plot(env=2, path=tmp_path / f"{uuid}.png")
    trace = sn.Trace(built.sensors["imu"], env=1)
    for _ in range(3):
        built.step()
        trace.take()
    trace.plot(tmp_path / "trace.png")
    assert {path.name for path in tmp_path.iterdir()} == {"imu.png", "pose.png", "trace.png"}


@needs_gl
def test_snapshots_show_the_env(built):
    before = built.snapshot(env=1, width=64, height=48)
    built["box"].set_pose(pos=[0.0, 0.0, 1.0], envs=[1])
    built.forward(envs=[1])
    after = built.snapshot(env=1, width=64, height=48)
    assert before.shape == (48, 64, 3)
    assert not np.array_equal(before, after)


def test_states_and_recordings_hold_the_envs(built, tmp_path):
    state = built.get_state()
    assert state.shape[0] == 3
    assert bool(torch.isfinite(state).all())
    with sn.recording.Recorder(built, tmp_path / "run") as recorder:
        for _ in range(4):
            built.step()
            recorder.step()
        last = built.sensors["imu"].read().lin_acc.cpu().clone()
    recording = sn.recording.Recording(tmp_path / "run")
    assert len(recording) == 4
    assert np.allclose(recording[3]["imu.measured"][:, :3], last.numpy(), atol=1e-6)


def test_a_recording_holds_every_step_as_it_was(built, tmp_path):
    friction = built.world.expand("geom_friction")
    counter = sn.Buffer(np.zeros(2))
    built.add_child("counter", counter)
    expected = []
    with sn.recording.Recorder(built, tmp_path / "run") as recorder:
        for step in range(12):
            built.step()
            counter.value[:] = step
            if step % 3 == 0:
                friction[:, 0, 0] = 0.5 + 0.01 * step
            if step == 7:
                built.reset(envs=[1])
            recorder.step()
            names = ("imu.measured", "pose.measured", "physics", "box.position", "world.geom_friction", "counter")
            held = dict(built.named_buffers())
            values = {name: held[name].value for name in names if name in held}
            # on the device: a copy to the host would wait until the recorder's copies are made
            expected.append(
                {
                    name: value.clone() if isinstance(value, torch.Tensor) else value.copy()
                    for name, value in values.items()
                }
            )
            friction[:, 0, 1] += 0.001  # belongs to the next step
            built.world.bind("qvel")[:, 0] += 0.01
    recording = sn.recording.Recording(tmp_path / "run")
    assert len(recording) == 12
    assert len(expected[0]) == 6
    for step, values in enumerate(expected):
        found = recording[step]
        for name, value in values.items():
            own = value.cpu().numpy() if isinstance(value, torch.Tensor) else value
            assert np.array_equal(found[name], own), (step, name)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
def test_recorder_and_trace_do_not_wait_for_the_device(built, tmp_path):
    built.world.expand("geom_friction")
    trace = sn.Trace(built.sensors["imu"], built.sensors["pose"], env=1)
    with sn.recording.Recorder(built, tmp_path / "run") as recorder:
        for _ in range(3):
            built.step()
            recorder.step()
            trace.take()
        torch.cuda.synchronize()
        height = built["box"].get_pose()[0][1, 2].item()
        busy = torch.cuda.Event()
        torch.cuda._sleep(2_000_000_000)  # about a second
        busy.record()
        try:
            with warnings.catch_warnings(action="ignore"):  # torch says that it does not see every kind of waiting
                torch.cuda.set_sync_debug_mode("error")
            built.step()
            recorder.step()
            trace.take()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert not busy.query()  # the device has not come to the step
    recording = sn.recording.Recording(tmp_path / "run")
    assert len(recording) == 4
    assert recording[3]["box.position"][1, 2] < height
    assert trace.times == pytest.approx([0.06, 0.07, 0.08, 0.09])
    measured, _ = trace.values(built.sensors["pose"])["pos"]
    assert measured.shape == (4, 4, 3)
    assert np.allclose(measured[3][0], recording[3]["pose.measured"][1, :3], atol=1e-6)


def test_the_viewer_serves_the_scene(built):
    pytest.importorskip("viser")
    viewer = built.view()
    try:
        built.step()
        with urllib.request.urlopen(viewer.address, timeout=20) as page:
            assert page.status == 200
    finally:
        viewer.close()


def test_env_states_are_those_of_the_cpu():
    def arm_and_box(device):
        scene = drop_scene(height=0.3)
        scene.add_object(ARM, name="arm", pos=(1.0, 0.0, 0.0))
        scene.build(n_envs=3, device=device)
        return scene

    scene, other = arm_and_box("cuda"), arm_and_box("cpu")
    velocity = scene.world.bind("qvel")
    velocity.copy_(torch.linspace(0.5, 1.0, velocity.numel(), device=scene.device).view_as(velocity))
    scene.step(count=20)
    other.set_state(scene.get_state().cpu().double())
    ours, theirs = (sn.suites.env_states(one).read() for one in (scene, other))
    assert ours["actors"].keys() == theirs["actors"].keys() == {"plane", "box", "arm"}
    assert ours["articulations"].keys() == theirs["articulations"].keys() == {"arm"}
    for kind, atol in (("actors", 1e-4), ("articulations", 1e-5)):
        for name, value in ours[kind].items():
            assert value.dtype == np.float32
            assert value.shape == theirs[kind][name].shape
            assert np.allclose(value, theirs[kind][name], atol=atol), name
    assert abs(ours["actors"]["box"][:, 7:10]).max() > 0.1  # it moves
    assert abs(ours["actors"]["box"][:, 10:]).max() > 0.1  # and turns
    suite = sn.SensorSuite(3, [sn.suites.env_states(scene)])
    scene.step()
    assert not np.array_equal(suite.read()["env_states"]["actors"]["box"], ours["actors"]["box"])
