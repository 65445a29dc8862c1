"""Draw docs/pictures/record_replay.png: a drive recorded without images, replayed with recorded and new cameras.

.venv/bin/python docs/gallery/record_replay.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from saving import save_figure

import sensorium as sn

STEPS, FRAMES = 1200, 4


def record(folder: Path) -> None:
    """Record a robot that drives around a room."""
    scene = sn.Scene(dt=0.01, sky=((0.35, 0.55, 0.85), (0.92, 0.94, 0.96)))
    scene.add_module("room", sn.scenarios.Room(seed=3))
    robot = scene.add_robot("diffdrive", name="robot")
    scene.build(seed=3)
    scenario = sn.scenarios.make("random-path", scene, robot, seed=1)
    scenario.reset()
    with sn.recording.Recorder(scene, folder) as recorder:
        recorder.record(STEPS, before=scenario.step)


def main() -> None:
    """Record, replay, and draw the picture."""
    with tempfile.TemporaryDirectory() as name:
        record(Path(name) / "drive")
        above = sn.Camera(uuid="above", pos=(0, 0, 11), lookat=(0, 0.01, 0), resolution=(320, 240))
        options = sn.recording.ReplayOptions(
            images=("rgb", "depth"),
            cameras=("above", "robot.rig.front_left"),
            sensors=(above,),
            interval=STEPS // FRAMES,
        )
        seen = sn.recording.replay(Path(name) / "drive", Path(name) / "seen", options)
        figure, rows = plt.subplots(3, FRAMES, figsize=(9, 5.4), layout="constrained")
        for frame in range(FRAMES):
            depth = seen.read_depth("robot.rig.front_left", frame)[0]
            images = (
                seen.read_rgb("robot.rig.front_left", frame)[0],
                np.where(np.isinf(depth), np.nan, depth),
                seen.read_rgb("above", frame)[0],
            )
            for row, image in zip(rows, images, strict=True):
                row[frame].imshow(image, vmin=0, vmax=8, cmap="viridis_r")
                row[frame].set_xticks([])
                row[frame].set_yticks([])
            rows[0, frame].set_title(f"{seen.source_steps[frame] * 0.01:.1f} s", fontsize=9)
        for row, label in zip(rows, ("front left", "its depth", "above, added\nin replay"), strict=True):
            row[0].set_ylabel(label, fontsize=9)
        save_figure(figure, "record_replay")


if __name__ == "__main__":
    main()
