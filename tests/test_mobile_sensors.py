"""Attitude, barometer, GPS, magnetometer, optical flow and wheel odometry: closed forms, tables and the contract."""

import math
from typing import ClassVar

import numpy as np
import pytest
import torch
from robot_scenes import ArmContract, DropContract, G, start

import sensorium as sn
from sensorium.sensors.robot.barometer import Barometer
from sensorium.sensors.robot.gps import GPS
from sensorium.sensors.robot.magnetometer import Magnetometer
from sensorium.sensors.robot.optical_flow import OpticalFlow
from sensorium.sensors.robot.wheel_odometry import WheelOdometry
from sensorium.testing import SensorContract

# -- barometer ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("altitude", "pressure"), [(0, 101325.0), (1000, 89874.6), (2000, 79495.2), (5000, 54019.9), (11000, 22632.1)]
)
def test_barometer_reads_the_standard_atmosphere(altitude, pressure):
    """Expected values are from the tables of ISO 2533, over geopotential height."""
    geometric = 6356766.0 * altitude / (6356766.0 - altitude)
    scene, barometer = start(Barometer(link="box", pos=(0, 0, 0.25), origin_altitude=geometric - 0.25))
    scene.step()
    assert barometer.read().pressure[0, 0].item() == pytest.approx(pressure, abs=0.1)
    assert barometer.read().altitude[0, 0].item() == pytest.approx(altitude, abs=1e-3)


@pytest.mark.parametrize(("height", "pressure"), [(1000, 89876.3), (2000, 79501.4), (5000, 54048.3), (10000, 26499.9)])
def test_barometer_uses_geopotential_height(height, pressure):
    """Expected values are from the tables of the U.S. Standard Atmosphere 1976, over geometric height."""
    scene, barometer = start(Barometer(link="box", origin_altitude=height))
    scene.step()
    assert barometer.read().pressure[0, 0].item() == pytest.approx(pressure, rel=1e-5)


def test_barometer_follows_height_and_weather():
    low = Barometer(link="box", sea_level_pressure=100325.0)
    scene, barometer = start(low, free=True)
    scene.step(100)
    height = scene["box"].get_pose()[0][0, 2].item()
    assert height == pytest.approx(-G / 2, rel=0.01)
    # 1000 Pa are 83.2 m at sea level (R T / g p: 288.15 K, 287.05 J/kg/K)
    expected = height + 1000 * 287.05 * 288.15 / (9.80665 * 100825)
    assert barometer.read().altitude[0, 0].item() == pytest.approx(expected, abs=0.3)


# -- GPS ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("latitude", "per_latitude", "per_longitude"),
    [(0.0, 110574.3, 111319.5), (45.0, 111131.7, 78846.8), (-60.0, 111412.2, 55800.0), (80.0, 111659.9, 19393.5)],
)
def test_gps_degrees_have_the_lengths_of_wgs84(latitude, per_latitude, per_longitude):
    origin = (latitude, 179.9999, 100.0)
    scene, gps = start(GPS(link="box", pos=(50.0, 100.0, 20.0), origin=origin))
    scene.step()
    reading = gps.read()
    assert (reading.latitude[0, 0].item() - latitude) * per_latitude == pytest.approx(100.0, abs=0.01)
    east = (reading.longitude[0, 0].item() - origin[1]) % 360
    assert east * per_longitude == pytest.approx(50.0, abs=0.01)
    assert reading.longitude[0, 0].item() < -179.99 or latitude == 0.0, "the position is beyond the date line"
    assert reading.altitude[0, 0].item() == pytest.approx(120.0, abs=0.001 + 100**2 / 6.3e6)
    assert reading.fix.item() == 1


def test_gps_world_is_a_tangent_plane():
    """10 km east at the equator the altitude is sqrt(a² + d²) - a; the poles are not singular."""
    _, gps = start(GPS(link="box", pos=(1e4, 0.0, 0.0)))
    assert gps.read().altitude.item() == pytest.approx(math.hypot(6378137.0, 1e4) - 6378137.0, abs=1e-6)
    assert gps.read().longitude.item() == pytest.approx(math.degrees(math.atan2(1e4, 6378137.0)), abs=1e-12)
    _, gps = start(GPS(link="box", pos=(0, 0, 7.0), origin=(90.0, 0.0, 5.0)))
    assert gps.read().latitude.item() == 90.0
    assert gps.read().altitude.item() == pytest.approx(12.0, abs=1e-6)


