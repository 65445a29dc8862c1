"""A box falls in 64 envs: what its sensors read beside the truth, as a table and as a picture.

.venv/bin/python examples/drop.py [--out out/drop.png] [--envs 64] [--seed 0]
"""

import argparse
from pathlib import Path

import matplotlib
import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

import sensorium as sn

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/drop.png"), help="where the picture goes")
    parser.add_argument("--envs", type=int, default=64, help="how many envs")
    parser.add_argument("--seed", type=int, default=0, help="what all noise comes from")
    arguments = parser.parse_args()

    scene = sn.Scene(dt=0.01, substeps=5)
    scene.add_object(sn.Plane(), name="ground")
    scene.add_object(
        sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", pos=(0, 0, 0.8), euler=(0.5, 0.3, 0), free=True
    )
    imu = scene.add_sensor(
        sn.IMU(
            link="box",
            uuid="imu",
            acc_noise=0.4,
            acc_saturation=(-60.0, 60.0),
            gyro_noise=0.05,
            gyro_random_walk=0.2,
            delay=0.04,
            jitter=0.02,
        )
    )
    touch = scene.add_sensor(sn.Contact(link="box", uuid="touch", threshold=1.0))
    force = scene.add_sensor(
        sn.ContactForce(link="box", uuid="force", noise=1.0, resolution=0.5, max_force=60.0, rate=25)
    )
    pose = scene.add_sensor(sn.FramePose(link="box", uuid="pose", pos_noise=0.004, rate=30, delay=0.06, dropout=0.1))
    scene.build(n_envs=arguments.envs, seed=arguments.seed)

    time, read, truth = [], [], []
    for _ in range(120):
        scene.step()
        time.append(scene.time[0].item())
        read.append(row(imu.read(), touch.read(), force.read(), pose.read()))
        truth.append(
            row(
                imu.read_ground_truth(),
                touch.read_ground_truth(),
                force.read_ground_truth(),
                pose.read_ground_truth(),
            )
        )

    show(time, read, truth, arguments.envs)
    draw(time, torch.stack(read), torch.stack(truth), arguments.out)
    Console().print(f"picture: [bold]{arguments.out}[/bold]")


def row(imu, touch, force, pose) -> torch.Tensor:
    """Four signals of env 0: vertical acceleration, pitch rate, vertical force, height; and the switch."""
    signals = [imu.lin_acc[0, 2], imu.ang_vel[0, 1], force[0].norm(), pose.pos[0, 2], touch[0, 0].float()]
    return torch.stack(signals)


def show(time, read, truth, envs: int) -> None:
    table = Table(title=f"env 0 of {envs}: measured (truth)", header_style="bold")
    for title in ("t [s]", "acc z [m/s²]", "pitch [rad/s]", "force [N]", "height [m]", "touch"):
        table.add_column(Text(title), justify="right")  # Text: brackets are units here, not markup
    for step in range(9, len(time), 10):
        cells = [f"{a:8.3f} ({b:8.3f})" for a, b in zip(read[step][:4], truth[step][:4], strict=True)]
        table.add_row(f"{time[step]:.2f}", *cells, "yes" if read[step][4] else "no")
    Console(width=120).print(table)


def draw(time, read: torch.Tensor, truth: torch.Tensor, path: Path) -> None:
    titles = (
        "accelerometer z [m/s²]: noise, 40 to 60 ms late",
        "gyroscope y [rad/s]: noise, drift, 40 to 60 ms late",
        "contact force [N]: 25 Hz, noise, 0.5 N steps, 60 N an axis at most",
        "height [m]: 30 Hz, 60 ms late, one sample in ten lost",
    )
    figure, axes = plt.subplots(4, 1, figsize=(9, 9), sharex=True, layout="constrained")
    for i, (axis, title) in enumerate(zip(axes, titles, strict=True)):
        axis.plot(time, truth[:, i], color="0.55", lw=2.2, label="ground truth")
        axis.step(time, read[:, i], where="post", color="C3", lw=1.1, label="measured")
        axis.set_title(title, loc="left", fontsize=10)
        axis.grid(alpha=0.3)
    axes[0].legend(loc="upper right", ncols=2, fontsize=9)
    axes[-1].set_xlabel("time [s]")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
