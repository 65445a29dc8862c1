"""Measure the samples per second that ``TorchDataset`` gives to a training, with four cameras of 640 x 480.

.venv/bin/python benchmarks/loading.py [--json out/loading.json] [--data data/four] [--lerobot data/four-lerobot]

With --lerobot it also measures LeRobot's own reader on the export of the same dataset, which needs lerobot. Install it
into an environment of its own, and measure both there.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import torch
from common import Report

import sensorium as sn
from sensorium.generation import GenerateOptions, generate

TOP = {"name": "top", "pos": (0.5, 0.0, 1.9), "lookat": (0.5, 0.01, 0.4), "resolution": (640, 480)}
CAMERAS = [*sn.tasks.camera_views(("front", "side", "wrist"), (640, 480)), TOP]
NAMES = [str(camera["name"]) for camera in CAMERAS]
PER_CORE = 353 / 8
"""Required samples per second and core."""
BATCH = 16


def four_cameras(folder: Path, episodes: int) -> Path:
    """Generate episodes of pick with four cameras."""
    options = {"cameras": CAMERAS}
    generate(GenerateOptions(task="pick", episodes=episodes, envs=4, options=options), folder)
    return folder


def rate(data: torch.utils.data.Dataset, order: torch.utils.data.Sampler | None, workers: int, samples: int) -> float:
    """Return the samples per second of a loader in random order, once its workers have started."""
    loader = torch.utils.data.DataLoader(
        data, BATCH, shuffle=order is None, sampler=order, num_workers=workers, prefetch_factor=2
    )
    batches = iter(loader)
    for _ in range(2 * workers):  # batches that were prepared while the workers started
        next(batches)
    start, count = time.perf_counter(), 0
    while count < samples:
        batch = next(batches, None)
        if batch is None:
            break
        count += BATCH
    return count / (time.perf_counter() - start)


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument("--data", type=Path, help="folder of the dataset; it is generated if it is not there")
    parser.add_argument("--lerobot", type=Path, help="folder of the dataset's export to LeRobot, to measure its reader")
    parser.add_argument("--episodes", type=int, default=8)
    parser.add_argument("--samples", type=int, default=800, help="samples per round")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    report = Report("loading", ("torch", "av", "h5py"))
    with tempfile.TemporaryDirectory() as name:
        folder = four_cameras(arguments.data or Path(name) / "four", arguments.episodes)
        data = sn.datasets.TorchDataset(folder, ["qpos", *NAMES])
        sampler = sn.datasets.ShuffledSampler(data)
        readers = {f"TorchDataset, {cores} workers": (data, sampler)}
        if arguments.lerobot:
            from lerobot.datasets.lerobot_dataset import LeRobotDataset  # type: ignore[import-not-found]

            readers[f"LeRobot's reader, {cores} workers"] = (LeRobotDataset("me/four", root=arguments.lerobot), None)
        rates: dict[str, list[float]] = {what: [] for what in readers}
        for _ in range(arguments.rounds):  # alternating, since the machine is noisy
            for what, (each, order) in readers.items():
                rates[what].append(rate(each, order, cores, arguments.samples))
        for what, found in rates.items():
            bound = PER_CORE * cores if what.startswith("TorchDataset") else None
            report.add(f"four cameras of 640 x 480: {what}", statistics.median(found), "samples/s", bound, True)
    report.finish(arguments.json)


if __name__ == "__main__":
    main()
