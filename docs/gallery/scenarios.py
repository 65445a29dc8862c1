"""Draw the pictures of docs/scenarios.md and docs/robots.md.

.venv/bin/python docs/gallery/scenarios.py
"""

from __future__ import annotations

import mujoco
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from saving import save_figure, save_image

import sensorium as sn

COLOURS = ("#3a78b0", "#e08a2c", "#4c9a55")
GROUND = ListedColormap(["#ffffff", "#e4e7ea", "#5b6673"])
"""Colours of free cells, of those near obstacles, and of obstacles."""


def drive(name: str, seed: int, seconds: float) -> tuple[sn.scenarios.Scenario, np.ndarray, list[list[np.ndarray]]]:
    """Return the scenario, the tracks (steps, envs, 2), and the planned paths of each env."""
    scene = sn.Scene(dt=0.02)
    scene.add_module("room", sn.scenarios.Room(seed=seed))
    robot = scene.add_robot("diffdrive", name="robot", rig=sn.robots.SensorRig())
    scene.build(n_envs=len(COLOURS))
    scenario = sn.scenarios.make(name, scene, robot, seed=seed)
    tracks, plans = [], [[] for _ in COLOURS]
    for _ in range(round(seconds / scene.dt)):
        tracks.append(robot.get_pose()[0][:, :2].numpy().copy())
        scenario.step()
        scene.step()
        for env, known in enumerate(plans):
            if name == "random-path":
                plan = scenario.path.value[env, : scenario.corners.value[env]].numpy().copy()
                if not known or not np.array_equal(known[-1], plan):
                    known.append(plan)
    return scenario, np.array(tracks), plans


def ways() -> None:
    """Draw a map with planned and driven paths, and the tracks of random acceleration."""
    figure = Figure(figsize=(10, 4.9), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    by_path, tracks, plans = drive("random-path", seed=6, seconds=50)
    _, wandering, _ = drive("random-acceleration", seed=6, seconds=50)
    room, wide = by_path.map, by_path.planner.room
    cells = np.where(room.cells == 100, 2, np.where(wide.cells == 100, 1, 0))
    (left, bottom), (right, top) = room.to_world([[room.shape[0] - 1, 0], [0, room.shape[1] - 1]])
    half = room.resolution / 2
    extent = (left - half, right + half, bottom - half, top + half)
    for axis, driven, title in zip(axes, (tracks, wandering), ("random-path", "random-acceleration"), strict=True):
        axis.imshow(cells, cmap=GROUND, vmin=0, vmax=2, extent=extent, interpolation="nearest")
        for env, colour in enumerate(COLOURS):
            axis.plot(*driven[:, env].T, color=colour, lw=2)
            axis.plot(*driven[0, env], "o", color=colour, ms=8, mec="white", mew=1)
        axis.set_title(title, fontsize=11)
        axis.set_xlabel("x, m")
        axis.spines[:].set_visible(False)
        axis.tick_params(length=0)
    axes[0].set_ylabel("y, m")
    for env, colour in enumerate(COLOURS):
        for plan in plans[env]:
            axes[0].plot(*plan.T, color=colour, lw=1, ls=(0, (4, 2)))
            axes[0].plot(*plan[-1], "*", color=colour, ms=12, mec="white", mew=0.8)
    grey = {"color": "0.35"}
    figure.legend(
        handles=[
            *(Line2D([], [], color=colour, lw=2, label=f"env {env}") for env, colour in enumerate(COLOURS)),
            Line2D([], [], ls=(0, (4, 2)), lw=1, label="planned", **grey),
            Line2D([], [], ls="", marker="o", ms=8, label="start", **grey),
            Line2D([], [], ls="", marker="*", ms=12, label="goal", **grey),
        ],
        loc="outside lower center",
        ncols=6,
        frameon=False,
        fontsize=9,
    )
    save_figure(figure, "scenarios")


def portraits() -> None:
    """Draw both robots side by side."""
    scene = sn.Scene()
    scene.add_object(sn.Plane(rgba=(0.82, 0.83, 0.85, 1)), name="ground")
    scene.add_robot("diffdrive", name="left", pos=(0, 0.3, 0), yaw=-0.4)
    scene.add_robot("holonomic", name="right", pos=(0, -0.3, 0), yaw=0.4)
    scene.build()
    scene.model.vis.global_.fovy = 18
    view = mujoco.MjvCamera()
    view.lookat[:], view.distance, view.azimuth, view.elevation = (0.02, 0, 0.07), 2.1, 180, -24
    save_image(scene.snapshot(width=960, height=400, camera=view), "robots")


if __name__ == "__main__":
    ways()
    portraits()
