"""The path tracer, compared with closed forms of light and geometry, and with the rasterizer."""

import importlib.util
import math
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.cameras import Camera, RasterizerCamera, RaytracerCamera, project
from sensorium.worlds.srgb import decode_srgb, encode_srgb

pytest.importorskip("mitsuba", reason="Mitsuba is not installed: pip install 'sensorium[photoreal]'")

from sensorium.cameras.pathtrace import renderer as pathtrace
from sensorium.cameras.pathtrace.denoise import trace_atrous
from sensorium.cameras.pathtrace.tone import to_srgb8, tone_map

ROOT = Path(__file__).parent.parent
HAS_LLVM = pathtrace._choose_variant()[0] == "llvm_ad_rgb"
LAMBERTIAN = """<mujoco><asset><material name="matt" specular="0" rgba="{rgb} 1"/></asset><worldbody>
<geom type="plane" size="{size} {size} .1" material="matt"/></worldbody></mujoco>"""


@pytest.fixture(params=["llvm", "scalar"])
def variant(request, monkeypatch):
    """Run a test with the vector and the scalar tracer."""
    if request.param == "scalar":
        monkeypatch.setattr(pathtrace, "_choose_variant", lambda: ("scalar_rgb", "scalar, for a test"))
    elif not HAS_LLVM:
        pytest.skip("LLVM 19 or newer is not installed: apt install libllvm19")
    return request.param


def matt_floor(rgb, size=5):
    return LAMBERTIAN.format(rgb=" ".join(map(str, rgb)), size=size)


def build_shapes(*cameras, lights=(), n_envs=1, **options):
    """Build a floor with one geom of every type; the box is free."""
    scene = sn.Scene(dt=0.01, **options)
    scene.add_object(sn.Plane(), name="floor")
    scene.add_object(sn.Box(size=(0.3, 0.3, 0.3), rgba=(0.8, 0.2, 0.1, 1)), name="box", pos=(0, 0, 0.15), free=True)
    scene.add_object(sn.Sphere(radius=0.2, rgba=(0.2, 0.7, 0.3, 1)), name="ball", pos=(0.6, 0.3, 0.2))
    scene.add_object(sn.Capsule(radius=0.1, length=0.3), name="capsule", pos=(-0.3, 0.7, 0.4), euler=(0.5, 0.2, 0))
    scene.add_object(sn.Cylinder(radius=0.12, height=0.5), name="cylinder", pos=(-0.4, -0.5, 0.25))
    for light in lights:
        scene.add_light(**light)
    sensors = [scene.add_sensor(camera) for camera in cameras]
    scene.build(n_envs=n_envs)
    return scene, *sensors


ABOVE = {"pos": (1.6, -1.2, 1.2), "lookat": (0, 0, 0.2), "resolution": (96, 72)}


def test_depth_of_a_wall_and_pixel_of_a_projected_point(variant):
    scene = sn.Scene()
    scene.add_object(sn.Box(size=(0.1, 6, 6)), name="wall", pos=(3.05, 0, 1))
    scene.add_object(sn.Sphere(radius=0.02), name="dot", pos=(1.5, -0.31, 1.17))
    intrinsics = {"focal_length": 70.0 if variant == "scalar" else (70.0, 60.0), "principal_point": (40.5, 21.0)}
    toward = {"pos": (0, 0, 1), "lookat": (1, 0, 1), "resolution": (96, 64)}
    outputs = ("depth", "segmentation", "normals")
    camera = scene.add_sensor(RaytracerCamera(**toward, **intrinsics, outputs=outputs))
    scene.build()
    data = camera.read()
    dot = data.segmentation[0, :, :, 0] == scene.model.body("dot").id
    wall = data.depth[0][~dot]
    assert wall.min() > 3 - 1e-3
    assert wall.max() < 3 + 1e-3
    seen = dot.nonzero().double().mean(0).flip(0) + 0.5
    expected = project(torch.tensor([[1.5, -0.31, 1.17]]), camera.intrinsics, camera.extrinsics_cv)[0]
    assert (seen - expected.flatten()[:2]).abs().max() < 0.5
    assert 1.48 <= data.depth[0][dot].min() < 1.49
    torch.testing.assert_close(data.normals[0][~dot], torch.tensor([0.0, 0.0, -1.0]).expand(int((~dot).sum()), 3))


