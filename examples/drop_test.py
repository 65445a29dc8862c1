"""Drop a box in many envs and compare what its sensors read with ground truth, as a table and a figure.

python examples/drop_test.py --out out/drop.png --envs 64
"""

from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

import sensorium as sn


@dataclass
class Options:
    """Options of the drop test."""

    out: Path = Path("out/drop.png")
    """File of the figure."""
    envs: int = 64
    """Number of envs."""
    seed: int = 0
    """Seed of all noise."""


def main(options: Options) -> None:
    """Run the drop test."""
    scene = sn.Scene(dt=0.01, substeps=5)
    scene.add_object(sn.Plane(), name="ground")
    box = sn.Box(size=(0.2, 0.2, 0.2), mass=1.0)
    scene.add_object(box, name="box", pos=(0, 0, 0.8), euler=(0.5, 0.3, 0), free=True)
    imu = scene.add_sensor(
        sn.IMU(
            link="box",
            uuid="imu",
            acc=sn.Imperfections(noise=0.4, saturation=(-60.0, 60.0)),
            gyro=sn.Imperfections(noise=0.05, random_walk=0.2),
            mag=sn.Imperfections(noise=1e-6),
            delay=0.04,
            jitter=0.02,
        )
    )
    touch = scene.add_sensor(sn.Contact(link="box", uuid="touch", threshold=1.0))
    force = scene.add_sensor(sn.ContactForce(link="box", uuid="force", noise=1.0, resolution=0.5, rate=25))
    pose = scene.add_sensor(sn.FramePose(link="box", uuid="pose", pos_noise=0.004, rate=30, delay=0.06, dropout=0.1))
    scene.build(n_envs=options.envs, seed=options.seed)

    trace = sn.Trace(imu, touch, force, pose)
    table = Table(title=f"env 0 of {options.envs}: measured (ground truth)")
    for column in ("t, s", "acceleration z, m/s²", "force, N", "height, m", "touch"):
        table.add_column(column, justify="right")
    for step in range(120):
        scene.step()
        trace.take()
        if step % 10 == 9:
            pairs = (
                (imu.read().lin_acc[0, 2], imu.read_ground_truth().lin_acc[0, 2]),
                (force.read()[0].norm(), force.read_ground_truth()[0].norm()),
                (pose.read().pos[0, 2], pose.read_ground_truth().pos[0, 2]),
            )
            cells = [f"{measured:8.3f} ({true:8.3f})" for measured, true in pairs]
            table.add_row(f"{scene.time[0]:.2f}", *cells, "yes" if touch.read()[0, 0] else "no")

    console = Console(width=110)
    console.print(table)
    trace.plot(options.out)
    console.print(f"figure: [bold]{options.out}[/bold]")


if __name__ == "__main__":
    main(tyro.cli(Options))
