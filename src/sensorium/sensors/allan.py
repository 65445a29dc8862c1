"""Allan deviation of white noise and Gauss-Markov drift, and the drift that gives a bias instability.

White noise of N per √Hz (two-sided) has the Allan variance N² / τ at the averaging time τ. A Gauss-Markov process of
standard deviation σ and time constant T has σ² g(τ / T), which rises to its peak at τ = 1.89 T. The sum of both falls
with the noise, has a floor, and rises to the peak of the drift. Data sheets call the floor bias
instability. The coefficient B of IEEE 952 is the floor / 0.664.
"""

from __future__ import annotations

import math

import torch

PEAK_TIME = 1.89
"""Averaging time at which the Allan deviation of a Gauss-Markov process peaks, in its time constants."""
PEAK = 0.618
"""Allan deviation of a Gauss-Markov process at its peak, relative to its standard deviation."""
HIGHEST_PEAK = 1.5
"""Highest peak of the drift that is used for a floor, relative to the floor."""


def gauss_markov_variance(u: torch.Tensor) -> torch.Tensor:
    """Return g(u), the Allan variance of a Gauss-Markov process of standard deviation 1, at u time constants.

    g(u) = (2 / u) (1 - (3 - 4 exp(-u) + exp(-2 u)) / (2 u))
    """
    return 2 / u * (1 - (3 - 4 * torch.exp(-u) + torch.exp(-2 * u)) / (2 * u))


_U = torch.linspace(math.log(0.02), math.log(PEAK_TIME), 160, dtype=torch.float64).exp()
"""Averaging times up to the peak. At shorter ones than these, the limit on the peak of the drift applies anyway."""


def drift_of_floor(floor: torch.Tensor, white: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
    """Return the standard deviation of the drift with which the total Allan deviation has its floor at ``floor``.

    The peak of the drift is at most 1.5 times the floor, so the floor of nearly noiseless sensors is lower than
    ``floor``. Without any noise there is no floor, and the peak is ``floor``. Where the noise alone is above ``floor``
    up to 1.89 time constants, the result is 0; see :func:`is_hidden`.

    Args:
        floor: B, any shape.
        white: N, the Allan deviation of the white noise at 1 s, same shape.
        time: T, the time constant of the drift, s, same shape.
    """
    u = _U.to(floor.device)
    ratio = _white_share(floor, white, time).unsqueeze(-1)
    variance = ((1 - ratio / u) / gauss_markov_variance(u)).amax(dim=-1).clamp(min=0)
    relative = variance.sqrt().clamp(max=HIGHEST_PEAK / PEAK)
    return floor * torch.where(white > 0, relative, 1 / PEAK)


def is_hidden(floor: torch.Tensor, white: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
    """Return where white noise alone is above ``floor`` up to the averaging time at which the drift peaks."""
    return (floor > 0) & (_white_share(floor, white, time) >= PEAK_TIME)


def _white_share(floor: torch.Tensor, white: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
    """Return N² / (B² T): the averaging time at which noise alone falls to the floor, in time constants."""
    return white**2 / (floor**2 * time).clamp(min=1e-300)
