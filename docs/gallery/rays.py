"""Draw the pictures of docs/sensors/rays.md.

.venv/bin/python docs/gallery/rays.py
"""

import math
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import sensorium as sn

PICTURES = Path(__file__).parent.parent / "pictures"
INK, TRUTH, MEASURED = "#30343b", "#9aa3ad", "#c8502d"


def hall(**options) -> sn.Scene:
    """Return a scene with a hall of 8 x 6 m with pillars, crates and a ball."""
    scene = sn.Scene(**{"dt": 0.01, "gravity": (0, 0, 0), **options})
    scene.add_object(sn.Plane())
    for x, y, sx, sy in ((4.1, 0, 0.2, 6.4), (-4.1, 0, 0.2, 6.4), (0, 3.1, 8.4, 0.2), (0, -3.1, 8.4, 0.2)):
        scene.add_object(sn.Box(size=(sx, sy, 2.5)), pos=(x, y, 1.25))
    for x, y in ((2.0, 1.5), (2.0, -1.5), (-2.0, 1.5)):
        scene.add_object(sn.Cylinder(radius=0.2, height=2.5), pos=(x, y, 1.25))
    scene.add_object(sn.Box(size=(0.9, 0.6, 0.8)), pos=(-2.2, -1.6, 0.4), euler=(0, 0, 0.5))
    scene.add_object(sn.Sphere(radius=0.35), pos=(1.0, 0.4, 0.35))
    scene.add_object(sn.Cylinder(radius=0.15, height=0.1), name="base", pos=(0, 0, 0.5), free=True)
    return scene


def lidar() -> None:
    """Draw ground truth and measurement from above, and the distortion of a scan while the robot drives a curve."""
    scene = hall()
    scan = scene.add_sensor(
        sn.Lidar(
            link="base",
            max_range=20.0,
            noise=0.02,
            noise_per_metre=0.01,
            ray_dropout=0.1,
            no_hit=float("nan"),
            pattern=sn.RingPattern(n_points=720),
        )
    )
    scene.build()
    scene.step()
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6))
    for reading, colour, size, label in (
        (scan.read_ground_truth(), TRUTH, 8, "ground truth"),
        (scan.read(), MEASURED, 4, "measured"),
    ):
        x, y, _ = reading.points[0].T
        axes[0].scatter(x, y, s=size, color=colour, linewidths=0, label=label)
    axes[0].plot(0, 0, marker="+", color=INK)
    axes[0].legend(loc="center", bbox_to_anchor=(0.5, 0.82), fontsize=8, markerscale=2)
    axes[0].set_title("noise that grows with range, lost returns", fontsize=10)

    shapes = curve(scan_rate=None), curve(scan_rate=10.0)
    for points, colour, label in zip(shapes, (TRUTH, MEASURED), ("taken at once", "taken in 0.1 s"), strict=True):
        axes[1].scatter(points[:, 0], points[:, 1], s=4, color=colour, linewidths=0, label=label)
    axes[1].plot(0, 0, marker="+", color=INK)
    axes[1].legend(loc="center", bbox_to_anchor=(0.68, 0.69), fontsize=8, markerscale=2)
    axes[1].set_title("scanning while turning at 3 rad/s", fontsize=10)
    for axis in axes:
        axis.set_aspect("equal")
        axis.set_xlabel("x [m]")
        axis.set_ylabel("y [m]")
    save(figure, "rays_lidar")


def curve(scan_rate: float | None) -> np.ndarray:
    """Return the points of one revolution of 0.1 s, in the frame of a lidar that turns and drives."""
    scene = hall(dt=0.001, substeps=1)
    pattern = sn.RingPattern(n_points=720)
    scan = scene.add_sensor(sn.Lidar(link="base", scan_rate=scan_rate, no_hit=float("nan"), pattern=pattern))
    scene.build()
    speed = scene.world.bind("qvel")
    speed[:, 0], speed[:, 5] = 3.0, 3.0  # m/s along x, rad/s about z
    scene.step(count=100)
    return scan.read().points[0].numpy()


