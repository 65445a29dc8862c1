"""Power, detection and echoes of lidars against closed forms: tilted plates, fog, threshold ranges, split beams."""

import math

import numpy as np
import pytest
import torch
from ray_scenes import room

import sensorium as sn
from sensorium.errors import NameNotFoundError, OptionError

GREY = 0.4
POWER = ("distances", "points", "body_ids", "intensity")


def plates(distances, tilts, lidars, n_envs=1, **looks):
    """Return a built scene with a lidar's beam i along x at y = 10 i, on a plate at a distance, tilted about z."""
    scene = sn.Scene(dt=0.01, gravity=(0, 0, 0))
    for i, (distance, tilt) in enumerate(zip(distances, tilts, strict=True)):
        behind = 0.01 * math.cos(tilt), 0.01 * math.sin(tilt)  # the centre lies behind the face
        shape = sn.Box(size=(0.02, 4, 4), rgba=(GREY, GREY, GREY, 1), collide=False, **looks)
        place = (distance + behind[0], 10.0 * i + behind[1], 0)
        scene.add_object(shape, name=f"plate{i}", pos=place, euler=(0, 0, tilt))
    scene.add_object(sn.Sphere(radius=0.05), name="base", free=True)
    pattern = sn.ArrayPattern(origins=[(0, 10.0 * i, 0) for i in range(len(distances))], directions=(1, 0, 0))
    common = {"link": "base", "pattern": pattern, "max_range": 500.0, "returns": POWER}
    sensors = [scene.add_sensor(sn.Lidar(**common | options)) for options in lidars]
    scene.build(n_envs=n_envs)
    return scene, sensors


def intensity(sensor, env=0):
    """Return the intensities of a lidar's reading, which ground truth shares."""
    assert torch.equal(sensor.read().intensity, sensor.read_ground_truth().intensity)
    return sensor.read().intensity[env].double().numpy()


def test_power_of_a_tilted_lambert_plate():
    """It is ρ cos θ / r², and less near the lens: times 1 - exp(-(r / r0)²)."""
    r, tilt = np.array([0.5, 1.0, 2.0, 5.0, 20.0, 20.0]), np.array([0.0, 0.3, -0.6, 1.0, 1.3, 0.0])
    near = {"near_range": 1.5}
    _, sensors = plates(r, tilt, [{}, {"echoes": ("first",)}, near, near | {"echoes": ("strongest",)}])
    expected = GREY * np.cos(tilt) / r**2
    for sensor in sensors[:2]:
        np.testing.assert_allclose(intensity(sensor), expected, rtol=1e-5)
        np.testing.assert_allclose(sensor.read().distances[0], r, rtol=1e-5)
    for sensor in sensors[2:]:
        np.testing.assert_allclose(intensity(sensor), expected * (1 - np.exp(-((r / 1.5) ** 2))), rtol=1e-5)


def test_power_at_the_lens_is_bounded():
    """The limit of η(r) / r² is 1 / r0²."""
    _, (sensor, echo) = plates([0.06, 0.2], [0, 0], [{"near_range": 10.0}, {"near_range": 10.0, "echoes": ("last",)}])
    for each in (sensor, echo):
        np.testing.assert_allclose(intensity(each), GREY / 100, rtol=1e-3)


def test_a_diverging_beam_has_the_power_of_its_centre():
    """Over a plate that it hits completely, the power does not depend on how many rays the beam has."""
    for rays in (4, 16, 64):
        beam = {"divergence": 5e-3, "echoes": ("first",), "rays_per_beam": rays}
        _, (sensor,) = plates([5.0, 20.0, 40.0], [0.0, 0.5, -1.0], [beam])
        expected = GREY * np.cos([0.0, 0.5, -1.0]) / np.square([5.0, 20.0, 40.0])
        np.testing.assert_allclose(intensity(sensor), expected, rtol=4e-3)
        np.testing.assert_allclose(sensor.read().distances[0], [5.0, 20.0, 40.0], rtol=2e-3)


def test_fog_and_rain_fade_along_the_path():
    """Power falls with exp(-2 α r), for an α per env."""
    r = np.array([5.0, 30.0, 60.0, 120.0])
    fog, rain = sn.units.from_visibility(150.0), sn.units.from_rain_rate(50.0)
    scene, (sensor,) = plates(r, np.zeros(4), [{"extinction": fog}], n_envs=3)
    sensor.set(extinction=rain, envs=[1])
    sensor.set(extinction=0.0, envs=[2])
    scene.step()
    for env, alpha in enumerate((fog, rain, 0.0)):
        np.testing.assert_allclose(intensity(sensor, env), GREY / r**2 * np.exp(-2 * alpha * r), rtol=1e-5)
    assert math.exp(-fog * 150.0) == pytest.approx(0.05)  # the definition of visibility
    assert 10 * math.log10(math.exp(rain * 1000)) == pytest.approx(1.076 * 50**0.67)  # dB per km


