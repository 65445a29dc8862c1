"""The batch renderer (MuJoCo Warp's ray tracer) on the CPU, compared with closed forms and with OpenGL."""

import gc
import math
import threading
import weakref
from types import SimpleNamespace

import mujoco_warp
import numpy as np
import pytest
import torch
import warp as wp
from gl import needs_gl

import sensorium as sn
from sensorium.cameras import project
from sensorium.cameras.batch.renderer import BatchRenderer, _GpuBackend, describe_shortage, is_out_of_memory
from sensorium.cameras.batch.tracer import sample_positions
from sensorium.cameras.raster.renderer import RasterRenderer
from sensorium.cameras.renderer import CameraView

ALL = ("rgb", "depth", "segmentation", "normals")

ROOM = """
<mujoco>
  <asset>
    <texture name="tiles" type="2d" builtin="checker" rgb1="0.8 0.7 0.2" rgb2="0.2 0.3 0.4" width="128" height="128"/>
    <material name="tiles" texture="tiles" texrepeat="3 3"/>
    <material name="matt" specular="0" rgba="0.7 0.2 0.2 1"/>
    <mesh name="wedge" vertex="0 0 0  0.5 0 0  0 0.5 0  0.5 0.5 0  0 0 0.4  0 0.5 0.4"/>
  </asset>
  <worldbody>
    <geom name="floor" type="plane" size="4 4 0.1" material="tiles"/>
    <geom name="wall" type="box" pos="-1.5 0 0.75" size="0.1 2 0.75" material="matt"/>
    <geom name="wedge" type="mesh" mesh="wedge" pos="0.4 0.2 0" rgba="0.2 0.6 0.3 1"/>
    <geom name="post" type="cylinder" pos="-0.4 -0.6 0.4" size="0.1 0.4" rgba="0.3 0.3 0.8 1"/>
    <geom name="dome" type="ellipsoid" pos="-0.6 0.7 0.1" size="0.2 0.3 0.2" rgba="0.8 0.8 0.3 1"/>
    <geom name="hidden" type="box" pos="0 0 0.6" size="0.2 0.2 0.2" group="4"/>
  </worldbody>
</mujoco>
"""


def room(renderer="batch", n_envs=3, lights=False, **options):
    """Build a room with a free box and a free capsule, and a camera that looks at them from a corner."""
    scene = sn.Scene(dt=0.01, substeps=2, sky=((0.5, 0.6, 0.8), (0.1, 0.2, 0.4)))
    scene.add_object(ROOM, name="room")
    scene.add_object(sn.Box(size=(0.3, 0.2, 0.1)), name="box", pos=(0.2, -0.3, 0.6), free=True)
    scene.add_object(sn.Capsule(radius=0.06, length=0.3), name="pill", pos=(0.0, 0.4, 0.8), free=True)
    if lights:
        scene.add_light("directional", direction=(0.3, 0.2, -1))
    defaults = {"pos": (1.9, -1.3, 1.5), "lookat": (-0.2, 0.1, 0.4), "resolution": (120, 90), "outputs": ALL}
    camera = scene.add_sensor(sn.Camera(uuid="eye", renderer=renderer, **{**defaults, **options}))
    scene.build(n_envs=n_envs)
    generator = np.random.default_rng(5)
    quats = generator.normal(size=(8, 4))[:n_envs]
    positions = generator.uniform((-0.3, -0.5, 0.4), (0.3, 0.5, 0.9), (8, 3))[:n_envs]
    scene["box"].set_pose(pos=positions, quat=quats / np.linalg.norm(quats, axis=1, keepdims=True))
    return scene, camera


def wall(distance=3.0, turn=0.0, n_envs=1, **options):
    """Build a wall across the x axis, and a camera at the origin."""
    scene = sn.Scene()
    scene.add_object(sn.Box(size=(0.2, 60, 60)), name="wall", pos=(distance + 0.1, 0, 0))
    defaults = {"lookat": (math.cos(turn), math.sin(turn), 0), "resolution": (64, 48), "fov": 50}
    camera = scene.add_sensor(sn.Camera(renderer="batch", outputs=ALL, **{**defaults, **options}))
    scene.build(n_envs=n_envs)
    return scene, camera


