"""Cameras on the GPU world: the same images as on the CPU. Needs CUDA."""

import warnings

import numpy as np
import pytest
import torch
from conftest import arm_scene, drop_scene

import sensorium as sn

pytestmark = pytest.mark.gpu


def filmed(device, n_envs=4, **options):
    """The arm, and a box in the air; a camera on the arm and one that stands in the world."""
    scene = arm_scene(substeps=5)
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", pos=(0.5, 0, 0.5), free=True)
    scene.add_light("directional", direction=(0.3, 0.2, -1))
    common = {"renderer": "batch", "quality": "balanced", "outputs": ("rgb", "depth", "segmentation"), **options}
    hand = scene.add_sensor(sn.Camera(uuid="hand", link="lower", pos=(0.05, 0, 0.3), lookat=(0.5, 0, 0), **common))
    lens = {"pos": (2.0, -1.5, 1.5), "lookat": (0, 0, 0.5), "principal_point": (70, 50)}
    room = scene.add_sensor(sn.Camera(uuid="room", resolution=(160, 120), **lens, **common))
    scene.build(n_envs=n_envs, seed=2, device=device)
    return scene, (hand, room)


def test_images_are_those_of_the_cpu():
    cpu, on_cpu = filmed("cpu")
    gpu, on_gpu = filmed("cuda")
    poses = np.linspace((0.4, -0.2, 0.4), (0.6, 0.2, 0.6), 4)
    for scene, cameras in ((cpu, on_cpu), (gpu, on_gpu)):
        scene["box"].set_pose(pos=poses)
        scene["arm"].set_joint_positions([0.3, 0.5])
        cameras[1].set_pose(pos=(1.5, -1.5, 1.0), envs=[2])
        cameras[1].set_intrinsics(fov=70, envs=[3])
    for a, b in zip(on_cpu, on_gpu, strict=True):
        left, right = a.read(), b.read()
        assert right.rgb.is_cuda
        same = (left.segmentation == right.segmentation.cpu()).all(-1)
        assert float(same.float().mean()) > 0.999
        seen = same & torch.isfinite(left.depth)
        assert torch.equal(torch.isfinite(left.depth)[same], torch.isfinite(right.depth.cpu())[same])
        assert float(torch.quantile((left.depth - right.depth.cpu())[seen].abs(), 0.99)) < 1e-3
        assert float((left.rgb.int() - right.rgb.cpu().int()).abs().float().mean()) < 1.0


def test_cameras_follow_the_step_and_colours_differ_per_env():
    scene, (_, room) = filmed("cuda", n_envs=8)
    first = room.read().depth.clone()
    address = room.read().depth.data_ptr()
    scene["arm"].set_ctrl([1.0, 0.5])
    scene.step(20)
    assert room.read().depth.data_ptr() == address
    assert not torch.equal(room.read().depth, first)
    before = room.read().rgb.clone()
    scene.world.expand("geom_rgba")[5] = torch.tensor([0.0, 0.9, 0.0, 1.0], device="cuda")
    scene.forward()
    after = room.read().rgb
    changed = (after != before).flatten(1).any(1)
    assert changed.tolist() == [env == 5 for env in range(8)]


def test_reading_a_camera_does_not_wait_for_the_device():
    scene, (hand, room) = filmed("cuda", n_envs=64)
    scene.step()
    room.read()
    torch.cuda.synchronize()
    try:
        with warnings.catch_warnings(action="ignore"):
            torch.cuda.set_sync_debug_mode("error")
        for _ in range(3):
            scene.step()
            images = hand.read(), room.read()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(bool((image.depth > 0).all()) for image in images)


def test_error_of_too_large_images_names_the_size_per_env():
    side = 8192
    free, _ = torch.cuda.mem_get_info()
    n_envs = max(2, free // 8 // side**2)  # whose images fit (3 bytes a pixel), but not the tracer's (8) beside them
    scene = drop_scene()
    scene.add_sensor(sn.Camera(renderer="batch", pos=(1, 0, 1), lookat=(0, 0, 0), resolution=(side, side)))
    with pytest.raises(sn.DeviceError, match="MiB per env"):
        scene.build(n_envs=n_envs, device="cuda")
    del scene
    torch.cuda.empty_cache()
