"""``CollisionChecker``: whether a robot collides along a path of joint positions."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from sensorium.tasks.opening import OpenPartTask

_MAX_DEPTH = 0.001
"""Penetration depth that is ignored, m."""


class CollisionChecker:
    """Tests joint positions in a copy of the physics data, so that the scene itself does not change.

    Args:
        task: the task whose scene and robot are tested.
        grippable: names of the links that fingers may touch.
    """

    def __init__(self, task: OpenPartTask[Any], grippable: list[str]) -> None:
        self._task = task
        model = task.scene.model
        self._data = mujoco.MjData(model)
        names = [model.body(body).name for body in range(model.nbody)]
        self._is_robot = np.array([name.startswith("robot/") for name in names])
        groups = task.robot.options.move_groups
        fingers = {f"robot/{finger}" for group in groups for finger in group.fingers}
        self._is_finger = np.array([name in fingers for name in names])
        self._is_grippable = np.array([name in grippable for name in names])

    def first_collision(self, env: int, joints: dict[str, np.ndarray]) -> int:
        """Return the index of the first position on a path at which the robot collides, or n if it never does.

        All other joints and bodies are as they are in the env now.

        Args:
            env: the env.
            joints: names of hinges and slides in the scene -> their positions (n,) along the path, rad or m.
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
            if self._collides():
                return number
        return len(rows)

    def _collides(self) -> bool:
        contact = self._data.contact
        deep = contact.dist < -_MAX_DEPTH
        first, second = self._task.scene.model.geom_bodyid[contact.geom[deep]].T
        robot = self._is_robot[first] | self._is_robot[second]
        gripped = self._is_finger[first] & self._is_grippable[second]
        gripped |= self._is_finger[second] & self._is_grippable[first]
        return bool((robot & ~gripped).any())