# -- geometry ---------------------------------------------------------------------------------------------------------


def test_depth_of_a_wall_is_exact_to_a_millimetre():
    _, camera = wall()
    data = camera.read()
    assert (
        float((data.depth - 3.0).abs().max()) < 1e-3
    )  # along the optical axis, so the same at the centre and in the corners
    assert data.depth.shape == (1, 48, 64)


def test_depth_of_an_oblique_wall():
    turn = 0.4
    _, camera = wall(turn=turn, principal_point=(20.0, 30.0), focal_length=(50.0, 70.0), fov=None)
    x = (torch.arange(64) + 0.5 - 20.0) / 50.0
    # a ray with slope x points right; per metre of depth it advances cos(turn) + x sin(turn) along the wall's normal
    expected = 3.0 / (math.cos(turn) + x * math.sin(turn))
    assert float((camera.read().depth[0] - expected).abs().max()) < 1e-3


@pytest.mark.parametrize("envs", [None, [0]], ids=["all envs", "one env"])
def test_intrinsics_can_change_at_run_time(envs):
    _, camera = wall(turn=0.4, n_envs=2)
    before = camera.read().depth.clone()
    camera.set_intrinsics(focal_length=(50.0, 70.0), principal_point=(20.0, 30.0), envs=envs)
    x = (torch.arange(64) + 0.5 - 20.0) / 50.0
    expected = 3.0 / (math.cos(0.4) + x * math.sin(0.4))
    depth = camera.read().depth
    assert float((depth[0] - expected).abs().max()) < 1e-3
    assert torch.equal(depth[1], before[1]) == (envs is not None)


def test_surfaces_outside_near_and_far_are_not_rendered():
    scene = sn.Scene()
    scene.add_object(sn.Box(size=(0.2, 1, 1)), pos=(3.1, 0, 0))
    lens = {"lookat": (1, 0, 0), "resolution": (8, 8), "fov": 10, "renderer": "batch", "outputs": ALL}
    planes = {"short": (0.1, 2.9), "fitting": (2.9, 3.1), "long": (3.05, 50.0)}
    cameras = {name: scene.add_sensor(sn.Camera(near=a, far=b, **lens)) for name, (a, b) in planes.items()}
    scene.build()
    for name, camera in cameras.items():
        data = camera.read()
        if name == "fitting":
            assert bool((data.depth - 3.0).abs().max() < 1e-3)
            assert bool((data.segmentation >= 0).all())
            assert bool((data.rgb > 0).all())
        else:
            assert torch.isinf(data.depth).all()
            assert bool((data.segmentation == -1).all())
            assert bool((data.rgb == 0).all())


@pytest.mark.parametrize(
    "options",
    [
        {"fov": 60},
        {"focal_length": (120.0, 190.0)},
        {"fov": 70, "principal_point": (60.0, 110.0)},
        {"fov": 60, "up": (0.3, 0.5, 1.0)},
    ],
    ids=["fov", "oblong", "off-centre", "rolled"],
)
def test_projected_points_match_rendered_pixels(options):
    generator = np.random.default_rng(3)
    places = generator.uniform((1.5, -0.8, -0.6), (3.0, 0.8, 0.6), (12, 3))
    scene = sn.Scene()
    for number, place in enumerate(places):
        scene.add_object(sn.Sphere(radius=0.03, collide=False), name=f"s{number}", pos=tuple(place))
    lens = {"pos": (0.1, 0.2, 0.3), "lookat": (2, 0.1, 0), "resolution": (200, 160), "outputs": ("segmentation",)}
    camera = scene.add_sensor(sn.Camera(renderer="batch", **lens, **options))
    scene.build(n_envs=2)
    camera.set_pose(pos=(0.0, 0.3, 0.2), envs=[1])
    camera.set_intrinsics(principal_point=(95.0, 85.0), envs=[1])
    pixels, _ = project(torch.tensor(places), camera.intrinsics, camera.extrinsics_cv)
    bodies = camera.read().segmentation[..., 0].numpy()
    checked = 0
    for env in (0, 1):
        for number, (x, y) in enumerate(pixels[env].tolist()):
            rows, columns = np.nonzero(bodies[env] == scene.model.body(f"s{number}").id)
            if len(rows) > 8 and 8 < x < 192 and 8 < y < 152:
                assert columns.mean() + 0.5 == pytest.approx(x, abs=0.5)
                assert rows.mean() + 0.5 == pytest.approx(y, abs=0.5)
                checked += 1
    assert checked >= 8


