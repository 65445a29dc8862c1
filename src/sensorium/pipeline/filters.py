"""Low-pass filters of columns: their coefficients, and how noise passes through them."""

from __future__ import annotations

import math

import torch

HIGHEST = 0.45
"""Highest bandwidth that a digital filter can represent, relative to the rate of the ticks that it runs at."""


def is_filtered(bandwidth: torch.Tensor, dt: float) -> torch.Tensor:
    """Return where ticks of ``dt`` seconds can represent a low-pass filter of this bandwidth (Hz)."""
    return (bandwidth > 0) & (bandwidth * dt <= HIGHEST)


def low_pass(bandwidth: torch.Tensor, order: int, dt: float) -> dict[str, torch.Tensor]:
    """Return the coefficients of a digital low-pass filter with a gain of -3 dB at ``bandwidth``.

    The filter comes from the bilinear transform. Where the bandwidth is 0, or above 0.45 / dt, which ticks of ``dt``
    cannot represent, the coefficients leave the signal unchanged.

    Args:
        bandwidth: Hz, any shape.
        order: 1, or 2 for a Butterworth filter.
        dt: seconds of one tick.

    Returns:
        "b0", "b1", "b2", "a1" and "a2", in the shape of ``bandwidth``.
    """
    off = ~is_filtered(bandwidth, dt)
    k = torch.tan(math.pi * torch.where(off, 0.1 / dt, bandwidth) * dt)
    if order == 1:
        scale = 1 / (1 + k)
        b0, a1, a2 = k * scale, (k - 1) * scale, torch.zeros_like(k)
        b1, b2 = b0, torch.zeros_like(k)
    else:
        scale = 1 / (1 + math.sqrt(2) * k + k * k)
        b0, a1, a2 = k * k * scale, 2 * (k * k - 1) * scale, (1 - math.sqrt(2) * k + k * k) * scale
        b1, b2 = 2 * b0, b0
    through = {"b0": 1.0, "b1": 0.0, "b2": 0.0, "a1": 0.0, "a2": 0.0}
    made = {"b0": b0, "b1": b1, "b2": b2, "a1": a1, "a2": a2}
    return {name: torch.where(off, through[name], value) for name, value in made.items()}


def noise_state(coefficients: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the Cholesky factor of the covariance of a filter's state (z1, z2), for white noise of variance 1.

    The state obeys z' = A z + v n with A = ((-a1, 1), (-a2, 0)) and v = (b1 - a1 b0, b2 - a2 b0). Its covariance is the
    solution of the discrete Lyapunov equation P = A P A^T + v v^T, here in closed form.

    Args:
        coefficients: those of :func:`low_pass`.

    Returns:
        "l11", "l21" and "l22" of the lower factor, in the shape of the coefficients.
    """
    b0, b1, b2, a1, a2 = (coefficients[name] for name in ("b0", "b1", "b2", "a1", "a2"))
    v1, v2 = b1 - a1 * b0, b2 - a2 * b0
    cross = v1 * v2 / (1 + a2)
    p11 = (v1 * v1 + v2 * v2 - 2 * a1 * cross) * (1 + a2) / ((1 - a2) * (1 + a2 - a1) * (1 + a2 + a1))
    p21 = a1 * a2 * p11 / (1 + a2) + cross
    p22 = a2 * a2 * p11 + v2 * v2
    l11 = p11.clamp(min=0).sqrt()
    l21 = torch.where(l11 > 0, p21 / l11.clamp(min=1e-300), 0.0)
    return {"l11": l11, "l21": l21, "l22": (p22 - l21 * l21).clamp(min=0).sqrt()}


def noise_gain(bandwidth: torch.Tensor, order: int, dt: float) -> torch.Tensor:
    """Return the variance at the output of :func:`low_pass` for white noise of variance 1 in every tick."""
    coefficients = low_pass(bandwidth, order, dt)
    return noise_state(coefficients)["l11"] ** 2 + coefficients["b0"] ** 2


def noise_bandwidth(bandwidth: torch.Tensor, order: int) -> torch.Tensor:
    """Return the equivalent noise bandwidth of an analogue low-pass filter, Hz.

    It is the integral of the squared gain over all frequencies: pi / 2 times the bandwidth for order 1, and
    pi / (2 sqrt(2)) for order 2 (Butterworth).
    """
    return bandwidth * (math.pi / 2 if order == 1 else math.pi / (2 * math.sqrt(2)))
