"""Replay: a recording brought back to life and sensed again, with the same sensors or with others."""

from __future__ import annotations

import ctypes
import importlib
import json
import multiprocessing
import os
import queue
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

from pydantic import Field

from sensorium.cameras.camera import CameraSensor
from sensorium.datasets.changes import CameraChanges, ImageKind
from sensorium.datasets.chunk import Chunk
from sensorium.datasets.describe import save_scene, versions
from sensorium.datasets.episode import Episode
from sensorium.datasets.files import PART, STATE, new_folder, read_config, write_config, writing
from sensorium.datasets.retrace import Retracer
from sensorium.datasets.rows import IMAGE_TAGS, StepSource
from sensorium.datasets.segment import Encoders, Segment, Stream
from sensorium.errors import DatasetError, NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.options import Options
from sensorium.sensors.options import SensorOptions
from sensorium.worlds import Scene
from sensorium.worlds.contents import decode, encode

Progress = Callable[[int], None]
"""Is told how many further frames are whole."""


class ReplayOptions(Options):
    """What to sense of a recording.

    Example:
        >>> sn.datasets.ReplayOptions(images=("rgb", "depth"), interval=5)
    """

    images: tuple[ImageKind, ...] = ()
    """What cameras render: "rgb", "depth", "segmentation", "instance", "normals". Default: no images."""
    cameras: tuple[str, ...] | None = None
    """Dotted names or uuids of the cameras to render. Default: all."""
    sensors: tuple[SensorOptions, ...] = ()
    """Further sensors and cameras. One that has the uuid of a sensor of the scene takes its place."""
    renderer: str | None = None
    """Renderer of all cameras, instead of the one that they were recorded with."""
    resolution: tuple[int, int] | None = None
    """Width and height of all images in pixels, likewise."""
    interval: int = Field(default=1, ge=1)
    """Every how many steps a frame is taken, beginning with the first."""
    max_frames: int | None = Field(default=None, ge=1)
    """How many frames at most."""
    segment_frames: int = Field(default=100, ge=1)
    """Frames in a file."""


def replay(
    source: str | Path,
    out: str | Path,
    options: ReplayOptions | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    workers: int = 1,
    progress: Progress | None = None,
) -> Episode:
    """Sense a recording again, and write what is sensed as another one.

    Steps that lie between frames are sensed too, so that sensors that remember read what they would have read. With the
    sensors of the recording, the readings are the recorded ones, bit by bit.

    Args:
        source: folder of the recording.
        out: folder to write: a new or an empty one.
        options: what to sense.
        resume: go on with a replay that was interrupted. Frames that are whole are kept.
        overwrite: whether a recording in ``out`` may be replaced.
        workers: processes that share the frames.
        progress: called when frames are whole.
    """
    options = options or ReplayOptions()
    if workers < 1:
        raise OptionError(f"workers must be at least 1, got {workers}")
    episode = Episode(source)
    folder = Path(out)
    if folder.resolve() == Path(source).resolve():
        raise DatasetError(f"a replay cannot be written into {folder}, which it is read from; give another folder")
    form = encode(options)
    if resume and (folder / "config.json").exists():
        _check_resumed(folder, form, episode)
        job = _Job(episode, options)
    else:
        job = _Job(episode, options)  # before anything is written: names and options are checked by it
        new_folder(folder, overwrite)
        (folder / STATE).mkdir(parents=True)
        job.write_config(folder, form)
    with writing(folder):
        for left in folder.rglob(f"*{PART}"):
            left.unlink()
        segments = _missing(folder, job.n_frames, options.segment_frames)
        if progress is not None:
            progress(job.n_frames - sum(count for _, count in segments))
        if workers == 1 or len(segments) < 2:
            job.run(folder, segments, progress)
        else:
            job.close()
            _share(episode, folder, form, segments, workers, progress)
    job.close()
    return Episode(folder)


