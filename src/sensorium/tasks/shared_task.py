"""``SharedTask``: several entities in one scene, each with its own task and decision rate."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sensorium._arguments import checked
from sensorium.errors import EpisodeOverError, OptionError, SensoriumError
from sensorium.options import checked_integer
from sensorium.suites import SensorSuite
from sensorium.tasks import hook_results
from sensorium.tasks.checks import ActionLike, check_names, checked_action, checked_seed
from sensorium.tasks.config import TaskConfig
from sensorium.tasks.episodes import step_scene
from sensorium.tasks.protocols import EntityLike
from sensorium.tasks.task import Task, add_light
from sensorium.tasks.task_cameras import render_env
from sensorium.worlds import Envs, Scene, env_ids

if TYPE_CHECKING:
    from sensorium.tasks.parallel import ParallelView

ByEntity = dict[str, Any]
"""Entity name -> its value, with arrays of B rows."""


class SharedTask:
    """A task that several entities do in the same scene, in each of B envs.

    Each entity has a body that the others can see and touch, and its own suite, reward and episode end. It decides at
    its own rate: between two decisions its action is held, and actions passed for it are ignored. An entity whose
    episode has ended stays where it is and is not commanded. When the episodes of all entities of an env have ended,
    the env holds still until ``reset(envs)``, or is reset in the same step with ``autoreset``.

    Attributes:
        scene: the built scene.
        entities: the entities by name.
        members: the task of each entity, with its ``robot``, ``suite``, ``terminated``, ...; do not step them.
        periods: steps between two decisions of each entity.

    Example:
        >>> task = sn.tasks.make("balance", entities={"left": robot, "right": other}, n_envs=4, seed=0)
        >>> observations, infos = task.reset()
        >>> actions = {"left": np.zeros((4, 2)), "right": np.zeros((4, 2))}
        >>> observations, rewards, terminated, truncated, infos = task.step(actions)

    Args:
        kind: class of the task.
        config: its options, for all entities.
        entities: the entities by name, each of them once.
        spacing: distance between neighbouring entities along y, m.

    Raises:
        OptionError: the task is not shareable, or an argument cannot be used.
    """

    @checked
    def __init__(
        self, kind: type[Task[Any]], config: TaskConfig, entities: Mapping[str, EntityLike], spacing: float = 1.0
    ) -> None:
        if not kind.shareable:
            raise OptionError(
                f"the task {kind.name!r} is for one robot; several entities can only do 'balance' together, or 'walk' "
                "on tensors"
            )
        check_entities(entities, spacing)
        if config.cameras:
            raise OptionError(
                "cameras cannot be options of a task with several entities; give each entity sn.Camera(...) among its "
                "sensors"
            )
        self.name, self.config, self.n_envs = kind.name, config, config.n_envs
        self.entities = dict(entities)
        self.periods = {name: period_of(name, entity, config.dt) for name, entity in entities.items()}
        # Made without __init__, which would make a scene for each of them.
        self.members: dict[str, Task[Any]] = {name: kind.__new__(kind) for name in entities}
        first, middle = next(iter(self.members.values())), (len(entities) - 1) / 2
        options = hook_results.checked_scene_options(first, "scene_options", first.scene_options())
        self.scene = Scene(dt=config.dt, substeps=config.substeps, **options)
        for number, (name, member) in enumerate(self.members.items()):
            body = entities[name].make_robot()
            own = config.model_copy(update={"robot": body.options.kind or "own"})
            member._use(own, body, self.scene, (0.0, (middle - number) * spacing))
        add_light(self.scene)
        first.add_scene(self.scene)
        for name, member in self.members.items():
            member._add_robot(name)
        self.scene.build(n_envs=config.n_envs, seed=config.seed, threads=config.threads)
        for name, member in self.members.items():
            member._bind(self.entities[name])
        self._observations: ByEntity = {}
        self._seed_members(config.seed)

    # -- state --------------------------------------------------------------------------------------------------------

    @property
    def suites(self) -> dict[str, SensorSuite]:
        """The suite of each entity."""
        return {name: member.suite for name, member in self.members.items() if member.suite is not None}

    def is_done(self) -> np.ndarray:
        """Return in which envs the episodes of all entities have ended, (B,) bool."""
        return np.logical_and.reduce([member.is_done() for member in self.members.values()])

    def due(self, name: str) -> np.ndarray:
        """Return in which envs an entity decides in the next step, (B,) bool."""
        member = self._member(name)
        return ~member.is_done() & (member.step_count % self.periods[name] == 0)

    # -- reset --------------------------------------------------------------------------------------------------------

    def reset(self, envs: Envs = None) -> tuple[ByEntity, ByEntity]:
        """Begin an episode in some envs.

        The random values of an entity's episode depend only on the seed, the entity's name, the env and the number of
        episodes that the env has had.

        Args:
            envs: the envs; None for all.

        Returns:
            By entity: the observation of all envs; and info, ``{"episode": (B,), "due": (B,)}``.
        """
        ids = env_ids(envs, self.n_envs)
        if ids is None:
            ids = np.arange(self.n_envs, dtype=np.int32)
        self._reset(ids)
        for entity in self.entities.values():
            entity.interrupt(ids)
        self._observations = self._observe()
        return self._observations, {
            name: {"episode": member.episode.copy(), "due": self.due(name)} for name, member in self.members.items()
        }

    def reseed(self, seed: int) -> None:
        """Set the seed of all later episodes; see :meth:`sensorium.tasks.Task.reseed`. Call ``reset()`` after it."""
        self._seed_members(checked_seed(seed))

    # -- step ---------------------------------------------------------------------------------------------------------

    def step(self, actions: Mapping[str, ActionLike]) -> tuple[ByEntity, ByEntity, ByEntity, ByEntity, ByEntity]:
        """Step all entities whose episodes have not ended, for ``dt`` seconds.

        Args:
            actions: entity -> (B, n). Rows of envs in which the entity is not due or has ended are ignored. The action
                of an entity that is due in no env is optional.

        Returns:
            By entity: observation, reward (B,) float32, terminated (B,), truncated (B,), and info: ``{"success": (B,),
            "due": (B,)}``, where "due" is the mask of the envs in which its next action is used. With ``autoreset``, if
            an env ended, also "final_obs", the last observation of all envs, and "_final_obs" (B,), the mask of the
            envs that were reset.

        Raises:
            EpisodeOverError: every env is done, or an env was never reset.
            OptionError: an action is missing, has the wrong shape or type, or is not finite. The state is unchanged.
        """
        if not self._has_begun():
            raise EpisodeOverError("call reset() before the first step()")
        if self.is_done().all():
            raise EpisodeOverError("every env is done: call reset(), or make the task with autoreset=True")
        commands = self._checked(actions)
        running = {name: ~member.is_done() for name, member in self.members.items()}
        for name, command in commands.items():
            self.members[name]._command(command, self.due(name))
        failed = step_scene(self.scene)
        rewards: ByEntity = {}
        for name, member in self.members.items():
            member._judge_step(running[name], {env: text for env, text in failed.items() if running[name][env]})
            rewards[name] = np.where(running[name], member._sum_rewards(), 0.0).astype(np.float32)
            rewards[name][list(failed)] = 0.0  # a failed env is put to a state that the action did not lead to
            ended = running[name] & member.is_done()
            if ended.any():
                member._command(np.zeros((self.n_envs, member.robot.n_actions)), ended)
        self._observations = self._observe()
        self._check_rewards(rewards)
        terminated = {name: member.terminated.copy() for name, member in self.members.items()}
        truncated = {name: member.truncated.copy() for name, member in self.members.items()}
        infos: ByEntity = {name: {"success": member.succeeded.copy()} for name, member in self.members.items()}
        self._end_envs(self.is_done() & np.logical_or.reduce(list(running.values())), infos)
        for name, info in infos.items():
            info["due"] = self.due(name)
            if failed:
                info["failed"] = dict(failed)
        return self._observations, rewards, terminated, truncated, infos

    def _check_rewards(self, rewards: ByEntity) -> None:
        """Raise SensoriumError if a reward is NaN or infinite. The step was made, without complete transitions."""
        try:
            for name, member in self.members.items():
                hook_results.check_finite(member, rewards[name], member.reward_terms)
        except SensoriumError:
            for entity in self.entities.values():
                entity.interrupt()
            raise

    def _end_envs(self, ended: np.ndarray, infos: ByEntity) -> None:
        """Reset envs in which all entities have ended, or hold them."""
        if not ended.any():
            return
        ids = np.flatnonzero(ended).astype(np.int32)
        if not self.config.autoreset:
            self.scene.hold(ids)
            return
        for name, info in infos.items():
            info |= {"final_obs": self._observations[name], "_final_obs": ended.copy()}
        self._reset(ids)
        self._observations = self._observe()

    @checked
    def rollout(self, steps: int = 1, deterministic: bool = False, remember: bool = True) -> dict[str, float]:
        """Step the task with the decisions of the entities' own brains. Envs that are done are reset.

        Args:
            steps: number of steps.
            deterministic: whether the brains act without exploration.
            remember: whether entities with a memory store their transitions.

        Returns:
            By entity: the mean reward per step in which its episode had not ended.

        Raises:
            OptionError: the task was made without ``autoreset=True``.

        Example:
            >>> task = sn.tasks.make("balance", entities={"robot": robot}, n_envs=4, autoreset=True)
            >>> rewards = task.rollout(100)
        """
        steps = checked_integer("steps", steps)
        if not self.config.autoreset:
            raise OptionError("rollout() continues over episode ends: make the task with autoreset=True")
        if not self._has_begun():
            self.reset()
        if not remember:  # a later rollout would complete the open transitions with states of other steps
            for entity in self.entities.values():
                entity.interrupt()
        sums, counts = dict.fromkeys(self.members, 0.0), dict.fromkeys(self.members, 0)
        for _ in range(steps):
            for name, member in self.members.items():
                counts[name] += int((~member.is_done()).sum())
            actions = {
                name: entity.choose(self._observations[name], self.due(name), deterministic, remember)
                for name, entity in self.entities.items()
            }
            observations, rewards, terminated, truncated, infos = self.step(actions)
            for name, entity in self.entities.items():
                sums[name] += float(rewards[name].sum())
                if remember:
                    entity.interrupt(list(infos[name].get("failed", ())))
                    last = infos[name].get("final_obs", observations[name])
                    entity.experience(rewards[name], last, terminated[name], truncated[name], infos[name]["due"])
        return {name: sums[name] / max(counts[name], 1) for name in sums}

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _has_begun(self) -> bool:
        """Return whether all envs were reset since the task was made or seeded."""
        return all(bool((member.episode >= 0).all()) for member in self.members.values())

    def _member(self, name: str) -> Task[Any]:
        check_names("entity", [name], self.members)
        return self.members[name]

    def _checked(self, actions: Mapping[str, ActionLike]) -> dict[str, np.ndarray]:
        """Return the actions (B, n) of the entities that are due in any env."""
        if not isinstance(actions, Mapping):
            raise OptionError(f"actions must be a dict of entity -> (B, n), got {type(actions).__name__}")
        for name in actions:
            self._member(name)
        commands = {}
        for name, member in self.members.items():
            due = self.due(name)
            if not due.any():
                continue
            if name not in actions:
                raise OptionError(f"the action of {name!r} is missing, and the entity decides in this step")
            robot = member.robot
            label = f"the action of {name!r}"
            commands[name] = checked_action(actions[name], robot.action_slices, robot.n_actions, due, label)
        return commands

    def _observe(self) -> ByEntity:
        return {name: member._observe() for name, member in self.members.items()}

    def _reset(self, ids: np.ndarray) -> None:
        rngs = {name: member._rngs(ids) for name, member in self.members.items()}
        self.scene.reset(ids)
        for name, member in self.members.items():
            member._place_episode(ids, rngs[name])
        self.scene.forward(ids)
        for name, member in self.members.items():
            member._restart(ids, rngs[name])

    def _seed_members(self, seed: int) -> None:
        for name, member in self.members.items():
            member.reseed(seed_of(name, seed))

    # -- views --------------------------------------------------------------------------------------------------------

    def as_parallel_env(self, flatten: bool = False, render_mode: str | None = None) -> ParallelView:
        """Return the task as a PettingZoo ``ParallelEnv``; see :class:`sensorium.tasks.parallel.ParallelView`.

        Raises:
            OptionError: PettingZoo is not installed, or the task cannot be a ``ParallelEnv``.
        """
        try:
            from sensorium.tasks.parallel import ParallelView
        except ImportError:
            raise OptionError(
                "as_parallel_env needs PettingZoo, which is not installed: pip install 'sensorium[train]'"
            ) from None

        return ParallelView(self, flatten, render_mode)

    def render(self, env: int = 0) -> np.ndarray:
        """Return an image of one env with its robots in view, (480, 640, 3) uint8."""
        return render_env(self.scene, [member.robot for member in self.members.values()], env)

    def close(self) -> None:
        """Free the scene."""
        self.scene.close()

    def __repr__(self) -> str:
        return f"<SharedTask {self.name!r} of {self.n_envs} envs, entities {', '.join(self.entities)}>"


def seed_of(name: str, seed: int) -> int:
    """Return the seed of an entity's episodes, which depends only on its name and the seed of the task."""
    return int(np.random.SeedSequence([seed, zlib.crc32(name.encode())]).generate_state(1)[0])


