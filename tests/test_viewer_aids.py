"""What helps at a page: walls that are seen through, lidar returns, first plots, a close view of a robot, sliders."""

import numpy as np
import pytest

import sensorium as sn
from sensorium.viewer import page
from sensorium.viewer.geometry import is_wall
from sensorium.viewer.plots import first_plot

viser = pytest.importorskip("viser")

ARM = """
<mujoco>
  <compiler angle="radian"/>
  <worldbody>
    <body name="upper" pos="0 0 1"><joint name="hinge" axis="0 1 0" range="-1 1" limited="true" damping="1"/>
      <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0"/>
      <body name="lower" pos="0.3 0 0"><joint name="slider" type="slide" axis="1 0 0" damping="50"/>
        <geom type="box" size="0.05 0.05 0.05"/></body>
    </body>
  </worldbody>
  <actuator><position joint="hinge" kp="50"/><motor joint="slider" ctrlrange="-5 5" ctrllimited="true"/></actuator>
</mujoco>
"""


def yard(**options) -> sn.Scene:
    """Return a scene with walls, a crate, and a box that carries a lidar and an IMU."""
    scene = sn.Scene(dt=0.01)
    scene.add_object(sn.Plane(), name="ground")
    scene.add_object(sn.Box(size=(0.3, 0.2, 0.2)), name="cart", pos=(0.5, -0.3, 0.1), euler=(0, 0, 0.7), free=True)
    for number, (x, y) in enumerate(((2.5, 0.0), (-2.5, 0.0), (0.0, 2.5), (0.0, -2.5))):
        scene.add_object(sn.Box(size=(0.1, 5, 1) if x else (5, 0.1, 1)), name=f"wall{number}", pos=(x, y, 0.5))
    scene.add_object(sn.Box(size=(0.5, 0.5, 0.5)), name="crate", pos=(1, 1.5, 0.25))
    scene.add_sensor(sn.Lidar(link="cart", uuid="lidar", frame="world", max_range=10, noise=0.01, **options))
    scene.add_sensor(sn.IMU(link="cart", uuid="imu"))
    scene.build(n_envs=2, seed=1)
    scene.step(5)
    return scene


def test_walls_are_long_thin_and_fixed():
    model = yard().model
    walls = {model.body(model.geom_bodyid[geom]).name for geom in range(model.ngeom) if is_wall(model, geom)}
    assert {name.split("/")[-1] for name in walls} <= {"wall0", "wall1", "wall2", "wall3", "world"}
    assert sum(is_wall(model, geom) for geom in range(model.ngeom)) == 4


def test_returns_are_the_measured_points_in_the_world():
    scene = yard()
    lidar, reading = scene["lidar"], scene["lidar"].read()
    hit = reading.distances[1] < 10
    found = lidar.returns_in_world(1)
    np.testing.assert_allclose(found, reading.points[1][hit].reshape(-1, 3).numpy(), atol=1e-4)
    recorded = reading.distances[0].numpy().copy()
    scene.step()
    assert len(lidar.returns_in_world(0, recorded)) == int((recorded < 10).sum())


def test_the_first_plot_has_lines():
    scene = yard()
    assert first_plot(scene.sensors) == ("imu", "lin_acc")
    assert first_plot({"lidar": scene["lidar"]}) == ("lidar", "distances")


def test_page_shows_returns_and_sees_through_walls():
    scene = yard()
    with scene.view() as viewer:
        stage = viewer._stage
        viewer.update()
        shown = stage._returns["lidar"].points
        np.testing.assert_allclose(shown, scene["lidar"].returns_in_world(0), atol=1e-4)
        walls = [(node, part) for node, part in stage._geoms if part.wall]
        assert sum(len(part.geoms) for _, part in walls) == 4
        assert all((node.batched_opacities < 0.5).all() for node, _ in walls)
        others = [node for node, part in stage._geoms if not part.wall]
        assert all(node.batched_opacities is None for node in others)
        viewer.control.ask("show_walls", True)
        viewer.control.ask("show_returns", False)
        viewer.update()
        assert all(node.batched_opacities is None for node, _ in walls)
        assert not stage._returns["lidar"].visible
        assert (viewer._sensor.value, viewer._field.value) == ("imu", "lin_acc")


