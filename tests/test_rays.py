"""Raycaster, lidar and depth camera against closed forms: rooms, moving walls, planes, cones, excluded bodies."""

import math

import numpy as np
import pytest
import torch
from ray_scenes import ALL, ROLLED, SIZE, TURNED, matrix, place, room, to_walls

import sensorium as sn
from sensorium.sensors.rays.depth_camera import DepthCamera
from sensorium.sensors.rays.patterns import ArrayPattern, GridPattern, SphericalPattern
from sensorium.sensors.rays.raycaster import Lidar, Raycaster
from sensorium.testing import same

# -- geometry ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quat", [(1, 0, 0, 0), TURNED])
def test_all_fields_in_a_room(quat):
    pattern = SphericalPattern(fov=(360, 120), n_points=(180, 31))
    scene = room()
    mount = {"pos": (0.1, 0.2, -0.1), "euler": (0.3, 0.2, -0.4)}
    lidar = scene.add_sensor(Lidar(link="base", pattern=pattern, returns=ALL, **mount))
    world = scene.add_sensor(Lidar(link="base", pattern=pattern, returns=ALL, frame="world", **mount))
    scene.build(n_envs=3)
    centres = np.array([[0.0, 0.0, 0.0], [1.3, -0.7, 0.4], [-2.0, 1.1, -0.6]])
    place(scene, pos=centres, quat=quat)
    base = matrix(quat)
    roll, pitch, yaw = (angle / 2 for angle in mount["euler"])
    rotations = [matrix((math.cos(roll), math.sin(roll), 0, 0)), matrix((math.cos(pitch), 0, math.sin(pitch), 0))]
    turn = base @ matrix((math.cos(yaw), 0, 0, math.sin(yaw))) @ rotations[1] @ rotations[0]
    directions = pattern.rays()[1] @ turn.T
    own, outer = lidar.read(), world.read()
    for env in range(3):
        origin = centres[env] + base @ np.array(mount["pos"])
        expected = to_walls(origin, directions)
        got = own.distances[env].flatten().numpy()
        np.testing.assert_allclose(got, expected, atol=1e-4)
        assert same(own.distances[env], outer.distances[env])
        # points, in both frames
        points = outer.points[env].reshape(-1, 3).numpy()
        np.testing.assert_allclose(points, origin + expected[:, None] * directions, atol=1e-4)
        np.testing.assert_allclose((np.abs(points) - SIZE / 2).max(axis=1), 0, atol=1e-4)  # on the walls
        np.testing.assert_allclose(own.points[env].reshape(-1, 3).numpy() @ turn.T + origin, points, atol=1e-4)
        # walls: body, normal and intensity
        axis = (np.abs(points) - SIZE / 2).argmax(axis=1)
        inward = np.zeros_like(points)
        inward[np.arange(len(points)), axis] = -np.sign(points[np.arange(len(points)), axis])
        clear = np.sort(np.abs(np.abs(points) - SIZE / 2), axis=1)[:, 1] > 1e-3  # not in an edge
        np.testing.assert_allclose(outer.normals[env].reshape(-1, 3).numpy()[clear], inward[clear], atol=1e-5)
        np.testing.assert_allclose((own.normals[env].reshape(-1, 3).numpy() @ turn.T)[clear], inward[clear], atol=1e-5)
        names = np.array([["x-", "x+"], ["y-", "y+"], ["z-", "z+"]])
        model = scene.world.model
        ids = [model.body("wall" + names[a, int(points[i, a] > 0)]).id for i, a in enumerate(axis)]
        np.testing.assert_array_equal(own.body_ids[env].flatten().numpy()[clear], np.array(ids)[clear])
        intensity = np.abs((inward * directions).sum(axis=1)) * np.mean([0.6, 0.65, 0.7]) / expected**2
        np.testing.assert_allclose(own.intensity[env].flatten().numpy()[clear], intensity[clear], atol=1e-5)


def test_noisy_points_agree_with_noisy_distances():
    scene = room()
    lidar = scene.add_sensor(Lidar(link="base", noise=0.05, noise_per_metre=0.02, ray_dropout=0.1))
    scene.build(n_envs=2)
    scene.step(count=3)
    reading = lidar.read()
    assert (reading.distances - lidar.read_ground_truth().distances).abs().mean() > 0.02
    torch.testing.assert_close(reading.points.norm(dim=-1), reading.distances)
    directions = torch.from_numpy(lidar.options.pattern.rays()[1]).float().reshape(16, 360, 3)
    torch.testing.assert_close(reading.points, reading.distances[..., None] * directions)


