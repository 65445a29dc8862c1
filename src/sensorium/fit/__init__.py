"""Sensor twins: fit the sensor models to a real log.

Example:
    >>> twin = sn.fit.imu(log, reference=pose)
    >>> print(twin)
    >>> scene.add_sensor(twin.options(link="torso"))
"""

from sensorium.fit.allan import AllanDeviation, allan_deviation
from sensorium.fit.barometer import barometer
from sensorium.fit.channel import channel
from sensorium.fit.comparison import Verdict
from sensorium.fit.distance import distance
from sensorium.fit.estimate import Estimate, Twin
from sensorium.fit.force_torque import force_torque
from sensorium.fit.gps import gps
from sensorium.fit.imu import imu
from sensorium.fit.joint_encoder import joint_encoder
from sensorium.fit.logs import SensorLog, as_log
from sensorium.fit.problems import Problem
from sensorium.fit.references import PoseReference, SensorReference, SignalReference, as_reference
from sensorium.fit.report import report
from sensorium.fit.rest import rest_segments
from sensorium.fit.validation import TwinValidation, validate

__all__ = [
    "AllanDeviation",
    "Estimate",
    "PoseReference",
    "Problem",
    "SensorLog",
    "SensorReference",
    "SignalReference",
    "Twin",
    "TwinValidation",
    "Verdict",
    "allan_deviation",
    "as_log",
    "as_reference",
    "barometer",
    "channel",
    "distance",
    "force_torque",
    "gps",
    "imu",
    "joint_encoder",
    "report",
    "rest_segments",
    "validate",
]
