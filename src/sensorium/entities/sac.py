"""``SACMLPBrain``: soft actor-critic, with the networks and the training step of Stable-Baselines3."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from sensorium.entities.brain import TransitionSource, flat_observation, flat_space
from sensorium.entities.device import usable_device
from sensorium.entities.normalizer import MAX_NORMALIZED, RunningNormalizer
from sensorium.entities.sac_options import SACOptions
from sensorium.entities.sb3_adapters import NormedReLU, ReplayAdapter, SpacesEnv
from sensorium.errors import DatasetError, OptionError, shorten
from sensorium.files import write_whole

_FORMAT = "sensorium-sac"
_VECTOR = "vector"
"""Key of all observations that are not images, in the input of the networks."""
_MIN_PIXELS = 36
"""Minimum size of an image along its shorter side, pixels: the CNN needs it."""


class SACMLPBrain:
    """A squashed Gaussian actor and twin critics with automatic temperature.

    Vector observations are normalised by their running mean and standard deviation, clipped at 10 standard deviations
    (so an infinite reading counts as far away) and concatenated; NaN counts as the mean. Images (H, W, C) uint8 go
    through a small CNN. Only ``terminated`` ends the return of a transition; ``truncated`` does not.

    Args:
        observation_space: Dict of Boxes that may nest, the space of one env.
        action_space: bounded Box, the space of one env.
        seed: seed of the networks, of exploration and of sampling.
        hidden: units of the hidden layers.
        layer_norm: whether hidden layers are normalised, which reduces overestimation by the critics in rarely seen
            states.
        learning_rate: learning rate of actor, critics and temperature.
        gamma: discount factor per step.
        tau: update rate of the target critics per gradient step.
        batch_size: transitions per gradient step.
        target_entropy: target entropy of the policy, nats. Lower values explore less. Default: minus the number of
            actions.
        device: "cpu" or "cuda".

    Raises:
        OptionError: Stable-Baselines3 is not installed, a space cannot be used, or an option is out of range.
        DeviceError: the device does not exist.

    Example:
        >>> brain = sn.SACMLPBrain(entity.observation_space, entity.action_space, hidden=(64, 64))
        >>> actions = brain.decide_batch(observation)
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
            if min(height, width) < _MIN_PIXELS:
                raise OptionError(
                    f"{name} has {width} x {height} pixels, and the network needs at least {_MIN_PIXELS} x "
                    f"{_MIN_PIXELS}; raise the camera's resolution"
                )
        self._vectors = [name for name in self._boxes if name not in self._images]
        if not self._boxes:
            raise OptionError("observation_space is empty: the entity has no sensors; give it some")
        inputs = {name.replace(".", "_"): self._boxes[name] for name in self._images}
        width = sum(_size(self._boxes[name]) for name in self._vectors)
        if width:
            inputs[_VECTOR] = spaces.Box(-MAX_NORMALIZED, MAX_NORMALIZED, (width,), np.float32)
        self._normalizer = RunningNormalizer(width, self.device)
        low, high = (torch.from_numpy(each).to(self.device) for each in (action_space.low, action_space.high))
        self._action_centre, self._action_half = (high + low) / 2, (high - low) / 2
        self._sac: Any = SAC(
            "MultiInputPolicy",
            SpacesEnv(spaces.Dict(list(inputs.items())), action_space),
            learning_rate=options.learning_rate,
            buffer_size=1,
            gamma=options.gamma,
            tau=options.tau,
            batch_size=options.batch_size,
            target_entropy="auto" if options.target_entropy is None else options.target_entropy,
            policy_kwargs={
                "net_arch": list(options.hidden),
                "activation_fn": NormedReLU if options.layer_norm else torch.nn.ReLU,
                "optimizer_kwargs": {"fused": True},
            },
            seed=options.seed,
            device=device,
        )
        self._sac.set_logger(Logger(None, []))
        self._rng = torch.Generator(device="cpu").manual_seed(options.seed)

    # -- deciding -----------------------------------------------------------------------------------------------------

    def decide(self, observation: Mapping[str, Any], deterministic: bool = False) -> np.ndarray:
        """Return the action (n,) for the observation of one env.

        Args:
            observation: nested as the observation space.
            deterministic: whether to act without exploration.
        """
        one = {name: value[None] for name, value in flat_observation(observation).items()}
        return self._decide(one, deterministic)[0]

    def decide_batch(self, observation: Mapping[str, Any], deterministic: bool = False) -> np.ndarray:
        """Return the actions (B, n) for the observations of B envs; arguments as of :meth:`decide`."""
        return self._decide(flat_observation(observation), deterministic)

    def _decide(self, observation: dict[str, np.ndarray], deterministic: bool) -> np.ndarray:
        policy = self._sac.policy
        policy.set_training_mode(False)
        with torch.no_grad():
            try:
                inputs = self._inputs({name: torch.as_tensor(value) for name, value in observation.items()})
            except (KeyError, RuntimeError) as error:
                raise OptionError(self._mismatch(observation) or str(error)) from error
            mean, log_std, _ = policy.actor.get_action_dist_params(inputs)
            if not deterministic:
                noise = torch.randn(mean.shape, generator=self._rng).to(mean)
                mean = mean + log_std.exp() * noise
            action: np.ndarray = torch.addcmul(self._action_centre, torch.tanh(mean), self._action_half).cpu().numpy()
        return action.clip(self.action_space.low, self.action_space.high)

    def _inputs(self, observation: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the inputs of the networks: images, and all other observations as one normalised vector."""
        inputs = {
            name.replace(".", "_"): observation[name].to(self.device).permute(0, 3, 1, 2) for name in self._images
        }
        if self._vectors:
            flat = torch.cat([observation[name].flatten(1) for name in self._vectors], dim=1)
            inputs[_VECTOR] = self._normalizer.normalize(flat)
        return inputs

    def _normalized_actions(self, action: torch.Tensor) -> torch.Tensor:
        """Return actions (n, ...) scaled to [-1, 1], on the device."""
        return (action.to(self.device) - self._action_centre) / self._action_half

    def _mismatch(self, observation: Mapping[str, np.ndarray]) -> str:
        """Return what is wrong with the observation of several envs."""
        for name, box in self._boxes.items():
            if name not in observation:
                return f"the observation lacks {name!r}; it has {shorten(observation)}"
            if observation[name].shape[1:] != box.shape:
                shape = observation[name].shape[1:]
                return (
                    f"{name!r} must have shape {box.shape} in each env, got {shape}; use decide_batch for several envs"
                )
        return ""

    # -- learning -----------------------------------------------------------------------------------------------------

    def observe(self, observation: Mapping[str, Any]) -> None:
        """Update the running mean and standard deviation with the observations of B envs."""
        if not self._vectors:
            return
        flat = flat_observation(observation)
        values = np.concatenate([flat[name].reshape(len(flat[name]), -1) for name in self._vectors], axis=1)
        self._normalizer.update(values)

    def learn(self, memory: TransitionSource, gradient_steps: int) -> dict[str, float]:
        """Take gradient steps on batches of a memory, and return the losses and the temperature."""
        self._sac.replay_buffer = ReplayAdapter(memory, self._inputs, self._normalized_actions)
        with torch.random.fork_rng():  # Stable-Baselines3 draws from torch's global generator: restore it afterwards
            torch.manual_seed(self._options.seed * 1_000_003 + self._sac._n_updates)
            self._sac.train(gradient_steps, self._options.batch_size)
        return {name: float(value) for name, value in self._sac.logger.name_to_value.items()}

    # -- files --------------------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write ``brain.safetensors`` and ``brain.json``: networks, optimizers, normalisation and random state."""
        from safetensors.torch import save

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "brain.safetensors", save(self._tensors()))
        header = {
            "format": _FORMAT,
            "version": 3 if self._options.layer_norm else 2,  # older programs read version 2, without layer_norm
            "options": self._options.model_dump(mode="json"),
            "observed": self._normalizer.count,
            "spaces": {name: list(box.shape) for name, box in self._boxes.items()},
            "updates": self._sac._n_updates,
        }
        write_whole(folder / "brain.json", json.dumps(header, indent=1).encode())

    def restore(self, folder: str | Path) -> None:
        """Restore a saved brain.

        Raises:
            DatasetError: the folder holds no brain that this version can read, or one with other spaces or networks.
                Nothing is changed.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        folder = Path(folder)
        header = _read_header(folder)
        try:
            tensors = load_file(folder / "brain.safetensors", device=str(self.device))
        except (OSError, SafetensorError) as error:
            raise DatasetError(f"cannot read brain.safetensors in {folder}: {error}") from None
        own = {name: list(box.shape) for name, box in self._boxes.items()}
        if header["spaces"] != own:
            raise DatasetError(f"the brain in {folder} observes {header['spaces']}, and this one {own}")
        shapes = {f"policy/{name}": value.shape for name, value in self._sac.policy.state_dict().items()}
        saved_shapes = {name: value.shape for name, value in tensors.items() if name.startswith("policy/")}
        saved, own_options = (
            {name: options[name] for name in ("hidden", "layer_norm")}
            for options in (
                SACOptions().model_dump(mode="json") | header["options"],
                self._options.model_dump(mode="json"),
            )
        )
        if saved_shapes != shapes or saved != own_options:
            raise DatasetError(
                f"the brain in {folder} has other networks or actions than this one: {saved} and {own_options}"
            )
        self._load_tensors(tensors, float(header["observed"]))
        self._sac._n_updates = int(header["updates"])

    @classmethod
    def load(
        cls, folder: str | Path, observation_space: spaces.Dict, action_space: spaces.Box, device: str = "cpu"
    ) -> SACMLPBrain:
        """Return a saved brain, for the same spaces; raises as :meth:`restore`."""
        try:
            options = SACOptions(**_read_header(Path(folder))["options"])
        except OptionError as error:
            raise DatasetError(f"the brain in {folder} has options that this version does not know: {error}") from None
        brain = cls(observation_space, action_space, **options.model_dump(), device=device)
        brain.restore(folder)
        return brain

    def _optimizers(self) -> dict[str, torch.optim.Optimizer]:
        sac = self._sac
        return {"actor": sac.actor.optimizer, "critic": sac.critic.optimizer, "temperature": sac.ent_coef_optimizer}

    def _tensors(self) -> dict[str, torch.Tensor]:
        tensors = {f"policy/{name}": value for name, value in self._sac.policy.state_dict().items()}
        tensors["log_temperature"] = self._sac.log_ent_coef.detach()
        tensors["random"] = self._rng.get_state()
        tensors["mean"] = torch.from_numpy(self._normalizer.mean)
        tensors["variance"] = torch.from_numpy(self._normalizer.variance)
        for kind, optimizer in self._optimizers().items():
            for number, state in optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer/{kind}/{number}/{name}": value for name, value in state.items()}
        return {name: value.contiguous().clone() for name, value in tensors.items()}

    def _load_tensors(self, tensors: dict[str, torch.Tensor], observed: float) -> None:
        start = "policy/"
        self._sac.policy.load_state_dict({n[len(start) :]: v for n, v in tensors.items() if n.startswith(start)})
        self._sac.log_ent_coef.data.copy_(tensors["log_temperature"])
        self._rng.set_state(tensors["random"].cpu())
        mean, variance = (tensors[name].cpu().numpy() for name in ("mean", "variance"))
        self._normalizer.restore(observed, mean, variance)
        for kind, optimizer in self._optimizers().items():
            state = optimizer.state_dict()
            state["state"] = {}
            for path, value in tensors.items():
                parts = path.split("/")
                if parts[:2] == ["optimizer", kind]:
                    state["state"].setdefault(int(parts[2]), {})[parts[3]] = value
            optimizer.load_state_dict(state)


def _read_header(folder: Path) -> dict[str, Any]:
    """Return the contents of ``brain.json``."""
    path = folder / "brain.json"
    if not path.is_file():
        raise DatasetError(f"{folder} holds no brain: brain.json is missing")
    try:
        header = json.loads(path.read_bytes())
    except ValueError as error:
        raise DatasetError(f"{path} cannot be read: {error}") from None
    required = ("options", "spaces", "observed", "updates")
    known = isinstance(header, dict) and header.get("format") == _FORMAT and header.get("version") in (2, 3)
    if not known or any(name not in header for name in required) or not isinstance(header["options"], dict):
        raise DatasetError(f"{path} is not a brain that this version can read")
    return header


def _size(box: spaces.Box) -> int:
    return int(np.prod(box.shape))
