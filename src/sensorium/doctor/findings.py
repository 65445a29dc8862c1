"""``Finding`` and ``Diagnosis``: what the checks say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

Verdict = Literal["ok", "fail", "skip"]


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    check: str
    """Name of the check, e.g. "gyro.sign"."""
    verdict: Verdict
    """"ok"; "fail": the log is not as the policy or physics expects; "skip": the log does not show it."""
    subject: str
    """What was checked: a topic, or a topic and a field."""
    evidence: str
    """The figures, or why the check was skipped."""
    fix: str = ""
    """What to change, for failed checks."""

    def __str__(self) -> str:
        mark = {"ok": "ok  ", "fail": "FAIL", "skip": "skip"}[self.verdict]
        text = f"{mark}  {self.check:20}  {self.subject:40}  {self.evidence}"
        return f"{text}\n{'':28}fix: {self.fix}" if self.fix else text


class Diagnosis:
    """The findings of an examination.

    Example:
        >>> report = sn.doctor.examine("real.mcap", policy="policy.onnx")
        >>> print(report)
        >>> report.failed          # names of the checks that failed
    """

    def __init__(self, findings: list[Finding]) -> None:
        self.findings = findings

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    @property
    def failed(self) -> list[str]:
        """Names of the checks that failed, each once."""
        return list(dict.fromkeys(each.check for each in self.findings if each.verdict == "fail"))

    @property
    def is_healthy(self) -> bool:
        """Whether no check failed."""
        return not self.failed

    @property
    def is_empty(self) -> bool:
        """Whether nothing could be checked."""
        return all(each.verdict == "skip" for each in self.findings)

    def to_json(self) -> str:
        """Return the findings as JSON."""
        return json.dumps([asdict(each) for each in self.findings], indent=1) + "\n"

    def __str__(self) -> str:
        order = {"fail": 0, "ok": 1, "skip": 2}
        lines = [str(each) for each in sorted(self.findings, key=lambda each: order[each.verdict])]
        count = len([each for each in self.findings if each.verdict == "fail"])
        checked = len([each for each in self.findings if each.verdict != "skip"])
        if self.is_empty:
            return "\n".join(
                [*lines, "nothing could be checked: the log has none of the signals that the doctor knows"]
            )
        return "\n".join([*lines, f"{count} of {checked} checks failed" if count else f"all {checked} checks passed"])


class Examination:
    """Collects findings. A subject that has failed a check is not blamed again by checks that would follow from it.

    Args:
        namespace: what the topics of the log begin with, besides their names: "" or "/env_0".

    Attributes:
        findings: so far.
    """

    def __init__(self, namespace: str = "") -> None:
        self.findings: list[Finding] = []
        self._namespace = namespace
        self._blamed: dict[str, str] = {}

    def ok(self, check: str, subject: str, evidence: str) -> None:
        """Add a check that passed."""
        self.findings.append(Finding(check, "ok", self._namespace + subject, evidence))

    def skip(self, check: str, subject: str, evidence: str) -> None:
        """Add a check that the log does not allow."""
        self.findings.append(Finding(check, "skip", self._namespace + subject, evidence))

    def fail(self, check: str, subject: str, evidence: str, fix: str) -> None:
        """Add a check that failed, and blame its subject."""
        self.findings.append(Finding(check, "fail", self._namespace + subject, evidence, fix))
        self._blamed.setdefault(subject, check)

    def blame(self, subject: str, check: str) -> None:
        """Blame another subject for a failed check: later checks of it are skipped."""
        self._blamed.setdefault(subject, check)

    def has_failed(self, subject: str) -> bool:
        """Return whether a subject has failed a check."""
        return subject in self._blamed

    def failed_by(self, subject: str) -> str:
        """Return the check that a subject has failed; "" if it has failed none."""
        return self._blamed.get(subject, "")

    def is_blamed(self, check: str, subject: str) -> bool:
        """Return whether a subject has failed an earlier check, and if so, add that this one is skipped."""
        if subject not in self._blamed:
            return False
        self.skip(check, subject, f"not judged, because {self._blamed[subject]} failed")
        return True
