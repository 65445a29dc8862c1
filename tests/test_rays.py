"""Raycaster, lidar and depth camera against closed forms: rooms, walls that move, planes, cones."""

import math
from typing import ClassVar

import numpy as np
import pytest
import torch
from conftest import drop_scene

import sensorium as sn
from sensorium.errors import NameNotFoundError, OptionError
from sensorium.sensors.rays.depth_camera import DepthCamera
from sensorium.sensors.rays.patterns import ArrayPattern, GridPattern, PinholePattern, RingPattern, SphericalPattern
from sensorium.sensors.rays.raycaster import Lidar, Raycaster
from sensorium.testing import SensorContract, flat, same

SIZE = np.array([6.0, 4.0, 3.0])
ROLLED = (math.cos(0.2), math.sin(0.2), 0.0, 0.0)
TURNED = (0.8, 0.1, -0.3, 0.5)
ALL = ("distances", "points", "normals", "body_ids", "intensity")


def room(walls=True, at=(0, 0, 0), **options) -> sn.Scene:
    """A box room of SIZE around the origin, with a small free body ``at`` some place, and no gravity."""
    scene = sn.Scene(**{"dt": 0.01, "substeps": 2, "gravity": (0, 0, 0), **options})
    for axis in range(3) if walls else ():
        for side in (-1, 1):
            extent, pos = SIZE + 2.0, np.zeros(3)
            extent[axis], pos[axis] = 0.5, side * (SIZE[axis] / 2 + 0.25)
            name = "wall" + "xyz"[axis] + ("+" if side > 0 else "-")
            scene.add_object(sn.Box(size=tuple(extent), collide=False), name=name, pos=tuple(pos))
    scene.add_object(sn.Sphere(radius=0.1), name="base", pos=at, free=True)
    return scene


def to_walls(origins, directions):
    """Distances in the room along unit directions, by the planes of its walls."""
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = (np.sign(directions) * SIZE / 2 - origins) / directions
    return np.nanmin(np.where(directions == 0, np.inf, reach), axis=-1)


def matrix(quat):
    w, x, y, z = np.array(quat) / np.linalg.norm(quat)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def place(scene, pos=None, quat=None, name="base"):
    scene[name].set_pose(pos=pos, quat=quat)
    scene.forward()


# -- patterns ----------------------------------------------------------------------------------------------------------


def test_full_circle_has_no_column_twice():
    for pattern in (SphericalPattern(n_points=(360, 3)), SphericalPattern(resolution=(1.0, 15.0)), RingPattern()):
        _, directions = pattern.rays()
        row = directions.reshape(-1, 360, 3)[0]
        azimuth = np.arctan2(row[:, 1], row[:, 0])
        steps = np.diff(np.append(azimuth, azimuth[0])) % (2 * np.pi)
        np.testing.assert_allclose(steps, 2 * np.pi / 360, atol=1e-12)  # also from the last to the first


def test_angles_of_a_spherical_pattern():
    pattern = SphericalPattern(fov=(90, 30), n_points=(5, 3))
    assert pattern.shape == (3, 5)
    x, y, z = pattern.rays()[1].T.reshape(3, 3, 5)
    np.testing.assert_allclose(np.degrees(np.arctan2(y, x)), np.tile([-45, -22.5, 0, 22.5, 45], (3, 1)), atol=1e-9)
    np.testing.assert_allclose(np.degrees(np.arcsin(z)), np.tile([[-15], [0], [15]], (1, 5)), atol=1e-9)
    assert SphericalPattern(fov=(90, 30), resolution=(0.5, 2.0)).shape == (16, 181)
    given = SphericalPattern(azimuths=(10, -20), elevations=(5, 0, -30))
    x, y, z = given.rays()[1].T.reshape(3, 3, 2)
    np.testing.assert_allclose(np.degrees(np.arctan2(y, x)), np.tile([10, -20], (3, 1)), atol=1e-9)
    np.testing.assert_allclose(np.degrees(np.arcsin(z)), np.tile([[5], [0], [-30]], (1, 2)), atol=1e-9)


