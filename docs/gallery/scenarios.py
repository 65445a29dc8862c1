"""Draw the pictures of docs/scenarios.md and docs/robots.md.

.venv/bin/python docs/gallery/scenarios.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import mujoco
import numpy as np

import sensorium as sn

PICTURES = Path(__file__).parent.parent / "pictures"
COLOURS = ("tab:blue", "tab:orange", "tab:green")


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
    figure, axes = plt.subplots(1, 2, figsize=(9.2, 3.7), layout="constrained")
    by_path, tracks, plans = drive("random-path", seed=6, seconds=50)
    _, wandering, _ = drive("random-acceleration", seed=6, seconds=50)
    room, wide = by_path.map, by_path.planner.room
    shades = np.where(room.cells == 100, 0.25, np.where(wide.cells == 100, 0.85, 1.0))
    (left, bottom), (right, top) = room.to_world([[room.shape[0] - 1, 0], [0, room.shape[1] - 1]])
    half = room.resolution / 2
    extent = (left - half, right + half, bottom - half, top + half)
    for axis, driven, title in zip(axes, (tracks, wandering), ("random-path", "random-acceleration"), strict=True):
        axis.imshow(shades, cmap="gray", vmin=0, vmax=1, extent=extent, interpolation="nearest")
        for env, colour in enumerate(COLOURS):
            axis.plot(*driven[:, env].T, color=colour, lw=1.6)
            axis.plot(*driven[0, env], "o", color=colour, ms=6)
        axis.set(title=title, xlabel="x [m]", ylabel="y [m]")
    for env, colour in enumerate(COLOURS):
        for plan in plans[env]:
            axes[0].plot(*plan.T, color=colour, lw=0.9, ls=(0, (4, 2)), alpha=0.9)
            axes[0].plot(*plan[-1], "*", color=colour, ms=9, mec="black", mew=0.5)
    figure.savefig(PICTURES / "scenarios.png", dpi=90)
    plt.close(figure)


def portraits() -> None:
    """Draw both robots in a room."""
    scene = sn.Scene(sky=((0.75, 0.82, 0.9), (0.95, 0.95, 0.95)))
    scene.add_module("room", sn.scenarios.Room(seed=2, size=(6, 5), obstacles=0))
    scene.add_robot("diffdrive", name="left", pos=(0, 0.4, 0), yaw=-0.3)
    scene.add_robot("holonomic", name="right", pos=(0, -0.4, 0), yaw=0.3)
    scene.add_light("directional", direction=(-0.6, 0.3, -1), shadow=True)
    scene.build()
    view = mujoco.MjvCamera()
    view.lookat[:], view.distance, view.azimuth, view.elevation = (0, 0, 0.1), 1.7, 180, -30
    image = scene.snapshot(width=720, height=360, camera=view)
    figure = plt.figure(figsize=(8, 4))
    figure.figimage(image, resize=True)
    figure.savefig(PICTURES / "robots.png", dpi=90, pil_kwargs={"optimize": True})
    plt.close(figure)


if __name__ == "__main__":
    ways()
    portraits()
