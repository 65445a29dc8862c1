"""Draw the pictures of docs/sensors/robot.md.

.venv/bin/python docs/gallery/robot.py
"""

import math
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch

import sensorium as sn

PICTURES = Path(__file__).parent.parent / "pictures"

ARM = """
<mujoco model="arm"><worldbody>
  <body name="upper" pos="0 0 1"><joint name="shoulder" axis="0 1 0" damping="0.5"/>
    <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.03" mass="1"/>
    <body name="hand" pos="0.4 0 0"><geom type="sphere" size="0.04" pos="0.1 0 0" mass="0.7"/></body></body></worldbody>
  <actuator><position name="servo" joint="shoulder" kp="150" kv="15"/></actuator></mujoco>
"""
CART = """
<mujoco model="cart"><worldbody><body name="cart" pos="0 0 0.1"><freejoint/>
  <geom type="box" size="0.2 0.1 0.03" mass="5"/>
  <geom type="sphere" size="0.05" pos="-0.15 0 -0.05" friction="0.001 0 0" mass="0.1" priority="1"/>
  <body name="l" pos="0 0.2 0"><joint name="left" axis="0 1 0" damping="0.05"/>
    <geom type="cylinder" size="0.1 0.02" euler="90 0 0" mass="0.5"/></body>
  <body name="r" pos="0 -0.2 0"><joint name="right" axis="0 1 0" damping="0.05"/>
    <geom type="cylinder" size="0.1 0.02" euler="90 0 0" mass="0.5"/></body></body></worldbody>
<actuator><velocity name="vl" joint="left" kv="0.2"/><velocity name="vr" joint="right" kv="0.2"/></actuator></mujoco>
"""


def figure(columns: int = 1, width: float = 8.2, height: float = 2.9):
    """Return a figure with one row of axes, and the axes."""
    made, axes = plt.subplots(1, columns, figsize=(width, height), layout="constrained", squeeze=False)
    for axis in axes[0]:
        axis.grid(alpha=0.3)
    return made, axes[0]


def save(made, name: str) -> None:
    """Write a figure to docs/pictures."""
    made.savefig(PICTURES / f"{name}.png", dpi=90)
    plt.close(made)


def wrench() -> None:
    """Draw the torque of a servo that swings an arm, and the force at the wrist with and without tool compensation."""
    scene = sn.Scene(dt=0.01)
    arm = scene.add_robot(ARM, name="arm")
    torque = scene.add_sensor(sn.JointTorque(robot="arm", noise=0.1))
    tool = {"tool_mass": 0.7, "tool_com": (0.1, 0, 0)}
    sensors = {
        "wrist": sn.ForceTorque(link="hand", uuid="wrist", force_noise=0.05),
        "less its weight": sn.ForceTorque(link="hand", uuid="weight", force_noise=0.05, **tool),
        "less its inertia too": sn.ForceTorque(link="hand", uuid="all", force_noise=0.05, tool_inertia=True, **tool),
    }
    wrists = {name: scene.add_sensor(options) for name, options in sensors.items()}
    scene.build()
    times, torques, forces = [], [], {name: [] for name in wrists}
    for step in range(400):
        arm.set_ctrl([0.8 * math.sin(step * 0.03) if step < 210 else 0.0])
        scene.step()
        times.append(scene.time.item())
        torques.append((torque.read().item(), torque.read_ground_truth().item()))
        for name, sensor in wrists.items():
            forces[name].append(sensor.read().force[0, 2].item())
    made, axes = figure(2)
    axes[0].plot(times, [measured for measured, _ in torques], color="tab:red", lw=0.8, label="measured")
    axes[0].plot(times, [truth for _, truth in torques], color="black", lw=1, label="ground truth")
    axes[0].set_title("shoulder torque [N·m]", fontsize=10)
    for name, values in forces.items():
        axes[1].plot(times, values, lw=0.9, label=name)
    axes[1].set_title("force along the hand's z axis [N]", fontsize=10)
    for axis in axes:
        axis.set_xlabel("time [s]")
        axis.legend(fontsize=8)
    save(made, "robot_wrench")


