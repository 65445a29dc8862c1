"""``SACMLPBrain``: soft actor-critic, by the networks and the training step of Stable-Baselines3."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from sensorium.datasets.files import write_whole
from sensorium.entities.brain import flat_observation, flat_space
from sensorium.errors import DatasetError, OptionError

_FORMAT = "sensorium-sac"


class SACMLPBrain:
    """A squashed Gaussian actor and twin critics with automatic temperature, for observations of any nesting.

    Vectors are normalised by their running mean and spread and put side by side; images (H, W, C) uint8 go through a
    small CNN. What was cut off by a time limit is no end: only ``terminated`` is.

    Args:
        observation_space: Dict of Boxes, of one env.
        action_space: bounded Box, of one env.
        seed: of networks, exploration and sampling.
        hidden: units of the hidden layers.
        learning_rate, gamma, tau, batch_size: of SAC.
        device: "cpu" or "cuda".
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Box,
        *,
        seed: int = 0,
        hidden: tuple[int, ...] = (256, 256),
        learning_rate: float = 3e-4,
        gamma: float = 0.99,
        tau: float = 0.005,
        batch_size: int = 256,
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
        self._options: dict[str, Any] = {
            "seed": seed,
            "hidden": list(hidden),
            "learning_rate": learning_rate,
            "gamma": gamma,
            "tau": tau,
            "batch_size": batch_size,
        }
        boxes = flat_space(observation_space)
        self._images = {name for name, box in boxes.items() if len(box.shape) == 3 and box.dtype == np.uint8}
        shown = {
            name.replace(".", "_"): box if name in self._images else spaces.Box(-10, 10, (_size(box),), np.float32)
            for name, box in boxes.items()
        }
        self._boxes = boxes
        self._batch_size = batch_size
        self._mean = {name: np.zeros(_size(box)) for name, box in boxes.items() if name not in self._images}
        self._spread = {name: np.ones_like(mean) for name, mean in self._mean.items()}
        self._count = 1e-4
        self.device = torch.device(device)
        self._sac: Any = SAC(
            "MultiInputPolicy",
            _Spaces(spaces.Dict(list(shown.items())), action_space),
            learning_rate=learning_rate,
            buffer_size=1,
            gamma=gamma,
            tau=tau,
            batch_size=batch_size,
            policy_kwargs={"net_arch": list(hidden)},
            seed=seed,
            device=device,
        )
        self._sac.set_logger(Logger(None, []))
        self._random = torch.Generator(device="cpu").manual_seed(seed)

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
            shown = {name.replace(".", "_"): self._shown(name, value) for name, value in observation.items()}
            mean, log_std, _ = policy.actor.get_action_dist_params(shown)
            if not deterministic:
                noise = torch.randn(mean.shape, generator=self._random).to(mean)
                mean = mean + log_std.exp() * noise
            action = torch.tanh(mean).cpu().numpy()
        low, high = self.action_space.low, self.action_space.high
        return np.asarray(low + (action + 1) * 0.5 * (high - low))

    def _shown(self, name: str, value: Any) -> torch.Tensor:
        """An observation in the form that the networks take."""
        tensor = torch.as_tensor(value).to(self.device)
        if name in self._images:
            return tensor.permute(0, 3, 1, 2)
        flat = tensor.reshape(len(tensor), -1).float()
        mean, spread = (
            torch.as_tensor(each[name], dtype=torch.float32, device=self.device) for each in (self._mean, self._spread)
        )
        return ((flat - mean) / spread).clamp(-10, 10)

    # -- learning -----------------------------------------------------------------------------------------------------

    def observe(self, observation: Mapping[str, Any]) -> None:
        """Let running means and spreads take B more observations in."""
        flat = flat_observation(observation)
        rows = len(next(iter(flat.values())))
        total = self._count + rows
        for name, mean in self._mean.items():
            values = flat[name].reshape(rows, -1).astype(np.float64)
            new, spread = values.mean(axis=0), values.var(axis=0)
            off = new - mean
            held = (self._spread[name] ** 2 - 1e-12) * self._count + spread * rows + off**2 * self._count * rows / total
            self._mean[name] = mean + off * rows / total
            self._spread[name] = np.sqrt(np.maximum(held / total, 0) + 1e-12)
        self._count = total

    def learn(self, memory: Any, gradient_steps: int) -> dict[str, float]:
        """Take gradient steps on batches of a memory; returns losses and temperature."""
        self._sac.replay_buffer = _Sampler(self, memory)
        with torch.random.fork_rng():  # its actions are drawn from torch's own numbers, which others draw from, too
            torch.manual_seed(int(self._options["seed"]) * 1_000_003 + self._sac._n_updates)
            self._sac.train(gradient_steps, self._batch_size)
        return {name: float(value) for name, value in self._sac.logger.name_to_value.items()}

    # -- keeping ------------------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write ``brain.safetensors`` and ``brain.json``: networks, optimizers, running means."""
        from safetensors.torch import save

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "brain.safetensors", save(self._tensors()))
        about = {"format": _FORMAT, "version": 1, "options": self._options, "observed": self._count}
        about |= {
            "spaces": {name: list(box.shape) for name, box in self._boxes.items()},
            "updates": self._sac._n_updates,
        }
        write_whole(folder / "brain.json", json.dumps(about, indent=1).encode())

    def restore(self, folder: str | Path) -> None:
        """Be as the brain that was saved, which must have had the same spaces."""
        from safetensors.torch import load_file

        folder = Path(folder)
        try:
            about = json.loads((folder / "brain.json").read_bytes())
            tensors = load_file(folder / "brain.safetensors", device=str(self.device))
        except (OSError, ValueError) as error:
            raise DatasetError(f"{folder} holds no brain that can be read: {error}") from None
        own = {name: list(box.shape) for name, box in self._boxes.items()}
        if about.get("format") != _FORMAT or about["spaces"] != own:
            raise DatasetError(f"the brain in {folder} senses {about.get('spaces')}, and this one {own}")
        self._load_tensors(tensors)
        self._count, self._sac._n_updates = float(about["observed"]), int(about["updates"])

    @classmethod
    def load(
        cls, folder: str | Path, observation_space: spaces.Dict, action_space: spaces.Box, device: str = "cpu"
    ) -> SACMLPBrain:
        """The brain that was saved, for the same spaces."""
        path = Path(folder) / "brain.json"
        if not path.is_file():
            raise DatasetError(f"{folder} holds no brain: there is no brain.json")
        options = json.loads(path.read_bytes())["options"]
        options["hidden"] = tuple(options["hidden"])
        brain = cls(observation_space, action_space, **options, device=device)
        brain.restore(folder)
        return brain

    def _optimizers(self) -> dict[str, Any]:
        sac = self._sac
        return {"actor": sac.actor.optimizer, "critic": sac.critic.optimizer, "temperature": sac.ent_coef_optimizer}

    def _tensors(self) -> dict[str, torch.Tensor]:
        tensors = {f"policy/{name}": value for name, value in self._sac.policy.state_dict().items()}
        tensors["log_temperature"] = self._sac.log_ent_coef.detach()
        tensors["random"] = self._random.get_state()
        for kind, values in (("mean", self._mean), ("spread", self._spread)):
            tensors |= {f"{kind}/{name}": torch.from_numpy(value) for name, value in values.items()}
        for kind, optimizer in self._optimizers().items():
            for number, state in optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer/{kind}/{number}/{name}": value for name, value in state.items()}
        return {name: value.contiguous().clone() for name, value in tensors.items()}

    def _load_tensors(self, tensors: dict[str, torch.Tensor]) -> None:
        start = "policy/"
        self._sac.policy.load_state_dict({n[len(start) :]: v for n, v in tensors.items() if n.startswith(start)})
        self._sac.log_ent_coef.data.copy_(tensors["log_temperature"])
        self._random.set_state(tensors["random"].cpu())
        for kind, values in (("mean", self._mean), ("spread", self._spread)):
            for name in values:
                values[name] = tensors[f"{kind}/{name}"].cpu().numpy()
        for kind, optimizer in self._optimizers().items():
            form = optimizer.state_dict()
            form["state"] = {}
            for path, value in tensors.items():
                parts = path.split("/")
                if parts[:2] == ["optimizer", kind]:
                    form["state"].setdefault(int(parts[2]), {})[parts[3]] = value
            optimizer.load_state_dict(form)