def images() -> None:
    """Draw a depth image, and a height scan of a stair."""
    scene = hall()
    camera = scene.add_sensor(
        sn.DepthCamera(link="base", pos=(0, 0, 0.3), euler=(0, 0.15, 0), width=160, height=100, fov=90)
    )
    scene.build()
    scene.step()
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), width_ratios=(1.5, 1))
    shown = axes[0].imshow(camera.read()[0], cmap="magma_r", vmin=0.5, vmax=4.5)
    axes[0].set_title("depth camera, 160 x 100", fontsize=10)
    axes[0].set_xticks([])
    axes[0].set_yticks([])
    figure.colorbar(shown, ax=axes[0], label="depth [m]", shrink=0.85)

    scene = sn.Scene(dt=0.01, gravity=(0, 0, 0))
    scene.add_object(sn.Plane())
    for i in range(4):
        scene.add_object(sn.Box(size=(0.25, 2, 0.15 * (i + 1))), pos=(0.225 + 0.25 * i, 0, 0.075 * (i + 1)))
    scene.add_object(sn.Box(size=(0.4, 0.2, 0.1)), name="base", pos=(0, 0, 0.8), euler=(0.2, 0.1, 0.4), free=True)
    scan = scene.add_sensor(
        sn.Raycaster(
            link="base", alignment="yaw", frame="world", pattern=sn.GridPattern(size=(1.6, 1.0), resolution=0.1)
        )
    )
    scene.build()
    x, y, z = scan.read().points[0].flatten(0, 1).T
    dots = axes[1].scatter(x, y, c=z, cmap="viridis", s=26)
    axes[1].annotate("", (0.5 * math.cos(0.4), 0.5 * math.sin(0.4)), (0, 0), arrowprops={"color": INK, "width": 1.5})
    axes[1].set_aspect("equal")
    axes[1].set_title("height scan of a stair", fontsize=10)
    axes[1].set_xlabel("x [m]")
    axes[1].set_ylabel("y [m]")
    figure.colorbar(dots, ax=axes[1], label="height [m]", shrink=0.85)
    save(figure, "rays_images")


def power() -> None:
    """Draw point clouds coloured by power in clear air and in fog, and a rosette after one reading and after ten."""
    figure = plt.figure(figsize=(9, 6.4))
    scene = hall()
    sign = sn.Box(size=(0.02, 0.6, 0.6), rgba=(0.9, 0.1, 0.1, 1))
    scene.add_object(sign, name="sign", pos=(3.9, 0.0, 1.6))
    scan = scene.add_sensor(
        sn.Lidar(
            link="base",
            pos=(0, 0, 0.4),
            pattern=sn.SphericalPattern(fov=(360, (-35, 25)), n_points=(720, 96)),
            returns=("distances", "points", "intensity"),
            threshold=0.1 / 9.0**2,
            retro_reflectors={"sign": 20.0},
            no_hit=float("nan"),
        )
    )
    scene.build()
    for place, title, fog in ((1, "clear air", 0.0), (3, "fog, visibility 6 m", sn.units.from_visibility(6.0))):
        scan.set(extinction=fog)
        scene.step()
        reading = scan.read()
        points, strength = reading.points[0].flatten(0, 1).numpy(), reading.intensity[0].flatten().numpy()
        seen = strength > 0
        axes = figure.add_subplot(2, 2, place, projection="3d")
        x, y, z = points[seen].T
        colour = np.log10(strength[seen])
        dots = axes.scatter(x, y, z, c=colour, s=1.2, cmap="viridis", vmin=-3, vmax=0.5, linewidths=0)
        axes.view_init(38, -125)
        axes.set_box_aspect((8, 6, 2.5), zoom=1.35)
        axes.set_axis_off()
        axes.set_title(f"{title}: {seen.mean():.0%} of the beams return", fontsize=10)
        figure.colorbar(dots, ax=axes, label="log10 of the power", shrink=0.6)

    pattern = sn.RosettePattern()
    for place, count in ((2, 1), (4, 10)):
        axes = figure.add_subplot(2, 2, place)
        x, y, z = np.concatenate([pattern.frame_rays(frame)[1] for frame in range(count)]).T
        axes.scatter(-np.degrees(np.arctan2(y, x)), np.degrees(np.arcsin(z)), s=0.25, color=MEASURED, linewidths=0)
        axes.set_aspect("equal")
        axes.set_xlabel("to the right [°]")
        axes.set_ylabel("up [°]")
        axes.set_title(f"rosette after {0.1 * count:g} s", fontsize=10)
    save(figure, "rays_power")


def save(figure: plt.Figure, name: str) -> None:
    """Write a figure to docs/pictures."""
    PICTURES.mkdir(exist_ok=True)
    figure.tight_layout()
    figure.savefig(PICTURES / f"{name}.png", dpi=90)
    plt.close(figure)


def main() -> None:
    """Draw all pictures."""
    lidar()
    images()
    power()


if __name__ == "__main__":
    main()