def battery_clock() -> None:
    """Draw a battery under load, and the clocks of several envs."""
    scene = sn.Scene(dt=0.02)
    arm = scene.add_robot(ARM, name="arm")
    battery = scene.add_sensor(
        sn.BatteryState(robot="arm", capacity=0.05, idle_power=10.0, internal_resistance=0.15, voltage_noise=0.02)
    )
    clock = scene.add_sensor(sn.Clock(noise=2e-5))
    scene.build(n_envs=3)
    clock.set(drift=torch.tensor([[20.0], [-35.0], [5.0]]), offset=torch.tensor([[0.0], [1e-4], [-2e-4]]))
    rows = []
    for step in range(1000):
        arm.set_ctrl([0.9 * math.sin(step * 0.25) if step % 400 > 150 else 0.0])
        scene.step()
        reading, error = battery.read(), (clock.read() - clock.read_ground_truth())[:, 0]
        rows.append([scene.time[0].item(), reading.voltage[0].item(), 100 * reading.charge[0].item(), *error.tolist()])
    times, voltage, charge, *errors = np.array(rows).T
    made, axes = figure(2)
    axes[0].plot(times, voltage, lw=0.7, color="tab:blue")
    axes[0].set_ylabel("voltage [V]", color="tab:blue")
    right = axes[0].twinx()
    right.plot(times, charge, color="tab:orange")
    right.set_ylabel("charge [%]", color="tab:orange")
    for env, error in enumerate(errors):
        axes[1].plot(times, 1e3 * error, lw=0.7, label=f"env {env}")
    axes[1].set_ylabel("stamp − time [ms]")
    axes[1].legend(fontsize=8)
    for axis in axes:
        axis.set_xlabel("time [s]")
    save(made, "robot_battery_clock")


def gps() -> None:
    """Draw GPS readings along a figure of eight with a tunnel."""
    scene = sn.Scene(dt=0.1, substeps=1, gravity=(0, 0, 0))
    drone = scene.add_object(sn.Box(), name="drone", pos=(0, 0, 30), free=True)
    options = sn.GPS(
        link="drone", origin=(47.0, 8.0, 408.0), horizontal_error=2.0, error_time_constant=30.0, noise=0.2, rate=2.0
    )
    receiver = scene.add_sensor(options)
    scene.build()
    rows = []
    for step in range(1200):
        angle = step * 2 * math.pi / 1200
        velocity = torch.tensor([50 * math.cos(angle), 50 * math.cos(2 * angle), 0.0]) * 2 * math.pi / 120
        scene.world.bind("qvel")[0, :3] = velocity.double()
        receiver.set(visible=not 500 < step < 650)
        scene.step()
        reading, (position, _) = receiver.read(), drone.get_pose()
        # 6,369,354 m is the radius of curvature of the meridian at that latitude
        north = math.radians(reading.latitude.item() - 47.0) * 6_369_354
        east = math.radians(reading.longitude.item() - 8.0) * 6_390_000 * math.cos(math.radians(47.0))
        rows.append([*position[0, :2].tolist(), east, north, reading.fix.item()])
    x, y, east, north, fix = np.array(rows).T
    made, axes = figure(2, height=3.2)
    axes[0].plot(x, y, color="black", lw=1, label="true")
    axes[0].plot(east[fix > 0], north[fix > 0], ".", ms=2, color="tab:red", label="GPS")
    axes[0].plot(east[fix == 0], north[fix == 0], "x", ms=7, color="tab:blue", label="held in the tunnel")
    axes[0].set_xlabel("east [m]")
    axes[0].set_ylabel("north [m]")
    axes[0].set_ylim(-32, 62)
    times = 0.1 * np.arange(len(x))
    error = np.where(fix > 0, east - x, np.nan), np.where(fix > 0, north - y, np.nan)
    axes[1].plot(times, error[0], lw=0.8, label="east")
    axes[1].plot(times, error[1], lw=0.8, label="north")
    axes[1].axvspan(50, 70, color="tab:blue", alpha=0.1, label="no fix")
    axes[1].set_xlabel("time [s]")
    axes[1].set_ylabel("error [m]")
    for axis in axes:
        axis.legend(fontsize=8, loc="upper center", ncols=3)
    axes[1].set_ylim(-6, 7)
    save(made, "robot_gps")


