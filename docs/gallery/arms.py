"""Draw docs/pictures/arms.png, the picture of the arms in docs/robots.md.

.venv/bin/python docs/gallery/arms.py
"""

from __future__ import annotations

import mujoco
import numpy as np
from matplotlib.figure import Figure
from saving import save_figure

import sensorium as sn

WIDTH, HEIGHT = 1200, 460
ARMS = {  # name -> position, and width of the table that it stands on
    "rby1": ((-0.1, -2.2, 0.0), 0.0),
    "bimanual": ((0.0, -1.1, 0.4), 0.95),
    "floating_gripper": ((0.2, -0.3, 0.25), 0.0),
    "mobile_franka": ((-0.1, 0.35, 0.0), 0.0),
    "franka": ((0.0, 1.2, 0.4), 0.6),
    "yam": ((0.0, 1.95, 0.4), 0.5),
}


def main() -> None:
    """Draw all arms side by side, each at a suitable height and under its name."""
    scene = sn.Scene()
    scene.add_object(sn.Plane(rgba=(0.82, 0.83, 0.85, 1)), name="ground")
    for name, (pos, width) in ARMS.items():
        scene.add_robot(name, name=name, pos=pos)
        if width:
            table = sn.Box(size=(0.6, width, 0.4), rgba=(0.8, 0.68, 0.5, 1))
            scene.add_terrain(table, name=f"table_{name}", pos=(0.15, pos[1], 0.2))
    scene.build()
    scene.model.vis.global_.fovy = 18  # from far away, so that all are seen from the front
    view = mujoco.MjvCamera()
    view.lookat[:], view.distance, view.azimuth, view.elevation = (0.1, -0.1, 0.5), 6.6, 180, -14
    figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(scene.snapshot(width=WIDTH, height=HEIGHT, camera=view))
    axes.set_axis_off()
    for name, ((_, y, _), _) in ARMS.items():
        column = _column(view, scene.model.vis.global_.fovy, (0.15, y, 0.4))
        axes.text(column, 0.88 * HEIGHT, name, ha="center", va="center", fontsize=10, color="0.1")
    save_figure(figure, "arms")


def _column(view: mujoco.MjvCamera, fovy: float, point: tuple[float, float, float]) -> float:
    """Return the column at which a free camera sees a point."""
    azimuth, elevation = np.radians([view.azimuth, view.elevation])
    forward = np.array([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)])
    right = np.array([np.sin(azimuth), -np.cos(azimuth), 0.0])
    towards = np.array(point) - (view.lookat - view.distance * forward)
    focal = HEIGHT / 2 / np.tan(np.radians(fovy) / 2)
    return WIDTH / 2 + float(focal * (towards @ right) / (towards @ forward))


if __name__ == "__main__":
    main()
