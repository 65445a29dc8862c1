"""Whether an arm would bump into something on its way."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

_DEPTH = 0.001
"""How deep things may be in each other before it counts, m."""


class Clearance:
    """Tries joint positions in a copy of the scene, without moving anything in the scene itself.

    Args:
        task: whose scene and robot.
        grips: names of links that fingers may touch.
    """

    def __init__(self, task: Any, grips: list[str]) -> None:
        self._task = task
        model = task.scene.model
        self._data = mujoco.MjData(model)
        names = [model.body(body).name for body in range(model.nbody)]
        self._robot = np.array([name.startswith("robot/") for name in names])
        groups = task.robot.options.move_groups
        fingers = {f"robot/{finger}" for group in groups for finger in group.fingers}
        self._finger = np.array([name in fingers for name in names])
        self._grip = np.array([name in grips for name in names])

    def first_bump(self, env: int, joints: dict[str, np.ndarray]) -> int:
        """How many places on a way are free, counted from the first: all else is where it is in the env.

        Args:
            env: which env.
            joints: names of hinges and slides in the scene -> their positions (n,) along the way.
        """
        model, data, world = self._task.scene.model, self._data, self._task.scene.world
        for field in ("qpos", "mocap_pos", "mocap_quat"):
            getattr(data, field)[:] = world.bind(field)[env].numpy()
        columns = [model.jnt_qposadr[model.joint(name).id] for name in joints]
        rows = np.column_stack(list(joints.values()))
        for number, row in enumerate(rows):
            data.qpos[columns] = row
            mujoco.mj_kinematics(model, data)
            mujoco.mj_collision(model, data)
            if self._bumps():
                return number
        return len(rows)

    def _bumps(self) -> bool:
        contact = self._data.contact
        deep = contact.dist < -_DEPTH
        first, second = self._task.scene.model.geom_bodyid[contact.geom[deep]].T
        robot = self._robot[first] | self._robot[second]
        gripped = (self._finger[first] & self._grip[second]) | (self._finger[second] & self._grip[first])
        return bool((robot & ~gripped).any())
