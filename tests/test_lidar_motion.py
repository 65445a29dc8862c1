"""Patterns that do not repeat, and time stamps of rays."""

import math

import numpy as np
import pytest
from ray_scenes import room, scanning_scene, to_walls

import sensorium as sn
from sensorium.errors import OptionError

ROSETTE = sn.RosettePattern(n_points=60, point_rate=6000.0, repeat_after=7)
WEAVE = sn.WeavePattern(n_points=40, point_rate=4000.0, repeat_after=5)


def angles(directions):
    """Return azimuth and elevation in degrees."""
    return np.degrees(np.arctan2(directions[..., 1], directions[..., 0])), np.degrees(np.arcsin(directions[..., 2]))


# -- the patterns themselves -------------------------------------------------------------------------------------------


def test_rosette_adds_the_deflections_of_two_prisms():
    pattern = sn.RosettePattern(n_points=500, point_rate=100_000.0, fov=20.0, rates=(100.0, -70.0))
    times = (3 * 500 + np.arange(500)) / 100_000.0
    deflection = sum(5.0 * np.exp(2j * np.pi * rate * times) for rate in (100.0, -70.0))
    origins, directions = pattern.frame_rays(3)
    assert not origins.any()
    np.testing.assert_allclose(np.degrees(np.arccos(directions[:, 0])), np.abs(deflection), atol=1e-6)
    np.testing.assert_allclose(np.arctan2(directions[:, 2], directions[:, 1]), np.angle(deflection), atol=1e-6)


def test_rosette_fills_its_field_of_view_over_time():
    """A Mid-40 covers 20 % of the cells of its field in 0.1 s and almost all in seconds, and never leaves the cone."""
    pattern = sn.RosettePattern()
    directions = np.stack([pattern.frame_rays(frame)[1] for frame in range(30)])
    assert np.degrees(np.arccos(directions[..., 0])).max() <= 19.2 + 1e-6
    places = np.floor(np.stack(angles(directions), axis=-1) / 0.2).astype(int)
    in_field = math.pi * (19.2 / 0.2) ** 2
    seen, share = set(), []
    for frame in places:
        seen |= set(map(tuple, frame))
        share.append(len(seen) / in_field)
    assert share[0] < 0.3
    assert share[9] > 2.5 * share[0]
    assert share[29] > 0.9


def test_weave_stays_between_its_elevations_and_turns_evenly():
    azimuth, elevation = angles(sn.WeavePattern(n_points=5000).rays()[1])
    assert elevation.min() == pytest.approx(-7.0, abs=0.6)
    assert elevation.max() == pytest.approx(52.0, abs=0.6)
    np.testing.assert_allclose(np.diff(np.unwrap(azimuth, period=360)), 360 * 10.1 / 200_000, rtol=1e-6)
    assert np.histogram(elevation, bins=8)[0].std() < 0.05 * 5000 / 8


# -- readings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", ["sensor", "world"])
@pytest.mark.parametrize("pattern", [ROSETTE, WEAVE])
def test_every_reading_has_the_next_rays(pattern, frame):
    """Distances and points are those of the pattern's frame of the step; a reset starts again with the first."""
    scene = room()
    lidar = scene.add_sensor(sn.Lidar(link="base", pattern=pattern, frame=frame))
    fixed = scene.add_sensor(sn.Lidar(link="base", pattern=sn.RingPattern(n_points=8)))
    scene.build(n_envs=2)

    def check(env, step):
        directions = pattern.frame_rays(step % pattern.n_frames)[1]
        expected = to_walls(np.zeros(3), directions)
        for reading in (lidar.read(), lidar.read_ground_truth()):
            np.testing.assert_allclose(reading.distances[env], expected, atol=1e-4)
            np.testing.assert_allclose(reading.points[env], expected[:, None] * directions, atol=1e-4)
        np.testing.assert_allclose(fixed.read().distances[env, ::2], [3, 2, 3, 2], atol=1e-5)

    check(0, 0)
    for step in range(1, 10):
        scene.step()
        check(0, step)
        check(1, step)
    scene.reset(envs=[1])
    check(0, 9)
    check(1, 0)
    scene.step()
    check(0, 10)
    check(1, 1)


