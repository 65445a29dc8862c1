"""``compare``: simulated sensors beside the real ones, over the same motion."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sensorium._arguments import checked
from sensorium.doctor.compare_rays import no_returns
from sensorium.doctor.compare_signals import (
    SignalComparison,
    TimeSeries,
    compare_latency,
    compare_rays,
    compare_signal,
    has_arrivals,
    truth_of,
)
from sensorium.doctor.drive import DISABLED, DrivenMotion, drive
from sensorium.doctor.links import TF_STATIC, Links
from sensorium.doctor.signals import gravity_of, is_measured, resets_of
from sensorium.doctor.surroundings import find_surroundings
from sensorium.doctor.tables import read_any
from sensorium.doctor.transforms import LinkMotions
from sensorium.errors import OptionError, did_you_mean, shorten
from sensorium.figure_files import write_figure
from sensorium.logs import Log, TopicLog
from sensorium.ros.sources import fields_of
from sensorium.ros.topics import JOINT_STATE, ODOMETRY, POINT_CLOUD, RosField, ros_fields
from sensorium.sensors.base import Sensor
from sensorium.worlds import Scene

if TYPE_CHECKING:
    from sensorium.robots import Robot

_KNOWN = ("linear_acceleration", "angular_velocity", "magnetic_field", "position", "velocity", "vector", "range")
_WHEELS = ("twist.twist.linear.x", "twist.twist.angular.z")
_RAYS = "ranges"
_PLACED = ("linear_acceleration", "range", _RAYS)
"""Fields that depend on the position of the base."""
_SURROUNDED = ("range", _RAYS)
"""Fields that depend on what is around the robot."""
_INTEGRATED = ("pose.pose.position", "pose.pose.orientation")
_SCAN_RATE = 200.0
"""Rate at which scans without noise are kept, Hz."""


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
    world: str | os.PathLike[str] | None = None,
    rate: float | None = None,
    seed: int = 0,
    progress: Callable[[int], None] = lambda count: None,
) -> LogComparison:
    """Drive a robot along the motion of a log, and compare its sensors with those of the log.

    Joint positions and the pose of the base are smoothed and set in every step; contacts and actuators have no effect,
    so sensors of forces are not compared. Sensors on links whose motion the log does not show are not compared either.
    Of a log with resets, the longest episode is compared.

    Our own logs hold their surroundings, the true poses of all links (``/tf``), and the ground truth of each sensor
    below ``/truth``. The errors of the simulated sensor are added to that ground truth, if both have the same mount.

    Args:
        log: the log, or its path.
        robot: a robot of the catalogue, or an MJCF or URDF file, whose joints have the names of the log. The base of a
            file without a free joint floats if the log has its pose in ``/tf`` or an Odometry.
        rig: YAML file of its sensors. Default: those of the robot.
        topics: uuid of a sensor -> topic of the log. Default: the topic of that name, or the only one with such
            messages.
        env: env of a log of several. Default: the only one.
        world: MJCF of what is around the robot, for lidars. Default: that of our own logs, otherwise none.
        rate: steps per second of the simulation, Hz. Default: those of the simulation in our own logs, otherwise 1000.
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
    from sensorium.robots.catalogue import make_for_scene

    log = _one_robot(log if isinstance(log, Log) else read_any(Path(log)), env)
    log, part = _longest_episode(_with_one_joint_order(log))
    scene = Scene(
        dt=1 / (rate or default_rate(log)), substeps=1, gravity=tuple(gravity_of(log).tolist()), disable=DISABLED
    )
    options: dict[str, Any] = {} if rig is None else {"rig": rig}
    around = find_surroundings(log, "robot") if world is None else None
    model = Path(world) if world is not None else around.model if around is not None else None
    if model is not None:
        scene.add_terrain(model, name="surroundings")
    placed: dict[str, Any] = {} if around is None or around.pos is None else {"pos": around.pos, "quat": around.quat}
    made = make_for_scene(str(robot), **options)  # also without actuators, such as a URDF file
    scene.add_robot(made, name="robot", free=_is_to_float(log, made) or None, **placed)
    scene.build(n_envs=1, seed=seed)
    try:
        if not scene.sensors:
            raise OptionError(f"the robot {str(robot)!r} has no sensors; give those to compare by rig (--rig)")
        _check_names(topics or {}, scene, log)
        motion = DrivenMotion(log, scene, "robot")
        # np.arange(start, ...) would round its step: by 10 ms in 20 s at times since 1970 and 4000 Hz
        times = motion.start + scene.dt * np.arange(int(np.ceil((motion.stop - motion.start) / scene.dt)))
        pairs, missing = _pair(scene, log, topics or {}, motion, model is not None)
        if not pairs:
            raise OptionError(
                f"the log has no topic of the robot's sensors: {'; '.join(missing.values()) or 'no sensors'}"
            )
        _sample_as_the_log(scene, pairs)
        twin, ideal, latency = _simulate(scene, motion, times, pairs, progress)
        options_of = {uuid: sensor.options for uuid, sensor in cast("Mapping[str, Sensor[Any]]", scene.sensors).items()}
        marks = {
            uuid: no_returns(sensor.options.max_range, getattr(sensor.options, "no_hit", None))
            for uuid, sensor in cast("Mapping[str, Sensor[Any]]", scene.sensors).items()
            if any(uuid == each and field.path == _RAYS for each, field in pairs)
        }
    finally:
        scene.close()
    signals: list[SignalComparison] = []
    for (uuid, field), topic in pairs.items():
        name = f"{uuid}.{field.field}" if field.field else uuid
        own, true = twin[uuid, field], ideal[uuid, field]
        if field.path == _RAYS:
            found = compare_rays(name, field, topic, own, true, marks[uuid])
        else:
            found = compare_signal(name, field, topic, own, true, times, truth_of(log, topic, field, options_of[uuid]))
        if isinstance(found, str):
            missing[name] = found
            continue
        if uuid not in {each.name.split(".")[0] for each in signals} and has_arrivals(log, topic):
            found = replace(found, verdicts=(*found.verdicts, compare_latency(uuid, topic, latency[uuid], scene.dt)))
        signals.append(found)
        if all(each.subject != "lag" for each in found.verdicts):
            missing[f"{name} lag"] = "not judged: the motion is below the noise, or too short"
    return LogComparison(signals, part | missing)


