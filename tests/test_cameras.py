"""Cameras: when they render, what they return, and what they say when something is wrong."""

import gc
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from conftest import ARM
from gl import needs_gl
from matplotlib.image import imread

import sensorium as sn
from sensorium.cameras import randomize_look
from sensorium.cameras import renderer as renderers
from sensorium.cameras.plotting import as_picture
from sensorium.cameras.raster import canvas
from sensorium.worlds import Painter

pytestmark = needs_gl
ALL = ("rgb", "depth", "segmentation", "instance", "normals", "points")


def room(**options):
    """A wall 3 m before the camera, a box that falls past it, and an arm."""
    scene = sn.Scene(**{"dt": 0.01, "substeps": 2, **options})
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(0.2, 6, 6)), name="wall", pos=(3.1, 0, 1))
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), rgba=(1, 0, 0, 1)), name="box", pos=(1, 0, 1.2), free=True)
    scene.add_robot(ARM, name="arm", pos=(1.5, 0.5, 0))
    return scene


def n_threads():
    gc.collect()  # scenes of other tests
    return threading.active_count()


def front(**options):
    return sn.Camera(
        **{"uuid": "front", "pos": (0, 0, 1), "lookat": (3, 0, 1), "resolution": (32, 24), "fov": 60, **options}
    )


def started(*cameras, n_envs=3, **options):
    scene = room(**options)
    sensors = [scene.add_sensor(camera) for camera in cameras]
    scene.build(n_envs=n_envs)
    return scene, *sensors


# -- the life cycle ----------------------------------------------------------------------


def test_construction_takes_no_renderer_and_build_takes_one_for_all():
    before = n_threads()
    scene = room()
    cameras = [scene.add_sensor(front(uuid=f"c{i}", resolution=(8 * (i + 1), 8))) for i in range(3)]
    assert n_threads() <= before
    for camera in cameras:
        with pytest.raises(sn.NotBuiltError, match=r"before scene\.build"):
            camera.read()
    scene.build(n_envs=2)
    assert len({id(camera._block) for camera in cameras}) == 1
    assert [camera.uuid for camera in cameras[0]._block.cameras] == ["c0", "c1", "c2"]
    for camera, width in zip(cameras, (8, 16, 24), strict=True):
        assert camera.view.caches["rgb"].shape == (2, 8, width, 3)
        assert camera.view.caches["rgb"].device == scene.device
    scene.close()
    assert n_threads() <= before


def test_canvases_have_the_size_of_the_largest_camera(monkeypatch):
    sizes = []
    start = canvas.Canvas._start
    note = lambda self, model, size, *rest: (sizes.append(size), start(self, model, size, *rest))[1]  # noqa: E731
    monkeypatch.setattr(canvas.Canvas, "_start", note)
    lens = sn.CameraProfile(k1=0.02, k2=-0.1)  # which needs margins
    small, wide, tall, bent = (
        front(uuid="small"),
        front(uuid="wide", resolution=(200, 10)),
        front(uuid="tall", resolution=(10, 150)),
        front(uuid="bent", resolution=(190, 100), fov=50, profile=lens),
    )
    *_, sensor = started(small, wide, tall, bent)
    assert sensor.view.width > 200
    assert set(sizes) == {(sensor.view.width, 150)}
    assert sensor.read().rgb.shape == (3, 100, 190, 3)


def test_construction_takes_nothing_of_a_renderer():
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


def test_a_step_renders_nothing_and_the_first_read_everything():
    scene, a, b = started(front(), front(uuid="side", pos=(1, -2, 1), lookat=(1, 0, 1)))
    block = a._block
    scene.step(count=5)
    assert block.passes == 0
    image = a.read().rgb
    assert block.passes == 1
    assert len(torch.unique(b.view.caches["rgb"])) > 3  # drawn by the same pass
    address, version = image.data_ptr(), image._version
    for camera in (a, b):
        camera.read(), camera.read_ground_truth()
    assert (block.passes, a.read().rgb.data_ptr(), image._version) == (1, address, version)
    kept = image.clone()
    scene.step(count=20)
    assert torch.equal(image, kept)
    assert a.read().rgb.data_ptr() == address
    assert block.passes == 2
    assert not torch.equal(image, kept)


def test_shapes_and_types_of_all_outputs():
    _scene, camera = started(front(outputs=ALL))
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
    assert sn.CameraData(*started(front())[1].read())._asdict().keys() == set(ALL)
    assert started(front())[1].read().depth is None


