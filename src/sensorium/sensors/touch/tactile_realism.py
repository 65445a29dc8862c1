"""Options of the imperfections of tactile skins, which all sensors of touch share. ``skin.py`` applies them."""

from __future__ import annotations

from pydantic import Field, model_validator

from sensorium.options import Options

PARAMETERS = ("relaxation_fraction", "relaxation_time", "gain_spread", "dead_fraction")
"""Options of :class:`TactileRealism` that ``set`` can change."""


class TactileRealism(Options):
    """Options of the imperfections of a tactile skin. Taxels are numbered in the order of the reading."""

    relaxation_fraction: float = Field(default=0.0, ge=0)
    """Viscoelastic hysteresis: stiffness of a Maxwell branch (spring and dashpot in series) relative to the skin's
    spring beside it. After a step to the load x, the skin reads x * (1 + relaxation_fraction * exp(-t /
    relaxation_time)); a static load reads x. The response is linear: after a step back to 0, readings are negative for
    the same time. ``set`` changes it per env."""
    relaxation_time: float = Field(default=0.2, gt=0)
    """Time constant of the Maxwell branch, s. ``set`` changes it per env."""
    crosstalk_length: float = Field(default=0.0, ge=0)
    """Spatial crosstalk: each taxel reads a weighted mean of its neighbours. Weights are a Gaussian over the distance
    between taxels with this standard deviation (m), cut off at three times that. The weights of a taxel add up to 1,
    so a uniform load stays uniform."""
    crosstalk_kernel: tuple[tuple[float, ...], ...] | None = None
    """Alternative to ``crosstalk_length``: a measured (n, n) matrix, whose row i holds the weights of all taxels in
    taxel i. Rows are normalised to a sum of 1."""
    gain_spread: float = Field(default=0.0, ge=0)
    """Standard deviation of the taxels' gains around 1. Gains are drawn once per (seed, uuid, taxel, env) and never
    change. ``set`` changes the standard deviation per env."""
    dead_taxels: tuple[int, ...] = ()
    """Taxels that read 0 in every env."""
    dead_fraction: float = Field(default=0.0, ge=0, le=1)
    """Probability that a taxel is dead and reads 0; drawn like the gains. ``set`` changes it per env."""

    @model_validator(mode="after")
    def _check_crosstalk(self) -> TactileRealism:
        if self.crosstalk_kernel is not None:
            if self.crosstalk_length:
                raise ValueError("crosstalk_length and crosstalk_kernel exclude each other; give only one")
            if {len(row) for row in self.crosstalk_kernel} != {len(self.crosstalk_kernel)}:
                raise ValueError("crosstalk_kernel must be a square matrix")
            if min(sum(row) for row in self.crosstalk_kernel) <= 0:
                raise ValueError("every row of crosstalk_kernel must have a sum > 0")
        return self

    def _check_taxels(self, count: int) -> None:
        """Raise a ValueError if the options do not fit ``count`` taxels."""
        if self.crosstalk_kernel is not None and len(self.crosstalk_kernel) != count:
            raise ValueError(
                f"crosstalk_kernel must be {count} x {count}, one row per taxel, got {len(self.crosstalk_kernel)} rows"
            )
        for taxel in self.dead_taxels:
            if not 0 <= taxel < count:
                raise ValueError(f"dead_taxels must lie in [0, {count}), got {taxel}")


def realism_parameters() -> dict[str, tuple[str, slice]]:
    """Return the parameters of :class:`TactileRealism` for ``Sensor._custom_parameters``."""
    return {name: ("custom", slice(0, 1)) for name in PARAMETERS}
