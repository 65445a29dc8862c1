"""Looking a recording over: what is whole, what is missing or broken, and mending what can be mended."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sensorium.datasets import media
from sensorium.datasets.chunk import Chunk, recover
from sensorium.datasets.files import PART, STATE, quote, read_config, writing
from sensorium.datasets.runs import Layout, recover_runs
from sensorium.errors import DatasetError


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
    config = read_config(folder)
    report = Report(folder)
    with writing(folder):
        if repair and "replay" in config:
            kept = recover_runs(Layout.of(folder, config))
            report.repaired += [f"{STATE}/{first:08d}.h5{PART}: kept {count} frames" for first, count in kept]
        _interrupted(folder, repair, report)
        _check_scene(folder, config, report)
        _check_steps(folder, config, report)
    return report


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
    needed = ["scene.xml"]
    needed += [
        entry["model"]["file"]
        for entry in config.get("scene", {}).get("contents", [])
        if isinstance(entry.get("model"), dict) and "file" in entry["model"]
    ]
    report.n_files += 1  # config.json
    for name in needed:
        if (folder / name).is_file():
            report.n_files += 1
        else:
            report.problems.append(f"{name} is missing; restore it from a copy")


def _check_steps(folder: Path, config: dict[str, Any], report: Report) -> None:
    names = {form["name"] for form in config.get("fields", [])}
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
        if {one.name for one in chunk.row.fields} != names or chunk.first != int(path.stem):
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
    if not paths:
        report.problems.append(f"{STATE} has no file of steps: nothing was recorded")
    frames = config.get("replay", {}).get("frames", 0)
    if end < frames:
        report.problems.append(f"the frames {end} to {frames - 1} are missing; run the replay again with --resume")


def _check_images(folder: Path, config: dict[str, Any], chunk: Chunk, report: Report) -> None:
    for name, about in config.get("replay", {}).get("images", {}).items():
        kind = about["kind"]
        for env in range(config["scene"]["n_envs"]):
            path = folder / kind / quote(name) / f"env{env:04d}" / f"{chunk.first:08d}{media.KINDS[kind]['file']}"
            try:
                frames = media.count(path)
                if frames != len(chunk):
                    raise DatasetError(f"{path} has {frames} frames instead of {len(chunk)}")
            except DatasetError as error:
                report.problems.append(str(error))
            else:
                report.n_files += 1
            finally:
                media.forget(path)
