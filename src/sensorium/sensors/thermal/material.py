"""Thermal properties of materials."""

from __future__ import annotations

from pydantic import Field

from sensorium.errors import OptionError, did_you_mean, shorten
from sensorium.options import Options


class Material(Options):
    """Thermal properties of a body, for :class:`sn.TemperatureGrid`.

    Presets are available by name: ``sn.MATERIALS["steel"]``.

    Example:
        >>> sn.Material(conductivity=0.25, density=1150, heat_capacity=1700, emissivity=0.9, hardness=1e8)
    """

    conductivity: float = Field(gt=0)
    """Thermal conductivity, W/(m·K)."""
    density: float = Field(gt=0)
    """Density, kg/m³."""
    heat_capacity: float = Field(gt=0)
    """Specific heat capacity, J/(kg·K)."""
    emissivity: float = Field(default=0.9, ge=0, le=1)
    """Emissivity of the surface, 0 (mirror) to 1 (black)."""
    hardness: float = Field(default=1e8, gt=0)
    """Pressure at which touching asperities yield, Pa. The real contact area is force divided by hardness."""


MATERIALS: dict[str, Material] = {
    "aluminium": Material(conductivity=167, density=2700, heat_capacity=896, emissivity=0.1, hardness=1.1e9),
    "steel": Material(conductivity=50, density=7850, heat_capacity=490, emissivity=0.3, hardness=1.5e9),
    "copper": Material(conductivity=390, density=8940, heat_capacity=385, emissivity=0.05, hardness=0.9e9),
    "plastic": Material(conductivity=0.2, density=1050, heat_capacity=1400, emissivity=0.92, hardness=1.2e8),
    "rubber": Material(conductivity=0.16, density=1150, heat_capacity=1900, emissivity=0.94, hardness=3e6),
    "wood": Material(conductivity=0.15, density=650, heat_capacity=1700, emissivity=0.9, hardness=3e7),
    "glass": Material(conductivity=1.0, density=2500, heat_capacity=840, emissivity=0.92, hardness=5.5e9),
    "concrete": Material(conductivity=1.4, density=2300, heat_capacity=880, emissivity=0.92, hardness=1e9),
    "skin": Material(conductivity=0.37, density=1100, heat_capacity=3400, emissivity=0.98, hardness=5e4),
}
"""Name -> typical values at room temperature (6061 aluminium, mild steel, ABS, softwood, ...)."""


def find_material(given: Material | str, asked_by: str) -> Material:
    """Return a material as it is, or the preset of a name.

    Raises:
        OptionError: there is no preset of that name.
    """
    if isinstance(given, Material):
        return given
    if given not in MATERIALS:
        hint = did_you_mean(given, MATERIALS) or f"; presets: {shorten(list(MATERIALS))}"
        raise OptionError(f"{asked_by}: there is no material named {given!r}{hint}")
    return MATERIALS[given]