def test_gps_velocity_is_in_the_world_frame():
    scene, gps = start(GPS(link="box", vel_bias=(0, 0, 1.0)), free=True)
    scene.step(50)
    assert gps.read().velocity[0].tolist() == pytest.approx([0, 0, 1 - G * 0.5], abs=1e-5)


def test_gps_error_is_a_gauss_markov_process():
    """It is stationary from the first reading, with the given variance and a correlation of exp(-t / tau)."""
    sigma, tau, n = 2.0, 0.5, 4000
    options = GPS(link="box", vertical_error=sigma, horizontal_error=1.0, error_time_constant=tau)
    scene, gps = start(options, n_envs=n, dt=0.05)
    first = gps.read().altitude[:, 0].clone()
    series = []
    for _ in range(20):
        scene.step()
        series.append(gps.read().altitude[:, 0].clone())
    for values in (first, series[4], series[19]):
        assert values.std().item() == pytest.approx(sigma, rel=0.05)
        assert abs(values.mean().item()) < 4 * sigma / math.sqrt(n)
    for steps in (1, 10, 19):
        correlation = torch.corrcoef(torch.stack([series[0], series[steps]]))[0, 1].item()
        assert correlation == pytest.approx(math.exp(-0.05 * steps / tau), abs=0.05)
    east = torch.deg2rad(gps.read().longitude[:, 0]) * 6378137
    assert east.std().item() == pytest.approx(1.0, rel=0.05)
    assert abs(torch.corrcoef(torch.stack([series[19], east]))[0, 1].item()) < 0.06
    before = series[19].clone()
    scene.reset(envs=range(2000))
    after = gps.read().altitude[:, 0]
    assert torch.equal(after[2000:], before[2000:])
    assert after[:2000].std().item() == pytest.approx(sigma, rel=0.05), "it is stationary after a reset, too"
    assert abs(torch.corrcoef(torch.stack([after[:2000], before[:2000]]))[0, 1].item()) < 0.08


def test_gps_holds_the_last_fix():
    scene, gps = start(GPS(link="box", reacquire_time=0.05, noise=0.1, rate=50.0), free=True, n_envs=3)
    scene.step(10)
    gps.set(visible=False, envs=[1])
    before = gps.read().altitude.clone()
    scene.step(10)
    assert gps.read().fix[:, 0].tolist() == [1, 0, 1]
    assert gps.read().altitude[1] == before[1]
    assert gps.read().altitude[0] != before[0]
    assert gps.read_ground_truth().fix.min() == 1
    gps.set(visible=True)
    with pytest.raises(sn.OptionError, match="error_time_constant"):
        gps.set(error_time_constant=0.0)
    scene.step(4)
    assert gps.read().fix[1, 0] == 0
    scene.step(4)
    assert gps.read().fix[1, 0] == 1
    assert gps.read().altitude[1].item() == pytest.approx(gps.read_ground_truth().altitude[1].item(), abs=0.6)
    with pytest.raises(sn.OptionError, match="visible"):
        gps.set(visible=0.5)


def test_gps_loses_fixes_at_loss_rate():
    """A fix lasts 1 s on average and an outage 0.5 s, so there is a fix 2 / 3 of the time."""
    scene, gps = start(GPS(link="box", loss_rate=1.0, reacquire_time=0.5), n_envs=2000, dt=0.02)
    scene.step(200)
    assert gps.read().fix.mean().item() == pytest.approx(2 / 3, abs=0.04)


# -- magnetometer ------------------------------------------------------------------------------------------------------


def test_heading_is_clockwise_from_north_to_the_x_axis():
    for yaw, heading in ((math.pi / 2, 0.0), (0.0, math.pi / 2), (-math.pi / 2, math.pi), (1.0, math.pi / 2 - 1.0)):
        _, compass = start(Magnetometer(link="box", euler=(0, 0, yaw)))
        assert math.cos(compass.read().heading.item() - heading) == pytest.approx(1, abs=1e-6)


