"""One env of a world on the host, to be drawn."""

from __future__ import annotations

import copy

import mujoco
import numpy as np

from sensorium.worlds import World

_STATE = int(mujoco.mjtState.mjSTATE_INTEGRATION)
_LOOKS = ("geom_", "mat_", "site_")
"""Model fields by which geometry looks as it does."""
_ASIDE = 4.0
"""How much larger the model is than where most geoms are, if some are put aside."""


class Mirror:
    """A copy of one env: its model with the values of its own, and its poses. Costs nothing until it is updated.

    The world itself is left alone: nothing is bound in it that every step would have to fill.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.model = copy.copy(world.model)
        self.data = mujoco.MjData(self.model)

    def update(self, env: int) -> None:
        """Take over state and poses of an env as they are now."""
        state = self.world.get_state()[env].double().numpy(force=True)
        mujoco.mj_setState(self.model, self.data, state, _STATE)
        mujoco.mj_kinematics(self.model, self.data)

    def update_model(self, env: int) -> bool:
        """Take over the fields of the model that have a value per env; whether anything looks different now."""
        changed = False
        for name, values in self.world.expanded.items():
            target = getattr(self.model, name, None)
            if not isinstance(target, np.ndarray):  # an option of the engine
                continue
            own = values[env].numpy(force=True).reshape(target.shape)
            if not np.array_equal(target, own.astype(target.dtype)):
                target[:] = own
                changed |= name.startswith(_LOOKS)
        return changed

    def middle(self) -> tuple[np.ndarray, float]:
        """Middle and size, m, of what there is to see; things that are put aside, far away, do not count."""
        model = self.model
        center, extent = np.array(model.stat.center), float(model.stat.extent)
        shown = (model.geom_rbound > 0) & (model.geom_group <= 2)
        if shown.any():
            places, radii = self.data.geom_xpos[shown], model.geom_rbound[shown]
            crowd = np.median(places, axis=0)
            away = np.linalg.norm(places - crowd, axis=1)
            size = float(max(4 * np.quantile(away, 0.8), 4 * np.median(radii)))
            if extent > _ASIDE * size:
                return crowd, size
        return center, extent

    @property
    def geom_quats(self) -> np.ndarray:
        """Orientations of all geoms in the world, (n, 4)."""
        return multiply(self.data.xquat[self.model.geom_bodyid], self.model.geom_quat)

    def site_quats(self, sites: np.ndarray) -> np.ndarray:
        """Orientations of some sites in the world, (n, 4)."""
        return multiply(self.data.xquat[self.model.site_bodyid[sites]], self.model.site_quat[sites])


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Products of quaternions (n, 4)."""
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