def test_surfaces_outside_near_and_far_are_not_rendered():
    scene = sn.Scene(sky=((0, 0, 1), (0, 0, 1)))
    scene.add_object(sn.Box(size=(0.1, 0.2, 0.2)), name="near", pos=(0.5, 0, 1))
    scene.add_object(sn.Box(size=(0.1, 1, 1)), name="wall", pos=(2.05, 0, 1))
    scene.add_object(sn.Box(size=(0.1, 99, 99)), name="far", pos=(9, 0, 1))
    camera = scene.add_sensor(
        RaytracerCamera(
            pos=(0, 0, 1),
            lookat=(1, 0, 1),
            near=1.0,
            far=5.0,
            resolution=(32, 24),
            samples=4,
            tone_mapper="linear",
            outputs=("rgb", "depth", "segmentation"),
        )
    )
    scene.build()
    data = camera.read()
    assert data.depth[0, 12, 16] == pytest.approx(2.0, abs=1e-3)
    assert data.depth[0, 0, 0] == math.inf
    assert data.segmentation[0, 0, 0].tolist() == [-1, -1]
    assert data.rgb[0, 0, 0].tolist() == [0, 0, 255]


def test_depth_and_segmentation_agree_with_the_rasterizer(variant):
    outputs = ("depth", "segmentation")
    ours, theirs = RaytracerCamera(**ABOVE, outputs=outputs), RasterizerCamera(**ABOVE, outputs=outputs)
    try:
        _, traced, drawn = build_shapes(ours, theirs)
    except sn.DeviceError as error:
        pytest.skip(f"the rasterizer does not run here: {error}")
    one, two = traced.read(), drawn.read()
    same = (one.segmentation == two.segmentation).all(-1)
    assert same.float().mean() >= 0.98
    assert len(one.segmentation[..., 0].unique()) == 5
    apart = (one.depth - two.depth)[same & torch.isfinite(two.depth)].abs()
    assert apart.quantile(0.95) < 2e-3


def test_moved_body_is_updated_in_its_env_without_a_rebuild(variant):
    camera = RaytracerCamera(**ABOVE, outputs=("segmentation",))
    scene, sensor = build_shapes(camera, n_envs=2)
    box = scene.model.body("box").id
    before = sensor.read().segmentation[..., 0].clone()
    renderer = sensor._render_pass._renderer
    tracer, meshes = renderer._scene.tracer, [mesh.mesh for mesh in renderer._scene._meshes]
    state = scene.get_state()
    scene.world.bind("qpos")[1, :3] = torch.tensor([-1.2, 1.0, 0.15])
    scene.world.forward()
    after = sensor.read().segmentation[..., 0]
    assert renderer._scene.tracer is tracer
    assert [mesh.mesh for mesh in renderer._scene._meshes] == meshes
    assert (after[0] == before[0]).all()
    middle = [(mask == box).nonzero().double().mean(0) for mask in (before[1], after[1])]
    assert (middle[0] - middle[1]).norm() > 10
    expected = project(torch.tensor([[-1.2, 1.0, 0.15]]), sensor.intrinsics, sensor.extrinsics_cv)[0][1, 0]
    assert (middle[1].flip(0) + 0.5 - expected).norm() < 2
    scene.set_state(state)
    assert (sensor.read().segmentation[..., 0] == before).all()


def test_normals_of_a_moved_ball_are_smooth(variant):
    scene = sn.Scene()
    scene.add_object(sn.Sphere(radius=0.3), name="ball", pos=(0, 0, 0), free=True)
    camera = scene.add_sensor(
        RaytracerCamera(pos=(1, 0, 0), lookat=(0, 0, 0), resolution=(48, 48), outputs=("normals", "points", "depth"))
    )
    scene.build()
    camera.read()
    scene.world.bind("qpos")[0] = torch.tensor([0.05, 0.02, 0.1, 0.5, 0.5, -0.1, 0.7])
    scene.world.forward()
    data = camera.read()
    hit = torch.isfinite(data.depth[0])
    outward = data.points[0][hit] - torch.tensor([0.05, 0.02, 0.1])
    outward = outward / outward.norm(dim=-1, keepdim=True)
    turned = data.normals[0][hit] @ camera.extrinsics_cv[0, :, :3]
    assert (outward * turned).sum(-1).min() > math.cos(math.radians(2))