class _Sampler:
    """Our memory in the place of Stable-Baselines3's replay buffer."""

    def __init__(self, brain: SACMLPBrain, memory: Any) -> None:
        self._brain, self._memory = brain, memory

    def sample(self, batch_size: int, env: Any = None) -> Any:
        from stable_baselines3.common.type_aliases import DictReplayBufferSamples

        brain = self._brain
        batch = self._memory.sample(batch_size)
        low, high = (
            torch.from_numpy(each).to(brain.device) for each in (brain.action_space.low, brain.action_space.high)
        )
        action = batch.action.to(brain.device)
        return DictReplayBufferSamples(
            observations=self._shown(batch.observation),
            actions=2 * (action - low) / (high - low) - 1,
            next_observations=self._shown(batch.next_observation),
            dones=batch.terminated.to(brain.device).float().reshape(-1, 1),
            rewards=batch.reward.to(brain.device).float().reshape(-1, 1),
        )

    def _shown(self, observation: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name.replace(".", "_"): self._brain._shown(name, value) for name, value in observation.items()}


class _Spaces(gymnasium.Env[Any, Any]):
    """Spaces without a world, for the constructor of SAC."""

    def __init__(self, observation_space: spaces.Dict, action_space: spaces.Box) -> None:
        self.observation_space, self.action_space = observation_space, action_space


def _size(box: spaces.Box) -> int:
    return int(np.prod(box.shape))
