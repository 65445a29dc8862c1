"""Robot and mobile sensors against physics, geodesy and closed forms, and through the contract."""

import math
from typing import ClassVar

import numpy as np
import pytest
import torch
from conftest import arm_scene, drop_scene

import sensorium as sn
from sensorium.sensors.robot.barometer import Barometer
from sensorium.sensors.robot.battery_state import BatteryState
from sensorium.sensors.robot.clock import Clock
from sensorium.sensors.robot.force_torque import ForceTorque
from sensorium.sensors.robot.gps import GPS
from sensorium.sensors.robot.joint_torque import JointTorque
from sensorium.sensors.robot.magnetometer import Magnetometer
from sensorium.sensors.robot.optical_flow import OpticalFlow
from sensorium.sensors.robot.wheel_odometry import WheelOdometry
from sensorium.testing import SensorContract, flat
from sensorium.worlds import Painter

G = 9.81


def start(options, model=None, n_envs=1, drop=None, name="robot", **scene_options):
    """A built scene of one model (or a box that neither falls nor moves) with one sensor."""
    scene = sn.Scene(**{"dt": 0.01, "substeps": 2, **scene_options})
    if model is None:
        scene.add_object(sn.Box(), name="box", free=drop)
    else:
        scene.add_robot(model, name=name)
    sensor = scene.add_sensor(options)
    scene.build(n_envs=n_envs, seed=3)
    return scene, sensor


# -- joint torque ------------------------------------------------------------------------------------------------------

LINK = """
<mujoco><worldbody><body name="link"><joint name="hinge" axis="0 1 0" {joint}/>
<geom type="sphere" size="0.05" pos="0.5 0 0" mass="2"/></body></worldbody>{actuator}</mujoco>
"""
SERVO = '<actuator><position name="servo" joint="hinge" kp="2000" kv="100"/></actuator>'


@pytest.mark.parametrize(
    ("which", "joint", "actuator"),
    [
        ("actuator", "", SERVO),
        ("total", "", SERVO),
        ("constraint", 'limited="true" range="-1 0.0"', ""),
        ("passive", 'stiffness="2000" damping="50"', ""),
    ],
)
def test_joint_torque_holds_a_horizontal_link(which, joint, actuator):
    scene, torque = start(JointTorque(which=which), LINK.format(joint=joint, actuator=actuator))
    scene.step(200)
    angle = scene["robot"].get_joint_positions()[0, 0].item()
    assert abs(angle) < 0.03
    # gravity turns the link down, about +y; what holds it acts the other way round
    assert torque.read()[0, 0].item() == pytest.approx(-2 * G * 0.5 * math.cos(angle), rel=1e-3)


def test_joint_torque_of_the_others_is_zero():
    scene, torque = start(JointTorque(which="constraint"), LINK.format(joint="", actuator=SERVO))
    scene.step(50)
    assert torque.read()[0, 0].item() == 0.0


def test_joint_torque_names_joints():
    with pytest.raises(sn.errors.NameNotFoundError, match="did you mean 'hinge'"):
        start(JointTorque(joints=("hinges",)), LINK.format(joint="", actuator=SERVO))
    with pytest.raises(sn.OptionError, match="joints must not be empty"):
        JointTorque(joints=())


# -- force/torque ------------------------------------------------------------------------------------------------------

SCALE = """
<mujoco><worldbody><body name="base"><body name="plate" {pose}>
<geom type="box" size="0.5 0.5 0.05" pos="0 0 0.05" mass="3"/></body></body></worldbody></mujoco>
"""


