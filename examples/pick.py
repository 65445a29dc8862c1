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

COLUMNS = 4
RIG = Path(__file__).with_name("pick_rig.yaml")


def contact_sheet(folder: Path, path: Path) -> None:
    """Draw frames of the first episode at even intervals, one row per camera, and the height of the object."""
    episode = sn.datasets.Dataset(folder)[0]
    steps = np.linspace(0, len(episode), COLUMNS).astype(int)
    figure, axes = plt.subplots(
        3, COLUMNS, figsize=(3.6 * COLUMNS, 6.9), height_ratios=(1, 1, 0.8), layout="constrained"
    )
    for row, camera in zip(axes, episode.cameras, strict=False):
        video = episode.video(camera)
        for axis, step in zip(row, steps, strict=True):
            axis.imshow(video[step])
            axis.set(xticks=[], yticks=[])
        row[0].set_ylabel(camera.replace("_", " "))
    for axis, step in zip(axes[0], steps, strict=True):
        axis.set_title(f"{step / float(episode.fps):.1f} s")
    for axis in axes[2]:
        axis.remove()
    height = figure.add_subplot(axes[2, 0].get_gridspec()[2, :])
    target = episode.scene["pickup_obj"]
    time = np.arange(len(episode) + 1) / float(episode.fps)
    height.plot(time, episode[f"env_states/actors/{target}"][:, 2], label=f"height of {target.replace('_', ' ')}")
    height.plot(time, episode["obs/agent/qpos"][:, -1], label="opening of a finger")
    height.set(xlabel="time, s", ylabel="m", xlim=(0, time[-1]))
    height.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    height.grid(alpha=0.3)
    figure.suptitle(f"{episode.scene['instruction']}: {'success' if episode.success else 'failure'}")
    figure.savefig(path, dpi=100)


@dataclass
class Options:
    """Options of the example."""

    out: Path = Path("out/pick")
    """Folder of the dataset."""


def main(options: Options) -> None:
    """Generate, validate and draw."""
    out = options.out
    words = ["--episodes", "4", "--envs", "4", "--rig", str(RIG), "--cameras", "front", "--resolution", "480", "276"]
    if sensorium(["generate", "pick", *words, "--out", str(out)]) or sensorium(["validate", str(out)]):
        raise SystemExit(1)
    sheet = out.with_name(f"{out.name}.png")
    contact_sheet(out, sheet)
    print(f"dataset: {out}, contact sheet of its first episode: {sheet}")


if __name__ == "__main__":
    main(tyro.cli(Options))
