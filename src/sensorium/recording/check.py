"""Checking recordings: report missing and damaged files, and complete what an interrupted process left."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sensorium._arguments import checked
from sensorium.errors import DatasetError, ModelError
from sensorium.files import PART, file_checksum, lock_folder
from sensorium.links import foreign_links, inside
from sensorium.recording.chunk import Chunk, recover
from sensorium.recording.folder import CONFIG, STATE, missing_in, read_config, was_begun
from sensorium.recording.image_reader import verify
from sensorium.recording.output_folder import has_step, replaced_path, restore_replaced
from sensorium.recording.runs import ReplayLayout, recover_runs
from sensorium.worlds.contents import dependencies


@dataclass
class Report:
    """The result of :func:`check`.

    Attributes:
        folder: the recording.
        n_steps: number of complete steps, from the first one up to the first gap.
        n_files: number of complete files.
        problems: what is missing or damaged and was not repaired.
        repaired: what was repaired.
    """

    folder: Path
    n_steps: int = 0
    n_files: int = 0
    problems: list[str] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether nothing is missing or damaged."""
        return not self.problems

    def __str__(self) -> str:
        lines = [f"{self.folder}: {self.n_steps} complete steps in {self.n_files} files"]
        lines += [f"  repaired: {text}" for text in self.repaired]
        lines += [f"  problem: {text}" for text in self.problems]
        lines.append("valid" if self.whole else f"NOT valid: {len(self.problems)} problem(s)")
        return "\n".join(lines)


@checked
def check(folder: str | Path, repair: bool = False) -> Report:
    """Read everything in the folder of a recording, and compare it with the stored checksums.

    Args:
        folder: folder of the recording.
        repair: complete the files of an interrupted process: their complete steps are kept, the last incomplete one is
            removed. Files that are damaged otherwise are reported and left unchanged. Without it, nothing is written.

    Raises:
        DatasetError: the folder is not a recording, or is being written.

    Example:
        >>> report = sn.recording.check("runs/a")
        >>> report.whole, report.problems
        (True, [])
    """
    folder = Path(folder)
    report = Report(folder)
    _check_replaced(folder, repair, report)
    if folder.is_dir() and was_begun(folder) and not (folder / CONFIG).exists():
        with lock_folder(folder):  # raises if a process is beginning it right now
            report.problems.append(
                f"the recording has no steps: its process ended before it wrote {CONFIG}; remove the folder, or write "
                "another recording there"
            )
        return report
    config = read_config(folder)
    with lock_folder(folder):
        links = foreign_links(folder)
        if links:
            report.problems += [f"{link} is a link that leads out of the recording; remove it" for link in links]
            return report
        missing = missing_in(config)
        if missing:
            report.problems += [f"{CONFIG} lacks {name!r}, or it is damaged; restore a backup" for name in missing]
            return report
        if repair and "replay" in config:
            kept = recover_runs(ReplayLayout.of(folder, config))
            report.repaired += [f"{STATE}/{first:08d}.h5{PART}: kept {count} frames" for first, count in kept]
        _check_interrupted(folder, repair, report)
        report.n_files += 1  # config.json
        _check_scene(folder, config, report)
        _check_steps(folder, config, report)
    return report


def _check_replaced(folder: Path, repair: bool, report: Report) -> None:
    """Check for a process that was killed while its recording replaced another one."""
    replaced = replaced_path(folder)
    if not replaced.is_dir():
        return
    with ExitStack() as stack:
        if folder.is_dir():
            stack.enter_context(lock_folder(folder))
        begun = not has_step(folder)
        if not repair:
            what = "was to be replaced" if begun else "was replaced"
            report.problems.append(
                f"the recording that {what} is still in {replaced}; run `sensorium validate --update`"
            )
        elif begun:
            restore_replaced(folder)
            report.repaired.append("restored the recording, which was to be replaced by one that has no step")
        else:
            shutil.rmtree(replaced)
            report.repaired.append(f"removed the replaced recording {replaced}")


def _check_interrupted(folder: Path, repair: bool, report: Report) -> None:
    for part in sorted(folder.rglob(f"*{PART}")):
        if not part.exists():
            continue
        name = part.relative_to(folder)
        is_chunk = part.parent == folder / STATE and part.name.endswith(f".h5{PART}") and ".short" not in part.name
        is_replay = (folder / "rgb").exists() or "replay" in read_config(folder)
        if not repair:
            report.problems.append(
                f"{name} was not finished; run `sensorium validate --update` to keep its complete steps"
            )
        elif is_chunk and not is_replay:
            try:
                count = recover(part)
            except DatasetError as error:
                report.problems.append(str(error))
            else:
                report.repaired.append(f"{name}: kept {count} steps" if count else f"{name}: had no complete step")
        elif not (part.name.endswith(f".events{PART}") and _chunk_of(part).exists()):
            part.unlink()
            report.repaired.append(f"{name}: removed; it was not finished")


