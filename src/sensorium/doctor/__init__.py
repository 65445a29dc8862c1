"""The doctor: checks a robot's log against physics, and against the contract of a policy.

================== ===================================================
:func:`examine`    runs all checks on a log
:func:`compare`    compares simulated sensors with those of a log, over the same motion
:class:`Diagnosis`    the findings, one line per check
:class:`Finding`   verdict, evidence and fix of one check
================== ===================================================
"""

from sensorium.doctor.compare import LogComparison, compare
from sensorium.doctor.examine import examine
from sensorium.doctor.findings import Diagnosis, Finding

__all__ = ["Diagnosis", "Finding", "LogComparison", "compare", "examine"]
