"""The doctor: checks a robot's log against physics, and against the contract of a policy.

================== ===================================================
:func:`examine`    runs all checks on a log
:func:`compare`    compares simulated sensors with those of a log, over the same motion
:class:`Report`    the findings, one line per check
:class:`Finding`   verdict, evidence and fix of one check
================== ===================================================
"""

from sensorium.doctor.compare import Comparison, compare
from sensorium.doctor.examine import examine
from sensorium.doctor.findings import Finding, Report

__all__ = ["Comparison", "Finding", "Report", "compare", "examine"]