def period_of(name: str, entity: EntityLike, dt: float) -> int:
    """Return the number of steps between two decisions of an entity.

    Args:
        name: the entity's name, for messages.
        entity: the entity.
        dt: duration of one step, s.

    Raises:
        OptionError: the entity's rate is not 1 / dt divided by a whole number.
    """
    if entity.rate is None:
        return 1
    steps = 1 / (entity.rate * dt)
    if steps < 1 - 1e-9 or not math.isclose(steps, round(steps), rel_tol=1e-6):
        near = dict.fromkeys(f"{1 / (max(1, math.floor(steps) + more) * dt):g}" for more in (0, 1))
        raise OptionError(
            f"{name}: rate must be 1 / dt = {1 / dt:g} decisions per second divided by a whole number, got "
            f"{entity.rate:g}; the nearest rates are {' and '.join(near)}"
        )
    return round(steps)


def check_entities(entities: object, spacing: float) -> None:
    """Check the entities of a task.

    Args:
        entities: the entities by name.
        spacing: distance between neighbouring ones, m.

    Raises:
        OptionError: they are no mapping of names to different entities, or the distance is not > 0.
    """
    if not isinstance(entities, Mapping) or not entities:
        raise OptionError(f"entities must be a dict of name -> TrainableEntity with at least one, got {entities!r}")
    for name, entity in entities.items():
        if not isinstance(name, str) or not hasattr(entity, "make_robot"):
            raise OptionError(f"entities must be a dict of name -> TrainableEntity, got {name!r}: {entity!r}")
    if len({id(entity) for entity in entities.values()}) < len(entities):
        raise OptionError("entities must be different objects, since an entity has one body; make one for each name")
    if not math.isfinite(spacing) or spacing <= 0:
        raise OptionError(f"spacing must be finite and > 0, got {spacing!r}")
