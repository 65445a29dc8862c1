"""``scene.step(reset=...)`` and ``sensor.read_final()``: episodes that end inside a step, on both engines."""

import gc
from typing import NamedTuple

import numpy as np
import pytest
import torch
from conftest import drop_scene

import sensorium as sn


class Built(NamedTuple):
    scene: sn.Scene
    imu: sn.sensors.Sensor
    force: sn.sensors.Sensor
    height: sn.sensors.Sensor


def build(device="cpu"):
    scene = drop_scene(height=0.4)
    imu = scene.add_sensor(sn.IMU(link="box", acc_noise=0.3, delay=0.02))
    force = scene.add_sensor(sn.ContactForce(link="box", noise=0.1, history_length=3))
    height = scene.add_sensor(sn.FramePose(link="box", pos_noise=0.01))
    scene.build(n_envs=4, seed=3, device=device)
    return Built(scene, imu, force, height)


def values(sensor):
    reading = sensor.read()
    return [reading] if isinstance(reading, torch.Tensor) else [one for one in reading if one is not None]


def final(sensor, **options):
    reading = sensor.read_final(**options)
    return [reading] if isinstance(reading, torch.Tensor) else [one for one in reading if one is not None]


ENGINES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("device", ENGINES)
def test_a_step_with_reset_is_a_step_and_a_reset(device):
    one, other = build(device), build(device)
    for step in range(30):
        ended = torch.tensor([step % 7 == 3, False, step % 5 == 0, step == 11], device=one.scene.device)
        before = {}
        one.scene.step(reset=ended)
        other.scene.step()
        for name, sensor in (("imu", other.imu), ("height", other.height)):
            before[name] = [value.clone() for value in values(sensor)]
        other.scene.reset(envs=ended)
        for ours, theirs in zip(one[1:], other[1:], strict=True):
            for a, b in zip(values(ours), values(theirs), strict=True):
                assert torch.allclose(a, b, atol=1e-5), step
        for name, sensor in (("imu", one.imu), ("height", one.height)):
            for kept, want in zip(final(sensor), before[name], strict=True):
                assert torch.allclose(kept[ended], want[ended], atol=1e-5), (step, name)
    assert torch.equal(one.scene.episodes, other.scene.episodes)


@pytest.mark.parametrize("device", ENGINES)
def test_final_readings_stay_until_the_env_is_reset_again(device):
    built = build(device)
    assert all(bool((value == 0).all()) for value in final(built.imu))
    built.scene.step(count=8)
    truth = built.force.read_ground_truth(history_length=1)[:, 0].clone()
    built.scene.step(reset=[1])
    kept = [value.clone() for value in final(built.imu)]
    assert all(bool((value[[0, 2, 3]] == 0).all()) for value in kept)
    assert bool((kept[0][1] != 0).any())
    built.scene.step(count=5)
    built.scene.reset()
    assert all(torch.equal(now, then) for now, then in zip(final(built.imu), kept, strict=True))
    assert final(built.force, ground_truth=True)[0].shape == truth.shape  # never a history
    assert torch.equal(final(built.imu, envs=[1, 1])[0], kept[0][[1, 1]])


def test_a_function_sees_what_the_step_led_to():
    built = build()
    seen = []

    def below():
        seen.append(built.scene.time.clone())
        return built.height.read_ground_truth().pos[:, 2] < 0.2

    built.scene.step(reset=below)
    steps = 1
    while not bool((built.scene.time == 0).any()):
        built.scene.step(reset=below)
        steps += 1
    # k substeps of 5 ms by the semi-implicit Euler method fall g (5 ms)^2 k (k + 1) / 2: 0.2 m in 40, that is 20 steps
    assert steps == 20
    assert torch.allclose(seen[-1], torch.tensor(0.2, dtype=seen[-1].dtype))
    assert bool((built.scene.time == 0).all())
    height = built.height.read_final(ground_truth=True).pos[:, 2]
    assert torch.allclose(height, torch.tensor(0.4 - 9.81 * 0.005**2 * 820), atol=1e-6)
    built.scene.step(count=50, reset=below)
    assert built.scene.episodes.tolist() == [3] * 4  # after 20, 40 and 60 steps


