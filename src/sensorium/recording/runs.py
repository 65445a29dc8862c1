"""The runs of frames that a replay has on disk: which are whole, and completing those that were interrupted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from sensorium.errors import DatasetError
from sensorium.files import PART, quote
from sensorium.recording import chunk, media
from sensorium.recording.drafts import records
from sensorium.recording.folder import STATE

Run = tuple[int, int]
"""First frame, and how many."""


class ReplayLayout(NamedTuple):
    """Where the files of a replay are."""

    folder: Path
    images: dict[str, dict[str, Any]]
    """Dotted name -> what it is, as ``config.json`` says."""
    n_envs: int
    version: int
    """Of the recording's format."""

    @classmethod
    def of(cls, folder: Path, config: dict[str, Any]) -> ReplayLayout:
        """As ``config.json`` says."""
        return cls(folder, config["replay"]["images"], int(config["scene"]["n_envs"]), int(config["version"]))

    def steps(self, first: int) -> Path:
        """The file of steps of a run of frames, which comes last."""
        return self.folder / STATE / f"{first:08d}.h5"

    def files(self, first: int) -> Iterator[tuple[Path, dict[str, Any]]]:
        """The files of images of a run, and what each holds: one after the other the envs of each buffer."""
        for name, about in self.images.items():
            for env in range(self.n_envs):
                stem = self.folder / about["kind"] / quote(name) / f"env{env:04d}" / f"{first:08d}"
                yield stem.with_name(stem.name + media.KINDS[about["kind"]]["file"]), about


def finish_run(layout: ReplayLayout, first: int, count: int) -> None:
    """Make files of the first ``count`` frames of a run out of what was written; may be done again."""
    path = layout.steps(first)
    if count and layout.images:
        for image, about in layout.files(first):
            media.finish(image, about, count)
    chunk.finish(path.with_name(path.name + PART), path, count)
    for image, _ in layout.files(first):
        media.draft_of(image).unlink(missing_ok=True)


def recover_runs(layout: ReplayLayout) -> list[Run]:
    """Complete what a replay that was killed had begun; the runs of frames that were kept."""
    kept = []
    for part in sorted((layout.folder / STATE).glob(f"*.h5{PART}")):
        first = part.name.removesuffix(f".h5{PART}")
        if first.isdigit() and not layout.steps(int(first)).exists():
            count = 0
            with suppress(DatasetError):  # it was being made
                count = chunk.whole_steps(part)
            for image, _ in layout.files(int(first)):
                count = min(count, len(records(media.draft_of(image))))
            finish_run(layout, int(first), count)
            if count:
                kept.append((int(first), count))
    for left in layout.folder.rglob(f"*{PART}"):
        left.unlink()
    return kept


def whole_runs(layout: ReplayLayout) -> tuple[list[Run], list[Run]]:
    """The runs of frames that are whole; and those of which a file is missing or damaged, whose files are removed."""
    whole: list[Run] = []
    broken: list[Run] = []
    for path in sorted((layout.folder / STATE).glob("*.h5")):
        first, count = int(path.stem), 0
        try:
            steps = chunk.Chunk(path)
            count = len(steps)
            good = all(steps.is_whole(row) for row in range(count)) and _images_are_whole(layout, first, count)
            steps.close()
        except DatasetError:
            good = False
        (whole if good else broken).append((first, count))
        if not good:
            path.unlink()  # before the others: without it, they are not looked at
            for file in (chunk.events_path(path), *(image for image, _ in layout.files(first))):
                media.forget(file)
                file.unlink(missing_ok=True)
    return whole, broken


def missing_runs(whole: Sequence[Run], n_frames: int) -> list[Run]:
    """What is not there between the first frame and the last."""
    out, end = [], 0
    for first, count in [*whole, (n_frames, 0)]:
        if first > end:
            out.append((end, first - end))
        end = first + count
    return out


def share(runs: Sequence[Run], workers: int, most: int, unit: int) -> list[list[Run]]:
    """Runs of frames for each of several workers, about as many frames each, in runs of at most ``most``.

    Runs begin and end where a multiple of ``most`` or ``unit`` is, so that videos have their key frames at the same
    places whoever writes them; but for runs that are too short to give everybody some.
    """
    pieces = _cut(runs, most, unit)
    if len(pieces) < workers:
        pieces = _cut(runs, most, 1)
    workers = min(workers, len(pieces))
    shares = [pieces[len(pieces) * i // workers : len(pieces) * (i + 1) // workers] for i in range(workers)]
    return [_join(each, most) for each in shares]


def _cut(runs: Sequence[Run], most: int, unit: int) -> list[Run]:
    out = []
    for first, count in runs:
        end = first + count
        while first < end:
            stop = min(end, (first // unit + 1) * unit, (first // most + 1) * most)
            out.append((first, stop - first))
            first = stop
    return out


def _join(runs: Sequence[Run], most: int) -> list[Run]:
    out: list[Run] = []
    for first, count in runs:
        if out and sum(out[-1]) == first and first % most:
            out[-1] = (out[-1][0], out[-1][1] + count)
        else:
            out.append((first, count))
    return out


def _images_are_whole(layout: ReplayLayout, first: int, count: int) -> bool:
    try:
        return all(media.verify(image, layout.version) == count for image, _ in layout.files(first))
    except DatasetError:
        return False
