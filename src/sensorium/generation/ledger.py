"""The ledger of a generation: which episodes of a dataset exist, and which units are still to be made."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from sensorium.datasets.dataset import Episode
from sensorium.datasets.header import FAILED, episode_name, episode_number
from sensorium.datasets.manifest import FileEntry, damage, read_journal, read_manifest
from sensorium.errors import DatasetError
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

    A file under its final name was complete when it was renamed. An episode whose files do not match their checksums is
    removed and made again.

    Args:
        folder: folder of the dataset.
        options: options of the dataset.

    Attributes:
        done: number of an existing or noted episode -> whether it succeeded.
    """

    def __init__(self, folder: Path, options: GenerateOptions) -> None:
        self.folder, self.options = folder, options
        listed = read_manifest(folder) | read_journal(folder)
        failed = (folder / FAILED).glob("episode_*.json")
        found = sorted(episode_number(path) for path in folder.glob("episode_*.h5"))
        self.done = {
            **{number: True for number in found if self._is_whole(number, listed.get(episode_name(number), {}))},
            **{
                episode_number(path): False
                for path in failed
                if not options.keep_failed or path.with_suffix(".h5").is_file()
            },
        }
        self._next_unit = 0
        self._n_pending = 0

    def _is_whole(self, number: int, files: Mapping[str, FileEntry]) -> bool:
        """Return whether an episode matches its checksums. One that does not is removed."""
        problems = damage(self.folder, files)
        if f"{episode_name(number)}.h5" in files and not problems:
            return True
        if problems:
            warnings.warn(f"{self.folder}: episode {number} is made again: {'; '.join(problems)}", stacklevel=6)
        _remove(self.folder, number)
        return False

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


def is_complete(path: Path) -> bool:
    """Return whether an episode without checksums can be opened and its videos exist."""
    try:
        episode = Episode(path)
        return all(episode.video_path(name).is_file() for name in episode.cameras)
    except DatasetError:
        return False
