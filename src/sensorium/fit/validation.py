"""``validate``: simulate a twin in a scene, at rest and along the reference motion, and compare it with the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from sensorium import units
from sensorium._arguments import checked
from sensorium.errors import OptionError
from sensorium.fit.comparison import (
    MotionComparison,
    RestComparison,
    Verdict,
    compare_motion,
    compare_rest,
    motion_verdicts,
    rest_verdicts,
)
from sensorium.fit.estimate import Twin
from sensorium.fit.field_names import si_unit
from sensorium.fit.imu import imu
from sensorium.fit.logs import LogSource, SensorLog, as_log
from sensorium.fit.references import PoseReference, as_reference
from sensorium.fit.replay import Progress, replay_pose, replay_rest
from sensorium.fit.rest import rest_segments
from sensorium.fit.signal_validation import MAX_SAMPLES, channels_of, compare_channel, part_of, read_log, refit
from sensorium.fit.timing_comparison import timing_verdicts

CHANNELS = ("gyro", "acc", "mag")
REST_RUNS = 16
"""Simulated runs at rest."""
REST_SAMPLES = 6000
"""Max samples of a simulated run at rest."""
MOTION_SECONDS = 20.0
"""Max duration of the motion that is replayed."""


@dataclass(frozen=True)
class TwinValidation:
    """Comparison of a twin with a log that it was not fitted to."""

    fitted_on: str
    """Log that the twin was fitted to."""
    tested_on: str
    """Log that it was compared with."""
    twin: Twin
    """The twin that was compared."""
    log: SensorLog
    """The log that it was compared with."""
    verdicts: list[Verdict]
    """One statement per channel and property."""
    rest: dict[str, RestComparison] = field(default_factory=dict)
    """Channel -> comparison at rest."""
    motion: dict[str, MotionComparison] = field(default_factory=dict)
    """Channel -> comparison in motion."""
    notes: list[str] = field(default_factory=list)
    """What was not compared, and why."""

    def __str__(self) -> str:
        lines = [f"fitted on {self.fitted_on}, tested on {self.tested_on}", *map(str, self.verdicts), *self.notes]
        return "\n".join(lines)


@checked
def validate(
    twin: Twin,
    log: LogSource | None = None,
    reference: object = None,
    *,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
    **reading: object,
) -> TwinValidation:
    """Compare a twin with a log that it was not fitted to, by simulating it in a scene.

    Without ``log``, the first half of the twin's own log is fitted again, and that fit is compared with the second
    half. At rest, or against an exact reference, the Allan deviation, the distribution and the autocorrelation are
    compared; in motion, with a reference, the readings themselves and their lag; and always the sampling rate, the
    irregularity of the time stamps and lost samples.

    Args:
        twin: a fitted sensor.
        log: another log of the same sensor. Default: the second half of the twin's log.
        reference: the reference that belongs to ``log``: poses for IMUs, and what the fit takes for other sensors.
        seed: seed of the simulated noise.
        progress: called with (what is done, steps done, steps in all).
        **reading: ``fields``, ``units``, ``rate`` and ``group`` of :func:`as_log`, for ``log``.

    Raises:
        OptionError: the twin has no log, or a file cannot be read.

    Example:
        >>> print(sn.fit.validate(twin))
        >>> print(sn.fit.validate(twin, "another_run.h5", reference="another_run.h5"))
    """
    say = progress or (lambda text, done, total: None)
    if log is None and twin.log is None:
        raise OptionError("the twin has no log; pass log= a log to compare it with")
    if log is None and twin.log is not None and any(one.blocks == "time" for one in twin.problems):
        note = "nothing is compared, since the time stamps are not in seconds or not in order"
        return TwinValidation(*_names(twin, log, twin.log), twin, twin.log, [], notes=[note])
    if twin.kind != "imu":
        return _validate_signals(twin, log, reference, seed, say, dict(reading))
    if log is None:
        assert twin.log is not None
        half = len(twin.log) // 2
        pose = twin.reference if isinstance(twin.reference, PoseReference) else None
        say("fitting the first half", 0, 1)
        settings = dict(twin.provenance.get("settings", {}))
        settings["progress"] = False
        tested, chosen = twin.log.part(slice(half, None)), imu(twin.log.part(slice(0, half)), pose, **settings)
    else:
        tested, chosen = as_log(log, **reading), twin  # type: ignore[arg-type]
        pose = None if reference is None else _pose(reference)
    found = TwinValidation(*_names(twin, log, tested), chosen, tested, [])
    blocked = {problem.blocks for problem in (*twin.problems, *chosen.problems)}
    channels = [
        name
        for name in CHANNELS
        if name in tested.channels and f"{name}.noise_density" in chosen.estimates and not {name, "time"} & blocked
    ]
    _compare_rest(found, channels, seed, _counter(say, "simulating rest"))
    if pose is not None:
        _compare_motion(found, channels, pose, seed, _counter(say, "simulating the motion"))
    for name in channels:
        if name not in found.rest:
            found.notes.append(f"{name}: noise is not compared, since {found.tested_on} has no rest of 2 s or more")
    found.verdicts.extend(
        timing_verdicts(chosen, tested, _readings(found, [name for name in channels if name != "mag"]), seed)
    )
    return found


def _validate_signals(
    twin: Twin,
    log: LogSource | None,
    reference: object,
    seed: int,
    say: Callable[[str, int, int], None],
    reading: dict[str, object],
) -> TwinValidation:
    """Compare a twin of any kind but IMUs; see :func:`validate`."""
    if log is None:
        assert twin.log is not None
        half, reference = len(twin.log) // 2, twin.reference
        say("fitting the first half", 0, 1)
        first, second = slice(0, half), slice(half, None)
        chosen = refit(twin, twin.log.part(first), part_of(reference, twin.log, first))
        tested, reference = twin.log.part(second), part_of(reference, twin.log, second)
    else:
        tested, chosen = read_log(twin, log, reading), twin
    found = TwinValidation(*_names(twin, log, tested), chosen, tested, [])
    used = [name for name in channels_of(twin) if name in tested.channels]
    for name in used:
        if any(problem.blocks in (name, "time") for problem in (*twin.problems, *chosen.problems)):
            continue
        count = _counter(say, f"simulating {name}")(min(MAX_SAMPLES, len(tested)))
        one = compare_channel(chosen, tested, name, reference, seed, count)
        found.verdicts.extend(one.verdicts)
        found.rest.update({} if one.rest is None else {name: one.rest})
        found.motion.update({} if one.motion is None else {name: one.motion})
        found.notes.extend([f"{name} is not compared: {one.note}"] if one.note else [])
    found.verdicts.extend(timing_verdicts(chosen, tested, _readings(found, used[:1]), seed))
    return found


def _readings(found: TwinValidation, channels: list[str]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return readings of log and twin, in motion if it was compared, otherwise at rest."""
    if all(name in found.motion for name in channels):
        return [(found.motion[name].log, found.motion[name].twin) for name in channels]
    return [(found.rest[name].log_values, found.rest[name].twin_values) for name in channels if name in found.rest]


