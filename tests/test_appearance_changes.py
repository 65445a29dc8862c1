"""Lights, colours and materials that change during an episode: images of the named envs change, and nothing else."""

import numpy as np
import pytest
import torch
from camera_scenes import room
from gl import needs_gl

import sensorium as sn

pytestmark = needs_gl

CRATE = """
<mujoco model="crate"><asset>
  <texture name="red" type="2d" builtin="flat" rgb1="1 0 0" width="8" height="8"/>
  <texture name="blue" type="2d" builtin="flat" rgb1="0 0 1" width="8" height="8"/>
  <material name="red" texture="red" specular="0"/>
  <material name="blue" texture="blue" specular="0"/>
  <material name="green" rgba="0 1 0 1" specular="0"/>
</asset><worldbody>
  <body name="side"><geom name="panel" type="box" size="0.01 2 2" pos="1 0 0" material="green"/></body>
</worldbody></mujoco>"""
RENDERERS = [
    "raster",
    "batch",
    pytest.param("pathtrace", marks=[pytest.mark.slow]),
]


def wall_scene(renderer="raster", n_envs=3, **options):
    """Return a built scene with a white wall that faces a white light, and a camera that sees only the wall."""
    scene = sn.Scene(dt=0.01, substeps=2)
    scene.add_object(sn.Box(size=(0.1, 9, 9), rgba=(1, 1, 1, 1)), name="wall", pos=(2.05, 0, 0))
    scene.add_light("directional", name="sun", direction=(1, 0, 0), intensity=0.4, specular=0)
    if renderer == "pathtrace":
        pytest.importorskip("mitsuba", reason="mitsuba is not installed")
        camera = sn.RaytracerCamera(lookat=(1, 0, 0), resolution=(8, 6), samples=16, tone_mapper="linear", **options)
    else:
        camera = sn.Camera(lookat=(1, 0, 0), resolution=(8, 6), renderer=renderer, **options)
    camera = scene.add_sensor(camera)
    scene.build(n_envs=n_envs)
    scene.step()
    return scene, camera


def watch(camera, monkeypatch):
    """Return a list that receives the envs of every call of the camera's renderer."""
    renderer, rendered = camera._render_pass._renderer, []
    render = renderer.render

    def record(views, envs):
        rendered.append(None if envs is None else envs.tolist())
        render(views, envs)

    monkeypatch.setattr(renderer, "render", record)
    return rendered


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("change", ["color", "light", "direction", "touch"])
def test_only_named_envs_change_and_are_rendered_again(renderer, change, monkeypatch):
    scene, camera = wall_scene(renderer)
    before = camera.read().rgb.clone()
    rendered = watch(camera, monkeypatch)
    if change == "color":
        scene.set_color("wall", (1, 0.2, 0.2), envs=[1])
    elif change == "light":
        scene.set_light("sun", color=(0.2, 0.2, 1), envs=[1])
    elif change == "direction":
        scene.set_light("sun", direction=(1, 0, 1), envs=[1])
    else:
        scene.world.expand("light_diffuse")[1] = 0.1
        assert torch.equal(camera.read().rgb, before)
        assert not rendered
        scene.touch(envs=[1])
    after = camera.read().rgb
    assert rendered == [[1]]
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert float((after[1].float() - before[1].float()).abs().mean()) > 10
    camera.read()
    camera.read_ground_truth()
    assert len(rendered) == 1


def test_brightness_is_intensity_times_color():
    """In MuJoCo's OpenGL a facing white wall has the ambient light (0.3) plus intensity times colour."""
    scene, camera = wall_scene()

    def levels():
        return camera.read().rgb[:, 3, 4].float() / 255

    torch.testing.assert_close(levels(), torch.full((3, 3), 0.7), atol=0.01, rtol=0)
    scene.set_light("sun", intensity=[0.1, 0.6], envs=[2, 0])
    scene.set_light("sun", color=(1, 0.5, 0), envs=[0, 1])  # intensities stay
    expected = torch.tensor([[0.9, 0.6, 0.3], [0.7, 0.5, 0.3], [0.4, 0.4, 0.4]])
    torch.testing.assert_close(levels(), expected, atol=0.01, rtol=0)
    scene.set_light("sun", direction=[(1, 0, 0), (1, 1, 0), (0, 1, 0)])  # cosines 1, 0.71 and 0
    cosine = torch.tensor([1.0, 0.5**0.5, 0.0])[:, None]
    torch.testing.assert_close(levels(), 0.3 + (expected - 0.3) * cosine, atol=0.01, rtol=0)
    scene.set_light("sun", direction=(1, 0, 0), color=(1, 1, 1), intensity=0.4)
    torch.testing.assert_close(levels(), torch.full((3, 3), 0.7), atol=0.01, rtol=0)
    scene.set_light("sun", lookat=(2, 0, 0), pos=[(1, 0, 0), (2, -1, 0), (1, -1, 0)])
    cosine = torch.tensor([1.0, 0.0, 0.5**0.5])[:, None].expand(-1, 3)
    torch.testing.assert_close(levels(), 0.3 + 0.4 * cosine, atol=0.01, rtol=0)


