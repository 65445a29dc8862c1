"""``SACMLPBrain``: soft actor-critic, by the networks and the training step of Stable-Baselines3."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from pydantic import Field

from sensorium.entities.brain import flat_observation, flat_space
from sensorium.entities.memory import usable_device
from sensorium.errors import DatasetError, OptionError, shorten
from sensorium.files import write_whole
from sensorium.options import Options

_FORMAT = "sensorium-sac"
_VECTOR = "vector"
"""What the networks know all observations as that are no images."""
_LEAST = 1e-6
"""Spread below which an observation counts as constant, in its own unit."""
_SMALLEST = 36
"""Pixels along the shorter side that the CNN needs."""
_MOST = 10.0
"""Spreads from the mean beyond which an observation is cut off."""


class SACOptions(Options):
    """Options of :class:`SACMLPBrain`."""

    seed: int = Field(default=0, ge=0, lt=2**32)
    """Of networks, exploration and sampling."""
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(256, 256), min_length=1)
    """Units of the hidden layers."""
    layer_norm: bool = False
    """Whether hidden layers are normalised, which keeps critics from overestimating what they have seen little of."""
    learning_rate: float = Field(default=3e-4, gt=0)
    """Of actor, critics and temperature."""
    gamma: float = Field(default=0.99, gt=0, le=1)
    """What a reward is worth a step later."""
    tau: float = Field(default=0.005, gt=0, le=1)
    """Part of the way that the target critics go in a gradient step."""
    batch_size: int = Field(default=256, ge=1)
    """Transitions of a gradient step."""
    target_entropy: float | None = None
    """What the temperature holds the policy's entropy at, nats. None: minus the number of actions."""


