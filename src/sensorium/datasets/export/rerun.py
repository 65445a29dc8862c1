"""Rerun recordings, one per episode: ``episode_000000.rrd``, ...

::

    world/actors/NAME                   transforms of all bodies, in the world frame
    world/robot_base/NAME               poses in the frame of the robot's base
    world/cameras/NAME                  transform and pinhole; below it rgb (the unchanged video), depth, segmentation
    observation/NAME, action, step/NAME numbers, as plots; also privileged/NAME and info/NAME
    text/NAME                           readings of sensors that read dicts, as JSON

The timelines are ``time``, in simulated seconds since the reset, and ``step``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sensorium.datasets.dataset import Episode
from sensorium.datasets.export.source import ACTION, STEPS, ExportSource, ImageSource, Signal, image_note
from sensorium.datasets.header import episode_name

if TYPE_CHECKING:
    import rerun

_BASE = "obs/extra/robot_base_pose"
_MILLIMETRES = 1000.0


def write(source: ExportSource, folder: Path, progress: Callable[[int], None]) -> None:
    """Write a dataset into an empty folder."""
    source.cameras = source.skip_images(("planes",), "Rerun shows colour, depth and segmentation only")
    for episode in source.episodes():
        _EpisodeLog(source, episode, folder / f"{episode_name(episode.number)}.rrd").write()
        progress(1)
    source.note(folder, _kept(source))


class _EpisodeLog:
    """Writes one episode as one Rerun recording."""

    def __init__(self, source: ExportSource, episode: Episode, path: Path) -> None:
        import rerun as rr

        self._source, self._episode = source, episode
        name = f"{source.options['task']} {episode.number}"
        self._stream = rr.RecordingStream("sensorium", recording_id=f"{name}, seed {episode.attributes['seed']}")
        self._stream.save(path)
        self._stream.set_log_time_enabled(False)  # the time of the export is irrelevant
        self._stream.set_log_tick_enabled(False)
        self._stream.send_recording_name(name)
        self._numbers = np.arange(episode.length + 1)
        self._times = self._numbers / float(source.fps)

    def write(self) -> None:
        import rerun as rr

        source, episode, stream = self._source, self._episode, self._stream
        stream.log("world", rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
        for signal in source.signals:
            rows = source.read(episode, signal)
            self._plot(f"{signal.group}/{_path(signal.name)}", rows.reshape(len(rows), -1), signal.columns)
            if signal.is_pose:
                self._transform(_entity_path(signal), rows)
        for camera in source.cameras:
            self._camera(camera)
        self._plot("action", episode[ACTION], source.action_names)
        for name in STEPS:
            self._plot(f"step/{name}", episode[name].reshape(-1, 1), [])
        for uuid, name in source.texts.items():
            texts = [json.dumps(each) for each in episode.text(uuid)]
            stream.send_columns(f"text/{_path(name)}", self._timelines(0), rr.TextDocument.columns(text=texts))
        stream.log("scene", rr.TextDocument(json.dumps(episode.scene, indent=1)), static=True)
        stream.flush()
        stream.disconnect()

    def _timelines(self, first: int) -> list[rerun.TimeColumn]:
        """Return the times of the rows from ``first`` on."""
        import rerun as rr

        return [
            rr.TimeColumn("time", duration=self._times[first:]),
            rr.TimeColumn("step", sequence=self._numbers[first:]),
        ]

    def _plot(self, path: str, rows: np.ndarray, names: list[str]) -> None:
        """Log rows of observations (T + 1) or of steps (T). The row of a step is at the end of that step."""
        import rerun as rr

        if names:
            self._stream.log(path, rr.SeriesLines(names=names), static=True)
        values = rows.astype(np.float64)
        first = len(self._numbers) - len(rows)
        self._stream.send_columns(path, self._timelines(first), rr.Scalars.columns(scalars=values))

    def _transform(self, path: str, rows: np.ndarray) -> None:
        import rerun as rr

        columns = rr.Transform3D.columns(translation=rows[:, :3], quaternion=np.roll(rows[:, 3:7], -1, axis=1))
        self._stream.send_columns(path, self._timelines(0), columns)

    def _camera(self, camera: ImageSource) -> None:
        import rerun as rr

        name = camera.uuid.removesuffix(f"_{camera.kind}")
        path = f"world/cameras/{_part(name)}"
        if camera.form.is_colour:
            if f"sensor_param_{name}" in self._episode.suite:
                self._pinhole(path, name, camera)
            video = rr.AssetVideo(path=self._episode.video_path(camera.uuid))
            self._stream.log(f"{path}/rgb", video, static=True)
            shown = video.read_frame_timestamps_nanos()
            self._stream.send_columns(f"{path}/rgb", self._timelines(0), rr.VideoFrameReference.columns_nanos(shown))
            return
        for step, image in enumerate(self._source.frames(self._episode, camera)):
            self._stream.set_time("time", duration=self._times[step])
            self._stream.set_time("step", sequence=step)
            if camera.kind == "depth":
                depth = rr.DepthImage(camera.form.store(image), meter=_MILLIMETRES)
                self._stream.log(f"{path}/depth", depth)
            else:
                bodies = rr.SegmentationImage((image[..., 0] + 1).astype(np.uint16))
                self._stream.log(f"{path}/segmentation", bodies)
        self._stream.reset_time()

    def _pinhole(self, path: str, name: str, camera: ImageSource) -> None:
        import rerun as rr

        poses = self._episode[f"obs/sensor_param/{name}/cam2world_gl"]
        columns = rr.Transform3D.columns(translation=poses[:, :3, 3], mat3x3=poses[:, :3, :3])
        self._stream.send_columns(path, self._timelines(0), columns)
        intrinsic = self._episode[f"obs/sensor_param/{name}/intrinsic_cv"][0]
        size = (camera.width, camera.height)
        lens = rr.Pinhole(image_from_camera=intrinsic, resolution=size, camera_xyz=rr.ViewCoordinates.RUB)
        self._stream.log(path, lens, static=True)


def _part(name: str) -> str:
    """Return a name escaped as one part of an entity path."""
    import rerun as rr

    return rr.escape_entity_path_part(name)


def _path(name: str) -> str:
    return "/".join(_part(part) for part in name.split("."))


def _entity_path(signal: Signal) -> str:
    """Return the entity path of a pose."""
    if signal.path == _BASE:
        return "world/robot_base"
    if signal.path.startswith("env_states/actors/"):
        return f"world/actors/{_part(signal.path.rpartition('/')[2])}"
    return f"world/robot_base/{_path(signal.name)}" if signal.in_base_frame else f"world/{_path(signal.name)}"


def _kept(source: ExportSource) -> dict[str, dict[str, Any]]:
    kept: dict[str, dict[str, Any]] = {
        signal.key: {"name": f"{signal.group}/{_path(signal.name)}", "unit": signal.unit} for signal in source.signals
    }
    for camera in source.cameras:
        name = camera.uuid.removesuffix(f"_{camera.kind}")
        kept[camera.uuid] = image_note(camera, f"world/cameras/{_part(name)}/{camera.kind}")
    kept |= {uuid: {"name": f"text/{_path(name)}", "form": "JSON"} for uuid, name in source.texts.items()}
    return kept | {name: {"name": f"step/{name}"} for name in STEPS} | {ACTION: {"name": "action"}}
