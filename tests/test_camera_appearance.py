"""Appearance of camera images: lights, shadows, sky, and randomised colours and materials."""

import numpy as np
import pytest
import torch
from camera_scenes import front, room
from gl import needs_gl

import sensorium as sn
from sensorium.cameras import randomize_look

pytestmark = needs_gl


def brightness(*lights, sky=None, quality=None):
    """Return the brightness (64, 64) of an image of a box on the ground under these lights."""
    scene = sn.Scene(sky=sky)
    scene.add_object(sn.Plane(rgba=(1, 1, 1, 1)))
    scene.add_object(sn.Box(size=(0.5, 0.5, 0.5)), pos=(0, 0, 0.5))
    for light in lights:
        scene.add_light(**light)
    camera = scene.add_sensor(sn.Camera(pos=(0, -4, 4), lookat=(0, 0, 0), resolution=(64, 64), fov=60, quality=quality))
    scene.build()
    return camera.read().rgb[0].float().mean(-1)


def test_lights_illuminate_where_they_point():
    down = {"type": "directional", "direction": (0, 0, -1), "shadow": False}
    assert (
        brightness(down)[50, 10]
        > brightness({**down, "intensity": 0.2})[50, 10]
        > brightness({**down, "intensity": 0.0})[50, 10]
    )
    spot = brightness(
        {"type": "spot", "pos": (-1.5, -1.5, 2), "lookat": (-1.5, -1.5, 0), "cutoff": 20, "intensity": 1.0}
    )
    assert spot[40, 20] > spot[40, 44] + 20  # on the left of the image, not on the right
    point = brightness({"type": "point", "pos": (1.5, -1.5, 0.5), "intensity": 1.0})
    assert point[45, 50] > point[45, 14] + 20
    with pytest.warns(UserWarning, match="'area' is an area light"):
        area = brightness({"type": "area", "pos": (0, -2, 3), "radius": 0.4})
    assert area[55, 32] > area[5, 32] + 20


def test_shadows_depend_on_quality():
    sun = {"type": "directional", "pos": (2, 0, 4), "direction": (-1, 0, -1)}
    fast, high = brightness(sun, quality="fast"), brightness(sun, quality="high")
    shade = (fast - high) > 20
    assert shade[:, :32].sum() > 10  # on the side away from the sun
    assert shade[:, 36:].sum() == 0


def build_look(n_envs=3, seed=5, lights=True, **options):
    """Build the room with a light, randomise its appearance, and return the scene and a camera."""
    scene = room()
    if lights:
        scene.add_light("directional", name="sun", direction=(0.3, 0, -1))
    camera = scene.add_sensor(front())
    scene.build(n_envs=n_envs, seed=seed)
    if options:
        randomize_look(scene, **options)
    return scene, camera


@pytest.mark.parametrize("quality", ["balanced", "high"])
def test_ground_has_no_dark_specks_beyond_the_shadow_map(quality):
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
    shadow[70:105, 90:145] = True  # the box's own shadow, which is correct
    assert int((dark & shadow).sum()) > 100
    assert int((dark & ~shadow).sum()) == 0


def test_randomize_look_differs_per_env_and_depends_on_the_seed():
    options = {"intensity": (0.3, 1.0), "tint": 0.3, "direction": 0.5, "position": 1.0, "colors": 0.4}
    plain = build_look()[1].read().rgb
    scene, camera = build_look(**options)
    image = camera.read().rgb.clone()
    assert not any(torch.equal(image[i], other) for i in range(3) for other in (plain[0], image[(i + 1) % 3]))
    assert torch.equal(build_look(n_envs=1, **options)[1].read().rgb[0], image[0])
    assert not torch.equal(build_look(seed=6, **options)[1].read().rgb, image)
    sun, world = scene.model.light("sun").id, scene.world
    turned = world.expand("light_dir")[:, sun] @ torch.from_numpy(scene.model.light_dir[sun])
    assert bool((turned > np.cos(0.5) - 1e-9).all() and (turned < 1).any())
    ratio = world.expand("light_diffuse")[:, sun] / torch.from_numpy(scene.model.light_diffuse[sun])
    assert bool((ratio > 0.3 * 0.7).all() and (ratio < 1.3).all())
    randomize_look(scene, **options, draw=1, envs=[1])
    again = camera.read().rgb
    assert torch.equal(again[[0, 2]], image[[0, 2]])
    assert not torch.equal(again[1], image[1])
    randomize_look(scene, **options, envs=[1])  # the same draw gives the same appearance
    assert torch.equal(camera.read().rgb, image)


