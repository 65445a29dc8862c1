"""Changes of lights, colours and cameras during an episode, on the GPU. Needs CUDA, and is skipped without it."""

import numpy as np
import pytest
import torch
from conftest import arm_scene

import sensorium as sn

pytestmark = pytest.mark.gpu


def lit_scene(device="cuda", n_envs=6):
    """Return a built scene with a light, a camera and an IMU that has delay, drift and history."""
    scene = arm_scene(substeps=2)
    scene.add_object(sn.Box(size=(0.1, 4, 4), rgba=(1, 1, 1, 1)), name="wall", pos=(3, 0, 1))
    scene.add_light("directional", name="sun", direction=(1, 0, -0.2))
    imu = scene.add_sensor(
        sn.IMU(link="lower", delay=0.03, jitter=0.025, acc_noise=0.1, acc_random_walk=0.5, history_length=5)
    )
    view = {"pos": (0, 0, 1), "lookat": (3, 0, 1), "resolution": (32, 24), "hfov": 60}
    camera = scene.add_sensor(sn.Camera(uuid="eye", renderer="batch", **view))
    scene.build(n_envs=n_envs, device=device, seed=1)
    scene.step(count=10)
    return scene, imu, camera


CHANGES = {
    "color": lambda scene: scene.set_color("wall", (1, 0.1, 0.1), envs=[1, 4]),
    "colors": lambda scene: scene.set_color("wall", torch.tensor([[1, 0, 0], [0, 1, 0.0]]).cuda(), envs=[1, 4]),
    "light": lambda scene: scene.set_light("sun", intensity=[0.1, 0.2], envs=[1, 4]),
    "direction": lambda scene: scene.set_light("sun", lookat=(3, 5, 1), pos=(2.5, 0, 1), envs=[1, 4]),
    "ids on the device": lambda scene: scene.set_color("wall", (1, 0.1, 0.1), envs=torch.tensor([1, 4]).cuda()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_images_of_named_envs_change_and_sensors_continue(change):
    scene, imu, camera = lit_scene()
    images, before, ages = camera.read().rgb.clone(), [each.clone() for each in imu.read()], imu.age().clone()
    CHANGES[change](scene)
    differs = (camera.read().rgb != images).flatten(1).any(1)
    assert differs.tolist() == [env in (1, 4) for env in range(6)]
    for mine, theirs in zip(imu.read(), before, strict=True):
        assert torch.equal(mine, theirs)
    assert torch.equal(imu.age(), ages)
    scene.step()
    for mine, theirs in zip(imu.read(), before, strict=True):
        assert torch.equal(mine[:, 1:], theirs[:, :-1])  # a restart would fill the history with one reading
    assert bool((imu.age() > 0.025).all())


def test_images_after_changes_are_those_of_the_cpu():
    scenes = [lit_scene(device) for device in ("cpu", "cuda")]
    for scene, _, camera in scenes:
        scene.set_color("wall", (0.2, 0.4, 1), envs=[2])
        scene.set_light("sun", color=(1, 0.5, 0.2), direction=(1, 0.5, 0), envs=[3])
        camera.set_intrinsics(hfov=40, envs=[4])
        camera.attach("upper", offset=np.array([0, 0, 0.2, 0.5, 0.5, -0.5, -0.5]), envs=[5])
        camera.attach("upper", offset=np.eye(4), envs=[1])
        camera.detach(envs=[1])
    one, other = (camera.read().rgb.cpu().int() for _, _, camera in scenes)
    assert float((one - other).abs().float().mean()) < 1.0
    poses = [camera.cam2world_gl.cpu() for _, _, camera in scenes]
    torch.testing.assert_close(*poses, atol=1e-3, rtol=0)