def _is_to_float(log: Log, robot: Robot) -> bool:
    """Return whether a robot needs a free joint: a URDF file has none, and the log shows that its base moves."""
    base = robot.options.base
    if base is None or robot._load_model().body(base).joints:
        return False
    if LinkMotions(log).in_world(base) is not None:
        return True
    links = Links(log)
    mounts = [links.of_pose(each) for each in log.of(ODOMETRY) if is_measured(each.name) and len(each) > 3]
    return any(mount is not None and mount.link.split("/")[-1] in ("", base) for mount in mounts)


def default_rate(log: Log) -> float:
    """Return the steps per second of the simulation of a log, Hz, since some sensors count per step; otherwise 1000."""
    try:
        step = float(log.metadata.get("sensorium", {}).get("dt", ""))
    except ValueError:
        return 1000.0
    return 1 / step if 1e-4 <= step <= 0.02 else 1000.0


def _one_robot(log: Log, env: int | None) -> Log:
    """Return the log of one env."""
    names = log.namespaces
    if not names and env is not None:
        raise OptionError(f"env is for logs of several envs, and {log.source or 'the log'} is that of one robot")
    if len(names) > 1 and env is None:
        raise OptionError(f"the log holds several envs; choose one with env (--env): {', '.join(names)}")
    return log.in_namespace(names[0] if env is None else f"/env_{env}") if names else log


