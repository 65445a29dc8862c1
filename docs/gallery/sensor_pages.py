"""Draw two pictures for each page of sensors: NAME_plot.png, measured against true, and NAME_at_work.png.

Names are robot, rays, touch, temperature, cameras and presets. The pictures at work are snapshots with what sensors
with ``draw_debug=True`` measure.

.venv/bin/python docs/gallery/sensor_pages.py [NAME ...]
"""

from __future__ import annotations

import sys

import mujoco
import numpy as np
from matplotlib.figure import Figure
from saving import save_figure, save_image

import sensorium as sn

SIZE = {"width": 800, "height": 450}
GROUND = sn.Plane(rgba=(0.62, 0.63, 0.65, 1))
BLUE, GREEN, SAND, RED = (0.36, 0.53, 0.68, 1), (0.55, 0.68, 0.45, 1), (0.8, 0.68, 0.45, 1), (0.8, 0.4, 0.32, 1)

ARM = """
<mujoco><default><geom contype="0" conaffinity="0"/></default><worldbody>
  <geom type="cylinder" size="0.06 0.25" pos="0 0 0.25" rgba="0.3 0.32 0.36 1"/>
  <body name="upper" pos="0 0 0.55"><joint name="shoulder" axis="0 1 0" damping="8" armature="0.1"/>
    <geom type="capsule" fromto="0 0 0 0.35 0 0" size="0.035" mass="1" rgba="0.85 0.5 0.2 1"/>
    <body name="hand" pos="0.35 0 0"><joint name="elbow" axis="0 1 0" damping="3" armature="0.1"/>
      <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.03" mass="0.4" rgba="0.85 0.85 0.88 1"/>
      <geom type="sphere" size="0.05" pos="0.25 0 0" mass="0.5" rgba="0.36 0.53 0.68 1"/></body></body></worldbody>
  <actuator><position joint="shoulder" kp="200"/><position joint="elbow" kp="100"/></actuator></mujoco>
"""


def look(at: tuple[float, ...], distance: float, azimuth: float = 140, elevation: float = -25) -> mujoco.MjvCamera:
    """Return a camera that looks at a point."""
    view = mujoco.MjvCamera()
    view.lookat[:] = at
    view.distance, view.azimuth, view.elevation = distance, azimuth, elevation
    return view


def trace(scene: sn.Scene, steps: int, *sensors: sn.sensors.Sensor) -> Figure:
    """Step a scene and return the plot of sensors over time."""
    found = sn.Trace(*sensors)
    for _ in range(steps):
        scene.step()
        found.take()
    return found.plot()


def robot() -> None:
    """Draw an arm that swings, with an IMU and a force/torque sensor in its hand, and encoders."""
    scene = sn.Scene(dt=0.01, substeps=5)
    scene.add_object(GROUND, name="ground")
    arm = scene.add_robot(ARM, name="arm")
    imu = scene.add_sensor(sn.IMU(link="hand", pos=(0.1, 0, 0), acc_noise=0.3, delay=0.04, draw_debug=True))
    wrist = scene.add_sensor(sn.ForceTorque(link="hand", force_noise=0.3, torque_noise=0.02, draw_debug=True))
    encoder = scene.add_sensor(sn.JointEncoder(counts_per_revolution=64, vel_noise=0.1, rate=50))
    scene.build(seed=1)
    found = sn.Trace(imu, wrist, encoder)
    for step in range(200):
        arm.set_ctrl([0.6 * np.sin(0.04 * step), 0.8 * np.sin(0.06 * step)])
        scene.step()
        found.take()
    save_figure(found.plot(), "robot_plot", dpi=70)
    save_image(scene.snapshot(**SIZE, camera=look((0.3, 0, 0.55), 1.7, 120, -12)), "robot_at_work")


def rays() -> None:
    """Draw a cart with a lidar, a height scan of the steps before it, and the plot of the lidar."""
    scene = sn.Scene(dt=0.01)
    scene.add_object(GROUND, name="ground")
    cart = sn.Box(size=(0.4, 0.3, 0.15), rgba=RED)
    scene.add_object(cart, name="cart", pos=(0, 0, 0.08), free=True)
    for step in range(3):
        box = sn.Box(size=(0.5 - 0.15 * step, 1.0, 0.1 * (step + 1)), rgba=GREEN)
        scene.add_object(box, name=f"step{step}", pos=(0.95 + 0.075 * step, 0, 0.05 * (step + 1)))
    for number, (x, y) in enumerate(((-0.9, 1.1), (0.3, -1.5), (-1.4, -0.6), (0.6, 1.6))):
        box = sn.Box(size=(0.35, 0.35, 0.7), rgba=(BLUE, SAND)[number % 2])
        scene.add_object(box, name=f"box{number}", pos=(x, y, 0.35), euler=(0, 0, number))
    lidar = scene.add_sensor(sn.Lidar(link="cart", pos=(0, 0, 0.3), max_range=4, noise=0.02, draw_debug=True))
    pattern = sn.GridPattern(size=(1.0, 0.8), resolution=0.1)
    scene.add_sensor(sn.Raycaster(link="cart", pos=(0.8, 0, 1.0), pattern=pattern, exclude_self=True, draw_debug=True))
    scene.build(seed=1)
    scene.step(20)
    save_figure(lidar.plot(), "rays_plot", dpi=80)
    save_image(scene.snapshot(**SIZE, camera=look((0.2, 0, 0.2), 3.2, 230, -32)), "rays_at_work")


