"""``generate``: generate a dataset of episodes, or complete one that was interrupted."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sensorium._arguments import checked
from sensorium._system import MAX_WORKERS
from sensorium.datasets.header import FAILED, HEADER, episode_name, read_header, write_header
from sensorium.datasets.manifest import (
    JOURNAL,
    MANIFEST,
    append_journal,
    entry_of,
    read_journal,
    read_manifest,
    write_manifest,
)
from sensorium.errors import DatasetError, GenerationError
from sensorium.files import PART, lock_folder, made_folder, written_name
from sensorium.generation.ledger import Ledger, Runner, UnitJob, UnitResult, is_complete
from sensorium.generation.options import SELECTION, GenerateOptions
from sensorium.generation.unit import UnitMaker, check_options
from sensorium.json_files import load_json
from sensorium.links import refuse_foreign_links
from sensorium.options import checked_integer

_MAX_TEXT = 300
"""Maximum length of an option's value in a message, in characters."""


@dataclass
class Generated:
    """The result of :func:`generate`.

    Attributes:
        folder: folder of the dataset.
        episodes: number of episodes.
        attempts: number of episodes that were tried, in this run and before.
        made: number of episodes that were tried in this run.
        env_steps: number of env steps that this run simulated.
        seconds: duration of this run in seconds.
    """

    folder: Path
    episodes: int
    attempts: int
    made: int
    env_steps: int
    seconds: float

    @property
    def success_rate(self) -> float:
        """Fraction of the attempts that are kept, 0 to 1: those that succeeded, unless every episode is kept."""
        return self.episodes / max(self.attempts, 1)


@checked
def generate(
    options: GenerateOptions,
    folder: str | Path,
    *,
    workers: int = 1,
    cluster: str | None = None,
    progress: Callable[[Ledger, int], None] = lambda ledger, env_steps: None,
) -> Generated:
    """Generate a dataset, or the missing episodes of an existing one.

    Args:
        options: what the dataset contains.
        folder: output folder. If it holds a dataset of the same options, that dataset is completed.
        workers: number of processes on this machine; 1 simulates in this process.
        cluster: address of a Ray cluster, e.g. "ray://head:10001" or "auto", or "local" to start one on this machine.
            All machines of the cluster must see the folder.
        progress: called during generation with the ledger of episodes and the number of simulated env steps.

    Returns:
        Counts and timing of this run.

    Raises:
        GenerationError: too few episodes succeeded, or a worker failed. Finished episodes are kept.
        DatasetError: the folder holds something else, or a dataset of other options.
        OptionError: ``workers`` is less than 1, or the task, the policy, the robot or an option cannot be used. Nothing
            is written then.

    Example:
        >>> options = sn.generation.GenerateOptions(task="pick", episodes=8, envs=4)
        >>> sn.generation.generate(options, "data/pick").success_rate
    """
    workers = checked_integer("workers", workers, 1, MAX_WORKERS)
    folder = Path(folder)
    with made_folder(folder), lock_folder(folder):
        refuse_foreign_links(folder)
        version, start = _check_folder(folder, options), time.perf_counter()
        if version is None and (workers > 1 or cluster is not None):  # this process makes the task itself otherwise
            check_options(options)
        run, close = _runner(options, folder, workers, cluster)
        try:
            _begin(folder, options, version)
            ledger, env_steps = Ledger(folder, options), 0
            known = set(ledger.done)

            def add_steps(count: int) -> None:
                nonlocal env_steps
                env_steps += count
                progress(ledger, env_steps)

            for result in run(ledger.next_job, add_steps):
                kept = [episode_name(number) for number, success in result.success.items() if success]
                append_journal(folder, {name: entry_of(folder, name) for name in kept})
                ledger.note(result.success)
                progress(ledger, env_steps)
        finally:
            close()
        made = len(ledger.done) - len(known)
        numbers = ledger.finish()
        if len(numbers) < options.episodes:
            raise GenerationError(
                f"{len(numbers)} of {options.episodes} episodes succeeded in {len(ledger.done)} attempts, the maximum; "
                f"they are kept. Raise max_attempts, or inspect the failures with keep_failed{_first_error(folder)}"
            )
        _remove_parts(folder)
        listed = read_manifest(folder) | read_journal(folder)
        write_manifest(folder, {episode_name(number): listed[episode_name(number)] for number in numbers})
    seconds = time.perf_counter() - start
    return Generated(folder, len(numbers), len(ledger.done), made, env_steps, seconds)