def test_grid_pattern():
    pattern = GridPattern(size=(1.6, 1.0), resolution=0.1, direction=(0, 0, -2))
    assert pattern.shape == (17, 11)
    origins, directions = pattern.rays()
    origins = origins.reshape(17, 11, 3)
    np.testing.assert_allclose(origins[0, 0], (-0.8, -0.5, 0), atol=1e-12)
    np.testing.assert_allclose(origins[16, 3], (0.8, -0.2, 0), atol=1e-12)
    np.testing.assert_array_equal(directions, np.tile([0, 0, -1.0], (187, 1)))
    assert GridPattern(size=(0.35, 0), resolution=0.1).shape == (4, 1)


def test_pinhole_pattern():
    for pattern in (
        PinholePattern(width=4, height=2, fov=90),
        PinholePattern(width=4, height=2, intrinsics=(2.0, 2.0, 2.0, 1.0)),
    ):
        x, y, z = pattern.rays()[1].T.reshape(3, 2, 4)
        np.testing.assert_allclose(y / x, np.tile([0.75, 0.25, -0.25, -0.75], (2, 1)), atol=1e-12)
        np.testing.assert_allclose(z / x, np.tile([[0.25], [-0.25]], (1, 4)), atol=1e-12)


def test_array_pattern():
    pattern = ArrayPattern(origins=np.zeros((2, 1, 3)), directions=torch.tensor([[2.0, 0, 0], [0, 3, 0]]))
    assert pattern.shape == (2, 2)
    np.testing.assert_array_equal(pattern.rays()[1], [[1, 0, 0], [0, 1, 0]] * 2)
    assert ArrayPattern(directions=(0, 0, -1)).shape == (1,)
    assert pattern == ArrayPattern(origins=np.zeros((2, 1, 3)), directions=[[2, 0, 0], [0, 3, 0]])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SphericalPattern(n_points=(3, 3), resolution=(1, 1)), "not both"),
        (lambda: SphericalPattern(fov=(400, 30)), "fov must lie"),
        (lambda: SphericalPattern(elevations=(0, 95)), "elevations must lie"),
        (lambda: SphericalPattern(azimuths=(0, 1), elevations=(0,), n_points=(3, 3)), "n_points has no effect"),
        (lambda: GridPattern(size=(1, 1), resolution=0), "resolution"),
        (lambda: GridPattern(size=(1, 1), resolution=1, direction=(0, 0, 0)), "zero"),
        (lambda: PinholePattern(width=4, height=4, fov=60, intrinsics=(1, 1, 1, 1)), "not both"),
        (lambda: ArrayPattern(directions=np.zeros((3, 2))), r"\(\.\.\., 3\)"),
        (lambda: ArrayPattern(directions=[[0, 0, 0]]), "zero"),
        (lambda: ArrayPattern(origins=np.zeros((4, 3)), directions=np.ones((3, 3))), "broadcast"),
        (lambda: ArrayPattern(directions=["up"]), "numbers"),
        (lambda: Lidar(link="base", returns=("points",)), "distances"),
        (lambda: Lidar(link="base", min_range=3, max_range=2), "min_range"),
        (lambda: Lidar(link="base", max_range=20, no_hit=5.0), "no_hit"),
        (lambda: Lidar(link="base", interpolate=True, delay=0.1), "interpolate"),
        (lambda: Lidar(link="base", pattern="grid"), "pattern"),
        (lambda: DepthCamera(link="base", fov=60, intrinsics=(1, 1, 1, 1)), "not both"),
    ],
)
def test_bad_options_say_what_is_wrong(make, words):
    with pytest.raises(OptionError, match=words):
        make()


def test_unknown_links_say_what_there_is():
    for options in (Lidar(link="bse"), Lidar(link="base", exclude="wallx")):
        scene = room()
        scene.add_sensor(options)
        with pytest.raises(NameNotFoundError, match="did you mean"):
            scene.build()


