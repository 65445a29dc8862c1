"""Generate four Pick episodes with a camera of the task and one of the robot, and draw one of them as a contact sheet.

python examples/pick.py --out out/pick
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import tyro

import sensorium as sn
from sensorium.cli import main as sensorium

COLUMNS = 6
RIG = Path(__file__).with_name("pick_rig.yaml")


def contact_sheet(folder: Path, path: Path) -> None:
    """Draw frames of the first episode at even intervals, one row per camera, and the height of the object."""
    episode = sn.datasets.Dataset(folder)[0]
    steps = np.linspace(0, len(episode), COLUMNS).astype(int)
    figure, axes = plt.subplots(3, COLUMNS, figsize=(2.2 * COLUMNS, 4.6), height_ratios=(1, 1, 0.8))
    for row, camera in zip(axes, episode.cameras, strict=False):
        video = episode.video(camera)
        for axis, step in zip(row, steps, strict=True):
            axis.imshow(video[step])
            axis.set_title(f"{camera}, {step / float(episode.fps):.1f} s", fontsize=8)
            axis.axis("off")
    for axis in axes[2]:
        axis.remove()
    height = figure.add_subplot(axes[2, 0].get_gridspec()[2, :])
    target = episode.scene["pickup_obj"]
    time = np.arange(len(episode) + 1) / float(episode.fps)
    height.plot(time, episode[f"env_states/actors/{target}"][:, 2], label=f"{target}: height (m)")
    height.plot(time, episode["obs/agent/qpos"][:, -1] * 10, label="finger: opening (dm)")
    height.set_xlabel("time (s)", fontsize=8)
    height.legend(fontsize=8)
    figure.suptitle(f"{episode.scene['instruction']}: {'success' if episode.success else 'failure'}", fontsize=10)
    figure.tight_layout(pad=0.5)
    figure.savefig(path, dpi=80)


@dataclass
class Options:
    """Options of the example."""

    out: Path = Path("out/pick")
    """Folder of the dataset."""


def main(options: Options) -> None:
    """Generate, validate and draw."""
    out = options.out
    words = ["--episodes", "4", "--envs", "4", "--rig", str(RIG), "--cameras", "front", "--resolution", "320", "184"]
    if sensorium(["generate", "pick", *words, "--out", str(out)]) or sensorium(["validate", str(out)]):
        raise SystemExit(1)
    sheet = out.with_name(f"{out.name}.png")
    contact_sheet(out, sheet)
    print(f"dataset: {out}, contact sheet of its first episode: {sheet}")


if __name__ == "__main__":
    main(tyro.cli(Options))
