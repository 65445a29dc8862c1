"""Patterns of rays, and options of ray-casting sensors."""

import numpy as np
import pytest
import torch
from ray_scenes import room

from sensorium.errors import NameNotFoundError, OptionError
from sensorium.sensors.rays.depth_camera import DepthCamera
from sensorium.sensors.rays.patterns import ArrayPattern, GridPattern, PinholePattern, RingPattern, SphericalPattern
from sensorium.sensors.rays.raycaster import Lidar


def test_full_circle_has_no_duplicate_column():
    for pattern in (SphericalPattern(n_points=(360, 3)), SphericalPattern(resolution=(1.0, 15.0)), RingPattern()):
        _, directions = pattern.rays()
        row = directions.reshape(-1, 360, 3)[0]
        azimuth = np.arctan2(row[:, 1], row[:, 0])
        steps = np.diff(np.append(azimuth, azimuth[0])) % (2 * np.pi)
        np.testing.assert_allclose(steps, 2 * np.pi / 360, atol=1e-12)  # including the step from the last to the first


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


def test_grid_pattern_is_centred():
    pattern = GridPattern(size=(1.6, 1.0), resolution=0.1, direction=(0, 0, -2))
    assert pattern.shape == (17, 11)
    origins, directions = pattern.rays()
    origins = origins.reshape(17, 11, 3)
    np.testing.assert_allclose(origins[0, 0], (-0.8, -0.5, 0), atol=1e-12)
    np.testing.assert_allclose(origins[16, 3], (0.8, -0.2, 0), atol=1e-12)
    np.testing.assert_array_equal(directions, np.tile([0, 0, -1.0], (187, 1)))
    assert GridPattern(size=(0.35, 0), resolution=0.1).shape == (4, 1)


def test_pinhole_rays_pass_through_pixel_centres():
    for pattern in (
        PinholePattern(width=4, height=2, fov=90),
        PinholePattern(width=4, height=2, intrinsics=(2.0, 2.0, 2.0, 1.0)),
    ):
        x, y, z = pattern.rays()[1].T.reshape(3, 2, 4)
        np.testing.assert_allclose(y / x, np.tile([0.75, 0.25, -0.25, -0.75], (2, 1)), atol=1e-12)
        np.testing.assert_allclose(z / x, np.tile([[0.25], [-0.25]], (1, 4)), atol=1e-12)


def test_array_pattern_broadcasts_and_normalises():
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
        (lambda: PinholePattern(width=4, height=4, fov=60, intrinsics=(1, 1, 1, 1)), "set only one of them"),
        (lambda: ArrayPattern(directions=np.zeros((3, 2))), r"\(\.\.\., 3\)"),
        (lambda: ArrayPattern(directions=[[0, 0, 0]]), "zero"),
        (lambda: ArrayPattern(origins=np.zeros((4, 3)), directions=np.ones((3, 3))), "broadcast"),
        (lambda: ArrayPattern(directions=["up"]), "numbers"),
        (lambda: Lidar(link="base", returns=("points",)), "distances"),
        (lambda: Lidar(link="base", min_range=3, max_range=2), "min_range"),
        (lambda: Lidar(link="base", max_range=20, no_hit=5.0), "no_hit"),
        (lambda: Lidar(link="base", interpolate=True, delay=0.1), "interpolate"),
        (lambda: Lidar(link="base", pattern="grid"), "pattern"),
        (lambda: DepthCamera(link="base", fov=60, intrinsics=(1, 1, 1, 1)), "set only one of them"),
    ],
)
def test_wrong_options_are_rejected(make, words):
    with pytest.raises(OptionError, match=words):
        make()


def test_unknown_links_suggest_a_name():
    for options in (Lidar(link="bse"), Lidar(link="base", exclude="wallx")):
        scene = room()
        scene.add_sensor(options)
        with pytest.raises(NameNotFoundError, match="did you mean"):
            scene.build()