@pytest.mark.parametrize("renderer", RENDERERS)
def test_materials_and_colors_per_env(renderer):
    if renderer == "pathtrace":
        pytest.importorskip("mitsuba", reason="mitsuba is not installed")
    scene = sn.Scene()
    scene.add_object(CRATE, name="crate")
    camera = scene.add_sensor(sn.Camera(lookat=(1, 0, 0), resolution=(8, 8), renderer=renderer, quality="fast"))
    scene.build(n_envs=4)

    def hues():
        return camera.read().rgb[:, 4, 4].float().argmax(1).tolist()

    assert hues() == [1, 1, 1, 1]
    scene.set_material("crate", ["crate/red", "blue"], envs=[3, 1])
    assert hues() == [1, 2, 1, 0]
    scene.set_material("crate/side", "crate/blue", envs=[0])
    assert hues() == [2, 2, 1, 0]
    scene.set_material("panel", "green")
    assert hues() == [1, 1, 1, 1]
    scene.set_color("panel", (0.5, 0.5, 0.5, 1), envs=[2])  # MuJoCo takes this grey for "the colour of the material"
    grey = camera.read().rgb[2, 4, 4].float()
    assert float(grey.max() - grey.min()) < 3
    assert hues()[:2] == [1, 1]


def imu_run(change, timed=True, n_steps=12):
    """Return all readings of an IMU with delay, drift and history over some steps, with a change before the 7th."""
    scene = room()
    scene.add_light("directional", name="sun", direction=(1, 0, -1))
    imu = scene.add_sensor(
        sn.IMU(
            link="lower", delay=0.03, jitter=0.025, acc_noise=0.1, acc_random_walk=0.5, gyro_drift=0.1, history_length=4
        )
    )
    options = {"delay": 0.02, "rate": 50.0, "history_length": 3} if timed else {}
    camera = scene.add_sensor(
        sn.Camera(uuid="eye", pos=(0, 0, 1), lookat=(3, 0, 1), resolution=(16, 12), profile="rgbd", **options)
    )
    scene.build(n_envs=3, seed=4)
    out = []
    for step in range(n_steps):
        if step == 6:
            change(scene)
        scene.step()
        reading, samples = imu.read(), imu.read_samples()
        row = [*reading, *imu.read_ground_truth(), samples.count, *samples.values, imu.age(), scene.get_state()]
        out.append([*(each.clone() for each in row), camera.read().rgb.clone()])
    return out


def everything(scene):
    """Change every kind of appearance in env 1."""
    scene.set_color("wall", (0.2, 0.9, 0.2), envs=[1])
    scene.set_light("sun", intensity=0.1, direction=(0, 1, -1), envs=[1])
    scene.touch(envs=[1])
    scene.sensors["eye"].read_ground_truth()


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.slow
def test_delay_drift_and_history_of_sensors_continue_bit_for_bit(timed):
    plain, changed = imu_run(lambda scene: None, timed), imu_run(everything, timed)
    for step, (one, other) in enumerate(zip(plain, changed, strict=True)):
        for number, (mine, theirs) in enumerate(zip(one[:-1], other[:-1], strict=True)):
            assert torch.equal(mine, theirs), (step, number)
        assert torch.equal(one[-1][[0, 2]], other[-1][[0, 2]]), step
    assert not torch.equal(plain[-1][-1][1], changed[-1][-1][1])


def test_forward_restarts_sensors():
    """The readings of the test above do notice a restart."""
    plain, restarted = imu_run(lambda scene: None), imu_run(lambda scene: scene.forward(envs=[1]))
    assert not torch.equal(plain[6][0], restarted[6][0])


def test_timed_camera_shows_a_change_from_its_next_capture_on():
    scene, camera = wall_scene(rate=25.0, delay=0.02)
    before = camera.read().rgb.clone()
    scene.set_color("wall", (1, 0, 0), envs=[1])
    assert torch.equal(camera.read().rgb, before)
    assert int(camera.read_ground_truth().rgb[1, 3, 4, 1]) < 30
    changed_at = []
    for step in range(2, 10):  # captured at 0.04 s, read from 0.06 s on
        scene.step()
        changed_at += [step] * (not torch.equal(camera.read().rgb[1], before[1]))
        assert torch.equal(camera.read().rgb[[0, 2]], before[[0, 2]])
    assert changed_at[0] == 6


