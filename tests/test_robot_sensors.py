"""Joint torque, force/torque, battery and clock against physics and closed forms, and through the sensor contract."""

import math
from typing import ClassVar

import numpy as np
import pytest
import torch
from robot_scenes import LINK, SERVO, TOOL, ArmContract, DropContract, G, start

import sensorium as sn
from sensorium.sensors.robot.battery_state import BatteryState
from sensorium.sensors.robot.clock import Clock
from sensorium.sensors.robot.force_torque import ForceTorque
from sensorium.sensors.robot.joint_torque import JointTorque
from sensorium.testing import SensorContract, flat
from sensorium.worlds import Painter

# -- joint torque ------------------------------------------------------------------------------------------------------


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
    # gravity turns the link about +y; the torque that holds it acts about -y
    assert torque.read()[0, 0].item() == pytest.approx(-2 * G * 0.5 * math.cos(angle), rel=1e-3)


def test_joint_torque_of_absent_constraints_is_zero():
    scene, torque = start(JointTorque(which="constraint"), LINK.format(joint="", actuator=SERVO))
    scene.step(50)
    assert torque.read()[0, 0].item() == 0.0


def test_joint_torque_rejects_wrong_joints():
    with pytest.raises(sn.errors.NameNotFoundError, match="did you mean 'hinge'"):
        start(JointTorque(joints=("hinges",)), LINK.format(joint="", actuator=SERVO))
    with pytest.raises(sn.OptionError, match="joints must name at least one joint"):
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
    assert (box.get_pose()[0][0] - torch.tensor(centre)).norm() < 0.01, "the block must not slide"
    weight = 2 * G
    # in the plate's frame the parent pushes uphill (-x) and along the normal
    assert wrench.read().force[0].tolist() == pytest.approx([-weight * sine, 0, weight * cosine], abs=0.02)
    offset = box.get_pose()[0][0].numpy() @ np.array([cosine, 0, -sine])  # along the slope
    torque = [0, 0.2 * -weight * sine - offset * weight * cosine, 0]
    assert wrench.read().torque[0].tolist() == pytest.approx(torque, abs=0.02)


def swing(link, **tool):
    """Return the largest force and torque that the sensor reads while the arm swings."""
    scene, wrench = start(ForceTorque(link=link, **tool), TOOL, dt=0.002, substeps=1)
    scene["robot"].set_joint_velocities([3.0, 2.0])
    largest = torch.zeros(2)
    for _ in range(200):
        scene.step()
        largest = torch.maximum(largest, torch.stack([part.abs().max() for part in wrench.read()]))
    return largest


def test_compensated_tool_reads_zero():
    """At rest, the weight is enough, in any orientation; in a swing, ``tool_inertia`` is needed, too."""
    turn = np.array([0.8, 0.6, 0, 0])
    com = (0.05, -0.02, 0.1)
    for gravity in ((0, 0, -G), (3.0, -2.0, 5.0)):
        scene, wrench = start(ForceTorque(link="wrist", tool_mass=0.7, tool_com=com), TOOL, gravity=gravity)
        scene["robot"].set_joint_positions([0.7, -1.1])
        held = scene.world.expand("dof_armature")  # a huge armature keeps the arm at rest
        held[:] = 1e9
        scene.world.update_constants()
        scene.step()
        assert flat(wrench.read()).abs().max() < 1e-4
        assert scene.world.bind("qvel").abs().max() < 1e-6
    plain = swing("wrist")
    assert plain[0] > 0.7 * G
    assert swing("wrist", tool_mass=0.7, tool_com=com)[0] > 1.0, "the weight alone does not compensate a moving tool"
    assert swing("wrist", tool_mass=0.7, tool_com=com, tool_inertia=True).max() < 1e-3
    # the same tool, from a site that is rotated by 73.7 degrees about x
    cosine, sine = turn[0] ** 2 - turn[1] ** 2, 2 * turn[0] * turn[1]
    seen = (com[0], cosine * com[1] + sine * com[2], cosine * com[2] - sine * com[1])
    assert swing("flange", tool_mass=0.7, tool_com=seen, tool_inertia=True).max() < 1e-3


def test_force_arrow_starts_at_the_sensor():
    scene, wrench = start(ForceTorque(link="plate", pos=(0.1, 0, 0), euler=(0.5, 0, 0)), SCALE.format(pose=""))
    scene.step()
    painter = Painter()
    wrench._draw(painter, 0)
    _, size, position, rotation, _ = painter.shapes[-1]  # after the three axes of the frame
    assert len(painter) == 4
    assert position.tolist() == pytest.approx([0.1, 0, 0])
    assert rotation[:, 2].tolist() == pytest.approx([0, 0, 1], abs=1e-5), "upwards in the world frame"
    assert size[2] == pytest.approx(0.01 * 3 * G, rel=1e-4)