def test_fields_that_are_not_in_returns_are_none():
    scene = room()
    lidar = scene.add_sensor(Lidar(link="base", returns=("distances",)))
    scene.build(n_envs=2)
    reading = lidar.read()
    assert reading._fields == ("distances",)
    assert reading.points is None
    assert reading.intensity is None
    assert lidar.read(envs=[1]).distances.shape == (1, 16, 360)
    assert sum(tensor.shape[0] for tensor in (lidar.group.truth, lidar.group.snapshot)) == 2 * 16 * 360


def test_distance_to_a_moving_wall():
    scene = sn.Scene(dt=0.01, substeps=5, gravity=(0, 0, 0))
    scene.add_object(sn.Box(size=(0.2, 4, 4)), name="wall", pos=(3, 0, 0), free=True)
    scene.add_object(sn.Sphere(radius=0.1), name="base", free=True)
    beam = scene.add_sensor(Raycaster(link="base", pattern=ArrayPattern(directions=(1, 0, 0))))
    scene.build(n_envs=5)
    velocity = scene.world.bind("qvel")
    speeds = torch.tensor([0.0, 1.0, -2.0, 0.5, 3.0])
    velocity[:, 0] = speeds.double()
    velocity[:, 6] = -0.3  # the sensor moves away, too
    for step in range(1, 21):
        scene.step()
        expected = 3 - 0.1 + (speeds + 0.3) * step * 0.01
        torch.testing.assert_close(beam.read().distances[:, 0], expected, atol=1e-5, rtol=0)


def test_grazing_rays_and_misses():
    scene = sn.Scene(dt=0.01, gravity=(0, 0, 0))
    scene.add_object(sn.Plane())
    scene.add_object(sn.Sphere(radius=1.0), name="ball", pos=(5, 0, 1))
    scene.add_object(sn.Sphere(radius=0.1), name="base", pos=(0, 0, 1), free=True)
    grazing = math.asin(1 / 5)  # the ball's rim
    angles = np.array([grazing - 1e-3, grazing + 1e-3, -math.atan2(1, 50), -math.atan2(1, 200), 0.5])
    # just inside and outside of the ball's left rim; the ground within and beyond the range; the sky
    directions = [(math.cos(a), math.sin(a), 0) for a in angles[:2]]
    directions += [(-math.cos(a), 0, math.sin(a)) for a in angles[2:]]
    pattern = ArrayPattern(directions=directions)
    options = {"link": "base", "pattern": pattern, "max_range": 100.0, "noise": 0.01, "bias": 0.2}
    sensors = {
        value: scene.add_sensor(Raycaster(no_hit=value, returns=ALL, **options))
        for value in (None, math.inf, math.nan, -1.0, 0.0)
    }
    scene.build()
    scene.step(count=2)
    a = angles[0]
    exact = [5 * math.cos(a) - math.sqrt(1 - (5 * math.sin(a)) ** 2), math.hypot(1, 50)]
    for value, sensor in sensors.items():
        truth, reading = sensor.read_ground_truth(), sensor.read()
        assert truth.distances[0, [0, 2]].tolist() == pytest.approx(exact, abs=1e-4)
        missing = 100.0 if value is None else value
        for got in (truth, reading):  # noise and bias do not change misses
            np.testing.assert_array_equal(got.distances[0, [1, 3, 4]], np.full(3, missing, np.float32))
            assert got.body_ids[0, [1, 3, 4]].tolist() == [-1] * 3
            assert not got.normals[0, [1, 3, 4]].any()
            assert not got.intensity[0, [1, 3, 4]].any()
            lost = got.points[0, [1, 3, 4]]
            if missing in (100.0, 0.0):
                torch.testing.assert_close(lost.norm(dim=-1), torch.full((3,), missing))
            else:
                assert lost.isnan().all()
        assert (reading.distances[0, [0, 2]] - truth.distances[0, [0, 2]] > 0.1).all()


def test_surface_nearer_than_min_range_blocks_the_ray():
    scene = room()
    scene.add_object(sn.Box(size=(0.1, 1, 1), collide=False), name="screen", pos=(0.5, 0, 0))
    options = {"link": "base", "pattern": ArrayPattern(directions=[(1, 0, 0), (-1, 0, 0)]), "max_range": 20.0}
    blind = scene.add_sensor(Raycaster(min_range=0.6, **options))
    seeing = scene.add_sensor(Raycaster(min_range=0.4, **options))
    scene.build()
    assert blind.read().distances[0].tolist() == [20.0, 3.0]
    assert seeing.read().distances[0].tolist() == pytest.approx([0.45, 3.0])


def test_noisy_distances_stay_within_the_range():
    scene = room()
    beam = scene.add_sensor(
        Raycaster(link="base", pattern=ArrayPattern(directions=(1, 0, 0)), min_range=2.9, max_range=3.1, noise=1.0)
    )
    scene.build(n_envs=64)
    scene.step()
    distances = beam.read().distances
    assert distances.min() == np.float32(2.9)
    assert distances.max() == np.float32(3.1)