def test_scanned_frames_follow_each_other():
    """60 columns in 10 steps: 6 per step. Columns of the new frame replace those of the frame before."""
    scene = room()
    lidar = scene.add_sensor(sn.Lidar(link="base", pattern=ROSETTE, scan_rate=10.0, frame="world"))
    scene.build()
    frames = np.stack([ROSETTE.frame_rays(frame)[1] for frame in range(7)])
    for step in range(1, 85):
        scene.step()
        newest = 6 * step
        cast = newest - (newest - np.arange(60)) % 60  # index along the curve of the newest ray of each column
        directions = frames[np.maximum(cast, 0) // 60 % 7, np.arange(60)]
        expected = to_walls(np.zeros(3), directions)
        np.testing.assert_allclose(lidar.read().distances[0], expected, atol=1e-4)
        np.testing.assert_allclose(lidar.read().points[0], expected[:, None] * directions, atol=1e-4)


def test_echoes_of_a_moving_pattern():
    scene = room()
    lidar = scene.add_sensor(
        sn.Lidar(link="base", pattern=ROSETTE, divergence=1e-4, echoes=("last", "first"), rays_per_beam=4)
    )
    scene.build()
    scene.step(3)
    directions = ROSETTE.frame_rays(3)[1]
    expected = to_walls(np.zeros(3), directions)
    reading = lidar.read()
    assert tuple(reading.points.shape) == (1, 2, 60, 3)
    for echo in range(2):
        np.testing.assert_allclose(reading.distances[0, echo], expected, atol=1e-3)
        np.testing.assert_allclose(reading.points[0, echo], expected[:, None] * directions, atol=1e-3)


def test_drawn_rays_of_a_moving_pattern_end_at_the_points():
    scene = room()
    lidar = scene.add_sensor(sn.Lidar(link="base", pattern=WEAVE, frame="world"))
    scene.build()
    scene.step(3)
    layout = lidar.group.backend.layout
    _, ends = layout.segments(scene.world, 0, 0, lidar._true_distances(0), lidar._true_turns(0))
    np.testing.assert_allclose(ends, lidar.read_ground_truth().points[0], atol=1e-4)


# -- time stamps -------------------------------------------------------------------------------------------------------


def test_times_of_scanned_columns():
    """Column c of 20 at 10 revolutions per second was cast at the newest (m + c / 20) / 10 s; 0 s after a reset."""
    scene, lidar, _ = scanning_scene(returns=("distances", "times"))
    assert not lidar.read().times.any()
    for step in range(1, 36):
        scene.step()
        now = 0.01 * step
        turns = np.floor(now * 10.0 - np.arange(20) / 20 + 1e-9)
        expected = np.maximum((turns + np.arange(20) / 20) / 10.0, 0.0) - now
        for reading in (lidar.read(), lidar.read_ground_truth()):
            np.testing.assert_allclose(reading.times, np.broadcast_to(expected, (2, 3, 20)), atol=1e-6)
    scene.reset(envs=[1])
    assert lidar.read().times[0].any()
    assert not lidar.read().times[1].any()


def test_times_show_when_the_wall_was_where_it_was_seen():
    """A wall that moves at v is at 3 m + v (t + times): the stamps of all points, within the step of their pose."""
    scene, lidar, directions = scanning_scene(returns=("distances", "times"))
    scene.world.bind("qvel")[:, 0] = 2.0
    scene.step(25)
    reading = lidar.read()
    wall = reading.distances[0].numpy() * directions[..., 0]
    late = wall - (3.0 + 2.0 * (0.25 + reading.times[0].numpy()))
    assert late.min() > -1e-5
    assert late.max() < 2.0 * 0.01


def test_times_without_a_scan_are_zero_and_delayed_ones_are_kept():
    scene, lidar, _ = scanning_scene(returns=("distances", "times"), delay=0.03, rate=50.0)
    plain, still, _ = scanning_scene(returns=("distances", "times"))
    for each in (scene, plain):
        each.step(30)
    assert lidar.age()[0].item() == pytest.approx(0.04)  # captured at 0.26 s, and 0.03 s on its way
    now = 0.26
    turns = np.floor(now * 10.0 - np.arange(20) / 20 + 1e-9)
    np.testing.assert_allclose(lidar.read().times[0, 0], (turns + np.arange(20) / 20) / 10.0 - now, atol=1e-6)
    room_scene = room()
    fixed = room_scene.add_sensor(sn.Lidar(link="base", returns=("distances", "times")))
    room_scene.build()
    room_scene.step()
    assert tuple(fixed.read().times.shape) == (1, 16, 360)
    assert not fixed.read().times.any()
    assert still.read().times.min() < -0.09


# -- fields of view ----------------------------------------------------------------------------------------------------


def test_asymmetric_fields_of_view():
    """(min, max) per axis, a width, or one of each; a pair of widths has the meaning that it always had."""
    across, up = angles(sn.SphericalPattern(fov=((-20, 70), (-25, 15)), n_points=(10, 5)).rays()[1].reshape(5, 10, 3))
    np.testing.assert_allclose(across, np.tile(np.arange(-20, 71, 10), (5, 1)), atol=1e-9)
    np.testing.assert_allclose(up, np.tile(np.arange(-25, 16, 10)[:, None], (1, 10)), atol=1e-9)
    mixed = sn.SphericalPattern(fov=(90, (-25, 15)), resolution=(30, 8))
    across, up = angles(mixed.rays()[1].reshape(*mixed.shape, 3))
    np.testing.assert_allclose(across[0], [-45, -15, 15, 45], atol=1e-9)
    np.testing.assert_allclose(up[:, 0], [-25, -17, -9, -1, 7, 15], atol=1e-9)
    circle = sn.SphericalPattern(fov=((0, 360), 0), n_points=(4, 1))
    np.testing.assert_allclose(circle.rays()[1][:, :2], [(1, 0), (0, 1), (-1, 0), (0, -1)], atol=1e-9)
    one = sn.SphericalPattern(fov=(10, (10, 20)), n_points=(11, 1))
    np.testing.assert_allclose(angles(one.rays()[1])[1], 15.0, atol=1e-9)
    assert sn.SphericalPattern(fov=[90, [-25, 15]]) == sn.SphericalPattern(fov=(90, (-25, 15)))
    same = sn.SphericalPattern(fov=(10, 1), n_points=(11, 1)).rays()[1]
    np.testing.assert_array_equal(same, sn.SphericalPattern(fov=((-5, 5), (-0.5, 0.5)), n_points=(11, 1)).rays()[1])


@pytest.mark.parametrize(
    "fov", [((10, -10), 5), ((0, 370), 5), (90, (-95, 0)), (90, (20, 10)), (90, 200), ((-400, -380), 5)]
)
def test_wrong_fields_of_view_are_rejected(fov):
    with pytest.raises(OptionError, match="fov must lie"):
        sn.SphericalPattern(fov=fov)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sn.RosettePattern(point_rate=0), "point_rate"),
        (lambda: sn.RosettePattern(repeat_after=0), "repeat_after"),
        (lambda: sn.WeavePattern(elevations=(20, 10)), "min < max"),
    ],
)
def test_wrong_moving_patterns_are_rejected(make, words):
    with pytest.raises(OptionError, match=words):
        make()
