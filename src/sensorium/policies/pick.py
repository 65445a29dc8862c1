"""Planners that pick objects up and put them down."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from sensorium.options import checked_integer
from sensorium.policies.grasping import best_grip, grips_from_above
from sensorium.policies.planner import NO_PLAN, Plan, Planner, Waypoint
from sensorium.tasks.table import HEIGHT, TableTask

_ABOVE = 0.12
"""Height above a grip from which the tool descends, m."""
_SLOW = 0.12
"""Speed close to the table, m/s."""
_LIFTING = ("retreat", "approach", "descend", "close", "lift")
"""Phases until the object is lifted off the table."""


class PickPlanner(Planner):
    """A planner that approaches an object from above, descends, closes the gripper and lifts.

    It makes a new plan if it misses or loses the object.
    """

    task: TableTask[Any]
    phases: ClassVar[tuple[str, ...]] = (NO_PLAN, *_LIFTING, "hold")

    def _grip(self, env: int) -> tuple[str, np.ndarray] | None:
        target = self.task.objects[self.task.pickup_name(env)]
        return best_grip(self.arms, grips_from_above(target, self.task.pickup_pose()[env], HEIGHT), env, _ABOVE)

    def _lifting(self, env: int, arm: str, grip: np.ndarray) -> list[Waypoint]:
        """Return the waypoints until the object is lifted off the table."""
        clear = []
        if self.retries[env]:  # after a failure, move up with open fingers first
            tool = self.arms[arm].tcp_pose()[env]
            clear = [Waypoint("retreat", _raised(tool, _ABOVE), 1.0)] if tool[2] < grip[2] + _ABOVE else []
        return [
            *clear,
            Waypoint("approach", _raised(grip, _ABOVE), 1.0, speed=0.5),
            Waypoint("descend", grip, 1.0, speed=_SLOW * 2),
            Waypoint("close", grip, 0.0, wait=0.35, check=True),
            Waypoint("lift", _raised(grip, self._lift_height()), 0.0, speed=0.25, check=True),
        ]

    def _lift_height(self) -> float:
        """Return the height to which the object is lifted above the grip, m."""
        return float(self.task.config.lift) + 0.06

    def make_plan(self, env: int) -> Plan | None:
        """Return a plan that grips the object and lifts it."""
        chosen = self._grip(env)
        if chosen is None:
            return None
        arm, grip = chosen
        hold = Waypoint("hold", _raised(grip, self._lift_height()), 0.0)
        return Plan(arm, [*self._lifting(env, arm, grip), hold], grip)

    def succeeded(self, env: int, phase: str) -> bool:
        """Return whether the object is held."""
        return bool(self.task.is_held()[checked_integer("env", env, 0, self.task.n_envs - 1)])


class PickAndPlacePlanner(PickPlanner):
    """A planner that picks an object up, carries it over the plate, puts it down and releases it."""

    phases = (NO_PLAN, *_LIFTING, "carry", "lower", "release", "withdraw", "done")

    def _lift_height(self) -> float:
        return 0.15

    def make_plan(self, env: int) -> Plan | None:
        """Return a plan that grips the object and puts it on the plate."""
        chosen = self._grip(env)
        if chosen is None:
            return None
        arm, grip = chosen
        here, goal = self.task.pickup_pose()[env], self.task._goal()[env]
        down = grip.copy()
        down[:3] += goal[:3] - here[:3]
        down[2] += 0.004
        over = _raised(down, 0.12)
        return Plan(
            arm,
            [
                *self._lifting(env, arm, grip),
                Waypoint("carry", over, 0.0, speed=0.3, check=True),
                Waypoint("lower", down, 0.0, speed=_SLOW, wait=0.1),
                Waypoint("release", down, 1.0, wait=0.3),
                Waypoint("withdraw", over, 1.0, speed=0.25, wait=0.4, check=True),
                Waypoint("done", over, 1.0),
            ],
            grip,
        )

    def succeeded(self, env: int, phase: str) -> bool:
        """Return whether the object is held, or, after "withdraw", whether it is on the plate."""
        if phase == "withdraw":
            here, goal = self.task.pickup_pose()[env], self.task._goal()[env]
            return bool(np.linalg.norm(here[:2] - goal[:2]) < 0.09)
        return super().succeeded(env, phase)


def _raised(pose: np.ndarray, height: float) -> np.ndarray:
    up = pose.copy()
    up[2] += height
    return up