@pytest.mark.parametrize("alpha", [0.0, 0.01])
def test_threshold_range(alpha):
    """Targets are seen up to the range at which ρ cos θ exp(-2 α r) / r² is the threshold."""
    threshold = 0.1 / 80.0**2
    ranges = []
    for strength in (GREY, GREY * math.cos(1.2)):
        low, high = 1.0, 400.0
        for _ in range(60):
            r = (low + high) / 2
            low, high = (r, high) if strength * math.exp(-2 * alpha * r) / r**2 > threshold else (low, r)
        ranges.append(low)
    if alpha == 0:
        np.testing.assert_allclose(ranges, [160.0, 160.0 * math.sqrt(math.cos(1.2))], rtol=1e-9)
    distances = [ranges[0] * 0.999, ranges[0] * 1.001, ranges[1] * 0.999, ranges[1] * 1.001]
    options = {"threshold": threshold, "extinction": alpha, "no_hit": -1.0}
    _, (sensor, dark) = plates(distances, [0, 0, 1.2, 1.2], [options, options | {"reflectivity": {"plate0": 0.05}}])
    for reading in (sensor.read(), sensor.read_ground_truth()):
        assert (reading.distances[0] > 0).tolist() == [True, False, True, False]
        assert reading.intensity[0, [1, 3]].tolist() == [0, 0]
        assert reading.body_ids[0, [1, 3]].tolist() == [-1, -1]
        assert reading.points[0, [1, 3]].isnan().all()
    assert (dark.read().distances[0] > 0).tolist() == [False, False, True, False]


def test_threshold_per_env():
    scene, (sensor, ideal) = plates([10.0, 20.0, 40.0], [0, 0, 0], [{"echoes": ("first",)}, {}], n_envs=3)
    assert (sensor.read().distances < 500).all()
    sensor.set(threshold=[GREY / 15.0**2, 0.0, GREY / 30.0**2], envs=[0, 1, 2])
    scene.step()
    assert (sensor.read().distances < 500).sum(dim=1).tolist() == [1, 3, 2]
    with pytest.raises(OptionError, match="echoes"):
        ideal.set(threshold=0.1)
    with pytest.raises(OptionError, match="extinction"):
        sensor.set(extinction=-0.1)


def test_retro_reflectors():
    """A sheet of gain g adds g cos⁴ θ to the diffuse reflection."""
    tilt = np.array([0.0, 0.5, 1.0])
    options = {"reflectivity": {"plate0": 0.1, "plate1": 0.1, "plate2": 0.1}}
    options["retro_reflectors"] = {"plate0": 785.0, "plate1": 785.0}
    _, sensors = plates([50.0] * 3, tilt, [options, options | {"echoes": ("last",)}])
    gain = np.array([785.0, 785.0, 0.0])
    for sensor in sensors:
        expected = (0.1 * np.cos(tilt) + gain * np.cos(tilt) ** 4) / 50.0**2
        np.testing.assert_allclose(intensity(sensor), expected, rtol=1e-4)


# -- echoes ------------------------------------------------------------------------------------------------------------


def split(gap=5.0, edge=0.0, **options):
    """Return the reading of a beam of 20 mrad that a screen at 5 m covers from y = ``edge`` on, with a wall behind."""
    scene = sn.Scene(dt=0.01, gravity=(0, 0, 0))
    grey = {"rgba": (GREY, GREY, GREY, 1), "collide": False}
    scene.add_object(sn.Box(size=(0.02, 2, 2), **grey), name="screen", pos=(5.01, 1 + edge, 0))
    scene.add_object(sn.Box(size=(0.2, 9, 9), **grey), name="wall", pos=(5.1 + gap, 0, 0))
    scene.add_object(sn.Sphere(radius=0.05), name="base", free=True)
    pattern = sn.ArrayPattern(directions=[(1, 0, 0)])
    beam = {"link": "base", "pattern": pattern, "divergence": 0.02, "rays_per_beam": 64, "no_hit": -1.0}
    lidar = scene.add_sensor(sn.Lidar(**beam | {"returns": POWER} | options))
    scene.build()
    names = [scene.model.body(i).name for i in range(scene.model.nbody)]
    reading = lidar.read_ground_truth()
    bodies = [names[int(i)] if i >= 0 else None for i in reading.body_ids[0].flatten()]
    return reading.distances[0].flatten().numpy(), reading.intensity[0].flatten().numpy(), bodies, reading


def test_a_split_beam_has_two_echoes():
    """Half of the power comes from the screen, half from the wall; each echo is a point on the beam's axis."""
    distances, powers, bodies, reading = split(echoes=("first", "second", "last", "strongest"))
    assert tuple(reading.distances.shape) == (1, 4, 1)
    assert tuple(reading.points.shape) == (1, 4, 1, 3)
    np.testing.assert_allclose(distances, [5, 10, 10, 5], atol=1e-3)
    near, far = 0.5 * GREY / 25, 0.5 * GREY / 100
    np.testing.assert_allclose(powers, [near, far, far, near], rtol=0.05)
    assert bodies == ["screen", "wall", "wall", "screen"]
    np.testing.assert_allclose(reading.points[0, :, 0], distances[:, None] * [[1, 0, 0]], atol=1e-6)


