"""``TrainableEntity``: a robot that owns its senses, its brain and its memory, and can see nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from sensorium.entities import sheet
from sensorium.entities.brain import Brain, check_brain, flat_space
from sensorium.entities.experience import Experience
from sensorium.entities.memory import Memory
from sensorium.entities.senses import rig_of
from sensorium.errors import NotBuiltError, OptionError
from sensorium.robots import Robot, SensorRig, make
from sensorium.sensors.options import SensorOptions
from sensorium.suites import ObservationSensor, PipelineSensor, SensorSuite
from sensorium.worlds import Envs, Plane, Scene, Sphere, env_ids


class TrainableEntity:
    """A robot with senses of its own, and a brain that gets what they read and nothing else.

    The brain is made of the spaces of observations and actions, and is handed arrays: it has no way to the scene.

    Args:
        robot: name of a robot, or a model file.
        sensors: options of its sensors; links and joints are the robot's own, and a camera without an orientation
            looks forward. Or a rig, or a YAML file of one.
        brain: makes the brain from (observation space, action space); None for an entity that others steer.
        privileged: sensors whose ground truth is in the suite too, under "privileged/NAME", for critics and teachers.
        robot_options: further options of the robot, as ``{"controllers": {"arm": "joint_velocity"}}``.
        landmarks: things that are not of the robot and that its sensors look for by name; the task must have them.
        brain_options: further arguments of ``brain``.
        rate: decisions per second; its action is held in between. Default: one in every step of its task.
        memory: transitions that it remembers, of all envs together; None for an entity that remembers nothing.

    Attributes:
        suite: what it senses: before it is in a scene, with spaces alone (of one env).
        brain: what decides.
        memory: what it remembers, a :class:`Memory`; from when it is in a scene.
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
        rate: float | None = None,
        memory: int | None = None,
    ) -> None:
        self.robot_name = str(robot)
        self._robot_options = dict(robot_options or {})
        self._landmarks = tuple(landmarks)
        self.rate = _positive("rate", rate, float)
        self._capacity = _positive("memory", memory, int)
        self._brain_type, self._brain_options = brain, dict(brain_options or {})
        check_brain(brain, self._brain_options)
        own = SensorRig.load(sensors) if isinstance(sensors, str | Path) else rig_of(sensors)
        extra = rig_of(privileged, taken=[sensor.name for sensor in own.sensors])
        self._rig = SensorRig(sensors=(*own.sensors, *extra.sensors))
        self._privileged = [sensor.name for sensor in extra.sensors]
        self.suite, self.action_space = self._declare()
        self.observation_space = self.suite.single_space
        self.brain: Brain | None = None
        if brain is not None:
            self.brain = brain(self.observation_space, self.action_space, **self._brain_options)
        self._world: Any = None
        self.memory: Memory | None = None
        self._experience: Experience | None = None
        self._action = np.zeros((0, *self.action_space.shape))

    # -- as a file ----------------------------------------------------------------------------------------------------

    @classmethod
    def from_yaml(cls, source: str | os.PathLike[str]) -> TrainableEntity:
        """The entity of a YAML file, or of YAML text; see :mod:`sensorium.entities.sheet` for what it says.

        Example:
            >>> robot = sn.TrainableEntity.from_yaml("balancer.yaml")

        Raises:
            OptionError: something in it cannot be used; names the file and the line.
        """
        read = sheet.Sheet(source)
        try:
            return cls(**read.arguments())
        except OptionError as error:
            first = str(error).split(" ")[0].rstrip(":,")
            if first in ("rate", "memory", "brain"):
                read.fail(str(error), first)
            raise

    def to_yaml(self, file: str | os.PathLike[str] | None = None) -> str:
        """The entity as YAML text, without what it has learnt, which :meth:`from_yaml` reads; written to a file, too.

        Raises:
            OptionError: its brain is no class of a module.
        """
        values: dict[str, Any] = {"robot": self.robot_name, "rate": self.rate, "memory": self._capacity}
        values |= {"robot_options": _plain(self._robot_options), "landmarks": list(self._landmarks)}
        if self._brain_type is not None:
            name, options = sheet.brain_name(self._brain_type), _plain(self._brain_options)
            values["brain"] = {name: options} if options else name
        own, extra = (
            [entry for entry in self._rig.sensors if (entry.name in self._privileged) == truth]
            for truth in (False, True)
        )
        text = sheet.write(values, own, extra)
        if file is not None:
            Path(file).write_text(text, encoding="utf-8")
        return text

    # -- in a scene ---------------------------------------------------------------------------------------------------

    def make_robot(self, **options: Any) -> Robot:
        """The robot for ``scene.add_robot``, with the entity's sensors as its rig."""
        return make(self.robot_name, rig=self._rig, **self._robot_options, **options)

    def bind(self, robot: Robot, n_envs: int) -> SensorSuite:
        """Sense with a robot of :meth:`make_robot` that is in a scene that was built; returns the suite."""
        suite = self._suite_of(robot, n_envs)
        if suite.single_space != self.observation_space:
            raise OptionError(f"the robot {robot.name!r} has other sensors than the entity; make it by make_robot()")
        self.suite, self._world = suite, robot._world
        if self._experience is not None:
            self._experience.interrupted(slice(None))
        elif self._capacity:
            self.start_memory(self._capacity, n_envs)
        return suite

    def step(self, world: Any = None, *, deterministic: bool = False) -> np.ndarray:
        """Read the suite, and decide: actions (B, n).

        Args:
            world: the task, scene or world that the entity is in, or a Gymnasium view of it. It is looked at for
                nothing but whether it is that one, so it may be left out.
            deterministic: whether the brain explores no more.

        Raises:
            OptionError: the entity is not in that world.
        """
        inner = world
        for name in ("task", "scene", "world"):
            inner = getattr(inner, name, inner)
        if world is not None and not hasattr(inner, "bind"):
            raise OptionError(f"world must be a task, a scene or a world, got {world!r}")
        if world is not None and inner is not self._world:
            where = "in no scene yet" if self._world is None else "in another one"
            raise OptionError(f"the entity is not in {world!r}, but {where}; give it the task that was made with it")
        return self.decide_batch(self.suite.read(), deterministic)

    # -- deciding -----------------------------------------------------------------------------------------------------

    def decide(self, observation: Mapping[str, Any], deterministic: bool = False) -> np.ndarray:
        """The action (n,) of one env for what it observes."""
        return self._thinking().decide(observation, deterministic)

    def decide_batch(self, observation: Mapping[str, Any], deterministic: bool = False) -> np.ndarray:
        """The actions (B, n) of all envs."""
        return self._thinking().decide_batch(observation, deterministic)

    def choose(
        self, observation: Mapping[str, Any], due: np.ndarray, deterministic: bool = False, remember: bool = True
    ) -> np.ndarray:
        """Decide where it is due, and keep to what was decided elsewhere: actions (B, n).

        Args:
            observation: of all B envs.
            due: (B,) bool, in which envs it decides now.
            deterministic: whether the brain explores no more.
            remember: whether what comes of it is for the memory; :meth:`experience` is to be told then.
        """
        if len(self._action) != len(due):
            self._action = np.zeros((len(due), *self.action_space.shape))
        if due.any():
            mine = observation if due.all() else _rows(observation, due)
            kept = self._experience if remember else None
            observe = getattr(self.brain, "observe", None)
            if kept is not None and observe is not None:  # a brain that learns may take notice of what it sees
                observe(mine)
            self._action[due] = self.decide_batch(mine, deterministic)
            if kept is not None:
                kept.decided(observation, self._action, due)
        return self._action.copy()

    def _thinking(self) -> Brain:
        if self.brain is None:
            raise OptionError("the entity has no brain: give one, as brain=sn.SACMLPBrain")
        return self.brain

    # -- remembering and learning -------------------------------------------------------------------------------------

    def start_memory(self, capacity: int, n_envs: int, **options: Any) -> Memory:
        """Begin to remember, with nothing: makes :attr:`memory` of ``capacity`` transitions of ``n_envs`` envs.

        Args:
            capacity: transitions to hold.
            n_envs: B.
            **options: further ones of :class:`Memory`, as ``shared=True``.
        """
        boxes = spaces.Dict(list(flat_space(self.observation_space).items()))  # type: ignore[arg-type]
        self.memory = Memory(boxes, self.action_space, capacity, n_envs, **options)
        self._experience = Experience(self.memory)
        return self.memory

    def experience(
        self,
        reward: np.ndarray,
        observation: Mapping[str, Any],
        terminated: np.ndarray,
        truncated: np.ndarray,
        due: np.ndarray,
    ) -> None:
        """Take in what came of a step in which it did what it had chosen; see :meth:`Experience.followed`."""
        if self._experience is not None:
            self._experience.followed(reward, observation, terminated, truncated, due)

    def interrupt(self, envs: Envs = None) -> None:
        """Episodes of some envs begin anew before they ended: what was under way in them is not remembered."""
        ids = env_ids(envs, self.suite.n_envs)
        if self._experience is not None and self._experience.memory.n_envs == self.suite.n_envs:
            self._experience.interrupted(slice(None) if ids is None else ids)

    def learn(self, gradient_steps: int) -> dict[str, float]:
        """Let the brain learn from the memory; returns what there is to log."""
        learn = getattr(self._thinking(), "learn", None)
        if learn is None:
            raise OptionError(f"the brain {type(self.brain).__name__} does not learn: it has no learn()")
        if self.memory is None:
            raise OptionError("the entity remembers nothing: make it with memory=100_000, or call start_memory()")
        log: dict[str, float] = learn(self.memory, gradient_steps)
        return log

    # -- making -------------------------------------------------------------------------------------------------------

    def _declare(self) -> tuple[SensorSuite, spaces.Box]:
        """Spaces, found by putting the robot into a scene that is closed again."""
        scene = Scene(dt=0.01, substeps=1)
        scene.add_object(Plane())
        for name in self._landmarks:
            scene.add_object(Sphere(radius=0.01), name=name, pos=(0.0, 0.0, 5.0))
        robot = scene.add_robot(self.make_robot(), name="robot")
        scene.build()
        live = self._suite_of(robot, 1)
        declared = [_Declared(uuid, sensor) for uuid, sensor in live.items()]
        suite = SensorSuite(1, declared, f"robot {self.robot_name!r}", privileged=bool(self._privileged))
        least, greatest = robot.action_limits.numpy().T.astype(np.float32)
        scene.close()
        return suite, spaces.Box(least, greatest, dtype=np.float32)

    def _suite_of(self, robot: Robot, n_envs: int) -> SensorSuite:
        suite = SensorSuite(n_envs, privileged=bool(self._privileged))
        for name in robot.rig.names:
            suite.add(PipelineSensor(robot.rig[name], name, name in self._privileged), f"robot {self.robot_name!r}")
        return suite

    def __repr__(self) -> str:
        return f"<TrainableEntity {self.robot_name!r}, senses {', '.join(self.suite)}>"


class _Declared(ObservationSensor):
    """A sensor that is in no scene yet."""

    def __init__(self, uuid: str, live: ObservationSensor) -> None:
        super().__init__(uuid, live.space, live.is_image)
        self.privileged = live.privileged

    def read(self) -> Any:
        raise NotBuiltError(f"{self.uuid!r} is in no scene: give the entity to a task, as tasks.make(..., entity=it)")


def _rows(observation: Any, rows: np.ndarray) -> Any:
    if isinstance(observation, Mapping):
        return {name: _rows(value, rows) for name, value in observation.items()}
    return observation[rows]


def _positive(name: str, value: Any, kind: type) -> Any:
    wanted = int | np.integer if kind is int else int | float | np.number
    if value is not None and (isinstance(value, bool) or not isinstance(value, wanted) or not 0 < value < float("inf")):
        raise OptionError(f"{name} must be {'an integer' if kind is int else 'a number'} above 0, got {value!r}")
    return None if value is None else kind(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, tuple | list) else value