@needs_gl
def test_images_agree_with_opengl():
    images = {}
    for renderer in ("batch", "raster"):
        scene, camera = room(renderer, n_envs=4, quality="fast", anti_aliasing=0)
        scene.step(3)
        camera.set_intrinsics(principal_point=(70, 40), envs=[2])
        images[renderer] = camera.read()
        scene.close()
    ours, theirs = images["batch"], images["raster"]
    agree = (ours.segmentation == theirs.segmentation).all(-1)
    assert float(agree.float().mean()) > 0.98
    both = torch.isfinite(ours.depth) & torch.isfinite(theirs.depth)
    assert float(both.float().mean()) > 0.5
    error = (ours.depth - theirs.depth).abs()[both]
    assert float(torch.quantile(error, 0.99)) < 2e-3
    # colours: same lights, textures and sky; only the interpolation of highlights differs
    colour = (ours.rgb.int() - theirs.rgb.int()).abs().amax(-1)
    assert float(colour.float().mean()) < 6
    assert float((colour < 16).float().mean()) > 0.93


def test_round_shapes_agree_with_raster():
    """Both compute round shapes in closed form: tests/test_camera_truth.py compares them with MuJoCo's rays."""
    images = {}
    for renderer, quality in (("batch", "fast"), ("raster", "high"), ("raster", "fast")):
        scene = sn.Scene(dt=0.01, substeps=2)
        scene.add_object(sn.Box(size=(0.2, 6, 6)), name="wall", pos=(3.1, 0, 1))
        scene.add_object(sn.Sphere(radius=0.3), name="ball", pos=(2, 0, 1))
        lens = {"pos": (0, 0, 1), "lookat": (3, 0, 1), "fov": 40, "resolution": (128, 128), "outputs": ALL}
        camera = scene.add_sensor(sn.Camera(renderer=renderer, quality=quality, anti_aliasing=0, **lens))
        scene.build()
        images[renderer, quality] = camera.read()
        scene.close()
    traced = images["batch", "fast"]
    for quality in ("fast", "high"):
        image = images["raster", quality]
        agree = (image.segmentation == traced.segmentation).all(-1)
        assert int((~agree).sum()) <= 8  # pixels on the silhouette
        ball = agree & (traced.segmentation[..., 0] == 2)
        assert int(ball.sum()) > 500
        assert float((image.depth - traced.depth).abs()[ball].max()) < 2e-4
        assert float((image.normals - traced.normals).abs()[ball].max()) < 2e-3
    assert torch.equal(images["raster", "fast"].depth, images["raster", "high"].depth)


# -- envs and views ---------------------------------------------------------------------------------------------------


def test_images_do_not_depend_on_other_envs():
    _, few = room(n_envs=2)
    _, many = room(n_envs=5)
    for output in ALL:
        assert torch.equal(getattr(few.read(), output), getattr(many.read(), output)[:2])


def test_only_changed_envs_are_drawn():
    scene, camera = room(n_envs=4)
    before = camera.read().depth.clone()
    camera.view.caches["depth"].fill_(7.0)
    scene["box"].set_pose(pos=(0.3, 0.0, 0.8), envs=[2])
    depth = camera.read().depth
    assert bool((depth[[0, 1, 3]] == 7.0).all())
    assert bool((depth[2] != 7.0).all())
    assert not torch.equal(depth[2], before[2])
    camera.view.caches["depth"].fill_(7.0)
    scene["box"].set_pose(pos=(0.3, 0.0, 0.8), envs=[0, 3])
    depth = camera.read().depth
    assert bool((depth[[1, 2]] == 7.0).all())
    # the box has the same pose in three envs, and all of them see it
    body = scene.model.body("box").id
    seen = [(camera.read().segmentation[env, ..., 0] == body).sum().item() for env in (0, 2, 3)]
    assert min(seen) > 50