def test_tilt_compensation_of_the_heading():
    quat = np.array([0.7, 0.3, -0.4, 0.5])
    quat /= np.linalg.norm(quat)
    w, x, y, z = quat
    east, north = 1 - 2 * (y * y + z * z), 2 * (x * y + w * z)  # of the sensor's x axis
    _, compass = start(Magnetometer(link="box", quat=tuple(quat)))
    assert compass.read().heading.item() == pytest.approx(math.atan2(east, north), abs=1e-5)
    _, tilted = start(Magnetometer(link="box", quat=tuple(quat), tilt_compensation=False))
    field = tilted.read().field[0]
    assert tilted.read().heading.item() == pytest.approx(math.atan2(field[1], field[0]), abs=1e-6)
    assert abs(tilted.read().heading.item() - compass.read().heading.item()) > 0.1


def test_declination_hard_iron_and_soft_iron():
    declination = 0.2  # magnetic north is 0.2 rad east of true north
    field = (2e-5 * math.sin(declination), 2e-5 * math.cos(declination), -4e-5)
    options = Magnetometer(
        link="box", declination=declination, bias=(5e-6, 0, 0), soft_iron=((1.2, 0, 0), (0, 1, 0), (0, 0, 1))
    )
    scene, compass = start(options, magnetic_field=field, n_envs=2)
    truth, reading = compass.read_ground_truth(), compass.read()
    assert truth.heading[0].item() == pytest.approx(math.pi / 2, abs=1e-6)
    torch.testing.assert_close(truth.field[0], torch.tensor(field))
    torch.testing.assert_close(reading.field[0], torch.tensor([1.2 * field[0] + 5e-6, field[1], field[2]]))
    expected = math.atan2(field[1], 1.2 * field[0] + 5e-6) + declination
    assert reading.heading[0].item() == pytest.approx(expected, abs=1e-5)
    compass.set(declination=0.0, envs=[1])
    scene.step()
    assert compass.read().heading[1].item() == pytest.approx(expected - declination, abs=1e-5)


# -- optical flow ------------------------------------------------------------------------------------------------------


def fly(options, velocity, height=2.0, quat=(1, 0, 0, 0)):
    """Return the reading of a drone at a height (m) with a velocity (m/s, rad/s) over a plane."""
    scene = sn.Scene(dt=0.001, substeps=1, gravity=(0, 0, 0))
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(), name="drone", pos=(0, 0, height), quat=quat, free=True)
    flow = scene.add_sensor(options)
    scene.build()
    scene.world.bind("qvel")[0] = torch.tensor(velocity, dtype=torch.float64)
    scene.forward()
    scene.step()
    return flow.read()


def test_flow_of_translation_is_speed_over_height():
    reading = fly(OpticalFlow(link="drone"), [1.0, 0.5, 0, 0, 0, 0])
    assert reading.flow[0].tolist() == pytest.approx([-0.5, -0.25], abs=1e-5)
    assert reading.distance.item() == pytest.approx(2.0, abs=1e-5)
    assert reading.quality.item() == 1


def test_flow_of_rotation_is_the_angular_rate():
    """Pitching down (about +y) moves the ground forward; rolling right (about +x) moves it to the right."""
    turning = [0, 0, 0, 0.3, 0.2, 5.0]
    assert fly(OpticalFlow(link="drone"), turning).flow[0].tolist() == pytest.approx([0.2, -0.3], abs=2e-2)
    turning = [0, 0, 0, 0.3, 0.2, 0]
    assert fly(OpticalFlow(link="drone"), turning).flow[0].tolist() == pytest.approx([0.2, -0.3], abs=1e-4)
    still = fly(OpticalFlow(link="drone", gyro_compensation=True), turning)
    assert still.flow.abs().max().item() < 1e-6


def test_flow_of_a_tilted_sensor():
    """At a tilt a about y the distance is h / cos a, and the speed across the view is v cos a."""
    tilt = 0.4
    quat = (math.cos(tilt / 2), 0, math.sin(tilt / 2), 0)
    reading = fly(OpticalFlow(link="drone"), [1.0, 0, 0, 0, 0, 0], quat=quat)
    assert reading.distance.item() == pytest.approx(2 / math.cos(tilt), abs=1e-4)
    assert reading.flow[0, 0].item() == pytest.approx(-(math.cos(tilt) ** 2) / 2, abs=1e-4)