def test_rays_that_are_drawn_for_debugging_are_not_drawn_twice():
    scene = yard(draw_debug=True)
    with scene.view() as viewer:
        assert not viewer._stage._returns


class Eye:
    """The camera of a browser."""

    def __init__(self):
        self.position, self.look_at = np.array([4.0, 0.0, 1.0]), np.zeros(3)


class Client:
    """A browser."""

    def __init__(self):
        self.camera = Eye()

    def atomic(self):
        import contextlib

        return contextlib.nullcontext()


def test_following_moves_the_camera_close_to_the_robot_and_back(monkeypatch):
    scene = yard()
    with scene.view() as viewer:
        client = Client()
        monkeypatch.setattr(viewer._server, "get_clients", lambda: {0: client})
        body = page.bodies_to_follow(scene.model)["cart"]
        viewer.control.ask("follow", body)
        viewer.update()
        radius = np.linalg.norm([0.15, 0.1, 0.1])
        away = client.camera.position - client.camera.look_at
        assert 4 * radius < np.linalg.norm(away) < 12 * radius
        np.testing.assert_allclose(client.camera.look_at, viewer._stage.center)
        assert away[2] >= 0.7 * np.linalg.norm(away)  # from above
        viewer.control.ask("follow", -1)
        viewer.update()
        assert np.linalg.norm(client.camera.position - client.camera.look_at) > 0.8 * viewer._stage.extent


def test_sliders_move_joints_and_command_actuators(tmp_path):
    model = tmp_path / "arm.xml"
    model.write_text(ARM)
    scene = sn.Scene(dt=0.01)
    scene.add_robot(model, name="arm")
    late = scene.add_sensor(sn.JointEncoder(delay=0.05, uuid="late"))
    scene.build(n_envs=2)
    scene.step(10)
    with scene.view(env=1) as viewer:
        viewer.add_sliders()
        delayed = late.read().positions[0].clone()
        ask = viewer.control.ask
        joints = [element for _, element in viewer._sliders._joints]
        assert [element.label for element in joints] == ["hinge", "slider"]
        assert [(element.min, element.max) for element in joints] == [(-1, 1), (-1, 1)]
        ask("joint 0", 0.5)
        viewer.update()
        assert scene.world.bind("qpos")[1, 0] == pytest.approx(0.5)
        assert scene.world.bind("qpos")[0, 0] < 0.45
        assert joints[0].value == pytest.approx(0.5, abs=0.01)
        assert late.read().positions[1, 0] == pytest.approx(0.5)  # its sensors restart
        assert late.read().positions[0].equal(delayed)  # those of other envs continue
        ask("actuator 0", -0.4)
        ask("actuator 1", 5.0)
        viewer.update()
        scene.step(300)
        hinge, slide = scene.world.bind("qpos")[1].tolist()
        other = scene.world.bind("qpos")[0].tolist()
        assert hinge == pytest.approx(-0.4, abs=0.2)  # gravity pulls it down
        assert slide > other[1] + 0.05


def test_page_of_a_recording_shows_returns_and_plots_lines_first(tmp_path):
    scene = yard()
    seen = []
    with sn.recording.Recorder(scene, tmp_path / "run") as recorder:
        for _ in range(4):
            scene.step()
            recorder.step()
            seen.append(scene["lidar"].returns_in_world(1))
    with sn.datasets.view(tmp_path / "run") as window:
        window.show(episode=1, step=2)
        (shown,) = window._stage._returns.values()
        np.testing.assert_allclose(shown.points, seen[2], atol=1e-3)
        assert "lidar" not in window._panel._array.value