def test_cameras_with_different_resolutions_and_outputs():
    scene = sn.Scene()
    scene.add_object(sn.Box(size=(0.2, 60, 60)), pos=(3.1, 0, 0))
    small = scene.add_sensor(
        sn.Camera(uuid="a", renderer="batch", lookat=(1, 0, 0), resolution=(7, 5), outputs=("rgb",))
    )
    depth = ("depth", "points", "normals")
    large = scene.add_sensor(
        sn.Camera(uuid="b", renderer="batch", lookat=(1, 0, 0), resolution=(31, 40), outputs=depth)
    )
    other = scene.add_sensor(
        sn.Camera(uuid="c", renderer="batch", pos=(1, 0, 0), lookat=(3, 0, 0), resolution=(9, 9), outputs=ALL)
    )
    scene.build(n_envs=1)
    assert small.read().rgb.shape == (1, 5, 7, 3)
    assert small.read().depth is None
    assert bool((small.read().rgb > 0).all())
    assert float((large.read().depth - 3).abs().max()) < 1e-3
    assert float((large.read().points[..., 0] - 3).abs().max()) < 1e-3
    assert float((large.read().normals - torch.tensor([0.0, 0, -1])).abs().max()) < 1e-2
    assert float((other.read().depth - 2).abs().max()) < 1e-3
    small.enable_segmentation_rendering()
    scene.step()
    assert bool((small.read().segmentation[..., 0] == 1).all())
    assert float((other.read().depth - 2).abs().max()) < 1e-3


class FakeGpuWorld:
    """The part of a GPU world that the renderer uses, on Warp's CPU device."""

    def __init__(self, scene):
        self.model, self.n_envs, self.device = scene.model, scene.n_envs, torch.device("cpu")
        self.expanded = {}
        with wp.ScopedDevice("cpu"):
            self.m = mujoco_warp.put_model(self.model)
            self.d = SimpleNamespace(flexvert_xpos=wp.zeros((self.n_envs, 0), dtype=wp.vec3))
            for name in ("geom_xpos", "geom_xmat", "light_xpos", "light_xdir"):
                kind = wp.mat33 if name == "geom_xmat" else wp.vec3
                setattr(self.d, name, wp.array(scene.world.bind(name).float().numpy(), dtype=kind))

    def run(self, body):
        with wp.ScopedDevice("cpu"):
            body()


def test_gpu_backend_reads_the_arrays_of_the_engine():
    scene, camera = room(n_envs=3, lights=True, quality="balanced")
    scene.forward()
    expected = {name: image.clone() for name, image in camera.read()._asdict().items() if image is not None}
    world = FakeGpuWorld(scene)
    backend = _GpuBackend(world, [camera.view], shadows=True, samples=1)
    for image in camera.view.caches.values():
        image.zero_()
    backend.draw([camera.view], None)
    same = (camera.view.caches["segmentation"] == expected["segmentation"]).all(-1)
    assert float(same.float().mean()) > 0.999
    seen = same & torch.isfinite(expected["depth"])
    assert float((camera.view.caches["depth"] - expected["depth"])[seen].abs().max()) < 1e-3
    assert float((camera.view.caches["normals"] - expected["normals"]).abs().mean()) < 1e-3
    assert float((camera.view.caches["rgb"].int() - expected["rgb"].int()).abs().float().mean()) < 0.1
    many = np.repeat(world.m.geom_rgba.numpy(), 3, axis=0)
    many[1] = (0.0, 0.9, 0.0, 1.0)
    world.m.geom_rgba = wp.array(many, dtype=wp.vec4, device="cpu")  # as world.expand() does
    world.expanded["geom_rgba"] = wp.to_torch(world.m.geom_rgba)
    backend.draw([camera.view], None)
    hit = seen[1] & (expected["segmentation"][1, ..., 1] > 0)  # everything except the textured floor
    assert bool((camera.view.caches["rgb"][1][hit][:, 0] <= camera.view.caches["rgb"][1][hit][:, 1]).all())
    assert float((camera.view.caches["rgb"][0].int() - expected["rgb"][0].int()).abs().float().mean()) < 0.1
    backend.close()