def test_flow_quality_is_zero_outside_the_limits():
    for options, height, distance in (
        (OpticalFlow(link="drone", max_range=1.5), 2.0, 1.5),
        (OpticalFlow(link="drone", min_range=3.0), 2.0, 3.0),
        (OpticalFlow(link="drone", max_flow=0.4), 2.0, 2.0),
        (OpticalFlow(link="drone", euler=(math.pi, 0, 0)), 2.0, 30.0),  # looks upwards
    ):
        reading = fly(options, [1.0, 0, 0, 0, 0, 0], height)
        assert reading.quality.item() == 0
        assert reading.flow.abs().max().item() == 0
        assert reading.distance.item() == pytest.approx(distance)
    with pytest.raises(sn.OptionError, match="min_range must be < max_range"):
        OpticalFlow(link="drone", min_range=2.0, max_range=1.0)


# -- wheel odometry ----------------------------------------------------------------------------------------------------

STAND = """
<mujoco><worldbody><body name="cart">
<geom type="box" size="0.2 0.1 0.05" mass="5"/>
<body name="l" pos="0 0.2 0"><joint name="left" axis="0 1 0"/><geom type="cylinder" size="0.1 0.02" euler="90 0 0"/>
</body><body name="r" pos="0 -0.2 0"><joint name="right" axis="0 -1 0"/>
<geom type="cylinder" size="0.1 0.02" euler="90 0 0"/></body></body></worldbody></mujoco>
"""
WHEELS = {"left": "left", "right": "right", "reversed": ("right",), "radius": 0.1, "track": 0.4}


def test_odometry_of_a_circle():
    """Wheels at 4 and 6 rad/s on a stand: 0.5 m/s and 0.5 rad/s, a circle of 1 m radius, in both branches."""
    scene, odometry = start(WheelOdometry(**WHEELS, track_error=0.1), STAND, gravity=(0, 0, 0), n_envs=2)
    odometry.set(track_error=0.0, left_radius_error=0.5, right_radius_error=0.5, envs=[1])
    scene["robot"].set_joint_velocities([4.0, -6.0])
    scene.forward()
    assert odometry.read_ground_truth().speed[0].item() == pytest.approx(0.5), "the first reading has the speed"
    assert odometry.read().pos.abs().max() == 0
    quarter = round(math.pi / 2 / 0.5 / 0.01)
    scene.step(quarter)
    truth, angle = odometry.read_ground_truth(), 0.5 * quarter * 0.01
    for env in range(2):
        assert truth.yaw[env].item() == pytest.approx(angle, abs=1e-5)
        assert truth.pos[env].tolist() == pytest.approx([math.sin(angle), 1 - math.cos(angle)], abs=1e-5)
        assert truth.speed[env].item() == pytest.approx(0.5, abs=1e-5)
        assert truth.yaw_rate[env].item() == pytest.approx(0.5, abs=1e-5)
    reading, reduced = odometry.read(), angle / 1.1
    assert reading.yaw[0].item() == pytest.approx(reduced, abs=1e-5)
    assert reading.pos[0].tolist() == pytest.approx([1.1 * math.sin(reduced), 1.1 * (1 - math.cos(reduced))], abs=1e-5)
    assert reading.yaw[1].item() == pytest.approx(1.5 * angle, abs=1e-5), "the assumed wheels are too large"
    scene.reset(envs=[1])
    assert odometry.read().pos[1].abs().max() == 0
    assert odometry.read().yaw[0].item() == pytest.approx(reduced, abs=1e-5)


def test_odometry_moves_in_steps_of_the_encoder():
    scene, odometry = start(WheelOdometry(**WHEELS, counts_per_revolution=64), STAND, gravity=(0, 0, 0))
    scene["robot"].set_joint_velocities([1.0, -1.0])
    scene.forward()
    tick = 2 * math.pi / 64 * 0.1
    lags = []
    for _ in range(100):
        scene.step()
        lags.append((odometry.read_ground_truth().pos - odometry.read().pos)[0, 0].item())
        halves = odometry.read().pos[0, 0].item() / tick * 2  # the mean of two wheels moves in half ticks
        assert halves == pytest.approx(round(halves), abs=0.03)
    assert max(map(abs, lags)) <= tick + 1e-6
    assert max(map(abs, lags)) > tick / 4