def test_force_torque_weighs_a_stack_with_its_lever_arm():
    scene = sn.Scene(dt=0.01, substeps=4)
    scene.add_robot(SCALE.format(pose=""), name="scale")
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=2.0), name="low", pos=(0.2, -0.1, 0.2), free=True)
    scene.add_object(sn.Box(size=(0.1, 0.1, 0.1), mass=0.5), name="high", pos=(0.2, -0.1, 0.35), free=True)
    wrench = scene.add_sensor(ForceTorque(link="plate", force_bias=(0, 0, -3 * G)))  # tared without the boxes
    scene.build()
    scene.step(150)
    assert wrench.read().force[0].tolist() == pytest.approx([0, 0, 2.5 * G], abs=0.02)
    # r x F with F = (0, 0, m g) at (0.2, -0.1)
    assert wrench.read().torque[0].tolist() == pytest.approx([-0.1 * 2.5 * G, -0.2 * 2.5 * G, 0], abs=0.02)
    assert wrench.read_ground_truth().force[0, 2].item() == pytest.approx(5.5 * G, abs=0.02)


def test_force_torque_of_an_inclined_plane_in_balance():
    angle = math.radians(20)
    quat = f'quat="{math.cos(angle / 2)} 0 {math.sin(angle / 2)} 0"'  # downhill is +x
    scene = sn.Scene(dt=0.01, substeps=4)
    scene.add_robot(SCALE.format(pose=quat), name="scale")
    sine, cosine = math.sin(angle), math.cos(angle)
    centre = (0.2 * sine, 0, 0.2 * cosine)  # on the surface, along its normal
    box = scene.add_object(
        sn.Box(size=(0.2, 0.2, 0.2), mass=2.0), name="block", pos=centre, euler=(0, angle, 0), free=True
    )
    wrench = scene.add_sensor(ForceTorque(link="plate", tool_mass=3.0, tool_com=(0, 0, 0.05)))
    scene.build()
    scene.step(100)
    assert (box.get_pose()[0][0] - torch.tensor(centre)).norm() < 0.01, "it must not slide away"
    weight = 2 * G
    # in the plate's frame the parent pushes up, which is uphill (-x) and along the normal
    assert wrench.read().force[0].tolist() == pytest.approx([-weight * sine, 0, weight * cosine], abs=0.02)
    offset = box.get_pose()[0][0].numpy() @ np.array([cosine, 0, -sine])  # along the slope
    torque = [0, 0.2 * -weight * sine - offset * weight * cosine, 0]
    assert wrench.read().torque[0].tolist() == pytest.approx(torque, abs=0.02)


TOOL = """
<mujoco><worldbody><body name="arm" pos="0 0 2">
<joint name="pitch" axis="0 1 0"/><joint name="roll" axis="1 0 0"/>
<geom type="sphere" size="0.02" mass="1"/>
<body name="wrist" pos="0.4 0 0" euler="40 20 10"><site name="flange" quat="0.8 0.6 0 0"/>
<geom type="sphere" size="0.001" pos="0.05 -0.02 0.1" mass="0.7"/></body></body></worldbody></mujoco>
"""


def swing(link, **tool):
    scene, wrench = start(ForceTorque(link=link, **tool), TOOL, dt=0.002, substeps=1)
    scene["robot"].set_joint_velocities([3.0, 2.0])
    most = torch.zeros(2)
    for _ in range(200):
        scene.step()
        most = torch.maximum(most, torch.stack([part.abs().max() for part in wrench.read()]))
    return most


def test_tool_compensation_reads_zero():
    """At rest in any orientation by the tool's weight; while it swings, with its inertia too."""
    turn = np.array([0.8, 0.6, 0, 0])
    com = (0.05, -0.02, 0.1)
    for gravity in ((0, 0, -G), (3.0, -2.0, 5.0)):
        scene, wrench = start(ForceTorque(link="wrist", tool_mass=0.7, tool_com=com), TOOL, gravity=gravity)
        scene["robot"].set_joint_positions([0.7, -1.1])
        held = scene.world.expand("dof_armature")  # at rest: nothing accelerates what is infinitely heavy
        held[:] = 1e9
        scene.world.update_constants()
        scene.step()
        assert flat(wrench.read()).abs().max() < 1e-4
        assert scene.world.bind("qvel").abs().max() < 1e-6
    plain = swing("wrist")
    assert plain[0] > 0.7 * G
    assert swing("wrist", tool_mass=0.7, tool_com=com)[0] > 1.0, "weight alone is not enough in motion"
    assert swing("wrist", tool_mass=0.7, tool_com=com, tool_inertia=True).max() < 1e-3
    # the same tool, seen from a site that is turned by 73.7 degrees about x
    cosine, sine = turn[0] ** 2 - turn[1] ** 2, 2 * turn[0] * turn[1]
    seen = (com[0], cosine * com[1] + sine * com[2], cosine * com[2] - sine * com[1])
    assert swing("flange", tool_mass=0.7, tool_com=seen, tool_inertia=True).max() < 1e-3


