"""Logs of robots: MCAP files of ROS 2 messages, as arrays with times of capture and arrival.

====================== ========================================================
:func:`read`           reads a file
:class:`Log`           its topics
:class:`TopicLog`      the messages of one topic as arrays
:func:`resample`       values at the times of a policy or a suite
====================== ========================================================
"""

from sensorium.logs.log import Log, TopicLog
from sensorium.logs.mcap_log import read
from sensorium.logs.resampling import resample

__all__ = ["Log", "TopicLog", "read", "resample"]
