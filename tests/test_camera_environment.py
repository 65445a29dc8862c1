"""Environment maps, area lights and textured lights, in every renderer."""

import importlib.util
import shutil
import struct

import numpy as np
import pytest
import torch
from gl import needs_gl

import sensorium as sn
from sensorium.cameras import RaytracerCamera, randomize_look
from sensorium.worlds.environments import EnvironmentMap, read_radiance, to_skybox

HAS_MITSUBA = importlib.util.find_spec("mitsuba") is not None
needs_mitsuba = pytest.mark.skipif(not HAS_MITSUBA, reason="Mitsuba is not installed")
RENDERERS = [
    pytest.param("raster", marks=needs_gl),
    "batch",
    pytest.param("pathtrace", marks=needs_mitsuba),
]


def write_hdr(path, radiance):
    """Write a Radiance file without compression: one shared exponent per pixel."""
    largest = np.maximum(radiance.max(-1), 1e-30)
    exponent = np.floor(np.log2(largest)).astype(int) + 1
    mantissa = np.clip(radiance / 2.0 ** exponent[..., None] * 256, 0, 255)
    pixels = np.concatenate([mantissa, (exponent + 128)[..., None]], -1).astype(np.uint8)
    height, width = radiance.shape[:2]
    header = f"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y {height} +X {width}\n".encode()
    path.write_bytes(header + pixels.tobytes())
    return str(path)


def plain(path, colour, shape=(16, 32)):
    return write_hdr(path, np.broadcast_to(np.asarray(colour, float), (*shape, 3)))


def view(renderer, **options):
    if renderer == "pathtrace":
        return RaytracerCamera(**options, samples=64, tone_mapper="linear")
    return sn.Camera(**options, renderer=renderer)


DIRECTIONS = {  # direction in the world: column and row of the map, as fractions
    "north": ((0.05, 1, 0.1), (0.008, 0.468)),
    "east": ((1, -0.2, 0.3), (0.281, 0.408)),
    "south_west": ((-1, -1, -0.4), (0.625, 0.588)),
    "up": ((0.3, 0.2, 1), (0.156, 0.110)),
}


@pytest.mark.parametrize("name", DIRECTIONS)
@pytest.mark.parametrize("rotation", [0, 70])
def test_bright_spot_is_in_the_same_pixel_in_every_renderer(tmp_path, name, rotation):
    toward, (column, row) = DIRECTIONS[name]
    height, width = 256, 512
    sky = np.full((height, width, 3), 0.02)
    j, i = int(column * width), int(row * height)
    sky[i - 2 : i + 3, np.arange(j - 2, j + 3) % width] = (1.0, 0.8, 0.2)
    file = write_hdr(tmp_path / "spot.hdr", sky)
    polar, azimuth = (i + 0.5) * np.pi / height, (j + 0.5) * 2 * np.pi / width - np.radians(rotation)
    spot = np.array([np.sin(polar) * np.sin(azimuth), np.sin(polar) * np.cos(azimuth), np.cos(polar)])
    turn = np.radians(rotation)
    c, s = np.cos(turn), np.sin(turn)
    lookat = (c * toward[0] - s * toward[1], s * toward[0] + c * toward[1], toward[2])
    scene = sn.Scene(environments=[EnvironmentMap(file=file, rotation=rotation)])
    scene.add_object(sn.Sphere(radius=0.01), name="ball", pos=(0, 0, -50))
    kinds = ["raster", "batch", *(["pathtrace"] if HAS_MITSUBA else [])]
    eyes = {each: scene.add_sensor(view(each, uuid=each, lookat=lookat, resolution=(64, 64), fov=40)) for each in kinds}
    scene.build()
    camera = eyes["batch"]
    local = camera.extrinsics_cv[0, :, :3].double().numpy() @ spot
    pixel = (camera.intrinsics[0].double().numpy() @ (local / local[2]))[:2]
    assert (np.abs(pixel - 32) < 8).all()  # the map is where the documentation says
    for each, eye in eyes.items():
        image = eye.read().rgb[0].double().numpy().sum(-1)
        bright = np.argwhere(image > 0.5 * image.max())
        found = bright.mean(0)[::-1] + 0.5
        assert np.abs(found - pixel).max() < 0.75, each
    scene.close()


