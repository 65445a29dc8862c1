"""The ledger of a generation: which episodes of a dataset exist, and which units are still to be made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import h5py

from sensorium.datasets.dataset import Episode
from sensorium.datasets.header import FAILED, FileEntry, episode_name, episode_number, read_manifest
from sensorium.files import inside
from sensorium.generation.options import GenerateOptions


class UnitJob(NamedTuple):
    """A unit to simulate: episodes ``unit * envs`` to ``(unit + 1) * envs - 1``."""

    unit: int
    wanted: frozenset[int]
    """Numbers of the episodes to write; the others exist already."""


class UnitResult(NamedTuple):
    """A finished unit."""

    unit: int
    success: dict[int, bool]
    """Number of a written episode -> whether it succeeded."""


Runner = Callable[[Callable[[], UnitJob | None], Callable[[int], None]], Iterator[UnitResult]]
"""``run(next_job, progress)``: makes units until ``next_job()`` returns None, and yields each result.

``progress`` is called with the number of env-steps that were simulated since the last call."""


class Ledger:
    """The episodes of a dataset that exist, found by their files.

    A file under its final name was complete when it was renamed. An episode whose files were damaged since is made
    again.

    Args:
        folder: folder of the dataset.
        options: options of the dataset.

    Attributes:
        done: number of an existing or noted episode -> whether it succeeded.
    """

    def __init__(self, folder: Path, options: GenerateOptions) -> None:
        self.folder, self.options = folder, options
        manifest = read_manifest(folder)
        failed = (folder / FAILED).glob("episode_*.json")
        complete = [path for path in folder.glob("episode_*.h5") if _is_complete(path, manifest.get(path.stem, {}))]
        self.done = {
            **{episode_number(path): True for path in complete},
            **{
                episode_number(path): False
                for path in failed
                if not options.keep_failed or path.with_suffix(".h5").is_file()
            },
        }
        self._next_unit = 0
        self._n_pending = 0

    def next_job(self) -> UnitJob | None:
        """Return the next unit with missing episodes; None if enough episodes exist or are being made."""
        envs = self.options.envs
        while self.successes + self._n_pending < self.options.episodes or self._next_unit * envs < self._frontier():
            unit = self._next_unit
            if unit * envs >= self.options.attempts:
                return None
            self._next_unit += 1
            missing = frozenset(n for n in range(unit * envs, (unit + 1) * envs) if n not in self.done)
            if missing:
                self._n_pending += len(missing)
                return UnitJob(unit, missing)
        return None

    def _frontier(self) -> int:
        """Return the number up to which all episodes must be known, so that the first successes are known."""
        good = sorted(number for number, success in self.done.items() if success)
        return good[self.options.episodes - 1] if len(good) >= self.options.episodes else 0

    def note(self, success: dict[int, bool]) -> None:
        """Add the episodes of a finished unit: number -> whether it succeeded."""
        self.done |= success
        self._n_pending -= len(success)

    @property
    def successes(self) -> int:
        """Number of successful episodes."""
        return sum(self.done.values())

    def finish(self) -> list[int]:
        """Return the numbers of the first successful episodes. Episodes beyond the last of them are removed."""
        good = sorted(number for number, success in self.done.items() if success)
        if len(good) < self.options.episodes:
            return good
        for number in good[self.options.episodes :]:
            _remove(self.folder, number)
            del self.done[number]
        last = good[self.options.episodes - 1]
        for number in [number for number, success in self.done.items() if not success and number > last]:
            _remove(self.folder / FAILED, number)
            del self.done[number]
        return good[: self.options.episodes]


def _remove(folder: Path, number: int) -> None:
    """Delete all files of an episode. Episode 1000000 begins with the name of episode 100000, and is another one."""
    name = episode_name(number)
    for path in folder.glob(f"{name}[!0-9]*"):
        path.unlink()


def _is_complete(path: Path, listed: Mapping[str, FileEntry]) -> bool:
    """Return whether an episode can be opened, its videos exist, and all sizes match the manifest."""
    try:
        with h5py.File(path, "r", locking=False) as file:  # raises if the file was truncated
            if f"traj_{episode_number(path)}" not in file:
                return False
    except (OSError, RuntimeError):
        return False
    episode, sizes = Episode(path), {name: entry["bytes"] for name, entry in listed.items()}
    files = [path, *(episode.video_path(name) for name in episode.cameras)]
    files += [inside(path.parent, name) for name in sizes]
    return all(file.is_file() and sizes.get(file.name, file.stat().st_size) == file.stat().st_size for file in files)
