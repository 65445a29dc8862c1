"""Run trained policies on a robot: NumPy and onnxruntime only, neither torch nor MuJoCo nor Numba.

========================= =====================================================================================
:class:`Policy`           takes messages, builds the observation of training, and returns commands at its rate
:func:`run_log`           runs a policy over the messages of a log
:class:`Contract`         what a policy file expects of its observations and what its actions mean
:func:`read_contract`     the contract of a policy file, with its hash checked
========================= =====================================================================================

Example:
    >>> from sensorium.deploy import Policy
    >>> policy = Policy.load("policy.onnx")
    >>> policy.feed("/robot_imu", message, arrival=now)
    >>> command = policy.act(now)
"""

from sensorium.deploy.contract import ActionTerm, Contract, Latency, ObservationTerm, Seen
from sensorium.deploy.log_run import LogRun, run_log
from sensorium.deploy.onnx_file import read_contract
from sensorium.deploy.policy import Policy

__all__ = [
    "ActionTerm",
    "Contract",
    "Latency",
    "LogRun",
    "ObservationTerm",
    "Policy",
    "Seen",
    "read_contract",
    "run_log",
]
