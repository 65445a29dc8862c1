"""The cameras of a robot's rig in a task: whether they are present, and how they are observed."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sensorium.cameras.options import Camera
from sensorium.errors import OptionError
from sensorium.robots import Robot, SensorRig
from sensorium.robots.rig import RIGS, sensor_type
from sensorium.sensors import Sensor
from sensorium.suites import ObservationSensor, camera_images, camera_parameters

if TYPE_CHECKING:
    from sensorium.cameras.camera import CameraSensor
    from sensorium.tasks.task import Task

RobotT = TypeVar("RobotT", bound=Robot)


def choose_cameras(robot: RobotT, wanted: bool | None) -> RobotT:
    """Return the robot, or a copy of it without the cameras of its rig.

    Args:
        robot: the robot.
        wanted: whether it has its cameras. None: only if its rig is not that of the catalogue.
    """
    rig = robot.options.rig
    others = tuple(each for each in rig.sensors if not issubclass(sensor_type(each.type), Camera))
    if wanted is None:
        file = RIGS / f"{robot.options.kind}.yaml"
        wanted = not (file.is_file() and SensorRig.load(file) == rig)
    if wanted or len(others) == len(rig.sensors):
        return robot
    return type(robot)(robot.options.model_copy(update={"rig": SensorRig(sensors=others)}))


def find_cameras(robot: Robot) -> dict[str, CameraSensor]:
    """Return the cameras of the rig of a robot in a scene, by their names in the rig."""
    sensors = {name: robot.rig[name] for name in robot.rig.names}
    return {name: sensor for name, sensor in sensors.items() if isinstance(sensor.options, Camera)}


def add_to_task(task: Task[Any]) -> None:
    """Add the cameras of the robot's rig to ``task.cameras`` by uuid, with segmentation if the task has roles.

    ``object_image_points`` needs the segmentation. A camera whose renderer does not provide it has no image points.
    """
    for camera in find_cameras(task.robot).values():
        task.cameras[camera.uuid] = camera
        if task.roles:
            try:
                camera.enable_segmentation_rendering()
            except OptionError:
                continue


def as_observations(sensors: Iterable[ObservationSensor | Sensor[Any]]) -> list[ObservationSensor | Sensor[Any]]:
    """Return sensors in which every camera is replaced by one sensor for each of its images, and one of its parameters.

    They have the names of a task's cameras: UUID, UUID_depth, ... and sensor_param_UUID.
    """
    result: list[ObservationSensor | Sensor[Any]] = []
    for sensor in sensors:
        options = sensor.options if isinstance(sensor, Sensor) else None
        if isinstance(options, Camera):
            camera = cast("CameraSensor", sensor)
            result += camera_images(camera.uuid, camera, options.outputs)
            result.append(camera_parameters(camera.uuid, camera))
        else:
            result.append(sensor)
    return result


def describe(task: Task[Any]) -> dict[str, dict[str, Any]]:
    """Return the options of the cameras of the robot's rig, by the names of their images in the suite."""
    suite: Container[str] = task.suite or ()
    cameras = find_cameras(task.robot).items()
    return {
        camera.uuid if camera.uuid in suite else name: camera.options.model_dump(mode="json")
        for name, camera in cameras
    }
