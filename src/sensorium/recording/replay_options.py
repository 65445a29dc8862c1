"""What to sense of a recording."""

from __future__ import annotations

from pydantic import Field

from sensorium.options import Options
from sensorium.recording.camera_changes import ImageKind
from sensorium.sensors.options import SensorOptions


class ReplayOptions(Options):
    """What to sense of a recording.

    Example:
        >>> sn.recording.ReplayOptions(images=("rgb", "depth"), interval=5)
    """

    images: tuple[ImageKind, ...] = ()
    """What cameras render: "rgb", "depth", "segmentation", "instance", "normals". Default: no images."""
    cameras: tuple[str, ...] | None = None
    """Dotted names or uuids of the cameras to render. Default: all."""
    sensors: tuple[SensorOptions, ...] = ()
    """Further sensors and cameras. One that has the uuid of a recorded sensor ("robot_imu"), or its name in the rig of
    a robot ("imu"), takes its place."""
    only_sensors: bool = False
    """Whether the recorded sensors that ``sensors`` does not replace are left out. Default: they stay."""
    renderer: str | None = None
    """Renderer of all cameras, instead of the one that they were recorded with."""
    resolution: tuple[int, int] | None = None
    """Width and height of all images in pixels, likewise."""
    device: str | None = None
    """Where the scene is built: "cpu" or "cuda". Default: the kind of device that it was recorded on."""
    interval: int = Field(default=1, ge=1)
    """Every how many steps a frame is taken, beginning with the first."""
    max_frames: int | None = Field(default=None, ge=1)
    """How many frames at most."""
    segment_frames: int = Field(default=100, ge=1)
    """Frames in a file, at most."""
