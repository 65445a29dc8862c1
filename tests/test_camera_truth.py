"""Depth, points, ids and normals of round shapes against closed forms and MuJoCo's own rays, at every quality."""

import math
from importlib.util import find_spec

import mujoco
import numpy as np
import pytest
import torch
from gl import needs_gl

import sensorium as sn

needs_mitsuba = pytest.mark.skipif(find_spec("mitsuba") is None, reason="Mitsuba is not installed")
SHAPES = {
    "sphere": 'type="sphere" size="0.4"',
    "ellipsoid": 'type="ellipsoid" size="0.5 0.2 0.35" euler="20 40 10"',
    "capsule": 'type="capsule" size="0.2 0.3" euler="30 50 0"',
    "cylinder": 'type="cylinder" size="0.3 0.25" euler="35 20 0"',
}
RENDERERS = [
    *(pytest.param("raster", quality, marks=needs_gl) for quality in ("fast", "balanced", "high")),
    *(("batch", quality) for quality in ("fast", "balanced", "high")),
    pytest.param("pathtrace", "fast", marks=needs_mitsuba),
]
OUTPUTS = ("depth", "segmentation", "normals", "points")
DEPTH, ANGLE = {"raster": 1e-5, "pathtrace": 1e-5, "batch": 1e-4}, {"raster": 0.01, "pathtrace": 0.01, "batch": 0.1}
"""Bounds of docs/cameras.md: error of depth and points, m, and of normals, degrees."""


def model(*geoms):
    """Return a model with one body per geom, each fixed in the world."""
    bodies = "".join(f'<body name="b{number}"><geom {geom}/></body>' for number, geom in enumerate(geoms))
    return f'<mujoco><compiler angle="degree"/><worldbody>{bodies}</worldbody></mujoco>'


def look(geoms, n_envs=1, **options):
    """Build geoms and a camera that looks at the origin."""
    scene = sn.Scene()
    scene.add_robot(model(*geoms), name="rig")
    defaults = {"pos": (2, 0.3, 0.4), "lookat": (0, 0, 0), "resolution": (96, 80), "fov": 32, "outputs": OUTPUTS}
    camera = scene.add_sensor(sn.Camera(**{**defaults, **options}))
    scene.build(n_envs=n_envs)
    return scene, camera


def traced(scene, camera, env=0):
    """Return depth (H, W), geoms (H, W) and normals in CV axes (H, W, 3), by MuJoCo's rays through pixel centres."""
    matrix = camera.intrinsics[env].double().numpy()
    pose = camera.cam2world_cv[env].double().numpy()
    width, height = camera.resolution
    data = mujoco.MjData(scene.model)
    mujoco.mj_kinematics(scene.model, data)
    depth, geoms, normals = np.full((height, width), np.inf), np.full((height, width), -1), np.zeros((height, width, 3))
    geom, normal, shown = np.zeros(1, np.int32), np.zeros(3), np.array([1, 1, 1, 0, 0, 0], np.uint8)
    for row, column in np.ndindex(height, width):
        ray = np.linalg.solve(matrix, (column + 0.5, row + 0.5, 1.0))
        z = mujoco.mj_ray(scene.model, data, pose[:3, 3], pose[:3, :3] @ ray, shown, True, -1, geom, normal)
        if z >= 0:
            depth[row, column], geoms[row, column], normals[row, column] = z, geom[0], pose[:3, :3].T @ normal
    return depth, geoms, normals


def angles(one, other):
    """Return the angles between unit vectors, degrees; also small ones exactly."""
    return np.degrees(2 * np.arcsin(np.clip(np.linalg.norm(one - other, axis=-1) / 2, 0, 1)))


