"""Cameras: when they render, and what they return."""

import gc
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from camera_scenes import ALL, build_room, front, n_threads, room
from gl import needs_gl
from matplotlib.image import imread

import sensorium as sn
from sensorium.cameras.plotting import as_picture
from sensorium.cameras.raster import canvas
from sensorium.worlds import Painter

pytestmark = needs_gl


# -- life cycle -------------------------------------------------------------------------------------------------------


def test_build_starts_one_renderer_for_all_cameras():
    before = n_threads()
    scene = room()
    cameras = [scene.add_sensor(front(uuid=f"c{i}", resolution=(8 * (i + 1), 8))) for i in range(3)]
    assert n_threads() <= before
    for camera in cameras:
        with pytest.raises(sn.NotBuiltError, match=r"call scene\.build"):
            camera.read()
    scene.build(n_envs=2)
    assert len({id(camera._render_pass) for camera in cameras}) == 1
    assert [camera.uuid for camera in cameras[0]._render_pass.cameras] == ["c0", "c1", "c2"]
    for camera, width in zip(cameras, (8, 16, 24), strict=True):
        assert camera.view.caches["rgb"].shape == (2, 8, width, 3)
        assert camera.view.caches["rgb"].device == scene.device
    scene.close()
    assert n_threads() <= before


def test_opengl_contexts_have_the_size_of_the_largest_camera(monkeypatch):
    sizes = []
    start = canvas.Canvas._start
    note = lambda self, model, size, *rest: (sizes.append(size), start(self, model, size, *rest))[1]  # noqa: E731
    monkeypatch.setattr(canvas.Canvas, "_start", note)
    lens = sn.CameraProfile(k1=0.02, k2=-0.1)  # needs overscan margins
    small, wide, tall, distorted = (
        front(uuid="small"),
        front(uuid="wide", resolution=(200, 10)),
        front(uuid="tall", resolution=(10, 150)),
        front(uuid="distorted", resolution=(190, 100), fov=50, profile=lens),
    )
    *_, sensor = build_room(small, wide, tall, distorted)
    assert sensor.view.width > 200
    assert set(sizes) == {(sensor.view.width, 150)}
    assert sensor.read().rgb.shape == (3, 100, 190, 3)