def test_force_is_drawn_where_it_acts():
    scene, wrench = start(ForceTorque(link="plate", pos=(0.1, 0, 0), euler=(0.5, 0, 0)), SCALE.format(pose=""))
    scene.step()
    painter = Painter()
    wrench._draw(painter, 0)
    _, size, position, rotation, _ = painter.shapes[-1]  # after the three axes of the frame
    assert len(painter) == 4
    assert position.tolist() == pytest.approx([0.1, 0, 0])
    assert rotation[:, 2].tolist() == pytest.approx([0, 0, 1], abs=1e-5), "upwards in the world, however it is mounted"
    assert size[2] == pytest.approx(0.01 * 3 * G, rel=1e-4)


def test_force_torque_bad_options():
    with pytest.raises(sn.OptionError, match="need a tool_mass"):
        ForceTorque(link="wrist", tool_com=(0, 0, 0.1))
    with pytest.raises(sn.OptionError, match="leave pos, quat and euler out"):
        start(ForceTorque(link="flange", pos=(0, 0, 0.1)), TOOL)
    with pytest.raises(sn.OptionError, match="no parent"):
        start(ForceTorque(link="world"), TOOL)


# -- air ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("altitude", "pressure"), [(0, 101325.0), (1000, 89874.6), (2000, 79495.2), (5000, 54019.9), (11000, 22632.1)]
)
def test_barometer_reads_the_standard_atmosphere(altitude, pressure):
    """Values of the tables of ISO 2533."""
    scene, barometer = start(Barometer(link="box", pos=(0, 0, 0.25), origin_altitude=altitude - 0.25))
    scene.step()
    assert barometer.read().pressure[0, 0].item() == pytest.approx(pressure, abs=0.1)
    assert barometer.read().altitude[0, 0].item() == pytest.approx(altitude, abs=1e-3)


def test_barometer_follows_height_and_weather():
    low = Barometer(link="box", sea_level_pressure=100325.0)
    scene, barometer = start(low, drop=True)
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
def test_gps_has_the_lengths_of_degrees_of_wgs84(latitude, per_latitude, per_longitude):
    origin = (latitude, 179.9999, 100.0)
    scene, gps = start(GPS(link="box", pos=(50.0, 100.0, 20.0), origin=origin))
    scene.step()
    reading = gps.read()
    assert (reading.latitude[0, 0].item() - latitude) * per_latitude == pytest.approx(100.0, abs=0.01)
    east = (reading.longitude[0, 0].item() - origin[1]) % 360
    assert east * per_longitude == pytest.approx(50.0, abs=0.01)
    assert reading.longitude[0, 0].item() < -179.99 or latitude == 0.0, "beyond the date line"
    assert reading.altitude[0, 0].item() == pytest.approx(120.0, abs=0.001 + 100**2 / 6.3e6)
    assert reading.fix.item() == 1


def test_gps_world_is_a_tangent_plane():
    """10 km east at the equator the ground has fallen by sqrt(a² + d²) - a; the poles are no special place."""
    _, gps = start(GPS(link="box", pos=(1e4, 0.0, 0.0)))
    assert gps.read().altitude.item() == pytest.approx(math.hypot(6378137.0, 1e4) - 6378137.0, abs=1e-6)
    assert gps.read().longitude.item() == pytest.approx(math.degrees(math.atan2(1e4, 6378137.0)), abs=1e-12)
    _, gps = start(GPS(link="box", pos=(0, 0, 7.0), origin=(90.0, 0.0, 5.0)))
    assert gps.read().latitude.item() == 90.0
    assert gps.read().altitude.item() == pytest.approx(12.0, abs=1e-6)


