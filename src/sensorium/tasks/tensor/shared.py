"""``SharedTensorTask``: several entities in one scene, whose episodes run on the device of the physics."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from sensorium._arguments import checked, checked_flag
from sensorium.errors import DivergenceError, EpisodeOverError, OptionError, SensoriumError
from sensorium.options import checked_integer
from sensorium.robots import Robot
from sensorium.tasks.checks import check_names, checked_seed
from sensorium.tasks.protocols import EntityLike
from sensorium.tasks.shared_task import check_entities, seed_of
from sensorium.tasks.task_cameras import render_env
from sensorium.tasks.tensor.config import TensorTaskConfig
from sensorium.tasks.tensor.entity_body import check_options, check_rate, without_cameras
from sensorium.tasks.tensor.memory import build_scene
from sensorium.tasks.tensor.robot_forms import make_robot
from sensorium.tasks.tensor.task import TensorTask
from sensorium.worlds import Loop, run_on_device

if TYPE_CHECKING:
    from sensorium.tasks.tensor.parallel import TensorParallelView

ByEntity = dict[str, Any]
"""Entity name -> its value, with tensors of B rows."""


class SharedTensorTask:
    """A tensor task that several entities do in the same scene, in each of B envs, on the CPU or on a GPU.

    Each entity has a body that the others can see and touch, and its own sensors, reward and reasons to fail. All
    decide in every step. An env begins a new episode in the step in which the episode of one of its entities ends: for
    those that failed it is terminated, for the others truncated. So every step of every entity counts, and nothing
    waits for the device.

    Attributes:
        scene: the built scene.
        entities: the entities by name.
        members: the task of each entity, with its ``robot``, ``reward``, ``log``, ...; do not step or reset them.
        device: device of all tensors.

    Args:
        kind: class of the task.
        config: its options, for all entities.
        entities: the entities by name, each of them once.
        spacing: distance between neighbouring entities along y, m.

    Raises:
        OptionError: several entities cannot do the task, or an argument cannot be used.

    Example:
        >>> task = sn.tasks.make("walk", entities={"left": dog, "right": other}, n_envs=1024, device="cuda")
        >>> observations, infos = task.reset()
        >>> rewards = task.rollout(100)  # their brains decide
    """

    @checked
    def __init__(
        self,
        kind: type[TensorTask[Any]],
        config: TensorTaskConfig,
        entities: Mapping[str, EntityLike],
        spacing: float = 1.0,
    ) -> None:
        check_entities(entities, spacing)
        check_options(config.model_fields_set)
        if config.cameras:
            raise OptionError("cameras cannot be options of a task with several entities on tensors; remove cameras")
        self.name, self.config, self.n_envs = kind.name, config, config.n_envs
        self.entities: Mapping[str, EntityLike] = MappingProxyType(dict(entities))
        # Made without __init__, which would make a scene for each of them.
        self.members: dict[str, TensorTask[Any]] = {name: kind.__new__(kind) for name in entities}
        bodies = {name: without_cameras(entity.make_robot(), name) for name, entity in entities.items()}
        for name, member in self.members.items():
            check_rate(entities[name], config.dt, name)
            member.config = config.model_copy(update={"robot": bodies[name].options.kind or "own"})
            member.n_envs = config.n_envs
            member.check_shared()
        first, middle = next(iter(self.members.values())), (len(entities) - 1) / 2
        first._make_scene()
        self.scene = first.scene
        for number, (name, member) in enumerate(self.members.items()):
            member.scene, member.cameras = self.scene, {}
            body = make_robot(config, bodies[name], entities[name])
            member._join(_moved(body, (middle - number) * spacing), name, entities[name])
        for name, member in self.members.items():
            member.draws_shared = name == min(self.members)
            member.others = tuple(each for other, each in self.members.items() if other != name)
        build_scene(self.scene, config)
        self.device = self.scene.world.device
        connects = [member._bind() for member in self.members.values()]
        for member, connect in zip(self.members.values(), connects, strict=True):
            connect()  # after the last that can raise an error
            member._is_shared = True
        self.scene.world.on_reset = self._start
        self._loop = Loop(self.scene, self._act, self._judge, first._fresh, self._observe)
        self._autoreset = True
        self._observations: ByEntity = {}
        self.reseed(config.seed)

    # -- in each step, on the device ----------------------------------------------------------------------------------

    def _start(self, mask: torch.Tensor) -> None:
        for member in self.members.values():
            member._start(mask)

    def _act(self) -> None:
        for member in self.members.values():
            member.act()

    def _judge(self) -> None:
        """Compute rewards and ends. The episodes of all entities of an env end together."""
        judged = [(member, *member._evaluate()) for member in self.members.values()]
        ends = torch.stack([each for member, *_ in judged for each in (member.terminated, member.truncated)]).any(0)
        for member, terms, failures in judged:
            member._ended.copy_(ends & ~member._over)
            member.truncated.copy_(ends & ~member.terminated)
            member._finish(terms, failures)
            member._update_final()

    def _observe(self) -> None:
        for member in self.members.values():
            member._update_observations()

    # -- episodes -----------------------------------------------------------------------------------------------------

    @property
    def autoreset(self) -> bool:
        """Whether an env whose episode ends begins a new one in the same step."""
        return self._autoreset

    @autoreset.setter
    def autoreset(self, value: bool) -> None:
        self._autoreset = checked_flag("autoreset", value)
        for member in self.members.values():
            member.autoreset = value

    def reset(self) -> tuple[ByEntity, ByEntity]:
        """Begin an episode in every env.

        The random values of an entity's episode depend only on the seed, the entity's name, the env and the number of
        its episode: not on the device, the number of envs, or the other entities.

        Returns:
            By entity: the observation by uuid; and info, ``{"episode": (B,)}``.
        """
        for entity in self.entities.values():
            entity.interrupt()
        envs = torch.arange(self.n_envs, device=self.device)
        first = next(iter(self.members.values())).episode + 1
        self.scene.set_episodes(first, env_ids=envs)
        for member in self.members.values():
            member._restart(first, envs)
        self.scene.reset()
        run_on_device(self._observe, self.scene)
        self._observations = {name: member.observation() for name, member in self.members.items()}
        return self._observations, {name: {"episode": member.episode.clone()} for name, member in self.members.items()}

    def reseed(self, seed: int) -> None:
        """Set the seed of all later episodes; see :meth:`TensorTask.reseed`. Call :meth:`reset` after it."""
        seed = checked_seed(seed)
        self._observations = {}  # step() needs a reset
        for name, member in self.members.items():
            member.reseed(seed_of(name, seed))

    def step(
        self, actions: Mapping[str, torch.Tensor | np.ndarray]
    ) -> tuple[ByEntity, ByEntity, ByEntity, ByEntity, ByEntity]:
        """Apply the actions of all entities for ``dt`` seconds, and begin new episodes where one ended.

        Args:
            actions: entity -> (B, n), as of :meth:`TensorTask.step`.

        Returns:
            By entity: observation by uuid, of the new episode where one began; reward (B,), terminated (B,), truncated
            (B,); and info, ``{"final_obs": ...}``: the observation at the end of the step, before new episodes began.
            All are tensors on :attr:`device` that later steps do not change.

        Raises:
            EpisodeOverError: ``reset()`` was not called.
            OptionError: an action is missing, has the wrong shape, or, on the CPU, is not finite.
            SensoriumError: on the CPU, a reward is NaN or infinite; names the entity, the term, the env and the step.
        """
        if not self._observations:
            raise EpisodeOverError("call reset() before the first step()")
        if not isinstance(actions, Mapping):
            raise OptionError(f"actions must be a dict of entity -> (B, n), got {type(actions).__name__}")
        check_names("entity", list(actions), self.members)
        for name, member in self.members.items():
            if name not in actions:
                raise OptionError(f"the action of {name!r} is missing, and all entities decide in every step")
            member._take(actions[name], f"the action of {name!r}")
        with suppress(DivergenceError):  # the logs count the envs, whose episodes end
            self._loop()
        steps = {}
        for name, member in self.members.items():
            try:
                steps[name] = member._last_step()
            except SensoriumError as error:  # the step was made
                self._observations = {name: each.observation() for name, each in self.members.items()}
                for entity in self.entities.values():
                    entity.interrupt()
                raise type(error)(f"{name}: {error}") from None
        parts: list[ByEntity] = [{name: step[place] for name, step in steps.items()} for place in range(5)]
        self._observations, rewards, terminated, truncated, infos = parts
        return self._observations, rewards, terminated, truncated, infos

    @checked
    def rollout(self, steps: int = 1, deterministic: bool = False, remember: bool = True) -> dict[str, float]:
        """Step the task with the decisions of the entities' own brains.

        Args:
            steps: number of steps.
            deterministic: whether the brains act without exploration.
            remember: whether entities with a memory store their transitions.

        Returns:
            By entity: the mean reward per step. Waits for the device once, at the end.

        Raises:
            OptionError: an entity has no brain, or ``autoreset`` is False.
        """
        steps = checked_integer("steps", steps, lower=1)
        if not self.autoreset:
            raise OptionError("rollout() continues over episode ends: set task.autoreset = True")
        if not self._observations:
            self.reset()
        if not remember:  # a later rollout would complete the open transitions with states of other steps
            for entity in self.entities.values():
                entity.interrupt()
        sums = torch.zeros(len(self.members), device=self.device)
        for _ in range(steps):
            actions = {
                name: torch.as_tensor(entity.choose(self._observations[name], None, deterministic, remember))
                for name, entity in self.entities.items()
            }
            _, rewards, terminated, truncated, infos = self.step(actions)
            sums += torch.stack([reward.mean() for reward in rewards.values()])
            for name, entity in self.entities.items():
                if remember:
                    last = infos[name]["final_obs"]
                    entity.experience(rewards[name], last, terminated[name], truncated[name])
        return dict(zip(self.members, (sums / steps).tolist(), strict=True))

    # -- views --------------------------------------------------------------------------------------------------------

    def as_parallel_env(
        self,
        flatten: bool = False,
        render_mode: str | None = None,
        output: Literal["numpy", "torch"] = "numpy",
    ) -> TensorParallelView:
        """Return the task as a PettingZoo ``ParallelEnv``; see :class:`TensorParallelView`.

        Raises:
            OptionError: PettingZoo is not installed, or the task cannot be a ``ParallelEnv``.
        """
        try:
            from sensorium.tasks.tensor.parallel import TensorParallelView
        except ImportError:
            raise OptionError(
                "as_parallel_env needs PettingZoo, which is not installed: pip install 'sensorium[train]'"
            ) from None

        return TensorParallelView(self, flatten, render_mode, output)

    def render(self, env: int = 0) -> np.ndarray:
        """Return an image of one env with its robots in view, (480, 640, 3) uint8."""
        return render_env(self.scene, [member.robot for member in self.members.values()], env)

    def close(self) -> None:
        """Free the scene."""
        self.scene.close()

    def __repr__(self) -> str:
        names = ", ".join(self.entities)
        return f"<SharedTensorTask {self.name!r} of {self.n_envs} envs on {self.device}, entities {names}>"


def _moved(robot: Robot, distance: float) -> Robot:
    """Return a copy of a robot that begins some metres to the left."""
    x, y, z = robot.options.pos
    return type(robot)(robot.options.model_copy(update={"pos": (x, y + distance, z)}))
