"""Observations of what the robot was told: five forms of the last action, one dict per env."""

from __future__ import annotations

from typing import Any

import numpy as np

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
        robot: with ``groups``, ``action_slices`` and ``way_in_base_frame()``.
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
        self._table = np.zeros((n_envs, sum(sum(groups.values()) for groups in widths.values())))
        self._columns: dict[str, list[tuple[str, int, int]]] = {}
        """Form -> of each group its name, and its first and last column of the table."""
        first = 0
        for form, groups in widths.items():
            self._columns[form] = []
            for name, width in groups.items():
                self._columns[form].append((name, first, first + width))
                first += width
        self._values = {
            form: {name: self._table[:, first:last] for name, first, last in parts}
            for form, parts in self._columns.items()
        }
        self._rows: list[list[float]] | None = None
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
        values, self._rows = self._values, None
        for name, group in self._robot.groups.items():
            qpos, tcp = before[name]
            target = group.target
            values["commanded_action"][name][acting] = action[acting, self._robot.action_slices[name]]
            values["joint_pos"][name][acting] = target[acting]
            values["joint_pos_rel"][name][acting] = (target - qpos)[acting]
            if tcp is not None:
                goal, twist = self._robot.way_in_base_frame(tcp, group.forward(target), self._dt)
                values["ee_pose"][name][acting] = goal[acting]
                values["ee_twist"][name][acting] = twist[acting]

    def reset(self, envs: Envs = None) -> None:
        """Some envs begin an episode: no action yet."""
        ids = env_ids(envs, len(self.terminal))
        rows: Any = slice(None) if ids is None else ids
        self.terminal[rows] = False
        self._table[rows] = 0.0
        self._rows = None

    def sensors(self, str_max_len: int | None) -> list[DictSensor]:
        """``actions/...``: one dict per env, move group -> numbers; ``{}`` at a terminal step."""
        return [
            DictSensor(f"actions/{form}", lambda form=form: self._dicts(form), str_max_len, of_numbers=True)  # type: ignore[misc]
            for form in FORMS
        ]

    def _dicts(self, form: str) -> list[dict[str, Any]]:
        if self._rows is None:
            self._rows = self._table.tolist()
        parts = self._columns[form]
        return [
            {} if ended else {name: row[first:last] for name, first, last in parts}
            for row, ended in zip(self._rows, self.terminal.tolist(), strict=True)
        ]
