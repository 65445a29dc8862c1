"""Lidar returns on the page of a dataset."""

import mujoco
import numpy as np
import pytest

import sensorium as sn
from sensorium.errors import GenerationError
from sensorium.generation import GenerateOptions, generate

pytest.importorskip("viser")

from sensorium.viewer.data_episodes import EpisodeSource
from sensorium.viewer.data_lidars import StoredLidar


@pytest.mark.parametrize(
    "options",
    [
        {"euler": (0.3, -0.2, 0.5), "pos": (0.1, 0.2, 0.3)},
        {"alignment": "yaw", "euler": (0.0, 0.2, 0.0)},
        {"alignment": "world", "pos": (0, 0, 0.2)},
        {"history_length": 3},
        {"echoes": ("first", "last"), "divergence": 0.5},
        {"pattern": sn.GridPattern(size=(0.4, 0.4), resolution=0.1), "max_range": 2.0},
    ],
    ids=lambda options: "-".join(options),
)
def test_returns_are_those_of_the_sensor(options):
    """A lidar that is known by its options alone has the returns of the sensor in the scene."""
    scene = sn.Scene(dt=0.01, gravity=(0, 0, 0))
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(0.3, 0.2, 0.2)), name="cart", pos=(0, 0, 1), euler=(0.2, 0.4, 0.7), free=True)
    scene.add_object(sn.Box(size=(0.4, 2, 2)), name="wall", pos=(1.5, 0, 1))
    lidar = scene.add_sensor(sn.Lidar(link="cart", uuid="lidar", exclude_self=True, noise=0.01, **options))
    scene.build(seed=1)
    scene.step(5)
    reading = lidar.read()
    distances = reading.distances[0] if hasattr(reading, "distances") else reading[0]
    stored = StoredLidar(lidar.options, scene.model.body("cart").id)
    expected = lidar.returns_in_world(0)
    assert len(expected) > 5
    np.testing.assert_allclose(stored.returns(scene.world, 0, distances.numpy()), expected, atol=1e-5)


def test_page_of_a_dataset_shows_returns_on_the_surfaces_of_the_room(tmp_path):
    options = GenerateOptions(
        task="nav_to_obj", robot="diffdrive", envs=1, episodes=1, max_attempts=1, keep_failed=True,
        options={"max_steps": 12},
    )  # fmt: skip
    with pytest.raises(GenerationError):  # cut short, so it is labelled as failed
        generate(options, tmp_path / "nav")
    source = EpisodeSource(sn.datasets.open(tmp_path / "nav"))
    for step in (12, 0):
        source.pose(step)
        (points,) = source.returns(step).values()
        assert len(points) > 300
        world, body = source.scene.world, source.scene.model.body("robot/base").id
        eye = world.bind("xpos")[0, body].numpy() + np.array([0, 0, 0.28])
        towards = points - eye
        true = world.rays(np.broadcast_to(eye, towards.shape), towards, bodyexclude=body)[0][0].numpy()
        errors = np.abs(true - 1) * np.linalg.norm(towards, axis=1)  # m
        assert np.median(errors) < 0.015  # noise of 0.01 m; samples of a 10 Hz lidar are up to 0.1 s old
    source.close()
    with sn.datasets.view(tmp_path / "nav") as window:
        window.show(step=6)
        (shown,) = window._stage._returns.values()
        assert len(shown.points) > 300


def test_points_of_echoes_in_the_world_lie_along_the_centre_of_the_beam():
    """Points in the world frame are those in the sensor's frame, also if the rays of a diverging beam surround it."""
    scene = sn.Scene(dt=0.01, gravity=(0, 0, 0))
    scene.add_object(sn.Sphere(radius=0.1), name="cart", pos=(0, 0, 1), euler=(0.2, 0.4, 0.7), free=True)
    scene.add_object(sn.Box(size=(0.4, 9, 9)), name="wall", pos=(3, 0, 1))
    beam = {"link": "cart", "exclude_self": True, "divergence": 0.1, "echoes": ("first",)}
    fields = {"returns": ("distances", "points"), "pattern": sn.SphericalPattern(fov=(40, 40), n_points=(9, 9))}
    own, world = (
        scene.add_sensor(sn.Lidar(uuid=f"in_{frame}", frame=frame, **beam, **fields)) for frame in ("sensor", "world")
    )
    scene.build(seed=1)
    scene.step()
    pos, quat = (value[0].numpy() for value in scene["cart"].get_pose())
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, quat.astype(float))
    hit = own.read().distances[0].isfinite().numpy() & (own.read().distances[0] < own.options.max_range).numpy()
    assert hit.sum() > 40
    expected = pos + own.read().points[0].numpy()[hit] @ turn.reshape(3, 3).T
    np.testing.assert_allclose(world.read().points[0].numpy()[hit], expected, atol=1e-4)
