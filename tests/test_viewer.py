"""The live window: meshes of geoms, pace and pause, the panel, and the whole in a real browser."""

import io
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import mujoco
import numpy as np
import pytest
import torch
from conftest import ARM, drop_scene, patiently
from matplotlib.image import imread

import sensorium as sn
from sensorium.cameras import Camera
from sensorium.viewer import Control, Viewer, geometry
from sensorium.viewer.control import Pace
from sensorium.viewer.mirror import multiply
from sensorium.viewer.plots import Recording

# -- meshes of geoms --------------------------------------------------------------------------------------------------

SHAPES = """
<mujoco>
  <asset>
    <texture name="chess" type="2d" builtin="flat" rgb1="0.2 0.4 0.6" width="8" height="8"/>
    <material name="painted" texture="chess" rgba="1 0.5 1 1"/>
    <material name="plain" rgba="0.1 0.2 0.3 0.5"/>
    <mesh name="wedge" vertex="0 0 0  1 0 0  0 1 0  0 0 1  1 0 1  0 1 1"/>
    <hfield name="hill" nrow="3" ncol="5" size="2 1 0.5 0.1" elevation="0 0 0 0 0  0 1 2 3 4  0 0 0 0 0"/>
  </asset>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <geom name="sheet" type="plane" size="1 2 1"/>
    <geom name="box" type="box" size="0.1 0.2 0.3" material="plain"/>
    <geom name="ball" type="sphere" size="0.4" material="painted"/>
    <geom name="egg" type="ellipsoid" size="0.1 0.2 0.4" rgba="1 0 0 1"/>
    <geom name="drum" type="cylinder" size="0.3 0.5"/>
    <geom name="pill" type="capsule" size="0.2 0.5"/>
    <geom name="pill2" type="capsule" size="0.2 0.5" pos="1 0 0"/>
    <geom name="pill3" type="capsule" size="0.2 0.6" group="3"/>
    <geom name="wedge" type="mesh" mesh="wedge"/>
    <geom name="hill" type="hfield" hfield="hill"/>
    <geom name="unseen" type="sphere" size="0.4" rgba="1 0 0 0"/>
  </worldbody>
</mujoco>
"""


@pytest.fixture(scope="module")
def shapes():
    model = mujoco.MjModel.from_xml_string(SHAPES)
    found = {}
    for part in geometry.parts(model):
        for place, geom in enumerate(part.geoms):
            found[model.geom(geom).name] = (part, part.mesh.vertices * part.scales[place], part.rgba[place])
    return found


def volume(vertices, faces):
    """Of a closed surface whose faces are counter-clockwise from outside."""
    a, b, c = (vertices[faces[:, corner]] for corner in range(3))
    return float((np.cross(a, b) * c).sum() / 6)


@pytest.mark.parametrize(
    ("name", "half", "content"),
    [
        ("box", (0.1, 0.2, 0.3), 8 * 0.1 * 0.2 * 0.3),
        ("ball", (0.4, 0.4, 0.4), 4 / 3 * np.pi * 0.4**3),
        ("egg", (0.1, 0.2, 0.4), 4 / 3 * np.pi * 0.1 * 0.2 * 0.4),
        ("drum", (0.3, 0.3, 0.5), np.pi * 0.3**2),
        ("pill", (0.2, 0.2, 0.7), np.pi * 0.2**2 * 1.0 + 4 / 3 * np.pi * 0.2**3),
        ("pill3", (0.2, 0.2, 0.8), np.pi * 0.2**2 * 1.2 + 4 / 3 * np.pi * 0.2**3),
    ],
)
def test_primitives_have_their_extents_and_volume(shapes, name, half, content):
    part, vertices, _ = shapes[name]
    np.testing.assert_allclose(vertices.max(axis=0), half, rtol=0.01)
    np.testing.assert_allclose(vertices.min(axis=0), np.negative(half), rtol=0.01)
    assert volume(vertices, part.mesh.faces) == pytest.approx(content, rel=0.02)