# -- appearance -------------------------------------------------------------------------------------------------------


def test_colours_and_sizes_can_differ_per_env():
    scene, camera = wall(n_envs=3)
    plain = camera.read()
    colours, sizes = scene.world.expand("geom_rgba"), scene.world.expand("geom_size")
    colours[1] = torch.tensor([0.9, 0.0, 0.0, 1.0])
    sizes[2, 0, 0] = 0.6  # half a metre nearer
    plain_rgb = plain.rgb.clone()
    scene.forward()
    data = camera.read()
    assert torch.equal(data.rgb[0], plain_rgb[0])
    assert bool((data.rgb[1, ..., 0] > 100).all())
    assert float((data.rgb[1, ..., 1:] < 60).float().mean()) > 0.9  # everything except the highlight
    assert float((data.depth[2] - 2.5).abs().max()) < 1e-3
    assert float((data.depth[:2] - 3.0).abs().max()) < 1e-3


@pytest.mark.parametrize(("quality", "dark"), [("fast", False), ("balanced", True)])
def test_shadows_depend_on_quality(quality, dark):
    scene = sn.Scene()
    scene.add_object(sn.Box(size=(4, 4, 0.2)), pos=(0, 0, -0.1))
    scene.add_object(sn.Box(size=(0.5, 0.5, 0.1)), pos=(0, 0, 1))
    scene.add_light("directional", direction=(1, 0, -1))  # the shadow falls a metre along x
    camera = scene.add_sensor(
        sn.Camera(renderer="batch", pos=(1, 0, 3), quat=(1, 0, 0, 0), resolution=(41, 41), fov=60, quality=quality)
    )
    scene.build()
    light = camera.read().rgb[0].float().mean(-1)
    assert float(light[20, 28]) > 100
    assert (float(light[20, 20] / light[20, 28]) < 0.9) == dark
    assert quality in str(camera.renderer_choice)


def test_anti_aliased_edges_have_the_colour_of_their_coverage():
    scene = sn.Scene(sky=((0, 0, 0), (0, 0, 0)))
    scene.add_object(sn.Box(size=(0.2, 2, 4), rgba=(1, 1, 1, 1)), pos=(3.1, -1, 0))  # up to y = 0
    lens = {"lookat": (1, 0, 0), "resolution": (16, 16), "focal_length": 20.0, "renderer": "batch"}
    # the box fills the image from column 8.3125 on: 11/16 of the pixels in column 8
    camera = scene.add_sensor(sn.Camera(**lens, principal_point=(8.3125, 8), anti_aliasing=16, outputs=ALL))
    scene.build()
    data = camera.read()
    full = data.rgb[0, :, 12].float().mean()
    assert float(full) > 200
    assert bool(((data.rgb[0, :, 8].float() / full - 11 / 16).abs() < 0.02).all())
    assert bool((data.rgb[0, :, 7] == 0).all())
    assert (
        float((data.depth[0, :, 8] - 3).abs().max()) < 1e-3
    )  # the depth of the centre, not averaged with the background
    assert torch.isinf(data.depth[0, :, 7]).all()
    assert bool((data.segmentation[0, :, 8:, 0] == 1).all())


@pytest.mark.parametrize("count", [1, 2, 4, 7, 16])
def test_samples_cover_all_rows_and_columns_of_a_pixel(count):
    points = np.array(sample_positions(count))
    assert points.mean(axis=0) == pytest.approx(0, abs=1e-9)
    for axis in points.T:
        assert sorted(np.floor((axis + 0.5) * count)) == list(range(count))