class SACMLPBrain:
    """A squashed Gaussian actor and twin critics with automatic temperature, for observations of any nesting.

    Vectors are normalised by their running mean and spread and put side by side; what is infinite counts as far off,
    what is no number as the mean. Images (H, W, C) uint8 go through a small CNN. What was cut off by a time limit is no
    end: only ``terminated`` is.

    Args:
        observation_space: Dict of Boxes, of one env.
        action_space: bounded Box, of one env.
        seed: of networks, exploration and sampling.
        hidden: units of the hidden layers.
        layer_norm: whether hidden layers are normalised, which keeps critics from overestimating what they have seen
            little of.
        learning_rate, gamma, tau, batch_size: of SAC.
        target_entropy: what the temperature holds the policy's entropy at, nats: the lower, the less it explores.
            Default: minus the number of actions.
        device: "cpu" or "cuda".
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Box,
        *,
        seed: int = 0,
        hidden: Sequence[int] = (256, 256),
        layer_norm: bool = False,
        learning_rate: float = 3e-4,
        gamma: float = 0.99,
        tau: float = 0.005,
        batch_size: int = 256,
        target_entropy: float | None = None,
        device: str = "cpu",
    ) -> None:
        try:
            from stable_baselines3 import SAC
            from stable_baselines3.common.logger import Logger
        except ImportError:
            raise OptionError(
                "SACMLPBrain needs Stable-Baselines3, which is not installed: pip install 'sensorium[train]'"
            ) from None
        if not (np.isfinite(action_space.low).all() and np.isfinite(action_space.high).all()):
            raise OptionError(f"action_space must be bounded, got {action_space}")
        self.observation_space, self.action_space = observation_space, action_space
        options = SACOptions(
            seed=seed,
            hidden=hidden,  # type: ignore[arg-type]
            layer_norm=layer_norm,
            learning_rate=learning_rate,
            gamma=gamma,
            tau=tau,
            batch_size=batch_size,
            target_entropy=target_entropy,
        )
        self._options = options
        self.device = usable_device(device)
        self._boxes = flat_space(observation_space)
        self._images = [name for name, box in self._boxes.items() if len(box.shape) == 3 and box.dtype == np.uint8]
        for name in self._images:
            height, width = self._boxes[name].shape[:2]
            if min(height, width) < _SMALLEST:
                raise OptionError(
                    f"{name} has {width} by {height} pixels; the network needs {_SMALLEST} by {_SMALLEST} at least: "
                    "raise the camera's resolution"
                )
        self._vectors = [name for name in self._boxes if name not in self._images]
        if not self._boxes:
            raise OptionError("observation_space is empty: the entity has no sensors; give it some")
        shown = {name.replace(".", "_"): self._boxes[name] for name in self._images}
        width = sum(_size(self._boxes[name]) for name in self._vectors)
        if width:
            shown[_VECTOR] = spaces.Box(-_MOST, _MOST, (width,), np.float32)
        self._count = 0.0
        self._mean, self._variance = np.zeros(width), np.ones(width)
        self._shift, self._scale = torch.zeros(width, device=self.device), torch.ones(width, device=self.device)
        low, high = (torch.from_numpy(each).to(self.device) for each in (action_space.low, action_space.high))
        self._middle, self._reach = (high + low) / 2, (high - low) / 2
        self._sac: Any = SAC(
            "MultiInputPolicy",
            _Spaces(spaces.Dict(list(shown.items())), action_space),
            learning_rate=options.learning_rate,
            buffer_size=1,
            gamma=options.gamma,
            tau=options.tau,
            batch_size=options.batch_size,
            target_entropy="auto" if options.target_entropy is None else options.target_entropy,
            policy_kwargs={
                "net_arch": list(options.hidden),
                "activation_fn": _NormedReLU if options.layer_norm else torch.nn.ReLU,
                "optimizer_kwargs": {"fused": True},
            },
            seed=options.seed,
            device=device,
        )
        self._sac.set_logger(Logger(None, []))
        self._random = torch.Generator(device="cpu").manual_seed(options.seed)

    # -- deciding -----------------------------------------------------------------------------------------------------

    def decide(self, observation: Mapping[str, Any], deterministic: bool = False) -> np.ndarray:
        """The action (n,) for what one env observes."""
        one = {name: value[None] for name, value in flat_observation(observation).items()}
        return self._decide(one, deterministic)[0]

    def decide_batch(self, observation: Mapping[str, Any], deterministic: bool = False) -> np.ndarray:
        """The actions (B, n) for what B envs observe."""
        return self._decide(flat_observation(observation), deterministic)

    def _decide(self, observation: dict[str, np.ndarray], deterministic: bool) -> np.ndarray:
        policy = self._sac.policy
        policy.set_training_mode(False)
        with torch.no_grad():
            try:
                shown = self._shown({name: torch.as_tensor(value) for name, value in observation.items()})
            except (KeyError, RuntimeError) as error:
                raise OptionError(self._mismatch(observation) or str(error)) from error
            mean, log_std, _ = policy.actor.get_action_dist_params(shown)
            if not deterministic:
                noise = torch.randn(mean.shape, generator=self._random).to(mean)
                mean = mean + log_std.exp() * noise
            action: np.ndarray = torch.addcmul(self._middle, torch.tanh(mean), self._reach).cpu().numpy()
        return action.clip(self.action_space.low, self.action_space.high)

    def _shown(self, observation: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """An observation in the form that the networks take: images, and all else as one normalised vector."""
        shown = {name.replace(".", "_"): observation[name].to(self.device).permute(0, 3, 1, 2) for name in self._images}
        if self._vectors:
            flat = torch.cat([observation[name].flatten(1) for name in self._vectors], dim=1)
            flat = flat.to(self.device, torch.float32).sub_(self._shift).mul_(self._scale)
            shown[_VECTOR] = flat.nan_to_num_(nan=0.0).clamp_(-_MOST, _MOST)
        return shown

    def _mismatch(self, observation: Mapping[str, np.ndarray]) -> str:
        """What is wrong with an observation of several envs."""
        for name, box in self._boxes.items():
            if name not in observation:
                return f"the observation lacks {name!r}; it has {shorten(observation)}"
            if observation[name].shape[1:] != box.shape:
                of_one = observation[name].shape[1:]
                return f"{name!r} must have the shape {box.shape} in each env, got {of_one}; decide_batch takes several"
        return ""

    # -- learning -----------------------------------------------------------------------------------------------------

    def observe(self, observation: Mapping[str, Any]) -> None:
        """Let running means and spreads take B more observations in."""
        if not self._vectors:
            return
        flat = flat_observation(observation)
        values = np.concatenate([flat[name].reshape(len(flat[name]), -1) for name in self._vectors], axis=1)
        # nothing in sight, or a reading that was lost: no part of means and spreads
        values = np.where(np.isfinite(values), values, self._mean)
        rows, total = len(values), self._count + len(values)
        off = values.mean(axis=0, dtype=np.float64) - self._mean
        held = self._variance * self._count + values.var(axis=0, dtype=np.float64) * rows
        self._mean += off * (rows / total)
        self._variance = (held + off**2 * (self._count * rows / total)) / total
        self._count = total
        self._refresh()

    def _refresh(self) -> None:
        """Normalise by the means and spreads as they are now."""
        self._shift = torch.from_numpy(self._mean).to(self.device, torch.float32)
        # what hardly ever changed says nothing, and rounding errors must not be blown up; 1 µT, say, still counts
        scale = 1 / np.maximum(np.sqrt(self._variance), _LEAST)
        self._scale = torch.from_numpy(scale).to(self.device, torch.float32)

    def learn(self, memory: Any, gradient_steps: int) -> dict[str, float]:
        """Take gradient steps on batches of a memory; returns losses and temperature."""
        self._sac.replay_buffer = _Sampler(self, memory)
        with torch.random.fork_rng():  # its actions are drawn from torch's own numbers, which others draw from, too
            torch.manual_seed(self._options.seed * 1_000_003 + self._sac._n_updates)
            self._sac.train(gradient_steps, self._options.batch_size)
        return {name: float(value) for name, value in self._sac.logger.name_to_value.items()}

    # -- keeping ------------------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write ``brain.safetensors`` and ``brain.json``: networks, optimizers, running means."""
        from safetensors.torch import save

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "brain.safetensors", save(self._tensors()))
        about = {
            "format": _FORMAT,
            "version": 3 if self._options.layer_norm else 2,  # 2 is read by programs that know no other layers
            "options": self._options.model_dump(mode="json"),
            "observed": self._count,
            "spaces": {name: list(box.shape) for name, box in self._boxes.items()},
            "updates": self._sac._n_updates,
        }
        write_whole(folder / "brain.json", json.dumps(about, indent=1).encode())

    def restore(self, folder: str | Path) -> None:
        """Be as the brain that was saved, which must have had the same spaces."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        folder = Path(folder)
        about = _read_about(folder)
        try:
            tensors = load_file(folder / "brain.safetensors", device=str(self.device))
        except (OSError, SafetensorError) as error:
            raise DatasetError(f"{folder} holds no brain that can be read: {error}") from None
        own = {name: list(box.shape) for name, box in self._boxes.items()}
        if about["spaces"] != own:
            raise DatasetError(f"the brain in {folder} senses {about['spaces']}, and this one {own}")
        shapes = {f"policy/{name}": value.shape for name, value in self._sac.policy.state_dict().items()}
        kept = {name: value.shape for name, value in tensors.items() if name.startswith("policy/")}
        theirs, ours = (
            {name: options[name] for name in ("hidden", "layer_norm")}
            for options in (
                SACOptions().model_dump(mode="json") | about["options"],
                self._options.model_dump(mode="json"),
            )
        )
        if kept != shapes or theirs != ours:
            raise DatasetError(
                f"the brain in {folder} has other networks than this one, or other actions: {theirs} and {ours}"
            )
        self._load_tensors(tensors)
        self._count, self._sac._n_updates = float(about["observed"]), int(about["updates"])

    @classmethod
    def load(
        cls, folder: str | Path, observation_space: spaces.Dict, action_space: spaces.Box, device: str = "cpu"
    ) -> SACMLPBrain:
        """The brain that was saved, for the same spaces."""
        try:
            options = SACOptions(**_read_about(Path(folder))["options"])
        except OptionError as error:
            raise DatasetError(
                f"{folder} holds a brain with options that this version does not know: {error}"
            ) from None
        brain = cls(observation_space, action_space, **options.model_dump(), device=device)
        brain.restore(folder)
        return brain

    def _optimizers(self) -> dict[str, Any]:
        sac = self._sac
        return {"actor": sac.actor.optimizer, "critic": sac.critic.optimizer, "temperature": sac.ent_coef_optimizer}

    def _tensors(self) -> dict[str, torch.Tensor]:
        tensors = {f"policy/{name}": value for name, value in self._sac.policy.state_dict().items()}
        tensors["log_temperature"] = self._sac.log_ent_coef.detach()
        tensors["random"] = self._random.get_state()
        tensors |= {"mean": torch.from_numpy(self._mean), "variance": torch.from_numpy(self._variance)}
        for kind, optimizer in self._optimizers().items():
            for number, state in optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer/{kind}/{number}/{name}": value for name, value in state.items()}
        return {name: value.contiguous().clone() for name, value in tensors.items()}

    def _load_tensors(self, tensors: dict[str, torch.Tensor]) -> None:
        start = "policy/"
        self._sac.policy.load_state_dict({n[len(start) :]: v for n, v in tensors.items() if n.startswith(start)})
        self._sac.log_ent_coef.data.copy_(tensors["log_temperature"])
        self._random.set_state(tensors["random"].cpu())
        self._mean, self._variance = (tensors[name].cpu().numpy() for name in ("mean", "variance"))
        self._refresh()
        for kind, optimizer in self._optimizers().items():
            form = optimizer.state_dict()
            form["state"] = {}
            for path, value in tensors.items():
                parts = path.split("/")
                if parts[:2] == ["optimizer", kind]:
                    form["state"].setdefault(int(parts[2]), {})[parts[3]] = value
            optimizer.load_state_dict(form)


class _NormedReLU(torch.nn.Module):
    """ReLU of a layer's units, normalised over them."""

    def forward(self, units: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.nn.functional.layer_norm(units, units.shape[-1:]))