def test_surfaces_of_meshes_planes_and_height_fields(shapes):
    part, vertices, _ = shapes["wedge"]
    assert volume(vertices, part.mesh.faces) == pytest.approx(0.5, rel=1e-5)
    assert len(vertices) == 6 * 3  # a corner for each of the sides that meet there: all edges are sharp
    _, vertices, _ = shapes["sheet"]
    np.testing.assert_allclose(np.ptp(vertices, axis=0), (2, 4, 0))
    part, vertices, _ = shapes["hill"]
    np.testing.assert_allclose(np.ptp(vertices, axis=0), (4, 2, 0.5))
    assert vertices[vertices[:, 2].argmax()] == pytest.approx((2, 0, 0.5))  # the highest is the last of the middle row
    a, b, c = (vertices[part.mesh.faces[:, corner]] for corner in range(3))
    assert (np.cross(b - a, c - a)[:, 2] > 0).all()


def test_geoms_of_one_form_share_a_mesh_and_have_their_colours(shapes):
    assert "unseen" not in shapes
    assert "floor" not in shapes
    assert shapes["ball"][0] is shapes["egg"][0]
    assert shapes["pill"][0] is shapes["pill2"][0]
    assert shapes["pill"][0] is not shapes["pill3"][0]
    assert shapes["pill3"][0].collision
    assert not shapes["pill"][0].collision
    np.testing.assert_allclose(shapes["egg"][2], (1, 0, 0, 1))
    np.testing.assert_allclose(shapes["box"][2], (0.1, 0.2, 0.3, 0.5), atol=1e-6)
    np.testing.assert_allclose(shapes["ball"][2], (0.2, 0.2, 0.6, 1), atol=0.01)  # texture times material
    model = mujoco.MjModel.from_xml_string(SHAPES)
    assert [model.geom(geom).name for geom in geometry.infinite_planes(model)] == ["floor"]


def test_products_of_quaternions():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 5, 4))
    expected = np.zeros((5, 4))
    for row in range(5):
        mujoco.mju_mulQuat(expected[row], a[row], b[row])
    np.testing.assert_allclose(multiply(a, b), expected, atol=1e-12)


# -- pace and pause ---------------------------------------------------------------------------------------------------


class Counter(Viewer):
    """A window that counts how often it is drawn, by a clock of its own."""

    def __init__(self, scene, clock=time.perf_counter):
        super().__init__(scene, 0)
        self._pace = Pace(scene.dt, clock)
        self.drawn = 0
        scene._viewer = self

    def _draw(self, everything):
        self.drawn += 1

    def _shut(self):
        pass


def built(**options):
    scene = drop_scene(**options)
    scene.build()
    return scene


def test_it_is_drawn_at_most_30_times_a_second():
    scene, now = built(), [0.0]
    viewer = Counter(scene, lambda: now[0])
    for _ in range(1000):
        now[0] += 0.01
        scene.step()
    assert 240 <= viewer.drawn <= 301  # in 10 s; steps come every 10 ms
    before = viewer.drawn
    viewer.update()
    assert viewer.drawn == before + 1
    viewer.close()
    scene.step(100)
    assert viewer.drawn == before + 1


def test_pace_waits_for_simulated_time_and_gives_up_lost_time():
    now = [0.0]
    pace = Pace(0.1, lambda: now[0])
    pace.tick()
    assert pace.delay(1.0) == pytest.approx(0.1)
    assert pace.delay(0.5) == pytest.approx(0.2)
    assert pace.delay(None) == 0
    now[0] = 0.06
    assert pace.delay(1.0) == pytest.approx(0.04)
    now[0] = 10.0
    assert pace.delay(1.0) == 0
    pace.tick()
    assert pace.delay(1.0) == pytest.approx(0.1)  # not a hundred steps at once
    for _ in range(50):
        now[0] += 0.2
        pace.tick()
        factor = pace.factor()
    assert factor == pytest.approx(0.5, rel=0.02)


def test_steps_are_asked_for_while_paused_only():
    control = Control()
    control.step()  # the first one pauses
    assert control.paused
    assert not control.take_step()
    control.step()
    control.step()
    assert [control.take_step() for _ in range(3)] == [True, True, False]
    control.step()
    control.pause(False)
    assert not control.take_step()