def test_wrong_envs_are_refused():
    built = build()
    with pytest.raises(sn.OptionError, match="reset: the function returned None; return ids or a boolean mask"):
        built.scene.step(reset=lambda: None)
    with pytest.raises(sn.OptionError, match=r"reset: the value of the function must be in \[0, 4\), got 4"):
        built.scene.step(reset=lambda: [4])
    assert built.scene.time.tolist() == pytest.approx([0.02] * 4)  # the steps were made
    assert built.scene.episodes.tolist() == [0] * 4


NO_IDS = "must be integer ids or a boolean mask, got"
SHAPE = r": a boolean mask must have shape \(4,\), got"
WRONG = {
    "id": ([4], r" must be in \[0, 4\), got 4"),
    "negative id": (-1, r" must be in \[0, 4\), got -1"),
    "array of ids": (np.array([0, 7]), r" must be in \[0, 4\), got 7"),
    "mask": (torch.ones(3, dtype=torch.bool), rf"{SHAPE} \(3,\)"),
    "array mask": (np.ones((4, 1), bool), rf"{SHAPE} \(4, 1\)"),
    "text": ("x", f" {NO_IDS} 'x'"),
    "number": (1.0, f" {NO_IDS} 1.0"),
    "True": (True, rf"{SHAPE} \(1,\)"),
    "numbers": (torch.ones(4), f" {NO_IDS}"),
    "sparse mask": (
        torch.ones(4, dtype=torch.bool).to_sparse(),
        " must be a dense tensor of numbers, got a sparse tensor",
    ),
    "meta": (torch.ones(4, dtype=torch.bool, device="meta"), ' must be a dense tensor .*"meta"'),
}


@pytest.mark.parametrize("device", ENGINES)
@pytest.mark.parametrize(("reset", "message"), WRONG.values(), ids=WRONG)
def test_wrong_envs_are_refused_before_the_step(reset, message, device):
    built = build(device)
    state = built.scene.get_state()
    readings = [value.clone() for sensor in built[1:] for value in values(sensor)]
    steps = built.scene.step_count
    for count in (1, 3, 0):
        with pytest.raises(sn.OptionError, match=f"^reset{message}"):
            built.scene.step(count, reset=reset)
    assert torch.equal(built.scene.get_state(), state)
    assert built.scene.step_count == steps
    now = [value for sensor in built[1:] for value in values(sensor)]
    assert all(torch.equal(a, b) for a, b in zip(now, readings, strict=True))
    built.scene.step()
    assert built.scene.time.tolist() == pytest.approx([0.01] * 4)


@pytest.mark.gpu
def test_tensors_on_a_gpu_are_checked_before_the_step():
    """Their type and shape; on the CPU engine also their values."""
    ids, shape = torch.tensor([1, 3], device="cuda"), torch.ones(3, dtype=torch.bool, device="cuda")
    for device in ("cpu", "cuda"):
        built = build(device)
        for wrong, message in ((shape, SHAPE), (ids * 1.0, f" {NO_IDS}"), (ids.view(1, 2), f" {NO_IDS}")):
            with pytest.raises(sn.OptionError, match=f"^reset{message}"):
                built.scene.step(reset=wrong)
        assert not built.scene.time.any()
        built.scene.step(reset=ids)
        assert built.scene.episodes.tolist() == [0, 1, 0, 1]
    with pytest.raises(sn.OptionError, match=r"^reset must be in \[0, 4\), got 6"):
        build("cpu").scene.step(reset=ids * 2)


@pytest.mark.parametrize("reset", [None, [1]])
def test_the_count_is_a_whole_number(reset):
    scene = build().scene
    for count in (-1, 1.0, True, "2", None, np.float64(1)):
        with pytest.raises(sn.OptionError, match=r"count must be an integer in \[0, 1000000000\], got"):
            scene.step(count, reset=reset)
    assert not scene.time.any()
    scene.step(np.int64(2), reset=reset)
    scene.step(0, reset=reset)
    assert scene.time.tolist() == pytest.approx([0.02, 0.02 if reset is None else 0, 0.02, 0.02])


def test_cameras_have_no_final_reading():
    scene = drop_scene()
    camera = scene.add_sensor(sn.Camera(link="box", resolution=(8, 8)))
    scene.build()
    with pytest.raises(sn.OptionError, match=r"read_final\(\) on .* a Camera keeps no samples"):
        camera.read_final()