@pytest.mark.parametrize("rate", [None, 50.0])
def test_replay_shows_recorded_changes(rate, tmp_path):
    scene, camera = wall_scene(rate=rate)
    scene.set_color("wall", (0.9, 0.9, 0.2), envs=[2])
    images = []
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        for step in range(9):
            if step == 3:
                scene.set_color("wall", (1, 0.1, 0.1), envs=[0])
            if step == 5:
                scene.set_light("sun", intensity=0.1, direction=(1, 1, 0), envs=[1])
            scene.step()
            recorder.step()
            images.append(camera.read().rgb.clone())
    assert len({tuple(image[:, 3, 4].flatten().tolist()) for image in images}) == 3
    recording = sn.recording.Recording(tmp_path / "a")
    rebuilt = recording.build_scene()
    retracer = sn.recording.Retracer(recording, rebuilt)
    for step, image in enumerate(images):
        retracer.to(step)
        assert torch.equal(rebuilt.sensors[camera.uuid].read().rgb, image), step


def test_snapshot_shows_the_colors_of_the_env():
    scene, _ = wall_scene()
    plain = scene.snapshot(env=1, width=64, height=48)
    scene.set_color("wall", (1, 0, 0), envs=[1])
    assert np.array_equal(scene.snapshot(env=0, width=64, height=48), plain)
    assert not np.array_equal(scene.snapshot(env=1, width=64, height=48), plain)


def test_errors_name_the_argument_and_change_nothing():
    scene, camera = wall_scene()
    before, version = camera.read().rgb.clone(), scene.world.changes.version
    light, missing = scene.set_light, sn.errors.NameNotFoundError
    for call, error, message in (
        (lambda: light("sum", intensity=1), missing, "set_light: there is no light named 'sum'.*did you mean 'sun'"),
        (lambda: light("sun"), sn.OptionError, "set at least one of color, intensity"),
        (lambda: light("sun", intensity=-1), sn.OptionError, "intensity must be >= 0 and finite, got -1"),
        (
            lambda: light("sun", intensity=[1, 2]),
            sn.OptionError,
            r"intensity must be a number, or have shape \(3,\), got \(2,\)",
        ),
        (lambda: light("sun", color=(1, 1)), sn.OptionError, r"color must have shape \(3,\) or \(3, 3\), got \(2,\)"),
        (lambda: light("sun", color="red"), sn.OptionError, "color must be numbers, got 'red'"),
        (lambda: light("sun", direction=(0, 0, 0)), sn.OptionError, "direction must not be zero"),
        (lambda: light("sun", pos=(1, 1, 1), lookat=(1, 1, 1)), sn.OptionError, "lookat must differ from the position"),
        (
            lambda: light("sun", direction=(1, 0, 0), lookat=(1, 0, 0)),
            sn.OptionError,
            "only one of direction and lookat",
        ),
        (lambda: light("sun", pos=(np.nan, 0, 0)), sn.OptionError, "pos must be finite"),
        (lambda: light("sun", intensity=1, envs=[3]), sn.OptionError, "envs must be in"),
        (
            lambda: scene.set_color("wal", (1, 1, 1)),
            missing,
            "no entity, link or geom named 'wal'.*did you mean 'wall'",
        ),
        (lambda: scene.set_color("wall", (1, 1, 2)), sn.OptionError, r"color must be in \[0, 1\], got \(1, 1, 2\)"),
        (lambda: scene.set_color("world", (1, 1, 1)), missing, "'world' has no geoms"),
        (lambda: scene.set_material("wall", "wood"), missing, "set_material: there is no material named 'wood'"),
        (lambda: scene.set_material("wall", ["a", "b"]), sn.OptionError, "one for each of the 3 envs, got 2"),
        (lambda: scene.touch(envs=[-1]), sn.OptionError, "envs must be in"),
    ):
        with pytest.raises(error, match=message):
            call()
    assert scene.world.changes.version == version
    assert not scene.world.expanded
    assert torch.equal(camera.read().rgb, before)
    for call in (lambda: sn.Scene().touch(), lambda: sn.Scene().set_color("a", (1, 1, 1))):
        with pytest.raises(sn.NotBuiltError, match=r"touch|set_color"):
            call()


