"""``fov``, ``hfov`` and ``vfov``: closed forms, contradictions, and everything that reads the field of view."""

import math

import numpy as np
import pytest
import torch
from camera_scenes import build_room, front
from gl import needs_gl

import sensorium as sn
from sensorium.cameras import project
from sensorium.recording.camera_changes import CameraChanges
from sensorium.tasks import TaskCamera
from sensorium.worlds.contents import decode, encode


def focal(angle, pixels):
    """Return the focal length in pixels of a field of view in degrees: the closed form."""
    return pixels / 2 / math.tan(math.radians(angle) / 2)


def test_angles_are_options_of_all_cameras():
    for options in (sn.Camera, sn.RasterizerCamera, sn.RaytracerCamera, sn.DepthCamera, sn.PinholePattern, TaskCamera):
        assert {"fov", "hfov", "vfov"} <= set(options.model_fields)
    assert {"fov", "hfov", "vfov"} <= set(sn.SphericalPattern.model_fields)
    assert {"fov", "hfov"} <= set(sn.RingPattern.model_fields)


@pytest.mark.parametrize(
    ("options", "fx", "fy"),
    [
        ({}, focal(45, 240), focal(45, 240)),
        ({"fov": 50}, focal(50, 240), focal(50, 240)),
        ({"vfov": 50}, focal(50, 240), focal(50, 240)),
        ({"hfov": 50}, focal(50, 320), focal(50, 320)),
        ({"hfov": 69, "vfov": 54}, focal(69, 320), focal(54, 240)),  # square pixels within 1%
        ({"focal_length": (200.0, 300.0)}, 200.0, 300.0),
    ],
)
def test_focal_lengths_of_a_camera_have_the_closed_form(options, fx, fy):
    assert sn.Camera(resolution=(320, 240), **options).focal_lengths() == pytest.approx((fx, fy), rel=1e-12)


@pytest.mark.parametrize("make", [sn.DepthCamera, sn.PinholePattern])
def test_fov_of_rays_is_horizontal(make):
    common = {"width": 64, "height": 48} | ({"link": "x"} if make is sn.DepthCamera else {})

    def pattern(**options):
        made = make(**common, **options)
        return made.pattern() if make is sn.DepthCamera else made

    assert pattern().calibration() == pytest.approx((32, 32, 32, 24), rel=1e-12)
    for name in ("fov", "hfov"):
        assert pattern(**{name: 70}).calibration()[:2] == pytest.approx((focal(70, 64),) * 2, rel=1e-12)
    assert pattern(vfov=70).calibration()[:2] == pytest.approx((focal(70, 48),) * 2, rel=1e-12)
    _, directions = pattern(vfov=70).rays()
    top = directions.reshape(48, 64, 3)[0, 31]  # half a pixel below the top edge, and right of the middle
    assert math.degrees(math.atan(top[2] / top[0])) == pytest.approx(math.degrees(math.atan(23.5 / focal(70, 48))))


def test_angles_of_lidar_patterns():
    both = sn.SphericalPattern(fov=(90, 30), n_points=(5, 3)).rays()
    assert np.array_equal(sn.SphericalPattern(hfov=90, vfov=30, n_points=(5, 3)).rays(), both)
    assert np.array_equal(sn.SphericalPattern(hfov=90, n_points=(5, 3)).rays(), both)  # 30 is the default
    assert np.array_equal(sn.RingPattern(hfov=90, n_points=7).rays(), sn.RingPattern(fov=90, n_points=7).rays())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sn.Camera(fov=60, vfov=60), "fov is the vertical field of view and contradicts vfov"),
        (lambda: sn.Camera(fov=60, hfov=60), "contradicts hfov; set hfov, vfov or both instead of fov"),
        (lambda: sn.Camera(hfov=60, focal_length=100), "hfov and focal_length set the same parameter"),
        (
            lambda: sn.Camera(hfov=90, vfov=90, resolution=(320, 240)),
            r"hfov=90 and vfov=90 contradict each other at 320 x 240 pixels, where hfov=90 gives vfov=73.74; set only "
            r"one of them, or focal_length=\(fx, fy\)",
        ),
        (lambda: sn.Camera(hfov=180), "hfov"),
        (lambda: sn.DepthCamera(link="x", fov=60, hfov=60), "fov is the horizontal field of view and contradicts hfov"),
        (lambda: sn.DepthCamera(link="x", vfov=60, intrinsics=(9, 9, 9, 9)), "vfov and intrinsics set the same"),
        (lambda: sn.PinholePattern(width=64, height=48, hfov=60, vfov=60), "contradict each other at 64 x 48"),
        (lambda: TaskCamera(name="a", fov=60, hfov=60), "contradicts hfov"),
        (lambda: TaskCamera(name="a", hfov=60, vfov=60, resolution=(320, 240)), "contradict each other"),
        (lambda: sn.SphericalPattern(fov=(90, 30), hfov=90), r"fov, which is \(hfov, vfov\), contradicts hfov"),
        (lambda: sn.SphericalPattern(hfov=90, azimuths=(0, 1)), "hfov has no effect together with azimuths"),
        (lambda: sn.SphericalPattern(vfov=(-5, 9), elevations=(0, 1)), "vfov has no effect together with elevations"),
        (lambda: sn.RingPattern(fov=90, hfov=90), "fov, which is hfov, contradicts hfov"),
    ],
)
def test_contradictions_raise(make, message):
    with pytest.raises(sn.OptionError, match=message):
        make()