def test_gps_velocity():
    scene, gps = start(GPS(link="box", vel_bias=(0, 0, 1.0)), drop=True)
    scene.step(50)
    assert gps.read().velocity[0].tolist() == pytest.approx([0, 0, 1 - G * 0.5], abs=1e-5)


def test_gps_error_is_a_gauss_markov_process():
    """Stationary from the first reading on, with the variance asked for, and a correlation of exp(-t / tau)."""
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
    assert after[:2000].std().item() == pytest.approx(sigma, rel=0.05), "stationary from the start"
    assert abs(torch.corrcoef(torch.stack([after[:2000], before[:2000]]))[0, 1].item()) < 0.08


def test_gps_holds_the_last_fix():
    scene, gps = start(GPS(link="box", reacquire_time=0.05, noise=0.1, rate=50.0), drop=True, n_envs=3)
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


def test_gps_loses_fixes_at_its_rate():
    """Lost 1 / s of having one, for 0.5 s each: 2 / 3 of the time there is a fix."""
    scene, gps = start(GPS(link="box", loss_rate=1.0, reacquire_time=0.5), n_envs=2000, dt=0.02)
    scene.step(200)
    assert gps.read().fix.mean().item() == pytest.approx(2 / 3, abs=0.04)


# -- magnetometer ------------------------------------------------------------------------------------------------------


def test_heading_is_clockwise_from_north_to_the_x_axis():
    for yaw, heading in ((math.pi / 2, 0.0), (0.0, math.pi / 2), (-math.pi / 2, math.pi), (1.0, math.pi / 2 - 1.0)):
        _, compass = start(Magnetometer(link="box", euler=(0, 0, yaw)))
        assert math.cos(compass.read().heading.item() - heading) == pytest.approx(1, abs=1e-6)


def test_heading_is_compensated_for_tilt():
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


def test_declination_and_iron():
    away = 0.2  # magnetic north lies 0.2 rad east of north
    field = (2e-5 * math.sin(away), 2e-5 * math.cos(away), -4e-5)
    options = Magnetometer(
        link="box", declination=away, bias=(5e-6, 0, 0), soft_iron=((1.2, 0, 0), (0, 1, 0), (0, 0, 1))
    )
    scene, compass = start(options, magnetic_field=field, n_envs=2)
    truth, reading = compass.read_ground_truth(), compass.read()
    assert truth.heading[0].item() == pytest.approx(math.pi / 2, abs=1e-6)
    torch.testing.assert_close(truth.field[0], torch.tensor(field))
    torch.testing.assert_close(reading.field[0], torch.tensor([1.2 * field[0] + 5e-6, field[1], field[2]]))
    expected = math.atan2(field[1], 1.2 * field[0] + 5e-6) + away
    assert reading.heading[0].item() == pytest.approx(expected, abs=1e-5)
    compass.set(declination=0.0, envs=[1])
    scene.step()
    assert compass.read().heading[1].item() == pytest.approx(expected - away, abs=1e-5)


# -- optical flow ------------------------------------------------------------------------------------------------------


def fly(options, velocity, height=2.0, quat=(1, 0, 0, 0)):
    scene = sn.Scene(dt=0.001, substeps=1, gravity=(0, 0, 0))
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(), name="drone", pos=(0, 0, height), quat=quat, free=True)
    flow = scene.add_sensor(options)
    scene.build()
    scene.world.bind("qvel")[0] = torch.tensor(velocity, dtype=torch.float64)
    scene.forward()
    scene.step()
    return flow.read()


def test_flow_of_a_translating_sensor_is_speed_over_height():
    reading = fly(OpticalFlow(link="drone"), [1.0, 0.5, 0, 0, 0, 0])
    assert reading.flow[0].tolist() == pytest.approx([-0.5, -0.25], abs=1e-5)
    assert reading.distance.item() == pytest.approx(2.0, abs=1e-5)
    assert reading.quality.item() == 1