# -- geometry ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quat", [(1, 0, 0, 0), TURNED])
def test_every_range_in_a_room(quat):
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
    about = [matrix((math.cos(roll), math.sin(roll), 0, 0)), matrix((math.cos(pitch), 0, math.sin(pitch), 0))]
    turn = base @ matrix((math.cos(yaw), 0, 0, math.sin(yaw))) @ about[1] @ about[0]
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
        # walls: which one, its normal, and how it shines
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
        shine = np.abs((inward * directions).sum(axis=1)) * np.mean([0.6, 0.65, 0.7])
        np.testing.assert_allclose(own.intensity[env].flatten().numpy()[clear], shine[clear], atol=1e-5)


def test_points_agree_with_distances_noise_and_all():
    scene = room()
    lidar = scene.add_sensor(Lidar(link="base", noise=0.05, noise_per_metre=0.02, ray_dropout=0.1))
    scene.build(n_envs=2)
    scene.step(count=3)
    reading = lidar.read()
    assert (reading.distances - lidar.read_ground_truth().distances).abs().mean() > 0.02
    torch.testing.assert_close(reading.points.norm(dim=-1), reading.distances)
    directions = torch.from_numpy(lidar.options.pattern.rays()[1]).float().reshape(16, 360, 3)
    torch.testing.assert_close(reading.points, reading.distances[..., None] * directions)


def test_fields_that_were_not_asked_for_are_none():
    scene = room()
    lidar = scene.add_sensor(Lidar(link="base", returns=("distances",)))
    scene.build(n_envs=2)
    reading = lidar.read()
    assert reading._fields == ("distances",)
    assert reading.points is None
    assert reading.intensity is None
    assert lidar.read(envs=[1]).distances.shape == (1, 16, 360)
    assert sum(tensor.shape[0] for tensor in (lidar.group.truth, lidar.group.snapshot)) == 2 * 16 * 360


def test_a_moving_wall_is_seen_where_it_is():
    scene = sn.Scene(dt=0.01, substeps=5, gravity=(0, 0, 0))
    scene.add_object(sn.Box(size=(0.2, 4, 4)), name="wall", pos=(3, 0, 0), free=True)
    scene.add_object(sn.Sphere(radius=0.1), name="base", free=True)
    beam = scene.add_sensor(Raycaster(link="base", pattern=ArrayPattern(directions=(1, 0, 0))))
    scene.build(n_envs=5)
    velocity = scene.world.bind("qvel")
    speeds = torch.tensor([0.0, 1.0, -2.0, 0.5, 3.0])
    velocity[:, 0] = speeds.double()
    velocity[:, 6] = -0.3  # and the sensor moves away
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
    # towards the ball's left rim, inside and outside; at the ground beside it, within range and beyond; into the sky
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
        for got in (truth, reading):  # noise and bias leave misses alone
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


def test_what_is_too_near_blocks_the_ray():
    scene = room()
    scene.add_object(sn.Box(size=(0.1, 1, 1), collide=False), name="screen", pos=(0.5, 0, 0))
    options = {"link": "base", "pattern": ArrayPattern(directions=[(1, 0, 0), (-1, 0, 0)]), "max_range": 20.0}
    blind = scene.add_sensor(Raycaster(min_range=0.6, **options))
    seeing = scene.add_sensor(Raycaster(min_range=0.4, **options))
    scene.build()
    assert blind.read().distances[0].tolist() == [20.0, 3.0]
    assert seeing.read().distances[0].tolist() == pytest.approx([0.45, 3.0])


def test_noise_does_not_lead_out_of_the_range():
    scene = room()
    beam = scene.add_sensor(
        Raycaster(link="base", pattern=ArrayPattern(directions=(1, 0, 0)), min_range=2.9, max_range=3.1, noise=1.0)
    )
    scene.build(n_envs=64)
    scene.step()
    distances = beam.read().distances
    assert distances.min() == np.float32(2.9)
    assert distances.max() == np.float32(3.1)


def test_alignment():
    """Rolled and turned, at a pose off the link's origin: what each alignment keeps of it."""
    heading = 0.7
    c, s = math.cos(heading / 2), math.sin(heading / 2)
    quat = np.array([c * ROLLED[0], c * ROLLED[1], s * ROLLED[1], s * ROLLED[0]])  # rolled, then turned about z
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