def touch() -> None:
    """Draw a ball that rolls on a pad with taxels."""
    scene = sn.Scene(dt=0.005, substeps=5)
    scene.add_object(GROUND, name="ground")
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.02), rgba=(0.3, 0.32, 0.36, 1)), name="pad", pos=(0, 0, 0.1))
    scene.add_object(sn.Sphere(radius=0.06, mass=0.6, rgba=(0.85, 0.5, 0.3, 0.6)), name="ball", pos=(0.01, 0, 0.17),
                     free=True)  # fmt: skip
    pad = scene.add_sensor(
        sn.TactileArray(link="pad", pos=(0, 0, 0.01), grid=(12, 12), spacing=0.014, radius=0.004, stiffness=400.0,
                        noise=0.004, gain_spread=0.1, draw_debug=True)
    )  # fmt: skip
    scene.build(seed=1)
    scene.step(60)
    scene.entities["ball"].set_velocity((0.15, 0.1, 0.0))
    scene.step(8)
    save_figure(pad.plot(), "touch_plot", dpi=80)
    save_image(scene.snapshot(**SIZE, camera=look((0, 0, 0.15), 0.5, 125, -20)), "touch_at_work")


def temperature() -> None:
    """Draw a hot block on a plate whose cells are shown by their temperature."""
    scene = sn.Scene(dt=0.05)
    scene.add_object(GROUND, name="ground")
    plate = sn.Box(size=(0.3, 0.3, 0.02), mass=5.0, rgba=(0.75, 0.76, 0.8, 1))
    scene.add_object(plate, name="plate", pos=(0, 0, 0.0099), free=True)
    block = sn.Box(size=(0.06, 0.06, 0.06), mass=1.5, rgba=RED)
    scene.add_object(block, name="block", pos=(0.06, 0.06, 0.0497), free=True)
    heat = scene.add_sensor(
        sn.TemperatureGrid(
            link="plate", grid_size=(12, 12, 1), sensor_time_constant=2.0, noise=0.15,
            materials={"plate": "aluminium", "block": "copper", "ground": "wood"}, temperatures={"block": 90.0},
            contact_area=2e-5, draw_debug=True,
        )
    )  # fmt: skip
    scene.build(seed=1)
    save_figure(trace(scene, 200, heat), "temperature_plot", dpi=80)
    save_image(scene.snapshot(**SIZE, camera=look((0, 0, 0.03), 0.6, 215, -35)), "temperature_at_work")


def cameras() -> None:
    """Draw a camera that looks at a table, and its images with the errors of an RGB-D camera."""
    scene = sn.Scene(dt=0.01, sky=((0.35, 0.55, 0.85), (0.92, 0.94, 0.96)))
    scene.add_object(GROUND, name="ground")
    scene.add_object(sn.Box(size=(0.8, 0.6, 0.4), rgba=SAND), name="table", pos=(0, 0, 0.2))
    scene.add_object(sn.Sphere(radius=0.07, rgba=RED), name="ball", pos=(0.1, 0.1, 0.47))
    scene.add_object(sn.Box(size=(0.1, 0.1, 0.16), rgba=BLUE), name="box", pos=(-0.1, -0.1, 0.48), euler=(0, 0, 0.5))
    scene.add_object(sn.Cylinder(radius=0.04, height=0.2, rgba=GREEN), name="can", pos=(-0.12, 0.15, 0.5))
    camera = scene.add_sensor(
        sn.Camera(pos=(0.75, -0.35, 1.0), lookat=(0, 0, 0.42), outputs=("rgb", "depth"), profile="rgbd", fov=42,
                  quality="high", draw_debug=True)
    )  # fmt: skip
    scene.add_light("directional", pos=(0, 0, 3), direction=(-0.4, 0.3, -1), intensity=0.6)
    scene.add_light("directional", pos=(0, 0, 3), direction=(0.6, 0.5, -0.5), intensity=0.35, shadow=False)
    scene.build(seed=1)
    scene.step()
    save_figure(camera.plot(), "cameras_plot", dpi=80)
    save_image(scene.snapshot(**SIZE, camera=look((0.25, -0.1, 0.52), 1.75, 75, -16)), "cameras_at_work")


def presets() -> None:
    """Draw two IMUs on a box that is turned over, and a 2D lidar in a room."""
    scene = sn.Scene(dt=0.005)
    scene.add_object(GROUND, name="ground")
    box = sn.Box(size=(0.2, 0.14, 0.08), mass=1.0, rgba=RED)
    scene.add_object(box, name="box", pos=(0, 0, 0.35), euler=(0.5, 0.3, 0), free=True)
    for number, (x, y) in enumerate(((1.6, 0.0), (-1.6, 0.0), (0.0, 1.2), (0.0, -1.2))):
        wall = sn.Box(size=(0.08, 2.5, 0.3) if x else (3.3, 0.08, 0.3), rgba=SAND)
        scene.add_object(wall, name=f"wall{number}", pos=(x, y, 0.15))
    sensors = [
        scene.add_sensor(sn.presets.imu(part, link="box", uuid=part)) for part in ("consumer_mems", "automotive")
    ]
    scene.add_sensor(sn.presets.lidar("2d", link="box", pos=(0, 0, 0.06), draw_debug=True))
    scene.build(seed=3)
    found = sn.Trace(*sensors)
    for _ in range(300):
        scene.step()
        found.take()
    save_figure(found.plot(), "presets_plot", dpi=70)
    save_image(scene.snapshot(**SIZE, camera=look((0, 0, 0.1), 2.9, 140, -35)), "presets_at_work")


PAGES = {each.__name__: each for each in (robot, rays, touch, temperature, cameras, presets)}

if __name__ == "__main__":
    for name in sys.argv[1:] or PAGES:
        PAGES[name]()
