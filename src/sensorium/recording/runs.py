"""Runs of frames of a replay on disk: which are complete, and how interrupted ones are completed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from sensorium.errors import DatasetError
from sensorium.files import PART, quote
from sensorium.recording import chunk, image_writer
from sensorium.recording.drafts import records
from sensorium.recording.folder import STATE
from sensorium.recording.image_files import FORMATS, ImageHeader, draft_path
from sensorium.recording.image_reader import forget, verify

Run = tuple[int, int]
"""First frame, and number of frames."""


class ReplayLayout(NamedTuple):
    """The files of a replay."""

    folder: Path
    images: dict[str, ImageHeader]
    """Dotted name -> header, as in ``config.json``."""
    n_envs: int
    version: int
    """Version of the recording's format."""

    @classmethod
    def of(cls, folder: Path, config: dict[str, Any]) -> ReplayLayout:
        """Return the layout of a replay from the content of its ``config.json``."""
        return cls(folder, config["replay"]["images"], int(config["scene"]["n_envs"]), int(config["version"]))

    def chunk_path(self, first: int) -> Path:
        """Return the chunk of a run of frames. It is written after the images, so its existence marks the run."""
        return self.folder / STATE / f"{first:08d}.h5"

    def files(self, first: int) -> Iterator[tuple[Path, ImageHeader]]:
        """Yield the image files of a run with their headers: for each buffer, one file per env."""
        for name, header in self.images.items():
            for env in range(self.n_envs):
                stem = self.folder / header["kind"] / quote(name) / f"env{env:04d}" / f"{first:08d}"
                yield stem.with_name(stem.name + FORMATS[header["kind"]].suffix), header


def finish_run(layout: ReplayLayout, first: int, count: int) -> None:
    """Complete the files of a run from the drafts of its first ``count`` frames. Calling it again is safe."""
    path = layout.chunk_path(first)
    if count and layout.images:
        for image, header in layout.files(first):
            image_writer.finish(image, header, count)
    chunk.finish(path.with_name(path.name + PART), path, count)
    for image, _ in layout.files(first):
        draft_path(image).unlink(missing_ok=True)


def recover_runs(layout: ReplayLayout) -> list[Run]:
    """Complete the runs of an interrupted replay; return the runs that were kept."""
    kept = []
    for part in sorted((layout.folder / STATE).glob(f"*.h5{PART}")):
        first = part.name.removesuffix(f".h5{PART}")
        if first.isdigit() and not layout.chunk_path(int(first)).exists():
            count = 0
            with suppress(DatasetError):  # the process was killed while it created the file
                count = chunk.whole_steps(part)
            for image, _ in layout.files(int(first)):
                count = min(count, len(records(draft_path(image))))
            finish_run(layout, int(first), count)
            if count:
                kept.append((int(first), count))
    for left in layout.folder.rglob(f"*{PART}"):
        left.unlink()
    return kept


def whole_runs(layout: ReplayLayout) -> tuple[list[Run], list[Run]]:
    """Return the complete runs, and the runs with missing or damaged files. The files of the latter are removed."""
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
            path.unlink()  # first: without it, the other files of the run are ignored
            for file in (chunk.events_path(path), *(image for image, _ in layout.files(first))):
                forget(file)
                file.unlink(missing_ok=True)
    return whole, broken


def missing_runs(whole: Sequence[Run], n_frames: int) -> list[Run]:
    """Return the runs that are missing from ``n_frames`` frames."""
    out, end = [], 0
    for first, count in [*whole, (n_frames, 0)]:
        if first > end:
            out.append((end, first - end))
        end = first + count
    return out


def share(runs: Sequence[Run], workers: int, max_frames: int, key_interval: int) -> list[list[Run]]:
    """Split runs of frames between workers, about the same number of frames for each.

    Runs begin and end at multiples of ``max_frames`` or ``key_interval``, so that key frames do not depend on the
    number of workers. They are cut elsewhere only if they are too short to give every worker a part.

    Args:
        runs: the runs to split.
        workers: number of workers. The result can be shorter if there are fewer frames.
        max_frames: maximum length of a run.
        key_interval: frames from one key frame to the next.

    Returns:
        The runs of each worker.
    """
    pieces = _cut(runs, max_frames, key_interval)
    if len(pieces) < workers:
        pieces = _cut(runs, max_frames, 1)
    workers = min(workers, len(pieces))
    shares = [pieces[len(pieces) * i // workers : len(pieces) * (i + 1) // workers] for i in range(workers)]
    return [_join(each, max_frames) for each in shares]


def _cut(runs: Sequence[Run], max_frames: int, key_interval: int) -> list[Run]:
    out = []
    for first, count in runs:
        end = first + count
        while first < end:
            stop = min(end, (first // key_interval + 1) * key_interval, (first // max_frames + 1) * max_frames)
            out.append((first, stop - first))
            first = stop
    return out


def _join(runs: Sequence[Run], max_frames: int) -> list[Run]:
    out: list[Run] = []
    for first, count in runs:
        if out and sum(out[-1]) == first and first % max_frames:
            out[-1] = (out[-1][0], out[-1][1] + count)
        else:
            out.append((first, count))
    return out


def _images_are_whole(layout: ReplayLayout, first: int, count: int) -> bool:
    try:
        return all(verify(image, layout.version) == count for image, _ in layout.files(first))
    except DatasetError:
        return False
