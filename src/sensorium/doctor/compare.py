"""``compare``: simulated sensors beside the real ones, over the same motion."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from sensorium._arguments import checked
from sensorium.doctor.drive import DISABLED, DrivenMotion, drive
from sensorium.doctor.links import TF_STATIC
from sensorium.doctor.signals import gravity_of, is_measured, resets_of, usable
from sensorium.doctor.tables import read_any
from sensorium.doctor.value_checks import white_noise
from sensorium.errors import OptionError, did_you_mean, shorten
from sensorium.files import write_figure
from sensorium.fit.comparison import MotionComparison, Verdict, compare_motion, motion_verdicts
from sensorium.logs import Log, TopicLog
from sensorium.ros.sources import fields_of
from sensorium.ros.topics import POINT_CLOUD, RosField, ros_fields
from sensorium.sensors.base import Sensor
from sensorium.worlds import Scene

_KNOWN = ("linear_acceleration", "angular_velocity", "magnetic_field", "position", "velocity", "vector", "range")
_PLACED = ("linear_acceleration", "range")
"""Fields that depend on the position of the base."""
_NOISE_RATIO = 1.5
"""Ratio of the noise of log and twin that counts as equal."""


@dataclass(frozen=True)
class SignalComparison:
    """One signal of the log beside the simulated one."""

    name: str
    """uuid of the simulated sensor and field, "robot_imu.ang_vel"."""
    topic: str
    """Topic and field of the log."""
    unit: str
    """Unit of both."""
    motion: MotionComparison
    """Both over time, with spectra and lag."""
    verdicts: tuple[Verdict, ...]
    """Whether prediction, lag and noise agree."""


class LogComparison:
    """Simulated sensors beside the real ones.

    Attributes:
        signals: one per field of a sensor that the log has.
        missing: simulated sensors without a topic in the log -> why.
    """

    def __init__(self, signals: list[SignalComparison], missing: dict[str, str]) -> None:
        self.signals, self.missing = signals, missing

    @property
    def holds(self) -> bool:
        """Whether all verdicts hold."""
        return all(each.holds for signal in self.signals for each in signal.verdicts)

    def __str__(self) -> str:
        lines = [str(each) for signal in self.signals for each in signal.verdicts]
        return "\n".join([*lines, *(f"--  {name}: {why}" for name, why in self.missing.items())])

    def plot(self, folder: str | Path) -> list[Path]:
        """Write one picture per signal, as ``sensorium fit`` draws them; returns the files."""
        from sensorium.fit.figures import draw_motion

        out = Path(folder)
        out.mkdir(parents=True, exist_ok=True)
        written = []
        for signal in self.signals:
            figure = draw_motion(signal.name, signal.motion, {signal.name: signal.unit})
            written.append(out / f"{signal.name.replace('/', '_').replace('.', '_')}.png")
            write_figure(figure, written[-1], dpi=110)
        return written


@checked
def compare(
    log: Log | str | os.PathLike[str],
    robot: str | os.PathLike[str],
    rig: str | os.PathLike[str] | None = None,
    *,
    topics: Mapping[str, str] | None = None,
    env: int | None = None,
    rate: float = 1000.0,
    seed: int = 0,
    progress: Callable[[int], None] = lambda count: None,
) -> LogComparison:
    """Drive a robot along the motion of a log, and compare its sensors with those of the log.

    Joint positions and the pose of the base are smoothed and set in every step; contacts and actuators have no effect,
    so sensors of forces are not compared. Sensors on links whose motion the log does not show are not compared either.
    Of a log with resets, the longest episode is compared.

    Args:
        log: the log, or its path.
        robot: a robot of the catalogue, or an MJCF or URDF file, whose joints have the names of the log.
        rig: YAML file of its sensors. Default: those of the robot.
        topics: uuid of a sensor -> topic of the log. Default: the topic of that name, or the only one with such
            messages.
        env: env of a log of several. Default: the only one.
        rate: steps per second of the simulation, Hz.
        seed: seed of the simulated noise.
        progress: called with 1 after each step.

    Raises:
        OptionError: the log has no motion of the robot, or none of its sensors; ``topics`` names a sensor or a topic
            that does not exist; or ``env`` is missing.

    Example:
        >>> found = sn.doctor.compare("real.mcap", "quadruped", rig="my_rig.yaml")
        >>> print(found)
        >>> found.plot("out/compare")
    """
    from sensorium.robots import make

    log = _one_robot(log if isinstance(log, Log) else read_any(Path(log)), env)
    log, part = _longest_episode(log)
    scene = Scene(dt=1 / rate, substeps=1, gravity=tuple(gravity_of(log).tolist()), disable=DISABLED)
    options: dict[str, Any] = {} if rig is None else {"rig": rig}
    scene.add_robot(make(str(robot), **options), name="robot")
    scene.build(n_envs=1, seed=seed)
    try:
        if not scene.sensors:
            raise OptionError(f"the robot {str(robot)!r} has no sensors; give those to compare by rig (--rig)")
        _check_names(topics or {}, scene, log)
        motion = DrivenMotion(log, scene, "robot")
        times = np.arange(motion.start, motion.stop, scene.dt)
        pairs, missing = _pair(scene, log, topics or {}, motion)
        if not pairs:
            raise OptionError(
                f"the log has no topic of the robot's sensors: {'; '.join(missing.values()) or 'no sensors'}"
            )
        twin, ideal = _simulate(scene, motion, times, pairs, progress)
    finally:
        scene.close()
    signals = []
    for (uuid, field), topic in pairs.items():
        name = f"{uuid}.{field.field}" if field.field else uuid
        found = _compare_signal(name, field, topic, twin[uuid, field], ideal[uuid, field], times)
        if isinstance(found, str):
            missing[name] = found
            continue
        signals.append(found)
        if all(each.subject != "lag" for each in found.verdicts):
            missing[f"{name} lag"] = "not judged: the motion is below the noise, or too short"
    return LogComparison(signals, part | missing)


def _one_robot(log: Log, env: int | None) -> Log:
    """Return the log of one env."""
    names = log.namespaces
    if not names and env is not None:
        raise OptionError(f"env is for logs of several envs, and {log.source or 'the log'} is that of one robot")
    if len(names) > 1 and env is None:
        raise OptionError(f"the log holds several envs; choose one with env (--env): {', '.join(names)}")
    return log.in_namespace(names[0] if env is None else f"/env_{env}") if names else log


def _longest_episode(log: Log) -> tuple[Log, dict[str, str]]:
    """Return the longest part of a log between two resets, and a note if there are resets."""
    resets = resets_of(log)
    if not len(resets):
        return log, {}
    edges = np.r_[log.span[0], resets, log.span[1]]
    k = int(np.diff(edges).argmax())
    start, stop = edges[k], edges[k + 1]
    kept = [
        topic.take((topic.capture > start) & (topic.capture < stop))
        for topic in log.values()
        if topic.name != TF_STATIC
    ]
    return log.with_topics(*kept), {"log": f"of {len(edges) - 1} episodes the longest, {start:.2f} to {stop:.2f} s"}


def _check_names(chosen: Mapping[str, str], scene: Scene, log: Log) -> None:
    """Check that sensors and topics that the caller names exist."""
    for uuid, topic in chosen.items():
        if uuid not in scene.sensors:
            hint = did_you_mean(uuid, scene.sensors) or f"; it has {shorten(scene.sensors)}"
            raise OptionError(f"topics: the robot has no sensor {uuid!r}{hint}")
        if topic not in log:
            hint = did_you_mean(topic, log) or f"; it has {shorten(log)}"
            raise OptionError(f"topics: the log has no topic {topic!r} for {uuid!r}{hint}")


Key = tuple[str, RosField]


def _pair(
    scene: Scene, log: Log, chosen: Mapping[str, str], motion: DrivenMotion
) -> tuple[dict[Key, TopicLog], dict[str, str]]:
    """Return (sensor, field) -> topic of the log, and the sensors that are not compared with the reason."""
    pairs: dict[Key, TopicLog] = {}
    missing: dict[str, str] = {}
    sensors = cast("Mapping[str, Sensor[Any]]", scene.sensors)
    for uuid, sensor in sensors.items():
        if hasattr(sensor, "outputs"):
            missing[uuid] = "cameras are not compared"
            continue
        link = getattr(sensor.options, "link", None)
        unknown = motion.unknown(link) if link else ""
        for field in ros_fields(sensor):
            if field.message == POINT_CLOUD or field.path not in _KNOWN:
                continue
            name = f"{uuid}.{field.field}" if field.field else uuid
            topic = _find(log, field, chosen.get(uuid))
            if topic is None or field.path not in topic or not np.size(topic[field.path]):
                missing[name] = f"the log has no {field.message} on {chosen.get(uuid, field.topic)}"
            elif unknown:
                missing[name] = f"not judged: {unknown}"
            elif field.path in _PLACED and link and not motion.has_position:
                missing[name] = "not judged: the log has no position of the base, whose acceleration the sensor reads"
            else:
                pairs[uuid, field] = topic
    return pairs, missing


def _find(log: Log, field: RosField, chosen: str | None) -> TopicLog | None:
    name = chosen or field.topic
    if name in log:
        return log[name]
    own = [each for each in log.of(field.message) if is_measured(each.name)]
    return own[0] if chosen is None and len(own) == 1 else None


TimeSeries = tuple[np.ndarray, np.ndarray]
"""Times (n,) s and values (n, k)."""


def _simulate(
    scene: Scene,
    motion: DrivenMotion,
    times: np.ndarray,
    pairs: Mapping[Key, TopicLog],
    progress: Callable[[int], None],
) -> tuple[dict[Key, TimeSeries], dict[Key, TimeSeries]]:
    """Return the captured samples, and the ground truth, of every field on the clock of the log."""
    uuids, sensors = {uuid for uuid, _ in pairs}, cast("Mapping[str, Sensor[Any]]", scene.sensors)
    samples: dict[str, list[tuple[float, dict[str, np.ndarray]]]] = {uuid: [] for uuid in uuids}
    truths: dict[str, list[dict[str, np.ndarray]]] = {uuid: [] for uuid in uuids}
    offset = float(times[0]) - scene.dt
    for _ in drive(scene, motion, times):
        for uuid in uuids:
            sensor = sensors[uuid]
            queue = sensor.read_samples()
            values = {name: each[0].double().numpy() for name, each in fields_of(queue.values).items()}
            for i in range(int(queue.count[0])):
                own = {name: each[i].reshape(-1) for name, each in values.items()}
                samples[uuid].append((float(queue.capture[0, i]) + offset, own))
            truth = fields_of(sensor.read_ground_truth(history_length=0))
            truths[uuid].append({name: each[0].double().numpy().reshape(-1).copy() for name, each in truth.items()})
        progress(1)
    twin, ideal = {}, {}
    for uuid, field in pairs:
        rows = sorted(((time, values[field.field]) for time, values in samples[uuid]), key=lambda row: row[0])
        twin[uuid, field] = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
        ideal[uuid, field] = times, np.array([values[field.field] for values in truths[uuid]])
    return twin, ideal


def _compare_signal(
    name: str, field: RosField, topic: TopicLog, twin: TimeSeries, ideal: TimeSeries, times: np.ndarray
) -> SignalComparison | str:
    """Return one signal beside the simulated one, or why they cannot be compared."""
    order = np.argsort(topic.capture, kind="stable")
    time, values = topic.capture[order], np.asarray(topic[field.path], np.float64)[order]
    values = values.reshape(len(values), -1)
    inside = (time > times[0] + 0.1) & (time < times[-1] - 0.1) & np.r_[True, np.diff(time) > 0] & usable(values)
    time, values = time[inside], values[inside]
    if len(time) < 50:
        return f"not judged: {topic.name} has {len(time)} readings during the motion, and 50 are needed"
    if values.shape[1] != ideal[1].shape[1]:
        return f"not judged: {topic.name} has {values.shape[1]} values, the simulated sensor {ideal[1].shape[1]}"
    own, true = (np.stack([np.interp(time, t, column) for column in v.T], axis=1) for t, v in (twin, ideal))
    log_noise, twin_noise = (float(np.sqrt((white_noise(each) ** 2).mean())) for each in (values, twin[1]))
    error = float(np.hypot(log_noise, twin_noise))
    found = compare_motion(time, values, own, true, error, true, "noise of log and twin")
    ratio = twin_noise / max(log_noise, 1e-15)
    agrees = 1 / _NOISE_RATIO < ratio < _NOISE_RATIO or max(log_noise, twin_noise) < 1e-9
    text = f"white noise of {log_noise:.3g} {field.unit} in the log, {twin_noise:.3g} simulated"
    step = float(np.median(np.diff(times)))  # the simulation knows times to a step
    moves = float(np.sqrt(((true - true.mean(axis=0)) ** 2).mean())) > error
    verdicts = [
        replace(each, holds=each.holds or abs(found.lag) <= step) if each.subject == "lag" else each
        for each in motion_verdicts(name, field.unit, found)
        if moves or each.subject != "lag"
    ]
    verdicts.append(Verdict(name, "noise", agrees, text))
    return SignalComparison(name, f"{topic.name} {field.path}", field.unit, found, tuple(verdicts))
