"""LeRobot datasets, version 3.0: Parquet, MP4 and JSON.

::

    data/chunk-000/file-000.parquet             one row per step, of many episodes
    videos/KEY/chunk-000/file-000.mp4           one frame per step, of many episodes
    meta/info.json, stats.json, tasks.parquet   features, statistics of all steps, instructions
    meta/episodes/chunk-000/file-000.parquet    one row per episode: location of its steps and frames, its statistics
    meta/sensorium.json, scenes.jsonl           what every sensor became; the scenes

Numbers are ``observation.NAME`` if a robot could sense them, else ``privileged.NAME`` (true state) or ``info.NAME``
(annotations). Policies of LeRobot use all features that begin with "observation", and all videos. Its normaliser casts
the statistics to the dtype of a feature, so observations are float32; the others keep their dtype.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sensorium.datasets.dataset import Episode
from sensorium.datasets.export import depth
from sensorium.datasets.export.depth import DepthVideo
from sensorium.datasets.export.parquet import ParquetFiles, column, column_type, write_tasks
from sensorium.datasets.export.source import ACTION, ExportSource, ImageSource, Signal, dotted, image_note, scene_line
from sensorium.datasets.export.stats import ImageStats, RunningStats, Statistics
from sensorium.datasets.export.video_files import VideoSpan
from sensorium.datasets.export.videos import VideoJoiner, frame_ticks

VERSION = "v3.0"
_FILES = 1000
"""Files per chunk folder."""
_DATA_MB, _VIDEO_MB = 100, 200
"""Sizes at which a new file begins."""
_INDICES = {"timestamp": "float32", **dict.fromkeys(["frame_index", "episode_index", "index", "task_index"], "int64")}
_STATE = "obs/agent/qpos"
_STEPS = {
    "next.reward": "rewards",
    "next.done": "",
    "next.success": "success",
    "next.fail": "fail",
    "next.terminated": "terminated",
    "next.truncated": "truncated",
}
"""Feature -> array of the dataset with one row per step; "" for terminated or truncated."""


def write(source: ExportSource, folder: Path, progress: Callable[[int], None]) -> None:
    """Write a dataset into an empty folder."""
    _Writer(source, folder).write(progress)


class _Writer:
    def __init__(self, source: ExportSource, folder: Path) -> None:
        self._source, self._folder = source, folder
        why = "videos of LeRobot are colour or depth; read it from the source dataset"
        source.cameras = source.skip_images(("segmentation", "planes"), why)
        source.skip_others("policies of LeRobot use all videos; read it from the source dataset")
        size = depth.MIN_SIZE
        source.skip_small_depth(
            size, f"depth videos have at least {size} x {size} pixels; read it from the source dataset"
        )
        self._cameras = {f"observation.images.{dotted(camera.uuid)}": camera for camera in source.cameras}
        self._signals = _name_signals(source)
        self._texts = {f"text.{name}": uuid for uuid, name in source.texts.items()}
        self._features = self._describe()
        limits = source.fps, _VIDEO_MB << 20, _FILES
        self._videos: dict[str, VideoJoiner | DepthVideo] = {
            key: (VideoJoiner if camera.form.is_colour else DepthVideo)(folder / "videos" / key, *limits)
            for key, camera in self._cameras.items()
        }
        numbers = [name for name, feature in self._features.items() if feature["dtype"] not in ("video", "string")]
        self._stats = {name: RunningStats(self._features[name]["shape"], source.n_steps) for name in numbers}
        self._images = {key: _image_stats(camera) for key, camera in self._cameras.items()}
        self._tasks: dict[str, int] = {}

    def write(self, progress: Callable[[int], None]) -> None:
        source, meta = self._source, self._folder / "meta"
        meta.mkdir()
        types = {n: column_type(f["dtype"], f["shape"]) for n, f in self._features.items() if f["dtype"] != "video"}
        data = ParquetFiles(self._folder / "data", types, _DATA_MB << 20, _FILES)
        episodes = ParquetFiles(meta / "episodes", self._episode_types(), _DATA_MB << 20, _FILES, batch=100)
        start = 0
        with open(meta / "scenes.jsonl", "w") as scenes:
            for number, episode in enumerate(source.episodes()):
                rows = self._rows(episode, number, start)
                chunk, file = data.add({name: column(rows[name]) for name in types})
                entry: dict[str, Any] = {
                    "episode_index": number,
                    "tasks": [_instruction(episode)],
                    "length": episode.length,
                    "data/chunk_index": chunk,
                    "data/file_index": file,
                    "dataset_from_index": start,
                    "dataset_to_index": start + episode.length,
                }
                images: dict[str, Statistics] = {}
                for key, camera in self._cameras.items():
                    span, images[key] = self._add_video(key, camera, episode)
                    entry |= _span_columns(key, span)
                for name, stats in {**self._episode_stats(episode, rows), **images}.items():
                    entry |= {f"stats/{name}/{which}": value.tolist() for which, value in stats.items()}
                chunk, file = episodes.place
                entry |= {"meta/episodes/chunk_index": chunk, "meta/episodes/file_index": file}
                episodes.add({name: [value] for name, value in entry.items()})
                scenes.write(scene_line(number, episode))
                start += episode.length
                progress(1)
        data.close()
        episodes.close()
        for video in self._videos.values():
            video.close()
        self._write_meta(meta)

    # -- features -----------------------------------------------------------------------------------------------------

    def _describe(self) -> dict[str, dict[str, Any]]:
        source = self._source
        features: dict[str, dict[str, Any]] = {}
        for name, signal in self._signals.items():
            names = signal.columns or None
            dtype = "float32" if signal.group == "observation" else signal.dtype.name
            features[name] = {"dtype": dtype, "shape": signal.shape, "names": names, "unit": signal.unit}
        for key, camera in self._cameras.items():
            features[key] = _video_feature(camera, source)
        names = source.action_names
        features["action"] = {"dtype": "float32", "shape": (len(names),), "names": names}
        features["action"]["unit"] = "units of the robot's controllers"
        for name in _STEPS:
            kind = "float32" if name == "next.reward" else "bool"
            features[name] = {"dtype": kind, "shape": (1,), "names": None}
        for name in self._texts:
            features[name] = {"dtype": "string", "shape": (1,), "names": None}
        for name, kind in _INDICES.items():
            features[name] = {"dtype": kind, "shape": (1,), "names": None}
        return features

    def _episode_types(self) -> dict[str, Any]:
        types = {"episode_index": column_type("int64"), "tasks": column_type("string", (0,), variable=True)}
        integers = ["length", "data/chunk_index", "data/file_index", "dataset_from_index", "dataset_to_index"]
        types |= {name: column_type("int64") for name in integers}
        for key in self._cameras:
            for name in ("chunk_index", "file_index"):
                types[f"videos/{key}/{name}"] = column_type("int64")
            for name in ("from_timestamp", "to_timestamp"):
                types[f"videos/{key}/{name}"] = column_type("float64")
        shapes = {name: self._features[name]["shape"] for name in self._stats}
        shapes |= {key: (self._features[key]["shape"][2], 1, 1) for key in self._images}
        for name, shape in shapes.items():
            for which in ("min", "max", "mean", "std", "count", "q01", "q10", "q50", "q90", "q99"):
                kind, form = ("int64", (1,)) if which == "count" else ("float64", shape)
                types[f"stats/{name}/{which}"] = column_type(kind, form, variable=True)
        return types | {f"meta/episodes/{name}": column_type("int64") for name in ("chunk_index", "file_index")}

    # -- one episode --------------------------------------------------------------------------------------------------

    def _rows(self, episode: Episode, number: int, start: int) -> dict[str, Any]:
        """Return the values of each feature, (T, *shape), or a list of texts."""
        length, source = episode.length, self._source
        rows: dict[str, Any] = {
            name: source.read(episode, signal)[:length].astype(self._features[name]["dtype"], copy=False)
            for name, signal in self._signals.items()
        }
        rows["action"] = episode[ACTION]
        for name, path in _STEPS.items():
            values = episode[path] if path else episode["terminated"] | episode["truncated"]
            rows[name] = values.reshape(length, 1)
        for name, uuid in self._texts.items():
            rows[name] = [json.dumps(reading) for reading in episode.text(uuid)[:length]]
        task = self._tasks.setdefault(_instruction(episode), len(self._tasks))
        steps = np.arange(length).reshape(length, 1)
        rows["timestamp"] = (steps / float(source.fps)).astype(np.float32)
        rows["frame_index"] = steps
        rows["episode_index"] = np.full_like(steps, number)
        rows["index"] = steps + start
        rows["task_index"] = np.full_like(steps, task)
        return rows

    def _episode_stats(self, episode: Episode, rows: dict[str, Any]) -> dict[str, Statistics]:
        found = {}
        for name, running in self._stats.items():
            own = RunningStats(self._features[name]["shape"], episode.length)
            own.add(rows[name])
            running.add(rows[name])
            found[name] = own.get()
        return found

    def _add_video(self, key: str, camera: ImageSource, episode: Episode) -> tuple[VideoSpan, Statistics]:
        """Append the images of an episode to the video of a camera; return where they are, and their statistics."""
        video = self._videos[key]
        if isinstance(video, VideoJoiner):
            path = episode.video_path(camera.uuid)
            span, stats = video.add(path, episode.length), _sample(path, episode.length)
        else:
            stats = _image_stats(camera)
            span = video.add(self._depth_codes(episode, camera, stats))
        self._images[key].merge(stats)
        return span, stats.get()

    def _depth_codes(self, episode: Episode, camera: ImageSource, stats: ImageStats) -> Iterator[np.ndarray]:
        for step, image in enumerate(self._source.frames(episode, camera)):
            if step < episode.length:
                codes = depth.to_codes(image)
                stats.add(codes[..., None])
                yield codes

    # -- metadata -----------------------------------------------------------------------------------------------------

    def _write_meta(self, meta: Path) -> None:
        source = self._source
        fps = source.fps.numerator if source.fps.denominator == 1 else float(source.fps)
        n_episodes = len(source.entries)
        file = "chunk-{chunk_index:03d}/file-{file_index:03d}"
        info = {
            "codebase_version": VERSION,
            "robot_type": source.options["robot"],
            "total_episodes": n_episodes,
            "total_frames": source.n_steps,
            "total_tasks": len(self._tasks),
            "chunks_size": _FILES,
            "data_files_size_in_mb": _DATA_MB,
            "video_files_size_in_mb": _VIDEO_MB,
            "fps": fps,
            "splits": {"train": f"0:{n_episodes}"},
            "data_path": f"data/{file}.parquet",
            "video_path": f"videos/{{video_key}}/{file}.mp4" if self._cameras else None,
            "features": self._features,
        }
        (meta / "info.json").write_text(json.dumps(info, indent=4))
        stats = {name: each.get() for name, each in self._stats.items()}
        stats |= {name: each.get() for name, each in self._images.items()}
        plain = {name: {which: value.tolist() for which, value in each.items()} for name, each in stats.items()}
        (meta / "stats.json").write_text(json.dumps(plain, indent=4, allow_nan=False))
        write_tasks(meta / "tasks.parquet", self._tasks)
        kept: dict[str, dict[str, Any]] = {
            signal.key: {"name": name, "unit": signal.unit, "shape": list(signal.shape)}
            for name, signal in self._signals.items()
        }
        kept |= {camera.uuid: image_note(camera, key) for key, camera in self._cameras.items()}
        kept |= {uuid: {"name": name, "form": "JSON"} for name, uuid in self._texts.items()}
        kept |= {path: {"name": name} for name, path in _STEPS.items() if path} | {ACTION: {"name": "action"}}
        source.note(meta, kept)


def _name_signals(source: ExportSource) -> dict[str, Signal]:
    """Return feature -> signal. LeRobot treats every name that contains "image" as images, so others must not."""
    names: dict[str, Signal] = {}
    for signal in sorted(source.signals, key=lambda signal: signal.path != _STATE):
        is_state = signal.path == _STATE and signal.group == "observation"
        name = "observation.state" if is_state else f"{signal.group}.{signal.name.replace('image', 'img')}"
        while name in names:
            name += "_"
        names[name] = signal
    return names


def _instruction(episode: Episode) -> str:
    return str(episode.scene.get("instruction") or episode.attributes["task"])


def _span_columns(key: str, span: VideoSpan) -> dict[str, float]:
    return {
        f"videos/{key}/chunk_index": span.chunk,
        f"videos/{key}/file_index": span.file,
        f"videos/{key}/from_timestamp": span.start,
        f"videos/{key}/to_timestamp": span.end,
    }


def _image_stats(camera: ImageSource) -> ImageStats:
    if camera.form.is_colour:
        return ImageStats()
    return ImageStats(depth.from_codes(np.arange(depth.CODES)), 1)


def _sample(path: Path, length: int) -> ImageStats:
    """Return the statistics of the key frames of a video, which are at most 4 frames apart."""
    import av

    stats = ImageStats()
    with av.open(str(path)) as file:
        stream = file.streams.video[0]
        stream.codec_context.skip_frame = "NONKEY"
        end = length * frame_ticks(stream)
        for frame in file.decode(stream):
            if (frame.pts or 0) < end:
                stats.add(frame.to_ndarray(format="rgb24"))
    return stats


def _video_feature(camera: ImageSource, source: ExportSource) -> dict[str, Any]:
    import av

    if camera.kind == "depth":
        return _depth_feature(camera, source)
    with av.open(str(source.dataset[0].video_path(camera.uuid))) as file:
        stream = file.streams.video[0]
        codec, pixels = stream.codec_context.codec.canonical_name, stream.pix_fmt
    info = {
        "video.height": camera.height,
        "video.width": camera.width,
        "video.codec": codec,
        "video.pix_fmt": pixels,
        "is_depth_map": False,
        "video.fps": float(source.fps) if source.fps.denominator != 1 else source.fps.numerator,
        "video.channels": 3,
        "has_audio": False,
    }
    shape = (camera.height, camera.width, 3)
    return {"dtype": "video", "shape": shape, "names": ["height", "width", "channels"], "unit": "sRGB", "info": info}


def _depth_feature(camera: ImageSource, source: ExportSource) -> dict[str, Any]:
    info = {
        "video.height": camera.height,
        "video.width": camera.width,
        "video.codec": "hevc",
        "video.pix_fmt": depth.PIXEL_FORMAT,
        "video.fps": float(source.fps) if source.fps.denominator != 1 else source.fps.numerator,
        "video.channels": 1,
        "has_audio": False,
        "is_depth_map": True,
        "depth_unit": "m",
        "video.depth_min": depth.MIN,
        "video.depth_max": depth.MAX,
        "video.shift": depth.SHIFT,
        "video.use_log": True,
    }
    shape = (camera.height, camera.width, 1)
    return {"dtype": "video", "shape": shape, "names": ["height", "width", "channels"], "unit": "m", "info": info}