def test_adding_cameras_loads_no_renderer():
    code = """
import sys, threading
import sensorium as sn
from pathlib import Path
def mapped():
    return {line.split("/")[-1] for line in Path("/proc/self/maps").read_text().splitlines() if ".so" in line}
scene = sn.Scene()
scene.add_object(sn.Box())
cameras = (sn.Camera(profile="rgbd"), sn.RasterizerCamera(), sn.BatchRendererCamera(), sn.RaytracerCamera())
sensors = [scene.add_sensor(camera) for camera in cameras]
print([name for name in ("OpenGL", "warp", "mujoco_warp", "mitsuba", "drjit") if name in sys.modules])
print([name for name in mapped() if name.startswith(("libEGL", "libGL", "libOSMesa", "libcuda", "warp", "libLLVM"))])
print(threading.active_count())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "[]", "1"]


def test_step_renders_nothing_and_first_read_renders_all_cameras():
    scene, a, b = build_room(front(), front(uuid="side", pos=(1, -2, 1), lookat=(1, 0, 1)))
    render_pass = a._render_pass
    scene.step(count=5)
    assert render_pass.passes == 0
    image = a.read().rgb
    assert render_pass.passes == 1
    assert len(torch.unique(b.view.caches["rgb"])) > 3  # rendered by the same pass
    address, version = image.data_ptr(), image._version
    for camera in (a, b):
        camera.read(), camera.read_ground_truth()
    assert (render_pass.passes, a.read().rgb.data_ptr(), image._version) == (1, address, version)
    kept = image.clone()
    scene.step(count=20)
    assert torch.equal(image, kept)
    assert a.read().rgb.data_ptr() == address
    assert render_pass.passes == 2
    assert not torch.equal(image, kept)


def test_shapes_and_dtypes_of_all_outputs():
    _scene, camera = build_room(front(outputs=ALL))
    data = camera.read()
    for name, (rest, dtype) in {
        "rgb": ((3,), torch.uint8),
        "depth": ((), torch.float32),
        "segmentation": ((2,), torch.int32),
        "instance": ((), torch.int32),
        "normals": ((3,), torch.float32),
        "points": ((3,), torch.float32),
    }.items():
        image = getattr(data, name)
        assert (image.shape, image.dtype) == ((3, 24, 32, *rest), dtype), name
    assert sn.cameras.CameraData(*build_room(front())[1].read())._asdict().keys() == set(ALL)
    assert build_room(front())[1].read().depth is None


def test_segmentation_and_instance_ids_map_to_names():
    scene, camera = build_room(front(outputs=ALL))
    data, model = camera.read(), scene.model
    seen = {camera.segmentation_names[int(body)] for body in data.segmentation[0, ..., 0].unique() if body >= 0}
    assert {"wall", "box", "arm/upper", "plane"} <= seen
    geoms, bodies = data.segmentation[0, ..., 1], data.segmentation[0, ..., 0]
    hit = geoms >= 0
    assert torch.equal(bodies[hit], torch.from_numpy(model.geom_bodyid).int()[geoms[hit].long()])
    assert camera.geom_names[int(geoms[12, 28])] == "wall"
    names = camera.instance_names
    entities = {names[int(number)] for number in data.instance[0].unique()}
    assert {"wall", "box", "arm", "plane"} <= entities
    assert "arm/upper" not in entities
    up = build_room(front(outputs=ALL, pos=(-5, 0, 1), lookat=(-5, 0, 5), up=(1, 0, 0)))[1].read()
    assert bool((up.segmentation == -1).all() and (up.instance == -1).all() and torch.isinf(up.depth).all())
    assert bool(torch.isnan(up.points).all() and (up.normals == 0).all())


def test_set_pose_detaches_the_given_envs_and_attach_attaches_them_again():
    scene, hand = build_room(
        sn.Camera(link="lower", uuid="hand", pos=(0, 0, 0.35), lookat=(0, 0, 1), resolution=(16, 16))
    )
    first = hand.read().rgb.clone()
    passes = hand._render_pass.passes
    on_link = hand.cam2world_gl.clone()
    hand.set_pose(pos=(0, 0, 1), lookat=(3, 0, 1), envs=[1])
    image = hand.read().rgb
    assert hand._render_pass.passes == passes + 1
    assert torch.equal(image[[0, 2]], first[[0, 2]])
    assert not torch.equal(image[1], first[1])
    scene["arm"].set_joint_positions(0.7)
    hand.read()
    moved = hand.cam2world_gl
    assert not torch.allclose(moved[0], on_link[0])
    assert torch.allclose(moved[1, :3, 3], torch.tensor([0.0, 0.0, 1.0]))
    hand.attach(envs=[1])
    assert torch.allclose(hand.cam2world_gl[1], moved[0])
    hand.attach(link="upper", envs=[2])
    assert torch.allclose(hand.cam2world_gl[0], moved[0])
    assert not torch.allclose(hand.cam2world_gl[2], moved[2])
    hand.update_camera_pose(pos=(0, 0, 2))
    assert torch.allclose(hand.cam2world_gl[:, :3, 3], torch.tensor([0.0, 0.0, 2.0]))


def test_only_changed_envs_are_rendered_again(monkeypatch):
    scene, camera = build_room(front(outputs=("rgb", "depth")), n_envs=4)
    renderer, rendered = camera._render_pass._renderer, []
    render = renderer.render
    monkeypatch.setattr(renderer, "render", lambda views, envs: (rendered.append(envs), render(views, envs)))
    scene.step(count=3)
    camera.read()
    first = camera.read().rgb.clone()
    state = scene.get_state()
    changes = {
        "reset": lambda: scene.reset(envs=[1]),
        "set_state": lambda: scene.set_state(state[[2]] + 0.01, envs=[2]),
        "joints": lambda: scene["arm"].set_joint_positions(0.5, envs=[0, 3]),
        "pose": lambda: scene["box"].set_pose(pos=(1, 0.3, 1), envs=[3]),
        "forward": lambda: scene.forward(envs=[0]),
        "camera": lambda: camera.set_pose(pos=(0, 0.2, 1), envs=[2]),
    }
    for change, changed_envs in zip(changes, ([1], [2], [0, 3], [3], [0], [2]), strict=True):
        changes[change]()
        before = camera.view.caches["rgb"].clone()
        image = camera.read().rgb
        assert rendered[-1].tolist() == changed_envs, change
        others = [env for env in range(4) if env not in changed_envs]
        assert torch.equal(image[others], before[others]), change
    assert not torch.equal(camera.read().rgb[3], first[3])
    assert rendered[0] is None
    assert len(rendered) == 1 + len(changes)


def test_written_poses_are_rendered_without_a_step_and_reading_does_not_change_the_state():
    scene, camera = build_room(front(outputs=("segmentation",)))
    twin, _ = build_room(front(outputs=("segmentation",)))
    for one in (scene, twin):
        one.step(count=3)
        one["box"].set_pose(pos=(1, 0, 1))
    ids = camera.read().segmentation[0, ..., 0]
    body = scene.model.body("box").id
    assert ids[12, 16] == body  # in front of the camera
    scene.step(count=5)
    twin.step(count=5)
    assert torch.equal(scene.get_state(), twin.get_state())


def test_camera_pose_follows_the_link_with_and_without_exact_sensing():
    for exact in (True, False):
        scene, camera = build_room(sn.Camera(link="box", resolution=(8, 8)), exact_sensing=exact)
        scene.step(count=7)
        camera.read()
        where = scene["box"].get_pose()[0]
        assert torch.allclose(camera.cam2world_gl[:, :3, 3], where, atol=1e-6)


def test_untimed_camera_without_profile_shares_memory_of_measured_and_ground_truth():
    _, camera = build_room(front())
    assert camera.read().rgb.data_ptr() == camera.read_ground_truth().rgb.data_ptr()
    _scene, camera = build_room(front(rate=10))
    assert camera.read().rgb.data_ptr() != camera.read_ground_truth().rgb.data_ptr()


def test_read_of_some_envs_returns_a_copy_in_the_given_order():
    _scene, camera = build_room(front())
    camera.set_pose(pos=(0, 0.5, 1), envs=[2])
    some = camera.read(envs=[2, 0])
    assert torch.equal(some.rgb, camera.read().rgb[[2, 0]])
    assert some.rgb.data_ptr() != camera.read().rgb.data_ptr()


def test_outputs_can_be_switched_on_the_scene_and_on_a_camera():
    scene, a, b = build_room(front(), front(uuid="b", outputs=("depth",)))
    assert scene.enable_segmentation_rendering() == 2
    assert a.outputs == ("rgb", "segmentation")
    assert b.outputs == ("depth", "segmentation")
    assert a.read().segmentation.shape == (3, 24, 32, 2)
    a.enable_points_rendering()
    assert torch.isfinite(a.read().points[0, 12, 28]).all()
    scene.disable_segmentation_rendering()
    assert a.outputs == ("rgb", "points")
    assert a.read().segmentation is None
    assert "segmentation" not in a.view.caches
    b.disable_depth_rendering()
    passes = b._render_pass.passes
    scene.step()
    assert b.read() == sn.cameras.CameraData()
    a.disable_rgb_rendering()
    a.disable_points_rendering()
    scene.step()
    assert a.read() == sn.cameras.CameraData()
    assert b._render_pass.passes == passes + 1  # for camera a
    b.enable_depth_rendering()
    assert torch.isfinite(b.read().depth).all()
    early = room()
    camera = early.add_sensor(front())
    camera.enable_depth_rendering()
    early.build()
    assert torch.isfinite(camera.read().depth).all()


def test_buffers_are_tagged_and_getting_their_value_renders():
    scene, camera = build_room(front(outputs=("rgb", "depth")))
    scene.step()
    assert camera._render_pass.passes == 0
    state = scene.state_dict(exclude_tags=["rgb"])
    images = [path for path in state if path.startswith("front.")]
    assert images == ["front.depth", "front.ground_truth_depth"]
    assert camera._render_pass.passes == 1
    assert torch.equal(state["front.depth"], camera.read().depth)
    assert set(scene.state_dict(include_tags=["measured"])) == {"front.rgb", "front.depth"}
    assert set(scene.state_dict(include_tags=["camera"])) == {
        "front.rgb",
        "front.depth",
        "front.ground_truth_rgb",
        "front.ground_truth_depth",
    }
    assert scene.state_dict(exclude_tags=["camera"]).keys().isdisjoint(images)


def test_close_frees_threads_and_later_reads_raise():
    before = n_threads()
    scene, camera = build_room(front())
    camera.read()
    scene.close()
    assert n_threads() == before
    with pytest.raises(sn.NotBuiltError):
        camera.read()


@pytest.mark.slow
def test_garbage_collection_frees_threads():
    before = n_threads()
    scene, camera = build_room(front())
    camera.read()
    del scene, camera
    gc.collect()
    assert n_threads() == before


@pytest.mark.slow
def test_process_exit_with_open_cameras_prints_nothing():
    code = """
