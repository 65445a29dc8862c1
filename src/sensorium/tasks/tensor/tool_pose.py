"""Joint positions of an arm whose tool is at a place, for the start of episodes."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from sensorium.errors import OptionError

_STEPS = 200
_DAMPING = 1e-4
_MAX_ERROR = 1e-3
"""Error of the pose at which the search ends, m and rad."""
_MAX_TURN = 0.2
"""Maximum change of a joint in one step of the search, rad or m."""


def joints_at(
    model: mujoco.MjModel, qpos: np.ndarray, joints: Sequence[int], tool: str, place: Sequence[float]
) -> np.ndarray:
    """Return positions of an arm's joints at which its tool is at a place, with the orientation that it has now.

    Args:
        model: the compiled model.
        qpos: positions of all joints, from which the search starts.
        joints: ids of the arm's joints.
        tool: name of the site or link of the tool.
        place: position of the tool in the world frame, m.

    Returns:
        Positions of the joints, rad or m, in their order.

    Raises:
        OptionError: the arm cannot reach the place.
    """
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_kinematics(model, data)
    is_site = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, tool) >= 0
    element = data.site(tool) if is_site else data.body(tool)
    jacobian_of = mujoco.mj_jacSite if is_site else mujoco.mj_jacBody
    wanted = element.xmat.reshape(3, 3).copy()
    addresses, columns = model.jnt_qposadr[list(joints)], model.jnt_dofadr[list(joints)]
    low, high = model.jnt_range[list(joints)].T
    limited = model.jnt_limited[list(joints)].astype(bool)
    jacobian, error = np.zeros((6, model.nv)), np.zeros(6)
    for _ in range(_STEPS):
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        now = element.xmat.reshape(3, 3)
        error[:3] = np.asarray(place) - element.xpos
        error[3:] = sum(np.cross(now[:, axis], wanted[:, axis]) for axis in range(3)) / 2
        if np.abs(error).max() < _MAX_ERROR:
            return data.qpos[addresses].copy()
        jacobian_of(model, data, jacobian[:3], jacobian[3:], element.id)
        part = jacobian[:, columns]
        change = part.T @ np.linalg.solve(part @ part.T + _DAMPING * np.eye(6), error)
        moved = data.qpos[addresses] + change.clip(-_MAX_TURN, _MAX_TURN)
        data.qpos[addresses] = np.where(limited, moved.clip(low, high), moved)
    raise OptionError(f"start: the tool cannot reach {tuple(place)} m; choose a place nearer to the arm's home")