def test_flow_of_a_rotating_sensor_is_its_rate():
    """Pitching down (about +y) the ground runs forward; rolling right (about +x) it runs to the right."""
    turning = [0, 0, 0, 0.3, 0.2, 5.0]
    assert fly(OpticalFlow(link="drone"), turning).flow[0].tolist() == pytest.approx([0.2, -0.3], abs=2e-2)
    turning = [0, 0, 0, 0.3, 0.2, 0]
    assert fly(OpticalFlow(link="drone"), turning).flow[0].tolist() == pytest.approx([0.2, -0.3], abs=1e-4)
    still = fly(OpticalFlow(link="drone", gyro_compensation=True), turning)
    assert still.flow.abs().max().item() < 1e-6


def test_flow_of_a_tilted_sensor():
    """Tilted by a about y, the ground is h / cos a away, and level flight has v cos a across the view."""
    tilt = 0.4
    quat = (math.cos(tilt / 2), 0, math.sin(tilt / 2), 0)
    reading = fly(OpticalFlow(link="drone"), [1.0, 0, 0, 0, 0, 0], quat=quat)
    assert reading.distance.item() == pytest.approx(2 / math.cos(tilt), abs=1e-4)
    assert reading.flow[0, 0].item() == pytest.approx(-(math.cos(tilt) ** 2) / 2, abs=1e-4)


def test_flow_says_when_it_cannot_see():
    for options, height, distance in (
        (OpticalFlow(link="drone", max_range=1.5), 2.0, 1.5),
        (OpticalFlow(link="drone", min_range=3.0), 2.0, 3.0),
        (OpticalFlow(link="drone", max_flow=0.4), 2.0, 2.0),
        (OpticalFlow(link="drone", euler=(math.pi, 0, 0)), 2.0, 30.0),  # looks at the sky
    ):
        reading = fly(options, [1.0, 0, 0, 0, 0, 0], height)
        assert reading.quality.item() == 0
        assert reading.flow.abs().max().item() == 0
        assert reading.distance.item() == pytest.approx(distance)
    with pytest.raises(sn.OptionError, match="min_range must be below max_range"):
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
    """Wheels at 4 and 6 rad/s on a stand: 0.5 m/s and 0.5 rad/s, a circle of 1 m; both branches of it."""
    scene, odometry = start(WheelOdometry(**WHEELS, track_error=0.1), STAND, gravity=(0, 0, 0), n_envs=2)
    odometry.set(track_error=0.0, left_radius_error=0.5, right_radius_error=0.5, envs=[1])
    scene["robot"].set_joint_velocities([4.0, -6.0])
    scene.forward()
    assert odometry.read_ground_truth().speed[0].item() == pytest.approx(0.5), "the first reading knows the speed"
    assert odometry.read().pos.abs().max() == 0
    quarter = round(math.pi / 2 / 0.5 / 0.01)
    scene.step(quarter)
    truth, angle = odometry.read_ground_truth(), 0.5 * quarter * 0.01
    for env in range(2):
        assert truth.yaw[env].item() == pytest.approx(angle, abs=1e-5)
        assert truth.pos[env].tolist() == pytest.approx([math.sin(angle), 1 - math.cos(angle)], abs=1e-5)
        assert truth.speed[env].item() == pytest.approx(0.5, abs=1e-5)
        assert truth.yaw_rate[env].item() == pytest.approx(0.5, abs=1e-5)
    reading, less = odometry.read(), angle / 1.1
    assert reading.yaw[0].item() == pytest.approx(less, abs=1e-5)
    assert reading.pos[0].tolist() == pytest.approx([1.1 * math.sin(less), 1.1 * (1 - math.cos(less))], abs=1e-5)
    assert reading.yaw[1].item() == pytest.approx(1.5 * angle, abs=1e-5), "wheels thought too large"
    scene.reset(envs=[1])
    assert odometry.read().pos[1].abs().max() == 0
    assert odometry.read().yaw[0].item() == pytest.approx(less, abs=1e-5)