import sensorium as sn
scene = sn.Scene()
scene.add_object(sn.Box())
camera = scene.add_sensor(sn.Camera(pos=(1, 0, 0), lookat=(0, 0, 0), resolution=(16, 16)))
scene.build(n_envs=2)
print(camera.read().rgb.shape)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


LEAK = """
import gc, sys, threading
from pathlib import Path
import sensorium as sn
ALL = ("rgb", "depth", "segmentation", "instance", "normals", "points")
PROFILE = sn.CameraProfile(k1=-0.1, exposure_time=0.01, motion_blur=3, jpeg_quality=50, depth_noise=(0.1, 0, 0))
cls, options = {
    "raster": (sn.RasterizerCamera, {"outputs": ALL}),
    "batch": (sn.BatchRendererCamera, {"outputs": ALL}),
    "pathtrace": (sn.RaytracerCamera, {"outputs": ALL, "samples": 1}),
    "profile": (sn.RasterizerCamera, {"outputs": ALL, "profile": PROFILE}),
}[sys.argv[1]]

def held(count):
    for _ in range(count):
        scene = sn.Scene()
        scene.add_object(sn.Box())
        camera = scene.add_sensor(cls(pos=(1, 0, 0), lookat=(0, 0, 0), resolution=(64, 64), **options))
        scene.build(threads=1)
        camera.read()
        scene.close()
        del scene, camera
    gc.collect()
    memory = int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    return memory, threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))

first, *rest = [held(15) for _ in range(4)]
growth = [[now - then for now, then in zip(b, a)] for a, b in zip([first, *rest], rest)]
print(*min(growth))  # allocators sometimes take large pieces, which is not a leak
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["raster", "batch", "pathtrace", "profile"])
def test_creating_many_scenes_leaks_no_memory_threads_or_files(kind):
    if kind == "pathtrace":
        pytest.importorskip("mitsuba")
    done = subprocess.run([sys.executable, "-c", LEAK, kind], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    memory, threads, files = (int(word) for word in done.stdout.split())
    assert memory < 15 * 100_000  # the images of one scene take 176 kB
    assert (threads, files) == (0, 0)


# -- batches ----------------------------------------------------------------------------------------------------------


def test_images_do_not_depend_on_batch_size_or_other_cameras():
    options = {"outputs": ("rgb", "depth", "segmentation")}
    _, alone = build_room(front(**options), n_envs=1)
    _, _other, together = build_room(front(uuid="x", resolution=(64, 48), pos=(2, 0, 1)), front(**options), n_envs=5)
    for camera in (alone, together):
        camera.set_pose(pos=(0, 0.1, 1.1), envs=[0])
    for mine, theirs in zip(alone.read(), together.read(), strict=True):
        assert mine is theirs is None or torch.equal(mine[0], theirs[0])


def test_model_fields_that_differ_per_env_are_rendered():
    scene, camera = build_room(front(outputs=("rgb", "segmentation")))
    colours = scene.world.expand("geom_rgba")
    geom = scene.model.geom("wall").id
    colours[:, geom, :3] = torch.tensor([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])
    colours[1, scene.model.geom("box").id, 3] = 0  # invisible in env 1
    scene.forward()
    image = camera.read().rgb[:, 12, 28].float()
    assert image.argmax(dim=1).tolist() == [0, 1, 2]
    boxes = (camera.read().segmentation[..., 0] == scene.model.body("box").id).sum(dim=(1, 2))
    assert boxes[0] == boxes[2] > 0
    assert boxes[1] == 0


def test_sites_and_rangefinders_are_not_rendered():
    plain = build_room(front())[1].read().rgb
    scene = room()
    camera = scene.add_sensor(front())
    scene.add_sensor(sn.IMU(link="box", pos=(-0.12, 0, 0)))
    scene.add_sensor(sn.Magnetometer(link="wall", pos=(-0.2, 0, 0)))
    scene.build(n_envs=3)
    assert torch.equal(camera.read().rgb, plain)


# -- picking, description and plots ------------------------------------------------------------------------------------


def test_pick_pixel_agrees_with_segmentation_and_points():
    _scene, camera = build_room(front(outputs=("points", "segmentation")))
    data = camera.read()
    for x, y in ((16, 12), (28, 12), (16, 22), (20, 18)):
        picked = camera.pick_pixel(1, x, y)
        assert (picked.body_id, picked.geom_id) == tuple(data.segmentation[1, y, x].tolist())
        assert picked.body == camera.segmentation_names[picked.body_id]
        assert np.allclose(picked.position, data.points[1, y, x], atol=2e-3)
    camera.set_pose(pos=(0, 0, 1), lookat=(0, 0, 9), up=(1, 0, 0))
    assert camera.pick_pixel(0, 3, 3).body is None
    with pytest.raises(sn.OptionError, match="x and y must lie"):
        camera.pick_pixel(0, 32, 0)


def test_renderer_choice_is_reported():
    scene, auto, fixed = build_room(front(), sn.RasterizerCamera(uuid="r", resolution=(8, 8)))
    assert auto.renderer_choice.name == fixed.renderer_choice.name == "raster"
    assert auto._render_pass is fixed._render_pass
    assert "first choice on cpu" in str(auto.renderer_choice)
    table = scene.describe()
    assert re.search(r"on read, raster \(first choice on cpu: (EGL|GLFW|OSMESA), ", table)
    assert "rgb (3, 24, 32, 3)" in table


def test_failed_opengl_platform_does_not_affect_the_next_one():
    code = """
