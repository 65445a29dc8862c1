"""``ObservingTask``: what a tensor task observes, kept on its device, and read by uuid or as matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from gymnasium import spaces

from sensorium.cameras.camera import CameraSensor
from sensorium.errors import OptionError
from sensorium.robots.landmarks import warn_of_exact_landmarks
from sensorium.tasks.tensor.hook_results import HookResults
from sensorium.tasks.tensor.hooks import ConfigT, InputDescription, TensorHooks
from sensorium.tasks.tensor.observations import ObservationPart, Observations, Tensors, space_of
from sensorium.tasks.tensor.outputs import Outputs
from sensorium.tasks.tensor.randomizers import Randomizers

if TYPE_CHECKING:
    from tensordict import TensorDict


class ObservingTask(TensorHooks[ConfigT]):
    """The observations of a tensor task after each step, at the end of episodes, and over its history."""

    cameras: dict[str, CameraSensor]
    """The cameras of the options, by name."""
    reward: torch.Tensor
    """(B,) float32, of the last step."""
    single_observation_space: spaces.Dict
    """Space of one env's observation."""
    _fresh: torch.Tensor
    """The envs that begin a new episode in this step, (B,) bool."""
    _results: HookResults
    _randomizers: Randomizers
    _is_shared: bool = False
    """Whether several entities share the scene, so that another object resets and steps it."""

    def _check_alone(self) -> None:
        """Raise OptionError for what only the task of all entities can do."""
        if self._is_shared:
            raise OptionError(
                f"the task of {self.robot.name!r} is a member of a task of several entities: reset, step, view and "
                "close that one"
            )

    def _begin_observing(self, entity_sensors: tuple[list[str], list[str]] | None) -> None:
        """Find out what is observed, and allocate it.

        Args:
            entity_sensors: see :class:`Observations`.
        """
        config = self.config
        default_of = "" if "observe" in config.model_fields_set else self.name
        sources = self._observe_own, self._observe_privileged
        self._observations = Observations(
            self.robot, config.observe, config.ground_truth, *sources, entity_sensors, default_of
        )
        self._outputs = Outputs(self.n_envs, self._observations.values.shape[1], self.device)
        self._observations.values = self._outputs.values
        self._frames = torch.zeros(self.n_envs, config.history, self._observations.n_actor, device=self.device)
        self._final, self._final_values = torch.zeros_like(self._frames), torch.zeros_like(self._observations.values)
        one = {name: space_of(value) for name, value in self._by_name(self._observations.values).items()}
        self.single_observation_space = spaces.Dict(list(one.items()))  # type: ignore[arg-type]
        if entity_sensors is None and not config.ground_truth:  # entities warn when they are made
            self._warn_of_exact_landmarks()

    def _warn_of_exact_landmarks(self) -> None:
        """Warn if the policy observes the exact pose of another object of the scene."""
        observed = {part.uuid for part in self._observations.actor_parts}
        drawn: dict[str, dict[str, float]] = {}
        for key, (_, highest) in self.config.randomize_sensors.items():
            drawn.setdefault(key.partition(".")[0], {})[key.partition(".")[2]] = highest
        sensors = [
            each.model_copy(update={"options": {**each.options, **drawn.get(each.name, {})}})
            for each in self.robot.options.rig.sensors
            if each.name in observed
        ]
        bodies = {self.scene.model.body(number).name for number in range(self.scene.model.nbody)}
        others = [each for each in self.scene.entities if f"{self.robot.name}/{each}" not in bodies]
        warn_of_exact_landmarks(self.robot.name, sensors, [each for each in others if each != self.robot.name])

    def _observe_own(self) -> Mapping[str, torch.Tensor]:
        return self._results.check("observe", self.observe(), per_env=False)

    def _observe_privileged(self) -> dict[str, torch.Tensor]:
        own = self._results.check("observe_privileged", self.observe_privileged(), per_env=False)
        return self._randomizers.with_values(own)

    # -- in each step -------------------------------------------------------------------------------------------------

    def _update_observations(self) -> None:
        self._observations.update()
        self._outputs.reward.copy_(self.reward)
        torch.stack((self.terminated, self.truncated), out=self._outputs.flags)
        frame = self._observations.values[:, None, : self._observations.n_actor]
        if self.config.history == 1:
            self._frames.copy_(frame)
        else:
            older = torch.where(self._fresh[:, None, None], frame, self._frames[:, :-1])
            self._frames.copy_(torch.cat((frame, older), dim=1))

    def _observe_begun(self) -> None:
        """Update the observations after envs were reset; those of the other envs are the same."""
        self._observations.update()
        frame = self._observations.values[:, None, : self._observations.n_actor]
        self._frames.copy_(torch.where(self._fresh[:, None, None], frame, self._frames))

    def _update_final(self) -> None:
        """Keep what is observed at the end of the step; where the physics diverged, that of the step before."""
        before = self._observations.values.clone()
        self._observations.update()
        self._final_values.copy_(torch.where(self.diverged[:, None], before, self._observations.values))
        frame = self._final_values[:, None, : self._observations.n_actor]
        self._final.copy_(torch.cat((frame, self._frames[:, :-1]), dim=1))

    # -- reading ------------------------------------------------------------------------------------------------------

    def _by_name(self, values: torch.Tensor) -> Tensors:
        return self._observations.by_name(values)

    def groups(self) -> dict[str, torch.Tensor]:
        """Return copies of the last observations as matrices: "actor" (B, n history), newest first, and "critic"."""
        values = self._observations.values
        return {"actor": self._frames.flatten(1).clone(), "critic": values[:, self._observations.n_actor :].clone()}

    @property
    def actor_parts(self) -> list[ObservationPart]:
        """What the policy observes, except images, in the order of the columns of :meth:`observation_matrix`."""
        return self._observations.actor_parts

    def observation_matrix(self) -> torch.Tensor:
        """Return the last observations (B, columns), those of the actor first. The next step overwrites them."""
        return self._observations.values

    def describe_input(self, name: str) -> InputDescription:
        """Return what a value of :meth:`observe` is."""
        if not isinstance(name, str):
            raise OptionError(f"name must be text, got {name!r:.80}")
        if name == "last_action":
            return InputDescription(source="previous_action")
        return self.inputs.get(name, InputDescription())

    def observation(self) -> Tensors:
        """Return a copy of the last observation by uuid."""
        return self._by_name(self._observations.values.clone())

    def observation_views(self) -> Tensors:
        """Return the last observation by uuid, which later steps overwrite."""
        return self._by_name(self._observations.values)

    def images(self) -> dict[str, torch.Tensor]:
        """Return the images of ``observe_cameras`` as "image_NAME" -> (B, 3, H, W) uint8. Renders them."""
        found = {}
        for name in self.config.observe_cameras:
            colours = self.cameras[name].read().rgb
            assert colours is not None
            found[f"image_{name}"] = colours.movedim(-1, 1).contiguous()
        return found

    def as_tensordict(self) -> TensorDict:
        """Return :meth:`groups` and :meth:`images` as a TensorDict, for the networks of rsl_rl."""
        from tensordict import TensorDict

        return TensorDict({**self.groups(), **self.images()}, batch_size=[self.n_envs], device=self.device)

    def last_metrics(self) -> dict[str, torch.Tensor]:
        """Return the task's metrics of the last step, (B,) each. The next step overwrites them."""
        return self._metrics

    def final_actor(self) -> torch.Tensor:
        """Return a copy of the actor's last observation of the episodes that ended in this step, (B, n history).

        Only valid for those envs, and if :attr:`keep_final` is True.
        """
        return self._final.flatten(1).clone()
