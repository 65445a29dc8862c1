"""A copy of one env on the host, for drawing."""

from __future__ import annotations

import copy

import mujoco
import numpy as np

from sensorium.worlds import World

_STATE = int(mujoco.mjtState.mjSTATE_INTEGRATION)
_LOOKS = ("geom_", "mat_", "site_")
"""Beginnings of the model fields that affect the appearance."""
_PARKED = 4.0
"""Ratio of the model's extent to that of most geoms above which some geoms are assumed to be parked far away."""


class Mirror:
    """A copy of one env: its model with the values of this env, and its poses. Costs nothing until it is updated.

    It binds no fields of the world, which would slow down every step.

    Args:
        world: the world.

    Attributes:
        model: copy of the model, with the per-env values of the last :meth:`update_model`.
        data: state and poses of the last :meth:`update`.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.model = copy.copy(world.model)
        self.data = mujoco.MjData(self.model)

    def update(self, env: int) -> None:
        """Copy the current state of an env, and compute its poses."""
        state = self.world.get_state()[env].double().numpy(force=True)
        mujoco.mj_setState(self.model, self.data, state, _STATE)
        mujoco.mj_kinematics(self.model, self.data)

    def update_model(self, env: int) -> bool:
        """Copy the model fields that have values per env; return whether the appearance changed."""
        changed = False
        for name, values in self.world.expanded.items():
            target = getattr(self.model, name, None)
            if not isinstance(target, np.ndarray):  # an option of the physics engine
                continue
            own = values[env].numpy(force=True).reshape(target.shape)
            if not np.array_equal(target, own.astype(target.dtype)):
                target[:] = own
                changed |= name.startswith(_LOOKS)
        return changed

    def visible_region(self) -> tuple[np.ndarray, float]:
        """Return the center (3,) and the extent of the visible geoms in metres, without objects parked far away."""
        model = self.model
        center, extent = np.array(model.stat.center), float(model.stat.extent)
        shown = (model.geom_rbound > 0) & (model.geom_group <= 2)
        if shown.any():
            positions, radii = self.data.geom_xpos[shown], model.geom_rbound[shown]
            median = np.median(positions, axis=0)
            distances = np.linalg.norm(positions - median, axis=1)
            size = float(max(4 * np.quantile(distances, 0.8), 4 * np.median(radii)))
            if extent > _PARKED * size:
                return median, size
        return center, extent

    def tree_size(self, body: int) -> float:
        """Return the radius in metres around a body within which all geoms of its robot (kinematic tree) lie."""
        model = self.model
        own = model.body_rootid[model.geom_bodyid] == model.body_rootid[body]
        if not own.any():
            return 0.1 * float(model.stat.extent)
        away = np.linalg.norm(self.data.geom_xpos[own] - self.data.xpos[body], axis=1) + model.geom_rbound[own]
        return max(float(away.max()), 1e-3)

    @property
    def geom_quats(self) -> np.ndarray:
        """Orientations of all geoms in the world frame, (n, 4)."""
        return multiply(self.data.xquat[self.model.geom_bodyid], self.model.geom_quat)

    def site_quats(self, sites: np.ndarray) -> np.ndarray:
        """Return the orientations of some sites in the world frame, (n, 4)."""
        return multiply(self.data.xquat[self.model.site_bodyid[sites]], self.model.site_quat[sites])


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the products of quaternions, (n, 4)."""
    w, x, y, z = a.T
    v, i, j, k = b.T
    return np.stack(
        [
            w * v - x * i - y * j - z * k,
            w * i + x * v + y * k - z * j,
            w * j - x * k + y * v + z * i,
            w * k + x * j - y * i + z * v,
        ],
        axis=1,
    )
