"""What a policy sees, composed from what robot, task and policy contribute: ``SensorSuite`` and its sensors."""

from sensorium.suites.actions import ActionRecord
from sensorium.suites.images import camera_images, camera_parameters, object_image_points
from sensorium.suites.merged import MergedSensor, merge
from sensorium.suites.observation import ArraySensor, DictSensor, ObservationSensor, PipelineSensor, box
from sensorium.suites.state import BodyStates, env_states, robot_state, tcp_poses
from sensorium.suites.suite import SensorSuite, flat, pick_env
from sensorium.suites.text import JsonSpace, decode, encode

__all__ = [
    "ActionRecord",
    "ArraySensor",
    "BodyStates",
    "DictSensor",
    "JsonSpace",
    "MergedSensor",
    "ObservationSensor",
    "PipelineSensor",
    "SensorSuite",
    "box",
    "camera_images",
    "camera_parameters",
    "decode",
    "encode",
    "env_states",
    "flat",
    "merge",
    "object_image_points",
    "pick_env",
    "robot_state",
    "tcp_poses",
]
