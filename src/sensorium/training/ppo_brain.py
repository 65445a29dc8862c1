"""``PPOBrain``: the policy of a training by PPO as the brain of an entity."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sensorium._arguments import checked, checked_flag
from sensorium.entities.device import usable_device
from sensorium.entities.nesting import Rows, flat_rows_of
from sensorium.errors import DatasetError, OptionError, did_you_mean, shorten
from sensorium.json_files import load_json
from sensorium.training.ppo_options import PPOOptions
from sensorium.training.run_folder import brain_folder

if TYPE_CHECKING:
    from gymnasium import spaces


class PPOBrain:
    """The policy of a training by PPO as the brain of an entity. It decides, and does not learn.

    It takes from an observation what the policy was trained with, by name, and ignores everything else.

    Args:
        observation_space, action_space: spaces of the entity.
        folder: folder of the training, of an entity or of a robot with a rig.
        which: "best", the policy of the best evaluation during the training, or "last".
        device: device of the network.
        seed: seed of the exploration.

    Raises:
        DatasetError: the folder holds no training by PPO, or the training has no such policy yet.
        OptionError: the policy sees images or a history, or has a memory.

    Example:
        >>> robot = sn.TrainableEntity("balancer", sensors, PPOBrain, brain_options={"folder": "runs/balance"})
        >>> task = sn.tasks.make("balance", entity=robot, device="cpu")
        >>> observation, _ = task.reset()
        >>> robot.decide_batch(observation, deterministic=True)
    """

    @checked
    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Box,
        folder: str | Path,
        which: str = "best",
        device: str = "cpu",
        seed: int = 0,
    ) -> None:
        from tensordict import TensorDict

        from sensorium.training.ppo_policy import load_actor

        self.folder, self.device = Path(folder), usable_device(device)
        if not 0 <= seed < 2**63:
            raise OptionError(f"seed must be an integer from 0 to 2^63 - 1, got {seed}")
        options = PPOOptions.load(self.folder)
        config = options.make_config()
        for name, value, plain in (
            ("network", options.network, "mlp"),
            ("history", config.history, 1),
            ("observe_cameras", config.observe_cameras, ()),
        ):
            if value != plain:
                raise OptionError(
                    f"folder: {self.folder} was trained with {name}={value!r}, and a brain sees one observation, "
                    "without images; use sensorium.training.load_policy"
                )
        saved = brain_folder(self.folder, which)
        self._shapes, n_actions = _inputs(saved)
        self._n_actions, self._action_shape = n_actions, action_space.shape
        width = sum(int(np.prod(shape)) for shape in self._shapes.values())
        example = TensorDict({"actor": torch.zeros(1, width, device=self.device)}, batch_size=[1])
        # torch's generator draws the weights, which are then replaced
        with torch.random.fork_rng(devices=[]):
            self._actor = load_actor(options, saved, example, n_actions)
        self._std = self._actor.distribution.std_param.detach()
        self._rng = torch.Generator(self.device).manual_seed(seed)

    def decide(self, observation: Mapping[str, Any], deterministic: bool = False) -> Rows:
        """Return the action (n,) for the observation of one env; arguments and errors as of :meth:`decide_batch`."""
        one = {name: value[None] for name, value in flat_rows_of(observation).items()}
        return self.decide_batch(one, deterministic)[0]

    def decide_batch(self, observation: Mapping[str, Any], deterministic: bool = False) -> Rows:
        """Return the actions (B, n) for the observations of B envs, as tensors if the observation has tensors.

        Args:
            observation: nested as in the task of the training.
            deterministic: whether to act without exploration.

        Raises:
            OptionError: the observation lacks something, or has another shape; or the entity has other actions than the
                policy. It gets those of a task when the task is made, so this is not known before.
        """
        from tensordict import TensorDict

        if self._action_shape != (self._n_actions,):
            raise OptionError(
                f"folder: the policy in {self.folder} has {self._n_actions} actions, and the entity "
                f"{self._action_shape}; use the robot and the task that it was trained with"
            )
        deterministic = checked_flag("deterministic", deterministic)
        rows = flat_rows_of(observation)
        parts = [self._row(rows, name, shape) for name, shape in self._shapes.items()]
        if len({len(part) for part in parts}) > 1:
            counts = {name: len(part) for name, part in zip(self._shapes, parts, strict=True)}
            raise OptionError(f"observation: all values must have the same number of envs, got {counts}")
        values = torch.cat(parts, dim=1)
        with torch.inference_mode():
            action: torch.Tensor = self._actor(TensorDict({"actor": values}, batch_size=[len(values)]))
            if not deterministic:
                action = action + self._std * torch.randn(action.shape, generator=self._rng, device=self.device)
        action = action.clone()  # an inference tensor could not be used in a training
        return action if any(isinstance(each, torch.Tensor) for each in rows.values()) else action.numpy(force=True)

    def _row(self, rows: Mapping[str, Rows], name: str, shape: tuple[int, ...]) -> torch.Tensor:
        value = rows.get(name)
        if value is None:
            hint = did_you_mean(name, rows) or f"; it has {shorten(rows)}"
            raise OptionError(
                f"observation: the policy in {self.folder} was trained with {name!r}{hint}. Give the entity the "
                'sensors of the training, and act in the same task on tensors: tasks.make(..., device="cpu")'
            )
        if tuple(value.shape[1:]) != shape:
            expected = ", ".join(str(extent) for extent in ("B", *shape))
            raise OptionError(f"observation: {name!r} must have the shape ({expected}), got {tuple(value.shape)}")
        return torch.as_tensor(value).to(self.device, torch.float32).reshape(len(value), -1)


def _inputs(folder: Path) -> tuple[dict[str, tuple[int, ...]], int]:
    """Return the shapes of what a policy observes, by dotted name in the order of its columns; and its actions."""
    try:
        header = load_json((folder / "policy.json").read_bytes())
        return {str(name): tuple(shape) for name, shape in header["inputs"].items()}, int(header["actions"])
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DatasetError(f"cannot read the policy in {folder}: {error}") from None
    except KeyError:
        raise DatasetError(
            f"the policy in {folder} is of an earlier version, which did not store what it observes; train it again"
        ) from None
