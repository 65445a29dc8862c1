"""Fits of sensors: coverage of the 95 % intervals on simulated logs, and the time that a fit takes.

Every imperfection and kind of sensor is simulated with known values (``tests/fit_cases.py``), fitted, and counted:
the intervals of identified parameters should cover the truth in 90 to 99 % of the runs.

    OMP_NUM_THREADS=1 .venv/bin/python benchmarks/fit.py --runs 200 --workers 2 --json out/fit.json
    .venv/bin/python benchmarks/fit.py --cases "imu at rest" gps --runs 50
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from common import Report

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from fit_cases import CASES, imu_logs
from fit_scenes import coverage

import sensorium as sn

_CHUNK = 10
"""Runs with one seed, so that the results do not depend on the number of workers."""


def count(name: str, runs: int, seed: int) -> dict[str, tuple[int, int, int]]:
    """Return the counts of some runs of a case."""
    return coverage(CASES[name], runs, seed)


def measure(report: Report, names: list[str], runs: int, workers: int, path: Path | None) -> None:
    """Count intervals of each case; results are written after every case."""
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    sizes = [min(_CHUNK, runs - first) for first in range(0, runs, _CHUNK)]
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        for name in names:
            start = time.perf_counter()
            parts = list(pool.map(count, [name] * len(sizes), sizes, range(7, 7 + len(sizes))))
            found[name] = {
                each: tuple(map(sum, zip(*(part[each] for part in parts), strict=True))) for each in parts[0]
            }
            for estimate, (covered, identified, total) in found[name].items():
                share = 100 * covered / max(identified, 1)
                what = f"{name}: {estimate}, identified {100 * identified / total:.0f} % of {total}, covered"
                report.add(what, share, "%")
            report.add(f"{name}: time of all runs, {workers} processes", time.perf_counter() - start, "s")
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.with_suffix(".counts.json").write_text(json.dumps(found, indent=1) + "\n")


def speed(report: Report) -> None:
    """Time the fit of a log of 3 minutes at 286 Hz, gyroscope, accelerometer and magnetometer, at rest."""
    options = sn.IMU(link="body/base", uuid="imu", gyro_noise_density=2e-4, acc_noise_density=2e-3, mag_noise=1e-7)
    log = next(imu_logs(options, 51480, 1, 0)) | {"time": np.arange(51480) / 286.0}
    sn.fit.imu({name: array[:2000] for name, array in log.items()})
    start = time.process_time()
    sn.fit.imu(log)
    report.add("IMU, 3 min at 286 Hz, at rest: CPU time", time.process_time() - start, "s", 30.0)


def main() -> None:
    """Run the cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument("--runs", type=int, default=200, help="runs of each case")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES), help="cases to run")
    arguments = parser.parse_args()
    report = Report("Fits", ("numpy", "scipy"))
    speed(report)
    measure(report, arguments.cases, arguments.runs, arguments.workers, arguments.json)
    report.finish(arguments.json)


if __name__ == "__main__":
    main()
