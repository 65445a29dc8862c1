"""Draw docs/pictures/rover.png: the rover of examples/rover.py and the returns of its lidar.

.venv/bin/python docs/gallery/rover.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import mujoco
import numpy as np
from saving import save_image

import sensorium as sn

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from rover import ROVER

COLOURS = ((0.36, 0.53, 0.68, 1), (0.62, 0.7, 0.5, 1), (0.8, 0.68, 0.45, 1), (0.7, 0.5, 0.5, 1))


def main() -> None:
    """Drive the rover between boxes and draw it."""
    scene = sn.Scene(dt=0.01, substeps=5)
    scene.add_object(sn.Plane(rgba=(0.62, 0.63, 0.65, 1)), name="ground")
    rng = np.random.default_rng(3)
    for i in range(14):
        angle, distance, height = rng.uniform(0, 2 * np.pi), rng.uniform(1.3, 3.2), rng.uniform(0.2, 0.8)
        pos = (distance * np.cos(angle), distance * np.sin(angle), height / 2)
        scene.add_object(sn.Box(size=(0.4, 0.4, height), rgba=COLOURS[i % 4]), name=f"box{i}", pos=pos)
    rover = scene.add_robot(ROVER, name="rover")
    scan = sn.SphericalPattern(fov=(360, 30), n_points=(360, 16))
    scene.add_sensor(
        sn.Lidar(link="base", pos=(0, 0, 0.3), max_range=6, exclude_self=True, pattern=scan, draw_debug=True)
    )
    scene.build()
    rover.set_ctrl([4.0, 6.0])
    scene.step(100)
    view = mujoco.MjvCamera()
    view.lookat[:] = (*rover.base_pose()[0, :2], 0.15)
    view.distance, view.azimuth, view.elevation = 3.4, 205, -34
    save_image(scene.snapshot(width=960, height=540, camera=view), "rover")


if __name__ == "__main__":
    main()