def lit_floor(rgb, light):
    """Return the mean colour that a camera above the centre of a Lambertian floor reads, lit by one lamp only."""
    scene = sn.Scene()
    scene.add_object(matt_floor(rgb), name="floor")
    scene.add_light(**light)
    camera = scene.add_sensor(
        RaytracerCamera(
            pos=(0, 0, 2),
            lookat=(0, 0, 0),
            fov=2,
            resolution=(16, 16),
            samples=64,
            tone_mapper="linear",
            environment_multiplier=0.0,
        )
    )
    scene.build()
    seen = camera.read().rgb[0].double().mean((0, 1)).numpy() / 255
    scene.close()  # the compiled code is reused by the next scene
    return seen


@pytest.mark.parametrize("slope", [0.0, 40.0])
def test_lambertian_floor_in_directional_light_has_the_expected_radiance(variant, slope):
    albedo, intensity = np.array([0.9, 0.5, 0.25]), 0.8
    along = (math.sin(math.radians(slope)), 0, -math.cos(math.radians(slope)))
    seen = lit_floor(encode_srgb(albedo), {"type": "directional", "direction": along, "intensity": intensity})
    irradiance = math.pi * intensity
    expected = albedo * irradiance * math.cos(math.radians(slope)) / math.pi
    assert decode_srgb(seen) == pytest.approx(expected, rel=0.02)


def test_light_of_lamps_falls_with_the_square_of_the_distance():
    albedo = 0.5
    for kind in ("point", "spot", "area"):
        light = {"type": kind, "pos": (0, 0, 4), "intensity": 0.5, "radius": 0.1}
        rgb = encode_srgb(np.full(3, albedo))
        facing = lit_floor(rgb, light | {"lookat": (0, 0, 0)})
        nearer = lit_floor(rgb, light | {"lookat": (0, 0, 2)})
        assert decode_srgb(facing) == pytest.approx(np.full(3, albedo * 0.5), rel=0.03), kind
        assert decode_srgb(nearer) == pytest.approx(np.full(3, albedo * 0.5 / 4), rel=0.03), kind


def test_light_through_a_transparent_pane_and_from_an_emissive_geom(variant):
    def floor_light(geom, lamp):
        scene = sn.Scene()
        scene.add_object(matt_floor(encode_srgb(np.full(3, 0.5))), name="floor")
        scene.add_object(
            f"""<mujoco><asset><material name="m" specular="0" {geom[0]}/></asset><worldbody>
            <geom {geom[1]} material="m"/></worldbody></mujoco>""",
            name="object",
        )
        scene.add_light(type="directional", intensity=lamp)
        sight = {"pos": (0, 0, 0.5), "lookat": (0, 0, 0), "fov": 2, "resolution": (16, 16), "samples": 256}
        camera = scene.add_sensor(RaytracerCamera(**sight, tone_mapper="linear", environment_multiplier=0.0))
        scene.build()
        light = decode_srgb(camera.read().rgb.double().numpy() / 255).mean()
        scene.close()
        return light

    pane = ('rgba="0 0 0 .4"', 'type="box" size="2 2 .01" pos="0 0 1"')
    assert floor_light(pane, lamp=0.8) == pytest.approx(0.5 * 0.8 * (1 - 0.4) ** 2, rel=0.05)  # light passes two faces
    ball = ('rgba="1 1 1 1" emission="2"', 'type="sphere" size=".2" pos="0 0 1"')
    assert floor_light(ball, lamp=0.0) == pytest.approx(
        0.5 * 2 * 0.2**2 / 1**2, rel=0.05
    )  # radiance 2, form factor (r / d)^2


def test_white_furnace():
    """In uniform light from all sides, a white object is as bright as its background."""
    scene = sn.Scene(sky=((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)))
    white = """<mujoco><asset><material name="w" specular="0" rgba="1 1 1 1"/></asset><worldbody>
    <geom type="sphere" size=".5" material="w"/><geom type="box" size=".2 .2 .2" pos=".5 0 .3" material="w"/>
    </worldbody></mujoco>"""
    scene.add_object(white, name="white")
    scene.add_light(type="directional", intensity=0.0)
    camera = scene.add_sensor(
        RaytracerCamera(
            pos=(2, 0, 1), lookat=(0, 0, 0), resolution=(32, 32), samples=128, bounces=32, tone_mapper="linear"
        )
    )
    scene.build()
    image = camera.read().rgb[0].double()
    assert image.mean() == pytest.approx(127.5, abs=1.5)
    assert (image - 127.5).abs().max() < 14


