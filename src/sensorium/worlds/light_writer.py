"""``LightWriter``: writes colour, brightness and pose of lights to the engine, separately in each env.

The model holds the products colour x intensity ("light_diffuse") and colour x specular ("light_specular"). To change
one factor alone, the writer remembers the factors of each light.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from sensorium.worlds.device import upload
from sensorium.worlds.lights import Light
from sensorium.worlds.world import World

_PRODUCTS = {"light_diffuse": "intensity", "light_specular": "specular"}
"""Field of the model -> the factor that it holds besides the colour."""
_POSES = {"pos": "light_pos", "direction": "light_dir"}
"""Property of a light -> field of the model."""


@dataclass
class _Levels:
    """Factors of one light in each env."""

    color: torch.Tensor
    """(B, 3) float64."""
    intensity: torch.Tensor
    """(B, 1) float64."""
    specular: torch.Tensor
    """(B, 1) float64."""
    written: dict[str, torch.Tensor]
    """The products as they were in the model when the factors were set, (B, 3) each."""


class LightWriter:
    """Writes properties of the lights of a world. The caller marks images as out of date.

    Args:
        world: the running engine.
        lights: name -> options of the lights of ``scene.add_light``. The brightness of other lights, those of models,
            is part of their colour.
    """

    def __init__(self, world: World, lights: Mapping[str, Light]) -> None:
        self._world, self._lights = world, lights
        self._levels: dict[int, _Levels] = {}

    def initial(self, light: int) -> dict[str, np.ndarray]:
        """Return "color" (3,), "intensity" (1,) and "specular" (1,) of a light as the scene was built."""
        model = self._world.model
        made = self._lights.get(model.light(light).name)
        if made is not None:
            parts = {"color": made.color, "intensity": made.intensity, "specular": made.specular}
        else:
            diffuse = np.asarray(model.light_diffuse[light], float)
            shine = float(model.light_specular[light].max()) / max(diffuse.max(), 1e-9)
            parts = {"color": diffuse, "intensity": 1.0, "specular": shine}
        return {name: np.atleast_1d(np.asarray(part, float)) for name, part in parts.items()}

    def positions(self, light: int) -> torch.Tensor:
        """Return the position of a light in the frame of its body, (B, 3) float64 m."""
        return self._field("light_pos", light).double()

    def write(self, light: int, index: torch.Tensor, values: Mapping[str, torch.Tensor]) -> None:
        """Write properties of a light in some envs.

        Args:
            light: id of the light.
            index: (n,) env ids, on the device.
            values: "color", "intensity", "specular", "pos", or "direction" of unit length -> rows (n, columns) float64.
        """
        for name in _POSES.keys() & values.keys():
            target = self._world.expand(_POSES[name])
            target[index, light] = values[name].to(target.dtype)
        changed = values.keys() & {"color", "intensity", "specular"}
        if not changed:
            return
        levels = self._current(light)
        for name in changed:
            getattr(levels, name)[index] = values[name]
        for field, factor in _PRODUCTS.items():
            if changed & {"color", factor}:
                target = self._world.expand(field)
                target[index, light] = (levels.color[index] * getattr(levels, factor)[index]).to(target.dtype)
            levels.written[field] = self._field(field, light)

    def _current(self, light: int) -> _Levels:
        """Return the factors of a light: as they were set last, or in envs where other code has written to the products
        since (a replay, or ``world.expand``), with the brightness as part of the colour."""
        now = {field: self._field(field, light) for field in _PRODUCTS}
        levels = self._levels.get(light)
        if levels is None:
            model, initial = self._world.model, self.initial(light)
            color, level, shine = (self._rows(initial[name]) for name in ("color", "intensity", "specular"))
            products = {field: self._rows(getattr(model, field)[light]) for field in _PRODUCTS}
            levels = _Levels(color, level, shine, products)
            self._levels[light] = levels
        same = torch.stack([levels.written[field] == now[field] for field in _PRODUCTS]).all(0).all(1, keepdim=True)
        diffuse, specular = (now[field].double() for field in _PRODUCTS)
        shine = specular.amax(1, keepdim=True) / diffuse.amax(1, keepdim=True).clamp(min=1e-9)
        levels.color = torch.where(same, levels.color, diffuse)
        levels.intensity = torch.where(same, levels.intensity, torch.ones_like(shine))
        levels.specular = torch.where(same, levels.specular, shine)
        return levels

    def _field(self, field: str, light: int) -> torch.Tensor:
        """Return what the model has of a light now, (B, columns), as a copy."""
        if field in self._world.expanded:
            return self._world.expanded[field][:, light].clone()
        return self._rows(getattr(self._world.model, field)[light])

    def _rows(self, values: np.ndarray) -> torch.Tensor:
        """Return a vector as rows of all envs, (B, columns), on the device."""
        return upload(torch.from_numpy(np.tile(values, (self._world.n_envs, 1))), self._world.device)
