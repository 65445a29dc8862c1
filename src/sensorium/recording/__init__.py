"""Recordings: the full state of a scene over time, streamed to disk, read, replayed and sensed again."""

from sensorium.recording.check import Report, check
from sensorium.recording.recorder import Recorder
from sensorium.recording.recording import Recording
from sensorium.recording.replay import replay
from sensorium.recording.replay_options import ReplayOptions
from sensorium.recording.retrace import Retracer
from sensorium.recording.rows import IMAGE_TAGS
from sensorium.recording.sensor_files import load_sensors

__all__ = [
    "IMAGE_TAGS",
    "Recorder",
    "Recording",
    "ReplayOptions",
    "Report",
    "Retracer",
    "check",
    "load_sensors",
    "replay",
]