def test_area_light_casts_a_soft_shadow():
    def shadow(kind):
        scene = sn.Scene()
        scene.add_object(matt_floor((0.8, 0.8, 0.8)), name="floor")
        scene.add_object(sn.Box(size=(0.5, 0.5, 0.02)), name="roof", pos=(0, 0, 1))
        scene.add_light(type=kind, pos=(0, 0, 3), lookat=(0, 0, 0), radius=0.4, intensity=0.6)
        camera = scene.add_sensor(
            RaytracerCamera(
                pos=(0, -0.01, 0.9),
                lookat=(0, 0, 0),
                fov=100,
                resolution=(48, 48),
                samples=64,
                tone_mapper="linear",
                environment_multiplier=0.0,
            )
        )
        scene.build()
        row = camera.read().rgb[0, 24, :, 0].double()
        scene.close()
        return int(((row > 0.1 * row.max()) & (row < 0.9 * row.max())).sum())

    assert shadow("point") <= 6
    assert shadow("area") >= shadow("point") + 6


def test_tone_mappers_and_srgb_match_their_formulas():
    light = np.array([[0.0, 0.0, 0.0], [0.18, 0.18, 0.18], [1.0, 1.0, 1.0], [4.0, 4.0, 4.0], [-1.0, 2.0, 0.5]])
    assert tone_map(light, "linear") == pytest.approx(np.clip(light, 0, 1))
    grey = light[:4, 0]
    assert tone_map(light[:4], "reinhard")[:, 1] == pytest.approx(grey / (1 + grey))
    bright = 0.7152 * 2 + 0.0722 * 0.5
    assert tone_map(light, "reinhard")[4] == pytest.approx([0, 2 / (1 + bright), 0.5 / (1 + bright)])
    film = tone_map(light[:4], "filmic")[:, 0]
    assert film == pytest.approx([0, 0.26687, 0.80380, 0.97343], abs=1e-4)
    assert (np.diff(tone_map(np.linspace(0, 50, 999)[:, None].repeat(3, 1), "filmic"), axis=0) >= 0).all()
    assert to_srgb8(np.array([0.0, 0.2159, 1.0]), "linear").tolist() == [0, 128, 255]
    values = np.linspace(0, 1, 101)
    assert encode_srgb(decode_srgb(values)) == pytest.approx(values)


@pytest.mark.slow
@pytest.mark.parametrize("denoiser", ["atrous", "oidn"])
def test_denoising_reduces_the_error(denoiser, variant):
    if denoiser == "oidn":
        if variant == "scalar":
            pytest.skip("Open Image Denoise gets the same images from both variants")
        pytest.importorskip("pyoidn", reason="Open Image Denoise is not installed: pip install 'sensorium[photoreal]'")
    view = ABOVE | {"tone_mapper": "linear", "environment_multiplier": 1.0}
    lamp = {"type": "area", "pos": (0.5, -1, 2), "lookat": (0, 0, 0), "radius": 0.4, "intensity": 0.6}
    cameras = [
        RaytracerCamera(**view, uuid=name, samples=samples, denoise=clean)
        for name, samples, clean in (("noisy", 4, False), ("clean", 4, denoiser), ("best", 256, False))
    ]
    _, noisy, clean, best = build_shapes(*cameras, lights=[lamp])
    truth = best.read().rgb.double()
    errors = [(camera.read().rgb.double() - truth).square().mean().sqrt() for camera in (noisy, clean)]
    assert errors[1] < 0.6 * errors[0]
    name = {"atrous": "the à-trous filter", "oidn": "Open Image Denoise"}[denoiser]
    assert f"denoised by {name}" in clean.renderer_choice.why


@pytest.mark.slow
def test_denoise_true_uses_atrous_without_open_image_denoise(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "pyoidn" else find(name, *rest)
    )
    eye = {"pos": (1, 1, 1), "lookat": (0, 0, 0), "resolution": (5, 3)}
    _, camera = build_shapes(RaytracerCamera(**eye, denoise=True, samples=1))
    assert camera.read().rgb.shape == (1, 3, 5, 3)
    assert "denoised by the à-trous filter" in camera.renderer_choice.why
    with pytest.raises(sn.DeviceError, match="denoise='atrous' works everywhere"):
        build_shapes(RaytracerCamera(**eye, denoise="oidn"))