class _Sampler:
    """Our memory in the place of Stable-Baselines3's replay buffer."""

    def __init__(self, brain: SACMLPBrain, memory: Any) -> None:
        self._brain, self._memory = brain, memory

    def sample(self, batch_size: int, env: Any = None) -> Any:
        from stable_baselines3.common.type_aliases import DictReplayBufferSamples

        brain = self._brain
        batch = self._memory.sample(batch_size)
        return DictReplayBufferSamples(
            observations=brain._shown(batch.observation),
            actions=(batch.action.to(brain.device) - brain._middle) / brain._reach,
            next_observations=brain._shown(batch.next_observation),
            dones=batch.terminated.to(brain.device).float().reshape(-1, 1),
            rewards=batch.reward.to(brain.device).reshape(-1, 1),
        )


class _Spaces(gymnasium.Env[Any, Any]):
    """Spaces without a world, for the constructor of SAC."""

    def __init__(self, observation_space: spaces.Dict, action_space: spaces.Box) -> None:
        self.observation_space, self.action_space = observation_space, action_space


def _read_about(folder: Path) -> dict[str, Any]:
    """What ``brain.json`` says."""
    path = folder / "brain.json"
    if not path.is_file():
        raise DatasetError(f"{folder} holds no brain: there is no brain.json")
    try:
        about = json.loads(path.read_bytes())
    except ValueError as error:
        raise DatasetError(f"{path} cannot be read: {error}") from None
    wanted = ("options", "spaces", "observed", "updates")
    known = isinstance(about, dict) and about.get("format") == _FORMAT and about.get("version") in (2, 3)
    if not known or any(name not in about for name in wanted) or not isinstance(about["options"], dict):
        raise DatasetError(f"{path} is not of a brain that this version can read")
    return about


def _size(box: spaces.Box) -> int:
    return int(np.prod(box.shape))