def test_height_scan_sees_steps():
    scene = sn.Scene(dt=0.01, gravity=(0, 0, 0))
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(1, 4, 0.2)), pos=(0.75, 0, 0.1))  # from x = 0.25 on, 0.2 m high
    scene.add_object(sn.Box(size=(0.1, 0.1, 0.1)), name="base", pos=(0, 0, 0.6), free=True)
    pattern = GridPattern(size=(1.6, 1.0), resolution=0.1)
    scan = scene.add_sensor(Raycaster(link="base", alignment="yaw", pattern=pattern))
    scene.build()
    expected = torch.full((17, 11), 0.6)
    expected[11:] = 0.4  # rows go forward: row 11 is at x = 0.3
    torch.testing.assert_close(scan.read().distances[0], expected)
    place(scene, quat=(math.cos(math.pi / 4), 0, 0, math.sin(math.pi / 4)))  # now y is ahead, and the step on the right
    expected = torch.full((17, 11), 0.6)
    expected[:, :3] = 0.4  # columns go to the left: column 2 is at y = -0.3, which is x = 0.3 in the world
    torch.testing.assert_close(scan.read().distances[0], expected)


# -- what is not seen --------------------------------------------------------------------------------------------------

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
def test_exclusions_of_nested_bodies(options, expected):
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
    np.testing.assert_allclose(other.read().distances, np.full((3, 2), 0.6), atol=1e-5)  # each sensor has its own
    if expected == 3.0:  # the far hit, not the near one, is described
        body = scene.world.model.body("wallx+").id
        assert lidar.read().body_ids[:, 0].tolist() == [body] * 3
        np.testing.assert_allclose(lidar.read().normals[:, 0], np.tile([-1.0, 0, 0], (3, 1)), atol=1e-6)


def test_touching_surfaces_of_excluded_bodies_and_what_lies_in_them():
    """Two excluded bodies with a common face, and a visible one whose face lies inside an excluded one."""
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


def test_a_sensor_of_the_world_sees_what_is_fixed_to_it():
    scene = room()
    scene.add_object(sn.Box(size=(9, 0.1, 9), collide=False), name="curtain", pos=(0, 1, 0))
    options = {"link": "world", "pos": (1, 0, 0.5), "pattern": ArrayPattern(directions=(0, 1, 0))}
    beam = scene.add_sensor(Raycaster(**options))
    through = scene.add_sensor(Raycaster(exclude="curtain", **options))
    scene.build()
    assert beam.read().distances.item() == pytest.approx(0.95)
    assert through.read().distances.item() == pytest.approx(2.0)


def test_only_a_world_sensor_with_an_exclusion():
    scene = room()
    beam = scene.add_sensor(Raycaster(link="world", exclude="base", pattern=ArrayPattern(directions=(0, 1, 0))))
    scene.build()
    assert beam.read().distances.item() == pytest.approx(2.0)


# -- beams -------------------------------------------------------------------------------------------------------------


def test_a_diverging_beam_sees_the_nearest_surface_in_its_cone():
    scene = sn.Scene(dt=0.01, gravity=(0, 0, 0))
    scene.add_object(sn.Box(size=(0.2, 10, 10), collide=False), pos=(4.1, 0, 0))
    scene.add_object(sn.Box(size=(0.2, 1, 1), collide=False), pos=(2.1, 0.54, 0))  # its edge is at y = 0.04
    scene.add_object(sn.Sphere(radius=0.1), name="base", free=True)
    half = math.atan2(0.05, 2.0)
    beam = {"link": "base", "pattern": ArrayPattern(directions=(1, 0, 0))}
    sharp = scene.add_sensor(Raycaster(**beam))
    wide = scene.add_sensor(Raycaster(divergence=2 * half, **beam))
    narrow = scene.add_sensor(Raycaster(divergence=half, **beam))
    scene.build()
    assert sharp.read().distances.item() == pytest.approx(4.0)
    assert narrow.read().distances.item() == pytest.approx(4.0)
    assert wide.read().distances.item() == pytest.approx(2.0 / math.cos(half), abs=1e-5)


