"""Drive a rover with lidar, height scan, a heated deck, an IMU and odometry; print its sensors and plot them.

python examples/rover.py --out out --envs 16
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

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


@dataclass
class Options:
    """Options of the example."""

    out: Path = Path("out")
    """Folder of the figures."""
    envs: int = 16
    """Number of envs."""


def main(options: Options) -> None:
    """Drive for 2 s among boxes."""
    scene = sn.Scene(dt=0.01, substeps=5)
    scene.add_object(sn.Plane(), name="ground")
    rng = np.random.default_rng(3)
    for i in range(14):
        angle, distance, height = rng.uniform(0, 2 * np.pi), rng.uniform(1.5, 4), rng.uniform(0.2, 1.2)
        pos = (distance * np.cos(angle), distance * np.sin(angle), height / 2)
        scene.add_object(sn.Box(size=(0.4, 0.4, height), rgba=(0.4, 0.5, 0.6, 1)), name=f"box{i}", pos=pos)
    rover = scene.add_robot(ROVER, name="rover")

    scan = sn.SphericalPattern(fov=(360, 30), n_points=(360, 16))
    lidar = scene.add_sensor(
        sn.Lidar(link="base", pos=(0, 0, 0.3), max_range=20.0, noise=0.01, exclude_self=True, pattern=scan)
    )
    grid = sn.GridPattern(size=(1.6, 1.0), resolution=0.1)
    scene.add_sensor(sn.Raycaster(link="base", pos=(0.5, 0, 1.0), alignment="yaw", exclude_self=True, pattern=grid))
    heat = (100.0, *[0.0] * 15)  # W, in one corner
    deck = scene.add_sensor(sn.TemperatureGrid(link="plate", grid_size=(4, 4, 1), sensor_time_constant=0.5, heat=heat))
    imu = scene.add_sensor(sn.presets.imu("consumer_mems", link="base", draw_debug=True))
    odometry = scene.add_sensor(sn.WheelOdometry(left="left", right="right", radius=0.08, track=0.3))
    scene.build(n_envs=options.envs, seed=0)
    rover.set_ctrl([4.0, 6.0])

    trace = sn.Trace(imu, odometry)
    for _ in range(200):
        scene.step()
        trace.take()
    print(scene.describe())
    print(f"\nnearest return {lidar.read().distances[0].min():.2f} m, deck up to {deck.read()[0].max():.1f} °C")
    trace.plot(options.out / "rover_trace.png")
    lidar.plot(path=options.out / "rover_lidar.png")
    deck.plot(path=options.out / "rover_heat.png")
    print(f"figures in {options.out}/: rover_lidar.png, rover_heat.png, rover_trace.png")


if __name__ == "__main__":
    main(tyro.cli(Options))
