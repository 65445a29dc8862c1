"""Draw docs/pictures/presets.png: the Allan deviation of the preset IMUs at rest, and the figures of their data sheets.

.venv/bin/python docs/gallery/presets.py
"""

import math
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import sensorium as sn

PICTURES = Path(__file__).parent.parent / "pictures"
SECONDS, ENVS = 1500, 8
SHEETS = {  # noise density in °/s/√Hz and µg/√Hz, bias instability in °/h and µg
    "consumer_mems": ("Bosch BMI160", "C3", {"gyro": (0.007, 6.0), "acc": (180.0, None)}),
    "automotive": ("ST ASM330LHH", "C0", {"gyro": (0.005, 3.0), "acc": (60.0, 40.0)}),
}


def readings(name: str) -> tuple[float, dict[str, np.ndarray]]:
    """Return the sample interval in s, and rates in °/h and accelerations in µg at rest, (samples, series) each."""
    options = sn.presets.imu(name, link="ball", acc_resolution=0.0, gyro_resolution=0.0)
    assert options.rate is not None
    scene = sn.Scene(dt=1 / options.rate, substeps=1, gravity=(0, 0, 0))
    scene.add_object(sn.Sphere(), name="ball", free=True)
    imu = scene.add_sensor(options)
    scene.build(n_envs=ENVS)
    gyro = np.empty((round(SECONDS * options.rate), ENVS * 3), np.float32)
    acc = np.empty_like(gyro)
    for step in range(len(gyro)):
        scene.step()
        reading = imu.read()
        gyro[step], acc[step] = reading.ang_vel.reshape(-1).numpy(), reading.lin_acc.reshape(-1).numpy()
    return scene.dt, {"gyro": np.degrees(gyro) * 3600, "acc": acc / (1e-6 * sn.units.STANDARD_GRAVITY)}


def allan_deviation(phase: np.ndarray, m: int) -> float:
    """Return the overlapping Allan deviation for averages over m samples of a signal whose running sum is ``phase``."""
    return math.sqrt(((phase[2 * m :] - 2 * phase[m:-m] + phase[: -2 * m]) ** 2).mean() / 2) / m


def draw(axes: Axes, channel: str, name: str, dt: float, signal: np.ndarray) -> None:
    """Draw the curve of one sensor, and the points of its data sheet."""
    part, colour, sheet = SHEETS[name]
    density, floor = sheet[channel]
    spans = np.unique(np.geomspace(1, SECONDS / dt / 6, 40).astype(int))
    phase = np.cumsum(signal, axis=0, dtype=np.float64)
    curve = np.array([allan_deviation(phase, m) for m in spans])
    axes.loglog(spans * dt, curve, color=colour, label=f"{part}, simulated")
    unit, figure = ("°/h", "°/s/√Hz") if channel == "gyro" else ("µg", "µg/√Hz")
    noise = density * (3600 if channel == "gyro" else 1) / math.sqrt(2)
    axes.loglog(1.0, noise, "o", color=colour, markerfacecolor="none", label=f"data sheet: {density:g} {figure}")
    if floor is not None:
        spans, curve = spans[spans * dt < 100], curve[spans * dt < 100]
        axes.loglog(spans[curve.argmin()] * dt, floor, "s", color=colour, markerfacecolor="none")
        axes.axhline(floor, color=colour, linestyle="--", linewidth=0.8, label=f"data sheet: {floor:g} {unit}")


def main() -> None:
    """Draw the picture."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    panels = dict(zip(("gyro", "acc"), figure.subplots(1, 2), strict=True))
    for name in SHEETS:
        dt, signals = readings(name)
        for channel, axes in panels.items():
            draw(axes, channel, name, dt, signals[channel])
    for channel, title in (("gyro", "rate, °/h"), ("acc", "acceleration, µg")):
        panels[channel].set_xlabel("averaging time, s")
        panels[channel].set_ylabel(f"Allan deviation of the {title}")
        panels[channel].grid(alpha=0.3, which="both")
        panels[channel].legend(fontsize="small")
    PICTURES.mkdir(exist_ok=True)
    figure.savefig(PICTURES / "presets.png", dpi=90)


if __name__ == "__main__":
    main()
