"""A robot's model file in the folder of a training: ``DIR/robot/`` has a copy with all files that it names."""

from __future__ import annotations

import os
import shutil
import warnings
from filecmp import cmp
from pathlib import Path
from typing import Protocol, Self, TypeVar

from sensorium import robots
from sensorium.errors import ModelError
from sensorium.files import explain_errors
from sensorium.robots import SensorRig
from sensorium.worlds.contents import dependencies
from sensorium.worlds.urdf import find

FOLDER = "robot"


class RobotOwner(Protocol):
    """The options of a training."""

    @property
    def robot(self) -> object:
        """Name of the robot, or a model file; None for the default of the task."""

    def with_robot(self, robot: str) -> Self:
        """Return a copy with another robot."""

    def save(self, folder: str | Path) -> None:
        """Write the options to the folder of a training."""


OwnerT = TypeVar("OwnerT", bound=RobotOwner)


def save_with_robot(options: RobotOwner, folder: Path) -> None:
    """Write the options to the folder of a training, and a copy of the robot's model file with the files that it names.

    Files of a model in unrelated folders, or in packages of ROS, are not copied: the options then name the model by
    its absolute path, and a warning is issued.
    """
    file = _model_file(options.robot)
    if file is None or Path(file).resolve().is_relative_to((folder / FOLDER).resolve()):
        options.save(folder)
        return
    options = options.with_robot(os.path.abspath(file))
    options.save(folder)  # a training that is killed while the files are copied can be resumed
    try:
        copies = _copies(file, folder)
    except ModelError as error:
        warnings.warn(
            f"the training needs the model file {file} where it is, since it is not copied: {error}", stacklevel=2
        )
        return
    for path, target in copies.items():
        with explain_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    options.with_robot(str(next(iter(copies.values())))).save(folder)


def with_stored_robot(options: OwnerT, folder: Path) -> OwnerT:
    """Return the options with the model file in the folder of the training, if it and the robot's file are the same."""
    file = _model_file(options.robot)
    if file is None:
        return options
    try:
        copies = _copies(file, folder)
    except ModelError:
        return options.with_robot(os.path.abspath(file))
    if all(target.is_file() and cmp(path, target, shallow=False) for path, target in copies.items()):
        return options.with_robot(str(next(iter(copies.values()))))
    return options.with_robot(os.path.abspath(file))


def stored_name(robot: object, folder: Path) -> object:
    """Return the path of a model file relative to the folder of a training if it is in there; others as they are."""
    if isinstance(robot, str | Path) and Path(robot).is_relative_to(folder / FOLDER):
        return Path(robot).relative_to(folder).as_posix()
    return robot


def loaded_name(robot: object, folder: Path) -> object:
    """Return the path of a model file of which :func:`stored_name` returned the name; others as they are."""
    if isinstance(robot, str) and robot.startswith(f"{FOLDER}/") and (folder / robot).is_file():
        return str(folder / robot)
    return robot


def whole_rig(rig: object) -> object:
    """Return the content of a rig that is a YAML file; others as they are."""
    if isinstance(rig, str | Path) and Path(rig).suffix in (".yaml", ".yml"):
        return SensorRig.load(rig).model_dump(mode="json")
    return rig


def _model_file(robot: object) -> str | None:
    """Return the robot if it is a model file, and None if it is a name, a model text or absent."""
    if not isinstance(robot, str | Path):
        return None
    text = str(robot)
    is_name = text in robots.names() or find(text) is not None or text.lstrip().startswith("<")
    return text if not is_name and os.path.isfile(text) else None


def _copies(file: str, folder: Path) -> dict[Path, Path]:
    """Return the files that a model file needs, itself first -> their copies in the folder of a training.

    Raises:
        ModelError: a file does not exist, or they are in unrelated folders.
    """
    root, paths = dependencies(file)
    if len(root.parts) < 2:
        raise ModelError(f"{file} names files in unrelated folders; keep them below one folder, with relative paths")
    return {path: folder / FOLDER / path.relative_to(root) for path in paths}