@pytest.mark.parametrize("samples", [1, 2, 7])
def test_denoised_frames_are_reproducible(variant, samples):
    lamp = {"type": "area", "pos": (0.5, -1, 2), "lookat": (0, 0, 0), "radius": 0.4}
    images = []
    for _ in range(2):
        scene, camera = build_shapes(
            RaytracerCamera(**(ABOVE | {"resolution": (24, 16)}), uuid="eye", samples=samples, denoise="atrous"),
            lights=[lamp],
        )
        images.append(camera.read().rgb.clone())
        scene.close()
    assert (images[0] == images[1]).all()


def test_guides_in_bands_equal_guides_of_the_whole_image(monkeypatch):
    from sensorium.cameras.pathtrace import denoise as path_denoise

    scene, camera = build_shapes(RaytracerCamera(**ABOVE, samples=1))
    bench = script("benchmarks/cameras_pathtrace.py")
    tracer, viewpoint, variant = bench["viewpoint_of"](camera)
    with pathtrace._use_variant(variant):
        whole = path_denoise._trace_guides(tracer, viewpoint)
        monkeypatch.setattr(path_denoise, "_MAX_RAYS", 16 * 96 * 10)
        bands = path_denoise._trace_guides(tracer, viewpoint)
    for name in whole._fields:
        np.testing.assert_allclose(getattr(whole, name), getattr(bands, name), atol=2e-4, err_msg=name)
    scene.close()


def script(path):
    """Return the globals of a script of the repository, which may import modules beside it."""
    file = ROOT / path
    sys.path.insert(0, str(file.parent))
    try:
        return runpy.run_path(str(file))
    finally:
        sys.path.remove(str(file.parent))


def error_ratios(seeds, samples, view=None):
    """Yield the error and the error at edges with the filter, divided by those without it, in the gallery's scene."""
    bench = script("benchmarks/cameras_pathtrace.py")
    gallery = script("docs/gallery/camera_pathtrace.py")
    (camera,) = gallery["room"](gallery["photo"]("photo", samples=1, resolution=(224, 224), **(view or {})))
    tracer, viewpoint, variant = bench["viewpoint_of"](camera)
    with pathtrace._use_variant(variant):
        truth, hits = tracer.radiance(viewpoint, samples, 12345), tracer.first_hits(viewpoint)
        edge = bench["silhouettes"](hits.shape, hits.depth)
        for seed in seeds:
            noisy, clean = tracer.radiance(viewpoint, 16, seed), trace_atrous(tracer, viewpoint, 16, seed)
            yield tuple(
                bench["rmse"](clean, truth, where) / bench["rmse"](noisy, truth, where) for where in (None, edge)
            )


@pytest.mark.slow
@pytest.mark.skipif(not HAS_LLVM, reason="LLVM 19 or newer is not installed: apt install libllvm19")
@pytest.mark.parametrize(
    "view", [{}, {"pos": (-0.9, -1.2, 0.35), "lookat": (0.2, 0.1, 0.25), "fov": 50}], ids=["gallery", "close"]
)
def test_atrous_filter_halves_the_error_and_keeps_silhouettes(view):
    for everywhere, edges in error_ratios(range(2), 256, view):  # a noisier reference would add its own error to both
        assert everywhere <= 0.5
        assert edges <= 1


def test_frames_are_reproducible_and_differ_by_env_step_seed_and_uuid(variant):
    def frames(uuid="eye", seed=0, n_envs=1):
        scene = sn.Scene(dt=0.01)
        scene.add_object(matt_floor((0.8, 0.8, 0.8)), name="floor")
        scene.add_light(type="area", pos=(0, 0, 2), radius=0.5)
        camera = scene.add_sensor(
            RaytracerCamera(uuid=uuid, pos=(1, 0, 1), lookat=(0, 0, 0), resolution=(24, 16), samples=2)
        )
        scene.build(n_envs=n_envs, seed=seed)
        first = camera.read().rgb.clone()
        scene.step()
        second = camera.read().rgb.clone()
        scene.close()
        return first, second

    one, two = frames(), frames(n_envs=2)
    for frame in range(2):
        assert (one[frame][0] == two[frame][0]).all()
        assert (two[frame][0] != two[frame][1]).any()
    assert (one[0] != one[1]).any()
    assert (frames(seed=1)[0] != one[0]).any()
    assert (frames(uuid="other")[0] != one[0]).any()