def _with_one_joint_order(log: Log) -> Log:
    """Return a log in which each topic of JointState has the same joints in all messages, in one order."""
    for topic in log.of(JOINT_STATE):
        log = log.without(topic.name).with_topics(*topic.split_joints())
    return log


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
    scene: Scene, log: Log, chosen: Mapping[str, str], motion: DrivenMotion, is_surrounded: bool
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
            name = f"{uuid}.{field.field}" if field.field else uuid
            if field.path in _INTEGRATED:
                missing[name] = "not judged: it is the integral of speed and yaw_rate, whose errors add up"
                continue
            if field.message == POINT_CLOUD or field.path not in (*_KNOWN, *_WHEELS, _RAYS):
                missing[name] = f"{field.path} of {field.message} is not compared"
                continue
            topic = _find(log, field, chosen.get(uuid))
            if topic is None or field.path not in topic or not np.size(topic[field.path]):
                missing[name] = f"the log has no {field.message} on {chosen.get(uuid, field.topic)}"
            elif unknown or (field.path in _WHEELS and (unknown := motion.unknown_joints(_wheels(sensor)))):
                missing[name] = f"not judged: {unknown}"
            elif field.path in _SURROUNDED and not is_surrounded:
                missing[name] = "not judged: the log does not hold what is around the robot; give it by world (--world)"
            elif field.path in _PLACED and link and not motion.has_position:
                missing[name] = "not judged: the log has no position of the base, whose acceleration the sensor reads"
            else:
                pairs[uuid, field] = topic
    return pairs, missing


def _sample_as_the_log(scene: Scene, pairs: Mapping[Key, TopicLog]) -> None:
    """Give sensors without a rate that of their topic: they would be sampled in every step of the simulation."""
    sensors = cast("Mapping[str, Sensor[Any]]", scene.sensors)
    for (uuid, _), topic in pairs.items():
        options = sensors[uuid].options
        if getattr(options, "rate", 0.0) is None and 0 < topic.rate < 1 / scene.dt:
            sensors[uuid].set(rate=topic.rate)


def _wheels(sensor: Sensor[Any]) -> list[str]:
    """Return the joints of wheel odometry."""
    options = sensor.options
    return [name for each in (options.left, options.right) for name in ([each] if isinstance(each, str) else each)]


def _find(log: Log, field: RosField, chosen: str | None) -> TopicLog | None:
    name = chosen or field.topic
    if name in log:
        return log[name]
    own = [each for each in log.of(field.message) if is_measured(each.name)]
    return own[0] if chosen is None and len(own) == 1 else None


def _simulate(
    scene: Scene,
    motion: DrivenMotion,
    times: np.ndarray,
    pairs: Mapping[Key, TopicLog],
    progress: Callable[[int], None],
) -> tuple[dict[Key, TimeSeries], dict[Key, TimeSeries], dict[str, float]]:
    """Return the captured samples, and the ground truth, of every field on the clock of the log, and latencies in s."""
    uuids, sensors = {uuid for uuid, _ in pairs}, cast("Mapping[str, Sensor[Any]]", scene.sensors)
    samples: dict[str, list[tuple[float, dict[str, np.ndarray]]]] = {uuid: [] for uuid in uuids}
    truths: dict[str, list[dict[str, np.ndarray]]] = {uuid: [] for uuid in uuids}
    late: dict[str, list[float]] = {uuid: [] for uuid in uuids}
    every = dict.fromkeys(uuids, 1)
    every |= {uuid: max(1, round(1 / scene.dt / _SCAN_RATE)) for uuid, field in pairs if field.path == _RAYS}
    offset = float(times[0]) - scene.dt
    for step in drive(scene, motion, times):
        for uuid in uuids:
            sensor = sensors[uuid]
            queue = sensor.read_samples()
            values = {name: each[0].double().numpy() for name, each in fields_of(queue.values).items()}
            for i in range(int(queue.count[0])):
                own = {name: each[i].reshape(-1) for name, each in values.items()}
                samples[uuid].append((float(queue.capture[0, i]) + offset, own))
                late[uuid].append(float(queue.arrival[0, i] - queue.capture[0, i]))
            if step % every[uuid]:
                continue
            truth = fields_of(sensor.read_ground_truth(history_length=0))
            truths[uuid].append({name: each[0].double().numpy().reshape(-1).copy() for name, each in truth.items()})
        progress(1)
    twin, ideal = {}, {}
    for uuid, field in pairs:
        rows = sorted(((time, values[field.field]) for time, values in samples[uuid]), key=lambda row: row[0])
        twin[uuid, field] = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
        ideal[uuid, field] = times[:: every[uuid]], np.array([values[field.field] for values in truths[uuid]])
    return twin, ideal, {uuid: float(np.median(each)) if each else 0.0 for uuid, each in late.items()}