def test_segmentation_and_instances_name_what_is_seen():
    scene, camera = started(front(outputs=ALL))
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
    up = started(front(outputs=ALL, pos=(-5, 0, 1), lookat=(-5, 0, 5), up=(1, 0, 0)))[1].read()
    assert bool((up.segmentation == -1).all() and (up.instance == -1).all() and torch.isinf(up.depth).all())
    assert bool(torch.isnan(up.points).all() and (up.normals == 0).all())


def test_set_pose_detaches_those_envs_and_attach_brings_them_back():
    scene, hand = started(sn.Camera(link="lower", uuid="hand", pos=(0, 0, 0.35), lookat=(0, 0, 1), resolution=(16, 16)))
    first = hand.read().rgb.clone()
    passes = hand._block.passes
    on_link = hand.cam2world_gl.clone()
    hand.set_pose(pos=(0, 0, 1), lookat=(3, 0, 1), envs=[1])
    image = hand.read().rgb
    assert hand._block.passes == passes + 1
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


def test_only_touched_envs_are_rendered_again(monkeypatch):
    scene, camera = started(front(outputs=("rgb", "depth")), n_envs=4)
    block, asked = camera._block, []
    draw = block._renderer.render
    monkeypatch.setattr(block._renderer, "render", lambda views, envs: (asked.append(envs), draw(views, envs)))
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
    for change, touched in zip(changes, ([1], [2], [0, 3], [3], [0], [2]), strict=True):
        changes[change]()
        before = camera.view.caches["rgb"].clone()
        image = camera.read().rgb
        assert asked[-1].tolist() == touched, change
        others = [env for env in range(4) if env not in touched]
        assert torch.equal(image[others], before[others]), change
    assert not torch.equal(camera.read().rgb[3], first[3])
    assert asked[0] is None
    assert len(asked) == 1 + len(changes)


def test_joints_that_were_set_are_seen_without_a_step_and_change_nothing_else():
    scene, camera = started(front(outputs=("segmentation",)))
    twin, _ = started(front(outputs=("segmentation",)))
    for one in (scene, twin):
        one.step(count=3)
        one["box"].set_pose(pos=(1, 0, 1))
    ids = camera.read().segmentation[0, ..., 0]
    body = scene.model.body("box").id
    assert ids[12, 16] == body  # it stands before the camera
    scene.step(count=5)
    twin.step(count=5)
    assert torch.equal(scene.get_state(), twin.get_state())


def test_link_poses_are_exact_with_and_without_exact_sensing():
    for exact in (True, False):
        scene, camera = started(sn.Camera(link="box", resolution=(8, 8)), exact_sensing=exact)
        scene.step(count=7)
        camera.read()
        where = scene["box"].get_pose()[0]
        assert torch.allclose(camera.cam2world_gl[:, :3, 3], where, atol=1e-6)


def test_ground_truth_and_measured_are_one_memory_without_profile_and_shutter():
    _, camera = started(front())
    assert camera.read().rgb.data_ptr() == camera.read_ground_truth().rgb.data_ptr()
    _scene, camera = started(front(rate=10))
    assert camera.read().rgb.data_ptr() != camera.read_ground_truth().rgb.data_ptr()


def test_reads_of_some_envs_are_copies_in_the_order_asked_for():
    _scene, camera = started(front())
    camera.set_pose(pos=(0, 0.5, 1), envs=[2])
    some = camera.read(envs=[2, 0])
    assert torch.equal(some.rgb, camera.read().rgb[[2, 0]])
    assert some.rgb.data_ptr() != camera.read().rgb.data_ptr()


def test_outputs_are_switched_from_the_tree():
    scene, a, b = started(front(), front(uuid="b", outputs=("depth",)))
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
    passes = b._block.passes
    scene.step()
    assert b.read() == sn.CameraData()
    a.disable_rgb_rendering()
    a.disable_points_rendering()
    scene.step()
    assert a.read() == sn.CameraData()
    assert b._block.passes == passes + 1  # the one for a
    b.enable_depth_rendering()
    assert torch.isfinite(b.read().depth).all()
    early = room()
    camera = early.add_sensor(front())
    camera.enable_depth_rendering()
    early.build()
    assert torch.isfinite(camera.read().depth).all()


def test_buffers_have_tags_and_render_when_looked_at():
    scene, camera = started(front(outputs=("rgb", "depth")))
    scene.step()
    assert camera._block.passes == 0
    state = scene.state_dict(exclude_tags=["rgb"])
    images = [path for path in state if path.startswith("front.")]
    assert images == ["front.depth", "front.ground_truth_depth"]
    assert camera._block.passes == 1
    assert torch.equal(state["front.depth"], camera.read().depth)
    assert set(scene.state_dict(include_tags=["measured"])) == {"front.rgb", "front.depth"}
    assert set(scene.state_dict(include_tags=["camera"])) == {
        "front.rgb",
        "front.depth",
        "front.ground_truth_rgb",
        "front.ground_truth_depth",
    }
    assert scene.state_dict(exclude_tags=["camera"]).keys().isdisjoint(images)