def test_alignment_of_the_mounting_frame():
    """The link is rolled and yawed, and the sensor is mounted away from the link's origin."""
    heading = 0.7
    c, s = math.cos(heading / 2), math.sin(heading / 2)
    quat = np.array([c * ROLLED[0], c * ROLLED[1], s * ROLLED[1], s * ROLLED[0]])  # roll, then yaw
    pattern = ArrayPattern(directions=[(1, 0, 0), (0, 0, -1)], origins=(0, 0.1, 0))
    yaw = np.array([[math.cos(heading), -math.sin(heading), 0], [math.sin(heading), math.cos(heading), 0], [0, 0, 1]])
    frames = {"base": matrix(quat), "yaw": yaw, "world": np.eye(3)}
    scene = room()
    sensors = {
        alignment: scene.add_sensor(
            Raycaster(link="base", alignment=alignment, pos=(0.2, 0.3, 0.4), frame="world", pattern=pattern)
        )
        for alignment in frames
    }
    scene.build()
    place(scene, pos=(0.5, -0.5, 0), quat=tuple(quat))
    origins, directions = pattern.rays()
    for alignment, frame in frames.items():
        starts = np.array([0.5, -0.5, 0]) + (np.array([0.2, 0.3, 0.4]) + origins) @ frame.T
        expected = to_walls(starts, directions @ frame.T)
        reading = sensors[alignment].read()
        np.testing.assert_allclose(reading.distances[0], expected, atol=1e-5)
        np.testing.assert_allclose(reading.points[0], starts + expected[:, None] * (directions @ frame.T), atol=1e-5)


def test_height_scan_of_a_step():
    scene = sn.Scene(dt=0.01, gravity=(0, 0, 0))
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(1, 4, 0.2)), pos=(0.75, 0, 0.1))  # x >= 0.25, 0.2 m high
    scene.add_object(sn.Box(size=(0.1, 0.1, 0.1)), name="base", pos=(0, 0, 0.6), free=True)
    pattern = GridPattern(size=(1.6, 1.0), resolution=0.1)
    scan = scene.add_sensor(Raycaster(link="base", alignment="yaw", pattern=pattern))
    scene.build()
    expected = torch.full((17, 11), 0.6)
    expected[11:] = 0.4  # rows run forward: row 11 is at x = 0.3
    torch.testing.assert_close(scan.read().distances[0], expected)
    place(scene, quat=(math.cos(math.pi / 4), 0, 0, math.sin(math.pi / 4)))  # facing y, with the step on the right
    expected = torch.full((17, 11), 0.6)
    expected[:, :3] = 0.4  # columns run to the left: column 2 is at y = -0.3, which is x = 0.3 in the world
    torch.testing.assert_close(scan.read().distances[0], expected)


# -- exclusion ---------------------------------------------------------------------------------------------------------

