"""Fits of sensors: coverage of the 95 % intervals on simulated logs, and the time that a fit takes.

Every imperfection and kind of sensor is simulated with known values (``tests/fit_cases.py``), fitted, and counted:
the intervals of identified parameters should cover the truth in 90 to 99 % of the runs.

    OMP_NUM_THREADS=1 .venv/bin/python benchmarks/fit.py --runs 200 --json out/fit.json
    .venv/bin/python benchmarks/fit.py --cases "imu at rest" gps --runs 50
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
from common import Report

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from fit_cases import CASES, imu_logs
from fit_scenes import coverage

import sensorium as sn


def measure(report: Report, names: list[str], runs: int, path: Path | None) -> None:
    """Count intervals of each case; results are written after every case."""
    found: dict[str, dict[str, tuple[int, int, int]]] = {}
    for name in names:
        start = time.perf_counter()
        found[name] = coverage(CASES[name], runs, seed=7)
        for estimate, (covered, identified, count) in found[name].items():
            share = 100 * covered / max(identified, 1)
            what = f"{name}: {estimate}, identified {100 * identified / count:.0f} % of {count}, covered"
            report.add(what, share, "%")
        report.add(f"{name}: time per run", (time.perf_counter() - start) / runs, "s")
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
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES), help="cases to run")
    arguments = parser.parse_args()
    report = Report("Fits", ("numpy", "scipy"))
    speed(report)
    measure(report, arguments.cases, arguments.runs, arguments.json)
    report.finish(arguments.json)


if __name__ == "__main__":
    main()
