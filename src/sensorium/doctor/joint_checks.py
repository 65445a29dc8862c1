"""Checks of joints: names, order and sign against commands, units, offsets."""

from __future__ import annotations

import numpy as np

from sensorium.deploy.contract import Contract
from sensorium.doctor.findings import Examination
from sensorium.doctor.motion_checks import DEGREES
from sensorium.doctor.signals import Signals, TimeSeries, at, spans
from sensorium.doctor.value_checks import trained_range, white_noise

_UNEXPLAINED = 0.5
"""Fraction of the motion of a joint that its command may leave unexplained in another unit."""
_MOVES = 0.01
"""Standard deviation of a joint, rad, from which its motion is compared."""
_OUTSIDE = 0.2
"""Share of positions outside the range of training from which another unit or sign is tried."""
_MAX_OFFSET = 0.15
"""Median difference between a joint and its command, rad, from which it is an offset."""


def check_joints(exam: Examination, signals: Signals, contract: Contract | None) -> None:
    """Check names, units, signs, order and offsets of joints."""
    commands = next((series for kind, series in signals.commands if kind == "position"), None)
    for joints in signals.joints:
        position, velocity = joints.position, joints.velocity
        if contract is not None:
            _check_names(exam, position, contract)
        shared, own, asked = _pair(position, commands)
        if commands is None or not shared:
            exam.skip("joints.order", position.subject, "the log has no position commands of these joints")
        else:
            _check_against_commands(exam, position, shared, own, asked)
        if contract is not None:
            _check_trained_positions(exam, position, contract)
        if velocity is not None:
            driven = next((series for kind, series in signals.commands if kind == "velocity"), None)
            _check_velocity(exam, position, velocity, signals.resets, driven)


def _check_trained_positions(exam: Examination, position: TimeSeries, contract: Contract) -> None:
    """Compare positions with those of training, in degrees or with the opposite sign: then that is the fault."""
    if exam.has_failed(position.subject):
        return
    for term in contract.observations:
        if f"{term.topic} {term.field}" != position.subject or term.seen is None or not set(term.names):
            continue
        if not set(term.names) <= set(position.names):
            continue
        values = position.values[:, [position.names.index(name) for name in term.names]]
        low, high = trained_range(term)
        margin = 0.25 * (high - low) + 5 * np.array(term.noise) + 1e-6

        def outside(tried: np.ndarray, low: np.ndarray = low - margin, high: np.ndarray = high + margin) -> np.ndarray:
            return np.asarray(((tried < low) | (tried > high)).mean(axis=0))

        as_is = outside(values)
        if not (as_is > _OUTSIDE).any():
            continue
        in_rad, turned = outside(values / DEGREES), outside(-values)
        names = np.array(term.names)
        if (in_rad < 0.02).all() and (as_is > _OUTSIDE).mean() >= 0.5:
            text = f"{as_is.max():.0%} outside the range of training, and inside if they are in degrees"
            exam.fail("joints.unit", position.subject, text, f"multiply by {1 / DEGREES:.6g}")
        elif (flipped := (as_is > _OUTSIDE) & (turned < 0.02)).any():
            text = f"{', '.join(names[flipped])} is outside the range of training, and inside with the opposite sign"
            exam.fail("joints.sign", position.subject, text, "turn its sign")


def _check_names(exam: Examination, position: TimeSeries, contract: Contract) -> None:
    wanted = {
        name for term in contract.observations if term.topic and position.subject.startswith(f"{term.topic} ")
        for name in term.names
    }  # fmt: skip
    missing = sorted(wanted - set(position.names))
    if missing:
        text = f"{', '.join(missing)} missing; the log has {', '.join(position.names)}"
        exam.fail("joints.names", position.subject, text, "publish these joints, with the names of the contract")
    elif wanted:
        exam.ok("joints.names", position.subject, f"all {len(wanted)} joints of the policy")


