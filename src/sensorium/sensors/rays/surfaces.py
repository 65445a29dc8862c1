"""Surfaces as a lidar sees them: the reflectivity of each geom, and the gain of retro-reflectors."""

from __future__ import annotations

from collections.abc import Mapping

import mujoco
import numpy as np

from sensorium.errors import NameNotFoundError, did_you_mean, shorten
from sensorium.sensors.rays.ray_rig import PowerModel


def surface_values(model: mujoco.MjModel, power: PowerModel, asked_by: str) -> np.ndarray:
    """Return reflectivity and retro-reflection of each geom, (ngeom, 2).

    Raises:
        NameNotFoundError: a name of the options is not that of an entity, a link or a geom.
    """
    values = np.zeros((model.ngeom, 2))
    values[:, 0] = _colour_means(model)
    _replace(model, values[:, 0], power.reflectivity, f"{asked_by}.reflectivity")
    _replace(model, values[:, 1], power.retro_reflectors, f"{asked_by}.retro_reflectors")
    return values


def _colour_means(model: mujoco.MjModel) -> np.ndarray:
    """Return the mean colour of each geom, or of its material if the geom has the engine's default colour."""
    rgba = model.geom_rgba.astype(np.float64)
    plain = (model.geom_matid >= 0) & (model.geom_rgba == np.array([0.5, 0.5, 0.5, 1.0], np.float32)).all(axis=1)
    rgba[plain] = model.mat_rgba[model.geom_matid[plain]]
    return rgba[:, :3].mean(axis=1)


def _replace(model: mujoco.MjModel, values: np.ndarray, given: Mapping[str, float], asked_by: str) -> None:
    """Write the given values of entities, then of links, then of geoms, so that the narrower name wins."""
    if not given:
        return
    bodies = [model.body(i).name for i in range(model.nbody)]
    geoms = [model.geom(i).name for i in range(model.ngeom)]
    owner = [bodies[i] for i in model.geom_bodyid]
    entities = sorted({name.split("/")[0] for name in bodies if "/" in name})
    found: list[tuple[int, np.ndarray, float]] = []
    for name, value in given.items():
        rank, mask = 0, [name in entities and body.startswith(f"{name}/") for body in owner]
        for kind, names in (("link", owner), ("geom", geoms)):
            if not any(mask):
                rank, mask = rank + 1, _named(name, names, asked_by, kind)
        if not any(mask):
            known = [*entities, *(each for each in (*bodies[1:], *geoms) if each)]
            known += [each.rsplit("/", 1)[-1] for each in known]
            hint = did_you_mean(name, known) or f"; there are {shorten(list(dict.fromkeys(known)))}"
            raise NameNotFoundError(f"{asked_by}: there is no entity, link or geom named {name!r}{hint}")
        found.append((rank, np.array(mask), value))
    for _, where, value in sorted(found, key=lambda each: each[0]):
        values[where] = value


def _named(name: str, names: list[str], asked_by: str, kind: str) -> list[bool]:
    """Return which of ``names`` are ``name``, or end in it if there is only one that does."""
    if name in names:
        return [each == name for each in names]
    ends = [bool(each) and each.endswith(f"/{name}") for each in names]
    full = sorted({each for each, end in zip(names, ends, strict=True) if end})
    if len(full) > 1:
        raise NameNotFoundError(f"{asked_by}: {kind} {name!r} is ambiguous; write one of {shorten(full)}")
    return ends