def _names(twin: Twin, log: LogSource | None, tested: SensorLog) -> tuple[str, str]:
    """Return the names of the log that was fitted and of the one that it is compared with."""
    source = twin.log.source if twin.log is not None else "another log"
    return (f"the first half of {source}", "the second half") if log is None else (source, tested.source)


def _compare_rest(found: TwinValidation, channels: list[str], seed: int, count: Callable[[int], Progress]) -> None:
    log, runs = found.log, rest_segments(found.log, 2.0)
    if not runs:
        return
    samples = min(REST_SAMPLES, runs[0].stop - runs[0].start)
    simulated = replay_rest(
        found.twin.options(link="body"), samples, 1 / log.rate, REST_RUNS, seed=seed, progress=count(samples)
    )
    for name in channels:
        parts = [log.channels[name][run] for run in runs]
        parts = [part[np.isfinite(part).all(axis=1)] for part in parts]
        comparison = compare_rest(parts, simulated[name], log.rate, _step(found.twin, name))
        found.rest[name] = comparison
        found.verdicts.extend(rest_verdicts(name, comparison))


def _compare_motion(
    found: TwinValidation, channels: list[str], pose: PoseReference, seed: int, count: Callable[[int], Progress]
) -> None:
    log, twin = found.log, found.twin
    delay = float(twin.imperfections().get("delay", 0.0))
    rows = _busiest(log, pose, delay)
    if rows is None:
        return
    time = log.time[rows]
    gravity = float(twin.provenance.get("settings", {}).get("gravity", units.STANDARD_GRAVITY))
    lever = twin.estimates.get("acc.lever")
    world = twin.estimates.get("mag.field")
    arm = None if lever is None or not lever.identifiable else np.asarray(lever.value, float)
    magnetic = (0.0, 0.0, 0.0) if world is None else tuple(np.asarray(world.value, float).tolist())
    readings = replay_pose(
        twin.options(link="body"),
        pose,
        _even(time - delay),
        gravity=gravity,
        field=magnetic,  # type: ignore[arg-type]
        lever=arm,
        seed=seed,
        progress=count(len(time)),
    )
    for name in channels:
        if (name == "acc" and not pose.has_position) or (name == "mag" and world is None):
            continue
        expected = {
            "gyro": lambda: pose.angular_rate(time),
            "acc": lambda: pose.specific_force(time, gravity),
            "mag": lambda: pose.magnetic_field(time, magnetic),
        }[name]()
        error = float(np.sqrt(np.mean(expected.std**2)))
        truth = readings[f"{name}_truth"]
        comparison = compare_motion(time, log.channels[name][rows], readings[name], expected.values, error, truth)
        found.motion[name] = comparison
        verdicts = motion_verdicts(name, si_unit(name).replace("^2", "²"), comparison)
        note = "; the twin has one latency for all channels, see delay"
        wrong = [one.subject == "lag" and not one.holds and name != "gyro" for one in verdicts]
        found.verdicts.extend(
            replace(one, text=one.text + note) if late else one for one, late in zip(verdicts, wrong, strict=True)
        )