@pytest.mark.parametrize(("renderer", "quality"), RENDERERS)
def test_sphere_agrees_with_its_closed_form(renderer, quality):
    options = {"pos": (2, 0, 0), "resolution": (128, 128), "fov": 30, "outputs": ("rgb", *OUTPUTS)}
    _scene, camera = look([SHAPES["sphere"]], renderer=renderer, quality=quality, **options)
    seen = camera.read_ground_truth()
    focal = 64 / math.tan(math.radians(15))
    x, y = np.meshgrid((np.arange(128) + 0.5 - 64) / focal, (np.arange(128) + 0.5 - 64) / focal)
    a, b, c = 1 + x**2 + y**2, -2.0, 4.0 - 0.16
    root = b * b - a * c
    hit = root > 0
    depth = (-b - np.sqrt(np.where(hit, root, 0))) / a
    ray = np.stack([x, y, np.ones_like(x)], -1)
    normal = (depth[..., None] * ray - [0, 0, 2.0]) / 0.4
    inside = root > 1e-4  # the outermost pixels may lie on either side of the silhouette in float32
    assert np.array_equal(np.isfinite(seen.depth[0].numpy())[inside | ~hit], hit[inside | ~hit])
    assert np.abs(seen.depth[0].double().numpy() - depth)[inside].max() < 1e-4
    assert angles(seen.normals[0].numpy(), normal)[inside].max() < 0.1
    distance = np.linalg.norm(seen.points[0].double().numpy(), axis=-1)
    assert np.abs(distance - 0.4)[inside].max() < 1e-4
    assert inside.sum() > 7400


@pytest.mark.parametrize(("renderer", "quality"), RENDERERS)
@pytest.mark.parametrize("shape", list(SHAPES))
def test_round_shapes_agree_with_rays_of_the_engine(shape, renderer, quality):
    scene, camera = look([SHAPES[shape]], renderer=renderer, quality=quality)
    seen, (depth, geoms, normals) = camera.read(), traced(scene, camera)
    hit = seen.segmentation[0, ..., 1].numpy() >= 0
    assert (hit != (geoms >= 0)).sum() <= 1  # a ray can touch the silhouette
    both = hit & (geoms >= 0)
    assert both.sum() > 1000
    assert np.abs(seen.depth[0].numpy()[both] - depth[both]).max() < DEPTH[renderer]
    assert angles(seen.normals[0].numpy(), normals)[both].max() < ANGLE[renderer]


def clutter(seed, count=24):
    """Return geoms of all types at random poses in front of a wall."""
    rng = np.random.default_rng(seed)
    geoms = ['type="box" size="0.1 4 4" pos="-1.5 0 0"', 'type="plane" size="0 0 1" pos="0 0 -0.8"']
    for number in range(count):
        kind = ("sphere", "ellipsoid", "capsule", "cylinder", "box")[number % 5]
        size = " ".join(f"{value:.3f}" for value in rng.uniform(0.05, 0.25, 3))
        pos = " ".join(f"{value:.3f}" for value in rng.uniform((-1, -0.8, -0.7), (1, 0.8, 0.7)))
        turn = " ".join(f"{value:.1f}" for value in rng.uniform(-180, 180, 3))
        hidden = ' group="3"' if number == 7 else ' rgba="1 0 0 0"' if number == 8 else ""
        clear = ' rgba="0 1 0 0.4"' if number == 10 else ""
        geoms.append(f'type="{kind}" size="{size}" pos="{pos}" euler="{turn}"{hidden}{clear}')
    return geoms


@needs_gl
@pytest.mark.parametrize("outputs", [OUTPUTS, ("rgb", "depth")])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_clutter_agrees_with_rays_of_the_engine(seed, outputs):
    """Shapes hide each other correctly, whether they are traced or drawn; hidden groups and alpha 0 are not shown."""
    scene, camera = look(clutter(seed), renderer="raster", fov=50, outputs=outputs)
    seen, (depth, geoms, normals) = camera.read(), traced(scene, camera)
    error = np.abs(seen.depth[0].numpy() - depth)
    wrong = ~(error < np.maximum(1e-3, 1e-3 * depth)) & np.isfinite(depth)
    assert wrong.mean() < 2e-3  # pixels at edges of boxes, which belong to either side
    if "segmentation" in outputs:
        assert (seen.segmentation[0, ..., 1].numpy() != geoms).mean() < 2e-3
        kind = scene.model.geom_type[geoms]
        is_round = ~wrong & np.isin(kind, [2, 3, 4, 5]) & (seen.segmentation[0, ..., 1].numpy() == geoms)
        assert is_round.sum() > 1000
        assert angles(seen.normals[0].numpy(), normals)[is_round].max() < 0.2