def test_depth_of_field_blurs_only_out_of_focus(variant):
    def edge_width(focus):
        lens = sn.CameraProfile(focal_length=0.1, f_number=1.0, focus_distance=focus)
        scene = sn.Scene()
        scene.add_object(matt_floor((1, 1, 1)), name="floor")
        scene.add_object(sn.Box(size=(2, 4, 0.01), rgba=(0, 0, 0, 1)), name="half", pos=(1, 0, 0))
        scene.add_light(type="directional", intensity=0.9)
        camera = scene.add_sensor(
            RaytracerCamera(
                pos=(0, 0, 2),
                lookat=(0, 0, 0),
                up=(0, 1, 0),
                resolution=(48, 8),
                focal_length=200,
                samples=256,
                tone_mapper="linear",
                environment_multiplier=0,
                profile=lens,
            )
        )
        scene.build()
        light = decode_srgb(camera.read_ground_truth().rgb[0, :, :, 1].numpy() / 255).mean(0)
        scene.close()
        low, high = light[-6:].mean(), light[:6].mean()
        return int(((light > low + 0.1 * (high - low)) & (light < low + 0.9 * (high - low))).sum())

    blur = (
        0.1 * (2.0 - 0.7) / 0.7 / 2.0 * 200
    )  # diameter of the circle of confusion in pixels; 0.69 of it is from 10% to 90%
    assert edge_width(2.0) <= 3
    assert edge_width(0.7) == pytest.approx(0.69 * blur, abs=2)


def test_colours_and_lights_can_differ_per_env():
    scene = sn.Scene()
    scene.add_object(matt_floor((1, 0, 0)), name="floor")
    scene.add_light(type="directional", name="sun", intensity=0.5)
    sight = {"pos": (0, 0, 3), "lookat": (0, 0, 0), "fov": 5, "resolution": (8, 8), "samples": 16}
    camera = scene.add_sensor(RaytracerCamera(**sight, tone_mapper="linear", environment_multiplier=0))
    scene.build(n_envs=3)
    scene.world.expand("mat_rgba")[1, :, :3] = torch.tensor([0.0, 0.0, 1.0])
    scene.world.expand("light_diffuse")[2] = 0.1
    red, blue, dark = camera.read().rgb.double().mean((1, 2))
    assert red[0] > 100 > red[2]
    assert blue[2] > 100 > blue[0]
    assert decode_srgb(dark[0].numpy() / 255) == pytest.approx(0.1, rel=0.05)
    assert decode_srgb(red[0].numpy() / 255) == pytest.approx(0.5, rel=0.02)


def test_environment_map_orientation(tmp_path, variant):
    import mitsuba as mi

    sky = np.zeros((64, 128, 3), np.float32)
    sky[:, 16:48, 0] = 1.0  # a quarter of the circle, around longitude pi / 2
    path = str(tmp_path / "sky.exr")
    with pathtrace._use_variant("scalar_rgb"):
        mi.Bitmap(sky).write(path)

    def bright_directions(**options):
        scene = sn.Scene()
        scene.add_object(sn.Sphere(radius=0.01), name="ball", pos=(0, 0, -50))
        scene.add_light(type="directional", intensity=0.0)
        directions = {"east": (1, 0, 0), "north": (0, 1, 0), "west": (-1, 0, 0), "south": (0, -1, 0)}
        cameras = {
            name: scene.add_sensor(
                RaytracerCamera(uuid=name, lookat=to, fov=20, resolution=(4, 4), samples=4, environment=path, **options)
            )
            for name, to in directions.items()
        }
        scene.build()
        bright = {name for name, camera in cameras.items() if camera.read().rgb[..., 0].double().mean() > 20}
        scene.close()
        return bright

    assert bright_directions() == {"east"}
    assert bright_directions(environment_rotation=90) == {"north"}
    assert bright_directions(environment_multiplier=0) == set()