def test_odometry_counts_in_steps_of_the_encoder():
    scene, odometry = start(WheelOdometry(**WHEELS, counts_per_revolution=64), STAND, gravity=(0, 0, 0))
    scene["robot"].set_joint_velocities([1.0, -1.0])
    scene.forward()
    tick = 2 * math.pi / 64 * 0.1
    lags = []
    for _ in range(100):
        scene.step()
        lags.append((odometry.read_ground_truth().pos - odometry.read().pos)[0, 0].item())
        halves = odometry.read().pos[0, 0].item() / tick * 2  # the mean of two wheels moves by half a tick at least
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
def test_wheels_that_slip_make_odometry_wrong(friction):
    options = WheelOdometry(left="left", right="right", radius=0.1, track=0.4)
    scene, odometry = start(options, CART.format(friction=friction))
    scene["robot"].set_ctrl([5.0, 5.0])
    scene.step(200)
    moved = scene.world.bind("qpos")[0, 0].item()
    believed = odometry.read().pos[0, 0].item()
    assert believed > 0.7
    assert moved == pytest.approx(believed if friction == 1 else 0.0, abs=0.05)


def test_odometry_bad_options():
    with pytest.raises(sn.OptionError, match="reversed names 'other'"):
        WheelOdometry(left="left", right="right", reversed=("other",), radius=0.1, track=0.4)
    with pytest.raises(sn.OptionError, match="right must name at least one joint"):
        WheelOdometry(left="left", right=(), radius=0.1, track=0.4)


# -- battery -----------------------------------------------------------------------------------------------------------

FLYWHEEL = """
<mujoco><worldbody><body name="wheel"><joint name="axle" axis="0 0 1"/>
<inertial pos="0 0 0" mass="1" diaginertia="0.5 0.5 0.5"/><geom size="0.1"/></body></worldbody>
<actuator><motor name="motor" joint="axle"/></actuator></mujoco>
"""


def test_battery_pays_for_kinetic_energy():
    """Constant torque on a flywheel: what is drawn is J w² / 2 over the efficiency; a constant voltage makes charge of
    it; braking gives back what the option says."""
    options = BatteryState(
        efficiency=0.8, regeneration=0.5, capacity=2.0, voltage_curve=((0.0, 24.0),), internal_resistance=0.0
    )
    scene, battery = start(options, FLYWHEEL)
    scene["robot"].set_ctrl([2.0])
    scene.step(100)
    speed = scene["robot"].get_joint_velocities()[0, 0].item()
    assert speed == pytest.approx(2.0 * 1.0 / 0.5, rel=1e-4)
    drawn = 0.5 * 0.5 * speed**2 / 0.8
    reading = battery.read()
    assert reading.energy.item() == pytest.approx(drawn, rel=1e-4)
    assert reading.power.item() == pytest.approx(2.0 * speed / 0.8, rel=1e-4)
    assert reading.charge.item() == pytest.approx(1 - reading.energy.item() / (24 * 2 * 3600), abs=1e-7)
    assert reading.current.item() == pytest.approx(reading.power.item() / 24)
    scene["robot"].set_ctrl([-2.0])
    scene.step(100)
    assert scene["robot"].get_joint_velocities()[0, 0].item() == pytest.approx(0, abs=1e-6)
    assert battery.read().energy.item() == pytest.approx(drawn - 0.5 * 0.5 * 0.5 * speed**2, rel=1e-4)


def test_battery_sags_under_load():
    """P = V I and V = V0 - R I, whose root is V = V0 / 2 + sqrt(V0² / 4 - R P)."""
    options = BatteryState(idle_power=100.0, voltage_curve=((0.0, 20.0), (1.0, 25.0)), internal_resistance=0.1)
    scene, battery = start(options, FLYWHEEL)
    voltage = 12.5 + math.sqrt(12.5**2 - 10)
    assert battery.read().voltage.item() == pytest.approx(voltage, rel=1e-6)
    assert battery.read().current.item() == pytest.approx(100 / voltage, rel=1e-6)
    scene.step(10)
    assert battery.read().energy.item() == pytest.approx(100 * 0.1, rel=1e-6)


