"""Compare the cost of the same sensors in Sensorium and in Genesis, beyond the physics of each, on the CPU.

A box lies on a plane, with an IMU (noise, bias, walk, delay, jitter), a contact switch and a contact-force sensor; one
substep a step. "Beyond physics" is the step with sensors minus the step without, each measured in its own simulator.

.venv/bin/python benchmarks/genesis_sensors.py [--json out/genesis_sensors.json] [--quick]

Genesis is no dependency of Sensorium: install ``genesis-world`` 1.4.5 into the same environment first. Without it, the
script measures Sensorium alone and says so. Genesis compiles its kernels at the first run, which takes minutes.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from common import Report, difference, interleave, spread
from foundation import NOISY, scene
from rich.console import Console

ENVS = ((1, 200), (1024, 10))
"""Numbers of envs, and calls per round."""


def ours(n_envs: int) -> dict[str, Callable[[], Any]]:
    """Return the calls to be timed in Sensorium: a step with sensors, a step without, and a read of the IMU."""
    full, imu = scene(n_envs, n_substeps=1)
    bare, _ = scene(n_envs, sensors=False, n_substeps=1)
    return {"full": full.step, "bare": bare.step, "read": imu.read}


def theirs(n_envs: int) -> dict[str, Callable[[], Any]]:
    """Return the calls to be timed in Genesis."""
    full, imu = genesis_scene(n_envs, sensors=True)
    bare, _ = genesis_scene(n_envs, sensors=False)
    return {"full": full.step, "bare": bare.step, "read": imu.read}


def genesis_scene(n_envs: int, sensors: bool) -> tuple[Any, Any]:
    """Return the scene of ``foundation.scene`` in Genesis, and its IMU."""
    import genesis as gs

    made = gs.Scene(
        sim_options=gs.options.SimOptions(dt=0.01, substeps=1),
        profiling_options=gs.options.ProfilingOptions(show_FPS=False),
        show_viewer=False,
    )
    made.add_entity(gs.morphs.Plane())
    material = gs.materials.Rigid(rho=1.0 / 0.2**3)  # 1 kg
    box = made.add_entity(gs.morphs.Box(size=(0.2, 0.2, 0.2), pos=(0, 0, 0.1)), material=material)
    imu = None
    if sensors:
        timing = {"delay": NOISY["delay"], "jitter": min(NOISY["jitter"], 0.01)}  # Genesis allows one step of jitter
        axes = {name: (value,) * 3 for name, value in NOISY.items() if name not in timing}
        imu = made.add_sensor(gs.sensors.IMU(entity_idx=box.idx, **axes, **timing))
        made.add_sensor(gs.sensors.Contact(entity_idx=box.idx))
        made.add_sensor(gs.sensors.ContactForce(entity_idx=box.idx))
    made.build(n_envs=n_envs)
    for _ in range(50):
        made.step()
    return made, imu


def measure(report: Report, name: str, calls: Callable[[int], dict[str, Callable[[], Any]]], rounds: int) -> None:
    """Add the rows of one simulator."""
    for n_envs, count in ENVS:
        contenders = calls(n_envs)
        times = interleave({key: contenders[key] for key in ("full", "bare")}, rounds, count)
        reads = interleave({"read": contenders["read"]}, rounds, 200)["read"]
        report.add(f"{name}: physics step, {n_envs} envs", statistics.median(times["bare"]) * 1e3, "ms")
        report.add(f"{name}: sensors beyond physics, {n_envs} envs", difference(times, "full", "bare") * 1e3, "ms")
        report.add("  interquartile range of the rounds", spread(times, "full", "bare") * 1e3, "ms")
        report.add(f"{name}: read() of the IMU, {n_envs} envs", statistics.median(reads) * 1e6, "us")


def main() -> None:
    """Measure Sensorium, and Genesis if it is installed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, for a quick estimate")
    arguments = parser.parse_args()
    rounds = 5 if arguments.quick else 31
    has_genesis = importlib.util.find_spec("genesis") is not None
    report = Report("Sensors of Sensorium and Genesis", ("mujoco", "torch", "numba", "numpy"))
    measure(report, "Sensorium", ours, rounds)
    if has_genesis:
        import genesis as gs

        gs.init(backend=gs.cpu, logging_level="warning")
        try:
            report.machine["genesis"] = version("genesis-world")
        except PackageNotFoundError:
            report.machine["genesis"] = str(gs.__version__)
        measure(report, "Genesis", theirs, rounds)
    report.finish(arguments.json)
    if not has_genesis:
        note = "Genesis is not installed: only Sensorium was measured. To install it: pip install genesis-world==1.4.5"
        Console().print(note, style="yellow")


if __name__ == "__main__":
    main()
