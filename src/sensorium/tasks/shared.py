"""``SharedTask``: several entities in one scene, each at its own rate, each with a task of its own."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from sensorium.errors import EpisodeOverError, NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.suites import SensorSuite
from sensorium.tasks.acting import Embodied
from sensorium.tasks.checks import checked_action, checked_seed
from sensorium.tasks.config import TaskConfig
from sensorium.tasks.task import Task, light, step
from sensorium.tasks.views import picture
from sensorium.worlds import Envs, Scene, env_ids

ByEntity = dict[str, Any]
"""Name of an entity -> its own, as arrays of B rows."""


class SharedTask:
    """A task that several entities do side by side, in each of B envs.

    Every entity has a body in the one scene, which the others can see and touch; its own suite, reward and end. It
    decides at its own rate: between its decisions its action is held, and what it is told then does not count. One
    whose episode has ended stays where it is, told nothing, until the env begins anew: when all of its entities have
    ended, by ``reset(envs)``, or at once with ``autoreset``.

    Attributes:
        scene: the scene, built.
        entities: who acts, by name.
        members: the task of each entity, with its ``robot``, ``suite``, ``terminated``, ...; do not step them.
        periods: steps from one decision of each entity to the next.

    Example:
        >>> task = sn.tasks.make("balance", entities={"left": robot, "right": other}, n_envs=4, seed=0)
        >>> observations, infos = task.reset()
        >>> actions = {"left": np.zeros((4, 2)), "right": np.zeros((4, 2))}
        >>> observations, rewards, terminated, truncated, infos = task.step(actions)
        >>> task.live(100)                                  # or let them decide by themselves, and remember it

    Args:
        kind: which task.
        config: its options, which hold for all entities.
        entities: who acts: each another one.
        spacing: metres from one entity's place to the next, along y.
    """

    def __init__(
        self, kind: type[Task[Any]], config: TaskConfig, entities: Mapping[str, Embodied], spacing: float = 1.0
    ) -> None:
        _check(kind, config, entities, spacing)
        self.name, self.config, self.n_envs = kind.name, config, config.n_envs
        self.entities = dict(entities)
        self.periods = {name: period_of(name, entity, config.dt) for name, entity in entities.items()}
        # they take part in one scene, instead of making one each
        self.members: dict[str, Task[Any]] = {name: kind.__new__(kind) for name in entities}
        first, middle = next(iter(self.members.values())), (len(entities) - 1) / 2
        self.scene = Scene(dt=config.dt, substeps=config.substeps, **first._scene_options())
        for number, (name, member) in enumerate(self.members.items()):
            body = entities[name].make_robot()
            own = config.model_copy(update={"robot": body.options.kind or "own"})
            member._prepare(own, body, self.scene, (0.0, (middle - number) * spacing))
        light(self.scene)
        first._add_scene(self.scene)
        for name, member in self.members.items():
            member._enter(name)
        self.scene.build(n_envs=config.n_envs, seed=config.seed, threads=config.threads)
        for name, member in self.members.items():
            member._wake(self.entities[name])
        self._observations: ByEntity = {}
        self._seed_members(config.seed)

    # -- what it is like ----------------------------------------------------------------------------------------------

    @property
    def suites(self) -> dict[str, SensorSuite]:
        """What each entity senses."""
        return {name: member.suite for name, member in self.members.items() if member.suite is not None}

    def is_done(self) -> np.ndarray:
        """In which envs every entity has ended, (B,) bool."""
        return np.logical_and.reduce([member.is_done() for member in self.members.values()])

    def due(self, name: str) -> np.ndarray:
        """In which envs an entity decides now, (B,) bool."""
        member = self._member(name)
        return ~member.is_done() & (member.step_count % self.periods[name] == 0)

    # -- running ------------------------------------------------------------------------------------------------------

    def reset(self, envs: Envs = None) -> tuple[ByEntity, ByEntity]:
        """Begin an episode in some envs (default: all).

        What is drawn for an entity depends on the seed, its name, the env, and how many episodes it has had, alone.

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
        """Draw all that comes from now on as a task made with this seed would; call ``reset()`` after it.

        Noise of sensors begins anew, from the seed with which the task was made.
        """
        self._seed_members(checked_seed(seed))

    def step(self, actions: Mapping[str, Any]) -> tuple[ByEntity, ByEntity, ByEntity, ByEntity, ByEntity]:
        """Let all entities that have not ended go on, for ``dt`` seconds.

        Args:
            actions: of each entity, (B, n); rows of envs in which it is not due, or has ended, do not count. An entity
                that is due in no env may be left out.

        Returns:
            By entity: observation, reward (B,) float32, terminated (B,), truncated (B,), and info: ``{"success": (B,),
            "due": (B,)}``, where "due" tells in which envs its next action counts. With ``autoreset`` also
            "final_obs", what all envs observed last, and "_final_obs" (B,), which of them began anew.

        Raises:
            EpisodeOverError: every env is done; or there was no reset yet.
            OptionError: an action is missing, or has another shape or type, or is not finite. Nothing was done.
        """
        if not self._has_begun():
            raise EpisodeOverError("call reset() before the first step()")
        if self.is_done().all():
            raise EpisodeOverError("every env is done: call reset(), or make the task with autoreset=True")
        told = self._checked(actions)
        running = {name: ~member.is_done() for name, member in self.members.items()}
        for name, action in told.items():
            self.members[name]._tell(action, self.due(name))
        failed = step(self.scene)
        rewards: ByEntity = {}
        for name, member in self.members.items():
            member._assess(running[name], {env: text for env, text in failed.items() if running[name][env]})
            rewards[name] = np.where(running[name], member._reward(), 0.0).astype(np.float32)
            rewards[name][list(failed)] = 0.0  # the state that they were put to was not reached
            ended = running[name] & member.is_done()
            if ended.any():
                member._tell(np.zeros((self.n_envs, member.robot.n_actions)), ended)
        self._observations = self._observe()
        terminated = {name: member.terminated.copy() for name, member in self.members.items()}
        truncated = {name: member.truncated.copy() for name, member in self.members.items()}
        infos: ByEntity = {name: {"success": member.succeeded.copy()} for name, member in self.members.items()}
        self._end(self.is_done() & np.logical_or.reduce(list(running.values())), infos)
        for name, info in infos.items():
            info["due"] = self.due(name)
            if failed:
                info["failed"] = dict(failed)
        return self._observations, rewards, terminated, truncated, infos

    def _end(self, ended: np.ndarray, infos: ByEntity) -> None:
        """Begin envs anew in which all have ended, or let them hold still."""
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

    def live(self, steps: int = 1, deterministic: bool = False, remember: bool = True) -> dict[str, float]:
        """Let every entity decide by itself when it is due, from what it senses alone; envs that are done begin anew.

        Args:
            steps: how many.
            deterministic: whether brains explore no more.
            remember: whether entities that have a memory remember what they live through.

        Returns:
            By entity: the mean reward of a step in which it had not ended.
        """
        if not self.config.autoreset:
            raise OptionError("live() goes on over ends of episodes: make the task with autoreset=True")
        if not self._has_begun():
            self.reset()
        if not remember:  # what is under way would be taken up later, in another situation
            for entity in self.entities.values():
                entity.interrupt()
        sums, counts = dict.fromkeys(self.members, 0.0), dict.fromkeys(self.members, 0)
        for _ in range(steps):
            for name, member in self.members.items():
                counts[name] += int((~member.is_done()).sum())
            chosen = {
                name: entity.choose(self._observations[name], self.due(name), deterministic, remember)
                for name, entity in self.entities.items()
            }
            seen, rewards, terminated, truncated, infos = self.step(chosen)
            for name, entity in self.entities.items():
                sums[name] += float(rewards[name].sum())
                if remember:
                    entity.interrupt(list(infos[name].get("failed", ())))
                    last = infos[name].get("final_obs", seen[name])
                    entity.experience(rewards[name], last, terminated[name], truncated[name], infos[name]["due"])
        return {name: sums[name] / max(counts[name], 1) for name in sums}

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _has_begun(self) -> bool:
        """Whether all envs were reset, since the task was made or seeded."""
        return all(bool((member.episode >= 0).all()) for member in self.members.values())

    def _member(self, name: str) -> Task[Any]:
        if name not in self.members:
            hint = did_you_mean(name, self.members) or f"; there are {shorten(self.members)}"
            raise NameNotFoundError(f"there is no entity {name!r}{hint}")
        return self.members[name]

    def _checked(self, actions: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Actions (B, n) of the entities that are due somewhere."""
        if not isinstance(actions, Mapping):
            raise OptionError(f"actions must be a dict of entity -> (B, n), got {type(actions).__name__}")
        for name in actions:
            self._member(name)
        told = {}
        for name, member in self.members.items():
            due = self.due(name)
            if not due.any():
                continue
            if name not in actions:
                raise OptionError(f"the action of {name!r} is missing: it decides in this step")
            robot = member.robot
            whose = f"the action of {name!r}"
            told[name] = checked_action(actions[name], robot.action_slices, robot.n_actions, due, whose)
        return told

    def _observe(self) -> ByEntity:
        return {name: member._observe() for name, member in self.members.items()}

    def _reset(self, ids: np.ndarray) -> None:
        draws = {name: member._draws(ids) for name, member in self.members.items()}
        self.scene.reset(ids)
        for name, member in self.members.items():
            member._set_up(ids, draws[name])
        self.scene.forward(ids)
        for name, member in self.members.items():
            member._restart(ids, draws[name])

    def _seed_members(self, seed: int) -> None:
        """Seeds of their own, which depend on their names alone."""
        for name, member in self.members.items():
            sequence = np.random.SeedSequence([seed, zlib.crc32(name.encode())])
            member.reseed(int(sequence.generate_state(1)[0]))

    def as_parallel_env(self, **options: Any) -> Any:
        """The task as a ``ParallelEnv`` of PettingZoo; see :class:`sensorium.tasks.parallel.ParallelView`.

        Args:
            **options: ``flatten`` and ``render_mode``.
        """
        try:
            from sensorium.tasks.parallel import ParallelView
        except ImportError:
            raise OptionError(
                "as_parallel_env needs PettingZoo, which is not installed: pip install 'sensorium[train]'"
            ) from None

        return ParallelView(self, **options)

    def render(self, env: int = 0) -> np.ndarray:
        """A picture of one env to look at, (480, 640, 3) uint8."""
        return picture(self.scene, [member.robot for member in self.members.values()], env)

    def close(self) -> None:
        """Free the scene."""
        self.scene.close()

    def __repr__(self) -> str:
        return f"<SharedTask {self.name!r} of {self.n_envs} envs, entities {', '.join(self.entities)}>"


def period_of(name: str, entity: Embodied, dt: float) -> int:
    """Steps from one decision of an entity to the next."""
    if entity.rate is None:
        return 1
    steps = 1 / (entity.rate * dt)
    if steps < 1 - 1e-9 or not math.isclose(steps, round(steps), rel_tol=1e-6):
        near = dict.fromkeys(f"{1 / (max(1, math.floor(steps) + more) * dt):g}" for more in (0, 1))
        raise OptionError(
            f"{name}: rate must be 1 / dt = {1 / dt:g} decisions per second divided by a whole number, got "
            f"{entity.rate:g}; near to it: {' and '.join(near)}"
        )
    return round(steps)


def _check(kind: type[Task[Any]], config: TaskConfig, entities: Any, spacing: float) -> None:
    if not kind.shareable:
        raise OptionError(f"the task {kind.name!r} is for one robot: several entities can do 'balance' together")
    if not isinstance(entities, Mapping) or not entities:
        raise OptionError(f"entities must be a dict of name -> entity, at least one, got {entities!r}")
    for name, entity in entities.items():
        if not isinstance(name, str) or not hasattr(entity, "make_robot"):
            raise OptionError(f"entities must be a dict of name -> TrainableEntity, got {name!r}: {entity!r}")
    if len({id(entity) for entity in entities.values()}) < len(entities):
        raise OptionError("an entity has one body: give each name of entities an entity of its own")
    if not math.isfinite(spacing) or spacing <= 0:
        raise OptionError(f"spacing must be a number above 0, got {spacing!r}")
    if config.cameras:
        raise OptionError("cameras are senses of entities here: give them sn.Camera(...) among their sensors")
