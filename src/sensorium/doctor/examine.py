"""``examine``: all checks on a log."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sensorium._arguments import checked
from sensorium.deploy.contract import Contract
from sensorium.doctor.findings import Diagnosis, Examination
from sensorium.doctor.joint_checks import check_joints
from sensorium.doctor.motion_checks import check_motion, expected_means
from sensorium.doctor.signals import find_signals
from sensorium.doctor.tables import read_any
from sensorium.doctor.timing_checks import check_timing
from sensorium.doctor.value_checks import check_topics, check_training, check_values, without_varying_joints
from sensorium.logs import Log


@checked
def examine(
    log: Log | str | os.PathLike[str],
    policy: Contract | str | os.PathLike[str] | None = None,
    *,
    partial: bool = False,
    units: Mapping[str, str] | None = None,
) -> Diagnosis:
    """Check a log against physics and, with a policy, against what the policy was trained with.

    Causes are checked before what follows from them: a signal that failed a check is not blamed again. A log of several
    envs is examined env by env.

    Args:
        log: a log, or the path of one: MCAP, HDF5, NPZ or CSV.
        policy: an ONNX file with a contract, a contract, or None.
        partial: whether a truncated file is examined as far as it goes.
        units: units of fields in HDF5, NPZ and CSV, if they are not SI: ``{"mag": "uT"}``.

    Raises:
        OptionError: there is no such file, or it cannot be used.
        DatasetError: the file cannot be read.

    Example:
        >>> print(sn.doctor.examine("real.mcap", policy="policy.onnx"))
    """
    if not isinstance(log, Log):
        log = read_any(Path(log), partial, units)
    contract = _contract(policy)
    findings = []
    for namespace in log.namespaces or [""]:
        exam = Examination(namespace)
        _examine_robot(exam, log.in_namespace(namespace) if namespace else log, contract)
        findings += exam.findings
    return Diagnosis(findings)


def _examine_robot(exam: Examination, log: Log, contract: Contract | None) -> None:
    """Run all checks on the log of one robot."""
    if contract is not None:
        check_topics(exam, log, contract)
    check_timing(exam, log, contract)
    log = without_varying_joints(exam, log)
    check_values(exam, log)
    signals = find_signals(log, contract)
    check_motion(exam, signals, expected_means(contract))
    check_joints(exam, signals, contract)
    if contract is not None:
        check_training(exam, log, contract)


def _contract(policy: Contract | str | os.PathLike[str] | None) -> Contract | None:
    if policy is None or isinstance(policy, Contract):
        return policy
    from sensorium.deploy import read_contract

    return read_contract(Path(policy))