@pytest.mark.parametrize("renderer", RENDERERS)
def test_each_env_shows_its_own_map(tmp_path, renderer):
    colours = [(0.8, 0.1, 0.1), (0.1, 0.8, 0.1), (0.1, 0.1, 0.8)]
    shapes = [(16, 32), (32, 64), (8, 16)]
    files = [plain(tmp_path / f"{n}.hdr", colours[n], shapes[n]) for n in range(3)]
    scene = sn.Scene(environments=files)
    scene.add_object(sn.Sphere(radius=0.01), name="ball", pos=(0, 0, -50))
    camera = scene.add_sensor(view(renderer, lookat=(1, 0, 0.2), resolution=(8, 8)))
    scene.build(n_envs=4, seed=3)

    def shown():
        return camera.read().rgb[:, 4, 4].argmax(-1).tolist()

    assert shown() == [0, 0, 0, 0]
    scene.set_environment([2, 1], envs=[3, 1])
    assert shown() == [0, 1, 0, 2]
    scene.set_environment(1, envs=[0])
    assert shown() == [1, 1, 0, 2]
    scene.set_environment(2)
    assert shown() == [2, 2, 2, 2]
    randomize_look(scene, environments=True)
    drawn = shown()
    assert len(set(drawn)) > 1
    randomize_look(scene, environments=True, draw=1, envs=[2])
    assert [shown()[env] for env in (0, 1, 3)] == [drawn[env] for env in (0, 1, 3)]
    scene.close()


@needs_mitsuba
def test_map_lights_the_path_traced_scene_of_its_env(tmp_path):
    """Under uniform radiance L, a Lambertian floor of albedo a has the radiance a L."""
    floor = """<mujoco><asset><material name="matt" specular="0" rgba="1 1 1 1"/></asset><worldbody>
    <geom type="plane" size="5 5 .1" material="matt"/></worldbody></mujoco>"""
    files = [plain(tmp_path / "dark.hdr", (0.2, 0.2, 0.2)), plain(tmp_path / "red.hdr", (0.6, 0.1, 0.1))]
    scene = sn.Scene(environments=[files[0], EnvironmentMap(file=files[1], multiplier=0.5)])
    scene.add_object(floor, name="floor")
    scene.add_light("directional", intensity=0)
    camera = scene.add_sensor(view("pathtrace", pos=(0, 0, 2), lookat=(0, 0, 0), fov=10, resolution=(8, 8)))
    scene.build(n_envs=2)
    scene.set_environment([0, 1])
    from sensorium.worlds.srgb import decode_srgb

    seen = decode_srgb(camera.read().rgb.double().mean((1, 2)).numpy() / 255)
    np.testing.assert_allclose(seen, [[0.2, 0.2, 0.2], [0.3, 0.05, 0.05]], rtol=0.03)
    scene.close()


@needs_gl
def test_maps_are_recorded_and_replayed(tmp_path):
    files = [plain(tmp_path / "red.hdr", (0.9, 0, 0)), plain(tmp_path / "blue.hdr", (0, 0, 0.9))]
    scene = sn.Scene(environments=files)
    scene.add_object(sn.Sphere(radius=0.01), name="ball", pos=(0, 0, -50))
    camera = scene.add_sensor(sn.Camera(uuid="eye", renderer="raster", lookat=(1, 0, 0.2), resolution=(8, 8)))
    scene.build(n_envs=2)
    scene.set_environment(1, envs=[1])
    with sn.recording.Recorder(scene, tmp_path / "run") as recorder:
        for _ in range(2):
            scene.step()
            recorder.step()
    seen = camera.read().rgb.clone()
    scene.close()
    shutil.move(tmp_path / "run", tmp_path / "moved")
    for file in files:
        (tmp_path / file).unlink()
    recording = sn.datasets.open(tmp_path / "moved")
    replayed = recording.build_scene()
    sn.recording.Retracer(recording, replayed).to(1)
    again = replayed.sensors["eye"].read().rgb
    assert torch.equal(again, seen)
    assert again[:, 4, 4].argmax(-1).tolist() == [0, 2]


def test_files_are_read_as_linear_light(tmp_path):
    rng = np.random.default_rng(0)
    radiance = rng.uniform(0.1, 8, (6, 12, 3))
    np.testing.assert_allclose(
        read_radiance(write_hdr(tmp_path / "a.hdr", radiance), "x"), radiance, rtol=0.02, atol=0.04
    )
    if HAS_MITSUBA:
        import mitsuba as mi

        from sensorium.cameras.pathtrace.renderer import _use_variant

        with _use_variant("scalar_rgb"):
            mi.Bitmap(radiance.astype(np.float32)).write(str(tmp_path / "a.exr"))
        np.testing.assert_allclose(read_radiance(str(tmp_path / "a.exr"), "x"), radiance, rtol=2e-3)
    from matplotlib.image import imsave

    imsave(tmp_path / "a.png", np.full((4, 8, 3), 188, np.uint8))
    np.testing.assert_allclose(read_radiance(str(tmp_path / "a.png"), "x"), 0.503, atol=1e-3)
    box = to_skybox(EnvironmentMap(file=str(tmp_path / "a.png"), multiplier=0.5))
    assert box.shape == (96, 16, 3)  # at least 16 pixels along a side
    assert (box == 137).all()  # half of the light