def test_randomize_look_of_one_entity_and_its_errors():
    scene, camera = build_look(colors=0.5, entities=["box"])
    plain, wall, box = build_look()[1].read().rgb, (12, 28), (8, 16)
    camera.enable_segmentation_rendering()
    ids = camera.read().segmentation[0, ..., 0]
    rows, columns = (ids == scene.model.body("box").id).nonzero(as_tuple=True)
    box = (rows[len(rows) // 2], columns[len(rows) // 2])
    assert torch.equal(camera.read().rgb[:, wall[0], wall[1]], plain[:, wall[0], wall[1]])
    assert not torch.equal(camera.read().rgb[:, box[0], box[1]], plain[:, box[0], box[1]])
    for bad, message in (
        ({"intensity": (2, 1)}, "0 <= min <= max"),
        ({"direction": 2.0}, "direction"),
        ({"colors": 0.1, "entities": ["bx"]}, "did you mean 'box'"),
        ({"materials": ["wood"]}, "no material 'wood'.*no materials"),
        ({"tint": 0.1, "draw": -1}, r"draw must be an integer in \[0, 2\*\*32\), got -1"),
        ({"tint": 0.1, "draw": 2**32}, "draw must be an integer"),
    ):
        with pytest.raises(sn.SensoriumError, match=message):
            randomize_look(scene, **bad)
    with pytest.raises(sn.OptionError, match="add_light"):
        build_look(lights=False, tint=0.1)


CRATE = """
<mujoco model="crate"><asset>
  <texture name="stripes" type="2d" builtin="checker" rgb1="1 0 0" rgb2="0 1 0" width="64" height="64"/>
  <texture name="blue" type="2d" builtin="flat" rgb1="0 0 1" width="8" height="8"/>
  <material name="stripes" texture="stripes" specular="0"/>
  <material name="blue" texture="blue" specular="0"/>
  <material name="grey" rgba="0.6 0.6 0.6 1" specular="0"/>
</asset><worldbody><body><geom type="box" size="0.01 2 2" pos="1 0 0"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("renderer", ["raster", "batch"])
def test_randomized_materials_differ_per_env_and_depend_on_the_seed(renderer):
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
        """Return what fills the left half of images: stripes (red and green), blue, or grey."""
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
    box = image[:, 16, 23].float()  # not in `entities`
    assert float((box.max(1).values - box.min(1).values).max()) < 3
    randomize_look(scene, **options, draw=1, envs=[0, 1, 2, 3, 4, 5])
    again = kinds(camera.read().rgb)
    assert again[6:] == seen[6:]
    assert again[:6] != seen[:6]
    randomize_look(scene, **options)
    assert torch.equal(camera.read().rgb, image)
    assert set(kinds(crates(**{**options, "materials": ["crate/blue"]})[1].read().rgb)) == {"blue"}


def test_sky_is_the_background():
    scene = sn.Scene(sky=((0, 0, 1), (1, 0, 0)))
    up = scene.add_sensor(sn.Camera(uuid="up", lookat=(0, 0, 1), resolution=(8, 8), outputs=("rgb", "depth")))
    down = scene.add_sensor(sn.Camera(uuid="down", lookat=(0, 0, -1), resolution=(8, 8)))
    scene.build()
    assert up.read().rgb[0, 4, 4].argmax() == 2
    assert down.read().rgb[0, 4, 4].argmax() == 0
    assert torch.isinf(up.read().depth).all()


def test_transparent_geoms_have_depth():
    scene = sn.Scene()
    scene.add_object(sn.Box(size=(0.1, 1, 1), rgba=(1, 1, 1, 0.3)), pos=(1.05, 0, 0))
    scene.add_object(sn.Box(size=(0.1, 9, 9)), pos=(3.05, 0, 0))
    camera = scene.add_sensor(
        sn.Camera(lookat=(1, 0, 0), resolution=(16, 16), outputs=("rgb", "depth"), anti_aliasing=4)
    )
    scene.build()
    assert camera.read().depth[0, 8, 8].item() == pytest.approx(1.0, abs=1e-4)