def test_noise_grows_with_range():
    """In a long room: the standard deviation is noise + noise_per_metre x distance, one draw for both."""
    scene = room(walls=False)
    for i in range(1, 5):
        scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), collide=False), pos=(5.0 * i + 0.1, i, 0))
    pattern = ArrayPattern(origins=[(0, i, 0) for i in range(1, 5)], directions=(1, 0, 0))
    options = {"link": "base", "pattern": pattern, "uuid": "lidar"}
    lidar = scene.add_sensor(Raycaster(noise=0.02, noise_per_metre=0.01, **options))
    scene.build(n_envs=500, seed=3)
    samples = []
    for _ in range(40):
        scene.step()
        samples.append((lidar.read().distances - lidar.read_ground_truth().distances).clone())
    errors = torch.stack(samples).flatten(0, 1)
    distances = np.array([5.0, 10.0, 15.0, 20.0])
    np.testing.assert_allclose(lidar.read_ground_truth().distances[0], distances, atol=1e-5)
    deviation = errors.std(dim=0).numpy()
    np.testing.assert_allclose(deviation, 0.02 + 0.01 * distances, rtol=5 / math.sqrt(2 * len(errors)))
    np.testing.assert_allclose(errors.mean(dim=0), 0, atol=5 * 0.22 / math.sqrt(len(errors)))
    correlation = np.corrcoef(errors.numpy(), rowvar=False) - np.eye(4)
    assert np.abs(correlation).max() < 5 / math.sqrt(len(errors))  # every ray draws for itself


def test_lost_returns():
    scene = room()
    lidar = scene.add_sensor(
        Lidar(link="base", pattern=RingPattern(n_points=100), max_range=50.0, ray_dropout=0.2, returns=ALL)
    )
    scene.build(n_envs=50, seed=1)
    lost = []
    for _ in range(10):
        scene.step()
        reading = lidar.read()
        gone = reading.distances == 50.0
        assert same(gone, reading.body_ids == -1)
        assert same(gone, reading.intensity == 0)
        assert same(reading.distances[~gone], lidar.read_ground_truth().distances[~gone])
        lost.append(gone.clone())
    lost = torch.stack(lost).double()  # (steps, envs, rays)
    spread = math.sqrt(0.2 * 0.8)
    assert lost.mean().item() == pytest.approx(0.2, abs=5 * spread / math.sqrt(lost.numel()))
    for axes, count in (((0, 1), 500), ((1, 2), 5000), ((0, 2), 1000)):  # no ray, step or env is special
        np.testing.assert_allclose(lost.mean(dim=axes), 0.2, atol=5.5 * spread / math.sqrt(count))
    lidar.set(ray_dropout=1.0, envs=[7])
    scene.step()
    assert (lidar.read().distances[7] == 50.0).all()
    with pytest.raises(OptionError, match="ray_dropout"):
        lidar.set(ray_dropout=1.5)


# -- scanning ----------------------------------------------------------------------------------------------------------


def scanning_scene(n_envs=2, **options):
    """A wall of 2.9 m that comes along -x, seen by a fan of 20 rays that turns once in 0.1 s: two columns a step."""
    scene = sn.Scene(dt=0.01, substeps=2, gravity=(0, 0, 0))
    scene.add_object(sn.Box(size=(0.2, 40, 40)), name="wall", pos=(3.1, 0, 0), free=True)
    scene.add_object(sn.Sphere(radius=0.1), name="base", free=True)
    pattern = SphericalPattern(fov=(60, 10), n_points=(20, 3))
    lidar = scene.add_sensor(Lidar(link="base", pattern=pattern, scan_rate=10.0, uuid="lidar", **options))
    scene.build(n_envs=n_envs, seed=2)
    return scene, lidar, pattern.rays()[1].reshape(3, 20, 3)


