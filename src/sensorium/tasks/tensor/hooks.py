"""``TensorHooks``: what a tensor task defines, with defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import torch

from sensorium.deploy.contract import ActionTerm, Source
from sensorium.errors import OptionError
from sensorium.robots import Robot
from sensorium.tasks.tensor.config import TensorTaskConfig
from sensorium.tasks.tensor.episode_draws import EpisodeDraws
from sensorium.worlds import Scene

_FLOOR = """
<mujoco model="floor">
  <asset>
    <texture name="tiles" type="2d" builtin="checker" width="256" height="256" rgb1=".62 .64 .66" rgb2=".5 .52 .55"/>
    <material name="tiles" texture="tiles" texuniform="true" texrepeat="1 1"/>
  </asset>
  <worldbody><geom name="floor" type="plane" size="0 0 0.05" material="tiles"/></worldbody>
</mujoco>
"""
"""An unbounded plane with tiles of 0.5 m."""

DIFFICULTY_STEP = 0.1
"""Change of the difficulty of an env after an episode."""

ConfigT = TypeVar("ConfigT", bound=TensorTaskConfig)


class InputDescription(NamedTuple):
    """What a value is that the policy observes besides the robot's sensors, for the contract of a policy file."""

    unit: str | tuple[str, ...] = "1"
    """Unit; one for each component if they differ."""
    frame: str = ""
    """Frame of the values; "" if they have none."""
    names: tuple[str, ...] = ()
    """Names of the components."""
    source: Source = "command"
    """"command" for a value that the caller of the policy gives, "previous_action" for its last action."""


