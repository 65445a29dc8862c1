"""Units on a Ray cluster: each is a task that any machine can make, and make again."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sensorium.errors import GenerationError
from sensorium.generation.options import GenerateOptions

_makers: dict[tuple[str, str], Any] = {}
"""Of this process: a task is built once, and makes unit after unit."""


def make_unit(options: str, folder: str, unit: int, wanted: tuple[int, ...]) -> tuple[dict[int, bool], int]:
    """Make a unit in this process: number -> whether it succeeded, and how many env-steps it took."""
    from sensorium.generation.unit import UnitMaker

    key = options, folder
    if key not in _makers:
        while _makers:
            _makers.popitem()[1].close()
        _makers[key] = UnitMaker(GenerateOptions.model_validate_json(options), Path(folder))
    steps: list[int] = []
    return _makers[key].make(unit, wanted, steps.append), sum(steps)


class RayRunner:
    """Makes units as Ray tasks. Ray starts a task again whose worker or machine is gone.

    Args:
        options: of the data set.
        folder: where to; every machine must see it under this path.
        address: of the cluster, "auto" for the one that runs here, or "local" to start one here.
        workers: how many units at once; with "local" also how many processes.
    """

    def __init__(self, options: GenerateOptions, folder: Path, address: str, workers: int) -> None:
        try:
            ray: Any = importlib.import_module("ray")
        except ImportError:
            raise GenerationError(
                "a cluster needs Ray, which is not installed: pip install 'sensorium[cluster]'"
            ) from None
        self._ray = ray
        self._started = not ray.is_initialized()
        if self._started:
            quiet = {"log_to_driver": False, "logging_level": "error"}
            try:
                if address == "local":
                    ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
                else:
                    ray.init(address=address, **quiet)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise GenerationError(f"there is no Ray cluster at {address!r}: {error}") from None
        self._options, self._folder = options.model_dump_json(), str(folder.resolve())
        self._most = max(workers, int(ray.cluster_resources().get("CPU", 1)) if address != "local" else workers)
        self._task = ray.remote(num_cpus=1, max_retries=-1)(make_unit)

    def run(
        self, next_job: Callable[[], tuple[int, frozenset[int]] | None], progress: Callable[[int], None]
    ) -> Iterator[tuple[int, dict[int, bool]]]:
        """Make units until ``next_job`` has none and all are made; gives each as it is done."""
        running: dict[Any, int] = {}
        while True:
            while len(running) < self._most and (job := next_job()) is not None:
                unit, wanted = job
                running[self._task.remote(self._options, self._folder, unit, tuple(sorted(wanted)))] = unit
            if not running:
                return
            done, _ = self._ray.wait(list(running), num_returns=1)
            unit = running.pop(done[0])
            try:
                made, steps = self._ray.get(done[0])
            except self._ray.exceptions.RayError as error:
                raise GenerationError(f"unit {unit} failed on the cluster: {error}") from None
            progress(steps)
            yield unit, made

    def close(self) -> None:
        """Leave the cluster; end it if it was started here."""
        if self._started:
            self._ray.shutdown()