def test_force_torque_rejects_wrong_options():
    with pytest.raises(sn.OptionError, match="need tool_mass > 0"):
        ForceTorque(link="wrist", tool_com=(0, 0, 0.1))
    with pytest.raises(sn.OptionError, match="do not set pos, quat or euler"):
        start(ForceTorque(link="flange", pos=(0, 0, 0.1)), TOOL)
    with pytest.raises(sn.OptionError, match="no parent"):
        start(ForceTorque(link="world"), TOOL)


# -- battery -----------------------------------------------------------------------------------------------------------

FLYWHEEL = """
<mujoco><worldbody><body name="wheel"><joint name="axle" axis="0 0 1"/>
<inertial pos="0 0 0" mass="1" diaginertia="0.5 0.5 0.5"/><geom size="0.1"/></body></worldbody>
<actuator><motor name="motor" joint="axle"/></actuator></mujoco>
"""


def test_battery_energy_is_kinetic_energy_over_efficiency():
    """Constant torque on a flywheel draws J w² / 2 / efficiency; braking returns the fraction ``regeneration``."""
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


def test_battery_voltage_sags_under_load():
    """P = V I and V = V0 - R I have the root V = V0 / 2 + sqrt(V0² / 4 - R P)."""
    options = BatteryState(idle_power=100.0, voltage_curve=((0.0, 20.0), (1.0, 25.0)), internal_resistance=0.1)
    scene, battery = start(options, FLYWHEEL)
    voltage = 12.5 + math.sqrt(12.5**2 - 10)
    assert battery.read().voltage.item() == pytest.approx(voltage, rel=1e-6)
    assert battery.read().current.item() == pytest.approx(100 / voltage, rel=1e-6)
    scene.step(10)
    assert battery.read().energy.item() == pytest.approx(100 * 0.1, rel=1e-6)


def test_holding_loss_draws_power_at_rest():
    scene, battery = start(BatteryState(holding_loss=0.5), LINK.format(joint="", actuator=SERVO))
    scene.step(200)
    assert battery.read().power.item() == pytest.approx(0.5 * (2 * G * 0.5) ** 2, rel=0.01)


def test_battery_runs_empty_and_restarts_with_initial_charge():
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


def test_battery_rejects_wrong_actuators_and_curves():
    with pytest.raises(sn.errors.NameNotFoundError, match="did you mean 'motor'"):
        start(BatteryState(actuators=("moter",)), FLYWHEEL)
    with pytest.raises(sn.errors.NameNotFoundError, match="the scene has no actuator"):
        start(BatteryState())
    with pytest.raises(sn.OptionError, match="increasing charge"):
        BatteryState(voltage_curve=((1.0, 24.0), (0.0, 20.0)))


# -- clock -------------------------------------------------------------------------------------------------------------


def test_clock_starts_at_its_offset_and_drifts():
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


def test_clock_resolution_quantises_stamps():
    scene, clock = start(Clock(offset=0.0004, resolution=0.001), dt=0.0125)
    scene.step(3)
    assert clock.read().item() == pytest.approx(0.038)
    assert clock.read_ground_truth().item() == pytest.approx(0.0375)


def test_clock_noise_is_white():
    scene, clock = start(Clock(noise=1e-4), n_envs=4000)
    scene.step()
    first = (clock.read() - clock.read_ground_truth())[:, 0].clone()
    scene.step()
    second = (clock.read() - clock.read_ground_truth())[:, 0]
    assert second.std().item() == pytest.approx(1e-4, rel=0.05)
    assert abs(torch.corrcoef(torch.stack([first, second]))[0, 1].item()) < 0.06


# -- contract ----------------------------------------------------------------------------------------------------------


class TestJointTorque(ArmContract, SensorContract):
    imperfections: ClassVar = {"noise": 0.1, "random_walk": 0.1, "resolution": 0.01}

    def make_options(self, **options):
        return JointTorque(robot="arm", which="total", **options)


class TestForceTorque(ArmContract, SensorContract):
    imperfections: ClassVar = {"force_noise": 0.1, "torque_random_walk": 0.1, "force_saturation": (-20.0, 20.0)}

    def make_options(self, **options):
        return ForceTorque(link="lower", tool_mass=0.2, tool_com=(0, 0.1, 0.1), tool_inertia=True, **options)


class TestBatteryState(ArmContract, SensorContract):
    imperfections: ClassVar = {"voltage_noise": 0.1, "current_resolution": 0.1, "current_bias": 0.2}

    def make_options(self, **options):
        return BatteryState(robot="arm", idle_power=10.0, regeneration=0.5, **options)


class TestClock(DropContract, SensorContract):
    imperfections: ClassVar = {"noise": 1e-3, "offset": 0.5, "drift": 100.0}

    def make_options(self, **options):
        return Clock(**options)
