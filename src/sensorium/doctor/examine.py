"""``examine``: all checks on a log."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
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
from sensorium.errors import OptionError, did_you_mean, shorten
from sensorium.logs import Log
from sensorium.ros.topics import topic as topic_of


@checked
def examine(
    log: Log | str | os.PathLike[str],
    policy: Contract | str | os.PathLike[str] | None = None,
    *,
    partial: bool = False,
    units: Mapping[str, str] | None = None,
    topics: Mapping[str, str] | None = None,
) -> Diagnosis:
    """Check a log against physics and, with a policy, against what the policy was trained with.

    Causes are checked before what follows from them: a signal that failed a check is not blamed again. A log of several
    envs is examined env by env.

    Args:
        log: a log, or the path of one: MCAP, HDF5, NPZ or CSV.
        policy: an ONNX file with a contract, a contract, or None.
        partial: whether a truncated file is examined as far as it goes.
        units: units of fields in HDF5, NPZ and CSV, if they are not SI: ``{"mag": "uT"}``.
        topics: topic or sensor (uuid) of the policy -> topic of the log, where they differ.

    Raises:
        OptionError: there is no such file, or it cannot be used; ``topics`` names something that does not exist.
        DatasetError: the file cannot be read.

    Example:
        >>> print(sn.doctor.examine("real.mcap", policy="policy.onnx"))
    """
    if not isinstance(log, Log):
        log = read_any(Path(log), partial, units)
    contract = map_topics(_contract(policy), topics or {}, log)
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
    wrong = [name for name in log if exam.failed_by(name) == "clock"]
    for name in wrong:
        exam.skip("motion", name, "not judged, because clock failed")
    signals = find_signals(log.without(*wrong), contract)
    check_motion(exam, signals, expected_means(contract))
    check_joints(exam, signals, contract)
    if contract is not None:
        check_training(exam, log, contract)


def map_topics(contract: Contract | None, topics: Mapping[str, str], log: Log) -> Contract | None:
    """Return a contract with the topics of a log.

    Args:
        contract: the contract.
        topics: topic or sensor (uuid) of the contract -> topic of the log. A topic below that of a sensor, e.g. its
            magnetometer, follows if the log has it.
        log: the log.

    Raises:
        OptionError: there is no contract, or the contract or the log lacks such a name.
    """
    if not topics:
        return contract
    if contract is None:
        raise OptionError("topics need a policy, whose topics they replace")
    names = [topic.removeprefix(name) for name in log.namespaces for topic in log] if log.namespaces else list(log)
    known = {term.topic for term in contract.observations if term.topic}
    changed: dict[str, str] = {}
    for old, new in topics.items():
        if new not in names:
            hint = did_you_mean(new, names) or f"; it has {shorten(names)}"
            raise OptionError(f"topics: the log has no topic {new!r} for {old!r}{hint}")
        start = old if old in known else topic_of(old)
        own = [each for each in known if each == start or (old not in known and each.startswith(f"{start}/"))]
        if not own:
            uuids = {term.uuid for term in contract.observations if term.topic and term.uuid}
            hint = did_you_mean(old, [*known, *uuids]) or f"; it has {shorten(sorted(known))}"
            raise OptionError(f"topics: the policy has no topic or sensor {old!r}{hint}")
        changed |= {each: new + each.removeprefix(start) for each in own if new + each.removeprefix(start) in names}
    terms = tuple(replace(term, topic=changed.get(term.topic or "", term.topic)) for term in contract.observations)
    return replace(contract, observations=terms)


def _contract(policy: Contract | str | os.PathLike[str] | None) -> Contract | None:
    if policy is None or isinstance(policy, Contract):
        return policy
    from sensorium.deploy import read_contract

    return read_contract(Path(policy))