def air_compass() -> None:
    """Draw a barometer during a climb, and a compass during a full turn."""
    scene = sn.Scene(dt=0.05, substeps=1, gravity=(0, 0, 0))
    drone = scene.add_object(sn.Box(), name="drone", free=True)
    air = scene.add_sensor(sn.Barometer(link="drone", origin_altitude=400.0, noise=4.0))
    iron = ((1.1, 0.08, 0), (0.08, 0.9, 0), (0, 0, 1.0))
    compass = scene.add_sensor(sn.Magnetometer(link="drone", bias=(4e-6, -2e-6, 0), soft_iron=iron, noise=1e-7))
    scene.build()
    rows = []
    for step in range(400):
        height, yaw = 2 * (1 - math.cos(step * math.pi / 200)), step * 2 * math.pi / 400
        drone.set_pose(pos=(0, 0, height), quat=(math.cos(yaw / 2), 0, 0, math.sin(yaw / 2)))
        scene.step()
        truth, heading = compass.read_ground_truth().heading.item(), compass.read().heading.item()
        error = math.degrees(math.remainder(heading - truth, 2 * math.pi))
        rows.append([step * 0.05, height + 400, air.read().altitude.item(), math.degrees(yaw), error])
    times, height, altitude, yaw, error = np.array(rows).T
    made, axes = figure(2)
    axes[0].plot(times, altitude, color="tab:red", lw=0.7, label="barometer, 4 Pa of noise")
    axes[0].plot(times, height, color="black", lw=1, label="true")
    axes[0].set_xlabel("time [s]")
    axes[0].set_ylabel("altitude [m]")
    axes[0].legend(fontsize=8)
    axes[1].plot(yaw, error, lw=0.9)
    axes[1].set_xlabel("yaw [°]")
    axes[1].set_ylabel("error of the heading [°]")
    axes[1].set_title("hard and soft iron", fontsize=10)
    save(made, "robot_air_compass")


def odometry_flow() -> None:
    """Draw the odometry of a cart in circles, with an error of the right wheel's radius, and the flow of a landing."""
    scene = sn.Scene(dt=0.02)
    scene.add_terrain(sn.Plane())
    cart = scene.add_robot(CART, name="cart")
    options = sn.WheelOdometry(left="left", right="right", radius=0.1, track=0.4, right_radius_error=0.02)
    odometry = scene.add_sensor(options)
    where = scene.add_sensor(sn.FramePose(link="cart/cart"))
    scene.build()
    cart.set_ctrl([3.0, 6.0])
    rows = []
    for _ in range(1000):
        scene.step()
        believed, exact, true = odometry.read().pos, odometry.read_ground_truth().pos, where.read().pos
        rows.append([*true[0, :2].tolist(), *exact[0].tolist(), *believed[0].tolist()])
    path = np.array(rows).T
    made, axes = figure(2, height=3.2)
    labels = ("true", "odometry (wheels slip a little)", "with 2% error of the right wheel")
    for (x, y), label in zip(path.reshape(3, 2, -1), labels, strict=True):
        axes[0].plot(x, y, lw=1, label=label)
    axes[0].set_xlim(-2.6, 2.6)
    axes[0].set_ylim(-0.2, 3.3)
    axes[0].set_xlabel("x [m]")
    axes[0].set_ylabel("y [m]")
    axes[0].legend(fontsize=7, loc="upper center")

    scene = sn.Scene(dt=0.02, substeps=1, gravity=(0, 0, 0))
    scene.add_terrain(sn.Plane())
    scene.add_object(sn.Box(), name="drone", pos=(0, 0, 6.0), free=True)
    flow = scene.add_sensor(sn.OpticalFlow(link="drone", noise=0.03, max_range=5.0, min_range=0.3))
    scene.build()
    rows = []
    for step in range(590):
        scene.world.bind("qvel")[0] = torch.tensor([0.8, 0, -0.5, 0, 0.3 * math.sin(step * 0.1), 0]).double()
        scene.step()
        reading = flow.read()
        rows.append([step * 0.02, reading.flow[0, 0].item(), reading.distance.item(), reading.quality.item()])
    times, rate, distance, quality = np.array(rows).T
    axes[1].plot(times, rate, lw=0.7, label="flow along x [rad/s]")
    axes[1].plot(times, distance, lw=1, label="distance [m]")
    axes[1].fill_between(times, -3, 6, where=quality == 0, color="gray", alpha=0.2, label="out of range")
    axes[1].set_ylim(-3, 6)
    axes[1].set_xlabel("time [s]")
    axes[1].legend(fontsize=8)
    save(made, "robot_odometry_flow")


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for draw in (wrench, battery_clock, gps, air_compass, odometry_flow):
        draw()
