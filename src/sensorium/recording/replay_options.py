"""Options of a replay."""

from __future__ import annotations

from pydantic import Field

from sensorium.options import Options
from sensorium.recording.camera_changes import ImageKind
from sensorium.sensors.options import SensorOptions


class ReplayOptions(Options):
    """What a replay senses.

    Example:
        >>> sn.recording.ReplayOptions(images=("rgb", "depth"), interval=5)
    """

    images: tuple[ImageKind, ...] = ()
    """Image kinds that the cameras render: "rgb", "depth", "segmentation", "instance", "normals". Default: none."""
    cameras: tuple[str, ...] | None = None
    """Dotted names or uuids of the cameras to render. Default: all."""
    sensors: tuple[SensorOptions, ...] = ()
    """Additional sensors and cameras. A sensor that has the uuid of a recorded one ("robot_imu"), or its name in the
    rig of a robot ("imu"), replaces it."""
    only_sensors: bool = False
    """Remove the recorded sensors that ``sensors`` does not replace. Default: they stay."""
    renderer: str | None = None
    """Renderer of all cameras. Default: the recorded one of each camera."""
    resolution: tuple[int, int] | None = None
    """Width and height of all images in pixels. Default: the recorded ones of each camera."""
    device: str | None = None
    """Device on which the scene is built, "cpu" or "cuda". Default: the kind of device it was recorded on."""
    interval: int = Field(default=1, ge=1)
    """Number of steps from one frame to the next. The first step is always a frame."""
    max_frames: int | None = Field(default=None, ge=1)
    """Maximum number of frames. Default: no limit."""
    segment_frames: int = Field(default=100, ge=1)
    """Maximum number of frames in a file."""