class TensorHooks(Generic[ConfigT]):
    """The hooks of a tensor task, in the order of their calls.

    ``scene_options``, ``add_scene``, ``place_robot``, ``add_sensors`` and ``on_build`` are called once.
    ``begin_episodes`` is called at each reset; ``act`` before each step; ``failures``, ``rewards``, ``metrics`` and
    ``end_episodes`` after it; ``observe`` and ``observe_privileged`` at the end, when new episodes have begun.

    Hooks are torch code on tensors of B rows on :attr:`device`. On a GPU those that are called in every step are
    captured as CUDA graphs: they make the same operations each time, keep state in tensors that they write in place,
    and read no value from the device (no ``if`` on a tensor, no ``.item()``, no boolean indexing; use ``torch.where``
    and ``masked_fill_``).
    """

    name: ClassVar[str] = ""
    """Name of the task in ``tasks.make``."""
    config_type: ClassVar[type[TensorTaskConfig]] = TensorTaskConfig
    """Class of its options."""
    instruction: ClassVar[str] = ""
    """The goal in words, for datasets."""

    inputs: ClassVar[Mapping[str, InputDescription]] = {}
    """What the values of :meth:`observe` are, by uuid. Default: a command without unit; "last_action" is known."""

    config: ConfigT
    """The options."""
    n_envs: int
    """Number of envs, B."""
    device: torch.device
    """Device of all tensors."""
    scene: Scene
    """The scene."""
    robot: Robot
    """The robot."""
    others: Sequence[TensorHooks[Any]] = ()
    """The tasks of the other entities that share the scene."""
    draws_shared: bool = True
    """Whether this task draws what belongs to no entity, such as the place of an object. Of several entities, that of
    the name which is first in the alphabet does."""
    own_sensors: Sequence[str] = ()
    """Uuids of the sensors that :meth:`add_sensors` added."""
    critic_sensors: Sequence[str] = ()
    """Names of the robot's sensors of which only the ground truth is observed, by critics and teachers."""
    draws: EpisodeDraws
    """Random numbers of the running episodes."""
    action: torch.Tensor
    """The action of this step, (B, n)."""
    last_action: torch.Tensor
    """The action of the step before, (B, n); 0 at the start of an episode."""
    failed: torch.Tensor
    """Where a reason of :meth:`failures` holds, (B,) bool. Written before :meth:`rewards` is called."""
    difficulty: torch.Tensor
    """Difficulty of each env, (B,) float32 from 0 to 1; 1 without ``curriculum``. It scales what
    ``randomize_sensors`` draws, except rates; see ``curriculum``. Tasks scale what else they draw, and change it in
    :meth:`end_episodes`."""
    terminated: torch.Tensor
    """Whether the last step ended the episode by a failure, (B,) bool."""
    truncated: torch.Tensor
    """Whether the last step ended the episode by its length, or the physics diverged, (B,) bool."""
    diverged: torch.Tensor
    """Whether the physics diverged in the last step, (B,) bool."""
    step_count: torch.Tensor
    """Steps of each env's episode so far, (B,) int64."""
    episode: torch.Tensor
    """Number of each env's episode, (B,) int64, counted from 0; -1 before the first reset."""
    _metrics: dict[str, torch.Tensor]
    """What :meth:`metrics` returned in the last step."""

    def check_shared(self) -> None:
        """Raise OptionError if several entities cannot do the task in one scene. Default: they cannot.

        A task that they can do places each robot relative to the position in its options, and begins the names of what
        :meth:`add_sensors` adds with that of the robot. :meth:`add_scene` is called for the first of them only.
        """
        raise OptionError(
            f"entities: the task {self.name!r} is for one robot; 'balance' and 'walk' are for several. A task of your "
            "own is if it defines check_shared()"
        )

    def scene_options(self) -> dict[str, Any]:
        """Return options of the scene besides ``dt`` and ``substeps``."""
        return {"integrator": "implicitfast"}

    def add_scene(self, scene: Scene) -> None:
        """Add everything except the robot to the scene. Default: a floor with tiles of 0.5 m."""
        scene.add_object(_FLOOR, name="floor")

    def place_robot(self, robot: Robot) -> Robot:
        """Return the robot that is added to the scene: ``robot``, or a copy with another position or rig."""
        return robot

    def add_sensors(self, scene: Scene) -> None:
        """Add the sensors that the task itself needs, after the robot was added."""

    def on_build(self) -> None:
        """Look up ids and allocate state, after the scene was built."""

    def action_limits(self) -> torch.Tensor:
        """Return the bounds of the action, (n, 2). Default: those of the robot."""
        return self.robot.action_limits

    def action_terms(self) -> Sequence[ActionTerm] | None:
        """Return what the action means on a robot, for the contract of a policy file.

        Default: None, which stands for the robot's own actions. Define it with :meth:`act`.
        """
        return None

    def begin_episodes(self, mask: torch.Tensor) -> None:
        """Write the initial state of the envs in ``mask``, (B,) bool, into the fields of ``scene.world``.

        The robot is in its initial pose already. Use :attr:`draws` for everything random.
        """

    def act(self) -> None:
        """Apply :attr:`action`. Default: as the robot's action."""
        self.robot.act(self.action)

    def rewards(self) -> dict[str, torch.Tensor]:
        """Return the terms of the reward, each (B,), the same names each time. Their sum is the reward."""
        raise TypeError(f"{type(self).__name__} must define rewards()")

    def failures(self) -> dict[str, torch.Tensor]:
        """Return where the episode has failed, by reason: each (B,) bool. These envs terminate."""
        return {}

    @property
    def max_return(self) -> float | None:
        """The maximum return of an episode, or None if it is unknown."""
        return None

    def metrics(self) -> dict[str, torch.Tensor]:
        """Return values (B,) of this step whose means over episodes are logged, besides those of the rewards.

        Names must differ from those of the rewards. "reached" is 1 where the goal is reached, else 0: evaluations count
        an episode as a success only if it is 1 at the end.
        """
        return {}

    def end_episodes(self, ended: torch.Tensor) -> None:
        """Evaluate the episodes that end in this step, (B,) bool, before their envs are reset: for a curriculum.

        Default: with ``curriculum``, :attr:`difficulty` rises by 0.1 where the episode was a success, and falls by 0.1
        where it was not. As in evaluations, a success lasts ``max_steps`` steps without a failure, and the metric
        "reached" is 1 at its end if the task has it. An episode that ends because that of another entity does changes
        nothing.
        """
        if not self.config.curriculum:
            return
        judged, reached = ended & self.ended_itself(), self._metrics.get("reached")
        succeeded = judged & self.lasted()
        if reached is not None:
            succeeded = succeeded & (reached > 0.5)
        change = DIFFICULTY_STEP * (2.0 * succeeded.float() - judged.float())
        self.difficulty.add_(change).clamp_(0.0, 1.0)

    def lasted(self) -> torch.Tensor:
        """Return whether the last step completed ``max_steps`` steps without a failure, (B,) bool."""
        return self.truncated & ~self.diverged & (self.step_count >= self.config.max_steps)

    def ended_itself(self) -> torch.Tensor:
        """Return whether the last step ended the episode, but not because that of another entity ended, (B,) bool."""
        return self.terminated | self.diverged | self.lasted()

    def observe(self) -> dict[str, torch.Tensor]:
        """Return what the policy observes besides the robot's sensors, by uuid: (B, ...) tensors."""
        return {"last_action": self.last_action}

    def observe_privileged(self) -> dict[str, torch.Tensor]:
        """Return what only critics and teachers observe, by uuid: (B, ...) tensors."""
        return {}
