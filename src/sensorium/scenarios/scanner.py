"""``SceneScanner``: ray casting into one env of a scene, past excluded entities, for occupancy maps."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import mujoco
import numpy as np
from mujoco.batch import Batch

from sensorium.errors import OptionError

if TYPE_CHECKING:
    from sensorium.worlds import Scene

_HIDDEN = 5
"""Geom group that rays ignore."""


class SceneScanner:
    """A copy of one env of a scene in an engine of its own.

    Geoms that cannot collide are excluded too, since a robot can drive through them.

    Args:
        scene: the scene, built.
        exclude: names of excluded entities; None for all robots.
        env: which env.

    Raises:
        OptionError: the scene has no such entity.
    """

    def __init__(self, scene: Scene, exclude: tuple[str, ...] | None, env: int) -> None:
        entities = scene.entities
        if exclude is None:
            exclude = tuple(name for name, entity in entities.items() if entity.kind == "robot")
        missing = [name for name in exclude if name not in entities]
        if missing:
            raise OptionError(f"exclude: the scene has no entity {missing[0]!r}; it has {', '.join(entities)}")
        model = copy.copy(scene.model)
        names = [model.body(int(body)).name for body in model.geom_bodyid]
        hidden = np.array([any(name == out or name.startswith(f"{out}/") for out in exclude) for name in names], bool)
        hidden |= (model.geom_contype == 0) & (model.geom_conaffinity == 0)
        model.geom_rgba[:, 3], model.geom_matid[:] = 1.0, -1  # rays would pass through transparent geoms
        model.geom_group[:] = np.where(hidden, _HIDDEN, 0)
        self._model, self._visible = model, ~hidden
        self._data = mujoco.MjData(model)
        state = scene.get_state()[env].double().numpy(force=True)
        mujoco.mj_setState(model, self._data, state, int(mujoco.mjtState.mjSTATE_INTEGRATION))
        mujoco.mj_kinematics(model, self._data)
        self._batch = Batch(model, 1)
        self._batch.state[0] = state
        self._groups = np.arange(mujoco.mjNGROUP) != _HIDDEN

    def cast(self, points: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cast parallel rays from points (n, 3).

        Returns:
            Distances to the first surface, (n,) m: inf without one, 0 for points inside geometry; and whether there is
            a surface, (n,).
        """
        distances, _, normals = self._batch.ray(points, direction, geomgroup=self._groups, normal=True)
        distances, normals = distances[0], normals[0]
        hit = distances >= 0
        within = hit & (normals @ direction > 0)
        return np.where(within, 0.0, np.where(hit, distances, np.inf)), hit

    def bounds(self) -> tuple[float, float, float, float]:
        """Return left, bottom, right and top of all geoms but planes, m.

        Raises:
            OptionError: there are only planes.
        """
        model, data = self._model, self._data
        corners = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, 8).T
        bounded = self._visible & (model.geom_type != int(mujoco.mjtGeom.mjGEOM_PLANE))
        if not bounded.any():
            raise OptionError("bounds must be given as (left, bottom, right, top): the scene has only planes")
        points = np.concatenate(
            [
                data.geom_xpos[geom]
                + (model.geom_aabb[geom, :3] + corners * model.geom_aabb[geom, 3:])
                @ data.geom_xmat[geom].reshape(3, 3).T
                for geom in np.flatnonzero(bounded)
            ]
        )
        (left, bottom), (right, top) = points[:, :2].min(axis=0), points[:, :2].max(axis=0)
        return float(left), float(bottom), float(right), float(top)