def test_scanning_shears_what_moves():
    scene, lidar, directions = scanning_scene()
    speed = torch.tensor([2.0, -1.0]).double()
    scene.world.bind("qvel")[:, 0] = speed
    for step in range(1, 36):
        scene.step()
        # column c was taken last in the newest step whose time 0.01 * k is at or after a time (m + c / 20) * 0.1
        fired = [
            max([0, *(math.ceil(2 * (j * 20 + c) / 4) for j in range(5) if 2 * step >= j * 20 + c > 0)])
            for c in range(20)
        ]
        where = 3.0 + speed[:, None] * 0.01 * torch.tensor(fired)
        expected = where[:, None, :].numpy() / directions[None, ..., 0]
        np.testing.assert_allclose(lidar.read().distances, expected, atol=1e-5)


def test_scanning_sensor_that_turns_keeps_points_where_they_were():
    """Points in the world frame are those of each ray's own time: they stay on the wall however the sensor turns."""
    scene, lidar, _ = scanning_scene(frame="world", returns=("distances", "points", "normals"))
    velocity = scene.world.bind("qvel")
    velocity[:, 11] = 3.0  # about z
    velocity[:, 7] = 0.5  # along y
    for _ in range(17):
        scene.step()
        np.testing.assert_allclose(lidar.read().points[..., 0], 3.0, atol=1e-4)
        np.testing.assert_allclose(lidar.read().normals, np.broadcast_to([-1.0, 0, 0], (2, 3, 20, 3)), atol=1e-6)
    # and the columns lie where the sensor looked: the newest is turned by the angle of now
    newest = 34 % 20
    base = scene.world.bind("xpos")[0, 2].numpy()
    turn = math.radians(-30 + 60 / 19 * newest) + 0.17 * 3.0
    expected = base[1] + (3.0 - base[0]) * math.tan(turn)
    np.testing.assert_allclose(lidar.read().points[0, 1, newest, 1], expected, atol=1e-3)


def test_scanning_holds_noise_and_lost_returns_too():
    scene, lidar, _ = scanning_scene(noise=0.1, ray_dropout=0.2)
    before = lidar.read().distances.clone()
    for step in range(1, 31):
        scene.step()
        now = lidar.read().distances.clone()
        changed = (now != before).any(dim=1)
        fired = [(2 * step - 1) % 20, 2 * step % 20]
        assert changed[:, fired].all()
        changed[:, fired] = False
        assert not changed.any()
        before = now


def test_reset_takes_the_whole_revolution_of_those_envs():
    scene, lidar, directions = scanning_scene(n_envs=3, noise=0.01)
    twin, undisturbed, _ = scanning_scene(n_envs=3, noise=0.01)
    for each in (scene, twin):
        each.world.bind("qvel")[:, 0] = -1.0
        each.step(count=7)
    scene.reset(envs=[1])
    exact = np.broadcast_to(3.0 / directions[..., 0], (3, 20))
    np.testing.assert_allclose(lidar.read_ground_truth().distances[1], exact, atol=1e-5)
    scene.step(count=3)  # the reset env is at 0.03 s of its own time: columns 1 to 6 are new, of a wall that rests now
    twin.step(count=3)
    np.testing.assert_allclose(lidar.read_ground_truth().distances[1], exact, atol=1e-5)
    assert same(flat(lidar.read())[[0, 2]], flat(undisturbed.read())[[0, 2]])
    assert not same(flat(lidar.read())[1], flat(undisturbed.read())[1])


def test_fast_scanner_takes_every_column_in_every_step():
    scene = room()
    fast = scene.add_sensor(Lidar(link="base", scan_rate=250.0, pattern=RingPattern(n_points=36)))
    plain = scene.add_sensor(Lidar(link="base", pattern=RingPattern(n_points=36)))
    scene.build()
    scene.world.bind("qvel")[:, 0] = 1.0
    for _ in range(5):
        scene.step()
        assert same(fast.read().distances, plain.read().distances)


# -- depth camera ------------------------------------------------------------------------------------------------------


def test_depth_of_a_tilted_plane():
    """z-depth of the plane n·p = c along the pixel's ray (1, y, z): c / (n·(1, y, z))."""
    tilt = 0.5
    scene = sn.Scene(dt=0.01, gravity=(0, 0, 0))
    turn = -math.pi / 2 + tilt  # the plane's normal is z, turned about y: towards the camera, and upwards
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


# -- engine ------------------------------------------------------------------------------------------------------------


