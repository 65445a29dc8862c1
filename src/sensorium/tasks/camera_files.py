"""Files of task cameras."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sensorium._arguments import checked
from sensorium.errors import OptionError
from sensorium.tasks.catalogue import CAMERA_VIEWS
from sensorium.tasks.task_camera import TaskCamera


@checked
def load_cameras(path: str | Path) -> list[dict[str, Any]]:
    """Return the options of the task cameras in a YAML or JSON file: a list, or a mapping with it under ``cameras``.

    Each entry is a mapping of options of :class:`~sensorium.tasks.TaskCamera`. A camera with the name of one of
    :data:`~sensorium.tasks.CAMERA_VIEWS` has the pose of that view, unless the entry sets another::

        - {name: front, resolution: [96, 64], depth: true, profile: rgbd, rate: 30}
        - {name: top, pos: [0.5, 0, 2], lookat: [0.5, 0.01, 0], profile: {k1: -0.2, full_well: 9000, read_noise: 4}}

    Raises:
        OptionError: the file does not exist, cannot be parsed, or an entry is invalid.

    Example:
        >>> task = sn.tasks.make("pick", cameras=sn.tasks.load_cameras("cameras.yaml"))
    """
    path = Path(path)
    if not path.is_file():
        raise OptionError(f"the camera file {str(path)!r} does not exist")
    from sensorium import yaml_files  # imports PyYAML

    try:
        entries = yaml_files.read(path)
    except ValueError as error:
        raise OptionError(f"cannot read {path}: {error}") from error
    if isinstance(entries, dict):
        entries = entries.get("cameras")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise OptionError(f"{path}: expected a list of cameras, each a mapping of its options")
    cameras = []
    for number, entry in enumerate(entries):
        view = CAMERA_VIEWS.get(str(entry.get("name")), {})
        camera = {**({} if {"pos", "link"} & entry.keys() else view), **entry}
        try:
            TaskCamera(**camera)
        except (OptionError, TypeError) as error:
            raise OptionError(f"{path}: entry {number}: {error}") from error
        cameras.append(camera)
    return cameras
