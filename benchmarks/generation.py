"""Measure the cost of saving beside physics and rendering, the growth of memory, and recovery after kills.

.venv/bin/python benchmarks/generation.py [--json out/generation.json] [--kills 20]
"""

from __future__ import annotations

import argparse
import hashlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from common import Report

import sensorium as sn
from sensorium.generation import GenerateOptions, generate
from sensorium.generation.unit import UnitMaker

CAMERAS = sn.tasks.camera_views(("front", "wrist"), (640, 368))


def without_cameras(report: Report, folder: Path) -> None:
    """Compare a unit of 16 saved episodes with the same episodes without suite and files."""
    maker = UnitMaker(GenerateOptions(task="pick", envs=16), folder / "saved")
    bare = sn.tasks.make("pick", n_envs=16, use_sensors=False, keep_history=False)
    policy = sn.policies.make("planner", bare)
    bare.register_policy(policy)

    def physics(numbers: list[int]) -> None:
        observation, _ = bare.reset(numbers=numbers)
        while not bare.is_done().all():
            observation, *_ = bare.step(policy.get_action(observation))

    maker.make(0, range(16))
    physics(list(range(16)))
    ratios = []
    for unit in range(1, 32):  # many rounds, since the machine is noisy
        numbers = list(range(16 * unit, 16 * unit + 16))
        times = []
        for call in (lambda n=numbers: physics(n), lambda u=unit, n=numbers: maker.make(u, n)):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        ratios.append(times[1] / times[0])
    report.add("16 envs without cameras: saved / physics and planner alone", statistics.median(ratios), "x", 1.3)
    maker.close()
    bare.close()


def with_cameras(report: Report, folder: Path) -> None:
    """Compare generating and encoding the frames of two cameras with rendering the same images alone."""
    steps = 60
    options = {"cameras": CAMERAS, "max_steps": steps}
    maker = UnitMaker(GenerateOptions(task="pick", envs=4, options=options, keep_failed=True), folder / "seen")
    scene, cameras = maker.task.scene, list(maker.task.cameras.values())

    def render() -> None:
        for _ in range(steps + 1):
            scene.world.changes.mark()  # as if a step had been made
            for camera in cameras:
                camera.read()

    maker.make(0, range(4))
    render()
    ratios, frame = [], []
    for unit in range(1, 6):
        start = time.perf_counter()
        render()
        between = time.perf_counter()
        maker.make(unit, range(4 * unit, 4 * unit + 4))
        ratios.append((time.perf_counter() - between) / (between - start))
        frame.append((between - start) / (8 * (steps + 1)))
    report.add("two cameras of 640 x 368, 4 envs: renderer alone, one frame", statistics.median(frame) * 1e3, "ms")
    report.add("  generated, encoded and saved / renderer alone", statistics.median(ratios), "x", 1.2)
    maker.close()


def memory(report: Report, folder: Path) -> None:
    """Measure the growth of memory over many episodes, and over long ones."""
    maker = UnitMaker(GenerateOptions(task="pick", envs=8), folder / "many")
    for unit in range(3):
        maker.make(unit, range(8 * unit, 8 * unit + 8))
    before = _resident()
    for unit in range(3, 13):
        maker.make(unit, range(8 * unit, 8 * unit + 8))
    report.add("memory after 80 more episodes", _resident() - before, "MB", 50.0)
    maker.close()
    for steps in (300, 3000):  # no episode succeeds: the objects are out of reach
        far = {"area": [[0.9, 1.0], [-0.1, 0.1]], "max_steps": steps}
        maker = UnitMaker(GenerateOptions(task="pick", envs=2, options=far, keep_failed=True), folder / f"long{steps}")
        if steps == 300:
            maker.make(0, range(2))
            before = _resident()
        else:
            maker.make(0, range(2))
            report.add("memory after episodes of 3,000 steps instead of 300", _resident() - before, "MB", 50.0)
        maker.close()


def kills(report: Report, folder: Path, count: int) -> None:
    """Kill the process, one of its workers or a node of a cluster at random moments, resume, and compare the bytes."""
    words = ["generate", "pick", "--episodes", "6", "--envs", "2", "--seed", "3"]
    generate(GenerateOptions(task="pick", episodes=6, envs=2, seed=3), folder / "whole")
    expected = _digests(folder / "whole")
    rng, same = random.Random(0), 0
    for number in range(count):
        out = folder / f"killed{number}"
        if number % 5 == 4:
            _lose_node(out, rng.uniform(1, 9))
            same += _digests(out) == expected
            continue
        workers = str(1 + number % 2)
        command = [sys.executable, "-m", "sensorium", *words, "--workers", workers, "--out", str(out)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(1, 9))
        if workers == "2" and number % 4 == 1 and (children := _children(process.pid)):
            subprocess.run(["kill", "-9", str(rng.choice(children))], check=False)
        else:
            process.send_signal(signal.SIGKILL)
        process.wait()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        same += _digests(out) == expected
        shutil.rmtree(out)
    report.add(f"of {count} kills, resumed to other bytes", count - same, "", 0.0)


def _lose_node(out: Path, moment: float) -> None:
    """Generate on a Ray cluster of two nodes and kill one of them."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    node = cluster.add_node(num_cpus=1)
    timer = threading.Timer(moment, cluster.remove_node, args=(node,), kwargs={"allow_graceful": False})
    timer.start()
    try:
        generate(GenerateOptions(task="pick", episodes=6, envs=2, seed=3), out, cluster=cluster.address)
    finally:
        timer.cancel()
        ray.shutdown()
        cluster.shutdown()


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    found = [int(each) for each in path.read_text().split()] if path.exists() else []
    return [each for each in found if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()]


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha1(path.read_bytes()).hexdigest() for path in folder.glob("episode_*")}


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument("--kills", type=int, default=20)
    arguments = parser.parse_args()
    report = Report("generation", ("mujoco", "h5py", "av"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        without_cameras(report, folder)
        with_cameras(report, folder)
        memory(report, folder)
        if arguments.kills:
            kills(report, folder, arguments.kills)
    report.finish(arguments.json)


if __name__ == "__main__":
    main()