def test_holding_takes_power_where_asked():
    scene, battery = start(BatteryState(holding_loss=0.5), LINK.format(joint="", actuator=SERVO))
    scene.step(200)
    assert battery.read().power.item() == pytest.approx(0.5 * (2 * G * 0.5) ** 2, rel=0.01)


def test_battery_runs_empty_and_starts_as_set():
    options = BatteryState(idle_power=1000.0, capacity=0.002, initial_charge=0.5)
    scene, battery = start(options, FLYWHEEL, n_envs=3)
    assert battery.read().charge[:, 0].tolist() == [0.5] * 3
    battery.set(initial_charge=0.8, envs=[1])
    assert battery.read().charge[1] == 0.5
    scene.step(30)
    assert battery.read().charge.max() == 0
    scene.reset(envs=[1])
    assert battery.read().charge[:, 0].tolist() == pytest.approx([0, 0.8, 0])
    assert battery.read().energy[1] == 0
    with pytest.raises(sn.OptionError, match="initial_charge"):
        battery.set(initial_charge=1.5)


def test_battery_names_actuators():
    with pytest.raises(sn.errors.NameNotFoundError, match="did you mean 'motor'"):
        start(BatteryState(actuators=("moter",)), FLYWHEEL)
    with pytest.raises(sn.errors.NameNotFoundError, match="no actuator in the scene"):
        start(BatteryState())
    with pytest.raises(sn.OptionError, match="rising order"):
        BatteryState(voltage_curve=((1.0, 24.0), (0.0, 20.0)))


# -- clock -------------------------------------------------------------------------------------------------------------


def test_clock_drifts_from_its_offset():
    scene, clock = start(Clock(offset=-0.5, drift=50.0), n_envs=3, dt=0.1)
    assert clock.read().dtype == torch.float64
    assert clock.read()[:, 0].tolist() == [-0.5] * 3
    clock.set(drift=-100.0, offset=3600.0, envs=[2])
    scene.step(100)
    time = scene.time
    assert time[0].item() == pytest.approx(10.0)
    assert torch.equal(clock.read_ground_truth()[:, 0], time)
    error = clock.read()[:, 0] - time
    assert error.tolist() == pytest.approx([-0.5 + 500e-6] * 2 + [3600.0 - 1e-3], abs=1e-9)
    scene.reset(envs=[0])
    assert clock.read()[0, 0].item() == -0.5


def test_clock_counts_in_steps():
    scene, clock = start(Clock(offset=0.0004, resolution=0.001), dt=0.0125)
    scene.step(3)
    assert clock.read().item() == pytest.approx(0.038)
    assert clock.read_ground_truth().item() == pytest.approx(0.0375)


def test_clock_jitter_is_white():
    scene, clock = start(Clock(noise=1e-4), n_envs=4000)
    scene.step()
    first = (clock.read() - clock.read_ground_truth())[:, 0].clone()
    scene.step()
    second = (clock.read() - clock.read_ground_truth())[:, 0]
    assert second.std().item() == pytest.approx(1e-4, rel=0.05)
    assert abs(torch.corrcoef(torch.stack([first, second]))[0, 1].item()) < 0.06


# -- the GPU's formulas ------------------------------------------------------------------------------------------------


