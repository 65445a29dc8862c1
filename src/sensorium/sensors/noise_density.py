"""Noise that was given as a density: at another rate it is another noise per sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from sensorium.pipeline.parameters import broadcast, check
from sensorium.worlds import upload

DENSITY = "noise_density"
"""How the names of such options end; without "_density" it is the noise per sample."""


@dataclass(frozen=True)
class NoiseDensities:
    """The densities that are in force in one sensor, and the rates at which it samples: alike in all envs, or by env.

    noise = density * sqrt(rate / 2)
    """

    owner: str
    """What errors call the sensor."""
    n_envs: int
    most: float
    """Samples per second of a sensor without a rate: one a step."""
    rates: torch.Tensor
    """Samples per second, (1, 1) or (B, 1)."""
    known: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """Option -> (1, axes) or (B, axes); NaN in envs where the noise was given per sample."""

    @classmethod
    def at_build(cls, owner: str, n_envs: int, dt: float, rate: float | None) -> NoiseDensities:
        """None are known yet."""
        most = 1 / dt
        return cls(owner, n_envs, most, torch.full((1, 1), most if rate is None else min(rate, most)).double())

    def changed(
        self,
        parameters: Mapping[str, Any],
        index: torch.Tensor | None,
        n_columns: Callable[[str], int],
        noise_now: Callable[[str], torch.Tensor],
    ) -> tuple[dict[str, Any], NoiseDensities]:
        """What ``set(**parameters)`` in the envs ``index`` means for noise per sample, and what is in force after it.

        Args:
            parameters: option -> value, as given.
            index: which envs, (n,); None for all.
            n_columns: of an option.
            noise_now: the noise per sample that an option has now, (B, axes).
        """
        n = self.n_envs if index is None else len(index)
        rates = self.rates
        if "rate" in parameters:
            given = self.most if parameters["rate"] is None else parameters["rate"]
            rates = self._put(rates, broadcast(f"{self.owner}.rate", given, 1, n).T.clamp(max=self.most), index)
        scale = (_pick(rates, index) / 2).sqrt()
        known, instead = dict(self.known), dict[str, Any]()
        for name in dict.fromkeys([*known, *(option for option in parameters if option.endswith(DENSITY))]):
            noise = name.removesuffix("_density")
            none = torch.full((1, n_columns(name)), math.nan).double()
            if name in parameters and parameters[name] is not None:
                option = f"{self.owner}.{name}"
                density = check(option, broadcast(option, parameters[name], n_columns(name), n), lower=0.0).T
                known[name] = self._put(known.get(name, none), density, index)
                instead[name] = _row(_product(density, scale))
            elif name in parameters or noise in parameters:
                known[name] = self._put(known.get(name, none), none, index)
                if index is None:
                    del known[name]
            elif "rate" in parameters:
                density = _pick(known[name], index)
                new = _product(density, scale)
                if len(density) > 1:  # there may be envs whose noise was given per sample
                    now = _pick(noise_now(name), index).double()
                    new = torch.where(upload(density, now.device).isnan(), now, upload(new, now.device))
                instead[noise] = _row(new)
        return instead, replace(self, rates=rates, known=known)

    def _put(self, old: torch.Tensor, new: torch.Tensor, index: torch.Tensor | None) -> torch.Tensor:
        if index is None:
            return new
        full = upload(old, index.device).expand(self.n_envs, -1).clone()
        full[index] = upload(new, index.device)
        return full


def _pick(values: torch.Tensor, index: torch.Tensor | None) -> torch.Tensor:
    return values if index is None or len(values) == 1 else values[upload(index, values.device)]


def _product(density: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Both on the GPU if one is, for the way back waits for it."""
    device = scale.device if density.device.type == "cpu" else density.device
    return upload(density, device) * upload(scale, device)


def _row(values: torch.Tensor) -> torch.Tensor:
    """One value per axis where all envs are alike."""
    return values[0] if len(values) == 1 else values
