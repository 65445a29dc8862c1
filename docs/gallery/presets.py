"""Draw docs/pictures/presets.png: the Allan deviation of the preset gyroscopes at rest.

.venv/bin/python docs/gallery/presets.py
"""

import math
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import sensorium as sn

PICTURES = Path(__file__).parent.parent / "pictures"
DT, SECONDS, ENVS = 0.05, 3000, 32


def readings(name: str) -> np.ndarray:
    """Return measured rates at rest in °/s, (steps, series)."""
    scene = sn.Scene(dt=DT, substeps=1, gravity=(0, 0, 0))
    scene.add_object(sn.Sphere(), name="ball", free=True)
    options = sn.presets.imu(name, link="ball", rate=None, gyro_resolution=0.0, gyro_correlation_time=200.0)
    imu = scene.add_sensor(options)
    scene.build(n_envs=ENVS)
    out = np.empty((round(SECONDS / DT), ENVS * 3))
    for step in range(len(out)):
        scene.step()
        out[step] = imu.read().ang_vel.reshape(-1).numpy()
    return np.degrees(out)


def allan_deviation(signal: np.ndarray, m: int) -> float:
    """Return the overlapping Allan deviation for averages over m samples."""
    phase = np.cumsum(np.concatenate([np.zeros((1, signal.shape[1])), signal]), axis=0)
    return math.sqrt(((phase[2 * m :] - 2 * phase[m:-m] + phase[: -2 * m]) ** 2).mean() / 2) / m


def main() -> None:
    """Draw the picture."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    spans = np.unique(np.geomspace(1, SECONDS / DT / 4, 40).astype(int))
    for name, density, instability, colour in (("consumer_mems", 0.007, 6, "C3"), ("automotive", 0.005, 3, "C0")):
        signal = readings(name)
        axes.loglog(spans * DT, [allan_deviation(signal, m) for m in spans], color=colour, label=name)
        axes.loglog(spans * DT, density / np.sqrt(2 * spans * DT), ":", color=colour, label=f"{density} °/s/√Hz")
        axes.axhline(instability / 3600, color=colour, linestyle="--", linewidth=0.8, label=f"{instability} °/h")
    axes.set_xlabel("averaging time, s")
    axes.set_ylabel("Allan deviation of the rate, °/s")
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize="small", ncols=2)
    PICTURES.mkdir(exist_ok=True)
    figure.savefig(PICTURES / "presets.png", dpi=90)


if __name__ == "__main__":
    main()
