"""Data sets: recording a scene, reading it again, and sensing it once more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sensorium.datasets.check import Report, check
from sensorium.datasets.dataset import ABOUT, Dataset, Trajectory
from sensorium.datasets.episode import Episode
from sensorium.datasets.export import export
from sensorium.datasets.recorder import Recorder
from sensorium.datasets.replay import replay
from sensorium.datasets.replay_options import ReplayOptions
from sensorium.datasets.retrace import Retracer
from sensorium.datasets.rows import IMAGE_TAGS
from sensorium.datasets.sensor_files import load_sensors
from sensorium.datasets.trajectory import TrajectoryWriter
from sensorium.datasets.validate import Validation, validate

__all__ = [
    "IMAGE_TAGS",
    "Dataset",
    "Episode",
    "Recorder",
    "ReplayOptions",
    "Report",
    "Retracer",
    "Trajectory",
    "TrajectoryWriter",
    "Validation",
    "check",
    "export",
    "load_sensors",
    "open",
    "replay",
    "validate",
]


def open(folder: str | Path) -> Any:
    """Open a recording (:class:`Episode`), or a data set of a task's episodes (:class:`Dataset`), for reading.

    Raises:
        DatasetError: the folder is neither, or is damaged; says what to do.
    """
    return Dataset(folder) if (Path(folder) / ABOUT).is_file() else Episode(folder)
