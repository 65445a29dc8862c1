"""IMU readings against closed-form solutions of rigid-body mechanics, including lever arms."""

import math

import pytest
import torch

import sensorium as sn

G = 9.81


def pendulum(length, angle, imu_at):
    """Return a scene with a point mass on a rod at ``angle`` from vertical, and an IMU ``imu_at`` m along it."""
    model = f"""
    <mujoco><worldbody><body name="rod" pos="0 0 2"><joint name="pivot" axis="0 1 0"/>
      <inertial pos="0 0 {-length}" mass="1" diaginertia="1e-9 1e-9 1e-9"/>
    </body></worldbody></mujoco>"""
    scene = sn.Scene(dt=0.001, substeps=2, gravity=(0, 0, -G), integrator="rk4")
    robot = scene.add_robot(model, name="pendulum")
    imu = scene.add_sensor(sn.IMU(link="rod", pos=(0, 0, -imu_at)))
    scene.build(n_envs=1)
    robot.set_joint_positions(torch.tensor([[angle]]))
    scene.forward()
    return scene, imu


@pytest.mark.parametrize("imu_at", [0.2, 0.7, 1.0])
def test_pendulum(imu_at):
    """Along the rod the IMU measures the tension; across it 0 at the mass, and g sin(angle) at the pivot."""
    length, angle = 0.7, 0.9
    scene, imu = pendulum(length, angle, imu_at)
    for _ in range(600):
        rate = float(scene.world.bind("qvel")[0, 0])
        theta = float(scene.world.bind("qpos")[0, 0])
        acc = imu.read().lin_acc[0].double()
        across = -G * math.sin(theta) * (1 - imu_at / length)
        along = G * math.cos(theta) + imu_at * rate**2
        # accelerations are those of the last substep, 0.5 ms ago
        assert acc.tolist() == pytest.approx([across, 0.0, along], abs=0.05)
        assert imu.read().ang_vel[0].tolist() == pytest.approx([0.0, rate, 0.0], abs=1e-5)
        scene.step()
    energy = 0.5 * length**2 * rate**2 - G * length * math.cos(theta)
    assert energy == pytest.approx(-G * length * math.cos(angle), abs=1e-3)


def test_an_accelerating_disc_has_centripetal_and_tangential_acceleration():
    torque, inertia, r = 0.4, 0.05, 0.3
    model = f"""
    <mujoco><worldbody><body name="disc"><joint name="axle" axis="0 0 1"/>
      <inertial pos="0 0 0" mass="1" diaginertia="0.025 0.025 {inertia}"/>
    </body></worldbody><actuator><motor joint="axle"/></actuator></mujoco>"""
    scene = sn.Scene(dt=0.01, substeps=10, gravity=(0, 0, -G))
    robot = scene.add_robot(model, name="disc")
    imu = scene.add_sensor(sn.IMU(link="disc", pos=(r, 0, 0)))
    scene.build(n_envs=2)
    robot.set_ctrl(torch.tensor([torque]))
    alpha = torque / inertia
    for step in range(1, 51):
        scene.step()
        rate = alpha * (0.01 * step - 0.001)  # at the start of the last substep, like the acceleration
        assert imu.read().lin_acc[0].tolist() == pytest.approx([-(rate**2) * r, alpha * r, G], rel=1e-4, abs=1e-4)
        assert imu.read().ang_vel[1].tolist() == pytest.approx([0, 0, alpha * 0.01 * step], rel=1e-4, abs=1e-5)


def test_a_falling_spinning_plate_measures_the_lever_arm_only():
    rate, arm = 7.0, (0.2, -0.1, 0.0)
    scene = sn.Scene(dt=0.01, substeps=5, gravity=(0, 0, -G))
    plate = scene.add_object(sn.Box(size=(0.6, 0.6, 0.02), mass=1.0), name="plate", pos=(0, 0, 9), free=True)
    middle = scene.add_sensor(sn.IMU(link="plate", uuid="middle"))
    corner = scene.add_sensor(sn.IMU(link="plate", uuid="corner", pos=arm))
    scene.build(n_envs=1)
    qvel = scene.world.bind("qvel")
    qvel[:, 5] = rate
    scene.forward()
    for _ in range(30):
        scene.step()
        assert middle.read().lin_acc[0].tolist() == pytest.approx([0, 0, 0], abs=1e-3)
        expected = [-(rate**2) * arm[0], -(rate**2) * arm[1], 0.0]
        assert corner.read().lin_acc[0].tolist() == pytest.approx(expected, abs=1e-3)
    assert plate.get_pose()[0][0, 2] < 9
