"""Draw the picture of the README: a falling box, measured signals and ground truth. Run python docs/gallery/drop.py"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import torch

import sensorium as sn

OUT = Path(__file__).parent.parent / "images" / "drop.png"
TITLES = (
    "accelerometer z [m/s²]: noise, 40 to 60 ms delay",
    "gyroscope y [rad/s]: noise, drift, 40 to 60 ms delay",
    "contact force [N]: 25 Hz, noise, 0.5 N steps, at most 60 N per axis",
    "height [m]: 30 Hz, 60 ms delay, 10% of the samples lost",
)


def run() -> tuple[list[float], torch.Tensor, torch.Tensor]:
    """Drop the box; return times, measured signals and true signals, (steps, 4) each."""
    scene = sn.Scene(dt=0.01, substeps=5)
    scene.add_object(sn.Plane(), name="ground")
    box = sn.Box(size=(0.2, 0.2, 0.2), mass=1.0)
    scene.add_object(box, name="box", pos=(0, 0, 0.8), euler=(0.5, 0.3, 0), free=True)
    acc = sn.Imperfections(noise=0.4, saturation=(-60.0, 60.0))
    gyro = sn.Imperfections(noise=0.05, random_walk=0.2)
    imu = scene.add_sensor(sn.IMU(link="box", uuid="imu", acc=acc, gyro=gyro, delay=0.04, jitter=0.02))
    force = scene.add_sensor(
        sn.ContactForce(link="box", uuid="force", noise=1.0, resolution=0.5, max_force=60.0, rate=25)
    )
    pose = scene.add_sensor(sn.FramePose(link="box", uuid="pose", pos_noise=0.004, rate=30, delay=0.06, dropout=0.1))
    scene.build(n_envs=64, seed=0)
    times, measured, true = [], [], []
    for _ in range(120):
        scene.step()
        times.append(scene.time[0].item())
        for rows, call in ((measured, "read"), (true, "read_ground_truth")):
            motion, push, place = (getattr(sensor, call)() for sensor in (imu, force, pose))
            rows.append(torch.stack([motion.lin_acc[0, 2], motion.ang_vel[0, 1], push[0].norm(), place.pos[0, 2]]))
    return times, torch.stack(measured), torch.stack(true)


def draw() -> None:
    """Draw one panel per signal."""
    times, measured, true = run()
    figure, axes = plt.subplots(4, 1, figsize=(9, 9), sharex=True, layout="constrained")
    for i, (axis, title) in enumerate(zip(axes, TITLES, strict=True)):
        axis.plot(times, true[:, i], color="0.55", lw=2.2, label="ground truth")
        axis.step(times, measured[:, i], where="post", color="C3", lw=1.1, label="measured")
        axis.set_title(title, loc="left", fontsize=10)
        axis.grid(alpha=0.3)
    axes[0].legend(loc="upper right", ncols=2, fontsize=9)
    axes[-1].set_xlabel("time [s]")
    figure.savefig(OUT, dpi=110)


if __name__ == "__main__":
    draw()
