"""``TrainableEntity``: a robot that owns its senses, its brain and its memory, and can see nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from sensorium.entities.brain import Brain
from sensorium.errors import NotBuiltError, OptionError
from sensorium.robots import RigSensor, Robot, SensorMount, SensorRig, make
from sensorium.sensors.options import SensorOptions
from sensorium.suites import ObservationSensor, PipelineSensor, SensorSuite
from sensorium.worlds import Plane, Scene, Sphere

PRIVILEGED = "privileged/"
"""What the names of ground truth in a suite begin with."""
_MOUNT = ("link", "pos", "quat", "euler")


class TrainableEntity:
    """A robot with senses of its own, and a brain that gets what they read and nothing else.

    The brain is made of the spaces of observations and actions, and is handed arrays: it has no way to the scene.

    Args:
        robot: name of a robot, or a model file.
        sensors: options of its sensors; links and joints are the robot's own. Or a rig, or a YAML file of one.
        brain: makes the brain from (observation space, action space); None for an entity that others steer.
        privileged: sensors whose ground truth is in the suite too, under "privileged/NAME", for critics and teachers.
        robot_options: further options of the robot, as ``{"controllers": {"arm": "joint_velocity"}}``.
        landmarks: things that are not of the robot and that its sensors look for by name; the task must have them.
        brain_options: further arguments of ``brain``.

    Attributes:
        suite: what it senses: before it is in a scene, with spaces alone (of one env).
        brain: what decides.
        observation_space, action_space: of one env.

    Example:
        >>> robot = sn.TrainableEntity(
        ...     robot="balancer",
        ...     sensors=[sn.IMU(link="torso", rate=200), sn.JointEncoder(joints=[0, 1], noise=0.002)],
        ...     brain=sn.SACMLPBrain,
        ... )
        >>> env = sn.tasks.make("balance", entity=robot, n_envs=16).as_gymnasium()
    """

    def __init__(
        self,
        robot: str | Path,
        sensors: Sequence[SensorOptions] | SensorRig | str | Path = (),
        brain: Callable[..., Brain] | None = None,
        *,
        privileged: Sequence[SensorOptions] = (),
        robot_options: Mapping[str, Any] | None = None,
        landmarks: Sequence[str] = (),
        brain_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.robot_name = str(robot)
        self._robot_options = dict(robot_options or {})
        self._landmarks = tuple(landmarks)
        own = SensorRig.load(sensors) if isinstance(sensors, str | Path) else _rig(sensors)
        extra = _rig(privileged, taken=[sensor.name for sensor in own.sensors])
        self._rig = SensorRig(sensors=(*own.sensors, *extra.sensors))
        self._privileged = [sensor.name for sensor in extra.sensors]
        self.suite, self.action_space = self._declare()
        self.observation_space = self.suite.single_space
        self.brain: Brain | None = None
        if brain is not None:
            self.brain = brain(self.observation_space, self.action_space, **(brain_options or {}))

    # -- in a scene ---------------------------------------------------------------------------------------------------

    def make_robot(self, **options: Any) -> Robot:
        """A part for ``scene.add_module``, with the entity's sensors as its rig."""
        return make(self.robot_name, rig=self._rig, **self._robot_options, **options)

    def bind(self, robot: Robot, n_envs: int) -> SensorSuite:
        """Sense with a robot of :meth:`make_robot` that is in a scene that was built; returns the suite."""
        suite = self._suite_of(robot, n_envs)
        if suite.single_space != self.observation_space:
            raise OptionError(f"the robot {robot.name!r} has other sensors than the entity; make it by make_robot()")
        self.suite = suite
        return suite

    def step(self, deterministic: bool = False) -> np.ndarray:
        """Read the suite, and decide: actions (B, n)."""
        return self.decide_batch(self.suite.read(), deterministic)

    # -- deciding -----------------------------------------------------------------------------------------------------

    def decide(self, observation: Mapping[str, Any], deterministic: bool = False) -> np.ndarray:
        """The action (n,) of one env for what it observes."""
        return self._thinking().decide(observation, deterministic)

    def decide_batch(self, observation: Mapping[str, Any], deterministic: bool = False) -> np.ndarray:
        """The actions (B, n) of all envs."""
        return self._thinking().decide_batch(observation, deterministic)

    def _thinking(self) -> Brain:
        if self.brain is None:
            raise OptionError("the entity has no brain: give one, as brain=sn.SACMLPBrain")
        return self.brain

    # -- making -------------------------------------------------------------------------------------------------------

    def _declare(self) -> tuple[SensorSuite, spaces.Box]:
        """Spaces, found by putting the robot into a scene that is closed again."""
        scene = Scene(dt=0.01, substeps=1)
        scene.add_object(Plane())
        for name in self._landmarks:
            scene.add_object(Sphere(radius=0.01), name=name, pos=(0.0, 0.0, 5.0))
        robot = scene.add_module("robot", self.make_robot())
        scene.build()
        live = self._suite_of(robot, 1)
        declared = [_Declared(uuid, sensor.space, sensor.is_image) for uuid, sensor in live.items()]
        suite = SensorSuite(1, declared, f"robot {self.robot_name!r}", privileged=bool(self._privileged))
        least, greatest = robot.action_limits.numpy().T.astype(np.float32)
        scene.close()
        return suite, spaces.Box(least, greatest, dtype=np.float32)

    def _suite_of(self, robot: Robot, n_envs: int) -> SensorSuite:
        suite = SensorSuite(n_envs, privileged=bool(self._privileged))
        for name in robot.rig.names:
            truth = name in self._privileged
            sensor = PipelineSensor(robot.rig[name], f"{PRIVILEGED}{name}" if truth else name, truth)
            suite.add(sensor, f"robot {self.robot_name!r}")
        return suite

    def __repr__(self) -> str:
        return f"<TrainableEntity {self.robot_name!r}, senses {', '.join(self.suite)}>"


class _Declared(ObservationSensor):
    """A sensor that is in no scene yet."""

    def read(self) -> Any:
        raise NotBuiltError(f"{self.uuid!r} is in no scene: give the entity to a task, as tasks.make(..., entity=it)")


def _rig(sensors: Sequence[SensorOptions] | SensorRig, taken: Sequence[str] = ()) -> SensorRig:
    """Options of sensors as the rig of a robot: names are the uuids, or made of the kinds."""
    if isinstance(sensors, SensorRig):
        return sensors
    entries: list[RigSensor] = []
    for options in sensors:
        if not isinstance(options, SensorOptions):
            raise OptionError(f"sensors must be options as sn.IMU(...), got {options!r}")
        values = options.model_dump(exclude_unset=True)
        used = [*taken, *(entry.name for entry in entries)]
        stem = values.pop("uuid", None) or type(options).__name__.lower()
        name = next(n for n in (stem, *(f"{stem}_{i}" for i in range(2, 1000))) if n not in used)
        mount = SensorMount(**{key: values.pop(key) for key in _MOUNT if key in values})
        entries.append(RigSensor(name=name, type=type(options).__name__, mount=mount, options=values))
    return SensorRig(sensors=tuple(entries))
