"""Sub-frames of shutters are skipped where nothing moves, without a change of the image."""

import pytest
import torch
from gl import needs_gl
from imager_images import make

import sensorium as sn
from sensorium.cameras.imager.exposure import Shutter
from sensorium.cameras.imager.motion import STILL, Motion

DT = 0.01
ARM = """<mujoco><worldbody><body name="arm" pos="0 0 0.5"><joint name="yaw" axis="0 0 1"/>
<geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.04" rgba="0.9 0.3 0.1 1"/></body></worldbody></mujoco>"""


def look(profile, speeds=(0.0, 0.0, 0.0), steps=4, renderer="auto", outputs=("rgb", "depth"), **options):
    """Return images of a turning arm beside a ball and a box at rest, and how often each env was rendered for them."""
    scene = sn.Scene(dt=DT, substeps=1, gravity=(0, 0, 0))
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), pos=(0.1, 0.3, 0.3), euler=(0.1, 0.2, 0.3), free=True)
    scene.add_object(sn.Sphere(radius=0.1, mass=1.0), pos=(0, -0.3, 0.3), free=True)
    arm = scene.add_robot(ARM, name="arm")
    camera = scene.add_sensor(
        sn.Camera(
            pos=(1.5, 0, 1.2),
            lookat=(0, 0, 0.3),
            resolution=(96, 72),
            outputs=outputs,
            profile=profile,
            renderer=renderer,
            **options,
        )
    )
    scene.build(n_envs=len(speeds), seed=3)
    arm.set_joint_velocities(torch.tensor(speeds)[:, None])
    scene.step(count=steps)
    before = camera.render_count.clone()
    images = {name: getattr(camera.read(), name).clone() for name in outputs}
    text, counts = scene.describe(), (camera.render_count - before).tolist()
    scene.close()
    return images, counts, text


def with_all_sub_frames(monkeypatch, *args, **options):
    with monkeypatch.context() as patch:
        patch.setattr(Motion, "moved", lambda self: torch.ones(len(self._qpos), dtype=torch.bool))
        return look(*args, **options)


@needs_gl
@pytest.mark.parametrize("renderer", ["raster", "batch"])
@pytest.mark.parametrize(("profile", "frames"), [("rgbd", 8), ("action", 11)])
def test_still_envs_are_rendered_once_with_the_same_bits(profile, frames, renderer, monkeypatch):
    images, counts, text = look(profile, renderer=renderer)
    every, all_counts, _ = with_all_sub_frames(monkeypatch, profile, renderer=renderer)
    assert counts == [1, 1, 1]
    assert all_counts == [frames] * 3
    assert f"{frames} renders per image in motion" in text
    for name, image in images.items():
        assert torch.equal(image, every[name]), name


@needs_gl
@pytest.mark.parametrize("outputs", [("rgb", "depth"), ("rgb", "segmentation", "points")])
def test_only_envs_that_move_get_sub_frames(outputs, monkeypatch):
    options = {"speeds": (0.0, 3.0, 0.0), "outputs": outputs}
    images, counts, _ = look("action", **options)
    every, all_counts, _ = with_all_sub_frames(monkeypatch, "action", **options)
    assert (counts, all_counts) == ([1, 11, 1], [11, 11, 11])
    for name, image in images.items():
        assert torch.equal(image.nan_to_num(), every[name].nan_to_num()), name
    assert not torch.equal(images["rgb"][0], images["rgb"][1])


@needs_gl
def test_motion_is_seen_until_the_shutter_no_longer_reaches_it():
    slow = 0.4 * STILL / (6 * DT)  # stays below the threshold over all recorded steps
    assert look("rgbd", speeds=(slow, 100 * slow, 0.0))[1] == [1, 8, 1]


@needs_gl
def test_motion_below_the_threshold_changes_at_most_a_level(monkeypatch):
    profile = sn.CameraProfile(exposure_time=0.02, motion_blur=4, rolling_shutter=0.02)  # without noise
    speed = 0.9 * STILL / (6 * DT)
    images, counts, _ = look(profile, speeds=(speed,))
    every, *_ = with_all_sub_frames(monkeypatch, profile, speeds=(speed,))
    assert counts == [1]
    difference = (images["rgb"].int() - every["rgb"].int()).abs()
    assert difference.max() <= 1
    assert (difference > 0).float().mean() < 1e-3


@pytest.mark.parametrize(("exposure", "rolling"), [(0.008, 0.016), (0.004, 0.016), (0.01, 0.0), (0.0, 0.03)])
def test_the_mean_of_equal_sub_frames_is_that_frame(exposure, rolling):
    height = 64
    image = torch.arange(256, dtype=torch.uint8).repeat(1, height, 3, 1).movedim(2, 3).contiguous()  # all levels
    shutter = Shutter(exposure, rolling, blur_frames=1, rolling_frames=8)
    imager, out = make(sn.CameraProfile(), (256, height)), torch.zeros_like(image)
    for number, weights in enumerate(shutter.weights(height)):
        imager.expose(image, weights.contiguous(), number == 0)
    imager.develop(out)
    assert torch.equal(out, image)
