"""Comparison of the time stamps and the lost samples of a log with those of its twin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sensorium.fit.comparison import TOLERANCE, Verdict
from sensorium.fit.estimate import Estimate, Twin
from sensorium.fit.logs import SensorLog
from sensorium.fit.signal_replay import replay_stamps
from sensorium.fit.timing import timing

SAMPLES = 4000
"""Max number of simulated samples."""
RATE_TOLERANCE = 1e-3
"""Relative difference of rates that counts as equal."""
_REGULAR = 1e-3
"""Irregularity of time stamps that counts as none, in sample intervals."""


def timing_verdicts(
    twin: Twin, log: SensorLog, readings: Sequence[tuple[np.ndarray, np.ndarray]], seed: int = 0
) -> list[Verdict]:
    """Return whether rate, jitter and lost samples of log and twin agree.

    The twin is simulated at its own rate, latency and jitter; its arrival times are compared with the log's stamps.

    Args:
        twin: the fitted sensor.
        log: the log that it is compared with.
        readings: compared readings of the log and of the twin without drop-outs, (n, k) and (m, k), of each channel.
        seed: seed of the simulated jitter.
    """
    rate = twin.estimates.get("rate")
    if rate is None or not rate.identifiable or len(log) < 3:
        return []
    of_log = {one.name: one for one in timing(log.time)}
    of_twin = {one.name: one for one in timing(replay_stamps(twin, min(SAMPLES, len(log)), seed))}
    verdicts = [_rate(of_twin["rate"], of_log["rate"]), _jitter(of_twin, of_log, 1 / log.rate)]
    lost = _lost_returns(twin, log) if "ray_dropout" in twin.estimates else _repeats(twin, readings)
    return [*verdicts, lost] if lost is not None else verdicts


def _rate(twin: Estimate, log: Estimate) -> Verdict:
    gap = abs(float(twin.value) - float(log.value))
    same = gap <= max(RATE_TOLERANCE * float(log.value), 3 * float(np.hypot(log.std, twin.std)))
    text = f"the twin samples at {twin.value:.5g} Hz, the log at {log.value:.5g} Hz"
    return Verdict("sensor", "rate", same, text)


def _jitter(twin: dict[str, Estimate], log: dict[str, Estimate], interval: float) -> Verdict:
    """Compare the irregularity of the stamps; below a thousandth of the interval it counts as none."""
    both = {"twin": twin, "log": log}
    size = {name: float(one["stamp_jitter"].value) if "stamp_jitter" in one else 0.0 for name, one in both.items()}
    error = max(float(one["stamp_jitter"].std) if "stamp_jitter" in one else 0.0 for one in (twin, log))
    floor = _REGULAR * interval
    same = abs(size["twin"] - size["log"]) <= max(TOLERANCE * size["log"], 3 * error, floor)
    text = "; ".join(
        f"the {name}'s stamps are " + (f"irregular by {1e3 * one:.2g} ms RMS" if one > floor else "regular")
        for name, one in size.items()
    )
    return Verdict("sensor", "jitter", same, text)


def _repeats(twin: Twin, readings: Sequence[tuple[np.ndarray, np.ndarray]]) -> Verdict | None:
    """Compare the share of readings that repeat the one before: drop-outs, and chance where readings are quantised."""
    sizes = [(len(log), len(simulated)) for log, simulated in readings]
    if not sizes or sizes.count(sizes[0]) < len(sizes):
        return None
    known = twin.estimates.get("dropout")
    lost = float(known.value) if known is not None and known.identifiable else 0.0
    error = float(known.std) if known is not None and known.identifiable else 0.0
    log, chance = (
        float((np.diff(np.concatenate(side, axis=1), axis=0) == 0).all(axis=1).mean())
        for side in zip(*readings, strict=True)
    )
    of_twin = chance + (1 - chance) * lost
    noise = np.sqrt(max(log, of_twin, 1 / sizes[0][0]) / sizes[0][0])
    same = abs(log - of_twin) <= max(TOLERANCE * max(log, of_twin), 3 * float(np.hypot(error, noise)))
    text = f"{100 * of_twin:.2g} % of the twin's readings repeat the one before, and {100 * log:.2g} % of the log's"
    return Verdict("sensor", "drop-outs", same, text)


def _lost_returns(twin: Twin, log: SensorLog) -> Verdict:
    """Compare the share of rays without a return."""
    known, values = twin.estimates["ray_dropout"], log.channels["distance"]
    share = float(np.mean(~(np.isfinite(values) & (values > 0))))
    of_twin = float(known.value) if known.identifiable else 0.0
    noise = np.sqrt(max(share, of_twin, 1 / values.size) / values.size)
    same = abs(share - of_twin) <= max(TOLERANCE * share, 3 * float(np.hypot(noise, known.std)))
    text = f"{100 * of_twin:.2g} % of the twin's rays have no return, and {100 * share:.2g} % of the log's"
    return Verdict("sensor", "drop-outs", same, text)
