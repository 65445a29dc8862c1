"""A rover with lidar, height scan, a heated deck and a phone's IMU, in 16 envs: a table of its sensors, and pictures.

.venv/bin/python examples/rover.py [--out out] [--envs 16]
"""

import argparse
from pathlib import Path

import numpy as np

import sensorium as sn

ROVER = """
<mujoco><worldbody><body name="base" pos="0 0 0.112"><freejoint/>
  <geom type="box" size="0.18 0.12 0.04" mass="3" rgba="0.85 0.5 0.2 1"/>
  <body name="plate" pos="0 0 0.06"><geom type="box" size="0.1 0.1 0.01" mass="0.3" rgba="0.7 0.7 0.75 1"/></body>
  <body name="left" pos="0 0.15 -0.03"><joint name="left" axis="0 1 0" damping="0.05"/>
    <geom type="cylinder" size="0.08 0.025" euler="90 0 0" mass="0.4" rgba="0.15 0.15 0.15 1"/></body>
  <body name="right" pos="0 -0.15 -0.03"><joint name="right" axis="0 1 0" damping="0.05"/>
    <geom type="cylinder" size="0.08 0.025" euler="90 0 0" mass="0.4" rgba="0.15 0.15 0.15 1"/></body>
  <body name="front" pos="0.15 0 -0.07"><geom type="sphere" size="0.04" mass="0.1" friction="0 0 0"/></body>
  <body name="rear" pos="-0.15 0 -0.07"><geom type="sphere" size="0.04" mass="0.1" friction="0 0 0"/></body>
</body></worldbody>
<actuator><velocity joint="left" kv="0.6"/><velocity joint="right" kv="0.6"/></actuator></mujoco>"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of the pictures")
    parser.add_argument("--envs", type=int, default=16, help="how many envs")
    arguments = parser.parse_args()

    scene = sn.Scene(dt=0.01, substeps=5)
    scene.add_object(sn.Plane(), name="ground")
    rng = np.random.default_rng(3)
    for i in range(14):
        angle, away, height = rng.uniform(0, 2 * np.pi), rng.uniform(1.5, 4), rng.uniform(0.2, 1.2)
        pos = (away * np.cos(angle), away * np.sin(angle), height / 2)
        scene.add_object(sn.Box(size=(0.4, 0.4, height), rgba=(0.4, 0.5, 0.6, 1)), name=f"block{i}", pos=pos)
    rover = scene.add_robot(ROVER, name="rover")

    lidar = scene.add_sensor(
        sn.Lidar(
            link="base",
            pos=(0, 0, 0.3),
            max_range=20.0,
            noise=0.01,
            exclude_self=True,
            pattern=sn.SphericalPattern(fov=(360, 30), n_points=(360, 16)),
            draw_debug=True,
        )
    )
    scene.add_sensor(
        sn.Raycaster(
            link="base",
            pos=(0.5, 0, 1.0),
            alignment="yaw",
            exclude_self=True,
            pattern=sn.GridPattern(size=(1.6, 1.0), resolution=0.1),
        )
    )
    heat = scene.add_sensor(
        sn.TemperatureGrid(
            link="plate", grid_size=(4, 4, 1), sensor_time_constant=0.5, heat=[100.0] + [0.0] * 15, draw_debug=True
        )
    )
    imu = scene.add_sensor(sn.presets.imu("consumer_mems", link="base", draw_debug=True))
    odometry = scene.add_sensor(sn.WheelOdometry(left="left", right="right", radius=0.08, track=0.3))
    scene.build(n_envs=arguments.envs, seed=0)
    rover.set_ctrl([4.0, 6.0])

    trace = sn.Trace(imu, odometry)
    for _ in range(200):
        scene.step()
        trace.take()
    print(scene.describe())
    shortest = lidar.read().distances[0].min()
    warmest, coolest = heat.read()[0].max(), heat.read()[0].min()
    print(f"\nnearest return {shortest:.2f} m, deck between {coolest:.1f} and {warmest:.1f} °C")
    trace.plot(arguments.out / "rover_trace.png")
    lidar.plot(path=arguments.out / "rover_lidar.png")
    heat.plot(path=arguments.out / "rover_heat.png")
    try:
        scene.snapshot(path=arguments.out / "rover.png")
    except sn.DeviceError as error:
        print(error)
    print(f"pictures in {arguments.out}/: rover.png, rover_lidar.png, rover_heat.png, rover_trace.png")


if __name__ == "__main__":
    main()
