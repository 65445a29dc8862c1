"""``validate``: is every episode of a data set what it says?"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py

from sensorium.datasets.dataset import INDEX, MANIFEST, Dataset, Episode, read_manifest
from sensorium.datasets.video_streams import count_frames
from sensorium.errors import DatasetError, SensoriumError
from sensorium.files import file_checksum, write_whole

_STEPS = ("rewards", "terminated", "truncated", "success", "fail", "actions/action")


@dataclass
class Validation:
    """What was found.

    Attributes:
        folder: the data set.
        episodes: one entry for each that is fine.
        problems: what is wrong, in words that name the file.
    """

    folder: Path
    episodes: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def valid(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __str__(self) -> str:
        steps = sum(episode["length"] for episode in self.episodes)
        good = sum(episode["success"] for episode in self.episodes)
        lines = [f"{self.folder}: {len(self.episodes)} episodes, {steps} steps, {good} of them successful"]
        lines += [f"  {problem}" for problem in self.problems]
        lines.append("valid" if self.valid else f"NOT valid: {len(self.problems)} problems")
        return "\n".join(lines)


def validate(folder: str | Path, progress: Callable[[int], None] = lambda count: None) -> Validation:
    """Read every file: check sums, lengths, texts, videos frame by frame; and write ``index.json`` of what is fine."""
    data = Dataset(folder)
    result = Validation(data.folder)
    try:
        sums = read_manifest(data.folder)
    except DatasetError as error:
        result.problems.append(str(error))
        sums = {}
    for path in sorted(data.folder.glob("episode_*.h5")):
        try:
            episode = Episode(path)
            problems = _problems(episode, data.about) + _changes(data.folder, sums.get(path.stem, {}))
            if sums and path.stem not in sums:
                problems.append(f"{MANIFEST} does not know it, so nobody can tell whether it is as it was written")
        except (SensoriumError, OSError, ValueError, KeyError, RuntimeError) as error:
            problems = [str(error)]
        if problems:
            result.problems += [f"{path.name}: {problem}" for problem in problems]
        else:
            result.episodes.append(_entry(episode))
        progress(1)
    wanted = data.about["options"]["episodes"]
    if len(data) != wanted:
        result.problems.append(f"there are {len(data)} episodes, and {wanted} were asked for: generate the rest")
    named = {name for path in data.folder.glob("episode_*.h5") for name in (path.stem,)}
    for path in sorted(data.folder.glob("episode_*")):
        if path.suffix != ".h5" and not any(path.name.startswith(name) for name in named):
            result.problems.append(f"{path.name} belongs to no episode; generating again removes or completes it")
    write_whole(data.folder / INDEX, json.dumps({"episodes": result.episodes}, indent=1).encode())
    return result


def _entry(episode: Episode) -> dict[str, Any]:
    return {
        "number": episode.number,
        "file": episode.path.name,
        "length": episode.length,
        "success": episode.success,
        "seed": int(episode.attributes["seed"]),
        "instruction": episode.scene.get("instruction", ""),
        "videos": {name: episode.video_path(name).name for name in episode.cameras},
    }


def _changes(folder: Path, sums: dict[str, Any]) -> list[str]:
    """Which files of an episode are not as they were written, by what the manifest says of them."""
    there = {name: entry for name, entry in sums.items() if (folder / name).is_file()}
    return [
        f"{name} was changed after it was written, or is damaged: its check sum is not that of {MANIFEST}"
        for name, entry in there.items()
        if int(file_checksum(folder / name), 16) != entry["crc32"]
    ]


def _problems(episode: Episode, about: dict[str, Any]) -> list[str]:
    options = about["options"]
    problems = [
        f"{name} is {episode.attributes.get(name)!r}, and the data set's {options.get(name)!r}"
        for name in ("seed", "task", "robot", "policy")
        if str(episode.attributes.get(name)) != str(options.get(name))
    ]
    with h5py.File(episode.path, "r", locking=False) as file:
        group = file[f"traj_{episode.number}"]
        for uuid, entry in episode.suite.items():
            if entry["at"] not in group:
                problems.append(f"the sensor {uuid!r} is missing: there is no {entry['at']}")
        for path in episode.paths():
            expected = episode.length + (path not in _STEPS)
            if len(group[path]) != expected:
                problems.append(f"{path} has {len(group[path])} rows instead of {expected}")
            elif group[path].dtype.kind == "f" and "/" in path:
                group[path][()]  # every chunk can be read
        ends = group["terminated"][()] | group["truncated"][()]
        if not episode.length or not ends[-1] or ends[:-1].any():
            problems.append("terminated and truncated do not end at the last step, and there alone")
    for uuid, entry in episode.suite.items():
        if entry["text"] and not problems:
            episode.text(uuid)
    for name in episode.cameras:
        video = episode.video_path(name)
        if not video.is_file():
            problems.append(f"the video {video.name} is missing")
            continue
        frames = count_frames(video)
        if frames != episode.length + 1:
            problems.append(f"the video {video.name} has {frames} frames instead of {episode.length + 1}")
    return problems
