"""``GraphPPO``: rsl_rl's PPO with one CUDA graph per decision and one per minibatch, or on a CPU with two threads.

rsl_rl launches each operation of an update by itself and reads several numbers from the device per minibatch. With
small networks the GPU then waits for the host most of the time. Here a minibatch is captured once and replayed, and
its learning rate is adapted on the device. What is decided and stored in a step is captured in the same way. On a CPU
the critic learns on a thread of its own, beside the actor, which does not change the results. The losses are those of
rsl_rl 5.5.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.models import MLPModel
from torch import nn

from sensorium.training import gaussian
from sensorium.training.buffered_mlp import BufferedMLP
from sensorium.training.image_model import ImageModel

if TYPE_CHECKING:
    from rsl_rl.storage import RolloutStorage
    from tensordict import TensorDict

_MIN_RATE, _MAX_RATE, _RATE_FACTOR = 1e-5, 1e-2, 1.5
"""Limits of the adapted learning rate, and the factor of one adaptation."""


class GraphPPO(PPO):  # type: ignore[misc]  # rsl_rl has no types
    """PPO of networks without memory; recurrent ones are updated by rsl_rl itself.

    Args:
        actor, critic, storage: as rsl_rl's PPO takes them.
        learning_rate: initial step size.
        device: device of the networks.
        **options: further options of rsl_rl's PPO.
    """

    def __init__(
        self,
        actor: MLPModel,
        critic: MLPModel,
        storage: RolloutStorage,
        *,
        learning_rate: float,
        device: str,
        **options: object,
    ) -> None:
        self._on_gpu = torch.device(device).type == "cuda"
        self._rate = torch.tensor(float(learning_rate), device=device)
        super().__init__(actor, critic, storage, learning_rate=learning_rate, device=device, **options)
        self._is_graph = not (actor.is_recurrent or critic.is_recurrent)
        if self._is_graph:
            parameters = list(chain(self.actor.parameters(), self.critic.parameters()))
            rate = self._rate if self._on_gpu else learning_rate
            self.optimizer = torch.optim.Adam(parameters, lr=rate, fused=True, capturable=self._on_gpu)
            for layer in chain(self.actor.modules(), self.critic.modules()):
                if isinstance(layer, nn.ELU):  # its input is the output of a linear layer, which nothing else needs
                    layer.inplace = True
            networks = (self.actor.mlp, self.critic.mlp)  # torch reuses memory by itself on a GPU only
            passes: list[Callable[[torch.Tensor], torch.Tensor]] = [
                network if self._on_gpu else BufferedMLP(network) for network in networks
            ]
            self._actor, self._critic = passes
        self._thread = None if self._on_gpu else ThreadPoolExecutor(1, "critic")
        self._data = self._rows = self._sums = torch.zeros(0)
        self._widths: list[int] = []
        self._images: dict[str, torch.Tensor] = {}
        self._updates = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._groups = sorted({*actor.obs_groups, *getattr(actor, "obs_groups_2d", ()), *critic.obs_groups})
        self._seen: dict[str, torch.Tensor] = {}
        self._row = torch.zeros(1, dtype=torch.int64, device=device)
        self._action = self._value = torch.zeros(0)
        self._decision: torch.cuda.CUDAGraph | None = None
        # decisions about images are not captured, since a copy of all images would be needed
        self._captures = self._on_gpu and not isinstance(actor, ImageModel)
        if self._is_graph:
            if self._captures:
                self._seen = {name: torch.zeros_like(storage.observations[name][0]) for name in self._groups}
            shape = storage.actions.shape
            self._time_outs = torch.zeros(shape[:2], dtype=torch.bool, device=device)
            storage.distribution_params = tuple(torch.zeros(shape, device=device) for _ in range(2))

    @property
    def learning_rate(self) -> float:
        """Current step size. Waits for the device."""
        return float(self._rate)

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self._rate.fill_(value)

    def load(self, loaded_dict: dict[str, Any], load_cfg: dict[str, Any] | None, strict: bool) -> bool:
        """Load what :meth:`save` returned, also on another device; see rsl_rl."""
        if self._is_graph and "optimizer_state_dict" in loaded_dict:
            state = loaded_dict["optimizer_state_dict"]
            kinds = {"fused": True, "capturable": self._on_gpu}  # of this device, not of that which saved it
            groups = [group | kinds for group in state["param_groups"]]
            loaded_dict = loaded_dict | {"optimizer_state_dict": state | {"param_groups": groups}}
        result = bool(super().load(loaded_dict, load_cfg, strict))
        self._graph, self._decision, self._updates = None, None, 0  # the optimizer has other tensors now
        if self._is_graph and self._on_gpu:
            for group in self.optimizer.param_groups:
                group["lr"] = self._rate
        return result

    def act(self, obs: TensorDict) -> torch.Tensor:
        """Return sampled actions, (B, n), which the next call overwrites, and store what was decided; see rsl_rl."""
        if not self._is_graph:
            action: torch.Tensor = super().act(obs)
            return action
        self._row.fill_(self.storage.step)
        if self._updates == 0 or not self._captures:  # the first decisions allocate what a capture needs
            self._decide({name: obs[name] for name in self._groups})
            return self._action
        for name in self._groups:
            self._seen[name].copy_(obs[name])
        if self._decision is None:
            self._decision = torch.cuda.CUDAGraph()
            with torch.inference_mode(False), torch.no_grad(), torch.cuda.graph(self._decision):
                self._decide(self._seen)
        self._decision.replay()
        return self._action

    def process_env_step(
        self, obs: TensorDict, rewards: torch.Tensor, dones: torch.Tensor, extras: dict[str, torch.Tensor]
    ) -> None:
        """Store what followed from the last action; see rsl_rl. An episode that was truncated adds its last value."""
        if not self._is_graph:
            super().process_env_step(obs, rewards, dones, extras)
            return
        stored = self.storage
        if self._on_gpu:
            rest = self._value[:, 0] * extras["time_outs"]
            rewards = torch.add(rewards, rest, alpha=self.gamma)
        else:
            self._time_outs[stored.step] = extras["time_outs"]
        stored.rewards[stored.step, :, 0] = rewards
        stored.dones[stored.step, :, 0] = dones
        stored.step += 1

    def compute_returns(self, obs: TensorDict) -> None:
        """Compute returns and advantages of the stored steps; see rsl_rl.

        On a CPU the values of all steps are computed here at once, which is faster than step by step.
        """
        if self._is_graph and not self._on_gpu:
            stored = self.storage
            known = MLPModel.get_latent(self.critic, stored.observations.flatten(0, 1))
            parts = known.split(len(known) // self.num_mini_batches)
            stored.values.copy_(torch.cat([self._critic(part) for part in parts]).view_as(stored.values).detach())
            stored.rewards.add_(stored.values * self._time_outs[..., None], alpha=self.gamma)
        super().compute_returns(obs)

    def _decide(self, seen: dict[str, torch.Tensor]) -> None:
        """Sample actions and write them to the storage, with their likelihoods, the values and what was seen."""
        stored, distribution = self.storage, self.actor.distribution
        mean = self._actor(self.actor.get_latent(seen))
        distribution.update(mean)
        # as torch.normal(mean, std), which reads from the device whether std is positive
        self._action = torch.randn_like(mean).mul_(distribution.std).add_(mean).detach()
        rows = [(stored.actions, self._action)]
        if self._on_gpu:
            self._value = self.critic(seen).detach()
            rows += [(stored.values, self._value)]
        rows += [(stored.actions_log_prob, gaussian.log_density(self._action, mean, self._std())[:, None])]
        rows += zip(stored.distribution_params, distribution.params, strict=True)
        rows += [(stored.observations[name], value) for name, value in seen.items()]
        for table, row in rows:
            table.index_copy_(0, self._row, row.detach()[None])

    def update(self) -> dict[str, float]:
        """Run all epochs over the stored steps and return mean losses."""
        if not self._is_graph:
            return dict(super().update())
        self._gather()
        self._updates += 1
        n_rows, count = len(self._data), self.num_mini_batches
        size = n_rows // count
        order = torch.randperm(count * size, device=self.device)
        if len(self._rows) != size:
            self._rows = torch.zeros_like(order[:size])
        for _ in range(self.num_learning_epochs):
            for part in order.split(size):
                self._rows.copy_(part)
                self._run()
        observations = self.storage.observations.flatten(0, 1)
        for network in (self.actor, self.critic):
            _update_normalization(network, observations)
        self.storage.clear()
        means = (self._sums / (self.num_learning_epochs * count)).tolist()
        return dict(zip(("value", "surrogate", "entropy"), means, strict=True))

    def _gather(self) -> None:
        """Collect what minibatches need in one matrix, a row per step, with normalised observations.

        Images stay where they are stored.
        """
        stored = self.storage
        observations = stored.observations.flatten(0, 1)
        with torch.no_grad():
            parts = [MLPModel.get_latent(network, observations) for network in (self.actor, self.critic)]
            parts += [each.flatten(0, 1) for each in (stored.actions, *stored.distribution_params)]
            singles = (stored.values, stored.returns, stored.advantages, stored.actions_log_prob)
            parts += [each.flatten(0, 1) for each in singles]
            if not len(self._data):
                self._widths = [part.shape[1] for part in parts]
                self._data = torch.cat(parts, dim=1)
                self._sums = torch.zeros(3, device=self.device)
                if isinstance(self.actor, ImageModel):
                    self._images = {name: stored.observations[name].flatten(0, 1) for name in self.actor.obs_groups_2d}
            torch.cat(parts, dim=1, out=self._data)
        self._sums.zero_()

    def _run(self) -> None:
        """Update with one minibatch."""
        if not self._on_gpu:
            self._minibatch()
        elif self._graph is not None:
            self._graph.replay()
        elif self._updates == 1:  # torch allocates what it needs, on another stream as it asks for before a capture
            side, main = torch.cuda.Stream(self.device), torch.cuda.current_stream(self.device)
            side.wait_stream(main)
            with torch.cuda.stream(side):
                self._minibatch()
            main.wait_stream(side)
        else:
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._minibatch()
            self._graph.replay()

    def _minibatch(self) -> None:
        rows = self._data.index_select(0, self._rows)
        seen, known, actions, *old, values, returns, advantages, old_log_prob = rows.split(self._widths, dim=1)
        self.optimizer.zero_grad()
        # the networks share nothing, so that on a CPU the critic learns beside the actor
        learn_values = partial(self._learn_values, known, values, returns)
        pending = None if self._thread is None else self._thread.submit(learn_values)
        surrogate, entropy = self._learn_actions(seen, actions, old, advantages[:, 0], old_log_prob[:, 0])
        value_loss = learn_values() if pending is None else pending.result()
        self.optimizer.step()
        with torch.no_grad():
            self._sums.add_(torch.stack((value_loss, surrogate, entropy)))

    def _learn_values(self, known: torch.Tensor, values: torch.Tensor, returns: torch.Tensor) -> torch.Tensor:
        """Compute the gradients of the critic, and return its loss."""
        estimates = self._critic(known)
        clipped = values + (estimates - values).clamp(-self.clip_param, self.clip_param)
        loss = torch.max((estimates - returns).pow(2), (clipped - returns).pow(2)).mean()
        (self.value_loss_coef * loss).backward()
        nn.utils.clip_grad_norm_(self.critic.parameters(), self.max_grad_norm)
        return loss.detach()

    def _learn_actions(
        self,
        seen: torch.Tensor,
        actions: torch.Tensor,
        old: list[torch.Tensor],
        advantages: torch.Tensor,
        old_log_prob: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the gradients of the actor and adapt the learning rate; return the surrogate and the entropy."""
        if self._images:
            images = {name: each.index_select(0, self._rows) for name, each in self._images.items()}
            seen = self.actor.join(seen, images)
        mean = self._actor(seen)
        std, (old_mean, old_std) = self._std(), old
        with torch.no_grad():
            self._adapt(gaussian.divergence(mean, std, old_mean, old_std[0]))  # the same deviation in all rows
        ratio = torch.exp(gaussian.log_density(actions, mean, std) - old_log_prob)
        limited = ratio.clamp(1.0 - self.clip_param, 1.0 + self.clip_param)
        surrogate = torch.max(-advantages * ratio, -advantages * limited).mean()
        entropy = gaussian.entropy(std)
        (surrogate - self.entropy_coef * entropy).backward()
        nn.utils.clip_grad_norm_(self.actor.parameters(), self.max_grad_norm)
        with torch.no_grad():
            self.actor.distribution.update(mean.detach())  # otherwise it would keep the graph of this minibatch alive
        return surrogate.detach(), entropy.detach()

    def _std(self) -> torch.Tensor:
        """Return the standard deviation of the actions, (n,). It does not depend on what is observed."""
        distribution = self.actor.distribution
        std: torch.Tensor = distribution.std_param.clamp(*distribution.std_range)
        return std

    def _adapt(self, divergence: torch.Tensor) -> None:
        """Adapt the learning rate to the change of the policy so far."""
        slower = (self._rate / _RATE_FACTOR).clamp(min=_MIN_RATE)
        faster = (self._rate * _RATE_FACTOR).clamp(max=_MAX_RATE)
        is_small = (divergence < self.desired_kl / 2) & (divergence > 0)
        rate = torch.where(divergence > 2 * self.desired_kl, slower, torch.where(is_small, faster, self._rate))
        self._rate.copy_(rate)
        if not self._on_gpu:
            for group in self.optimizer.param_groups:
                group["lr"] = float(rate)


def _update_normalization(network: MLPModel, observations: TensorDict) -> None:
    """Update the statistics of the observations in place: rsl_rl makes a new tensor, which a graph would not see."""
    normalizer = network.obs_normalizer
    kept = normalizer._std
    network.update_normalization(observations)
    kept.copy_(normalizer._std)
    normalizer._std = kept