def test_errors_name_the_option(tmp_path):
    (tmp_path / "text.hdr").write_bytes(struct.pack("<I", 7))
    red = plain(tmp_path / "red.hdr", (1, 0, 0))
    for file, text in ((tmp_path / "no.hdr", "must be an existing file"), (tmp_path / "text.hdr", "must be an image")):
        scene = sn.Scene(environments=[file])
        scene.add_object(sn.Plane(), name="floor")
        with pytest.raises(sn.OptionError, match=rf"EnvironmentMap.file {text}"):
            scene.build()
    with pytest.raises(sn.OptionError, match="sky and environments are both the background"):
        sn.Scene(environments=[red], sky=((0, 0, 0), (1, 1, 1)))
    scene = sn.Scene(environments=[red])
    scene.add_object(sn.Plane(), name="floor")
    scene.build(n_envs=2)
    with pytest.raises(sn.OptionError, match="number must be from 0 to 0, got 1"):
        scene.set_environment(1)
    with pytest.raises(sn.OptionError, match="one for each of 2 envs"):
        scene.set_environment([0, 0, 0])
    assert "mat_texid" not in scene.world.expanded
    scene = sn.Scene()
    scene.add_object(sn.Plane(), name="floor")
    scene.build()
    with pytest.raises(sn.OptionError, match="no environment maps"):
        scene.set_environment(0)
    with pytest.raises(sn.OptionError, match="no environment maps"):
        randomize_look(scene, environments=True)


# -- area lights and textured lights ----------------------------------------------------------------------------------


@pytest.mark.parametrize("renderer", RENDERERS[:2])
def test_renderers_without_area_lights_warn_by_name(tmp_path, renderer):
    scene = sn.Scene()
    scene.add_object(sn.Plane(), name="floor")
    scene.add_light("area", name="window", texture=plain(tmp_path / "red.hdr", (1, 0, 0)))
    scene.add_sensor(view(renderer, pos=(0, 0, 2), lookat=(0, 0, 0), resolution=(8, 8)))
    with pytest.warns(UserWarning, match=rf"'window' is an area light with a texture, .*{renderer!r} draws as a point"):
        scene.build()
    with pytest.raises(sn.OptionError, match="texture needs type='area'"):
        sn.Light(type="spot", texture="a.png")


@needs_mitsuba
def test_textured_area_light_shows_and_emits_its_image(tmp_path):
    """The left half is red and the right half blue, seen from the front; the top quarter is black."""
    image = np.zeros((16, 16, 3))
    image[4:, :8, 0] = image[4:, 8:, 2] = 1
    file = write_hdr(tmp_path / "screen.hdr", image)
    scene = sn.Scene()
    scene.add_object(sn.Box(size=(0.02, 4, 4), rgba=(1, 1, 1, 1)), name="wall", pos=(2, 0, 0))
    scene.add_light("area", name="screen", pos=(0, 0, 0), lookat=(1, 0, 0), radius=0.5, intensity=0.5, texture=file)
    front = view("pathtrace", uuid="front", pos=(1.5, 0, 0), lookat=(0, 0, 0), fov=50, resolution=(32, 32))
    side = view("pathtrace", uuid="wall_eye", pos=(0.3, 0, 0), lookat=(2, 0, 0), fov=90, resolution=(16, 16))
    front, side = scene.add_sensor(front), scene.add_sensor(side)
    scene.build()
    seen = front.read().rgb[0]
    assert seen[20, 10].argmax() == 0  # left
    assert seen[20, 22].argmax() == 2  # right
    assert seen[7, 16].max() < 10  # top
    wall = side.read().rgb[0].double()
    assert wall[:, 12:, 0].mean() > wall[:, 12:, 2].mean()  # red falls where the screen is red: on its own side
    assert wall[:, :4, 2].mean() > wall[:, :4, 0].mean()
    scene.close()


@needs_gl
def test_snapshot_shows_the_map_of_its_env(tmp_path):
    maps = [plain(tmp_path / "red.hdr", (1, 0, 0)), plain(tmp_path / "blue.hdr", (0, 0, 1))]
    scene = sn.Scene(environments=maps)
    scene.add_object(sn.Sphere(radius=0.1), name="ball")
    scene.build(n_envs=3)
    scene.set_environment(1, envs=[1])
    corners = [scene.snapshot(env, width=32, height=24)[0, 0].argmax() for env in range(3)]
    assert corners == [0, 2, 0]
