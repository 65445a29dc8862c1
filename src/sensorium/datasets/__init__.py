"""Data sets: recording a scene, reading it again, and sensing it once more."""

from __future__ import annotations

from pathlib import Path

from sensorium.datasets.check import Report, check
from sensorium.datasets.episode import Episode
from sensorium.datasets.recorder import Recorder
from sensorium.datasets.replay import replay
from sensorium.datasets.replay_options import ReplayOptions
from sensorium.datasets.retrace import Retracer
from sensorium.datasets.rows import IMAGE_TAGS
from sensorium.datasets.sensor_files import load_sensors

__all__ = [
    "IMAGE_TAGS",
    "Episode",
    "Recorder",
    "ReplayOptions",
    "Report",
    "Retracer",
    "check",
    "load_sensors",
    "open",
    "replay",
]


def open(folder: str | Path) -> Episode:
    """Open a recording for reading.

    Raises:
        DatasetError: the folder is no recording, or is damaged; says what to do.
    """
    return Episode(folder)