def test_close_frees_threads_and_reads_say_so():
    before = n_threads()
    scene, camera = started(front())
    camera.read()
    scene.close()
    assert n_threads() == before
    with pytest.raises(sn.NotBuiltError):
        camera.read()


def test_garbage_collection_frees_threads():
    before = n_threads()
    scene, camera = started(front())
    camera.read()
    del scene, camera
    gc.collect()
    assert n_threads() == before


def test_a_process_that_ends_with_open_cameras_says_nothing():
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
BENT = sn.CameraProfile(k1=-0.1, exposure_time=0.01, motion_blur=3, jpeg_quality=50, depth_noise=(0.1, 0, 0))
cls, options = {
    "raster": (sn.RasterizerCamera, {"outputs": ALL}),
    "batch": (sn.BatchRendererCamera, {"outputs": ALL}),
    "pathtrace": (sn.RaytracerCamera, {"outputs": ALL, "samples": 1}),
    "profile": (sn.RasterizerCamera, {"outputs": ALL, "profile": BENT}),
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
print(*min(growth))  # allocators take large pieces now and then, which is no leak
"""


@pytest.mark.parametrize("kind", ["raster", "batch", "pathtrace", "profile"])
def test_many_scenes_leak_nothing(kind):
    if kind == "pathtrace":
        pytest.importorskip("mitsuba")
    done = subprocess.run([sys.executable, "-c", LEAK, kind], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    memory, threads, files = (int(word) for word in done.stdout.split())
    assert memory < 15 * 100_000  # the images of one scene are 176 kB
    assert (threads, files) == (0, 0)


# -- batches ----------------------------------------------------------------------


def test_images_do_not_depend_on_batch_size_or_other_cameras():
    options = {"outputs": ("rgb", "depth", "segmentation")}
    _, alone = started(front(**options), n_envs=1)
    _, _other, together = started(front(uuid="x", resolution=(64, 48), pos=(2, 0, 1)), front(**options), n_envs=5)
    for camera in (alone, together):
        camera.set_pose(pos=(0, 0.1, 1.1), envs=[0])
    for mine, theirs in zip(alone.read(), together.read(), strict=True):
        assert mine is theirs is None or torch.equal(mine[0], theirs[0])


def test_model_fields_that_differ_per_env_are_seen():
    scene, camera = started(front(outputs=("rgb", "segmentation")))
    colours = scene.world.expand("geom_rgba")
    geom = scene.model.geom("wall").id
    colours[:, geom, :3] = torch.tensor([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])
    colours[1, scene.model.geom("box").id, 3] = 0  # not there in env 1
    scene.forward()
    image = camera.read().rgb[:, 12, 28].float()
    assert image.argmax(dim=1).tolist() == [0, 1, 2]
    boxes = (camera.read().segmentation[..., 0] == scene.model.body("box").id).sum(dim=(1, 2))
    assert boxes[0] == boxes[2] > 0
    assert boxes[1] == 0


def test_sites_and_rangefinders_are_not_seen():
    plain = started(front())[1].read().rgb
    scene = room()
    camera = scene.add_sensor(front())
    scene.add_sensor(sn.IMU(link="box", pos=(-0.12, 0, 0)))
    scene.add_sensor(sn.Magnetometer(link="wall", pos=(-0.2, 0, 0)))
    scene.build(n_envs=3)
    assert torch.equal(camera.read().rgb, plain)


# -- look ----------------------------------------------------------------------


def lit(*lights, sky=None, quality=None):
    scene = sn.Scene(sky=sky)
    scene.add_object(sn.Plane(rgba=(1, 1, 1, 1)))
    scene.add_object(sn.Box(size=(0.5, 0.5, 0.5)), pos=(0, 0, 0.5))
    for light in lights:
        scene.add_light(**light)
    camera = scene.add_sensor(sn.Camera(pos=(0, -4, 4), lookat=(0, 0, 0), resolution=(64, 64), fov=60, quality=quality))
    scene.build()
    return camera.read().rgb[0].float().mean(-1)


def test_lights_shine_where_they_point():
    down = {"type": "directional", "direction": (0, 0, -1), "shadow": False}
    assert lit(down)[50, 10] > lit({**down, "intensity": 0.2})[50, 10] > lit({**down, "intensity": 0.0})[50, 10]
    spot = lit({"type": "spot", "pos": (-1.5, -1.5, 2), "lookat": (-1.5, -1.5, 0), "cutoff": 20, "intensity": 1.0})
    assert spot[40, 20] > spot[40, 44] + 20  # left of the image, not right
    point = lit({"type": "point", "pos": (1.5, -1.5, 0.5), "intensity": 1.0})
    assert point[45, 50] > point[45, 14] + 20
    area = lit({"type": "area", "pos": (0, -2, 3), "radius": 0.4})
    assert area[55, 32] > area[5, 32] + 20


def test_quality_decides_about_shadows():
    sun = {"type": "directional", "pos": (2, 0, 4), "direction": (-1, 0, -1)}
    fast, high = lit(sun, quality="fast"), lit(sun, quality="high")
    shade = (fast - high) > 20
    assert shade[:, :32].sum() > 10  # away from the sun
    assert shade[:, 36:].sum() == 0


def looks(n_envs=3, seed=5, lights=True, **options):
    scene = room()
    if lights:
        scene.add_light("directional", name="sun", direction=(0.3, 0, -1))
    camera = scene.add_sensor(front())
    scene.build(n_envs=n_envs, seed=seed)
    if options:
        randomize_look(scene, **options)
    return scene, camera


@pytest.mark.parametrize("quality", ["balanced", "high"])
def test_the_ground_has_no_specks_where_a_shadow_map_ends(quality):
    scene = sn.Scene()
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(0.3, 0.3, 0.3)), name="box", pos=(0, 0, 0.15))
    scene.add_light("directional", direction=(0.3, 0.5, -1))
    camera = scene.add_sensor(
        sn.RasterizerCamera(
            pos=(2, 0.4, 1.2), lookat=(0, 0, 0), resolution=(224, 168), quality=quality, outputs=("rgb", "segmentation")
        )
    )
    scene.build()
    data = camera.read()
    ground = data.segmentation[0, ..., 0] == scene.model.body("plane").id
    light = data.rgb[0].float().sum(-1)
    dark = ground & (light < 0.7 * light[ground].median())
    shadow = torch.zeros_like(dark)
    shadow[70:105, 90:145] = True  # that of the box, which is there
    assert int((dark & shadow).sum()) > 100
    assert int((dark & ~shadow).sum()) == 0


def test_looks_differ_per_env_and_come_from_the_seed():
    options = {"intensity": (0.3, 1.0), "tint": 0.3, "direction": 0.5, "position": 1.0, "colors": 0.4}
    plain = looks()[1].read().rgb
    scene, camera = looks(**options)
    image = camera.read().rgb.clone()
    assert not any(torch.equal(image[i], other) for i in range(3) for other in (plain[0], image[(i + 1) % 3]))
    assert torch.equal(looks(n_envs=1, **options)[1].read().rgb[0], image[0])
    assert not torch.equal(looks(seed=6, **options)[1].read().rgb, image)
    sun, world = scene.model.light("sun").id, scene.world
    turned = world.expand("light_dir")[:, sun] @ torch.from_numpy(scene.model.light_dir[sun])
    assert bool((turned > np.cos(0.5) - 1e-9).all() and (turned < 1).any())
    ratio = world.expand("light_diffuse")[:, sun] / torch.from_numpy(scene.model.light_diffuse[sun])
    assert bool((ratio > 0.3 * 0.7).all() and (ratio < 1.3).all())
    randomize_look(scene, **options, draw=1, envs=[1])
    again = camera.read().rgb
    assert torch.equal(again[[0, 2]], image[[0, 2]])
    assert not torch.equal(again[1], image[1])
    randomize_look(scene, **options, envs=[1])  # the same draw gives the same look
    assert torch.equal(camera.read().rgb, image)


def test_looks_of_one_entity_and_of_nothing():
    scene, camera = looks(colors=0.5, entities=["box"])
    plain, wall, box = looks()[1].read().rgb, (12, 28), (8, 16)
    camera.enable_segmentation_rendering()
    ids = camera.read().segmentation[0, ..., 0]
    rows, columns = (ids == scene.model.body("box").id).nonzero(as_tuple=True)
    box = (rows[len(rows) // 2], columns[len(rows) // 2])
    assert torch.equal(camera.read().rgb[:, wall[0], wall[1]], plain[:, wall[0], wall[1]])
    assert not torch.equal(camera.read().rgb[:, box[0], box[1]], plain[:, box[0], box[1]])
    for bad, message in (
        ({"intensity": (2, 1)}, "least, most"),
        ({"direction": 2.0}, "direction"),
        ({"colors": 0.1, "entities": ["bx"]}, "did you mean 'box'"),
        ({"materials": ["wood"]}, "no material 'wood'.*there are none"),
        ({"tint": 0.1, "draw": -1}, r"draw must be an integer in \[0, 2\*\*32\), got -1"),
        ({"tint": 0.1, "draw": 2**32}, "draw must be an integer"),
    ):
        with pytest.raises(sn.SensoriumError, match=message):
            randomize_look(scene, **bad)
    with pytest.raises(sn.OptionError, match="add_light"):
        looks(lights=False, tint=0.1)


CRATE = """
<mujoco model="crate"><asset>
  <texture name="stripes" type="2d" builtin="checker" rgb1="1 0 0" rgb2="0 1 0" width="64" height="64"/>
  <texture name="blue" type="2d" builtin="flat" rgb1="0 0 1" width="8" height="8"/>
  <material name="stripes" texture="stripes" specular="0"/>
  <material name="blue" texture="blue" specular="0"/>
  <material name="grey" rgba="0.6 0.6 0.6 1" specular="0"/>
</asset><worldbody><body><geom type="box" size="0.01 2 2" pos="1 0 0"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("renderer", ["raster", "batch"])
def test_textures_differ_per_env_and_come_from_the_seed(renderer):
    def crates(n_envs=12, **options):
        scene = sn.Scene()
        scene.add_object(CRATE, name="crate")
        scene.add_object(sn.Box(size=(0.1, 0.1, 0.1), rgba=(1, 1, 1, 1)), name="box", pos=(0.8, -0.2, 0))
        camera = scene.add_sensor(sn.Camera(lookat=(1, 0, 0), resolution=(32, 32), renderer=renderer, fov=60))
        scene.build(n_envs=n_envs, seed=3)
        camera.read()
        randomize_look(scene, **options)
        return scene, camera

    def kinds(images):
        """What fills the left half of images: stripes, which have red and green, blue, or grey."""
        found = []
        for image in images[:, :, :16].float():
            red, green, blue = (image[..., channel] for channel in range(3))
            if bool(((red > 2 * green) & (red > 60)).any() and ((green > 2 * red) & (green > 60)).any()):
                found.append("stripes")
            else:
                found.append("blue" if float(blue.mean()) > 3 * float(red.mean()) else "grey")
        return found

    options = {"materials": [f"crate/{name}" for name in ("stripes", "blue", "grey")], "entities": ["crate"]}
    scene, camera = crates(**options)
    image = camera.read().rgb.clone()
    seen = kinds(image)
    assert set(seen) == {"stripes", "blue", "grey"}
    assert kinds(crates(n_envs=5, **options)[1].read().rgb) == seen[:5]
    box = image[:, 16, 23].float()  # which was not asked for
    assert float((box.max(1).values - box.min(1).values).max()) < 3
    randomize_look(scene, **options, draw=1, envs=[0, 1, 2, 3, 4, 5])
    again = kinds(camera.read().rgb)
    assert again[6:] == seen[6:]
    assert again[:6] != seen[:6]
    randomize_look(scene, **options)
    assert torch.equal(camera.read().rgb, image)
    assert set(kinds(crates(**{**options, "materials": ["crate/blue"]})[1].read().rgb)) == {"blue"}


def test_the_sky_is_behind_everything():
    scene = sn.Scene(sky=((0, 0, 1), (1, 0, 0)))
    up = scene.add_sensor(sn.Camera(uuid="up", lookat=(0, 0, 1), resolution=(8, 8), outputs=("rgb", "depth")))
    down = scene.add_sensor(sn.Camera(uuid="down", lookat=(0, 0, -1), resolution=(8, 8)))
    scene.build()
    assert up.read().rgb[0, 4, 4].argmax() == 2
    assert down.read().rgb[0, 4, 4].argmax() == 0
    assert torch.isinf(up.read().depth).all()


def test_transparent_things_have_depth():
    scene = sn.Scene()
    scene.add_object(sn.Box(size=(0.1, 1, 1), rgba=(1, 1, 1, 0.3)), pos=(1.05, 0, 0))
    scene.add_object(sn.Box(size=(0.1, 9, 9)), pos=(3.05, 0, 0))
    camera = scene.add_sensor(
        sn.Camera(lookat=(1, 0, 0), resolution=(16, 16), outputs=("rgb", "depth"), anti_aliasing=4)
    )
    scene.build()
    assert camera.read().depth[0, 8, 8].item() == pytest.approx(1.0, abs=1e-4)


# -- what else it can do ----------------------------------------------------------------------


def test_pick_pixel_says_what_is_there():
    _scene, camera = started(front(outputs=("points", "segmentation")))
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


def test_the_choice_of_renderer_is_told():
    scene, auto, fixed = started(front(), sn.RasterizerCamera(uuid="r", resolution=(8, 8)))
    assert auto.renderer_choice.name == fixed.renderer_choice.name == "raster"
    assert auto._block is fixed._block
    assert "first choice on cpu" in str(auto.renderer_choice)
    table = scene.describe()
    assert re.search(r"on read, raster \(first choice on cpu: (EGL|GLFW|OSMESA), ", table)
    assert "rgb (3, 24, 32, 3)" in table


def test_ways_to_opengl_that_fail_leave_the_next_one_its_choice():
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
    # without a display GLFW gives no window; OSMesa may be there or not
    assert first == "osmesa" or ("egl: no device" in first and "glfw: " in first and "libegl1" in first)
    assert chosen == ("osmesa" if first == "osmesa" else "None")
    assert then in ("egl", "osmesa")


def test_import_brings_no_opengl():
    code = (
        "import sys, sensorium as sn; sn.Camera(); print([m for m in ('OpenGL', 'warp', 'numba') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_debug_drawing_shows_the_frustum():
    scene, _camera = started(front(draw_debug=True, fov=90, resolution=(16, 16)))
    painter = Painter()
    scene._sensing.draw(painter, 1)
    ends = np.array([position for _, _, position, _, _ in painter.shapes])
    assert np.allclose(ends[:3], (0, 0, 1))  # axes at the camera
    assert np.allclose(ends[3::2].mean(axis=0), (1 / 6, 0, 1), atol=1e-6)  # middles of the four edges
    assert np.allclose(np.abs(ends[3::2, 1]), 1 / 6, atol=1e-6)


def test_plots_are_pictures(tmp_path):
    _scene, camera = started(front(outputs=ALL))
    camera.plot(path=tmp_path / "a.png")
    assert imread(tmp_path / "a.png")[..., :3].std() > 0.1
    figure = camera.plot(env=1)
    shown = {axes.get_title(): axes.images[0].get_array() for axes in figure.axes if axes.get_title()}
    assert list(shown) == [f"{name}, {kind}" for name in ALL for kind in ("ground truth", "measured")]
    data = camera.read()
    assert (shown["rgb, measured"] == data.rgb[1].numpy()).all()
    assert np.allclose(shown["depth, ground truth"], data.depth[1])
    assert np.allclose(shown["normals, measured"], data.normals[1] / 2 + 0.5)
    for name in ("segmentation", "instance"):  # a colour each
        ids = getattr(data, name)[1].reshape(24 * 32, -1)[:, -1]
        colours = shown[f"{name}, measured"].reshape(-1, 3)
        assert (
            len(np.unique(np.column_stack([ids, colours]), axis=0))
            == len(ids.unique())
            == len(np.unique(colours, axis=0))
        )
    for name in camera.outputs:
        getattr(camera, f"disable_{name}_rendering")()
    with pytest.raises(sn.OptionError, match="'front' has no outputs to draw: enable_rgb_rendering"):
        camera.plot()


def test_depth_that_was_not_read_is_not_drawn():
    depth = torch.tensor([[0.0, 2.0, np.inf], [1.0, 0.0, 3.0]])
    assert np.array_equal(as_picture("depth", depth), [[np.nan, 2, np.nan], [1, np.nan, 3]], equal_nan=True)
    _scene, camera = started(front(outputs=("depth",), profile=sn.CameraProfile(min_range=2.5)))
    shown = [axes.images[0].get_array() for axes in camera.plot().axes if axes.get_title()]
    assert np.nanmin(shown[0]) < 2  # the box
    assert np.nanmin(shown[1]) >= 2.5


# -- errors ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"near": 1.0, "far": 0.5}, "far must be greater than near"),
        ({"near": 1.0, "far": 1.0}, "far must be greater than near"),
        ({"resolution": (0, 8)}, "at least 1 pixel"),
        ({"outputs": ("rbg",)}, "rgb"),
        ({"outputs": ()}, "at least one output"),
        ({"fov": 60, "focal_length": 10}, "give one"),
        ({"focal_length": -3}, "greater than 0"),
        ({"quat": (1, 0, 0, 0), "lookat": (1, 0, 0)}, "not several"),
        ({"lookat": (0, 0, 0), "pos": (0, 0, 0)}, "position of the camera"),
        ({"quality": "best"}, "fast"),
        ({"interpolate": True, "delay": 0.1}, "cannot be interpolated"),
        ({"resolutoin": (8, 8)}, "did you mean 'resolution'"),
        ({"fov": 180}, "fov"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(sn.OptionError, match=message):
        sn.Camera(**options)


def test_fixed_renderers_are_fixed():
    with pytest.raises(sn.OptionError, match="renderer"):
        sn.RasterizerCamera(renderer="batch")


def test_unknown_lights_are_named():
    scene = sn.Scene()
    with pytest.raises(sn.OptionError, match=r"'directional', 'point', 'spot' or 'area'"):
        scene.add_light(type="laser")
    with pytest.raises(sn.OptionError, match="direction or lookat"):
        scene.add_light(direction=(1, 0, 0), lookat=(0, 0, 0))
    scene.add_light(name="sun")
    with pytest.raises(sn.DuplicateNameError):
        scene.add_light(name="sun")


def failing(camera, error, message, scene=None):
    """Building fails, and leaves a scene that can still be told apart from a built one."""
    scene = room() if scene is None else scene
    sensor = scene.add_sensor(camera)
    threads = n_threads()
    with pytest.raises(error, match=message):
        scene.build()
    assert n_threads() == threads
    with pytest.raises(sn.NotBuiltError):
        sensor.read()


def test_resolution_beyond_the_limit():
    failing(front(resolution=(20000, 8)), sn.OptionError, "at most 16384 pixels a side, got .20000, 8.")


def test_mixed_quality_names_both_cameras():
    scene = room()
    scene.add_sensor(front(quality="fast"))
    scene.add_sensor(front(uuid="any"))
    failing(front(uuid="nice", quality="high"), sn.OptionError, "'front' wants 'fast' and 'nice' wants 'high'", scene)


def test_unknown_links_and_renderers():
    failing(front(link="lowr"), sn.NameNotFoundError, "did you mean 'lower'")
    with pytest.raises(sn.OptionError, match="did you mean 'raster'"):
        front(renderer="rastr")


def test_cameras_and_lights_come_before_build():
    scene, _ = started(front())
    with pytest.raises(sn.AlreadyBuiltError, match="add_sensor"):
        scene.add_sensor(front(uuid="late"))
    with pytest.raises(sn.AlreadyBuiltError, match="add_light"):
        scene.add_light()


def test_no_renderer_lists_what_was_tried(monkeypatch):
    from sensorium.cameras.raster import renderer as raster

    def broken():
        raise sn.DeviceError("no OpenGL for pictures (egl: no such library)")

    monkeypatch.setattr(raster, "_try_opengl", broken)
    monkeypatch.setitem(
        renderers._REGISTRY, "batch", renderers._Entry("no_such_module", "X", "pip install mujoco-warp")
    )
    with pytest.raises(sn.DeviceError) as caught:
        renderers.choose("auto", torch.device("cpu"))
    for word in ("raster does not run", "egl: no such library", "no_such_module", "libegl1", "pip install mujoco-warp"):
        assert word in str(caught.value)
    with pytest.raises(sn.DeviceError, match="libegl1"):
        renderers.choose("raster", torch.device("cpu"))


def test_too_little_memory_says_how_much_an_env_takes(monkeypatch):
    scene = room()
    scene.add_sensor(front(resolution=(256, 128)))
    full, zeros = torch.Size((7, 128, 256, 3)), torch.zeros

    def scarce(*shape, **options):
        if torch.Size(shape[0] if isinstance(shape[0], tuple) else shape) == full:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return zeros(*shape, **options)

    monkeypatch.setattr(torch, "zeros", scarce)
    with pytest.raises(sn.DeviceError, match=r"rgb of 7 envs, 96\.0 KiB an env"):
        scene.build(n_envs=7)


def test_bad_poses_change_nothing():
    _scene, camera = started(front())
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
    with pytest.raises(sn.NameNotFoundError, match="did you mean"):
        camera.attach(link="lowr")
    for bad in ({"fov": 0}, {"fov": 60, "focal_length": 3}, {"focal_length": 0}, {"principal_point": (1, 2, 3)}):
        with pytest.raises(sn.OptionError):
            camera.set_intrinsics(**bad)
    assert torch.equal(camera.cam2world_gl, before)


# -- what a review found -----------------------------------------------------------------


def test_ground_truth_with_a_history_is_now_even_between_steps():
    scene, camera = started(front(history_length=2, outputs=("depth",)))
    scene.step(2)
    held = camera.read().depth.clone()
    before = camera.read_ground_truth().depth.clone()
    camera.set_pose(pos=(0.5, 0, 1), envs=[1])
    after = camera.read_ground_truth().depth
    assert after.shape == before.shape == (3, 2, 24, 32)
    middle = (slice(None), 0, 12, 1)
    torch.testing.assert_close((before - after)[middle], torch.tensor([0.0, 0.5, 0.0]), atol=1e-3, rtol=0)
    assert torch.equal(after[:, 1], before[:, 1])  # the past is what it was
    assert torch.equal(camera.read().depth, held)  # which was captured
    scene.step()
    torch.testing.assert_close(camera.read().depth[:, 0], camera.read_ground_truth().depth[:, 0])


def test_a_lens_keeps_its_margins_when_the_view_widens():
    profile = sn.CameraProfile(k1=-0.25, k2=0.05)
    scene, camera = started(front(profile=profile, fov=30, outputs=("rgb", "depth"), pos=(2, 0, 1), rate=None))
    assert bool(camera.read().depth.isfinite().all())
    camera.set_intrinsics(fov=80)
    reading = camera.read()
    assert bool(reading.depth.isfinite().all())
    assert reading.rgb.shape == (3, 24, 32, 3)
    torch.testing.assert_close(camera.fov, torch.full((3,), 80.0))
    address = reading.rgb.data_ptr()
    camera.set_intrinsics(fov=40, envs=[0])  # narrower: nothing is allocated anew
    assert camera.read().rgb.data_ptr() == address
    torch.testing.assert_close(camera.fov, torch.tensor([40.0, 80.0, 80.0]))
    scene.close()


def test_threads_share_one_pass():
    scene, a, b = started(front(), front(uuid="side", pos=(1, -2, 1), lookat=(1, 0, 1)), n_envs=2)
    for _ in range(5):
        scene.step()
        passes, images = a._block.passes, []
        barrier = threading.Barrier(4)

        def look(camera, barrier=barrier, images=images):
            barrier.wait()
            images.append((camera, camera.read().rgb.clone()))

        threads = [threading.Thread(target=look, args=(camera,)) for camera in (a, b, a, b)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert a._block.passes == passes + 1
        assert all(torch.equal(image, camera.read().rgb) for camera, image in images)


def test_picking_looks_through_the_lens():
    profile = sn.CameraProfile(k1=-0.3)
    _, camera = started(
        front(profile=profile, outputs=("segmentation",), resolution=(64, 48), lookat=(1, 0, 1.5), fov=70), n_envs=1
    )
    seen = camera.read().segmentation[0, ::4, ::4, 1]
    true = camera.read_ground_truth().segmentation[0, ::4, ::4, 1]
    picked = torch.tensor([[camera.pick_pixel(0, x, y).geom_id for x in range(0, 64, 4)] for y in range(0, 48, 4)])
    right, pinhole = (float((picked == image).float().mean()) for image in (seen, true))
    assert right > 0.98  # ids move by whole pixels, so the edges of things do not quite fit
    assert pinhole < right - 0.02


def test_extrinsics_and_intrinsics_by_name():
    _, camera = started(front(principal_point=(10, 20)), n_envs=2)
    assert camera.resolution == (32, 24)
    torch.testing.assert_close(camera.principal_point, torch.tensor([[10.0, 20.0]] * 2))
    torch.testing.assert_close(camera.focal_length[:, 0], camera.intrinsics[:, 0, 0])
    flip = torch.diag(torch.tensor([1.0, -1.0, -1.0]))
    torch.testing.assert_close(flip @ camera.extrinsics_gl, camera.extrinsics_cv)
    whole = torch.cat([camera.extrinsics_gl, torch.tensor([[[0.0, 0, 0, 1]]] * 2)], dim=1)
    torch.testing.assert_close(whole @ camera.cam2world_gl, torch.eye(4).expand(2, 4, 4), atol=1e-6, rtol=0)


def test_bad_poses_and_names_say_what_is_wrong():
    scene, camera = started(front())
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


# -- the ground -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("renderer", ["raster", "batch"])
def test_the_ground_is_under_every_camera_wherever_it_was_before(renderer):
    """It has no end, whoever was drawn before: another camera, another env, or this one elsewhere."""
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


def test_what_is_drawn_does_not_depend_on_what_was_drawn_before():
    """To the bit: endless planes move with the camera, in steps."""
    scene, front_camera, other = started(
        front(outputs=("rgb", "depth"), renderer="raster"),
        front(uuid="other", pos=(0.3, 40, 2), lookat=(5, 38, 0), outputs=("rgb", "depth"), renderer="raster"),
    )
    first = [camera.read().depth.clone() for camera in (front_camera, other)]
    for _ in range(4):
        scene.reset()
        for camera, expected in zip((front_camera, other), first, strict=True):
            assert torch.equal(camera.read().depth, expected)


def test_a_snapshot_far_away_shows_the_ground():
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