def test_large_batches_are_cast_in_parts_with_the_same_result(monkeypatch):
    from sensorium.sensors.rays import casting as ray_casting

    def run():
        scene = room()
        lidar = scene.add_sensor(Lidar(link="base", pattern=RingPattern(n_points=50), exclude="wallx+", noise=0.1))
        scene.build(n_envs=37)
        scene.world.bind("qvel")[:, 0] = torch.linspace(-1, 1, 37).double()
        scene.step(count=4)
        scene.reset(envs=[3, 30, 36])
        scene.step()
        return flat(lidar.read())

    whole = run()
    monkeypatch.setattr(ray_casting, "_CHUNK", 100)
    monkeypatch.setattr(ray_casting, "_LEAST_ENVS", 5)
    assert same(run(), whole)
    monkeypatch.undo()
    monkeypatch.setattr(ray_casting, "_LEAST_RAYS", 1)  # and by several threads
    assert same(run(), whole)


def test_an_env_that_failed_leaves_the_others_alone():
    def run(fails):
        scene = room()
        lidar = scene.add_sensor(Lidar(link="base", pattern=RingPattern(n_points=8), noise=0.1))
        scene.build(n_envs=3)
        scene.world.bind("qvel")[:, 0] = 1.0
        if fails:
            scene.world.bind("qvel")[1] = math.nan
            with pytest.raises(sn.DivergenceError):
                scene.step()
        else:
            scene.step()
        scene.step()
        return scene, lidar

    (scene, lidar), (_, healthy) = run(True), run(False)
    assert same(flat(lidar.read())[[0, 2]], flat(healthy.read())[[0, 2]])
    scene.reset(envs=[1])
    np.testing.assert_allclose(lidar.read_ground_truth().distances[1, ::2], [3, 2, 3, 2], atol=1e-5)


class Falling:
    def make_scene(self):
        scene = drop_scene()
        scene.add_object(sn.Box(size=(0.1, 0.4, 0.4), mass=1.0), name="door", pos=(0.4, 0, 0.3), free=True)
        return scene


class TestRaycaster(Falling, SensorContract):
    imperfections: ClassVar = {"noise": 0.05, "noise_per_metre": 0.02, "random_walk": 0.1, "ray_dropout": 0.1}

    def make_options(self, **options):
        pattern = GridPattern(size=(0.6, 0.4), resolution=0.2)
        return Raycaster(
            link="box", pos=(0, 0, 1.0), alignment="yaw", pattern=pattern, frame="world", returns=ALL, **options
        )


class TestLidar(Falling, SensorContract):
    imperfections: ClassVar = {"noise": 0.05, "bias": 0.02, "resolution": 0.01, "ray_dropout": 0.3}

    def make_options(self, **options):
        pattern = SphericalPattern(n_points=(12, 3))
        return Lidar(link="box", max_range=5.0, divergence=0.01, pattern=pattern, returns=ALL, **options)


class TestScanningLidar(Falling, SensorContract):
    imperfections: ClassVar = {"noise": 0.05, "noise_per_metre": 0.02, "ray_dropout": 0.3}

    def make_options(self, **options):
        pattern = SphericalPattern(n_points=(12, 3))
        return Lidar(
            link="box", max_range=5.0, scan_rate=15.0, pattern=pattern, exclude_self=True, frame="world", **options
        )

    def test_set_changes_only_the_given_envs(self):
        """What was scanned before keeps the noise that it had then, so compare from one revolution on."""
        scene, sensor = self.start()
        sensor.set(envs=[1], **self.imperfections)
        changed = self.run(scene, sensor)
        clean, imperfect = self.run(*self.start()), self.run(*self.start(**self.imperfections))
        for step in range(8, self.steps):
            assert same(changed[step][[0, 2]], clean[step][[0, 2]])
            assert same(changed[step][1], imperfect[step][1])


class TestDepthCamera(Falling, SensorContract):
    imperfections: ClassVar = {"noise": 0.05, "noise_per_metre": 0.02, "resolution": 0.01}

    def make_options(self, **options):
        return DepthCamera(link="box", width=6, height=4, exclude=("plane",), max_range=3.0, **options)
