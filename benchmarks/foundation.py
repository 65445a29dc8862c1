"""Measure the cost of sensing beyond physics, against bare MuJoCo and against the same chain in torch operations.

.venv/bin/python benchmarks/foundation.py [--json out/foundation.json] [--quick]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import mujoco
import torch
from common import Report, difference, interleave, ratio, spread
from mujoco.batch import Batch

import sensorium as sn

NOISY = {
    "acc_noise": 0.02,
    "acc_bias": 0.1,
    "acc_random_walk": 0.01,
    "gyro_noise": 0.005,
    "gyro_bias": 0.01,
    "gyro_random_walk": 0.001,
    "delay": 0.02,
    "jitter": 0.02,
}


def scene(n_envs: int, sensors: bool = True, n_substeps: int = 5, **capture: Any) -> tuple[sn.Scene, Any]:
    """Return a scene of a box at rest on the ground with an IMU, a contact switch and a contact-force sensor.

    Args:
        n_envs: number of envs.
        sensors: whether the box carries the sensors.
        n_substeps: physics steps in one step.
        capture: further options of the IMU.
    """
    made = sn.Scene(dt=0.01, substeps=n_substeps)
    made.add_object(sn.Plane())
    made.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", pos=(0, 0, 0.1), free=True)
    imu = None
    if sensors:
        imu = made.add_sensor(sn.IMU(link="box", **NOISY, **capture))
        made.add_sensor(sn.Contact(link="box"))
        made.add_sensor(sn.ContactForce(link="box"))
    made.build(n_envs=n_envs)
    made.step(50)
    return made, imu


class TorchChain:
    """Noise, bias, random walk, a ring and jittered delay as plain torch operations, as a user would write them."""

    def __init__(self, columns: int, n_envs: int, slots: int = 4) -> None:
        self.raw = torch.randn(columns, n_envs)
        self.walk = torch.zeros(columns, n_envs)
        self.noise, self.bias, self.sigma = (torch.rand(columns, n_envs) for _ in range(3))
        self.ring = torch.zeros(slots, columns, n_envs)
        self.out = torch.zeros(columns, n_envs)
        self.envs = torch.arange(n_envs)
        self.slots, self.head = slots, 0

    def step(self) -> None:
        """Make one step of all columns."""
        self.head = (self.head + 1) % self.slots
        self.walk += self.sigma * torch.randn_like(self.walk)
        reading = self.raw + self.bias + self.walk + self.noise * torch.randn_like(self.raw)
        self.ring[self.head] = reading
        lag = 1 + (torch.rand(self.out.shape[1]) * 2).long()
        self.out.copy_(self.ring[(self.head - lag) % self.slots, :, self.envs].T)


def many_columns(n_envs: int, columns: int) -> sn.Scene:
    """Return a scene with about ``columns`` columns of IMUs, for the cost of the fused step alone."""
    made = sn.Scene(dt=0.01, substeps=1)
    made.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", free=True)
    for i in range(round(columns / 9)):
        every = {f"{part}_{name}": 0.1 for part in ("acc", "gyro", "mag") for name in ("noise", "bias", "random_walk")}
        made.add_sensor(sn.IMU(link="box", uuid=f"imu{i}", delay=0.02, jitter=0.02, **every))
    made.build(n_envs=n_envs)
    return made


def sensor_cost(report: Report, rounds: int) -> None:
    """Compare a scene with sensors and one without; a second one without shows the uncertainty."""
    for n_envs, calls, bound in ((1, 400, 40.0), (64, 30, None), (1024, 6, 1.5)):
        full, _ = scene(n_envs)
        bare, _ = scene(n_envs, sensors=False)
        again, _ = scene(n_envs, sensors=False)
        contenders = {"full": full.step, "bare": bare.step, "again": again.step, "sense": full._sensing.step}
        times = interleave(contenders, rounds, calls)
        cost = difference(times, "full", "bare") * 1e6
        own = statistics.median(times["sense"]) * 1e6
        physics = statistics.median(times["bare"]) * 1e6
        if n_envs == 1:
            report.add("physics step, 1 env", physics, "us")
            report.add("sensors beyond physics, 1 env", cost, "us", bound)
            report.add("  of which the pipeline", own, "us")
            report.add("  interquartile range of the rounds", spread(times, "full", "bare") * 1e6, "us")
            report.add("  the same for two scenes without sensors", spread(times, "again", "bare") * 1e6, "us")
        else:
            report.add(f"physics step, {n_envs} envs", physics / n_envs, "us per env")
            report.add(f"sensors beyond physics, {n_envs} envs", cost / n_envs, "us per env", bound)
            report.add(f"  of which the pipeline, {n_envs} envs", own / n_envs, "us per env")
            span, control = (spread(times, name, "bare") * 1e6 / n_envs for name in ("full", "again"))
            report.add(f"  interquartile range of the rounds, {n_envs} envs", span, "us per env")
            report.add(f"  the same for two scenes without sensors, {n_envs} envs", control, "us per env")


def one_substep(report: Report, rounds: int) -> None:
    """Measure the same at 1,024 envs with one physics step in a step, where the physics hides less of it."""
    full, bare, again = (scene(1024, sensors, n_substeps=1)[0] for sensors in (True, False, False))
    times = interleave({"full": full.step, "bare": bare.step, "again": again.step}, rounds, 20)
    report.add("sensors beyond physics, 1024 envs, 1 substep", difference(times, "full", "bare") * 1e3, "ms", 0.55)
    for name, what in (("full", "interquartile range of the rounds"), ("again", "the same for two scenes without")):
        report.add(f"  {what}, 1 substep", spread(times, name, "bare") * 1e3, "ms")


def substeps(report: Report, rounds: int) -> None:
    """Compare an IMU that is captured at each of 5 substeps with one that is captured once a step."""
    fast, once = (scene(1024, **capture)[0] for capture in ({"substeps": True}, {}))
    times = interleave({"fast": fast.step, "once": once.step}, rounds, 6)
    report.add("IMU at each of 5 substeps / once a step, 1024 envs", ratio(times, "fast", "once"), "x", 1.4)


def fused_step(report: Report, rounds: int) -> None:
    """Compare the fused step of 126 columns with torch operations on as many columns."""
    for n_envs, calls in ((1, 300), (64, 100), (4096, 3)):
        ours, torches = many_columns(n_envs, 126), TorchChain(126, n_envs)
        times = interleave({"ours": ours._sensing.step, "torch": torches.step}, rounds, calls)
        report.add(f"fused step, 126 columns, {n_envs} envs", statistics.median(times["ours"]) * 1e6, "us")
        report.add(f"  torch operations, {n_envs} envs", statistics.median(times["torch"]) * 1e6, "us")
        report.add(f"  ours / torch, {n_envs} envs", ratio(times, "ours", "torch"), "x", 1.0)


def reads(report: Report, rounds: int) -> None:
    """Measure read() at several batch sizes."""
    for n_envs in (1, 1024, 16384):
        _, imu = scene(n_envs)
        times = interleave({"read": imu.read}, rounds, 5000)
        report.add(f"read(), {n_envs} envs", statistics.median(times["read"]) * 1e6, "us", 2.0)


def bare_physics(report: Report, rounds: int) -> None:
    """Compare scene.step() without sensors with mujoco.batch.Batch on the same model with the same stage."""
    stage = mujoco.mjtStage.mjSTAGE_VEL.value
    for n_envs, calls in ((64, 30), (1024, 6)):
        ours, _ = scene(n_envs, sensors=False)
        batch = Batch(ours.model, n_envs)
        batch.state[:] = ours.get_state().numpy()
        times = interleave({"ours": ours.step, "bare": lambda b=batch: b.step(nstep=5, stage=stage)}, rounds, calls)
        report.add(f"scene.step() / bare Batch.step(), {n_envs} envs", ratio(times, "ours", "bare"), "x", 1.05)


def memory(report: Report, steps: int) -> None:
    """Measure the growth of the process over many steps and reads."""
    made, imu = scene(4)
    for _ in range(1000):
        made.step()
        imu.read()
    before = resident()
    for _ in range(steps):
        made.step()
        imu.read()
    report.add(f"memory grown over {steps} steps", resident() - before, "MiB", 1.0)


def resident() -> float:
    """Return the resident memory of this process in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def import_time(report: Report) -> None:
    """Measure the import of a scene and a sensor beyond that of torch, best of five."""
    code = "import time; a = time.perf_counter(); {}; print(time.perf_counter() - a)"
    imports = {"torch": "import torch", "sensorium": "from sensorium import IMU, Scene"}  # names load at first use
    best = {
        name: min(float(subprocess.check_output([sys.executable, "-c", code.format(text)])) for _ in range(5))
        for name, text in imports.items()
    }
    report.add("import sensorium beyond torch", best["sensorium"] - best["torch"], "s", 1.0)


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, for a quick estimate")
    arguments = parser.parse_args()
    rounds = 5 if arguments.quick else 31
    report = Report("Foundation", ("mujoco", "torch", "numba", "numpy"))
    sensor_cost(report, rounds)
    one_substep(report, rounds)
    substeps(report, rounds)
    fused_step(report, rounds)
    reads(report, rounds)
    bare_physics(report, rounds)
    memory(report, 5_000 if arguments.quick else 100_000)
    import_time(report)
    report.finish(arguments.json)


if __name__ == "__main__":
    main()
