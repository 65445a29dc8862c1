"""Samples, means and random numbers of sensors on the GPU world: those of the CPU. Needs CUDA."""

import pytest
import torch

import sensorium as sn

pytestmark = pytest.mark.gpu


def fast_scene(device, n_envs=6):
    scene = sn.Scene(dt=0.02, substeps=10)
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", pos=(0, 0, 3.0), free=True)
    scene.add_sensor(sn.Clock(uuid="fast", rate=200, delay=0.008, jitter=0.006, dropout=0.1))
    scene.add_sensor(sn.Clock(uuid="slow", delay=0.04, jitter=0.04))
    scene.add_sensor(sn.IMU(link="box", uuid="imu", rate=500, acc_noise=0.1))
    scene.build(n_envs=n_envs, seed=3, device=device)
    return scene


def test_samples_at_substeps_have_the_times_of_the_cpu():
    scenes = [fast_scene(device) for device in ("cpu", "cuda")]
    for step in range(30):
        for scene in scenes:
            scene.step()
            if step == 12:
                scene.set_episodes(7, envs=[1], env_ids=4)
                scene.reset(envs=[1, 3])
        for uuid in ("fast", "slow"):
            cpu, gpu = (scene.sensors[uuid] for scene in scenes)
            torch.testing.assert_close(gpu.age().cpu(), cpu.age(), rtol=0, atol=0)
            torch.testing.assert_close(gpu.read().cpu().double(), cpu.read().double(), rtol=0, atol=1e-6)
            for got, expected in zip(gpu.read_samples(), cpu.read_samples(), strict=True):
                torch.testing.assert_close(got.cpu().double(), expected.double(), rtol=0, atol=1e-6)
        cpu, gpu = (scene.sensors["imu"].read_samples() for scene in scenes)
        assert gpu.values.lin_acc.shape == (6, 10, 3)
        torch.testing.assert_close(gpu.values.lin_acc.cpu(), cpu.values.lin_acc, rtol=0, atol=1e-4)
    assert [scene.episodes.tolist() for scene in scenes] == [[0, 7, 0, 1, 0, 0]] * 2


def test_mean_forces_add_up_to_the_change_of_momentum():
    scene = sn.Scene(dt=0.01, substeps=10)
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", pos=(0, 0, 0.6), free=True)
    force = scene.add_sensor(sn.ContactForce(link="box", window="mean"))
    scene.build(n_envs=2, device="cuda")
    impulse = 0.0
    for _ in range(120):
        scene.step()
        impulse += force.read()[0, 2].item() * 0.01
    momentum = 9.81 * 1.2 + scene.world.bind("qvel")[0, 2].item()
    assert impulse == pytest.approx(momentum, rel=5e-3)


def test_draws_of_hooks_are_those_of_the_cpu():
    from sensorium.pipeline.draws import Draws

    draw = torch.randint(-(2**31), 2**31 - 1, (2, 300), dtype=torch.int32)
    for name in ("normal", "uniform"):
        cpu = Draws(3, "n", ["a", "b"], [2, 1], draw.view(torch.uint32), False)
        gpu = Draws(3, "n", ["a", "b"], [2, 1], draw.cuda().view(torch.uint32), True)
        assert torch.equal(getattr(gpu, name)().cpu(), getattr(cpu, name)())