def _check_resumed(folder: Path, form: dict[str, Any], episode: Episode) -> None:
    config = read_config(folder).get("replay")
    if config is None:
        raise DatasetError(f"{folder} is a recording, not a replay that could be resumed; give another folder")
    if config["options"] != json.loads(json.dumps(form)):
        changed = sorted(
            name
            for name in {*config["options"]["options"], *form["options"]}
            if config["options"]["options"].get(name) != json.loads(json.dumps(form["options"].get(name)))
        )
        raise DatasetError(f"{folder} was begun with another {', '.join(changed)}; resume it with the same options")
    if config["source_created"] != episode.config.get("created") or config["source_steps"] != len(episode):
        raise DatasetError(f"{folder} is a replay of another recording, {config['source']}; give another folder")


def _missing(folder: Path, n_frames: int, most: int) -> list[tuple[int, int]]:
    """Runs of frames (first, count) that are not there yet."""
    there = sorted((int(path.stem), len(Chunk(path))) for path in (folder / STATE).glob("*.h5"))
    out, next_frame = [], 0
    for first, count in [*there, (n_frames, 0)]:
        while next_frame < first:
            size = min(most, first - next_frame)
            out.append((next_frame, size))
            next_frame += size
        next_frame = first + count
    return out


class _Job:
    """A scene that is made ready for a replay."""

    def __init__(self, episode: Episode, options: ReplayOptions) -> None:
        self.episode, self.options = episode, options
        possible = ceil(len(episode) / options.interval)
        self.n_frames = possible if options.max_frames is None else min(possible, options.max_frames)
        self.changes = CameraChanges(outputs=options.images, renderer=options.renderer, resolution=options.resolution)
        self.scene = self._build()
        try:
            self.streams = self._choose()
        except BaseException:
            self.scene.close()
            raise
        self.source = StepSource(self.scene, frozenset(IMAGE_TAGS))

    def _build(self) -> Scene:
        added = {sensor.uuid for sensor in self.options.sensors if sensor.uuid is not None}

        def is_replaced(entry: dict[str, Any]) -> bool:
            return entry["call"] == "add_sensor" and entry["options"]["options"].get("uuid") in added

        scene = self.episode.load_scene(adapt=self.changes.apply, skip=is_replaced)
        for sensor in self.options.sensors:
            scene.add_sensor(sensor)
        config = self.episode.config["scene"]
        scene.build(n_envs=config["n_envs"], seed=config["seed"], device=config["device"])
        return scene

    def _choose(self) -> list[Stream]:
        """The images to write; cameras that are not wanted render nothing."""
        images = self.options.images
        cameras = {path: one for path, one in self.scene.named_modules() if isinstance(one, CameraSensor)}
        wanted = set(cameras)
        if self.options.cameras is not None:
            named = {camera.uuid: path for path, camera in cameras.items()} | {path: path for path in cameras}
            for name in self.options.cameras:
                if name not in named:
                    hint = did_you_mean(name, named) or f"; there are {shorten(cameras)}"
                    raise NameNotFoundError(f"there is no camera {name!r}{hint}")
            wanted = {named[name] for name in self.options.cameras}
        if images and not wanted:
            raise OptionError(
                f"{self.episode.folder} has no cameras to render {', '.join(images)} with; add some (--cameras FILE)"
            )
        for path, camera in cameras.items():
            for output in camera.outputs:
                if path not in wanted or not images:
                    getattr(camera, f"disable_{output}_rendering")()
        return [Stream(f"{path}.{kind}", cameras[path], kind) for path in cameras if path in wanted for kind in images]

    def write_config(self, folder: Path, form: dict[str, Any]) -> None:
        """Write what this replay is, before its first frame."""
        episode = self.episode
        if (episode.folder / "occupancy_map").is_dir():
            shutil.copytree(episode.folder / "occupancy_map", folder / "occupancy_map")
        config = {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": versions(),
            "dt": episode.dt * self.options.interval,
            "scene": {
                **save_scene(self.scene, folder),
                "cameras": encode({name: getattr(self.changes, name) for name in self.changes.model_fields_set}),
            },
            **self.source.config,
            "start": episode.config.get("start", 0),
            "metadata": episode.config["metadata"],
            "replay": {
                "source": os.path.abspath(episode.folder),
                "source_created": episode.config.get("created"),
                "source_steps": len(episode),
                "interval": self.options.interval,
                "frames": self.n_frames,
                "options": form,
                "images": {stream.name: {**stream.about, "fps": float(self.rate)} for stream in self.streams},
            },
        }
        write_config(folder, config)

    @property
    def rate(self) -> Fraction:
        """Frames a second."""
        return 1 / (Fraction(self.episode.dt).limit_denominator(100_000) * self.options.interval)

    def run(self, folder: Path, segments: Sequence[tuple[int, int]], progress: Progress | None) -> None:
        """Write runs of frames, one after the other. What is whole when it is interrupted is kept."""
        tracer = Retracer(self.episode, self.scene)
        encoders = Encoders(max(1, min(4, len(os.sched_getaffinity(0)) - 1)))
        every = self.options.interval
        try:
            for first, count in segments:
                segment = Segment(folder, self.scene, self.source, self.streams, encoders, first, count, self.rate)
                try:
                    for frame in range(first, first + count):
                        step = tracer.to(frame * every)
                        events = [event for event in step.events if "values" not in event] if every == 1 else []
                        segment.write(step, events)
                        if progress is not None:
                            progress(1)
                except (DatasetError, OSError):
                    segment.drop()
                    raise
                except BaseException:
                    segment.close()
                    raise
                segment.close()
        finally:
            encoders.close()

    def close(self) -> None:
        """Free the scene."""
        self.scene.close()


