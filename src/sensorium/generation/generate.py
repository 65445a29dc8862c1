"""``generate``: a data set of episodes, resumed where it was left."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py

from sensorium.datasets.dataset import ABOUT, FORMAT, MANIFEST, VERSION, Episode, read_about, read_manifest
from sensorium.datasets.episode_writer import episode_name
from sensorium.errors import DatasetError, GenerationError
from sensorium.files import PART, explain_errors, file_checksum, lock_folder, package_versions, write_whole
from sensorium.generation.options import FREE, GenerateOptions
from sensorium.generation.unit import FAILED, UnitMaker


@dataclass
class Generated:
    """What became of it.

    Attributes:
        folder: where it lies.
        episodes: how many there are.
        attempts: how many were tried, in this run and before.
        made: how many this run made.
        env_steps: how many steps of an env this run simulated.
        seconds: how long this run took.
    """

    folder: Path
    episodes: int
    attempts: int
    made: int
    env_steps: int
    seconds: float

    @property
    def success_rate(self) -> float:
        """Of those tried."""
        return self.episodes / max(self.attempts, 1)


class Ledger:
    """What is known of the episodes of a data set, by the files that are there: one under its own name was
    whole when it got it; one that has been damaged since is made again."""

    def __init__(self, folder: Path, options: GenerateOptions) -> None:
        self.folder, self.options = folder, options
        manifest = read_manifest(folder)
        failed = (folder / FAILED).glob("episode_*.json")
        there = [path for path in folder.glob("episode_*.h5") if _is_whole(path, manifest.get(path.stem, {}))]
        self.done = {
            **{_number(path): True for path in there},
            **{_number(path): False for path in failed if not options.keep_failed or path.with_suffix(".h5").is_file()},
        }
        self._given = 0
        self._pending = 0

    def next_job(self) -> tuple[int, frozenset[int]] | None:
        """A unit that is not made yet, with the numbers that it lacks; None while enough are made or being made."""
        envs = self.options.envs
        while self.successes + self._pending < self.options.episodes or self._given * envs < self._frontier():
            unit = self._given
            if unit * envs >= self.options.attempts:
                return None
            self._given += 1
            lacking = frozenset(n for n in range(unit * envs, (unit + 1) * envs) if n not in self.done)
            if lacking:
                self._pending += len(lacking)
                return unit, lacking
        return None

    def _frontier(self) -> int:
        """All below this number must be known, for the first successes to be known."""
        known = sorted(number for number, good in self.done.items() if good)
        return known[self.options.episodes - 1] if len(known) >= self.options.episodes else 0

    def note(self, made: dict[int, bool]) -> None:
        """A unit was made."""
        self.done |= made
        self._pending -= len(made)

    @property
    def successes(self) -> int:
        """How many have succeeded."""
        return sum(self.done.values())

    def finish(self) -> list[int]:
        """Numbers of the first episodes that succeeded; what was made beyond them is removed."""
        good = sorted(number for number, fine in self.done.items() if fine)
        if len(good) < self.options.episodes:
            return good
        for number in good[self.options.episodes :]:
            for path in self.folder.glob(f"{episode_name(number)}*"):
                path.unlink()
            del self.done[number]
        last = good[self.options.episodes - 1]
        for number in [number for number, fine in self.done.items() if not fine and number > last]:
            for path in (self.folder / FAILED).glob(f"{episode_name(number)}*"):
                path.unlink()
            del self.done[number]
        return good[: self.options.episodes]


Runner = Callable[
    [Callable[[], tuple[int, frozenset[int]] | None], Callable[[int], None]], Iterator[tuple[int, dict[int, bool]]]
]


def generate(
    options: GenerateOptions,
    folder: str | Path,
    *,
    workers: int = 1,
    cluster: str | None = None,
    progress: Callable[[Ledger, int], None] = lambda ledger, env_steps: None,
) -> Generated:
    """Generate a data set, or what is missing of it.

    Args:
        options: what is to be in it.
        folder: where to; if it holds a data set of the same options, that one is completed.
        workers: how many processes on this machine; 1 for this one.
        cluster: address of a Ray cluster, as "ray://head:10001" or "auto", or "local" to start one here; all of its
            machines must see the folder.
        progress: called now and then with what is known, and how many env-steps were simulated.
    """
    folder = Path(folder)
    with explain_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with lock_folder(folder):
        _begin(folder, options)
        ledger, start = Ledger(folder, options), time.perf_counter()
        known, env_steps = set(ledger.done), 0

        def stepped(count: int) -> None:
            nonlocal env_steps
            env_steps += count
            progress(ledger, env_steps)

        run, close = _runner(options, folder, workers, cluster)
        try:
            for _, made in run(ledger.next_job, stepped):
                ledger.note(made)
                progress(ledger, env_steps)
        finally:
            close()
        made_now = len(ledger.done) - len(known)
        numbers = ledger.finish()
        if len(numbers) < options.episodes:
            raise GenerationError(
                f"{len(numbers)} of {options.episodes} episodes succeeded after {len(ledger.done)} attempts, which is "
                "as many as are allowed; those that did are kept. Raise max_attempts, or look at what fails with "
                "keep_failed"
            )
        _clean(folder)
        _write_manifest(folder, numbers, known)
    seconds = time.perf_counter() - start
    return Generated(folder, len(numbers), len(ledger.done), made_now, env_steps, seconds)


def _runner(
    options: GenerateOptions, folder: Path, workers: int, cluster: str | None
) -> tuple[Runner, Callable[[], None]]:
    if cluster is not None:
        from sensorium.generation.cluster import RayRunner

        ray = RayRunner(options, folder, cluster, workers)
        return ray.run, ray.close
    if workers > 1:
        from sensorium.generation.pool import Pool

        pool = Pool(options, folder, workers)
        return pool.run, pool.close
    maker = UnitMaker(options, folder)

    def here(
        next_job: Callable[[], tuple[int, frozenset[int]] | None], progress: Callable[[int], None]
    ) -> Iterator[tuple[int, dict[int, bool]]]:
        while (job := next_job()) is not None:
            yield job[0], maker.make(*job, progress)

    return here, maker.close


def _begin(folder: Path, options: GenerateOptions) -> None:
    """Note what the data set is, or see that it is the same; and remove what an interrupted process left."""
    path = folder / ABOUT
    if path.is_file():
        before = read_about(folder)["options"]
        if any(folder.glob("episode_*.h5")) or any((folder / FAILED).glob("episode_*.json")):
            _check_same(folder, before, options.model_dump(mode="json"))  # else it failed before it had any
    elif any(folder.iterdir()):
        raise DatasetError(f"{folder} is not empty, and no data set; give another folder")
    about = {
        "format": FORMAT,
        "version": VERSION,
        "options": options.model_dump(mode="json"),
        "versions": package_versions(),
    }
    write_whole(path, json.dumps(about, indent=1).encode())
    _clean(folder)


def _check_same(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """See that a data set is gone on with as it was begun."""
    for name in now:
        if name not in FREE and before.get(name) != now[name]:
            raise DatasetError(
                f"{folder} holds a data set with {name} = {before.get(name)!r}, and now it is {now[name]!r}; give "
                "another folder, or the same options"
            )
    if now["episodes"] < before["episodes"]:
        raise DatasetError(
            f"{folder} is a data set of {before['episodes']} episodes, and now {now['episodes']} are asked for; "
            "nothing is taken away: give another folder"
        )


def _is_whole(path: Path, listed: dict[str, Any]) -> bool:
    """Whether an episode can be opened, with its videos beside it, and its files are as long as the manifest says."""
    try:
        h5py.File(path, "r", locking=False).close()  # which sees where a file was cut short
    except OSError:
        return False
    episode, sizes = Episode(path), {name: entry["bytes"] for name, entry in listed.items()}
    files = [path, *(episode.video_path(name) for name in episode.cameras)]
    files += [path.with_name(name) for name in sizes]
    return all(file.is_file() and sizes.get(file.name, file.stat().st_size) == file.stat().st_size for file in files)


def _clean(folder: Path) -> None:
    """Remove what processes left that ended before their time."""
    for left in (*folder.glob(f"*{PART}"), *(folder / FAILED).glob(f"*{PART}")):
        left.unlink(missing_ok=True)


def _write_manifest(folder: Path, numbers: list[int], known: set[int]) -> None:
    """``manifest.json``: the files of each episode, with sizes and check sums; of ``known`` episodes those that it had.

    It is left alone where it says the same.
    """
    path = folder / MANIFEST
    old = read_manifest(folder)
    entries = {}
    for number in numbers:
        name = episode_name(number)
        files = {file.name: file.stat().st_size for file in sorted(folder.glob(f"{name}*"))}
        entry = old.get(name, {}) if number in known else {}
        if {file: about["bytes"] for file, about in entry.items()} != files:
            entry = {
                file: {"bytes": size, "crc32": int(file_checksum(folder / file), 16)} for file, size in files.items()
            }
        entries[name] = entry
    if entries != old:
        write_whole(path, json.dumps(entries, indent=1).encode())


def _number(path: Path) -> int:
    return int(path.stem.removeprefix("episode_"))
