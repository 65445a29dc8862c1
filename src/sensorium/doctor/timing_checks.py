"""Checks of time: clocks, rates, jitter, drop-outs, latency."""

from __future__ import annotations

import numpy as np

from sensorium.deploy.contract import Contract, ObservationTerm
from sensorium.doctor.findings import Examination
from sensorium.doctor.signals import is_measured
from sensorium.logs import Log, TopicLog

_MANY_LOST = 0.1
"""Share of lost samples that is too much for any use, if there is no policy to compare with."""


def check_timing(exam: Examination, log: Log, contract: Contract | None) -> None:
    """Check the clocks and rates of all topics with a header, or those of the contract."""
    terms = {} if contract is None else {term.topic: term for term in contract.observations if term.topic}
    measured = [topic for name, topic in log.items() if is_measured(name) and len(topic) >= 10]
    for topic in measured:
        name, others = topic.name, [each for each in measured if each is not topic]
        if terms and name not in terms:
            continue
        if _check_both_clocks(exam, topic, others) and _check_clock(exam, topic):
            _check_rate(exam, topic, terms.get(name))
            _check_latency(exam, topic, terms.get(name))


def _check_both_clocks(exam: Examination, topic: TopicLog, others: list[TopicLog]) -> bool:
    """Check that stamps and log times do not jump together, in the order of the file.

    A gap is an outage of one sensor if the others go on during it, and the clocks are not ahead of theirs afterwards.
    """
    steps = np.diff(topic.arrival)
    period = float(np.median(steps[steps > 0])) if (steps > 0).any() else 0.0
    limit = max(0.5, 20 * period)
    fix = "do not set the clock while logging (NTP in slew mode, PTP), or log a steady clock"
    back = np.flatnonzero((steps < -limit) & (np.diff(topic.capture) < -limit))
    if len(back):
        i = int(back[0]) + 1
        exam.fail("clock", topic.name, f"both times go back by {-steps[i - 1]:.3g} s at message {i}", fix)
        return False
    for i in np.flatnonzero((steps > limit) & (np.diff(topic.capture) > limit)).tolist():
        start, stop, gap = topic.arrival[i], topic.arrival[i + 1], float(steps[i])
        going = [each for each in others if _fills(each, start, stop)]
        last = max((float(each.arrival.max()) for each in going), default=-np.inf)
        if not going or float(topic.arrival.max()) - last > 0.8 * gap:
            text = f"both times jump by {gap:.3g} s at message {i + 1}, and no sample is missing in between"
            if not going:
                text = f"both times jump by {gap:.3g} s at message {i + 1}, without any message of the log in between"
            exam.fail("clock", topic.name, text, fix + "; if the log was paused, cut it there")
            return False
    return True


def _fills(topic: TopicLog, start: float, stop: float) -> bool:
    """Return whether a topic has messages between two times, as many as its rate says."""
    inside = int(((topic.arrival > start) & (topic.arrival < stop)).sum())
    return inside > 0.3 * (stop - start) * topic.rate > 0


def _check_clock(exam: Examination, topic: TopicLog) -> bool:
    order = np.argsort(topic.arrival, kind="stable")
    capture = topic.capture[order]
    steps, late = np.diff(capture), topic.arrival[order] - capture
    period = float(np.median(steps[steps > 0])) if (steps > 0).any() else 0.0
    if period == 0:
        exam.fail("clock", topic.name, "all messages have the same stamp", "stamp each message at its capture")
        return False
    drift = np.abs(np.diff(late))
    limit = max(0.5, 20 * period)
    back = np.flatnonzero(
        steps < -max(5 * period, 3 * float(np.median(late) + np.ptp(np.quantile(late, [0.05, 0.95]))))
    )
    if len(back):
        i = int(back[0]) + 1
        text = f"the stamp goes back by {-steps[i - 1]:.3g} s at message {i}"
        exam.fail("clock", topic.name, text, "use a steady clock for stamps, e.g. disable steps of NTP")
        return False
    if (drift > limit).any():
        i = int((drift > limit).argmax()) + 1
        text = f"capture and arrival part by {late[i] - late[i - 1]:.3g} s at message {i}"
        exam.fail("clock", topic.name, text, "use one clock for stamps and log, and do not set it while logging")
        return False
    if float(np.median(late)) < -max(period, 1e-3):
        text = f"messages arrive {-np.median(late):.3g} s before their capture"
        exam.fail("clock", topic.name, text, "synchronise the clocks of sensor and logger (PTP, chrony)")
        return False
    exam.ok("clock", topic.name, "stamps increase, and stay with the time of arrival")
    return True


def _check_rate(exam: Examination, topic: TopicLog, term: ObservationTerm | None) -> None:
    capture = np.sort(topic.capture)
    steps = np.diff(capture)
    steps = steps[steps > 0]
    period = float(np.median(steps))
    rate = 1.0 / period
    if term is not None and abs(rate / term.rate - 1) > 0.1:
        text = f"{rate:.4g} Hz, the policy was trained with {term.rate:.4g} Hz"
        exam.fail("rate", topic.name, text, f"set the driver to {term.rate:.4g} Hz, or train with rate={rate:.4g}")
        return
    exam.ok("rate", topic.name, f"{rate:.4g} Hz")
    due = (capture[-1] - capture[0]) / period  # jitter moves stamps, but loses none
    share = max(0.0, 1.0 - len(steps) / max(due, 1.0))
    assumed = _MANY_LOST if term is None else _number(term, "dropout") + 0.02
    text = f"{share:.1%} of the samples are missing"
    if share > assumed:
        text += "" if term is None else f", {_number(term, 'dropout'):.1%} in training"
        exam.fail("dropouts", topic.name, text, "look for lost packets (QoS, bandwidth), or train with that dropout")
    else:
        exam.ok("dropouts", topic.name, text)
    near = steps[steps < 1.5 * period]
    jitter = float(np.std(near) / period)
    if jitter > 0.15:
        text = f"intervals vary by {jitter:.0%} of {period * 1e3:.3g} ms"
        exam.fail("jitter", topic.name, text, "stamp messages at capture, not when they are published")
    else:
        exam.ok("jitter", topic.name, f"intervals vary by {jitter:.1%}")


def _check_latency(exam: Examination, topic: TopicLog, term: ObservationTerm | None) -> None:
    late = topic.latency
    typical, worst = float(np.median(late)), float(np.quantile(late, 0.99))
    text = f"median {_milliseconds(typical)} ms, 99 % below {_milliseconds(worst)} ms"
    if term is None:
        exam.ok("latency", topic.name, text)
        return
    assumed = max(term.latency.delay + term.latency.jitter, term.latency.max)
    limit = assumed + max(0.5 / term.rate, 2e-3)
    if typical > limit:
        fix = f"reduce it, or train with delay={typical:.3g}"
        exam.fail("latency", topic.name, f"{text}; at most {assumed * 1e3:.3g} ms in training", fix)
    else:
        exam.ok("latency", topic.name, f"{text}; up to {assumed * 1e3:.3g} ms in training")


def _milliseconds(time: float) -> str:
    """Return a time in ms, to the microsecond: stamps are rounded numbers."""
    return f"{round(1e3 * time, 3) + 0.0:.3g}"


def _number(term: ObservationTerm | None, name: str) -> float:
    """Return an assumed imperfection of a term, or the upper bound of its range; 0 if there is none."""
    value = 0.0 if term is None else term.imperfections.get(name, 0.0)
    return float(np.max(value)) if isinstance(value, (int, float, list, tuple)) and np.size(value) else 0.0
