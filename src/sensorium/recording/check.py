"""Looking a recording over: what is whole, what is missing or broken, and mending what can be mended."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sensorium.errors import DatasetError, ModelError
from sensorium.files import PART, file_checksum, quote, writing
from sensorium.recording import media
from sensorium.recording.chunk import Chunk, recover
from sensorium.recording.folder import STATE, missing_in, read_config, was_begun
from sensorium.recording.output_folder import aside_of, has_step, put_back
from sensorium.recording.runs import ReplayLayout, recover_runs
from sensorium.worlds.contents import dependencies


@dataclass
class Report:
    """What :func:`check` found.

    Attributes:
        n_steps: steps that are whole, from the first on without a gap.
        n_files: files that are whole.
        problems: what is missing or broken, and was not repaired.
        repaired: what was.
    """

    folder: Path
    n_steps: int = 0
    n_files: int = 0
    problems: list[str] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether nothing is missing or broken."""
        return not self.problems

    def __str__(self) -> str:
        lines = [f"{self.folder}: {self.n_steps} steps whole, in {self.n_files} files"]
        lines += [f"  repaired: {text}" for text in self.repaired]
        lines += [f"  broken: {text}" for text in self.problems]
        return "\n".join(lines)


def check(folder: str | Path, repair: bool = True) -> Report:
    """Read everything of a recording, and compare check sums.

    Args:
        folder: where it is.
        repair: complete what an interrupted process had begun: its whole steps are kept, and the step in flight goes.
            Files that are broken otherwise are reported, and left as they are.

    Raises:
        DatasetError: the folder is no recording, or one that is being written.
    """
    folder = Path(folder)
    report = Report(folder)
    _replaced(folder, repair, report)
    if folder.is_dir() and was_begun(folder) and not (folder / "config.json").exists():
        with writing(folder):  # or it is being begun just now
            report.problems.append(
                "it was begun and has no step: its process ended before it wrote config.json; remove it, or write "
                "another one in its place with --overwrite"
            )
        return report
    config = read_config(folder)
    with writing(folder):
        if repair and "replay" in config:
            kept = recover_runs(ReplayLayout.of(folder, config))
            report.repaired += [f"{STATE}/{first:08d}.h5{PART}: kept {count} frames" for first, count in kept]
        _interrupted(folder, repair, report)
        report.n_files += 1  # config.json
        report.problems += [f"config.json does not say {name!r}; restore it from a copy" for name in missing_in(config)]
        _check_scene(folder, config, report)
        _check_steps(folder, config, report)
    return report


def _replaced(folder: Path, repair: bool, report: Report) -> None:
    """A process was killed while its recording took the place of another."""
    aside = aside_of(folder)
    if not aside.is_dir():
        return
    with ExitStack() as stack:
        if folder.is_dir():
            stack.enter_context(writing(folder))
        begun = not has_step(folder)
        if not repair:
            what = "was to be replaced" if begun else "was replaced"
            report.problems.append(f"the recording that {what} is still in {aside}; run `sensorium check {folder}`")
        elif begun:
            put_back(folder)
            report.repaired.append("it was to be replaced, by one that has no step: put back")
        else:
            shutil.rmtree(aside)
            report.repaired.append(f"removed the recording that it has replaced, {aside}")


def _interrupted(folder: Path, repair: bool, report: Report) -> None:
    for part in sorted(folder.rglob(f"*{PART}")):
        if not part.exists():
            continue
        name = part.relative_to(folder)
        steps = part.parent == folder / STATE and part.name.endswith(f".h5{PART}") and ".short" not in part.name
        replayed = (folder / "rgb").exists() or "replay" in read_config(folder)
        if not repair:
            report.problems.append(f"{name} was not finished; run `sensorium check {folder}` to keep its whole steps")
        elif steps and not replayed:
            try:
                count = recover(part)
            except DatasetError as error:
                report.problems.append(str(error))
            else:
                report.repaired.append(f"{name}: kept {count} steps" if count else f"{name}: had no whole step")
        elif not (part.name.endswith(f".events{PART}") and _steps_of(part).exists()):
            part.unlink()
            report.repaired.append(f"{name}: removed; it was not finished")