def _chunk_of(events: Path) -> Path:
    return events.with_name(events.name.replace(f".events{PART}", f".h5{PART}"))


def _check_scene(folder: Path, config: dict[str, Any], report: Report) -> None:
    checksums = config.get("files")
    if checksums is None:  # version 1
        checksums = dict.fromkeys(["scene.xml"])
        for entry in config.get("scene", {}).get("contents", []):
            if isinstance(entry.get("model"), dict) and "file" in entry["model"]:
                checksums |= dict.fromkeys(_model_files(folder, entry["model"]["file"], report))
    for name, expected in checksums.items():
        try:
            path = inside(folder, name)
        except DatasetError as error:
            report.problems.append(str(error))
            continue
        if not path.is_file():
            report.problems.append(f"{name} is missing; restore it from a backup")
        elif expected is not None and file_checksum(path) != expected:
            report.problems.append(f"{name} was changed or truncated; restore it from a backup")
        else:
            report.n_files += 1


def _model_files(folder: Path, name: str, report: Report) -> list[str]:
    """Return a model file and the files that it refers to, relative to the folder."""
    if not (folder / name).is_file():
        return [name]
    try:
        _, paths = dependencies(str(folder / name))
    except ModelError as error:
        report.problems.append(f"{name}: {error}; restore it from a backup")
        return []
    return [path.relative_to(folder.resolve()).as_posix() for path in paths]


def _check_steps(folder: Path, config: dict[str, Any], report: Report) -> None:
    names = {form["name"] for form in config["fields"]}
    end, gap = 0, False
    paths = sorted((folder / STATE).glob("*.h5"))
    for path in paths:
        name = path.relative_to(folder)
        if not path.stem.isdigit():
            report.problems.append(f"{name} does not belong to this recording; remove it")
            continue
        try:
            chunk = Chunk(path)
        except DatasetError as error:
            report.problems.append(str(error))
            gap = True
            continue
        if {each.name for each in chunk.row.fields} != names or chunk.first != int(path.stem):
            report.problems.append(f"{name} belongs to another recording; restore the right file")
            gap = True
            continue
        if chunk.first != end:
            report.problems.append(f"{name}: steps {end} to {chunk.first - 1} are missing before it")
            gap = True
        damaged = [row for row in range(len(chunk)) if not chunk.is_whole(row)]
        if damaged:
            report.problems.append(f"{name}: step {chunk.first + damaged[0]} is damaged ({len(damaged)} steps in all)")
            gap = True
        else:
            report.n_files += 1
        end = chunk.first + len(chunk)
        if not gap:
            report.n_steps = end
        _check_images(folder, config, chunk, report)
        chunk.close()
    _check_end(folder, config, end, gap, report)
    if not paths:
        report.problems.append(f"{STATE} has no chunk of steps: nothing was recorded")


def _check_end(folder: Path, config: dict[str, Any], end: int, gap: bool, report: Report) -> None:
    """Check that no steps, events or frames are missing at the end."""
    n_steps = config.get("n_steps")  # missing if the recording was interrupted
    if isinstance(n_steps, int) and end < n_steps and not gap:
        report.problems.append(f"{STATE}: steps {end} to {n_steps - 1} are missing at the end; restore their files")
    for events in sorted((folder / STATE).glob("*.jsonl")):
        if not events.with_suffix(".h5").exists() and not gap and not isinstance(n_steps, int):
            report.problems.append(
                f"{events.relative_to(folder)} has no chunk of steps; restore the chunk, or remove this file"
            )
    frames = config.get("replay", {}).get("frames", 0)
    if end < frames:
        report.problems.append(f"frames {end} to {frames - 1} are missing; run the replay again with --resume")


def _check_images(folder: Path, config: dict[str, Any], chunk: Chunk, report: Report) -> None:
    if not config.get("replay", {}).get("images"):
        return
    layout = ReplayLayout.of(folder, config)
    for path, _ in layout.files(chunk.first):
        try:
            frames = verify(path, layout.version)
            if frames != len(chunk):
                raise DatasetError(f"{path} has {frames} frames instead of {len(chunk)}")
        except DatasetError as error:
            report.problems.append(str(error))
        else:
            report.n_files += 1