def test_flexes_are_drawn_at_their_current_shape():
    cloth = """
    <mujoco><worldbody>
      <flexcomp name="cloth" type="grid" count="6 6 1" spacing="0.2 0.2 0.2" pos="0 0 1" radius="0.01" dim="2" mass="1">
        <edge equality="true"/><contact selfcollide="none"/>
      </flexcomp>
    </worldbody></mujoco>"""
    scene = sn.Scene(dt=0.01, substeps=5)
    scene.add_object(cloth, name="cloth")
    camera = scene.add_sensor(
        sn.Camera(renderer="batch", pos=(0, 0, 3), quat=(1, 0, 0, 0), resolution=(33, 33), fov=30, outputs=ALL)
    )
    scene.build(n_envs=2)
    first = camera.read().depth[:, 16, 16].clone()
    assert float((first - 1.99).abs().max()) < 1e-3  # minus its radius
    assert camera.read().segmentation[0, 16, 16].tolist() == [0, -1]
    scene.step(20)
    fallen = float(scene.world.bind("flexvert_xpos")[1, :, 2].mean())
    assert fallen < 0.9
    assert float(camera.read().depth[1, 16, 16]) == pytest.approx(3 - fallen - 0.01, abs=2e-3)


# -- errors -----------------------------------------------------------------------------------------------------------


def test_auto_chooses_batch_if_opengl_does_not_load(monkeypatch):
    monkeypatch.setattr(RasterRenderer, "missing", classmethod(lambda cls, device: "no OpenGL in this test"))
    scene = sn.Scene()
    scene.add_object(sn.Box(size=(0.2, 60, 60)), pos=(3.1, 0, 0))
    camera = scene.add_sensor(sn.Camera(lookat=(1, 0, 0), resolution=(8, 8), outputs=("depth",)))
    scene.build()
    assert camera.renderer_choice.name == "batch"
    assert "no OpenGL in this test" in camera.renderer_choice.why
    assert float((camera.read().depth - 3).abs().max()) < 1e-3


def test_unsupported_model_raises():
    plate = """
    <mujoco><worldbody>
      <flexcomp name="plate" type="grid" count="3 3 1" spacing="0.2 0.2 0.2" radius="0.01" dim="2" rigid="true"/>
    </worldbody></mujoco>"""
    scene = sn.Scene()
    scene.add_object(plate, name="plate")
    scene.add_sensor(sn.Camera(renderer="batch", lookat=(1, 0, 0)))
    with pytest.raises(sn.errors.ModelError, match=r"cannot draw this model: Rigid flexes .*renderer='raster'"):
        scene.build()


def test_resolution_above_the_limit_raises():
    scene = sn.Scene()
    scene.add_sensor(sn.Camera(renderer="batch", lookat=(1, 0, 0), resolution=(BatchRenderer.max_resolution + 1, 4)))
    with pytest.raises(sn.OptionError, match="<= 8192 pixels"):
        scene.build()


def test_out_of_memory_error_names_the_size_per_env():
    one = torch.zeros(1)
    caches = {"rgb": torch.zeros(4, 512, 1024, 3, dtype=torch.uint8)}
    view = CameraView("a", 1024, 512, 0.01, 100, one, one, one, one, one, one, sn.Camera(), caches)
    # half a million pixels: 3 bytes each in the image, and 4 for colour and 4 for depth in the tracer's buffers
    assert "images of 1 cameras with n_envs=8192: they need 5.50 MiB per env, 44.0 GiB in total" in describe_shortage(
        [view], 8192
    )
    assert is_out_of_memory(RuntimeError("Failed to allocate 123 bytes on device 'cuda:0'"))
    assert is_out_of_memory(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"))
    assert not is_out_of_memory(RuntimeError("something else"))


def test_close_frees_tracers_and_threads():
    renderer = BatchRenderer()
    renderer.close()  # harmless without a build
    scene, camera = room(n_envs=2)
    camera.read()
    tracer = weakref.ref(camera._render_pass._renderer._backend._tracers[0])
    scene.close()
    scene.close()
    del camera
    gc.collect()
    assert tracer() is None
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("sensorium-batch")]