def _steps_of(events: Path) -> Path:
    return events.with_name(events.name.replace(f".events{PART}", f".h5{PART}"))


def _check_scene(folder: Path, config: dict[str, Any], report: Report) -> None:
    sums = config.get("files")
    if sums is None:  # version 1
        sums = dict.fromkeys(["scene.xml"])
        for entry in config.get("scene", {}).get("contents", []):
            if isinstance(entry.get("model"), dict) and "file" in entry["model"]:
                sums |= dict.fromkeys(_model_files(folder, entry["model"]["file"], report))
    for name, expected in sums.items():
        path = folder / name
        if not path.is_file():
            report.problems.append(f"{name} is missing; restore it from a copy")
        elif expected is not None and file_checksum(path) != expected:
            report.problems.append(f"{name} was changed or truncated; restore it from a copy")
        else:
            report.n_files += 1


def _model_files(folder: Path, name: str, report: Report) -> list[str]:
    """A model file, and what it names."""
    if not (folder / name).is_file():
        return [name]
    try:
        _, paths = dependencies(str(folder / name))
    except ModelError as error:
        report.problems.append(f"{name}: {error}; restore it from a copy")
        return []
    return [path.relative_to(folder.resolve()).as_posix() for path in paths]


def _check_steps(folder: Path, config: dict[str, Any], report: Report) -> None:
    names = {form["name"] for form in config["fields"]} if isinstance(config.get("fields"), list) else None
    end, gap = 0, False
    paths = sorted((folder / STATE).glob("*.h5"))
    for path in paths:
        name = path.relative_to(folder)
        if not path.stem.isdigit():
            report.problems.append(f"{name} is no file of this recording; remove it")
            continue
        try:
            chunk = Chunk(path)
        except DatasetError as error:
            report.problems.append(str(error))
            gap = True
            continue
        if (names is not None and {one.name for one in chunk.row.fields} != names) or chunk.first != int(path.stem):
            report.problems.append(f"{name} belongs to another recording; restore the right file")
            gap = True
            continue
        if chunk.first != end:
            report.problems.append(f"{name}: the steps {end} to {chunk.first - 1} are missing before it")
            gap = True
        bad = [index for index in range(len(chunk)) if not chunk.is_whole(index)]
        if bad:
            report.problems.append(f"{name}: step {chunk.first + bad[0]} is damaged ({len(bad)} steps in all)")
            gap = True
        else:
            report.n_files += 1
        end = chunk.first + len(chunk)
        if not gap:
            report.n_steps = end
        _check_images(folder, config, chunk, report)
        chunk.close()
    ended = config.get("n_steps")  # where it was not interrupted
    if isinstance(ended, int) and end < ended and not gap:
        report.problems.append(f"{STATE}: the steps {end} to {ended - 1} are missing at the end; restore their files")
    for events in sorted((folder / STATE).glob("*.jsonl")):
        if not events.with_suffix(".h5").exists() and not gap and not isinstance(ended, int):
            report.problems.append(
                f"{events.relative_to(folder)} has no file of steps; restore that, or remove this one"
            )
    if not paths:
        report.problems.append(f"{STATE} has no file of steps: nothing was recorded")
    frames = config.get("replay", {}).get("frames", 0)
    if end < frames:
        report.problems.append(f"the frames {end} to {frames - 1} are missing; run the replay again with --resume")


def _check_images(folder: Path, config: dict[str, Any], chunk: Chunk, report: Report) -> None:
    for name, about in config.get("replay", {}).get("images", {}).items():
        kind = about["kind"]
        for env in range(config.get("scene", {}).get("n_envs", 0)):
            path = folder / kind / quote(name) / f"env{env:04d}" / f"{chunk.first:08d}{media.KINDS[kind]['file']}"
            try:
                frames = media.verify(path, int(config["version"]))
                if frames != len(chunk):
                    raise DatasetError(f"{path} has {frames} frames instead of {len(chunk)}")
            except DatasetError as error:
                report.problems.append(str(error))
            else:
                report.n_files += 1
