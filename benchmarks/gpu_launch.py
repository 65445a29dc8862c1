"""Compare two ways to launch a step's CUDA graph: the driver (cuGraphLaunch by ctypes) and torch's public replay().

.venv/bin/python benchmarks/gpu_launch.py [--envs 1024 8192] [--rounds 21] [--steps 200] [--json out/gpu_launch.json]

Both ways launch the same captured graph of the same scene, alternating in one process; each round swaps the order.
Measured per scene and number of envs:

    throughput  wall time per scene.step() of a run of steps, with one synchronisation at the end
    latency     wall time per scene.step() with a synchronisation after each
    host        host time of scene.step(), with the device idle before it

The rule: the driver's launch is used only if it saves more than 10 % of the throughput time of a step at 1,024 envs.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from gpu import arm_scene
from rich.console import Console
from rich.table import Table

import sensorium as sn

LIMIT = 0.10
"""Fraction of a step that the driver's launch must save to be used."""
DECIDING = 1024
"""Number of envs at which the rule applies."""
DRIVER, PUBLIC = "driver", "replay()"


class PublicLaunch:
    """Launcher of a graph by torch's public call."""

    __slots__ = ("_graph",)

    def __init__(self, graph: torch.cuda.CUDAGraph) -> None:
        self._graph = graph

    def launch(self) -> None:
        """Run the graph on the current stream."""
        self._graph.replay()


class DriverLaunch:
    """Launcher of a graph by the driver."""

    __slots__ = ("_call", "_current_stream", "_exec", "_index")

    def __init__(self, graph: torch.cuda.CUDAGraph, index: int) -> None:
        library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        self._call, self._index = library.cuGraphLaunch, index
        self._current_stream = torch._C._cuda_getCurrentRawStream  # private; checked with torch 2.13.0
        self._exec = ctypes.c_void_p(graph.raw_cuda_graph_exec())

    def launch(self) -> None:
        """Run the graph on the current stream."""
        stream = self._current_stream(self._index)
        if self._call(self._exec, ctypes.c_void_p(stream) if stream else None):
            raise RuntimeError("the driver refused the graph")


class Quartiles(NamedTuple):
    """Quartiles of the rounds of one measurement."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> Quartiles:
        """Return the quartiles of at least two values."""
        return cls(*statistics.quantiles(values, n=4, method="inclusive"))

    def text(self, scale: float, digits: int) -> str:
        """Return the median, with the quartiles in brackets."""
        low, median, high = (f"{value * scale:.{digits}f}" for value in self)
        return f"{median} [{low}, {high}]"


def drop_scene(n_envs: int) -> sn.Scene:
    """Return a scene of a box that falls on the ground, with an IMU and a contact-force sensor."""
    scene = sn.Scene(dt=0.01, substeps=5)
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", pos=(0, 0, 0.5), free=True)
    scene.add_sensor(sn.IMU(link="box", uuid="imu", acc_noise=0.02, gyro_noise=0.005, delay=0.02, jitter=0.02))
    scene.add_sensor(sn.ContactForce(link="box", uuid="force", resolution=0.01, history_length=4))
    scene.build(n_envs=n_envs, device="cuda", seed=0)
    return scene


SCENES: dict[str, Callable[[int], sn.Scene]] = {"drop": drop_scene, "arm": lambda n: arm_scene(n, sensors=True)}


def launchers(world: Any) -> dict[str, Any]:
    """Return way -> launcher of the world's step graph. The world must have stepped before."""
    graph = world._graphs["step"]._graph
    return {DRIVER: DriverLaunch(graph, world.device.index), PUBLIC: PublicLaunch(graph)}


def alternate(ways: dict[str, Callable[[], None]], measure: Callable[[], float], rounds: int) -> dict[str, list[float]]:
    """Measure both ways in alternation; the first way of a round is the last of the next one.

    Args:
        ways: name -> function that switches to that way.
        measure: function that returns seconds.
        rounds: number of rounds.
    """
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(-1, rounds):
        for name in list(ways)[:: 1 if number % 2 == 0 else -1]:
            ways[name]()
            took = measure()
            if number >= 0:  # the first round warms up
                times[name].append(took)
    return times