def _runner(
    options: GenerateOptions, folder: Path, workers: int, cluster: str | None
) -> tuple[Runner, Callable[[], None]]:
    """Return what makes the units (a cluster, worker processes or this process), and the call that ends it."""
    if cluster is not None:
        from sensorium.generation.cluster import RayRunner

        ray = RayRunner(options, folder, cluster, workers)
        return ray.run, ray.close
    if workers > 1:
        from sensorium.generation.pool import Pool

        pool = Pool(options, folder, workers)
        return pool.run, pool.close
    maker = UnitMaker(options, folder)

    def run(next_job: Callable[[], UnitJob | None], progress: Callable[[int], None]) -> Iterator[UnitResult]:
        while (job := next_job()) is not None:
            yield UnitResult(job.unit, maker.make(*job, progress))

    return run, maker.close


def _check_folder(folder: Path, options: GenerateOptions) -> int | None:
    """Check that the dataset in a folder has the same options; write nothing.

    Returns:
        The format version of the dataset; None if the folder holds no episodes.
    """
    if (folder / HEADER).is_file():
        header = read_header(folder)
        before = header["options"]
        if any(folder.glob("episode_*.h5")) or any((folder / FAILED).glob("episode_*.json")):
            before = GenerateOptions(**before).model_dump(mode="json")  # with options that are newer than the dataset
            _check_same(folder, before, options.model_dump(mode="json"))  # a dataset without episodes is replaced
            return int(header["version"])
    elif any(written_name(entry.name) != HEADER for entry in folder.iterdir()):  # except of a killed process
        raise DatasetError(f"{folder} is not empty and holds no dataset; choose another folder")
    return None


def _begin(folder: Path, options: GenerateOptions, version: int | None) -> None:
    """Write the header of a dataset; remove partial files."""
    if version is not None:
        _list_episodes(folder, version)
    write_header(folder, options.model_dump(mode="json"))
    _remove_parts(folder)


def _list_episodes(folder: Path, version: int) -> None:
    """Give a dataset checksums that an earlier version did not write, or that were lost, from the files as they are."""
    listed = read_manifest(folder)
    if version == 1 and listed:
        write_manifest(folder, listed)  # with a checksum, before the header asks for it
    if not listed and not (folder / JOURNAL).is_file():
        complete = [path for path in sorted(folder.glob("episode_*.h5")) if is_complete(path)]
        if version > 1 and complete:
            warnings.warn(
                f"{folder} has no {MANIFEST}: the checksums of {len(complete)} episodes are made from their files",
                stacklevel=5,
            )
        append_journal(folder, {path.stem: entry_of(folder, path.stem) for path in complete})


def _check_same(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Check that a dataset is continued with the options that it was begun with."""
    for name in now:
        if name not in SELECTION and before.get(name) != now[name]:
            raise DatasetError(
                f"{folder} holds a dataset with {name} = {_brief(before.get(name))}, got {_brief(now[name])}; "
                "choose another folder, or use the same options"
            )
    if now["episodes"] < before["episodes"]:
        raise DatasetError(
            f"{folder} holds a dataset of {before['episodes']} episodes, got episodes = {now['episodes']}; "
            "episodes are never removed: choose another folder"
        )


def _brief(value: object) -> str:
    """Return a value as text, for messages; the models of robots have thousands of characters."""
    text = repr(value)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."


def _first_error(folder: Path) -> str:
    """Return the error of the first failed episode that could not be written, as a part of a message; or ""."""
    for path in sorted((folder / FAILED).glob("episode_*.json")):
        try:
            error = load_json(path.read_bytes()).get("error")
        except (ValueError, AttributeError):  # damaged
            continue
        if error is not None:
            return f". {path.stem} could not be written: {error}"
    return ""


def _remove_parts(folder: Path) -> None:
    """Remove the temporary files of processes that were interrupted."""
    for part in (*folder.glob(f"*{PART}"), *(folder / FAILED).glob(f"*{PART}")):
        part.unlink(missing_ok=True)