@needs_gl
def test_images_do_not_depend_on_other_outputs():
    reference = look(clutter(3), renderer="raster", outputs=("rgb", *OUTPUTS))[1].read()
    for outputs in (("rgb", "depth"), ("depth",), ("normals",), ("segmentation",), ("rgb", "normals"), ("points",)):
        data = look(clutter(3), renderer="raster", outputs=outputs)[1].read()
        for output in outputs:
            assert torch.equal(getattr(data, output), getattr(reference, output)), (output, outputs)


@needs_gl
def test_camera_near_or_inside_a_round_shape():
    """A shape that the near plane or the image plane cuts is drawn as OpenGL clips it; from inside it is invisible."""
    wall = 'type="box" size="0.1 9 9" pos="-3.1 0 0"'
    scene, camera = look([SHAPES["sphere"], wall], renderer="raster", pos=(0.45, 0, 0), fov=90, resolution=(40, 40))
    seen, (depth, geoms, _) = camera.read(), traced(scene, camera)
    assert (geoms == 0).sum() > 500
    assert np.abs(seen.depth[0].numpy() - depth).max() < 1e-3
    camera.set_pose(pos=(0.1, 0, 0))  # inside
    assert bool((camera.read().segmentation[0, ..., 1] == 1).all())
    _scene, cut = look([SHAPES["sphere"], wall], renderer="raster", pos=(2, 0, 0), near=1.8, fov=22.6)
    data = cut.read()
    centre, rim = data.segmentation[0, 40, 48, 1], data.segmentation[0, 0, 48, 1]
    assert (int(centre), int(rim)) == (1, 0)  # the near plane cuts off the front of the ball; behind it is the wall


@needs_gl
def test_sizes_and_colours_of_round_shapes_can_differ_per_env():
    scene, camera = look([SHAPES["sphere"]], n_envs=3, renderer="raster", pos=(2, 0, 0))
    assert float(camera.read().depth[2, 40, 48]) == pytest.approx(1.6, abs=1e-3)
    sizes, colours = scene.world.expand("geom_size"), scene.world.expand("geom_rgba")
    sizes[1, 0, 0] = 0.2
    colours[2, 0, 3] = 0.0
    scene.forward()
    depth = camera.read().depth[:, 40, 48]
    assert depth.tolist() == [pytest.approx(1.6, abs=1e-3), pytest.approx(1.8, abs=1e-3), math.inf]


@needs_gl
@pytest.mark.parametrize("near", [0.001, 0.01, 0.1])
def test_rounding_of_the_z_buffer_is_below_a_ten_thousandth(near):
    """Flat surfaces come from the z-buffer, which is precise at every distance from the near plane to the far plane."""
    for distance in (0.3, 3.0, 30.0, 90.0):
        wall = f'type="box" size="0.5 200 200" pos="{-distance - 0.5} 0 0"'
        for outputs in (("depth",), ("rgb", "depth")):
            options = {"pos": (0, 0, 0), "lookat": (-1, 0.3, 0.2), "near": near, "outputs": outputs}
            scene, camera = look([wall], renderer="raster", fov=60, resolution=(32, 24), **options)
            depth, _geoms, _normals = traced(scene, camera)
            shown = depth < 95.0
            assert shown.sum() > 100
            error = np.abs(camera.read().depth[0].numpy() - depth)[shown] / depth[shown]
            assert error.max() < 1e-4