@pytest.fixture
def running():
    """A scene that a program steps as fast as it goes, and its window."""
    scene = built()
    viewer = Counter(scene)
    stop, errors = threading.Event(), []

    def program():
        try:
            while not stop.is_set():
                scene.step()
                time.sleep(0.001)
        except Exception as error:  # seen by the test below
            errors.append(error)

    thread = threading.Thread(target=program)
    thread.start()
    yield scene, viewer
    stop.set()
    viewer.close()
    thread.join(5)
    assert not thread.is_alive()
    assert not errors


def eventually(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_pause_holds_the_program_and_step_lets_one_through(running):
    scene, viewer = running
    assert eventually(lambda: scene.time[0] > 0.05)
    viewer.control.pause()
    time.sleep(0.2)
    stood = scene.time[0].item()
    time.sleep(0.2)
    assert scene.time[0] == stood
    viewer.control.step()
    assert eventually(lambda: scene.time[0] > stood)
    time.sleep(0.2)
    assert scene.time[0].item() == pytest.approx(stood + scene.dt)
    viewer.control.ask("reset")
    assert eventually(lambda: scene.time[0] == 0)
    viewer.control.pause(False)
    assert eventually(lambda: scene.time[0] > 0.05)


def test_closing_lets_a_held_program_go(running):
    scene, viewer = running
    viewer.control.pause()
    time.sleep(0.1)
    stood = scene.time[0].item()
    viewer.close()
    assert eventually(lambda: scene.time[0] > stood + 0.05)


def test_run_goes_in_real_time_until_closed():
    scene = built()
    viewer = Counter(scene)
    thread = threading.Thread(target=viewer.run)
    start = time.monotonic()
    thread.start()
    assert eventually(lambda: scene.time[0] > 1.0)
    assert 0.9 < time.monotonic() - start < 3.0
    viewer.close()
    thread.join(5)
    assert not thread.is_alive()


def test_recordings_keep_the_last_seconds_oldest_first():
    scene = drop_scene(height=3.0)
    pose = scene.add_sensor(sn.FramePose(link="box", delay=0.02))
    scene.build(n_envs=2)
    scan = Recording(pose, "pos", env=1, dt=scene.dt, seconds=0.2)
    heights = []
    for _ in range(50):
        scene.step()
        scan.take()
        heights.append(float(pose.read_ground_truth().pos[1, 2]))
    times, values = scan.lines()
    np.testing.assert_allclose(times, np.arange(-19, 1) * 0.01, atol=1e-9)
    np.testing.assert_allclose(values[:, 1, 2], heights[-20:], rtol=1e-6)
    np.testing.assert_allclose(values[:, 0, 2], heights[-22:-2], rtol=1e-6)  # 20 ms late


# -- the window in the browser, without one ---------------------------------------------------------------------------


def test_the_stage_is_where_the_chosen_env_is():
    scene = drop_scene()
    scene.add_sensor(sn.IMU(link="box", draw_debug=True))
    scene.build(n_envs=3)
    colours = scene.world.expand("geom_rgba")
    colours[2, 1] = torch.tensor([0.0, 1.0, 0.0, 1.0])
    with scene.view() as viewer:
        box = scene.entities["box"]
        box.set_pose(pos=(0.3, 0.0, 1.0), envs=[2])
        scene.forward()
        viewer.control.ask("env", 2)
        viewer.update()
        assert viewer.env == 2
        (node, _), *_ = viewer._stage._geoms
        np.testing.assert_allclose(node.batched_positions, [[0.3, 0, 1.0]], atol=1e-6)
        np.testing.assert_allclose(node.batched_colors, [[0, 255, 0]])
        viewer.control.ask("follow", scene.model.body("box").id)
        viewer.update()
        seen = np.asarray(viewer._stage._root.position) + node.batched_positions[0]
        np.testing.assert_allclose(seen, scene.model.stat.center, atol=1e-6)
        assert viewer._stage._painted  # the IMU draws
        viewer.control.ask("show_debug", False)
        viewer.update()
        assert not viewer._stage._painted


TEXTURED = """
<mujoco model="board">
  <asset>
    <texture name="two" type="2d" builtin="gradient" rgb1="1 0 0" rgb2="0 0 1" width="16" height="16"/>
    <material name="two" texture="two"/>
    <mesh name="sheet" vertex="-1 0 0  1 0 0  1 0 1  -1 0 1  0 0.1 0.5" texcoord="0 1  1 1  1 0  0 0  0.5 0.5"
      face="0 1 2  0 2 3  0 3 4  3 2 4  2 1 4  1 0 4"/>
  </asset>
  <worldbody><geom type="mesh" mesh="sheet" material="two"/></worldbody>
</mujoco>
"""


def test_every_kind_of_reading_and_image_is_shown(monkeypatch):
    scene = drop_scene(height=0.5)
    scene.add_robot(TEXTURED, name="board", pos=(0, 1, 0))
    scene.add_sensor(sn.Lidar(link="box", uuid="scan", pattern=sn.RingPattern(n_points=32)))
    scene.add_sensor(sn.Contact(link="box", uuid="touch", history_length=3))
    outputs = ("rgb", "depth", "segmentation", "instance", "normals", "points")
    eye = scene.add_sensor(Camera(pos=(1.5, 0, 0.5), lookat=(0, 0, 0.4), resolution=(32, 24), outputs=outputs))
    scene.build(n_envs=2)
    try:
        eye.read()
    except sn.DeviceError as error:
        pytest.skip(str(error))
    with scene.view(env=1) as viewer:
        assert any(part.texture is not None for _, part in viewer._stage._geoms)
        assert viewer._recording.is_image
        assert viewer._plot.image.std() > 10
        assert [output for _, output, _ in viewer._images] == list(outputs)
        for _, output, element in viewer._images:
            assert element.image.shape == (24, 32, 3)
            assert element.image.dtype == np.uint8
            assert element.image.std() > 5, output
        viewer._sensor.value = "touch"
        assert eventually(lambda: viewer.update() or viewer._recording.sensor.uuid == "touch")
        assert not viewer._recording.is_image
        monkeypatch.setattr(viewer, "_watched", lambda: True)  # as if somebody looked, however long it takes
        viewer.update()
        scene.step(60)
        viewer._panel_due = 0
        viewer.update()
        _, measured, truth = viewer._plot.data
        assert set(measured) == set(truth) == {0.0, 1.0}  # it fell, and lies


def test_outputs_that_are_switched_while_the_window_is_open():
    scene = drop_scene(height=0.5)
    bent = sn.CameraProfile(k1=-0.2)  # more is rendered than is shown
    view = {"pos": (1.5, 0, 0.5), "lookat": (0, 0, 0.4), "resolution": (40, 30), "profile": bent}
    eye = scene.add_sensor(Camera(uuid="eye", **view))
    scene.build()
    try:
        eye.read()
    except sn.DeviceError as error:
        pytest.skip(str(error))

    def listed():
        viewer._images_due = 0
        viewer.update()
        return {output: element.image.shape for _, output, element in viewer._images}

    with scene.view() as viewer:
        assert eye.view.height > 30
        assert viewer._stage._frusta[0].aspect == pytest.approx(40 / 30)
        assert listed() == {"rgb": (30, 40, 3)}
        eye.enable_depth_rendering()
        assert listed() == {"rgb": (30, 40, 3), "depth": (30, 40, 3)}
        viewer._images_on.value = False
        eye.disable_rgb_rendering()
        viewer._list_images()
        assert viewer._images[0][2].image.shape == (30, 40, 3)  # blank, and as large as what will come
        viewer._images_on.value = True
        assert listed() == {"depth": (30, 40, 3)}
        eye.disable_depth_rendering()
        assert listed() == {}
        eye.enable_rgb_rendering()
        assert listed() == {"rgb": (30, 40, 3)}
        assert viewer._images[0][2].image.std() > 5


def test_what_goes_wrong_is_said(monkeypatch):
    scene = drop_scene()
    with pytest.raises(sn.NotBuiltError, match="view needs a running scene"):
        scene.view()
    scene.build()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(sn.OptionError, match=f"port {port} of 127.0.0.1"):
            scene.view(port=port)
    with pytest.raises(sn.OptionError, match=r"env must be an integer in \[0, 1\), got 1"):
        scene.view(env=1)
    with pytest.raises(sn.OptionError, match="port must be"):
        scene.view(port=0)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    if sys.platform.startswith("linux"):
        with pytest.raises(sn.DeviceError, match="needs a display"):
            scene.view(native=True)
    with scene.view() as first, pytest.raises(sn.OptionError, match="already has a window"):
        scene.view()
    assert first.closed
    other = drop_scene()
    other.build()
    with scene.view() as first, other.view() as second:  # the second takes the next port
        assert first.address != second.address
    viewer = scene.view()
    scene.close()
    assert viewer.closed
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(sn.DeviceError, match=r"pip install 'sensorium\[view\]'"):
        other.view()


def test_the_command_shows_a_model(tmp_path):
    model = tmp_path / "arm.xml"
    model.write_text(ARM)
    code = "import sys; from sensorium.cli import main; sys.exit(main(['view', sys.argv[1]]))"
    process = subprocess.Popen([sys.executable, "-c", code, model], stdout=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().split()[-1]
        with urllib.request.urlopen(address, timeout=20) as page:
            assert b"<html" in page.read().lower()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.stdout.close()


class FakeWindow:
    """What ``mujoco.viewer.launch_passive`` returns, without a display."""

    def __init__(self, model, data, key_callback):
        self.data, self.press, self.open, self.shown = data, key_callback, True, []
        self.user_scn = mujoco.MjvScene(model, 100)

    def lock(self):
        return threading.Lock()

    def sync(self):
        self.shown.append((self.data.time, self.data.body("box").xpos[2], self.user_scn.ngeom))

    def is_running(self):
        return self.open

    def close(self):
        self.open = False


def test_the_native_window_is_kept_in_step(monkeypatch):
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("mujoco.viewer.launch_passive", FakeWindow)
    scene = drop_scene(height=1.0)
    scene.add_sensor(sn.IMU(link="box", draw_debug=True))
    scene.build(n_envs=2)
    viewer = scene.view(native=True, env=1)
    window = viewer._window
    scene.step(20)
    viewer.update()
    when, height, painted = window.shown[-1]
    assert when == pytest.approx(0.2)
    assert height == pytest.approx(float(scene.world.bind("xpos")[1, scene.model.body("box").id, 2]))
    assert painted > 0
    for key, paused in ((32, True), (32, False), (262, True)):  # space, space, right
        window.press(key)
        assert viewer.control.paused == paused
    window.press(259)  # backspace
    viewer.update()
    assert scene.time.tolist() == [pytest.approx(0.2), 0.0]
    window.close()  # by the person at it: a held program goes on, and another window may open
    assert viewer.closed
    scene.step()
    scene.view(native=True).close()


@pytest.mark.gpu
def test_it_shows_envs_of_a_gpu():
    scene = drop_scene(height=1.0)
    scene.add_sensor(sn.IMU(link="box"))
    scene.build(n_envs=4, device="cuda")
    with scene.view(env=3) as viewer:
        scene.step(20)
        viewer.update()
        (node, part), *_ = viewer._stage._geoms
        expected = scene.world.bind("geom_xpos")[3].cpu().numpy()[part.geoms]
        np.testing.assert_allclose(node.batched_positions, expected, atol=1e-5)
        assert expected[0, 2] < 0.9


# -- in a real browser ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shown(browser):
    """A page that shows a scene which runs in real time: a red box falls before a camera, again and again."""
    scene = sn.Scene(dt=0.01, substeps=2)
    scene.add_object(sn.Plane())
    red = sn.Box(size=(0.3, 0.3, 0.3), rgba=(0.9, 0.1, 0.1, 1.0))
    scene.add_object(red, name="box", pos=(0, 0, 0.8), free=True)
    scene.add_sensor(sn.FramePose(link="box", uuid="pose"))
    camera = scene.add_sensor(Camera(pos=(1.5, 0, 0.5), lookat=(0, 0, 0.4), resolution=(64, 48), uuid="eye"))
    scene.build()
    try:
        camera.read()
    except sn.DeviceError as error:
        pytest.skip(str(error))
    viewer = scene.view()
    thread = threading.Thread(target=viewer.run)
    thread.start()
    page = browser.new_page(viewport={"width": 640, "height": 480})  # small: software draws it, on few cores
    page.set_default_timeout(120_000)
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(viewer.address)
    page.get_by_text("real time").first.wait_for()
    yield scene, viewer, page
    page.close()
    viewer.close()
    thread.join(10)
    scene.close()
    assert not errors


def red_pixels(page):
    """Which pixels of the 3D view are red, (H, W)."""
    page.mouse.move(5, 5)
    picture = imread(io.BytesIO(page.locator("canvas").first.screenshot()))
    return (picture[..., 0] > 0.4) & (picture[..., 0] > 2 * picture[..., 1:3].max(axis=2))


def shown_time(page):
    return float(page.locator("b", has_text=" s").first.inner_text().split()[0])


def press(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def test_the_scene_is_drawn_and_moves(shown):
    scene, _, page = shown
    assert patiently(page, lambda: red_pixels(page).sum() > 100)
    press(page, "Reset")
    press(page, "Pause")
    press(page, "Reset")
    assert patiently(page, lambda: shown_time(page) == 0)
    page.wait_for_timeout(1500)
    high = np.argwhere(red_pixels(page))[:, 0].mean()
    press(page, "Run")
    assert patiently(page, lambda: scene.time[0] > 1.0)
    page.wait_for_timeout(1500)
    low = np.argwhere(red_pixels(page))[:, 0].mean()
    assert low > high + 15  # rows go down, and so did the box


def test_camera_images_are_those_of_the_camera(shown):
    scene, _, page = shown
    press(page, "Pause")
    page.wait_for_timeout(1000)
    script = """image => {
        const canvas = document.createElement('canvas');
        canvas.width = image.naturalWidth; canvas.height = image.naturalHeight;
        const pen = canvas.getContext('2d'); pen.drawImage(image, 0, 0);
        return [canvas.width, canvas.height, Array.from(pen.getImageData(0, 0, canvas.width, canvas.height).data)];
    }"""
    picture = page.locator("img[src^='blob:']").first
    picture.scroll_into_view_if_needed()
    assert picture.is_visible()
    width, height, data = picture.evaluate(script)
    assert (width, height) == (64, 48)
    image = np.array(data).reshape(48, 64, 4)[..., :3]
    expected = scene["eye"].read().rgb[0].numpy().astype(int)
    assert expected.std() > 10
    assert np.abs(image - expected).mean() < 8  # of 255; it came as JPEG
    press(page, "Run")


def test_plots_change_while_time_goes_on(shown):
    _, viewer, page = shown
    press(page, "Run")
    press(page, "Reset")
    script = "canvas => canvas.toDataURL()"
    canvas = page.locator(".uplot canvas").first
    first = canvas.evaluate(script)
    assert patiently(page, lambda: canvas.evaluate(script) != first)
    page.get_by_role("combobox", name="Field").click()
    page.get_by_role("option", name="quat").click()
    assert patiently(page, lambda: viewer._recording.field == "quat")
    assert patiently(page, lambda: len(viewer._plot.data) == 1 + 2 * 4)  # time; four numbers, measured and true
    press(page, "Pause")
    page.wait_for_timeout(1000)
    still = canvas.evaluate(script)
    page.wait_for_timeout(1000)
    assert canvas.evaluate(script) == still


def test_pause_stops_time_and_step_is_one_step(shown):
    scene, viewer, page = shown
    press(page, "Pause")
    assert patiently(page, lambda: viewer.control.paused)
    page.wait_for_timeout(1000)
    stood = float(scene.time[0])
    page.wait_for_timeout(500)
    assert scene.time[0] == stood
    assert shown_time(page) == pytest.approx(stood, abs=6e-4)
    assert page.get_by_text("paused").count()
    press(page, "Step")
    assert patiently(page, lambda: scene.time[0] > stood)
    page.wait_for_timeout(500)
    assert float(scene.time[0]) == pytest.approx(stood + scene.dt)
    assert patiently(page, lambda: shown_time(page) == pytest.approx(stood + scene.dt, abs=6e-4))
    press(page, "Run")
    assert patiently(page, lambda: scene.time[0] > stood + 0.2)