def test_invalid_options_are_named():
    with pytest.raises(sn.OptionError, match="tone_mapper"):
        RaytracerCamera(tone_mapper="technicolor")
    with pytest.raises(sn.OptionError, match=r"environment must be an existing file, got 'nowhere\.exr'"):
        build_shapes(RaytracerCamera(environment="nowhere.exr"))
    cameras = RaytracerCamera(uuid="a", bounces=2), RaytracerCamera(uuid="b", bounces=3)
    with pytest.raises(
        sn.OptionError, match=r"bounces must be the same for all path-traced cameras, got 2 for 'a' and 3 for 'b'"
    ):
        build_shapes(*cameras)


def test_plain_camera_can_use_pathtrace_and_reports_what_it_runs_on():
    _, camera = build_shapes(Camera(renderer="pathtrace", resolution=(8, 8), quality="fast", pos=(1, 1, 1)))
    assert camera.read().rgb.shape == (1, 8, 8, 3)
    assert "Mitsuba" in camera.renderer_choice.why
    assert "16 samples" in camera.renderer_choice.why


SHAPES = """<mujoco><asset>
<mesh name="wedge" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/></asset><worldbody>
<geom type="box" size="1 2 3"/><geom type="sphere" size="1"/><geom type="ellipsoid" size="1 2 3"/>
<geom type="capsule" size=".5 1"/><geom type="cylinder" size=".5 1"/><geom type="mesh" mesh="wedge"/>
</worldbody></mujoco>"""
VOLUMES = (48, 4 / 3 * math.pi, 8 * math.pi, math.pi * (0.5 + 1 / 6), math.pi * 0.5, 1 / 6)


def test_triangles_enclose_the_volume_and_face_outward():
    import mujoco

    from sensorium.cameras.pathtrace.shapes import triangulate

    model = mujoco.MjModel.from_xml_string(SHAPES)
    for geom, volume in enumerate(VOLUMES):
        shape = triangulate(model, geom, reach=10)
        a, b, c = (shape.vertices[shape.faces[:, corner]] for corner in range(3))
        across = np.cross(b - a, c - a)
        assert (a * across).sum() / 6 == pytest.approx(volume, rel=0.006), model.geom_type[geom]
        facing = np.einsum("fx,fcx->fc", across, shape.normals[shape.faces]) / np.linalg.norm(across, axis=1)[:, None]
        assert facing.min() >= 0.5 - 1e-6
        assert len(np.unique(shape.faces)) == len(shape.vertices)


def test_textures_and_terrain_agree_with_the_rasterizer():
    model = """<mujoco><asset>
    <texture name="check" type="2d" builtin="checker" rgb1="0 0 0" rgb2="1 1 1" width="64" height="64"/>
    <texture name="fade" type="2d" builtin="gradient" rgb1="1 1 1" rgb2="0 0 0" width="64" height="64"/>
    <hfield name="hill" nrow="3" ncol="3" size=".3 .3 .4 .1" elevation="0 0 0 0 1 0 0 0 .5"/>
    <material name="check" texture="check" texrepeat="1.5 1.2" texuniform="true" specular="0"/>
    <material name="fade" texture="fade" specular="0"/></asset><worldbody>
    <geom type="plane" size="0 0 .1" material="check"/>
    <geom type="box" size=".3 .3 .3" pos=".5 .4 .3" material="fade"/>
    <geom type="hfield" hfield="hill" pos="-.5 -.4 .1"/></worldbody></mujoco>"""
    view = {"pos": (0.6, -1.2, 2.2), "lookat": (0, 0, 0), "resolution": (80, 60), "outputs": ("rgb", "segmentation")}
    scene = sn.Scene()
    scene.add_object(model, name="room")
    scene.add_light(type="directional", direction=(0.2, 0.4, -1), shadow=False)
    traced = scene.add_sensor(RaytracerCamera(**view, samples=32))
    drawn = scene.add_sensor(RasterizerCamera(**view))
    try:
        scene.build()
    except sn.DeviceError as error:
        pytest.skip(f"the rasterizer does not run here: {error}")
    one, two = traced.read(), drawn.read()
    assert (one.segmentation == two.segmentation).all(-1).float().mean() >= 0.98
    for geom in (0, 1):  # the floor, and the box
        here = one.segmentation[0, :, :, 1] == geom
        pair = torch.stack([image.rgb[0, :, :, 0][here].double() for image in (one, two)])
        assert float(torch.corrcoef(pair)[0, 1]) > (0.9, 0.8)[geom], geom
