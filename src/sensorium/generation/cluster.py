"""Units on a Ray cluster: each unit is a Ray task, which any machine can run, or run again."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from sensorium.errors import GenerationError
from sensorium.generation.ledger import UnitJob, UnitResult
from sensorium.generation.options import GenerateOptions

if TYPE_CHECKING:
    from sensorium.generation.unit import UnitMaker

_makers: dict[tuple[str, str], UnitMaker] = {}
"""The maker of this process, by options and folder: a task is built once for many units."""


def make_unit(
    options: str, folder: str, unit: int, wanted: tuple[int, ...], working_folder: str | None = None
) -> tuple[dict[int, bool], int]:
    """Make a unit in this process.

    Args:
        options: options of the dataset, as JSON.
        folder: folder of the dataset.
        unit: number of the unit.
        wanted: numbers of the episodes to write.
        working_folder: folder relative to which the options name files, if this machine has it.

    Returns:
        Number -> whether the episode is kept, and the number of simulated env steps.
    """
    from sensorium.generation.unit import UnitMaker

    if working_folder is not None and os.path.isdir(working_folder):  # processes of a cluster begin elsewhere
        os.chdir(working_folder)
    key = options, folder
    if key not in _makers:
        while _makers:
            _makers.popitem()[1].close()
        _makers[key] = UnitMaker(GenerateOptions.model_validate_json(options), Path(folder))
    steps: list[int] = []
    return _makers[key].make(unit, wanted, steps.append), sum(steps)


@contextlib.contextmanager
def _loopback_only() -> Iterator[None]:
    """Let a cluster that is started in the block listen on 127.0.0.1 only, unless the user set Ray's own variable.

    Ray has no option for that: it replaces 127.0.0.1 by an address of the network, except where this variable is 0, as
    on macOS (seen in Ray 2.60; without it, its processes listen on all interfaces).
    """
    name = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
    if name in os.environ:
        yield
        return
    constants = importlib.import_module("ray._private.ray_constants")
    before = constants.ENABLE_RAY_CLUSTER
    os.environ[name] = "0"
    constants.ENABLE_RAY_CLUSTER = False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before  # type: ignore[attr-defined]
        del os.environ[name]


class RayRunner:
    """Makes units as Ray tasks. Ray runs a task again if its worker or machine is lost.

    Args:
        options: options of the dataset.
        folder: folder of the dataset. Every machine must see it under this path.
        address: address of the cluster, "auto" for one that runs on this machine, or "local" to start one, which
            listens on 127.0.0.1 only.
        workers: number of units at a time; with "local" also the number of processes.

    Raises:
        GenerationError: Ray is not installed, or there is no cluster at the address.
    """

    def __init__(self, options: GenerateOptions, folder: Path, address: str, workers: int) -> None:
        try:
            ray: ModuleType = importlib.import_module("ray")
        except ImportError:
            raise GenerationError("a cluster needs Ray: pip install 'sensorium[cluster]'") from None
        self._ray = ray
        self._started = not ray.is_initialized()
        if self._started:
            quiet = {"log_to_driver": False, "logging_level": "error"}
            try:
                # Ray adds the working folder of this call to the search path of its workers (seen in Ray 2.60): files
                # that lie where a command runs must not be imported
                with contextlib.chdir(sys.prefix):
                    if address == "local":
                        with _loopback_only():
                            ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
                    else:
                        ray.init(address=address, **quiet)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise GenerationError(f"cannot connect to a Ray cluster at {address!r}: {error}") from None
        self._options, self._folder = options.model_dump_json(), str(folder.resolve())
        self._max_units = max(workers, int(ray.cluster_resources().get("CPU", 1)) if address != "local" else workers)
        self._task = ray.remote(num_cpus=1, max_retries=-1)(make_unit)

    def run(self, next_job: Callable[[], UnitJob | None], progress: Callable[[int], None]) -> Iterator[UnitResult]:
        """Make units until ``next_job()`` returns None; yield each when it is finished.

        Raises:
            GenerationError: a unit failed.
        """
        running: dict[object, int] = {}
        while True:
            while len(running) < self._max_units and (job := next_job()) is not None:
                task = self._task.remote(self._options, self._folder, job.unit, tuple(sorted(job.wanted)), os.getcwd())
                running[task] = job.unit
            if not running:
                return
            (done,), _ = self._ray.wait(list(running), num_returns=1)
            unit = running.pop(done)
            try:
                made, steps = self._ray.get(done)
            except self._ray.exceptions.RayError as error:
                raise GenerationError(f"unit {unit} failed on the cluster: {error}") from None
            progress(steps)
            yield UnitResult(unit, made)

    def close(self) -> None:
        """Disconnect from the cluster; a cluster that was started here ends."""
        if self._started:
            self._ray.shutdown()
