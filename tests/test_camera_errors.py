"""Errors of cameras: invalid options, and renderers that do not run."""

import gc

import numpy as np
import pytest
import torch
from camera_scenes import build_room, front, n_threads, room
from gl import needs_gl

import sensorium as sn
from sensorium.cameras import registry as renderers

pytestmark = needs_gl


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"near": 1.0, "far": 0.5}, "far must be > near"),
        ({"near": 1.0, "far": 1.0}, "far must be > near"),
        ({"resolution": (0, 8)}, ">= 1 pixel"),
        ({"outputs": ("rbg",)}, "rgb"),
        ({"outputs": ()}, "at least one of 'rgb'"),
        ({"fov": 60, "focal_length": 10}, "set only one of them"),
        ({"focal_length": -3}, "must be > 0"),
        ({"quat": (1, 0, 0, 0), "lookat": (1, 0, 0)}, "set only one of lookat, quat and euler"),
        ({"lookat": (0, 0, 0), "pos": (0, 0, 0)}, "lookat must differ from pos"),
        ({"quality": "best"}, "fast"),
        ({"interpolate": True, "delay": 0.1}, "images are not interpolated"),
        ({"resolutoin": (8, 8)}, "did you mean 'resolution'"),
        ({"fov": 180}, "fov"),
    ],
)
def test_invalid_options_are_named(options, message):
    with pytest.raises(sn.OptionError, match=message):
        sn.Camera(**options)


def test_renderer_of_renderer_specific_cameras_cannot_change():
    with pytest.raises(sn.OptionError, match="renderer"):
        sn.RasterizerCamera(renderer="batch")


def test_invalid_lights_are_named():
    scene = sn.Scene()
    with pytest.raises(sn.OptionError, match=r"'directional', 'point', 'spot' or 'area'"):
        scene.add_light(type="laser")
    with pytest.raises(sn.OptionError, match="direction or lookat"):
        scene.add_light(direction=(1, 0, 0), lookat=(0, 0, 0))
    scene.add_light(name="sun")
    with pytest.raises(sn.errors.DuplicateNameError):
        scene.add_light(name="sun")


def check_build_fails(camera, error, message, scene=None):
    """Check that building raises, frees its threads, and leaves the sensor unbuilt."""
    scene = room() if scene is None else scene
    sensor = scene.add_sensor(camera)
    gc.collect()  # scenes of other tests
    threads = n_threads()
    with pytest.raises(error, match=message):
        scene.build()
    assert n_threads() == threads
    with pytest.raises(sn.NotBuiltError):
        sensor.read()


def test_resolution_above_the_limit_raises():
    check_build_fails(front(resolution=(20000, 8)), sn.OptionError, "<= 16384 pixels per side .* got .20000, 8.")


def test_different_qualities_raise_and_name_both_cameras():
    scene = room()
    scene.add_sensor(front(quality="fast"))
    scene.add_sensor(front(uuid="any"))
    check_build_fails(
        front(uuid="nice", quality="high"), sn.OptionError, "got 'fast' for 'front' and 'high' for 'nice'", scene
    )


def test_unknown_links_and_renderers_raise_with_a_suggestion():
    check_build_fails(front(link="lowr"), sn.errors.NameNotFoundError, "did you mean 'lower'")
    with pytest.raises(sn.OptionError, match="did you mean 'raster'"):
        front(renderer="rastr")


def test_adding_cameras_and_lights_after_build_raises():
    scene, _ = build_room(front())
    with pytest.raises(sn.errors.AlreadyBuiltError, match="add_sensor"):
        scene.add_sensor(front(uuid="late"))
    with pytest.raises(sn.errors.AlreadyBuiltError, match="add_light"):
        scene.add_light()


def test_error_without_a_renderer_lists_what_was_tried(monkeypatch):
    from sensorium.cameras.raster import renderer as raster

    def broken():
        raise sn.DeviceError("no OpenGL for pictures (egl: no such library)")

    monkeypatch.setattr(raster, "_check_opengl", broken)
    monkeypatch.setitem(
        renderers._REGISTRY, "batch", renderers._RendererEntry("no_such_module", "X", "pip install mujoco-warp")
    )
    with pytest.raises(sn.DeviceError) as caught:
        renderers.choose_renderer("auto", torch.device("cpu"))
    for word in ("raster does not run", "egl: no such library", "no_such_module", "libegl1", "pip install mujoco-warp"):
        assert word in str(caught.value)
    with pytest.raises(sn.DeviceError, match="libegl1"):
        renderers.choose_renderer("raster", torch.device("cpu"))


def test_out_of_memory_error_names_the_size_per_env(monkeypatch):
    scene = room()
    scene.add_sensor(front(resolution=(256, 128)))
    full, zeros = torch.Size((7, 128, 256, 3)), torch.zeros

    def fail_for_images(*shape, **options):
        if torch.Size(shape[0] if isinstance(shape[0], tuple) else shape) == full:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return zeros(*shape, **options)

    monkeypatch.setattr(torch, "zeros", fail_for_images)
    with pytest.raises(sn.DeviceError, match=r"cannot allocate the output 'rgb' on cpu: 96\.0 KiB per env for 7 envs"):
        scene.build(n_envs=7)


def test_invalid_poses_and_intrinsics_change_nothing():
    _scene, camera = build_room(front())
    before = camera.cam2world_gl.clone()
    for bad in (
        {"pos": (0, 0)},
        {"quat": (0, 0, 0, 0)},
        {"pos": (1, 1, 1), "lookat": (1, 1, 1)},
        {"quat": (1, 0, 0, 0), "lookat": (0, 0, 0)},
        {"pos": (np.nan, 0, 0)},
        {"pos": (0, 0, 0), "envs": [9]},
        {"up": (0, 1, 0)},
    ):
        with pytest.raises(sn.OptionError):
            camera.set_pose(**bad)
    with pytest.raises(sn.OptionError, match="without a link"):
        camera.attach()
    with pytest.raises(sn.errors.NameNotFoundError, match="did you mean"):
        camera.attach(link="lowr")
    for bad in ({"fov": 0}, {"fov": 60, "focal_length": 3}, {"focal_length": 0}, {"principal_point": (1, 2, 3)}):
        with pytest.raises(sn.OptionError):
            camera.set_intrinsics(**bad)
    assert torch.equal(camera.cam2world_gl, before)


def test_invalid_poses_and_names_are_described():
    scene, camera = build_room(front())
    for call, message in (
        (lambda: camera.set_pose(pos=1.0), r"pos must have shape \(3,\)"),
        (lambda: camera.set_pose(pos="abc"), "pos must be numbers"),
        (lambda: camera.set_pose(quat=2.0), r"quat must have shape \(4,\)"),
        (lambda: sn.Camera(renderer="rastr"), "did you mean 'raster'"),
    ):
        with pytest.raises(sn.OptionError, match=message):
            call()
    scene.close()
    with pytest.raises(sn.NotBuiltError, match=r"after scene\.close"):
        camera.read()
