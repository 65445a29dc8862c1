"""The observations of a policy: ``SensorSuite`` and the observation sensors of robots, tasks and policies."""

from sensorium.suites.actions import ActionRecord
from sensorium.suites.images import camera_images, camera_parameters, object_image_points
from sensorium.suites.merged import MergedSensor, merge
from sensorium.suites.observation import (
    Arrays,
    ArraySensor,
    DictSensor,
    ObservationSensor,
    PipelineSensor,
    Reading,
    box_space,
)
from sensorium.suites.protocols import MoveGroupLike, RobotLike
from sensorium.suites.state import BodyStates, env_states, robot_state, tcp_poses
from sensorium.suites.suite import BatchedDict, SensorSuite, flatten_reading, pick_env
from sensorium.suites.text import JsonSpace, decode, encode

__all__ = [
    "ActionRecord",
    "ArraySensor",
    "Arrays",
    "BatchedDict",
    "BodyStates",
    "DictSensor",
    "JsonSpace",
    "MergedSensor",
    "MoveGroupLike",
    "ObservationSensor",
    "PipelineSensor",
    "Reading",
    "RobotLike",
    "SensorSuite",
    "box_space",
    "camera_images",
    "camera_parameters",
    "decode",
    "encode",
    "env_states",
    "flatten_reading",
    "merge",
    "object_image_points",
    "pick_env",
    "robot_state",
    "tcp_poses",
]
