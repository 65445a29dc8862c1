"""Draw the pictures of docs/sensors/temperature.md.

.venv/bin/python docs/gallery/temperature.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import sensorium as sn

PICTURES = Path(__file__).parent.parent / "pictures"


def plate() -> None:
    """Draw the temperatures of a plate under a hot block, by a fine grid."""
    scene = sn.Scene(dt=0.05)
    scene.add_object(sn.Plane(), name="ground")
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.01), mass=5.0), name="plate", pos=(0, 0, 0.0049), free=True)
    scene.add_object(sn.Box(size=(0.05, 0.05, 0.05), mass=1.5), name="block", pos=(0.04, 0.03, 0.0347), free=True)
    options = sn.TemperatureGrid(
        link="plate",
        grid_size=(24, 24, 1),
        touching=("block",),
        materials={"plate": "aluminium", "block": "copper"},
        temperatures={"block": 90.0},
        contact_area=2e-6,
    )
    heat = scene.add_sensor(options)
    scene.build()
    figure, axes = plt.subplots(1, 3, figsize=(8.2, 2.7), layout="constrained")
    shown = 0
    for axis, seconds in zip(axes, (1, 5, 20), strict=True):
        scene.step(20 * seconds - shown)
        shown = 20 * seconds
        cells = heat.read()[0, :, :, 0].numpy().T
        image = axis.imshow(cells, origin="lower", extent=(-10, 10, -10, 10), cmap="inferno", vmin=20, vmax=70)
        axis.set_title(f"{seconds} s", fontsize=10)
        axis.set_xlabel("x [cm]")
    axes[0].set_ylabel("y [cm]")
    figure.colorbar(image, ax=axes, label="°C")
    figure.savefig(PICTURES / "temperature_plate.png", dpi=90)
    plt.close(figure)


def element() -> None:
    """Draw the temperature of a link that is heated for half a second, and of its sensing element."""
    scene = sn.Scene(dt=0.01, gravity=(0, 0, 0))
    scene.add_object(sn.Box(size=(0.05, 0.05, 0.002)), name="plate", free=True)
    heat = scene.add_sensor(sn.TemperatureGrid(link="plate", sensor_time_constant=0.5, noise=0.15, rate=20.0))
    scene.build()
    times, truth, measured = [], [], []
    for step in range(400):
        heat.set(heat=400.0 if 50 <= step < 100 else 0.0)
        scene.step()
        times.append(scene.time.item())
        truth.append(heat.read_ground_truth().item())
        measured.append(heat.read().item())
    figure, axis = plt.subplots(figsize=(6.5, 2.8), layout="constrained")
    axis.axvspan(0.5, 1.0, color="tab:orange", alpha=0.15, label="400 W")
    axis.plot(times, truth, color="black", label="link (ground truth)")
    axis.plot(times, measured, color="tab:red", drawstyle="steps-post", label="element, τ = 0.5 s, noise, 20 Hz")
    axis.set_xlabel("time [s]")
    axis.set_ylabel("temperature [°C]")
    axis.set_xlim(0, np.max(times))
    axis.legend(fontsize=8)
    axis.grid(alpha=0.3)
    figure.savefig(PICTURES / "temperature_element.png", dpi=90)
    plt.close(figure)


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    plate()
    element()
