"""``TorchDataset``: windows of observations and actions of a dataset as tensors, for training."""

from __future__ import annotations

import bisect
import operator
import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import accumulate
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset as MapDataset
from torch.utils.data import Sampler

from sensorium._arguments import checked
from sensorium.datasets.dataset import Dataset, Episode
from sensorium.datasets.export.source import Signal, contents_of, dotted, signals_of
from sensorium.datasets.image_formats import ImageEncoding
from sensorium.datasets.video_streams import KEY_FRAMES
from sensorium.errors import DatasetError, IndexRangeError, NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.recording.image_reader import VideoReader

ACTION = "action"
"""Key of the actions in a sample."""
_MAX_OPEN = 32
"""Maximum number of videos of one camera that a process keeps open."""
_TOLERANCE = 1e-4
"""Maximum difference of a time of ``delta_timestamps`` from a step, s."""


_inherited: list[_Decoders | None] = []
"""Decoders of the process from which this one was forked: closing them would wait for threads that do not exist."""


@dataclass(frozen=True)
class _Video:
    """The images of one camera in all episodes."""

    name: str
    form: ImageEncoding
    paths: list[Path]
    no_depth: list[float]


class TorchDataset(MapDataset[dict[str, torch.Tensor]]):
    """The steps of a dataset as samples for ``torch.utils.data.DataLoader``.

    Sample i is one step of one episode with its neighbours: a dict of

    - every observation by its name, (n, ...) for n steps: numbers are float32; colours (n, 3, H, W) uint8; depth
      (n, 1, H, W) float32 in metres;
    - ``"action"``, (n, size of an action) float32: the actions of these steps;
    - ``NAME_is_pad``, (n,) bool: which entries are before the first or after the last step of the episode. They repeat
      the first or the last value.

    Numbers are read into memory once. Images are decoded when a sample is read, those of several cameras in parallel.

    Args:
        folder: folder of the dataset.
        observations: names of sensors ("qpos", "front", "env_states.actors.red_cube"), or patterns ("robot_*"). A
            pattern matches only what a robot could sense; a name can be that of any sensor with numbers or images.
            Default: all that a robot could sense.
        actions: "actions/action", the commanded actions; or another form of them, e.g. "actions/joint_pos", the joint
            targets, whose move groups are side by side.
        window: first and last step of a sample relative to its own, the last one excluded: (-1, 3) is the previous
            step, the step itself and the next two.
        delta_timestamps: name of an observation, or "action" -> times in seconds relative to the step, as in LeRobot,
            instead of ``window``.

    Attributes:
        names: names of the observations.
        fps: steps per second.

    Raises:
        NameNotFoundError: the dataset has no such sensor.
        OptionError: an option is invalid, or a sensor reads text.
        DatasetError: the folder is no dataset, or episodes have different sensors.

    Example:
        >>> data = sn.datasets.TorchDataset("data/pick", observations=["qpos", "front"], window=(0, 8))
        >>> loader = torch.utils.data.DataLoader(data, 64, sampler=sn.datasets.ShuffledSampler(data), num_workers=8)
        >>> next(iter(loader))["action"].shape
        torch.Size([64, 8, 8])
    """

    @checked
    def __init__(
        self,
        folder: str | Path,
        observations: Sequence[str] | None = None,
        actions: str = "actions/action",
        window: tuple[int, int] = (0, 1),
        delta_timestamps: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        dataset = Dataset(folder)
        if not len(dataset):
            raise DatasetError(f"{folder} has no episodes; generate some first")
        episodes = list(dataset)
        self.fps = episodes[0].fps
        signals, videos = _choose(episodes[0], observations)
        self._numbers = {signal.name: [_read(episode, signal) for episode in episodes] for signal in signals}
        self._videos = {name: _video(name, episodes) for name in videos}
        self.names = [*self._numbers, *self._videos]
        self._actions, self._n_actions = zip(*(_read_actions(episode, actions) for episode in episodes), strict=True)
        self._lengths = [episode.length for episode in episodes]
        self._ends = list(accumulate(self._lengths))
        self._offsets = self._steps(window, delta_timestamps or {})
        self._decoders: _Decoders | None = None

    def _steps(self, window: tuple[int, int], times: Mapping[str, Sequence[float]]) -> dict[str, np.ndarray]:
        """Return the steps of each key of a sample, relative to its own."""
        whole = isinstance(window, Sequence) and all(isinstance(step, Integral) for step in window)
        if not whole or len(window) != 2 or window[0] >= window[1]:
            raise OptionError(f"window must be (first, last), whole steps with first < last; got {window!r}")
        keys = [*self.names, ACTION]
        for key in times:
            if key not in keys:
                hint = did_you_mean(key, keys) or f"; there are {shorten(keys)}"
                raise NameNotFoundError(f"delta_timestamps: there is no {key!r}{hint}")
        steps = dict.fromkeys(keys, np.arange(*window))
        for key, each in times.items():
            exact = np.asarray(each, np.float64) * float(self.fps)
            steps[key] = np.rint(exact).astype(np.int64)
            off = np.abs(exact - steps[key]).max(initial=0) / float(self.fps)
            if off > _TOLERANCE or not exact.size:
                step = 1 / float(self.fps)
                raise OptionError(
                    f"delta_timestamps: {key!r} must be multiples of a step, {step:g} s; got {list(each)}"
                )
        return steps

    def __len__(self) -> int:
        return self._ends[-1]

    def locate(self, index: int) -> tuple[int, int]:
        """Return the position of a sample: the index of its episode in the dataset, and the step.

        Raises:
            IndexRangeError: there is no such sample. It is an IndexError too.
            OptionError: the index is not an integer.
        """
        try:
            index = operator.index(index)
        except TypeError:
            raise OptionError(f"samples are indexed by integers, got {index!r}") from None
        if not -len(self) <= index < len(self):
            raise IndexRangeError(f"there are {len(self)} samples; there is none at {index}")
        index %= len(self)
        episode = bisect.bisect_right(self._ends, index)
        return episode, index - self._ends[episode] + self._lengths[episode]

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """Return a sample."""
        episode, step = self.locate(index)
        sample: dict[str, torch.Tensor] = {}
        chosen = {key: step + offsets for key, offsets in self._offsets.items()}
        last = dict.fromkeys(self.names, self._lengths[episode]) | {ACTION: self._n_actions[episode] - 1}
        steps = {key: np.clip(each, 0, last[key]) for key, each in chosen.items()}
        for name, arrays in self._numbers.items():
            sample[name] = torch.from_numpy(arrays[episode][steps[name]])
        if self._videos:
            if self._decoders is None or self._decoders.process != os.getpid():
                _inherited.append(self._decoders)
                self._decoders = _Decoders(self._videos)
            sample |= self._decoders.read(episode, steps)
        sample[ACTION] = torch.from_numpy(self._actions[episode][steps[ACTION]])
        return sample | {f"{key}_is_pad": torch.from_numpy(steps[key] != chosen[key]) for key in chosen}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_decoders": None}  # open videos stay in their process

    def __repr__(self) -> str:
        return f"<TorchDataset of {len(self)} samples of {len(self._lengths)} episodes: {', '.join(self.names)}>"


class ShuffledSampler(Sampler[int]):
    """An order of samples that depends only on the seed and the epoch, and can begin anywhere.

    Every iteration is the next epoch. To resume a training, make it with the epoch and the number of samples that were
    used in that epoch.

    Args:
        data: the samples.
        seed: seed of the order.
        epoch: number of the first epoch.
        start: number of samples of that epoch to skip.

    Attributes:
        epoch: number of the next epoch.

    Example:
        >>> sampler = sn.datasets.ShuffledSampler(data, seed=0, epoch=2, start=640)  # after 10 batches of 64
    """

    @checked
    def __init__(self, data: TorchDataset, seed: int = 0, epoch: int = 0, start: int = 0) -> None:
        if not 0 <= start <= len(data):
            raise OptionError(f"start must be 0 to {len(data)}, the number of samples; got {start}")
        self._length, self._seed, self._start = len(data), seed, start
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        order = np.random.default_rng([self._seed, self.epoch]).permutation(self._length)[self._start :]
        self.epoch, self._start = self.epoch + 1, 0
        return iter(order.tolist())

    def __len__(self) -> int:
        return self._length - self._start


class _Decoders:
    """The open videos of one process; a thread per camera decodes."""

    def __init__(self, videos: Mapping[str, _Video]) -> None:
        self.process = os.getpid()
        self._videos = videos
        self._open: dict[str, OrderedDict[int, VideoReader]] = {name: OrderedDict() for name in videos}
        self._threads = ThreadPoolExecutor(len(videos)) if len(videos) > 1 else None

    def read(self, episode: int, steps: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
        """Return the images of an episode at some steps, by name of the camera."""
        names = list(self._videos)
        read = map if self._threads is None else self._threads.map
        return dict(zip(names, read(lambda name: self._images(name, episode, steps[name]), names), strict=True))

    def _images(self, name: str, episode: int, steps: np.ndarray) -> torch.Tensor:
        video, readers = self._videos[name], self._open[name]
        path = video.paths[episode]
        try:
            if episode not in readers:
                readers[episode] = VideoReader(path, video.form.pixel_format, threads=1, key_frames=KEY_FRAMES)
                while len(readers) > _MAX_OPEN:
                    readers.popitem(last=False)[1].close()
            readers.move_to_end(episode)
            frames = {step: readers[episode].read(step) for step in sorted(set(steps.tolist()))}
        except (OSError, EOFError, ValueError, IndexError, MemoryError) as error:
            raise DatasetError(f"cannot read {path} ({error}); run `sensorium validate {path.parent}`") from None
        shape = video.form.shape
        form = (1, *shape) if len(shape) == 2 else (shape[2], *shape[:2]) if len(shape) == 3 else shape
        images = np.empty((len(steps), *form), video.form.dtype)
        for step, frame in frames.items():
            image = video.form.restore(frame, video.no_depth[episode])
            planes = image[None] if len(shape) == 2 else np.moveaxis(image, -1, 0) if len(shape) == 3 else image
            first, *others = np.flatnonzero(steps == step)
            for target, plane in zip(images[first], planes, strict=True):  # faster than one copy of all planes
                target[...] = plane
            images[others] = images[first]
        return torch.from_numpy(images)


def _choose(episode: Episode, wanted: Sequence[str] | None) -> tuple[list[Signal], list[str]]:
    """Return the numbers and the names of the videos that are wanted."""
    contents = contents_of(episode)
    numbers = [
        signal
        for path, content in contents.items()
        if isinstance(content, tuple) and content[1].kind in "fiub"
        for signal in signals_of(episode, path, *content)
    ]
    texts = [dotted(name) for name, content in contents.items() if content == "text"]
    videos = {dotted(name): name for name in episode.cameras}
    sensed = [signal.name for signal in numbers if signal.purpose == "observation"]
    sensed += [name for name, uuid in videos.items() if episode.purpose(uuid) == "observation"]
    known = [*(signal.name for signal in numbers), *videos]
    chosen: list[str] = [] if wanted is not None else sensed
    for each in map(dotted, wanted or ()):
        found = [each] if each in known else [name for name in known if name.startswith(f"{each}.")]
        found = found or [name for name in sensed if fnmatchcase(name, each)]
        if not found:
            if each in texts:
                raise OptionError(f"observations: {each!r} reads text; name sensors with numbers or images")
            hint = did_you_mean(each, known) or f"; there are {shorten(known)}"
            raise NameNotFoundError(f"observations: the dataset has no {each!r}{hint}")
        chosen += [name for name in found if name not in chosen]
    by_name = {signal.name: signal for signal in numbers}
    return [by_name[name] for name in chosen if name in by_name], [videos[name] for name in chosen if name in videos]


def _read(episode: Episode, signal: Signal) -> np.ndarray:
    """Return a signal of an episode, (T + 1, *shape) float32."""
    try:
        values = episode[signal.path] if signal.part is None else episode[signal.path][:, signal.part]
        return values.reshape(episode.length + 1, *signal.shape).astype(np.float32)
    except (NameNotFoundError, ValueError, IndexError):
        raise DatasetError(
            f"{episode.path} has no {signal.path!r} of shape {signal.shape} like the first episode; name only sensors "
            "that all episodes have"
        ) from None


def _read_actions(episode: Episode, path: str) -> tuple[np.ndarray, int]:
    """Return the actions of an episode, (T, n) float32, and the number of steps that have one."""
    if path not in episode.suite:
        actions = episode[path].astype(np.float32)
        if len(actions) != episode.length or actions.ndim != 2:
            raise OptionError(f"actions: {path!r} has shape {actions.shape} instead of ({episode.length}, n)")
        return actions, len(actions)
    if not episode.suite[path]["text"]:
        raise OptionError(f"actions: {path!r} is an observation; use 'actions/action', or a form below 'actions/'")
    # The reading after a step is its action. The last step has no such reading, since the episode has ended.
    rows = [[number for group in reading.values() for number in group] for reading in episode.text(path)[1:]]
    count = next((step for step, row in enumerate(rows) if not row), len(rows))
    if not count:
        raise OptionError(f"actions: {path!r} has no values in {episode.path}")
    return np.array(rows[:count], np.float32), count


def _video(name: str, episodes: Sequence[Episode]) -> _Video:
    form = episodes[0].image_format(name)
    for episode in episodes:
        if name not in episode.cameras or episode.image_format(name) != form:
            raise DatasetError(f"{episode.path} has no images {name!r} of shape {form.shape} like the first episode")
    paths = [episode.video_path(name) for episode in episodes]
    return _Video(name, form, paths, [episode.no_depth(name) for episode in episodes])