def test_tensor_formulas_agree_with_the_kernels(monkeypatch):
    """What these classes compute on a GPU, walked on the CPU, against what they compute there."""
    pytest.importorskip("warp")
    from test_graph_path import GraphWorld

    from sensorium.worlds import scene as scenes

    def build():
        scene = sn.Scene(dt=0.01, substeps=2)
        scene.add_object(sn.Plane())
        scene.add_robot(TOOL, name="robot")
        scene.add_object(sn.Box(), name="box", pos=(1, 0, 1.0), quat=(0.9, 0.3, 0.1, 0.2), free=True)
        for options in (
            JointTorque(which="total", uuid="torque"),
            ForceTorque(link="wrist", tool_mass=0.3, tool_com=(0.1, 0.2, 0.3), uuid="wrench"),
            Barometer(link="box", uuid="air"),
            Magnetometer(link="box", uuid="north", declination=0.1),
            Magnetometer(link="box", uuid="level", tilt_compensation=False),
            OpticalFlow(link="box", uuid="flow", range_noise=0.01),
            OpticalFlow(link="box", uuid="compensated", gyro_compensation=True),
            Clock(uuid="clock", drift=20.0, offset=0.1),
        ):
            scene.add_sensor(options)
        scene.build(n_envs=3, seed=8)
        scene.world.bind("qvel")[:, :8] += torch.linspace(-1, 1, 8).double() * torch.tensor([[0.3], [1.0], [3.0]])
        scene.forward()
        return scene

    plain = build()
    with monkeypatch.context() as patched:
        patched.setattr(scenes, "MujocoWorld", GraphWorld)
        graph = build()
    assert graph.world.is_gpu
    for _ in range(20):
        for scene in (plain, graph):
            scene.step()
        for uuid in plain.sensors:
            for read in ("read", "read_ground_truth"):
                expected, got = (flat(getattr(scene[uuid], read)()) for scene in (plain, graph))
                torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5, msg=lambda m, uuid=uuid: f"{uuid}: {m}")


# -- the contract ------------------------------------------------------------------------------------------------------


class Arm:
    def make_scene(self):
        return arm_scene()

    def drive(self, scene, step):
        scene["arm"].set_ctrl([3.0 if step < 10 else -1.0, 0.5])


class Drop:
    def make_scene(self):
        return drop_scene(height=0.13)


class TestJointTorque(Arm, SensorContract):
    imperfections: ClassVar = {"noise": 0.1, "random_walk": 0.1, "resolution": 0.01}

    def make_options(self, **options):
        return JointTorque(robot="arm", which="total", **options)


class TestForceTorque(Arm, SensorContract):
    imperfections: ClassVar = {"force_noise": 0.1, "torque_random_walk": 0.1, "force_saturation": (-20.0, 20.0)}

    def make_options(self, **options):
        return ForceTorque(link="lower", tool_mass=0.2, tool_com=(0, 0.1, 0.1), tool_inertia=True, **options)


class TestBarometer(Drop, SensorContract):
    imperfections: ClassVar = {"noise": 3.0, "random_walk": 0.5, "resolution": 0.1}

    def make_options(self, **options):
        return Barometer(link="box", **options)


class TestGPS(Drop, SensorContract):
    imperfections: ClassVar = {"noise": 0.1, "vel_noise": 0.1, "bias": (1.0, 0.0, 0.0)}

    def make_options(self, **options):
        return GPS(link="box", origin=(47.0, 8.0, 400.0), **options)


class TestMagnetometer(Drop, SensorContract):
    imperfections: ClassVar = {"noise": 1e-6, "bias": 1e-6, "soft_iron": ((1, 0.1, 0), (0.1, 1, 0), (0, 0, 0.9))}

    def make_options(self, **options):
        return Magnetometer(link="box", **options)


class TestWheelOdometry(Arm, SensorContract):
    imperfections: ClassVar = {"vel_noise": 0.1, "left_radius_error": 0.1, "track_error": -0.05}

    def make_options(self, **options):
        return WheelOdometry(left="shoulder", right="elbow", radius=0.1, track=0.3, **options)


class TestOpticalFlow(Drop, SensorContract):
    imperfections: ClassVar = {"noise": 0.1, "range_noise": 0.01, "resolution": 0.001}

    def make_options(self, **options):
        return OpticalFlow(link="box", **options)


class TestBatteryState(Arm, SensorContract):
    imperfections: ClassVar = {"voltage_noise": 0.1, "current_resolution": 0.1, "current_bias": 0.2}

    def make_options(self, **options):
        return BatteryState(robot="arm", idle_power=10.0, regeneration=0.5, **options)


class TestClock(Drop, SensorContract):
    imperfections: ClassVar = {"noise": 1e-3, "offset": 0.5, "drift": 100.0}

    def make_options(self, **options):
        return Clock(**options)
