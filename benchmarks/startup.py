"""Measure the time to the first readings: README's first block in a new process, with a cold and a warm kernel cache.

.venv/bin/python benchmarks/startup.py [--rounds 3] [--json out/startup.json]
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from common import Report

README = Path(__file__).parent.parent / "README.md"
TIMED = """
import time
begin = time.perf_counter()
import torch
torch_done = time.perf_counter()
from sensorium import IMU, Scene
imported = time.perf_counter()
{block}
print("times", torch_done - begin, imported - begin, time.perf_counter() - imported)
"""


def run(cache: str) -> tuple[float, ...]:
    """Return the seconds of ``import torch``, of both imports, and from there to the last line of the block."""
    match = re.search(r"```python\n(.*?)```", README.read_text(), re.S)
    assert match is not None
    code = TIMED.format(block=match.group(1))
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # with it, every process compiles the modules that it imports
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return tuple(float(word) for word in done.stdout.splitlines()[-1].split()[1:])


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds; the median is reported")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    options = parser.parse_args()
    cold, warm = [], []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(run(cache))
            warm.append(run(cache))
    report = Report("Start-up", ("torch", "numba", "llvmlite", "numpy"))
    median = [[statistics.median(column) for column in zip(*rows, strict=True)] for rows in (cold, warm)]
    report.add("import torch", median[1][0], "s")
    report.add("import sensorium, torch included", median[1][1], "s")
    report.add("cold cache: after the import, to the last line", median[0][2], "s", 15)
    report.add("cold cache: import included", median[0][1] + median[0][2], "s", 15)
    report.add("warm cache: after the import, to the last line", median[1][2], "s", 2)
    report.add("warm cache: import included", median[1][1] + median[1][2], "s")
    report.finish(options.json)


if __name__ == "__main__":
    main()