@contextmanager
def no_collection() -> Iterator[None]:
    """Disable Python's garbage collector while timing."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def throughput(step: Callable[[], Any], wait: Callable[[], Any], steps: int) -> float:
    """Return the seconds per step of a run of steps with one synchronisation at the end."""
    wait()
    with no_collection():
        start = time.perf_counter()
        for _ in range(steps):
            step()
        wait()
        return (time.perf_counter() - start) / steps


def latency(step: Callable[[], Any], wait: Callable[[], Any], steps: int) -> float:
    """Return the median seconds of a step with a synchronisation after each."""
    wait()
    times = []
    with no_collection():
        for _ in range(steps):
            start = time.perf_counter()
            step()
            wait()
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def host(step: Callable[[], Any], wait: Callable[[], Any], steps: int) -> float:
    """Return the median host time of a step in seconds, with the device idle before."""
    times = []
    with no_collection():
        for _ in range(steps):
            wait()
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
    wait()
    return statistics.median(times)


MEASURES = {"throughput": throughput, "latency": latency, "host": host}


def row(scene: str, n_envs: int, measure: str, times: dict[str, list[float]]) -> dict[str, Any]:
    """Return one row of the table: both ways, their ratio per round, and the fraction that the driver saves."""
    pairs = list(zip(times[DRIVER], times[PUBLIC], strict=True))
    return {
        "scene": scene,
        "n_envs": n_envs,
        "measure": measure,
        "driver_s": Quartiles.of(times[DRIVER]),
        "replay_s": Quartiles.of(times[PUBLIC]),
        "ratio": Quartiles.of([public / driver for driver, public in pairs]),
        "saved": statistics.median((public - driver) / public for driver, public in pairs),
    }


def compare(scene: sn.Scene, name: str, n_envs: int, rounds: int, steps: int) -> list[dict[str, Any]]:
    """Return all measurements of one scene."""
    world: Any = scene.world
    scene.step(50)  # captures the graph and lets the bodies come to rest
    torch.cuda.synchronize()
    found = launchers(world)

    def use(way: str) -> Callable[[], None]:
        return lambda: world._graphs.__setitem__("step", found[way])

    ways = {way: use(way) for way in (DRIVER, PUBLIC)}
    rows = []
    for measure, function in MEASURES.items():
        times = alternate(ways, lambda f=function: f(scene.step, torch.cuda.synchronize, steps), rounds)  # type: ignore[misc]
        rows.append(row(name, n_envs, measure, times))
    ways[DRIVER]()
    scene.check()  # no env diverged in either way
    return rows


def verdict(rows: list[dict[str, Any]]) -> tuple[bool, str]:
    """Return whether to use the driver's launch, and why."""
    deciding = [each for each in rows if each["n_envs"] == DECIDING and each["measure"] == "throughput"]
    if not deciding:
        return False, f"no verdict: {DECIDING:,} envs were not measured"
    savings = ", ".join(f"{each['scene']} {each['saved']:.1%}" for each in deciding)
    keeps = any(each["saved"] > LIMIT for each in deciding)
    what = "keep the driver's launch" if keeps else "use the public call"
    return keeps, f"{what}: at {DECIDING:,} envs it saves {savings} of a step; the limit is {LIMIT:.0%}"


def show(rows: list[dict[str, Any]]) -> None:
    """Print the table and the verdict."""
    table = Table("scene", "envs", "measure", "driver, us", "replay(), us", "replay() / driver", "saved", "> 10 %")
    for each in rows:
        table.add_row(
            each["scene"],
            f"{each['n_envs']:,}",
            each["measure"],
            each["driver_s"].text(1e6, 1),
            each["replay_s"].text(1e6, 1),
            each["ratio"].text(1, 3),
            f"{each['saved']:.1%}",
            "yes" if each["saved"] > LIMIT else "no",
        )
    console = Console(width=max(120, Console().width))
    console.print(table)
    console.print(verdict(rows)[1], highlight=False)


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, nargs="+", default=[1024, 8192], help="numbers of envs")
    parser.add_argument("--rounds", type=int, default=21, help="rounds per measurement, at least 2")
    parser.add_argument("--steps", type=int, default=200, help="steps per round and way")
    parser.add_argument("--scenes", nargs="+", choices=list(SCENES), default=list(SCENES), help="which scenes")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parsed = parser.parse_args(given)
    if parsed.rounds < 2 or parsed.steps < 1 or min(parsed.envs) < 1:
        parser.error("--rounds must be at least 2, --steps and --envs at least 1")
    return parsed


def main() -> None:
    """Measure everything and print the table."""
    options = arguments()
    if not torch.cuda.is_available():
        raise SystemExit("gpu_launch.py needs a CUDA device, but torch finds none")
    rows: list[dict[str, Any]] = []
    for name in options.scenes:
        for n_envs in options.envs:
            print(f"{name}, {n_envs} envs ...", file=sys.stderr, flush=True)
            scene = SCENES[name](n_envs)
            rows += compare(scene, name, n_envs, options.rounds, options.steps)
            del scene
            gc.collect()
    show(rows)
    machine = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "date": time.strftime("%Y-%m-%d")}
    print(machine)
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        plain = [{key: list(v) if isinstance(v, tuple) else v for key, v in each.items()} for each in rows]
        report = {"machine": machine, "rows": plain, "verdict": verdict(rows)[1]}
        options.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
