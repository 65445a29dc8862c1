"""Measure what leaves a GPU scene while it steps: recordings and traces, and the last readings of episodes.

.venv/bin/python benchmarks/gpu_streams.py [--folder /tmp] [--json out/gpu_streams.json]

A recording is compared with what a user would write instead: a copy of each buffer to NumPy after every step.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from common import Report
from gpu import arm_scene, host_seconds_in_a_row, seconds
from sensors import room

import sensorium as sn
from sensorium.worlds import step_reset


def recordings(report: Report, folder: Path) -> None:
    """Measure steps that are recorded beside bare ones, and beside steps with blocking copies of the same buffers."""
    for n_envs in (64, 1024):
        scene = arm_scene(n_envs, sensors=True)
        buffers = [one for _, one in scene.named_buffers() if isinstance(one.value, torch.Tensor)]
        recorder = sn.recording.Recorder(scene, folder / f"run{n_envs}")

        def recorded(scene: sn.Scene = scene, recorder: sn.recording.Recorder = recorder) -> None:
            scene.step()
            recorder.step()

        def copied(scene: sn.Scene = scene, buffers: list[sn.Buffer] = buffers) -> None:
            scene.step()
            scene.update_state()
            for buffer in buffers:
                buffer.value.numpy(force=True).copy()

        calls = {"bare": scene.step, "recorded": recorded, "copied": copied}
        rounds = [{name: throughput(call, 30) for name, call in calls.items()} for _ in range(7)]
        size = recorder._row.n_bytes
        recorder.close()
        report.add(f"arm: step, {n_envs} envs", statistics.median(one["bare"] for one in rounds) * 1e3, "ms")
        report.add("  data of a step", size / 1e3, "kB")
        for name in ("recorded", "copied"):
            share = statistics.median(one[name] / one["bare"] for one in rounds)
            report.add(f"  {name} / bare", share, "x")
        scene.close()


def throughput(call: Callable[[], Any], count: int) -> float:
    """Return the seconds per call of many in a row, until the device is idle."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / count


def traces(report: Report) -> None:
    """Measure the host time of ``Trace.take``."""
    scene = arm_scene(1024, sensors=True)
    trace = sn.Trace(*scene.sensors.values(), env=3)
    report.add("trace of 4 sensors: host time of take()", host_seconds_in_a_row(trace.take) * 1e6, "us")
    scene.close()


def ends(report: Report) -> None:
    """Measure what ``step(reset=mask)`` adds to a step: the last readings of the episodes that end, and the resets."""
    n_envs = 4096
    rays = sn.Lidar(link="base", max_range=20.0, noise=0.01, pattern=sn.SphericalPattern(n_points=(128, 8)))
    for name, scene in (("arm", arm_scene(n_envs, True)), ("a lidar of 1,024 rays", room(n_envs, rays, device="cuda"))):
        scene.step(count=5)
        step = seconds(scene.step, 30)
        report.add(f"{name}: step, {n_envs} envs", step * 1e3, "ms")
        for what, share in (("no env", 0.0), ("1 % of the envs", 0.01)):
            mask = torch.arange(n_envs, device="cuda") < round(share * n_envs)
            took = seconds(partial(step_reset._end_episodes, scene, mask), 50)
            if share:
                report.add(f"  end of the episodes of {what} / step", took / step, "x", 0.25)
            else:
                report.add(f"  end of the episodes of {what}", took * 1e3, "ms", 0.05)
        scene.close()


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where to record (default: a temporary folder)")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    report = Report("GPU streams", ())
    report.machine["gpu"] = torch.cuda.get_device_name()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        ends(report)
        traces(report)
        recordings(report, Path(folder))
    report.finish(arguments.json)


if __name__ == "__main__":
    main()
