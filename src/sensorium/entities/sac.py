"""``SACMLPBrain``: soft actor-critic, with the networks and the training step of Stable-Baselines3."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from sensorium._arguments import checked, checked_flag
from sensorium.entities.brain import TransitionSource
from sensorium.entities.device import usable_device
from sensorium.entities.experience_layout import ExperienceLayout
from sensorium.entities.nesting import Rows, flat_rows_of
from sensorium.entities.sac_header import FORMAT, read_header
from sensorium.entities.sac_inputs import VECTOR, NetworkInputs
from sensorium.entities.sac_options import SACOptions
from sensorium.entities.sb3_adapters import NormedReLU, ReplayAdapter, SpacesEnv
from sensorium.entities.tensor_files import load_tensors, save_tensors
from sensorium.errors import DatasetError, OptionError
from sensorium.files import explain_errors, write_whole
from sensorium.options import checked_integer
from sensorium.suites.observation import PRIVILEGED

_STATISTICS = {"": VECTOR, PRIVILEGED: PRIVILEGED + VECTOR}
"""Prefix of the names of running statistics in files -> input of the networks."""
_DEVICE_RANDOM = "random_on_device"
"""Name in files of the state of the random generator on a GPU. A brain on a CPU does not need it."""


class SACMLPBrain:
    """A squashed Gaussian actor and twin critics with automatic temperature.

    Vector observations are normalised by their running mean and standard deviation, clipped at 10 standard deviations
    (so an infinite reading counts as far away) and concatenated; NaN counts as the mean. Images (H, W, C) uint8 go
    through a small CNN, and so do float images of at least 36 x 36 pixels such as depth, scaled by
    ``x / (1 + abs(x))``. Only ``terminated`` ends the return of a transition; ``truncated`` does not.

    The actor is built without privileged observations: it cannot depend on them, and decides without them. The critics
    receive everything. Keys of the purpose "privileged" are privileged, for example those that begin with
    "privileged/".

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
        privileged: patterns of further keys of the observation space that only the critics receive.
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
        privileged: Sequence[str] = (),
        device: str = "cpu",
    ) -> None:
        try:
            from stable_baselines3 import SAC
            from stable_baselines3.common.logger import Logger

            from sensorium.entities.sac_policy import AsymmetricPolicy, InputExtractor
        except ImportError:
            raise OptionError(
                "SACMLPBrain needs Stable-Baselines3, which is not installed: pip install 'sensorium[train]'"
            ) from None
        if not isinstance(action_space, spaces.Box):
            raise OptionError(f"action_space must be a Box, got {action_space!r:.80}")
        if not (np.isfinite(action_space.low).all() and np.isfinite(action_space.high).all()):
            raise OptionError(f"action_space must be bounded, got {action_space}")
        if len(action_space.shape) != 1:
            raise OptionError(
                f"action_space must be the space of one env, (n,), got {action_space}; pass entity.action_space"
            )
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
            privileged=privileged,  # type: ignore[arg-type]
        )
        self._options = options
        self.device = usable_device(device)
        self._inputs = NetworkInputs(observation_space, options.privileged, self.device)
        low, high = (torch.from_numpy(each).to(self.device) for each in (action_space.low, action_space.high))
        self._action_centre, self._action_half = (high + low) / 2, (high - low) / 2
        self._sac: Any = SAC(
            AsymmetricPolicy,
            SpacesEnv(self._inputs.space, action_space),
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
                "features_extractor_class": InputExtractor,
            },
            seed=options.seed,
            device=device,
        )
        self._sac.set_logger(Logger(None, []))
        self._layout = ExperienceLayout.of(observation_space, action_space)
        self._rng = torch.Generator(device="cpu").manual_seed(options.seed)
        # for observations that are tensors on a GPU, which are not copied to the host
        self._device_rng = self._rng if self.device.type == "cpu" else torch.Generator(self.device)
        if self._device_rng is not self._rng:
            self._device_rng.manual_seed(options.seed)

    # -- deciding -----------------------------------------------------------------------------------------------------

    def decide(self, observation: Mapping[str, Any], deterministic: bool = False) -> Rows:
        """Return the action (n,) for the observation of one env: an array, or a tensor if the observation has tensors.

        Args:
            observation: nested as the observation space. Tensors stay on their device. What is privileged may be
                missing. NaN is allowed, for example of a sensor without a signal: the networks receive the mean
                instead, and 0 in images.
            deterministic: whether to act without exploration.

        Raises:
            OptionError: the observation lacks something, or has another shape; or the networks return NaN, which is
                not checked on a GPU.
        """
        one = {name: value[None] for name, value in flat_rows_of(observation).items()}
        return self._decide(one, deterministic)[0]

    def decide_batch(self, observation: Mapping[str, Any], deterministic: bool = False) -> Rows:
        """Return the actions (B, n) for the observations of B envs; arguments as of :meth:`decide`."""
        return self._decide(flat_rows_of(observation), deterministic)

    def _decide(self, observation: dict[str, Rows], deterministic: bool) -> Rows:
        deterministic = checked_flag("deterministic", deterministic)
        policy, as_tensor = self._sac.policy, any(isinstance(value, torch.Tensor) for value in observation.values())
        rng = self._device_rng if as_tensor else self._rng
        policy.set_training_mode(False)
        with torch.no_grad():
            try:
                inputs = self._inputs.of_actor({name: torch.as_tensor(value) for name, value in observation.items()})
                mean, log_std, _ = policy.actor.get_action_dist_params(inputs)
            except (LookupError, TypeError, ValueError, RuntimeError) as error:
                self._inputs.refuse(observation, self._inputs.actor_names, error)
            if not deterministic:
                noise = torch.randn(mean.shape, generator=rng, device=rng.device).to(mean)
                mean = mean + log_std.exp() * noise
            action = torch.addcmul(self._action_centre, torch.tanh(mean), self._action_half)
            if not (as_tensor and action.is_cuda):  # a check of a value on a GPU would wait for it
                action = action.cpu()
                if bool(action.isnan().any()):
                    raise OptionError("the networks return NaN: the training diverged; restore an earlier checkpoint")
            if as_tensor:
                return action.clamp(self._action_centre - self._action_half, self._action_centre + self._action_half)
        return action.numpy().clip(self.action_space.low, self.action_space.high)

    def _normalized_actions(self, action: torch.Tensor) -> torch.Tensor:
        """Return actions (n, ...) scaled to [-1, 1], on the device."""
        return (action.to(self.device) - self._action_centre) / self._action_half

    # -- learning -----------------------------------------------------------------------------------------------------

    def observe(self, observation: Mapping[str, Any]) -> None:
        """Update the running mean and standard deviation with the observations of B envs.

        Raises:
            OptionError: the observation lacks something, also of what is privileged, or has another shape.
        """
        self._inputs.observe(flat_rows_of(observation))

    @checked
    def learn(self, memory: TransitionSource, gradient_steps: int) -> dict[str, float]:
        """Take gradient steps on batches of a memory, and return the losses and the temperature.

        Raises:
            OptionError: the memory is empty, or is for other spaces.
        """
        gradient_steps = checked_integer("gradient_steps", gradient_steps, lower=1)
        layout = getattr(memory, "layout", self._layout)
        if layout != self._layout:
            raise OptionError(f"memory must have the fields of the brain's spaces, {self._layout}, got {layout}")
        self._sac.replay_buffer = ReplayAdapter(memory, self._inputs.of_all, self._normalized_actions)
        with torch.random.fork_rng():  # Stable-Baselines3 draws from torch's global generator: restore it afterwards
            torch.manual_seed(self._options.seed * 1_000_003 + self._sac._n_updates)
            self._sac.train(gradient_steps, self._options.batch_size)
        return {name: float(value) for name, value in self._sac.logger.name_to_value.items()}

    # -- files --------------------------------------------------------------------------------------------------------

    @checked
    def save(self, folder: str | Path) -> None:
        """Write ``brain.safetensors`` and ``brain.json``: networks, optimizers, normalisation and random state.

        Raises:
            DatasetError: the files cannot be written.
        """
        folder = Path(folder)
        with explain_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        save_tensors(folder / "brain.safetensors", self._tensors())
        header = {
            "format": FORMAT,
            "version": self._version(),
            "options": self._options.model_dump(
                mode="json", exclude=None if self._options.privileged else {"privileged"}
            ),
            "observed": next((each.count for each in self._inputs.normalizers.values()), 0.0),
            "spaces": {name: list(box.shape) for name, box in self._inputs.boxes.items()},
            "updates": self._sac._n_updates,
        }
        if header["version"] == 4:
            header |= {"actor": self._inputs.actor_names, "float_images": self._inputs.float_images}
        write_whole(folder / "brain.json", json.dumps(header, indent=1).encode())

    def _version(self) -> int:
        """Return the oldest version of the format that describes this brain, so that older programs can read it."""
        if len(self._inputs.actor_names) < len(self._inputs.boxes) or self._inputs.float_images:
            return 4
        return 3 if self._options.layer_norm else 2

    @checked
    def restore(self, folder: str | Path) -> None:
        """Restore a saved brain.

        Raises:
            DatasetError: the folder holds no brain that this version can read, or one with other spaces or networks.
                Nothing is changed.
        """
        folder = Path(folder)
        header = read_header(folder)
        tensors = load_tensors(folder / "brain.safetensors", str(self.device))
        own = {name: list(box.shape) for name, box in self._inputs.boxes.items()}
        if list(header["spaces"].items()) != list(own.items()):  # the networks concatenate them in this order
            fix = "; list the sensors in the same order" if header["spaces"] == own else ""
            raise DatasetError(f"the brain in {folder} observes {header['spaces']}, and this one {own}{fix}")
        self._check_inputs(folder, header)
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
        self._check_tensors(folder, tensors)
        self._load_tensors(tensors, float(header["observed"]))
        self._sac._n_updates = int(header["updates"])

    def _check_inputs(self, folder: Path, header: dict[str, Any]) -> None:
        """Raise ``DatasetError`` if a saved actor has other inputs. Before version 4 it received everything."""
        saved, own = (sorted(names) for names in (header.get("actor", header["spaces"]), self._inputs.actor_names))
        if saved != own:
            raise DatasetError(
                f"the actor in {folder} observes {saved}, and this one {own}: since version 4 of the format, actors do "
                "not receive privileged observations; train it again"
            )
        saved, own = (sorted(names) for names in (header.get("float_images", ()), self._inputs.float_images))
        if saved != own:
            raise DatasetError(
                f"the brain in {folder} has a CNN for the float images {saved}, and this one for {own}; train it again"
            )

    @classmethod
    @checked
    def load(
        cls, folder: str | Path, observation_space: spaces.Dict, action_space: spaces.Box, device: str = "cpu"
    ) -> SACMLPBrain:
        """Return a saved brain, for the same spaces; raises as :meth:`restore`."""
        try:
            options = SACOptions(**read_header(Path(folder))["options"])
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
        if self._device_rng is not self._rng:
            tensors[_DEVICE_RANDOM] = self._device_rng.get_state()
        for prefix, mean, variance in self._statistics():
            tensors |= {f"{prefix}mean": torch.from_numpy(mean), f"{prefix}variance": torch.from_numpy(variance)}
        for kind, optimizer in self._optimizers().items():
            for number, state in optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer/{kind}/{number}/{name}": value for name, value in state.items()}
        return {name: value.contiguous().clone() for name, value in tensors.items()}

    def _statistics(self) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """Return the prefix of the name in files, mean and variance of each vector. The first one may be empty."""
        found = [(prefix, self._inputs.normalizers.get(key)) for prefix, key in _STATISTICS.items()]
        empty = np.zeros(0)
        return [
            (prefix, *((empty, empty) if each is None else (each.mean, each.variance)))
            for prefix, each in found
            if each is not None or not prefix
        ]

    def _check_tensors(self, folder: Path, tensors: dict[str, torch.Tensor]) -> None:
        """Raise ``DatasetError`` if a tensor besides those of the networks is missing or has another shape."""
        expected = {
            n: v.shape
            for n, v in self._tensors().items()
            if not n.startswith(("policy/", "optimizer/", _DEVICE_RANDOM))
        }
        wrong = [name for name, shape in expected.items() if name not in tensors or tensors[name].shape != shape]
        for name, value in tensors.items():
            if name.startswith("optimizer/"):
                kind, number, _ = (*name.split("/")[1:], "", "", "")[:3]
                optimizer = self._optimizers().get(kind)
                own = (
                    [] if optimizer is None else [each for group in optimizer.param_groups for each in group["params"]]
                )
                if not number.isdigit() or int(number) >= len(own) or value.shape not in ((), own[int(number)].shape):
                    wrong.append(name)
        if wrong:
            raise DatasetError(
                f"brain.safetensors in {folder} is damaged: {wrong[0]!r} is missing or has another shape"
            )

    def _load_tensors(self, tensors: dict[str, torch.Tensor], observed: float) -> None:
        start = "policy/"
        self._sac.policy.load_state_dict({n[len(start) :]: v for n, v in tensors.items() if n.startswith(start)})
        self._sac.log_ent_coef.data.copy_(tensors["log_temperature"])
        self._rng.set_state(tensors["random"].cpu())
        if self._device_rng is not self._rng and _DEVICE_RANDOM in tensors:
            self._device_rng.set_state(tensors[_DEVICE_RANDOM].cpu())
        for prefix, key in _STATISTICS.items():
            if key in self._inputs.normalizers:
                mean, variance = (tensors[prefix + name].cpu().numpy() for name in ("mean", "variance"))
                self._inputs.normalizers[key].restore(observed, mean, variance)
        for kind, optimizer in self._optimizers().items():
            state = optimizer.state_dict()
            state["state"] = {}
            for path, value in tensors.items():
                parts = path.split("/")
                if parts[:2] == ["optimizer", kind]:
                    state["state"].setdefault(int(parts[2]), {})[parts[3]] = value
            optimizer.load_state_dict(state)