SHELLS = """
<mujoco model="onion">
  <worldbody>
    <body name="core" pos="0 0 0">
      <freejoint/>
      <geom type="sphere" size="0.1"/>
      <body name="inner"><geom type="box" size="0.3 0.3 0.3" mass="1"/>
        <body name="middle"><geom type="sphere" size="0.6" mass="1"/>
          <geom type="sphere" size="0.02" pos="1.5 0 0" mass="0.1"/>
          <body name="outer"><geom type="box" size="0.8 0.8 0.8" mass="1"/></body>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 0.3),
        ({"exclude": "inner"}, 0.6),
        ({"exclude": ("inner", "middle")}, 0.8),
        ({"exclude": ("inner", "outer")}, 0.6),
        ({"exclude": ("onion/middle", "outer", "inner")}, 3.0),
        ({"exclude_self": True}, 3.0),
        ({"exclude_self": True, "exclude": ("wallx+", "wallx-")}, 40.0),
    ],
)
def test_exclusion_of_nested_bodies(options, expected):
    scene = room(at=(0, 0, 1.2))
    scene.add_robot(SHELLS, name="onion")
    directions = [(1, 0, 0), (-1, 0, 0)]
    lidar = scene.add_sensor(
        Raycaster(link="core", pattern=ArrayPattern(directions=directions), max_range=40.0, returns=ALL, **options)
    )
    other = scene.add_sensor(Raycaster(link="core", pattern=ArrayPattern(directions=directions), exclude="inner"))
    scene.build(n_envs=3)
    scene.step()
    np.testing.assert_allclose(lidar.read().distances, np.full((3, 2), expected), atol=1e-5)
    np.testing.assert_allclose(other.read().distances, np.full((3, 2), 0.6), atol=1e-5)  # it has its own exclusions
    if expected == 3.0:  # the fields are those of the visible hit behind the excluded bodies
        body = scene.world.model.body("wallx+").id
        assert lidar.read().body_ids[:, 0].tolist() == [body] * 3
        np.testing.assert_allclose(lidar.read().normals[:, 0], np.tile([-1.0, 0, 0], (3, 1)), atol=1e-6)


def test_exclusion_of_touching_and_overlapping_bodies():
    """Two excluded bodies share a face; the face of a visible body lies inside an excluded one."""
    scene = room()
    scene.add_object(sn.Box(size=(0.5, 1, 1), collide=False), name="near", pos=(0.75, 0, 0))  # 0.5 to 1.0
    scene.add_object(sn.Box(size=(0.5, 1, 1), collide=False), name="far", pos=(1.25, 0, 0))  # 1.0 to 1.5
    scene.add_object(sn.Box(size=(0.5, 1, 1), collide=False), name="inside", pos=(1.65, 0, 0))  # 1.4 to 1.9
    beam = scene.add_sensor(Raycaster(link="base", pattern=ArrayPattern(directions=(1, 0, 0)), exclude=("near", "far")))
    through = scene.add_sensor(
        Raycaster(link="base", pattern=ArrayPattern(directions=(1, 0, 0)), exclude=("near", "far", "inside"))
    )
    scene.build()
    assert beam.read().distances.item() == pytest.approx(1.4, abs=1e-5)
    assert through.read().distances.item() == pytest.approx(3.0, abs=1e-5)


def test_sensor_on_the_world_sees_fixed_bodies():
    scene = room()
    scene.add_object(sn.Box(size=(9, 0.1, 9), collide=False), name="curtain", pos=(0, 1, 0))
    options = {"link": "world", "pos": (1, 0, 0.5), "pattern": ArrayPattern(directions=(0, 1, 0))}
    beam = scene.add_sensor(Raycaster(**options))
    through = scene.add_sensor(Raycaster(exclude="curtain", **options))
    scene.build()
    assert beam.read().distances.item() == pytest.approx(0.95)
    assert through.read().distances.item() == pytest.approx(2.0)


def test_exclusion_with_a_single_sensor_on_the_world():
    scene = room()
    beam = scene.add_sensor(Raycaster(link="world", exclude="base", pattern=ArrayPattern(directions=(0, 1, 0))))
    scene.build()
    assert beam.read().distances.item() == pytest.approx(2.0)


# -- depth camera ------------------------------------------------------------------------------------------------------


def test_depth_of_a_tilted_plane():
    """The depth of the plane n·p = c along a pixel's ray (1, y, z) is c / (n·(1, y, z))."""
    tilt = 0.5
    scene = sn.Scene(dt=0.01, gravity=(0, 0, 0))
    turn = -math.pi / 2 + tilt  # rotates the plane's normal z about y: towards the camera and upwards
    scene.add_object(sn.Plane(), pos=(2.0, 0, 0), quat=(math.cos(turn / 2), 0, math.sin(turn / 2), 0))
    scene.add_object(sn.Sphere(radius=0.05), name="base", free=True)
    camera = scene.add_sensor(DepthCamera(link="base", width=40, height=30, fov=70, max_range=4.0))
    clipped = scene.add_sensor(DepthCamera(link="base", width=40, height=30, fov=70, max_range=2.2, no_hit=0.0))
    scene.build(n_envs=2)
    focal = 20 / math.tan(math.radians(35))
    up = (15 - np.arange(30) - 0.5) / focal
    depth = 2.0 * math.cos(tilt) / (math.cos(tilt) - math.sin(tilt) * up)
    expected = np.tile(depth[:, None], (1, 40))
    assert expected.max() < 4.0
    for env in range(2):
        np.testing.assert_allclose(camera.read()[env], expected, atol=1e-4)
        np.testing.assert_allclose(clipped.read()[env], np.where(expected > 2.2, 0, expected), atol=1e-4)


def test_depth_noise_is_along_the_optical_axis():
    scene = sn.Scene(dt=0.01, gravity=(0, 0, 0))
    scene.add_object(sn.Box(size=(0.2, 40, 40), collide=False), pos=(5.1, 0, 0))
    scene.add_object(sn.Sphere(radius=0.05), name="base", free=True)
    camera = scene.add_sensor(DepthCamera(link="base", width=3, height=1, fov=120, noise=0.05, noise_per_metre=0.01))
    scene.build(n_envs=4000)
    scene.step()
    errors = camera.read() - 5.0
    np.testing.assert_allclose(errors.std(dim=0).flatten(), 0.1, rtol=5 / math.sqrt(2 * 4000))
