"""The live viewer: pace and pause, the panel, and MuJoCo's own window."""

import socket
import sys
import threading
import time

import mujoco
import numpy as np
import pytest
import torch
from conftest import drop_scene

import sensorium as sn
from sensorium.cameras import Camera
from sensorium.viewer import Control, Viewer
from sensorium.viewer.control import Pace
from sensorium.viewer.plots import SensorHistory

# -- pace and pause ---------------------------------------------------------------------------------------------------


class Counter(Viewer):
    """A window with its own clock that counts how often it is drawn."""

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


def test_viewer_draws_at_most_30_times_a_second():
    scene, now = built(), [0.0]
    viewer = Counter(scene, lambda: now[0])
    for _ in range(1000):
        now[0] += 0.01
        scene.step()
    assert 240 <= viewer.drawn <= 301  # in 10 s, with a step every 10 ms
    before = viewer.drawn
    viewer.update()
    assert viewer.drawn == before + 1
    viewer.close()
    scene.step(100)
    assert viewer.drawn == before + 1


def test_pace_waits_for_simulated_time_and_drops_lost_time():
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
    assert pace.delay(1.0) == pytest.approx(0.1)  # lost time is dropped
    for _ in range(50):
        now[0] += 0.2
        pace.tick()
        factor = pace.factor()
    assert factor == pytest.approx(0.5, rel=0.02)


def test_single_steps_count_only_while_paused():
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
    """A scene that a program steps without a speed limit, and its window."""
    scene = built()
    viewer = Counter(scene)
    stop, errors = threading.Event(), []

    def program():
        try:
            while not stop.is_set():
                scene.step()
                time.sleep(0.001)
        except Exception as error:  # checked by the test below
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


def test_pause_blocks_the_program_and_step_releases_one_step(running):
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


def test_close_releases_a_blocked_program(running):
    scene, viewer = running
    viewer.control.pause()
    time.sleep(0.1)
    stood = scene.time[0].item()
    viewer.close()
    assert eventually(lambda: scene.time[0] > stood + 0.05)


def test_run_steps_in_real_time_until_closed():
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


def test_sensor_history_keeps_the_last_seconds_oldest_first():
    scene = drop_scene(height=3.0)
    pose = scene.add_sensor(sn.FramePose(link="box", delay=0.02))
    scene.build(n_envs=2)
    scan = SensorHistory(pose, "pos", env=1, dt=scene.dt, seconds=0.2)
    heights = []
    for _ in range(50):
        scene.step()
        scan.take()
        heights.append(float(pose.read_ground_truth().pos[1, 2]))
    times, values = scan.lines()
    np.testing.assert_allclose(times, np.arange(-19, 1) * 0.01, atol=1e-9)
    np.testing.assert_allclose(values[:, 1, 2], heights[-20:], rtol=1e-6)
    np.testing.assert_allclose(values[:, 0, 2], heights[-22:-2], rtol=1e-6)  # 20 ms of delay


# -- the browser viewer, without a browser ----------------------------------------------------------------------------


def test_stage_shows_the_chosen_env():
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
        assert not viewer._history.is_image  # the switch, not the lidar
        viewer._sensor.value = "scan"
        viewer.control.ask("sensor", "scan")
        viewer.update()
        assert viewer._history.is_image
        assert viewer._plot.image.std() > 10
        assert [output for _, output, _ in viewer._images] == list(outputs)
        for _, output, element in viewer._images:
            assert element.image.shape == (24, 32, 3)
            assert element.image.dtype == np.uint8
            assert element.image.std() > 5, output
        viewer._sensor.value = "touch"
        assert eventually(lambda: viewer.update() or viewer._history.sensor.uuid == "touch")
        assert not viewer._history.is_image
        monkeypatch.setattr(viewer, "_watched", lambda: True)  # as if a client were connected
        viewer.update()
        scene.step(60)
        viewer._panel_due = 0
        viewer.update()
        _, measured, truth = viewer._plot.data
        assert set(measured) == set(truth) == {0.0, 1.0}  # it fell and lies on the ground


def test_camera_outputs_can_be_switched_while_the_window_is_open():
    scene = drop_scene(height=0.5)
    bent = sn.CameraProfile(k1=-0.2)  # renders an overscan margin
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
        assert viewer._images[0][2].image.shape == (30, 40, 3)  # blank, with the size of the images to come
        viewer._images_on.value = True
        assert listed() == {"depth": (30, 40, 3)}
        eye.disable_depth_rendering()
        assert listed() == {}
        eye.enable_rgb_rendering()
        assert listed() == {"rgb": (30, 40, 3)}
        assert viewer._images[0][2].image.std() > 5


def test_viewer_errors(monkeypatch):
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


def test_native_window_follows_the_scene(monkeypatch):
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
    window.close()  # by the user: a held program continues, and another window can open
    assert viewer.closed
    scene.step()
    scene.view(native=True).close()


@pytest.mark.gpu
def test_viewer_shows_envs_of_a_gpu():
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
