"""Measure what fewer solver iterations cost in accuracy and save in time, against 100 iterations, on one device.

.venv/bin/python benchmarks/solver.py [--device cuda --n-envs 4096] [--cone elliptic --impratio 10]
    [--settings newton/10/20 newton/20/50] [--json FILE]

Each scene is stepped with 100 iterations. Before every step its state is copied into the scene with fewer iterations,
so that the difference of the velocities after the step is the error of that step alone. Then both run freely.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from common import Report

import sensorium as sn

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from contact_scenes import SCENES

SETTINGS = [
    ("newton", *limits) for limits in ((50, 50), (20, 50), (10, 50), (10, 20), (6, 10), (5, 20), (4, 10), (2, 10))
]
SETTINGS += [("cg", iterations, 20) for iterations in (100, 50, 20, 10)]
"""Solver, iterations, iterations of the line search."""
REFERENCE = ("newton", 100, 50)


def build(
    make: Callable[[sn.Scene], Callable[[int], None]], setting: tuple[str, int, int], args: argparse.Namespace
) -> tuple[sn.Scene, Callable[[int], None]]:
    """Return a built scene with these settings, and its control function."""
    solver, iterations, ls_iterations = setting
    limits = {"iterations": iterations, "ls_iterations": ls_iterations}
    scene = sn.Scene(dt=0.02, substeps=4, solver=solver, cone=args.cone, impratio=args.impratio, **limits)
    scene.add_object(sn.Plane(), name="floor")
    control = make(scene)
    scene.build(n_envs=args.n_envs, device=args.device)
    spread(scene)
    return scene, control


def spread(scene: sn.Scene) -> None:
    """Give the envs different velocities, so that their solvers need different numbers of iterations."""
    qvel = scene.world.bind("qvel")
    noise = torch.randn(qvel.shape, generator=torch.Generator().manual_seed(0))
    qvel += 0.02 * noise.to(qvel)
    scene.forward()


def seconds(scene: sn.Scene, control: Callable[[int], None], n_steps: int) -> float:
    """Return the seconds per step of a scene that runs from its initial state."""
    scene.reset()
    spread(scene)
    scene.check()
    start = time.perf_counter()
    for step in range(n_steps):
        control(step)
        advance(scene)
    scene.check()
    return (time.perf_counter() - start) / n_steps


def advance(scene: sn.Scene) -> int:
    """Step a scene; return how many envs diverged."""
    try:
        scene.step()
    except sn.DivergenceError as error:
        return len(error.envs)
    return 0


def kinetic(scene: sn.Scene) -> float:
    """Return the mean of the squared velocities of all degrees of freedom."""
    return float(scene.world.bind("qvel").double().square().mean())


def measure(name: str, setting: tuple[str, int, int], args: argparse.Namespace, report: Report) -> None:
    """Compare one setting with the reference in one scene."""
    (exact, control), (tried, control_tried) = build(SCENES[name], REFERENCE, args), build(SCENES[name], setting, args)
    error, speed, diverged = 0.0, 0.0, 0
    worst = torch.zeros(())
    for step in range(args.n_steps):
        control(step)
        tried.set_state(exact.get_state())
        exact.step()
        diverged += advance(tried)
        now, other = (scene.world.bind("qvel").double() for scene in (exact, tried))
        error += float((now - other).square().mean())
        speed += float(now.square().mean())
        worst = torch.maximum(worst, (now - other).abs().max().cpu())
    label = f"{name}: {setting[0]} {setting[1]}/{setting[2]}"
    report.add(f"{label}: error of the velocities in a step", 100 * math.sqrt(error / speed), "% rms")
    report.add("  largest", float(worst), "m/s or rad/s")
    if diverged:
        report.add("  steps in which an env diverged", diverged, "")
    took = seconds(tried, control_tried, args.n_steps), seconds(exact, control, args.n_steps)
    report.add("  time of a step", took[0] * 1e3, "ms")
    report.add("  time of a step / with 100 iterations", took[0] / took[1], "x")
    if name == "stack of 10":
        gap = (exact["box9"].get_pose()[0] - tried["box9"].get_pose()[0]).norm(dim=1).max()
        report.add("  top box, difference at the end", float(gap) * 1e3, "mm")
        report.add("  mean squared velocity at the end", kinetic(tried), "(m/s)²")
        report.add("  the same with 100 iterations", kinetic(exact), "(m/s)²")
    if name == "trotting dog":
        way = [float(scene["dog"].get_pose()[0][:, 0].mean()) for scene in (tried, exact)]
        report.add("  way", way[0], "m")
        report.add("  way with 100 iterations", way[1], "m")
    for scene in (exact, tried):
        scene.close()


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--n-envs", type=int, default=1)
    parser.add_argument("--n-steps", type=int, default=200)
    parser.add_argument("--cone", default="pyramidal")
    parser.add_argument("--impratio", type=float, default=1.0)
    parser.add_argument("--scenes", nargs="*", default=list(SCENES))
    parser.add_argument("--settings", nargs="*", help="only these, e.g. newton/10/20; newton/100/50 shows the noise")
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    title = f"Solver iterations on {args.device}, {args.n_envs} envs, {args.cone} cones, impratio {args.impratio:g}"
    report = Report(title, ("mujoco", "mujoco-warp", "torch"))
    chosen = SETTINGS
    if args.settings:
        words = [setting.split("/") for setting in args.settings]
        chosen = [(solver, int(iterations), int(ls_iterations)) for solver, iterations, ls_iterations in words]
    for name in args.scenes:
        for setting in chosen:
            measure(name, setting, args, report)
    report.finish(args.json)


if __name__ == "__main__":
    main()
