"""Noise densities of a sensor: the noise per sample follows from the density and the sample rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from sensorium.pipeline.parameters import broadcast, check
from sensorium.worlds import upload

DENSITY = "noise_density"
"""Suffix of such options; without "_density" it is the noise per sample."""


@dataclass(frozen=True)
class NoiseDensities:
    """Noise densities and sample rates of one sensor, the same in all envs or per env.

    noise per sample = density * sqrt(rate / 2)
    """

    owner: str
    """Name of the options class, for error messages."""
    n_envs: int
    default_rate: float
    """Sample rate of a sensor without the option ``rate``, Hz: one sample per step, or per substep."""
    rates: torch.Tensor
    """Sample rates, Hz, (1, 1) or (B, 1)."""
    known: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """Option -> density, (1, axes) or (B, axes); NaN in envs whose noise was set per sample."""

    @classmethod
    def at_build(cls, owner: str, n_envs: int, default_rate: float, rate: float) -> NoiseDensities:
        """Return the state before any density is set."""
        return cls(owner, n_envs, default_rate, torch.full((1, 1), rate).double())

    def changed(
        self,
        parameters: Mapping[str, Any],
        index: torch.Tensor | None,
        n_columns: Callable[[str], int],
        noise_now: Callable[[str], torch.Tensor],
    ) -> tuple[dict[str, Any], NoiseDensities]:
        """Return the noise per sample that ``set(**parameters)`` in the envs ``index`` implies, and the new state.

        Args:
            parameters: option -> value.
            index: which envs, (n,); None for all.
            n_columns: returns the number of columns of an option.
            noise_now: returns the current noise per sample of an option, (B, axes).
        """
        n = self.n_envs if index is None else len(index)
        rates = self.rates
        if "rate" in parameters:
            given = self.default_rate if parameters["rate"] is None else parameters["rate"]
            rates = self._put(rates, broadcast(f"{self.owner}.rate", given, 1, n).T, index)
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
                if len(density) > 1:  # in some envs the noise may have been set per sample
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
    """Multiply on the GPU if one factor is there: copying it to the host would synchronise."""
    device = scale.device if density.device.type == "cpu" else density.device
    return upload(density, device) * upload(scale, device)


def _row(values: torch.Tensor) -> torch.Tensor:
    """Return one value per axis if all envs have the same."""
    return values[0] if len(values) == 1 else values
