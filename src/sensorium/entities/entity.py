"""``TrainableEntity``: a robot with its own sensors, brain and memory, and no access to anything else."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from gymnasium import spaces

from sensorium._arguments import checked, checked_flag
from sensorium.entities import entity_yaml
from sensorium.entities.argument_values import (
    check_actions,
    checked_mask,
    copy_of_rows,
    plain,
    positive,
    rows_of,
    set_rows,
)
from sensorium.entities.brain import Brain, check_brain, make_brain, required_brain, with_device
from sensorium.entities.cluster_options import ClusterOptions
from sensorium.entities.declared import declare, suite_of
from sensorium.entities.memory_choice import AnyMemory
from sensorium.entities.nesting import NestedRows, Rows, same_shapes
from sensorium.entities.remembering import RememberingEntity
from sensorium.entities.rig_options import rig_of
from sensorium.entities.tensor_transitions import TensorTransitions, check_all_decide
from sensorium.entities.transition_builder import TransitionBuilder
from sensorium.errors import OptionError
from sensorium.files import write_whole
from sensorium.robots import Robot, SensorRig, make
from sensorium.robots.landmarks import warn_of_exact_landmarks
from sensorium.sensors.options import SensorOptions
from sensorium.suites import SensorSuite
from sensorium.worlds import World


class TrainableEntity(RememberingEntity):
    """A robot with its own sensors, and a brain that only receives their readings.

    The brain is made from the observation and action spaces and is passed arrays: it has no reference to the scene.

    Args:
        robot: name of a robot, or a model file.
        sensors: options of its sensors. Links and joints are those of the robot, and a camera without an orientation
            looks forward. Or a rig, or the YAML file of a rig.
        brain: class or function that makes the brain from ``(observation space, action space, **brain_options)``; None
            for an entity that is controlled from outside.
        privileged: sensors whose ground truth is also in the suite, under "privileged/NAME", for critics and teachers;
            or a rig of them.
        robot_options: further options of the robot, for example ``{"controllers": {"arm": "joint_velocity"}}``.
        landmarks: names of entities besides the robot that its sensors refer to. The task must have them. A sensor
            that reads the exact pose of one causes a warning, unless it is privileged.
        brain_options: further arguments of ``brain``.
        rate: decisions per second. Its action is held in between. Default: one decision in every step of its task.
        memory: capacity of its :class:`Memory` in transitions, over all envs, or the options of a
            :class:`VectorizedClusterBuffer`; None for no memory.

    Attributes:
        suite: its observation sensors. They have the spaces of one env, and can be read in a scene only.
        brain: the brain, or None.
        memory: its memory, made when the entity is put into a scene, or None.
        observation_space: space of one env's observation.
        action_space: space of one env's action.

    Raises:
        OptionError: an option cannot be used.

    Example:
        >>> robot = sn.TrainableEntity(
        ...     robot="balancer",
        ...     sensors=[sn.IMU(link="torso", rate=200), sn.JointEncoder(joints=[0, 1], noise=0.002)],
        ...     brain=sn.SACMLPBrain,
        ... )
        >>> env = sn.tasks.make("balance", entity=robot, n_envs=16).as_gymnasium()
    """

    @checked
    def __init__(
        self,
        robot: str | Path,
        sensors: Sequence[SensorOptions] | SensorRig | str | Path = (),
        brain: Callable[..., Brain] | None = None,
        *,
        privileged: Sequence[SensorOptions] | SensorRig = (),
        robot_options: Mapping[str, Any] | None = None,
        landmarks: Sequence[str] = (),
        brain_options: Mapping[str, Any] | None = None,
        rate: float | None = None,
        memory: int | ClusterOptions | None = None,
    ) -> None:
        self.robot_name = str(robot)
        self._robot_options = dict(robot_options or {})
        self._landmarks = tuple(landmarks)
        self.rate = positive("rate", rate, float)
        self._memory = memory if isinstance(memory, ClusterOptions) else positive("memory", memory, int)
        self._brain_type, self._brain_options = brain, dict(brain_options or {})
        check_brain(brain, self._brain_options)
        own = SensorRig.load(sensors) if isinstance(sensors, str | Path) else rig_of(sensors)
        warn_of_exact_landmarks(self.robot_name, own.sensors, self._landmarks)
        extra = rig_of(privileged, taken=[sensor.name for sensor in own.sensors])
        self._rig = SensorRig(sensors=(*own.sensors, *extra.sensors))
        self._privileged = [sensor.name for sensor in extra.sensors]
        self._owner = f"robot {self.robot_name!r}"
        self.suite, self.action_space = declare(self.make_robot(), self._landmarks, self._privileged, self._owner)
        self.observation_space = self.suite.single_space
        own_spaces = self.observation_space, self.action_space
        self.brain: Brain | None = None if brain is None else make_brain(brain, *own_spaces, self._brain_options)
        self._world: World | None = None
        self._memory_in_use: AnyMemory | None = None
        self._transitions: TransitionBuilder | TensorTransitions | None = None
        self._read_tensors: Callable[[], Mapping[str, Any]] | None = None
        self._action = np.zeros((0, *self.action_space.shape))

    # -- files --------------------------------------------------------------------------------------------------------

    @classmethod
    def from_yaml(cls, source: str | os.PathLike[str]) -> TrainableEntity:
        """Return the entity of a YAML file or YAML text; see :mod:`sensorium.entities.entity_yaml` for the format.

        Raises:
            OptionError: a value cannot be used. The message names the file and the line.
        """
        if not isinstance(source, str | os.PathLike):
            raise OptionError(f"source must be a path or YAML text, got {source!r:.80}")
        return entity_yaml.EntityFile(source).make(cls)

    @checked
    def to_yaml(self, file: str | os.PathLike[str] | None = None) -> str:
        """Return the entity as YAML text for :meth:`from_yaml`, without its weights and memory.

        Args:
            file: file to write the text to.

        Raises:
            OptionError: its brain is not a class at the top level of a module.
        """
        values: dict[str, Any] = {"robot": self.robot_name, "rate": self.rate, "memory": self._memory}
        if isinstance(self._memory, ClusterOptions):
            values["memory"] = plain(self._memory.model_dump(exclude_defaults=True))
        values |= {"robot_options": plain(self._robot_options), "landmarks": list(self._landmarks)}
        if self._brain_type is not None:
            name, options = entity_yaml.brain_name(self._brain_type), plain(self._brain_options)
            values["brain"] = {name: options} if options else name
        own, extra = (
            [entry for entry in self._rig.sensors if (entry.name in self._privileged) == truth]
            for truth in (False, True)
        )
        text = entity_yaml.to_text(values, own, extra)
        if file is not None:
            write_whole(Path(file), text.encode())
        return text

    # -- in a scene ---------------------------------------------------------------------------------------------------

    def make_robot(self, **options: Any) -> Robot:
        """Return the body of the entity, with its sensors as its rig, for ``scene.add_robot``.

        Args:
            **options: further options of the robot.
        """
        return make(self.robot_name, rig=self._rig, **self._robot_options, **options)

    @property
    def sensors(self) -> tuple[list[str], list[str]]:
        """Names of its own sensors, and of those whose ground truth is for critics and teachers."""
        names = [sensor.name for sensor in self._rig.sensors]
        return [name for name in names if name not in self._privileged], list(self._privileged)

    @checked
    def bind(self, robot: Robot, n_envs: int) -> SensorSuite:
        """Connect the entity to its body in a built scene, and return its suite.

        Args:
            robot: a robot of :meth:`make_robot`.
            n_envs: number of envs, B.

        Raises:
            OptionError: the robot has other sensors than the entity, or the entity acts in a tensor task.
        """
        if self._read_tensors is not None:
            raise OptionError("the entity has the spaces of a tensor task: make another one for tasks on arrays")
        suite = suite_of(robot, n_envs, self._privileged, self._owner)
        if suite.single_space != self.observation_space:
            raise OptionError(f"the robot {robot.name!r} has other sensors than the entity; make it with make_robot()")
        self.suite, self._world = suite, robot._world
        if isinstance(self._transitions, TransitionBuilder):
            self._transitions.discard(slice(None))
        elif self._memory is not None:
            self.start_memory(self._memory, n_envs)
        return suite

    @checked
    def prepare_tensors(
        self,
        robot: Robot,
        n_envs: int,
        observation_space: spaces.Dict,
        action_space: spaces.Box,
        device: torch.device,
        read: Callable[[], Mapping[str, Any]],
    ) -> Callable[[], None]:
        """Return a function that connects the entity to its body in a tensor task, whose spaces become its own.

        They are the sensors of the entity and what the task itself observes, such as a command, and the actions of the
        task. If they are others than before, the brain is made anew, on the device of the task, unless its options name
        another one. A memory that is empty is made anew if the number of envs differs.

        Args:
            robot: a robot of :meth:`make_robot`, in a built scene.
            n_envs: number of envs, B.
            observation_space, action_space: spaces of one env.
            device: device of the task.
            read: returns the observation of the task, by uuid.

        Raises:
            OptionError: its memory has transitions of other spaces.
        """
        kept = 0 if self.memory is None else len(self.memory)
        changed = not same_shapes(self.observation_space, observation_space) or self.action_space != action_space
        if changed and kept:
            raise OptionError(
                f"the entity has learned in a task with other observations or actions: its memory has {kept} "
                "transitions; make another entity for this task"
            )
        brain = self.brain
        if changed and self._brain_type is not None:
            options = with_device(self._brain_type, self._brain_options, device)
            brain = make_brain(self._brain_type, observation_space, action_space, options)
        suite = suite_of(robot, n_envs, self._privileged, self._owner)

        def connect() -> None:
            self.brain, self.suite = brain, suite
            self._world, self._read_tensors = robot._world, read
            if changed:
                self.observation_space, self.action_space = observation_space, action_space
                self._memory_in_use = self._transitions = None
            if isinstance(self._transitions, TensorTransitions) and (kept or self._transitions.n_envs == n_envs):
                self._transitions.discard()
            elif self._memory is not None:
                self.start_memory(self._memory, n_envs, device=device)

        return connect

    def step(self, world: object = None, *, deterministic: bool = False) -> Rows:
        """Read the suite, or the observation of a tensor task, and return the brain's actions, (B, n).

        Args:
            world: the task, scene or world that the entity is in, or a Gymnasium view of it. It is only compared with
                the entity's own world, so it is optional.
            deterministic: whether the brain acts without exploration.

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
            raise OptionError(f"the entity is not in {world!r}, but {where}; pass the task that was made with it")
        read = self.suite.read if self._read_tensors is None else self._read_tensors
        return self.decide_batch(read(), deterministic)

    # -- deciding -----------------------------------------------------------------------------------------------------

    def decide(self, observation: Mapping[str, Any], deterministic: bool = False) -> Rows:
        """Return the brain's action (n,) for the observation of one env.

        Args:
            observation: by uuid, without env axis; arrays, or tensors in a tensor task.
            deterministic: whether the brain acts without exploration.

        Raises:
            OptionError: the entity has no brain.
        """
        return required_brain(self.brain).decide(observation, deterministic)

    def decide_batch(self, observation: Mapping[str, Any], deterministic: bool = False) -> Rows:
        """Return the brain's actions (B, n) for the observations of B envs; see :meth:`decide`."""
        return required_brain(self.brain).decide_batch(observation, deterministic)

    def choose(
        self,
        observation: Mapping[str, Any],
        due: np.ndarray | None = None,
        deterministic: bool = False,
        remember: bool = True,
    ) -> Rows:
        """Return actions (B, n): new decisions in the envs that are due, and the last ones in the others.

        Args:
            observation: of all B envs.
            due: (B,) bool, the envs in which the entity decides now. Default: all; tensor tasks have no other.
            deterministic: whether the brain acts without exploration.
            remember: whether the decisions open transitions of the memory; then call :meth:`experience` after the step.
        """
        checked_flag("remember", remember)
        if self._read_tensors is not None:
            check_all_decide("due", due)
            return self._choose_tensors(observation, deterministic, remember)
        n_envs = None if self._world is None else self.suite.n_envs
        due = np.ones(self.suite.n_envs, bool) if due is None else checked_mask("due", due, n_envs)
        action = copy_of_rows(self._action, len(due))
        if n_due := np.count_nonzero(due):
            due_rows = observation if n_due == len(due) else cast("Mapping[str, Any]", rows_of(observation, due))
            transitions = self._transitions if remember and isinstance(self._transitions, TransitionBuilder) else None
            observe = getattr(self.brain, "observe", None)
            if transitions is not None and observe is not None:
                observe(due_rows)
            set_rows(action, due, self.decide_batch(due_rows, deterministic))
            if transitions is not None:
                transitions.begin(observation, action, due)
        self._action = action
        return action.copy()

    def _choose_tensors(self, observation: NestedRows, deterministic: bool, remember: bool) -> Rows:
        transitions = self._transitions if remember and isinstance(self._transitions, TensorTransitions) else None
        observe = getattr(self.brain, "observe", None)
        if transitions is not None and observe is not None:
            observe(observation)
        action = self.decide_batch(observation, deterministic)
        check_actions(action, (self.suite.n_envs, *self.action_space.shape))
        if transitions is not None:
            transitions.begin(observation, action)
        return action

    def __repr__(self) -> str:
        return f"<TrainableEntity {self.robot_name!r}, sensors {', '.join(self.suite)}>"