def _busiest(log: SensorLog, pose: PoseReference, delay: float) -> slice | None:
    """Return the rows of the stretch of at most 20 s with the most motion in which log and reference have no gap."""
    usable = pose.valid(log.time - delay - 1 / log.rate) & pose.valid(log.time)
    for name in CHANNELS:
        if name in log.channels:
            usable &= np.isfinite(log.channels[name]).all(axis=1)
    usable &= np.abs(np.diff(log.time, prepend=log.time[0] - 1 / log.rate) * log.rate - 1) < 0.5
    size = min(int(MOTION_SECONDS * log.rate), len(log))
    edges = np.flatnonzero(np.diff(np.r_[False, usable, False].astype(int)))
    spans = [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True) if b - a >= 2 * log.rate]
    if not spans:
        return None
    rate = np.nan_to_num(pose.angular_rate(log.time).values)
    power = np.r_[0.0, np.cumsum(np.sum(rate**2, axis=1))]
    starts = [
        (a + k, min(b, a + k + size)) for a, b in spans for k in range(0, max(1, b - a - size), max(1, size // 8))
    ]
    best = max(starts, key=lambda span: power[span[1]] - power[span[0]])
    return slice(*best)


def _even(time: np.ndarray) -> np.ndarray:
    """Return evenly spaced times with the same start and end."""
    return np.linspace(time[0], time[-1], len(time))


def _step(twin: Twin, channel: str) -> np.ndarray:
    one = twin.estimates.get(f"{channel}.resolution")
    return np.zeros(3) if one is None or not one.identifiable else np.nan_to_num(np.asarray(one.value, float))


def _pose(reference: object) -> PoseReference:
    found = as_reference(reference)
    if not isinstance(found, PoseReference):
        raise OptionError("validate needs a pose reference: time, quat, pos")
    return found


def _counter(say: Callable[[str, int, int], None], text: str) -> Callable[[int], Progress]:
    """Return a function: number of steps -> function that counts them."""

    def start(total: int) -> Progress:
        done = 0

        def count(steps: int) -> None:
            nonlocal done
            done += steps
            say(text, done, total)

        say(text, 0, total)
        return count

    return start
