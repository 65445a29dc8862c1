"""A scene that is made ready for a replay, and takes it through the frames."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

from sensorium._system import cpu_count
from sensorium.cameras.camera import CameraSensor
from sensorium.errors import DatasetError, NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.files import named, package_versions
from sensorium.recording.camera_changes import CameraChanges
from sensorium.recording.describe import save_scene
from sensorium.recording.folder import VERSION, write_config
from sensorium.recording.media import KEY_FRAMES
from sensorium.recording.recording import Recording
from sensorium.recording.replay_options import ReplayOptions
from sensorium.recording.retrace import Retracer
from sensorium.recording.rows import IMAGE_TAGS, StepSource
from sensorium.recording.runs import ReplayLayout, Run
from sensorium.recording.segment import ImageStream, ReplaySegment, SegmentEncoders
from sensorium.sensors.options import SensorOptions
from sensorium.worlds import Scene
from sensorium.worlds.contents import encode

Progress = Callable[[int], None]
"""Is told how many further frames are whole."""

_PIECES = 64
"""Key frames lie so densely that a replay has about as many places at least where its frames can be shared out."""


class ReplayJob:
    """A scene that is made ready for a replay. Making it finds what is wrong with the options; nothing is written.

    Attributes:
        n_frames: how many frames there will be.
        unit: from one key frame of videos to the next.
    """

    def __init__(self, episode: Recording, options: ReplayOptions) -> None:
        self.episode, self.options = episode, options
        possible = ceil(len(episode) / options.interval)
        self.n_frames = possible if options.max_frames is None else min(possible, options.max_frames)
        self.unit = min(KEY_FRAMES, max(1, self.n_frames // _PIECES))
        self.changes = CameraChanges(outputs=options.images, renderer=options.renderer, resolution=options.resolution)
        self.scene, replaced = self._build()
        try:
            self.streams = self._choose()
            self.tracer = Retracer(episode, self.scene, replaced)
            self.tracer.check(range(self.n_frames * options.interval))
        except BaseException:
            self.scene.close()
            raise
        self.source = StepSource(self.scene, frozenset(IMAGE_TAGS))

    def _build(self) -> tuple[Scene, set[str]]:
        """The scene, and the uuids of the recorded sensors that others have taken the place of."""
        scene = self.episode.load_scene(adapt=self.changes.apply)
        recorded = dict(scene.sensors)
        replaced: dict[str, SensorOptions] = {}
        for sensor in self.options.sensors:
            old = _recorded_as(scene, sensor)
            if old is None:
                scene.add_sensor(sensor)
            elif old in replaced:
                raise OptionError(f"two of the sensors take the place of {old!r}; leave one out")
            else:
                scene.replace_sensor(old, sensor)
                replaced[old] = sensor
        if self.options.only_sensors:
            for uuid in recorded:
                if uuid not in replaced:
                    scene.remove_sensor(uuid)
        config = self.episode.config["scene"]
        # where images are made, every core is busy with them: physics would wait longer for its threads than it takes
        threads = 1 if self.options.images else 0
        scene.build(n_envs=config["n_envs"], seed=config["seed"], device=self.device, threads=threads)
        return scene, set(replaced)

    @property
    def device(self) -> str:
        """Where the scene is built."""
        return self.options.device or str(self.episode.config["scene"]["device"])

    def _choose(self) -> list[ImageStream]:
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
        period = Fraction(self.episode.dt).limit_denominator(100_000) * self.options.interval
        chosen = [(path, kind) for path in cameras if path in wanted for kind in images]
        return [ImageStream(f"{path}.{kind}", cameras[path], kind, float(1 / period)) for path, kind in chosen]

    def write_config(self, folder: Path, form: dict[str, Any]) -> None:
        """Write what this replay is, before its first frame."""
        episode = self.episode
        if (episode.folder / "occupancy_map").is_dir():
            with named(folder / "occupancy_map"):
                shutil.copytree(episode.folder / "occupancy_map", folder / "occupancy_map")
        config = {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": package_versions(),
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
                "images": {stream.name: stream.about for stream in self.streams},
            },
        }
        write_config(folder, config)

    def run(self, folder: Path, runs: Sequence[Run], progress: Progress | None) -> None:
        """Write runs of frames, one after the other. What is whole when it is interrupted is kept."""
        layout = ReplayLayout(
            folder, {stream.name: stream.about for stream in self.streams}, self.scene.n_envs, VERSION
        )
        encoders = SegmentEncoders(max(1, min(4, cpu_count() - 1)))
        every = self.options.interval
        done = progress or (lambda count: None)
        try:
            for first, count in runs:
                segment = ReplaySegment(layout, self.source, self.streams, encoders, first, count, self._is_key, done)
                try:
                    for frame in range(first, first + count):
                        step = self.tracer.to(frame * every)
                        events = [event for event in step.events if "values" not in event] if every == 1 else []
                        segment.write(step, events)
                except (DatasetError, OSError):
                    segment.leave()
                    raise
                except BaseException:
                    segment.close()
                    raise
                segment.close()
            encoders.wait()
        finally:
            encoders.close()

    def _is_key(self, frame: int) -> bool:
        return frame % self.unit == 0 or frame % self.options.segment_frames == 0

    def close(self) -> None:
        """Free the scene."""
        self.scene.close()


def _recorded_as(scene: Scene, sensor: SensorOptions) -> str | None:
    """The uuid of the recorded sensor that a new one takes the place of: by that uuid, or by a name in the tree."""
    if sensor.uuid is None or sensor.uuid in scene.sensors:
        return sensor.uuid
    uuids = {id(one): uuid for uuid, one in scene.sensors.items()}
    found = [
        uuids[id(module)]
        for path, module in scene.named_modules()
        if id(module) in uuids and path.split(".")[-1] == sensor.uuid
    ]
    if len(found) > 1:
        raise OptionError(
            f"uuid {sensor.uuid!r} is the name of several sensors; give the uuid of one: {shorten(found)}"
        )
    return found[0] if found else None