# -- several processes ------------------------------------------------------------------------------------------------


def _share(
    episode: Episode,
    folder: Path,
    form: dict[str, Any],
    segments: list[tuple[int, int]],
    workers: int,
    progress: Progress | None,
) -> None:
    """Give each process its share of the frames, one run after the other."""
    context = multiprocessing.get_context("spawn")
    reports: Any = context.Queue()
    workers = min(workers, len(segments))
    shares = [segments[len(segments) * i // workers : len(segments) * (i + 1) // workers] for i in range(workers)]
    modules = sorted({name for name in _modules(episode.config) if name in sys.modules and name != "__main__"})
    arguments = [(str(episode.folder), str(folder), form, share, modules, reports) for share in shares]
    processes = [context.Process(target=_work, args=each, daemon=True) for each in arguments]
    error: str | None = None
    try:
        for process in processes:
            process.start()
        while any(process.is_alive() for process in processes) or not reports.empty():
            try:
                report = reports.get(timeout=0.1)
            except queue.Empty:
                continue
            if isinstance(report, str):
                error = error or report
            elif progress is not None:
                progress(report)
    finally:
        for process in processes:
            if process.is_alive():
                process.terminate()  # it completes what it has
        for process in processes:
            process.join()
    if error is None and any(process.exitcode for process in processes):
        error = "a process of the replay ended before its work was done; run it again with --resume"
    if error is not None:
        raise DatasetError(error)


def _modules(form: Any) -> set[str]:
    """The modules whose classes a JSON form names."""
    if isinstance(form, list):
        return {name for item in form for name in _modules(item)}
    if not isinstance(form, dict):
        return set()
    own = {value.split(":")[0] for key, value in form.items() if key in ("type", "part") and isinstance(value, str)}
    return own | {name for item in form.values() for name in _modules(item)}


def _work(source: str, out: str, form: Any, share: Any, modules: list[str], reports: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one tells the others
    signal.signal(signal.SIGTERM, _interrupt)
    _end_with_parent()
    try:
        for name in modules:
            importlib.import_module(name)
        job = _Job(Episode(source), decode(form))
        try:
            job.run(Path(out), share, reports.put)
        finally:
            job.close()
    except KeyboardInterrupt:
        sys.exit(1)
    except Exception as error:
        reports.put(f"{type(error).__name__}: {error}")
        sys.exit(1)


def _end_with_parent() -> None:
    """Let the end of the first process, be it killed, end this one: it must not write where the next one will."""
    if sys.platform == "linux":
        parent_death_signal = 1
        ctypes.CDLL(None).prctl(parent_death_signal, signal.SIGTERM)
        parent = multiprocessing.parent_process()
        if parent is not None and not parent.is_alive():  # before that was said
            sys.exit(1)


def _interrupt(*_: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: what is whole is being kept
    raise KeyboardInterrupt
