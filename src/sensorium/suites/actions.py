"""Observations of what the robot was told: five forms of the last action, one dict per env."""

from __future__ import annotations

from typing import Any

import numpy as np

from sensorium import poses
from sensorium.suites.observation import DictSensor
from sensorium.worlds import Envs, env_ids

FORMS = ("commanded_action", "joint_pos", "joint_pos_rel", "ee_twist", "ee_pose")


class ActionRecord:
    """Keeps the last action of each env in five forms: zeros before the first one, and nothing at a terminal step.

    Forms, each by move group, in the order of the group's numbers:
        ``commanded_action``: what the policy said, in the units of the group's controller.
        ``joint_pos``: the joint targets that it amounts to, rad or m.
        ``joint_pos_rel``: those less where the joints were when it was said.
        ``ee_pose``: (7) of arms: the pose of the tool centre point at those targets, in the frame of the robot's base.
        ``ee_twist``: (6) of arms: linear (m/s) and angular velocity (rad/s), in the frame of the robot's base, which
            takes the tool centre point there from where it was, in one step.

    Args:
        robot: with ``groups``, ``action_slices`` and ``in_base_frame()``.
        n_envs: B.
        dt: seconds of one step.
    """

    def __init__(self, robot: Any, n_envs: int, dt: float) -> None:
        self._robot, self._dt = robot, dt
        self._arms = [name for name, group in robot.groups.items() if group.description.kind == "arm"]
        joints = {name: len(group.description.joints) for name, group in robot.groups.items()}
        widths = {
            "commanded_action": {name: part.stop - part.start for name, part in robot.action_slices.items()},
            "joint_pos": joints,
            "joint_pos_rel": joints,
            "ee_twist": dict.fromkeys(self._arms, 6),
            "ee_pose": dict.fromkeys(self._arms, 7),
        }
        self._values = {
            form: {name: np.zeros((n_envs, width)) for name, width in groups.items()} for form, groups in widths.items()
        }
        self.terminal = np.zeros(n_envs, bool)
        """Of each env, whether its last step ended the episode."""

    def before(self) -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
        """Where joints and tool centre points are now; to be taken before the robot acts."""
        groups = self._robot.groups
        return {name: (group.qpos, group.tcp_pose() if name in self._arms else None) for name, group in groups.items()}

    def note(
        self, action: np.ndarray, before: dict[str, tuple[np.ndarray, np.ndarray | None]], acting: np.ndarray
    ) -> None:
        """An action (B, n) was carried out in the envs of the mask ``acting``."""
        values = self._values
        for name, group in self._robot.groups.items():
            qpos, tcp = before[name]
            target = group.target
            values["commanded_action"][name][acting] = action[acting, self._robot.action_slices[name]]
            values["joint_pos"][name][acting] = target[acting]
            values["joint_pos_rel"][name][acting] = (target - qpos)[acting]
            if tcp is not None:
                goal = self._robot.in_base_frame(group.forward(target))
                here = self._robot.in_base_frame(tcp)
                turn = poses.rotation_vector(poses.multiply(goal[:, 3:], poses.conjugate(here[:, 3:])))
                twist = np.concatenate([goal[:, :3] - here[:, :3], turn], axis=1) / self._dt
                values["ee_pose"][name][acting] = goal[acting]
                values["ee_twist"][name][acting] = twist[acting]

    def reset(self, envs: Envs = None) -> None:
        """Some envs begin an episode: no action yet."""
        ids = env_ids(envs, len(self.terminal))
        rows: Any = slice(None) if ids is None else ids
        self.terminal[rows] = False
        for groups in self._values.values():
            for value in groups.values():
                value[rows] = 0.0

    def sensors(self, str_max_len: int | None) -> list[DictSensor]:
        """``actions/...``: one dict per env, move group -> numbers; ``{}`` at a terminal step."""
        return [
            DictSensor(f"actions/{form}", lambda form=form: self._dicts(form), str_max_len)  # type: ignore[misc]
            for form in FORMS
        ]

    def _dicts(self, form: str) -> list[dict[str, Any]]:
        groups = self._values[form]
        names = tuple(groups)
        rows = zip(*(value.tolist() for value in groups.values()), strict=True) if names else ((),) * len(self.terminal)
        return [
            {} if ended else dict(zip(names, row, strict=True))
            for row, ended in zip(rows, self.terminal.tolist(), strict=True)
        ]
