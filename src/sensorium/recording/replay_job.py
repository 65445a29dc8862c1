"""A replay job: the scene of a replay, built, and taken through the frames."""

from __future__ import annotations

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
from sensorium.files import explain_errors
from sensorium.links import refuse_foreign_links
from sensorium.recording.camera_changes import CameraChanges
from sensorium.recording.describe import save_scene
from sensorium.recording.folder import VERSION, write_config
from sensorium.recording.image_files import KEY_FRAMES
from sensorium.recording.recording import Recording
from sensorium.recording.replay_options import ReplayOptions
from sensorium.recording.retrace import Retracer
from sensorium.recording.rows import IMAGE_TAGS
from sensorium.recording.runs import ReplayLayout, Run
from sensorium.recording.segment import ImageStream, ReplaySegment, SegmentEncoders
from sensorium.recording.stand_ins import add_stand_ins
from sensorium.recording.step_source import StepSource
from sensorium.sensors.options import SensorOptions
from sensorium.versions import package_versions
from sensorium.worlds import Scene
from sensorium.worlds.contents import encode

Progress = Callable[[int], None]
"""Callback that is called with the number of frames that were completed since the last call."""

_MIN_PIECES = 64
"""Key frames are so dense that a replay can be split between workers at about this many places at least."""


class ReplayJob:
    """The scene of a replay, built. Creating it checks all options and writes nothing.

    Args:
        recording: the recording to replay.
        options: what to sense.

    Attributes:
        n_frames: number of frames of the replay.
        key_interval: frames from one key frame of videos to the next.

    Raises:
        OptionError, NameNotFoundError, DatasetError: the options do not fit the recording.
    """

    def __init__(self, recording: Recording, options: ReplayOptions) -> None:
        self.recording, self.options = recording, options
        available = ceil(len(recording) / options.interval)
        self.n_frames = available if options.max_frames is None else min(available, options.max_frames)
        self.key_interval = min(KEY_FRAMES, max(1, self.n_frames // _MIN_PIECES))
        self.changes = CameraChanges(outputs=options.images, renderer=options.renderer, resolution=options.resolution)
        self.scene, replaced = self._build()
        try:
            self.streams = self._choose_streams()
            self.tracer = Retracer(recording, self.scene, replaced)
            self.tracer.check(range(self.n_frames * options.interval))
        except BaseException:
            self.scene.close()
            raise
        self.source = StepSource(self.scene, frozenset(IMAGE_TAGS))

    def _build(self) -> tuple[Scene, set[str]]:
        """Return the scene, and the uuids of the recorded sensors that others replace."""
        scene = self.recording.load_scene(adapt=self.changes.apply)
        recorded = dict(scene.sensors)
        ids = {id(sensor) for sensor in recorded.values()}
        paths = [path for path, module in scene.named_modules() if id(module) in ids]
        replaced: dict[str, SensorOptions] = {}
        for sensor in self.options.sensors:
            old = _replaced_uuid(scene, sensor)
            if old is None:
                scene.add_sensor(sensor)
            elif old not in recorded:
                raise OptionError(f"two of the sensors have the uuid {old!r}; rename one of them")
            elif old in replaced:
                raise OptionError(f"two of the sensors replace {old!r}; remove one of them")
            else:
                scene.replace_sensor(old, sensor)
                replaced[old] = sensor
        if self.options.only_sensors:
            for uuid in recorded:
                if uuid not in replaced:
                    scene.remove_sensor(uuid)
        config = self.recording.config["scene"]
        # while images are rendered and encoded, every core is busy: physics threads would cost more than they save
        threads = 1 if self.options.images else 0
        scene.build(n_envs=config["n_envs"], seed=config["seed"], device=self.device, threads=threads)
        add_stand_ins(scene, self.recording, paths)
        return scene, set(replaced)

    @property
    def device(self) -> str:
        """Device on which the scene is built."""
        return self.options.device or str(self.recording.config["scene"]["device"])

    def _choose_streams(self) -> list[ImageStream]:
        """Return the images to write. Cameras that are not chosen are switched off."""
        images = self.options.images
        cameras = {path: module for path, module in self.scene.named_modules() if isinstance(module, CameraSensor)}
        wanted = set(cameras)
        if self.options.cameras is not None:
            paths = {camera.uuid: path for path, camera in cameras.items()} | {path: path for path in cameras}
            for name in self.options.cameras:
                if name not in paths:
                    hint = did_you_mean(name, paths) or f"; the cameras are {shorten(cameras)}"
                    raise NameNotFoundError(f"there is no camera {name!r}{hint}")
            wanted = {paths[name] for name in self.options.cameras}
        if images and not wanted:
            raise OptionError(
                f"{self.recording.folder} has no cameras to render {', '.join(images)}; add some (--cameras FILE)"
            )
        for path, camera in cameras.items():
            for output in camera.outputs:
                if path not in wanted or not images:
                    getattr(camera, f"disable_{output}_rendering")()
        period = Fraction(self.recording.dt).limit_denominator(100_000) * self.options.interval
        chosen = [(path, kind) for path in cameras if path in wanted for kind in images]
        return [ImageStream(f"{path}.{kind}", cameras[path], kind, float(1 / period)) for path, kind in chosen]

    def write_config(self, folder: Path, options_form: dict[str, Any]) -> None:
        """Write ``config.json`` and the scene of the replay, before its first frame.

        Args:
            folder: output folder.
            options_form: the options as JSON.
        """
        recording = self.recording
        if (recording.folder / "occupancy_map").is_dir():
            refuse_foreign_links(recording.folder / "occupancy_map")
            with explain_errors(folder / "occupancy_map"):
                shutil.copytree(recording.folder / "occupancy_map", folder / "occupancy_map")
        config = {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": package_versions(),
            "dt": recording.dt * self.options.interval,
            "scene": {
                **save_scene(self.scene, folder),
                "cameras": encode({name: getattr(self.changes, name) for name in self.changes.model_fields_set}),
            },
            **self.source.config,
            "start": recording.config.get("start", 0),
            "metadata": recording.config["metadata"],
            "replay": {
                "source": recording.folder.resolve().name,  # no paths of this machine
                "source_created": recording.config.get("created"),
                "source_steps": len(recording),
                "interval": self.options.interval,
                "frames": self.n_frames,
                "options": options_form,
                "images": {stream.name: stream.header for stream in self.streams},
            },
        }
        write_config(folder, config)

    def run(self, folder: Path, runs: Sequence[Run], progress: Progress | None) -> None:
        """Write runs of frames one after the other. If it is interrupted, complete frames are kept."""
        headers = {stream.name: stream.header for stream in self.streams}
        layout = ReplayLayout(folder, headers, self.scene.n_envs, VERSION)
        encoders = SegmentEncoders(max(1, min(4, cpu_count() - 1)))
        interval = self.options.interval
        report = progress or (lambda count: None)
        try:
            for first, count in runs:
                segment = ReplaySegment(layout, self.source, self.streams, encoders, first, count, self._is_key, report)
                try:
                    for frame in range(first, first + count):
                        step = self.tracer.to(frame * interval)
                        events = [event for event in step.events if "values" not in event] if interval == 1 else []
                        segment.write(step, events)
                except (DatasetError, OSError):
                    segment.release()
                    raise
                except BaseException:
                    segment.close()
                    raise
                segment.close()
            encoders.wait()
        finally:
            encoders.close()

    def _is_key(self, frame: int) -> bool:
        return frame % self.key_interval == 0 or frame % self.options.segment_frames == 0

    def close(self) -> None:
        """Free the scene."""
        self.scene.close()


def _replaced_uuid(scene: Scene, sensor: SensorOptions) -> str | None:
    """Return the uuid of the recorded sensor that a new one replaces, by its uuid or its name in the tree, or None."""
    if sensor.uuid is None or sensor.uuid in scene.sensors:
        return sensor.uuid
    uuids = {id(recorded): uuid for uuid, recorded in scene.sensors.items()}
    found = [
        uuids[id(module)]
        for path, module in scene.named_modules()
        if id(module) in uuids and path.split(".")[-1] == sensor.uuid
    ]
    if len(found) > 1:
        raise OptionError(f"uuid {sensor.uuid!r} is the name of several sensors; use the uuid of one: {shorten(found)}")
    return found[0] if found else None
