"""Observations of the last action: five representations of it, as one dict per env."""

from __future__ import annotations

from typing import Any

import numpy as np

from sensorium._arguments import checked
from sensorium.errors import OptionError
from sensorium.suites.observation import DictSensor
from sensorium.suites.protocols import RobotLike
from sensorium.worlds import Envs, env_ids

FORMS = ("commanded_action", "joint_pos", "joint_pos_rel", "ee_twist", "ee_pose")
"""The representations, which are also the names of the sensors below ``actions/``."""

GroupState = dict[str, tuple[np.ndarray, np.ndarray | None]]
"""Move group -> joint positions (B, n), and for arms the pose (B, 7) of the tool centre point in the world frame."""


class ActionRecord:
    """The last action of each env in five representations.

    Every representation is a dict of move group -> numbers:

    - ``commanded_action``: the action of the policy, in the units of the group's controller.
    - ``joint_pos``: the joint targets that the action leads to, rad or m.
    - ``joint_pos_rel``: those targets minus the joint positions before the action, rad or m. Not of bases, which are
      driven by velocity: their targets have no meaning relative to a position.
    - ``ee_pose``: arms only, (7): the pose of the tool centre point at those targets, in the frame of the robot's base.
    - ``ee_twist``: arms only, (6): the linear (m/s) and angular (rad/s) velocity, in the frame of the robot's base,
      that moves the tool centre point from its pose before the action to ``ee_pose`` in one step.

    Before the first action of an episode ``ee_pose`` is the pose of the tool centre point, and all other numbers are
    zero. At the step that ends an episode the dicts are empty.

    Args:
        robot: the robot, in a built scene.
        n_envs: number of envs, B.
        dt: duration of one step, s.
    """

    @checked
    def __init__(self, robot: RobotLike, n_envs: int, dt: float) -> None:
        self._robot, self._dt = robot, dt
        self._arms = [name for name, group in robot.groups.items() if group.description.kind == "arm"]
        joints = {name: len(group.description.joints) for name, group in robot.groups.items()}
        widths = {
            "commanded_action": {name: part.stop - part.start for name, part in robot.action_slices.items()},
            "joint_pos": joints,
            "joint_pos_rel": {
                name: width for name, width in joints.items() if robot.groups[name].description.kind != "base"
            },
            "ee_twist": dict.fromkeys(self._arms, 6),
            "ee_pose": dict.fromkeys(self._arms, 7),
        }
        self._table = np.zeros((n_envs, sum(sum(groups.values()) for groups in widths.values())))
        self._columns: dict[str, list[tuple[str, int, int]]] = {}
        """Representation -> (group, first column, end column) of each move group in the table."""
        first = 0
        for form, groups in widths.items():
            self._columns[form] = []
            for name, width in groups.items():
                self._columns[form].append((name, first, first + width))
                first += width
        self._values = {
            form: {name: self._table[:, first:end] for name, first, end in parts}
            for form, parts in self._columns.items()
        }
        self._rows: list[list[float]] | None = None
        self.terminal = np.zeros(n_envs, bool)
        """Whether the last step of each env ended its episode, (B,) bool."""

    def group_state(self) -> GroupState:
        """Return the joint positions and tool poses of all move groups; call it before the robot acts."""
        groups = self._robot.groups
        return {name: (group.qpos, group.tcp_pose() if name in self._arms else None) for name, group in groups.items()}

    def record(self, action: np.ndarray, before: GroupState, acting: np.ndarray) -> None:
        """Store an action that the robot was commanded.

        Args:
            action: (B, n), in the units of the robot's controllers.
            before: result of :meth:`group_state` before the robot acted.
            acting: (B,) bool, the envs in which the robot acted. The other envs keep their last action.
        """
        if not (isinstance(action, np.ndarray) and isinstance(before, dict) and isinstance(acting, np.ndarray)):
            raise OptionError(
                "record: action and acting must be arrays, and before a result of group_state(); got "
                f"{action!r:.40}, {before!r:.40} and {acting!r:.40}"
            )
        values, self._rows = self._values, None
        rows: slice | np.ndarray = slice(None) if acting.all() else acting  # a mask takes longer
        for name, group in self._robot.groups.items():
            qpos, tcp = before[name]
            target = group.target
            values["commanded_action"][name][rows] = action[rows, self._robot.action_slices[name]]
            values["joint_pos"][name][rows] = target[rows]
            if name in values["joint_pos_rel"]:
                values["joint_pos_rel"][name][rows] = (target - qpos)[rows]
            if tcp is not None:
                goal, twist = self._robot.way_in_base_frame(tcp, group.forward(target), self._dt)
                values["ee_pose"][name][rows] = goal[rows]
                values["ee_twist"][name][rows] = twist[rows]

    def reset(self, envs: Envs = None) -> None:
        """Set the actions of envs that start an episode to zero, and their tool poses to the current ones."""
        ids = env_ids(envs, len(self.terminal))
        rows: slice | np.ndarray = slice(None) if ids is None else ids
        self.terminal[rows] = False
        self._table[rows] = 0.0
        for name in self._arms:
            pose = self._robot.in_base_frame(self._robot.groups[name].tcp_pose())
            self._values["ee_pose"][name][rows] = pose[rows]
        self._rows = None

    def sensors(self, str_max_len: int | None) -> list[DictSensor]:
        """Return the sensors ``actions/NAME``, one per representation.

        Args:
            str_max_len: see :class:`DictSensor`.
        """
        return [
            DictSensor(f"actions/{form}", lambda form=form: self._dicts(form), str_max_len, of_numbers=True)  # type: ignore[misc]
            for form in FORMS
        ]

    def _dicts(self, form: str) -> list[dict[str, Any]]:
        if self._rows is None:
            self._rows = self._table.tolist()
        parts = self._columns[form]
        return [
            {} if ended else {name: row[first:end] for name, first, end in parts}
            for row, ended in zip(self._rows, self.terminal.tolist(), strict=True)
        ]