def test_share_of_the_footprint():
    """The area of a disc on one side of a chord, at ±half of its radius."""
    chord = math.acos(0.5) / math.pi - 0.5 * math.sqrt(0.75) / math.pi  # the smaller part
    for edge, share in ((0.025, chord), (-0.025, 1 - chord)):
        _, powers, _, _ = split(edge=edge, echoes=("first", "last"), rays_per_beam=400)
        np.testing.assert_allclose(powers * [25, 100] / GREY, [share, 1 - share], atol=0.01)


def test_the_strongest_echo_depends_on_reflectivity():
    distances, _, bodies, _ = split(echoes=("strongest",), reflectivity={"screen": 0.05})
    assert (bodies, pytest.approx(10.0, abs=1e-3)) == (["wall"], distances[0])


def test_echoes_below_the_threshold_do_not_count():
    weak = 0.3 * GREY / 25  # of the wall's echo it is 1.2 times the power, of the screen's 0.6
    distances, powers, bodies, _ = split(echoes=("first", "second", "last"), threshold=weak)
    assert bodies == ["screen", None, "screen"]
    assert distances[1] == -1
    assert powers[1] == 0
    distances, _, bodies, _ = split(
        echoes=("first", "second", "last"), threshold=0.1 * GREY / 25, reflectivity={"screen": 0.05}
    )
    assert bodies == ["wall", None, "wall"]


def test_surfaces_closer_than_the_pulse_are_one_echo():
    """Their echo lies at the mean, weighted by power, which is that of a ramp between them."""
    both = {"echoes": ("first", "second"), "echo_separation": 0.5}
    distances, powers, _, _ = split(gap=0.4, **both)
    shares = np.array([1 / 25, 1 / 5.4**2])
    assert distances[0] == pytest.approx((shares * [5.0, 5.4]).sum() / shares.sum(), abs=0.01)
    assert powers[0] == pytest.approx(GREY * shares.mean(), rel=0.02)
    assert (distances[1], powers[1]) == (-1, 0)
    distances, _, _, _ = split(gap=0.6, **both)
    np.testing.assert_allclose(distances, [5.0, 5.6], atol=1e-3)


def test_surface_in_front_of_min_range_blocks_its_part_of_the_beam():
    distances, powers, _, _ = split(echoes=("first", "second"), min_range=6.0)
    np.testing.assert_allclose(distances, [10.0, -1.0], atol=1e-3)
    assert powers[0] == pytest.approx(0.5 * GREY / 100, rel=0.05)


# -- surfaces and options ----------------------------------------------------------------------------------------------

ROBOT = """
<mujoco model="robot"><worldbody>
  <body name="torso" pos="0 3 0"><geom name="shell" type="box" size=".2 .2 .2"/>
    <geom name="lamp" type="box" size=".2 .2 .2" pos="0 -2 0"/>
    <body name="head" pos="0 -4 0"><geom type="box" size=".2 .2 .2"/></body></body>
</worldbody></mujoco>
"""


def test_reflectivity_of_entities_links_and_geoms():
    """The narrower name wins, whatever the order."""
    scene = sn.Scene(dt=0.01, gravity=(0, 0, 0))
    scene.add_robot(ROBOT, name="robot", pos=(2.2, 0, 0))
    scene.add_object(sn.Sphere(radius=0.05), name="base", free=True)
    pattern = sn.ArrayPattern(origins=[(0, 3, 0), (0, 1, 0), (0, -1, 0)], directions=(1, 0, 0))
    options = {"link": "base", "pattern": pattern, "returns": POWER}
    given = {"lamp": 0.9, "torso": 0.3, "robot": 0.1}
    sensors = [scene.add_sensor(sn.Lidar(reflectivity=each, **options)) for each in (given, {"robot/head": 0.2}, {})]
    scene.build()
    for sensor, expected in zip(sensors, ([0.3, 0.9, 0.1], [0.5, 0.5, 0.2], [0.5, 0.5, 0.5]), strict=True):
        np.testing.assert_allclose(intensity(sensor) * 4, expected, rtol=1e-5)


def test_unknown_surfaces_suggest_a_name():
    for options in ({"reflectivity": {"wallx": 0.5}}, {"retro_reflectors": {"bases": 5.0}}):
        scene = room()
        scene.add_sensor(sn.Lidar(link="base", **options))
        with pytest.raises(NameNotFoundError, match="did you mean"):
            scene.build()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"echoes": ("first", "last")}, "divergence"),
        ({"echoes": ()}, "at least one"),
        ({"echoes": ("last", "last"), "divergence": 0.01}, "at most once"),
        ({"echoes": ("third",)}, "must be 'first', 'second', 'last', 'strongest'"),
        ({"threshold": -1.0}, "threshold must be >= 0"),
        ({"reflectivity": {"wall": 1.5}}, "retro_reflectors"),
        ({"retro_reflectors": {"wall": -1.0}}, ">= 0"),
        ({"rays_per_beam": 2}, "rays_per_beam"),
    ],
)
def test_wrong_receiver_options_are_rejected(options, words):
    with pytest.raises(OptionError, match=words):
        sn.Lidar(link="base", **options)
