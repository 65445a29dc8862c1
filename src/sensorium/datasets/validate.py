"""``validate``: check that every episode of a dataset is complete and matches its description."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import h5py

from sensorium._arguments import checked
from sensorium.datasets.dataset import Dataset, Episode
from sensorium.datasets.header import INDEX
from sensorium.datasets.image_formats import looks_like_image
from sensorium.datasets.manifest import MANIFEST, damage, read_manifest
from sensorium.datasets.observation_layout import STEP_PATHS
from sensorium.datasets.video_streams import count_frames
from sensorium.errors import DatasetError
from sensorium.files import write_whole
from sensorium.links import foreign_links


class IndexEntry(TypedDict):
    """A valid episode in ``index.json``."""

    number: int
    file: str
    length: int
    """Number of steps."""
    success: bool
    seed: int
    instruction: str
    videos: dict[str, str]
    """Name of a camera -> file name."""


@dataclass
class Validation:
    """The result of :func:`validate`.

    Attributes:
        folder: the dataset.
        episodes: one entry for each valid episode.
        problems: what is wrong, with the name of the file.
    """

    folder: Path
    episodes: list[IndexEntry] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def valid(self) -> bool:
        """Whether there are no problems."""
        return not self.problems

    def __str__(self) -> str:
        steps = sum(episode["length"] for episode in self.episodes)
        successes = sum(episode["success"] for episode in self.episodes)
        lines = [f"{self.folder}: {len(self.episodes)} episodes, {steps} steps, {successes} successes"]
        lines += [f"  problem: {problem}" for problem in self.problems]
        lines.append("valid" if self.valid else f"NOT valid: {len(self.problems)} problem(s)")
        return "\n".join(lines)


@checked
def validate(
    folder: str | Path, progress: Callable[[int], None] = lambda count: None, *, update: bool = False
) -> Validation:
    """Read every file of a dataset and check it.

    Checks checksums, array lengths, texts, and decodes every frame of every video.

    Args:
        folder: folder of the dataset.
        progress: called with 1 after each episode.
        update: write ``index.json`` with the valid episodes. Without it, nothing is written.

    Raises:
        DatasetError: the folder is not a dataset.

    Example:
        >>> sn.datasets.validate("data/pick").valid
        True
    """
    data = Dataset(folder)
    result = Validation(data.folder)
    try:
        manifest = read_manifest(data.folder)
        if not manifest:
            result.problems.append(f"{MANIFEST} is missing, so no checksums are known; generate again to restore it")
    except DatasetError as error:
        result.problems.append(str(error))
        manifest = {}
    for path in sorted(data.folder.glob("episode_*.h5")):
        problems = damage(data.folder, manifest.get(path.stem, {}))
        if manifest and path.stem not in manifest:
            problems.append(f"it is not in {MANIFEST}, so its checksum is not known")
        try:
            episode = Episode(path)
            problems += _problems(episode, data.header)
        except Exception as error:  # h5py and FFmpeg raise nearly anything for damaged files
            problems.append(str(error))
        if problems:
            result.problems += [f"{path.name}: {problem}" for problem in problems]
        else:
            result.episodes.append(index_entry(episode))
        progress(1)
    wanted = data.header["options"]["episodes"]
    if len(data) != wanted:
        result.problems.append(f"there are {len(data)} of {wanted} episodes; generate again to add the missing ones")
    names = {path.stem for path in data.folder.glob("episode_*.h5")}
    missing = sorted(manifest.keys() - names)
    result.problems += [f"{name} is in {MANIFEST}, but has no file; generate again to restore it" for name in missing]
    for path in sorted(data.folder.glob("episode_*")):
        if path.suffix != ".h5" and not any(path.name.startswith(name) for name in names):
            result.problems.append(f"{path.name} belongs to no episode; generate again to remove or complete it")
    result.problems += [
        f"{link} is a link that leads out of the dataset; remove it" for link in foreign_links(data.folder)
    ]
    if update:
        write_whole(data.folder / INDEX, json.dumps({"episodes": result.episodes}, indent=1).encode())
    return result


def index_entry(episode: Episode) -> IndexEntry:
    """Return the entry of an episode in ``index.json``."""
    return {
        "number": episode.number,
        "file": episode.path.name,
        "length": episode.length,
        "success": episode.success,
        "seed": int(episode.attributes["seed"]),
        "instruction": episode.scene.get("instruction", ""),
        "videos": {name: episode.video_path(name).name for name in episode.cameras},
    }


def _problems(episode: Episode, header: dict[str, Any]) -> list[str]:
    options = header["options"]
    problems = [
        f"{name} is {episode.attributes.get(name)!r}, but {options.get(name)!r} in the dataset's options"
        for name in ("seed", "task", "robot", "policy")
        if str(episode.attributes.get(name)) != str(options.get(name))
    ]
    with h5py.File(episode.path, "r", locking=False) as file:
        group = file[f"traj_{episode.number}"]
        for uuid, entry in episode.suite.items():
            if entry["at"] not in group:
                problems.append(f"the sensor {uuid!r} is missing: there is no {entry['at']}")
        for path in episode.paths():
            expected = episode.length + (path not in STEP_PATHS)
            if len(group[path]) != expected:
                problems.append(f"{path} has {len(group[path])} rows instead of {expected}")
            elif looks_like_image(group[path].shape[1:], group[path].dtype):
                problems.append(f"{path} holds images as an array instead of a video; generate the dataset again")
            elif group[path].dtype.kind == "f" and "/" in path:
                group[path][()]  # raises if a chunk cannot be read
        ends = group["terminated"][()] | group["truncated"][()]
        if not episode.length or not ends[-1] or ends[:-1].any():
            problems.append("the episode must end (terminated or truncated) at its last step and not before")
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