def test_saved_options_keep_the_angles():
    for options in (sn.Camera(hfov=70), sn.DepthCamera(link="x", vfov=50), sn.SphericalPattern(hfov=90)):
        assert decode(encode(options)) == options


def test_replay_at_another_resolution_keeps_the_vertical_field_of_view():
    wide = CameraChanges(resolution=(640, 240))
    half = CameraChanges(resolution=(160, 120))
    camera = sn.Camera(hfov=70, resolution=(320, 240))
    for changes in (wide, half):
        changed = changes.apply(camera)
        fy = changed.focal_lengths()[1]
        assert changed.focal_lengths()[0] == pytest.approx(fy)
        assert changed.resolution[1] / fy == pytest.approx(240 / camera.focal_lengths()[1], rel=1e-12)
    pair = wide.apply(sn.Camera(hfov=69, vfov=54, resolution=(320, 240)))
    assert pair.focal_lengths() == pytest.approx((focal(69, 640), focal(54, 240)))
    assert half.apply(sn.Camera(fov=50)).fov == 50


@needs_gl
def test_image_edges_are_at_the_stated_angles():
    scene, wide, tall = build_room(
        front(fov=None, hfov=80, resolution=(64, 24)), front(uuid="tall", fov=None, vfov=80, resolution=(24, 64))
    )
    for camera, axis, pixels in ((wide, 1, 64), (tall, 2, 64)):
        # points 3 m ahead, on the two edges of the image
        edges = torch.zeros(2, 3) + torch.tensor([3.0, 0.0, 1.0])
        edges[:, axis] += 3 * math.tan(math.radians(40)) * torch.tensor([1.0, -1.0])
        seen = project(edges, camera.intrinsics, camera.extrinsics_cv)[0][0, :, axis - 1]
        torch.testing.assert_close(seen, torch.tensor([0.0, float(pixels)]), atol=1e-3, rtol=0)
    torch.testing.assert_close(wide.hfov, torch.full((3,), 80.0))
    torch.testing.assert_close(tall.vfov, torch.full((3,), 80.0))
    assert torch.equal(tall.fov, tall.vfov)
    scene.close()


@needs_gl
def test_set_intrinsics_takes_angles_per_env():
    _, camera = build_room(front(resolution=(64, 48)))
    camera.set_intrinsics(hfov=[30.0, 60.0], envs=[2, 0])
    torch.testing.assert_close(camera.hfov[[0, 2]], torch.tensor([60.0, 30.0]))
    torch.testing.assert_close(camera.vfov[1], torch.tensor(60.0))
    assert torch.equal(camera.focal_length[:, 0], camera.focal_length[:, 1])
    camera.set_intrinsics(hfov=70, vfov=55)
    torch.testing.assert_close(camera.hfov, torch.full((3,), 70.0))
    torch.testing.assert_close(camera.vfov, torch.full((3,), 55.0))
    before = camera.intrinsics
    for bad, message in (
        ({"fov": 60, "vfov": 60}, "set_intrinsics: fov is the vertical"),
        ({"hfov": 60, "focal_length": 60}, "set_intrinsics: hfov and focal_length set the same parameter"),
        ({"hfov": 60, "vfov": [48.0, 48.0, 90.0]}, "hfov=60 and vfov=90 contradict each other at 64 x 48"),
        ({"vfov": 0}, "vfov must be > 0 and < 180 degrees, got 0"),
        ({"vfov": [1.0, 2.0]}, r"vfov must be a number or have shape \(3,\), got \(2,\)"),
    ):
        with pytest.raises(sn.OptionError, match=message):
            camera.set_intrinsics(**bad)
    assert torch.equal(camera.intrinsics, before)


@needs_gl
def test_depth_camera_and_camera_agree():
    scene = sn.Scene()
    scene.add_object(sn.Box(size=(0.1, 9, 9)), pos=(3.05, 0, 0), euler=(0, 0.3, 0.4))
    scene.add_object(sn.Box(size=(0.02, 0.02, 0.02)), name="head")
    rays = scene.add_sensor(sn.DepthCamera(link="head", width=32, height=24, vfov=50))
    view = {"lookat": (1, 0, 0), "resolution": (32, 24), "vfov": 50, "outputs": ("depth",), "near": 0.1}
    image = scene.add_sensor(sn.Camera(**view))
    scene.build()
    scene.step()
    torch.testing.assert_close(rays.read_ground_truth(), image.read().depth, atol=2e-3, rtol=0)


def test_cameras_of_tasks_have_the_resolved_angles():
    wide, plain = {"name": "a", "hfov": 80, "resolution": (32, 16)}, {"name": "b", "resolution": (32, 16)}
    task = sn.tasks.make("reach", cameras=[wide, plain])
    torch.testing.assert_close(task.cameras["a"].hfov, torch.tensor([80.0]))
    torch.testing.assert_close(task.cameras["b"].vfov, torch.tensor([55.0]))
    task.close()