def test_set_light_continues_from_what_randomize_look_and_others_wrote(monkeypatch):
    from sensorium.cameras import randomize_look

    scene, camera = wall_scene()
    camera.read()
    rendered = watch(camera, monkeypatch)
    randomize_look(scene, intensity=(0.5, 0.9), tint=0.3, envs=[1])
    camera.read()
    assert rendered == [[1]]
    diffuse, specular = (scene.world.expand(f"light_{kind}")[:, 0] for kind in ("diffuse", "specular"))
    drawn = diffuse[1].double().clone()
    scene.set_light("sun", intensity=0.2)
    hue = drawn / drawn.sum()
    torch.testing.assert_close(diffuse[1].double() / diffuse[1].sum(), hue, rtol=1e-6, atol=0)  # the tint stays
    torch.testing.assert_close(diffuse[0], torch.full((3,), 0.2))  # the light of add_light is white
    scene.set_light("sun", specular=0.5)
    torch.testing.assert_close(specular[1].double() / specular[1].sum(), hue, rtol=1e-6, atol=0)

    diffuse[2] = torch.tensor([0.1, 0.2, 0.4])  # by other code: the brightness is part of the colour
    scene.set_light("sun", intensity=0.5, envs=[2])
    torch.testing.assert_close(diffuse[2], torch.tensor([0.05, 0.1, 0.2]))
    scene.set_light("sun", intensity=2.0, envs=[2])  # factors do not add up
    torch.testing.assert_close(diffuse[2], torch.tensor([0.2, 0.4, 0.8]))


@pytest.mark.parametrize("name", [3, None, b"sun"])
def test_names_that_are_not_text_raise(name):
    scene, camera = wall_scene()
    calls = (
        lambda: scene.set_light(name, intensity=1),
        lambda: scene.set_color(name, (1, 0, 0)),
        lambda: scene.set_material("wall", [name, name, name]),
        lambda: scene.set_material(name, "wood"),
        lambda: camera.attach(name or 0),
    )
    for call in calls:
        with pytest.raises(sn.errors.OptionError, match=r"must be a name, got|must be one name"):
            call()


def test_messages_name_the_argument_of_set_color():
    scene, _ = wall_scene()
    with pytest.raises(sn.errors.OptionError, match=r"set_color: color must be in \[0, 1\]"):
        scene.set_color("wall", (1, 0, 2))
    with pytest.raises(sn.errors.OptionError, match=r"color must have shape \(3,\) or \(3, 3\), or \(4,\) or \(3, 4\)"):
        scene.set_color("wall", (1, 0))


@pytest.mark.slow
def test_path_tracer_shows_opacity_sizes_and_tints_of_each_env():
    pytest.importorskip("mitsuba", reason="mitsuba is not installed")
    model = """<mujoco><asset>
      <texture name="grey" type="2d" builtin="flat" rgb1="1 1 1" width="8" height="8"/>
      <material name="grey" texture="grey" specular="0"/><material name="clear" rgba="1 1 1 0"/></asset><worldbody>
      <geom name="wall" type="box" size=".1 3 3" pos="2 0 0" material="grey"/>
      <geom name="ball" type="sphere" size=".3" pos="1.2 .4 0" rgba="1 1 1 1"/>
      <geom name="hidden" type="sphere" size=".3" pos="1.2 -.4 0" material="clear"/></worldbody></mujoco>"""
    n_envs = 6
    scene = sn.Scene()
    scene.add_object(model, name="room")
    sight = {"lookat": (1, 0, 0), "resolution": (32, 24), "vfov": 60, "outputs": ("rgb", "depth", "segmentation")}
    cameras = [
        scene.add_sensor(sn.Camera(uuid=name, renderer=name, quality="fast", **sight))
        for name in ("batch", "pathtrace")
    ]
    scene.build(n_envs=n_envs)
    scene.set_color("ball", (1, 1, 1, 0), envs=[1])
    scene.set_color("hidden", (1, 0, 0, 1), envs=[2])
    scene.set_material("ball", "room/clear", envs=[3])  # the ball keeps its own, opaque colour
    scene.set_material("wall", "room/clear", envs=[4])
    scene.world.expand("geom_size")[5, scene.model.geom("room/ball").id, 0] = 0.5
    tints = [(0.2 * env, 0.2, 1 - 0.2 * env) for env in range(n_envs)]
    scene.set_color("wall", [(*tint, 1) if env != 4 else (0.5, 0.5, 0.5, 0) for env, tint in enumerate(tints)])
    for _ in range(2):  # again, with scenes that were made before
        scene.touch()
        theirs, mine = (camera.read() for camera in cameras)
        for env in range(n_envs):
            assert (mine.segmentation[env] == theirs.segmentation[env]).float().mean() > 0.99, env
        torch.testing.assert_close(mine.depth, theirs.depth, rtol=1e-3, atol=1e-3, equal_nan=True)
        assert bool(torch.isinf(mine.depth[4]).any())
        blue, red = mine.rgb[:, 1, 16, 2].float(), mine.rgb[:, 1, 16, 0].float()
        assert bool(blue[0] > 2 * red[0])
        assert bool(red[5] > 2 * blue[5])