def _pair(position: TimeSeries, commands: TimeSeries | None) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return names of the joints in both, positions and commands at the same times, (n, joints) each."""
    if commands is None:
        return [], np.zeros((0, 0)), np.zeros((0, 0))
    shared = [name for name in position.names if name in commands.names]
    inside = (position.time >= commands.time[0]) & (position.time <= commands.time[-1])
    columns = [commands.names.index(name) for name in shared]
    rows = [position.names.index(name) for name in shared]
    return shared, position.values[inside][:, rows], at(commands, position.time[inside])[:, columns]


def _lagged(own: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Return the commands, moved by the number of samples at which they agree best with the positions."""
    best, found = -np.inf, asked
    for lag in range(0, min(40, len(own) // 4), 2):
        moved = np.vstack([np.repeat(asked[:1], lag, axis=0), asked[: len(asked) - lag]])
        score = float(np.abs(_correlations(own, moved)).max(axis=1).mean())
        if score > best + 1e-3:
            best, found = score, moved
    return found


def _correlations(own: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Return correlations of every joint with every command, (joints, commands)."""
    a, b = own - own.mean(axis=0), asked - asked.mean(axis=0)
    size = np.outer(np.linalg.norm(a, axis=0), np.linalg.norm(b, axis=0))
    return np.divide(a.T @ b, size, out=np.zeros_like(size), where=size > 1e-9)


def _check_against_commands(
    exam: Examination, position: TimeSeries, names: list[str], own: np.ndarray, asked: np.ndarray
) -> None:
    if len(own) < 20:
        exam.skip("joints.order", position.subject, "fewer than 20 samples while commands were sent")
        return
    asked = _lagged(own, asked)
    moves = asked.std(axis=0) > _MOVES
    table = np.abs(_correlations(own, asked))
    strength = table.max(axis=1)
    clear = moves & (strength > 0.6)
    if not clear.any():
        exam.skip("joints.order", position.subject, "no joint follows its command clearly")
        return
    diagonal = np.diag(table)
    wrong = [i for i in np.flatnonzero(clear) if table[i].argmax() != i and table[i].max() > diagonal[i] + 0.2]
    swapped = _swapped(own, asked)
    if swapped and not wrong:  # commands that are alike but for offset and size
        text = f"{', '.join(names[i] for i in swapped)} are where commands of the others are"
        exam.fail("joints.order", position.subject, text, "publish the joints in the order of their names")
        return
    if wrong:
        parts = [f"{names[i]} follows the command of {names[int(table[i].argmax())]}" for i in wrong]
        text = f"{', '.join(parts)} (correlation {table[wrong[0]].max():.2f}, with its own {diagonal[wrong[0]]:.2f})"
        exam.fail("joints.order", position.subject, text, "publish the joints in the order of their names")
        return
    exam.ok("joints.order", position.subject, f"{int(clear.sum())} joints follow their commands")
    signed = np.diag(_correlations(own, asked))
    flipped = [names[i] for i in np.flatnonzero(clear) if signed[i] < 0]
    if flipped:
        exam.fail("joints.sign", position.subject, f"{', '.join(flipped)} moves against its command", "turn its sign")
        return
    exam.ok("joints.sign", position.subject, "joints move with their commands")
    slopes = np.array([np.polyfit(asked[:, i], own[:, i], 1)[0] for i in np.flatnonzero(clear)])
    judged = [names[i] for i in np.flatnonzero(clear)]
    text = f"positions change by {float(np.median(slopes)):.3g} per unit of command"
    chosen = np.flatnonzero(clear)
    for factor, what, fix in (
        (DEGREES, "they are in degrees", f"multiply by {1 / DEGREES:.6g}"),
        (1 / DEGREES, "commands are in degrees", "send commands in rad"),
    ):
        # a joint that a stop or a load holds moves less than its command, too, but not by this factor
        rest = (own - factor * asked)[:, chosen].std(axis=0) / own[:, chosen].std(axis=0)
        odd = (slopes > 0.3 * factor) & (slopes < 3 * factor) & (rest < _UNEXPLAINED)
        if odd.any():
            which = "" if odd.all() else f"{', '.join(np.array(judged)[odd])}: "
            text = f"{which}positions change by {float(np.median(slopes[odd])):.3g} per unit of command"
            exam.fail("joints.unit", position.subject, f"{text}: {what}", fix)
            return
    exam.ok("joints.unit", position.subject, text)
    off, spread = np.median(own - asked, axis=0), (own - asked).std(axis=0)
    common = np.median(np.abs(off))
    # an offset is constant: a joint that is blocked or lags differs by other amounts at other times
    large = (np.abs(off) > _MAX_OFFSET + 2 * common) & (np.abs(off) > 5 * spread)
    worst = [int(i) for i in np.flatnonzero(clear & large)]
    if worst:
        offsets = ", ".join(f"{names[i]} by {off[i]:.3g} rad" for i in worst)
        exam.fail("joints.offset", position.subject, f"{offsets} off its command", "set the zero of the encoder")
    else:
        exam.ok("joints.offset", position.subject, f"median differences to commands up to {np.abs(off).max():.2g} rad")


def _swapped(own: np.ndarray, asked: np.ndarray) -> list[int]:
    """Return joints that are much nearer to the command of another one, which in turn is near to theirs."""
    off = np.sqrt(((own[:, :, None] - asked[:, None, :]) ** 2).mean(axis=0))
    near = off < 0.3 * np.diag(off)[:, None]
    return [i for i in range(len(off)) if any(near[i, j] and near[j, i] for j in range(len(off)) if j != i)]


def _check_velocity(
    exam: Examination,
    position: TimeSeries,
    velocity: TimeSeries,
    resets: np.ndarray,
    driven: TimeSeries | None,
) -> None:
    """Check that velocities are the derivatives of positions; ``driven`` are commands of velocities."""
    if exam.is_blamed("joints.velocity", position.subject):
        return
    times = velocity.time[(velocity.time > position.time[0] + 0.05) & (velocity.time < position.time[-1] - 0.05)]
    step = 0.04
    margin = step / 2 + 1.5 / position.rate
    times = times[~spans(resets, times - margin, times + margin)]
    if len(times) < 20:
        exam.skip("joints.velocity", velocity.subject, "fewer than 20 samples")
        return
    change = (at(position, times + step / 2) - at(position, times - step / 2)) / step
    own = at(velocity, times)
    # what the noise of positions and velocities cannot explain
    shaken = white_noise(position.values) * np.sqrt(2) / step
    moves = (change.std(axis=0) > 0.05 + 3 * shaken) & (own.std(axis=0) > 3 * white_noise(velocity.values))
    if not moves.any():
        exam.skip("joints.velocity", velocity.subject, "the joints hardly move, compared with their noise")
        return
    power = (change[:, moves] ** 2).sum()
    slope = float((own[:, moves] * change[:, moves]).sum() / power)
    each = (own[:, moves] * change[:, moves]).sum(axis=0) / (change[:, moves] ** 2).sum(axis=0)
    names = [name for name, chosen in zip(velocity.names, moves, strict=True) if chosen]
    text = f"{slope:.3g} times the derivative of the position"
    fix = "publish positions in rad and velocities in rad/s, with the same sign"
    in_degrees = (np.abs(each) > 0.3 / DEGREES) & (np.abs(each) < 3 / DEGREES)
    if in_degrees.any():  # velocities in rad/s, and positions in degrees
        which = "" if in_degrees.all() else f" of {', '.join(np.array(names)[in_degrees])}"
        size = float(np.median(each[in_degrees]))
        own_text = f"velocities are {size:.3g} times the derivative of the positions{which}, which are in degrees"
        exam.fail("joints.unit", position.subject, own_text, f"multiply by {1 / DEGREES:.6g}")
        exam.blame(velocity.subject, "joints.unit")
    elif (np.abs(each) > 10).any():
        which = ", ".join(np.array(names)[np.abs(each) > 10])
        exam.fail("joints.velocity", velocity.subject, f"{text}: {which} has another unit, perhaps °/s", fix)
    elif (each < 0).any():
        flipped = [name for name, value in zip(names, each, strict=True) if value < 0]
        what = f"{', '.join(flipped)} has the opposite sign of its"
        if _follow_commands(velocity, driven, flipped):
            exam.fail("joints.sign", position.subject, f"{what} velocity, which follows its command", "turn its sign")
            exam.blame(velocity.subject, "joints.sign")
        else:
            exam.fail("joints.velocity", velocity.subject, f"{what} position", fix)
    elif 0 < np.median(each) < 0.1:
        exam.fail("joints.velocity", velocity.subject, f"{text}: one of both has another unit", fix)
    else:
        exam.ok("joints.velocity", velocity.subject, text)


def _follow_commands(velocity: TimeSeries, driven: TimeSeries | None, names: list[str]) -> bool:
    """Return whether the velocities of joints go with their commands."""
    if driven is None or not set(names) <= set(driven.names):
        return False
    asked = at(driven, velocity.time)[:, [driven.names.index(name) for name in names]]
    own = velocity.values[:, [velocity.names.index(name) for name in names]]
    return bool((np.diag(_correlations(own, _lagged(own, asked))) > 0.6).all())