import os, sys, ctypes, ctypes.util
os.environ.pop("DISPLAY", None); os.environ.pop("PYOPENGL_PLATFORM", None)
from sensorium.worlds import opengl
real = opengl._try
def trying(way, width, height):
    if way == "egl":
        real(way, width, height).free()
        raise RuntimeError("no device")
    return real(way, width, height)
opengl._try = trying
try:
    print(opengl.make_context(16, 16)[1])
except Exception as error:
    print(error)
print(os.environ.get("PYOPENGL_PLATFORM"))
opengl._try = real
print(opengl.make_context(16, 16)[1])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    first, chosen, then = result.stdout.splitlines()[-3:]
    # without a display GLFW opens no window; OSMesa may be installed or not
    assert first == "osmesa" or ("egl: no device" in first and "glfw: " in first and "libegl1" in first)
    assert chosen == ("osmesa" if first == "osmesa" else "None")
    assert then in ("egl", "osmesa")


def test_import_loads_no_renderer_library():
    code = (
        "import sys, sensorium as sn; sn.Camera(); print([m for m in ('OpenGL', 'warp', 'numba') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_debug_drawing_shows_the_frustum():
    scene, _camera = build_room(front(draw_debug=True, fov=90, resolution=(16, 16)))
    painter = Painter()
    scene._sensing.draw(painter, 1)
    ends = np.array([position for _, _, position, _, _ in painter.shapes])
    assert np.allclose(ends[:3], (0, 0, 1))  # the camera's axes
    assert np.allclose(ends[3::2].mean(axis=0), (1 / 6, 0, 1), atol=1e-6)  # centres of the four edges
    assert np.allclose(np.abs(ends[3::2, 1]), 1 / 6, atol=1e-6)


def test_plot_shows_all_outputs(tmp_path):
    _scene, camera = build_room(front(outputs=ALL))
    camera.plot(path=tmp_path / "a.png")
    assert imread(tmp_path / "a.png")[..., :3].std() > 0.1
    figure = camera.plot(env=1)
    shown = {axes.get_title(): axes.images[0].get_array() for axes in figure.axes if ":" in axes.get_title()}
    shown.pop("error: none")
    assert list(shown) == [f"{name}: {kind}" for name in ALL for kind in ("ground truth", "measured")]
    data = camera.read()
    assert (shown["rgb: measured"] == data.rgb[1].numpy()).all()
    assert np.allclose(shown["depth: ground truth"], data.depth[1])
    assert np.allclose(shown["normals: measured"], data.normals[1] / 2 + 0.5)
    for name in ("segmentation", "instance"):  # one colour per id
        ids = getattr(data, name)[1].reshape(24 * 32, -1)[:, -1]
        colours = shown[f"{name}: measured"].reshape(-1, 3)
        assert (
            len(np.unique(np.column_stack([ids, colours]), axis=0))
            == len(ids.unique())
            == len(np.unique(colours, axis=0))
        )
    for name in camera.outputs:
        getattr(camera, f"disable_{name}_rendering")()
    with pytest.raises(
        sn.OptionError, match=r"camera 'front' has no outputs to plot; enable one, such as enable_rgb_rendering\(\)"
    ):
        camera.plot()


def test_plot_hides_pixels_without_a_depth_reading():
    depth = torch.tensor([[0.0, 2.0, np.inf], [1.0, 0.0, 3.0]])
    assert np.array_equal(as_picture("depth", depth), [[np.nan, 2, np.nan], [1, np.nan, 3]], equal_nan=True)
    _scene, camera = build_room(front(outputs=("depth",), profile=sn.CameraProfile(min_range=2.5)))
    shown = [axes.images[0].get_array() for axes in camera.plot().axes if axes.get_title()]
    assert np.nanmin(shown[0]) < 2  # the box
    assert np.nanmin(shown[1]) >= 2.5


# -- special cases ----------------------------------------------------------------------------------------------------


def test_ground_truth_history_is_current_between_steps():
    scene, camera = build_room(front(history_length=2, outputs=("depth",)))
    scene.step(2)
    held = camera.read().depth.clone()
    before = camera.read_ground_truth().depth.clone()
    camera.set_pose(pos=(0.5, 0, 1), envs=[1])
    after = camera.read_ground_truth().depth
    assert after.shape == before.shape == (3, 2, 24, 32)
    middle = (slice(None), 0, 12, 1)
    torch.testing.assert_close((before - after)[middle], torch.tensor([0.0, 0.5, 0.0]), atol=1e-3, rtol=0)
    assert torch.equal(after[:, 1], before[:, 1])  # the past is unchanged
    assert torch.equal(camera.read().depth, held)  # captured before the move
    scene.step()
    torch.testing.assert_close(camera.read().depth[:, 0], camera.read_ground_truth().depth[:, 0])


def test_overscan_margins_grow_with_the_field_of_view():
    profile = sn.CameraProfile(k1=-0.25, k2=0.05)
    scene, camera = build_room(front(profile=profile, fov=30, outputs=("rgb", "depth"), pos=(2, 0, 1), rate=None))
    assert bool(camera.read().depth.isfinite().all())
    camera.set_intrinsics(fov=80)
    reading = camera.read()
    assert bool(reading.depth.isfinite().all())
    assert reading.rgb.shape == (3, 24, 32, 3)
    torch.testing.assert_close(camera.fov, torch.full((3,), 80.0))
    address = reading.rgb.data_ptr()
    camera.set_intrinsics(fov=40, envs=[0])  # narrower: nothing is allocated again
    assert camera.read().rgb.data_ptr() == address
    torch.testing.assert_close(camera.fov, torch.tensor([40.0, 80.0, 80.0]))
    scene.close()


def test_concurrent_reads_share_one_pass():
    scene, a, b = build_room(front(), front(uuid="side", pos=(1, -2, 1), lookat=(1, 0, 1)), n_envs=2)
    for _ in range(5):
        scene.step()
        passes, images = a._render_pass.passes, []
        barrier = threading.Barrier(4)

        def read(camera, barrier=barrier, images=images):
            barrier.wait()
            images.append((camera, camera.read().rgb.clone()))

        threads = [threading.Thread(target=read, args=(camera,)) for camera in (a, b, a, b)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert a._render_pass.passes == passes + 1
        assert all(torch.equal(image, camera.read().rgb) for camera, image in images)


def test_pick_pixel_looks_through_the_lens():
    profile = sn.CameraProfile(k1=-0.3)
    _, camera = build_room(
        front(profile=profile, outputs=("segmentation",), resolution=(64, 48), lookat=(1, 0, 1.5), fov=70), n_envs=1
    )
    seen = camera.read().segmentation[0, ::4, ::4, 1]
    true = camera.read_ground_truth().segmentation[0, ::4, ::4, 1]
    picked = torch.tensor([[camera.pick_pixel(0, x, y).geom_id for x in range(0, 64, 4)] for y in range(0, 48, 4)])
    right, pinhole = (float((picked == image).float().mean()) for image in (seen, true))
    assert right > 0.98  # ids move by whole pixels, so edges differ slightly
    assert pinhole < right - 0.02


def test_calibration_properties_are_consistent():
    _, camera = build_room(front(principal_point=(10, 20)), n_envs=2)
    assert camera.resolution == (32, 24)
    torch.testing.assert_close(camera.principal_point, torch.tensor([[10.0, 20.0]] * 2))
    torch.testing.assert_close(camera.focal_length[:, 0], camera.intrinsics[:, 0, 0])
    flip = torch.diag(torch.tensor([1.0, -1.0, -1.0]))
    torch.testing.assert_close(flip @ camera.extrinsics_gl, camera.extrinsics_cv)
    whole = torch.cat([camera.extrinsics_gl, torch.tensor([[[0.0, 0, 0, 1]]] * 2)], dim=1)
    torch.testing.assert_close(whole @ camera.cam2world_gl, torch.eye(4).expand(2, 4, 4), atol=1e-6, rtol=0)


# -- the ground -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("renderer", ["raster", "batch"])
def test_infinite_ground_is_visible_from_everywhere(renderer):
    """The ground is infinite, also after another camera, another env, or another pose was drawn."""
    scene = sn.Scene(dt=0.01)
    scene.add_object(sn.Plane())
    views = {"resolution": (32, 24), "fov": 60, "outputs": ("depth", "segmentation"), "renderer": renderer}
    near, far = (
        scene.add_sensor(sn.Camera(uuid=f"at{x}", pos=(x, 0, 1), lookat=(x + 1, 0, 0.5), **views)) for x in (0, 170)
    )
    scene.build(n_envs=3)
    expected = near.read().depth[0].clone()
    assert expected.isfinite().sum() > 300
    for _ in range(3):
        scene.step()
        for camera in (near, far):
            depth = camera.read().depth
            assert torch.equal(depth.isfinite(), expected.isfinite().expand_as(depth))
            torch.testing.assert_close(depth, expected.expand_as(depth), rtol=1e-3, atol=1e-3)
    near.set_pose(pos=(900, 50, 1), lookat=(901, 50, 0.5), envs=[1])
    torch.testing.assert_close(near.read().depth[1], expected, rtol=1e-2, atol=1e-2)


def test_images_do_not_depend_on_what_was_drawn_before():
    """Images are equal to the bit, although infinite planes move with the camera in steps."""
    scene, front_camera, other = build_room(
        front(outputs=("rgb", "depth"), renderer="raster"),
        front(uuid="other", pos=(0.3, 40, 2), lookat=(5, 38, 0), outputs=("rgb", "depth"), renderer="raster"),
    )
    first = [camera.read().depth.clone() for camera in (front_camera, other)]
    for _ in range(4):
        scene.reset()
        for camera, expected in zip((front_camera, other), first, strict=True):
            assert torch.equal(camera.read().depth, expected)


def test_snapshot_far_away_shows_the_ground():
    import mujoco

    scene = sn.Scene()
    scene.add_object(sn.Plane(rgba=(0, 1, 0, 1)))
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2)), name="box", pos=(0, 0, 0.5), free=True)
    scene.build()
    view = mujoco.MjvCamera()
    view.distance, view.elevation, view.azimuth = 2, -30, 90
    pictures = []
    for x in (0.0, 500.0):
        view.lookat[:] = (x, 0, 0.3)
        pictures.append(scene.snapshot(camera=view, width=64, height=48)[40, 10])
    assert pictures[0].tolist() == pictures[1].tolist()
    assert pictures[0][1] > 100