CART = """
<mujoco><worldbody><geom name="floor" type="plane" size="0 0 1" friction="{friction} 0 0"/>
<body name="cart" pos="0 0 0.1"><freejoint/><geom type="box" size="0.2 0.1 0.03" mass="5"/>
<geom type="sphere" size="0.05" pos="-0.15 0 -0.05" friction="0.001 0 0" mass="0.1" priority="1"/>
<body name="l" pos="0.05 0.2 0"><joint name="left" axis="0 1 0" damping="0.05"/>
<geom type="cylinder" size="0.1 0.02" euler="90 0 0" mass="0.5" friction="{friction} 0 0"/></body>
<body name="r" pos="0.05 -0.2 0"><joint name="right" axis="0 1 0" damping="0.05"/>
<geom type="cylinder" size="0.1 0.02" euler="90 0 0" mass="0.5" friction="{friction} 0 0"/></body></body></worldbody>
<actuator><velocity name="vl" joint="left" kv="0.2"/><velocity name="vr" joint="right" kv="0.2"/></actuator></mujoco>
"""


@pytest.mark.parametrize("friction", [1.0, 0.001])
def test_slipping_wheels_make_odometry_wrong(friction):
    options = WheelOdometry(left="left", right="right", radius=0.1, track=0.4)
    scene, odometry = start(options, CART.format(friction=friction))
    scene["robot"].set_ctrl([5.0, 5.0])
    scene.step(200)
    moved = scene.world.bind("qpos")[0, 0].item()
    estimated = odometry.read().pos[0, 0].item()
    assert estimated > 0.7
    assert moved == pytest.approx(estimated if friction == 1 else 0.0, abs=0.05)


def test_odometry_rejects_wrong_options():
    with pytest.raises(sn.OptionError, match="reversed must name joints of left or right, got 'other'"):
        WheelOdometry(left="left", right="right", reversed=("other",), radius=0.1, track=0.4)
    with pytest.raises(sn.OptionError, match="right must name at least one joint"):
        WheelOdometry(left="left", right=(), radius=0.1, track=0.4)


# -- attitude ---------------------------------------------------------------------------------------------------------


def test_attitude_is_the_direction_of_up_in_the_frame_of_the_sensor():
    for roll, pitch in ((0.0, 0.0), (0.3, 0.0), (0.0, -0.4), (0.5, 0.2)):
        _, attitude = start(sn.Attitude(link="box", euler=(roll, pitch, 0.7)))
        # the third row of Rz(yaw) Ry(pitch) Rx(roll)
        expected = (-math.sin(pitch), math.cos(pitch) * math.sin(roll), math.cos(pitch) * math.cos(roll))
        assert torch.allclose(attitude.read()[0], torch.tensor(expected), atol=1e-6)


# -- contract ----------------------------------------------------------------------------------------------------------


class TestBarometer(DropContract, SensorContract):
    imperfections: ClassVar = {"noise": 3.0, "random_walk": 0.5, "resolution": 0.1}

    def make_options(self, **options):
        return Barometer(link="box", **options)


class TestGPS(DropContract, SensorContract):
    imperfections: ClassVar = {"noise": 0.1, "vel_noise": 0.1, "bias": (1.0, 0.0, 0.0)}

    def make_options(self, **options):
        return GPS(link="box", origin=(47.0, 8.0, 400.0), **options)


class TestAttitude(DropContract, SensorContract):
    imperfections: ClassVar = {"noise": 0.02, "bias": 0.01, "resolution": 0.001}

    def make_options(self, **options):
        return sn.Attitude(link="box", **options)


class TestMagnetometer(DropContract, SensorContract):
    imperfections: ClassVar = {"noise": 1e-6, "bias": 1e-6, "soft_iron": ((1, 0.1, 0), (0.1, 1, 0), (0, 0, 0.9))}

    def make_options(self, **options):
        return Magnetometer(link="box", **options)


class TestOpticalFlow(DropContract, SensorContract):
    imperfections: ClassVar = {"noise": 0.1, "range_noise": 0.01, "resolution": 0.001}

    def make_options(self, **options):
        return OpticalFlow(link="box", **options)


class TestWheelOdometry(ArmContract, SensorContract):
    imperfections: ClassVar = {"vel_noise": 0.1, "left_radius_error": 0.1, "track_error": -0.05}

    def make_options(self, **options):
        return WheelOdometry(left="shoulder", right="elbow", radius=0.1, track=0.3, **options)
