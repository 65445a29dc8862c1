"""Measure recording beside stepping, the speed to disk, memory over a long recording, and replay beside rendering.

.venv/bin/python benchmarks/recording.py [--folder /tmp] [--env-steps 1000000] [--json out/recording.json]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from common import Report, interleave, ratio

import sensorium as sn
from sensorium.recording import Recorder, ReplayOptions, replay

ENVS = 64
TURN = 10
"""Frames per round of replay and renderer."""


def base_robot(seed: int = 0) -> tuple[sn.Scene, Callable[[], None]]:
    """Return a scene of the differential-drive base with its sensors in a room, and its step function."""
    scene = sn.Scene(dt=0.01)
    scene.add_module("room", sn.scenarios.Room(seed=seed))
    robot = scene.add_robot("diffdrive", name="robot")
    scene.build(n_envs=ENVS, seed=seed)
    robot.act([0.4, 0.5])
    return scene, scene.step


def beside_stepping(report: Report, folder: Path) -> None:
    """Measure the time that recording adds to a step of 64 envs."""
    _, bare = base_robot()
    scene, step = base_robot()
    with Recorder(scene, folder / "beside") as recorder:

        def recorded() -> None:
            step()
            recorder.step()

        times = interleave({"bare": bare, "recorded": recorded}, rounds=15, calls=40)
        size = recorder._row.n_bytes
    report.add(f"step of {ENVS} envs with lidar and IMU", min(times["bare"]) * 1e3, "ms")
    report.add("  recorded", min(times["recorded"]) * 1e3, "ms")
    report.add("  recorded / bare, median of the rounds", ratio(times, "recorded", "bare"), "x", 1.15)
    report.add("  data of a step", size / 1e3, "kB")
    shutil.rmtree(folder / "beside")


def to_disk(report: Report, folder: Path, n_bytes: int) -> None:
    """Measure the MB/s of a recording without physics, and of the disk itself."""
    block = os.urandom(1 << 24)
    start = time.perf_counter()
    with open(folder / "plain", "wb") as file:
        for _ in range(n_bytes // len(block)):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    disk = n_bytes / (time.perf_counter() - start) / 1e6
    (folder / "plain").unlink()

    scene = sn.Scene()
    scene.add_object(sn.Box(), name="box")
    scene.build()
    scene.add_child("data", sn.Buffer(np.random.default_rng(0).random((1 << 18,))))  # 2 MiB per step
    start = time.perf_counter()
    with Recorder(scene, folder / "fast") as recorder:
        for _ in range(n_bytes >> 21):
            recorder.step()
    ours = n_bytes / (time.perf_counter() - start) / 1e6
    shutil.rmtree(folder / "fast")
    report.add("plain file, with fsync", disk, "MB/s")
    report.add("recording", ours, "MB/s")
    report.add("  required speed (200 MB/s, or the disk's own) / recording", min(200.0, disk) / ours, "x", 1.0)


def memory(report: Report, folder: Path, env_steps: int) -> None:
    """Measure the growth of memory after the first tenth of a long recording."""
    scene = sn.Scene(dt=0.01, substeps=1)
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(), name="box", pos=(0, 0, 0.2), free=True)
    scene.add_sensor(sn.IMU(link="box", acc_noise=0.1))
    scene.build(n_envs=1000)
    steps, first = max(10, env_steps // 1000), 0.0
    with Recorder(scene, folder / "long", chunk_bytes=16 << 20) as recorder:
        for number in range(steps):
            if number == steps // 10:
                first = _resident()
            scene.step()
            recorder.step()
        grown = _resident() - first
    size = sum(path.stat().st_size for path in (folder / "long").rglob("*") if path.is_file())
    shutil.rmtree(folder / "long")
    report.add(f"memory grown over {steps * 1000:,} env-steps ({size / 1e6:.0f} MB)", grown, "MiB", 50.0)


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def beside_rendering(report: Report, folder: Path, frames: int) -> None:
    """Measure the frames per second of a replay and of the renderer alone."""
    scene = sn.Scene(dt=0.01)
    scene.add_module("room", sn.scenarios.Room(seed=0))
    robot = scene.add_robot("diffdrive", name="robot")
    scene.build(n_envs=4, seed=0)
    robot.act([0.4, 0.5])
    with Recorder(scene, folder / "source") as recorder:
        recorder.record(frames)
    cameras = [robot.rig["front_left"], robot.rig["front_right"]]
    for camera in cameras:
        camera.disable_depth_rendering()

    states = sn.recording.Recording(folder / "source").column("physics")
    width = scene.model.nq

    def render(frame: int) -> None:
        scene.world.bind("qpos")[:] = torch.from_numpy(states[frame, :, 1 : 1 + width])  # column 0 is the time
        scene.world.changes.write()
        for camera in cameras:
            camera.read()

    times: dict[str, list[float]] = {"replay": [], "alone": []}
    done, since = 0, 0.0

    def progress(count: int) -> None:
        """Alternate between frames of the replay and as many frames of the renderer alone."""
        nonlocal done, since
        done += count
        if done % TURN or not done:
            return
        if done > TURN:  # the first round warms up
            times["replay"].append((time.perf_counter() - since) / TURN)
            time.sleep(0.05)  # let pending writes finish, so that they do not slow the renderer down
            start = time.perf_counter()
            for frame in range(done - TURN, done):
                render(frame)
            times["alone"].append((time.perf_counter() - start) / TURN)
        since = time.perf_counter()

    for frame in range(TURN):
        render(frame)
    replay(folder / "source", folder / "seen", ReplayOptions(images=("rgb",)), progress=progress)
    alone, ours = (statistics.median(times[name]) for name in ("alone", "replay"))
    report.add("renderer alone, 2 cameras x 4 envs, 320 x 240 rgb", 1 / alone, "frames/s")
    report.add("replay", 1 / ours, "frames/s")
    report.add("  alone / replay, median of the rounds", ratio(times, "replay", "alone"), "x", 1 / 0.9)
    scene.close()
    shutil.rmtree(folder / "source")
    shutil.rmtree(folder / "seen")


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--folder", type=Path, default=None, help="folder on the disk to measure (default: the temporary folder)"
    )
    parser.add_argument("--env-steps", type=int, default=1_000_000, help="length of the recording that measures memory")
    parser.add_argument("--megabytes", type=int, default=2000, help="MB to write for the speed to disk")
    parser.add_argument("--frames", type=int, default=250, help="frames to replay")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    report = Report("recording", ("mujoco", "torch", "h5py", "av"))
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        beside_stepping(report, folder)
        to_disk(report, folder, arguments.megabytes << 20)
        memory(report, folder, arguments.env_steps)
        beside_rendering(report, folder, arguments.frames)
    report.finish(arguments.json)


if __name__ == "__main__":
    main()