@pytest.mark.parametrize("device", ENGINES)
def test_a_mask_that_the_reset_changes(device):
    """The mask is a view of a reading, which the reset of its own sensor overwrites."""
    seen = []

    class Sees(sn.SceneModule):
        def attach(self, scene, name):
            pass

        def on_reset(self, envs):
            seen.append(envs.clone())

    scene = drop_scene(height=0.2)
    scene.add_module("sees", Sees())
    contact = scene.add_sensor(sn.Contact(link="box", substeps=True))
    height = scene.add_sensor(sn.FramePose(link="box"))
    scene.build(n_envs=2, device=device)
    start = height.read().pos[:, 2].clone()
    while not bool(contact.read().any()):
        scene.step()
    assert (height.read().pos[:, 2] < start).all()
    scene.step(reset=lambda: contact.read()[:, 0])
    assert torch.equal(height.read().pos[:, 2], start)
    assert seen[-1].tolist() == [True, True]


@pytest.mark.parametrize("kind", ["tensor", "array"])
@pytest.mark.parametrize("device", ENGINES)
def test_a_mask_is_read_anew_after_each_of_several_steps(kind, device):
    class Clears(sn.SceneModule):
        def attach(self, scene, name):
            pass

        def on_reset(self, envs):
            done[:] = False

    scene = drop_scene(height=0.4)
    scene.add_module("clears", Clears())
    scene.build(n_envs=2, device=device)
    done = torch.tensor([True, False], device=scene.device) if kind == "tensor" else np.array([True, False])
    scene.step(count=3, reset=done)
    assert scene.episodes.tolist() == [1, 0]
    assert scene.time.tolist() == pytest.approx([0.02, 0.03])


@pytest.mark.parametrize("device", ENGINES)
@pytest.mark.parametrize("call", ["step", "reset"])
def test_a_mask_that_a_module_clears(call, device):
    done = torch.tensor([True, False])

    class Clears(sn.SceneModule):
        def attach(self, scene, name):
            pass

        def on_reset(self, envs):
            done.zero_()

    scene = drop_scene(height=0.4)
    height = scene.add_sensor(sn.FramePose(link="box", pos_noise=0.01))
    scene.add_module("clears", Clears())
    scene.build(n_envs=2, device=device)
    done = torch.tensor([True, False], device=scene.device)
    for _ in range(10):
        scene.step()
    if call == "step":
        scene.step(reset=done)
    else:
        getattr(scene, call)(done)
    assert torch.allclose(height.read_ground_truth().pos[:, 2], scene.entities["box"].get_pose()[0][:, 2].float())
    assert height.read_ground_truth().pos[0, 2] == pytest.approx(0.4)
    assert height.read_ground_truth().pos[1, 2] < 0.39


@pytest.mark.parametrize("device", ENGINES)
def test_all_steps_and_resets_are_made_before_a_failure_is_raised(device):
    scene = build(device).scene
    velocity = scene.world.bind("qvel")
    scene.step(5)
    start = scene.world.bind("time").clone()
    velocity[2] = float("nan")

    def fails():
        scene.step(10, reset=[1])
        scene.check()  # on a GPU, failures are reported late

    with pytest.raises(sn.DivergenceError) as caught:
        fails()
    assert 2 in caught.value.envs
    passed = scene.world.bind("time") - start
    dt = scene.dt
    assert torch.allclose(passed[[0, 3]], torch.full_like(passed[:2], 10 * dt))
    assert scene.world.bind("time")[1] == 0


def test_final_readings_are_a_view_from_the_first_call_on():
    built = build()
    shown = built.height.read_final().pos
    assert (shown == 0).all()
    built.scene.step(reset=[0, 1, 2, 3])
    assert torch.equal(shown, built.height.read_final().pos)
    assert (shown[:, 2] > 0.3).all()


@pytest.mark.gpu
def test_a_step_with_reset_keeps_to_its_own_memory():
    """What decides on the device whether to copy the last readings stays allocated as long as the graph."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device on this machine")
    built = build("cuda")
    ended = torch.tensor([True, False, False, False], device="cuda")
    built.scene.step(reset=ended)
    gc.collect()
    others = [torch.full((1,), 7, dtype=torch.int32, device="cuda") for _ in range(5000)]
    for _ in range(3):
        built.scene.step(reset=ended)
        built.scene.step(reset=~ended)
    assert bool((torch.cat(others) == 7).all())
