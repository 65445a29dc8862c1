"""Planners that pick things up, and put them down."""

from __future__ import annotations

from typing import Any

import numpy as np

from sensorium.policies.grasping import best_grip, grips_from_above
from sensorium.policies.planner import Plan, Planner, Waypoint
from sensorium.tasks.table import HEIGHT

_ABOVE = 0.12
_CREEP = 0.12


class PickPlanner(Planner):
    """Approach from above, descend, close, lift; anew if the thing was missed or lost."""

    task: Any

    def _grip(self, env: int) -> tuple[str, np.ndarray] | None:
        thing = self.task.things[self.task.pickup_name(env)]
        return best_grip(self.arms, grips_from_above(thing, self.task.pickup_pose()[env], HEIGHT), env, _ABOVE)

    def _taking(self, env: int, arm: str, grip: np.ndarray) -> list[Waypoint]:
        """Waypoints until the thing is off the table."""
        clear = []
        if self.retries[env]:  # whatever went wrong, go up first, with open fingers
            tool = self.arms[arm].tcp_pose()[env]
            clear = [Waypoint("retreat", _raised(tool, _ABOVE), 1.0)] if tool[2] < grip[2] + _ABOVE else []
        return [
            *clear,
            Waypoint("approach", _raised(grip, _ABOVE), 1.0, speed=0.5),
            Waypoint("descend", grip, 1.0, speed=_CREEP * 2),
            Waypoint("close", grip, 0.0, wait=0.35, check=True),
            Waypoint("lift", _raised(grip, self._height()), 0.0, speed=0.25, check=True),
        ]

    def _height(self) -> float:
        return float(self.task.config.lift) + 0.06

    def make_plan(self, env: int) -> Plan | None:
        """Grip the thing and lift it."""
        chosen = self._grip(env)
        if chosen is None:
            return None
        arm, grip = chosen
        return Plan(arm, [*self._taking(env, arm, grip), Waypoint("hold", _raised(grip, self._height()), 0.0)], grip)

    def succeeded(self, env: int, phase: str) -> bool:
        """Whether the thing is between the fingers."""
        return bool(self.task.is_held()[env])


class PickAndPlacePlanner(PickPlanner):
    """Pick the thing up, carry it over the plate, put it down, and let go."""

    def _height(self) -> float:
        return 0.15

    def make_plan(self, env: int) -> Plan | None:
        """Grip the thing, and put it on the plate."""
        chosen = self._grip(env)
        if chosen is None:
            return None
        arm, grip = chosen
        thing, goal = self.task.pickup_pose()[env], self.task._goal()[env]
        down = grip.copy()
        down[:3] += goal[:3] - thing[:3]
        down[2] += 0.004
        over = _raised(down, 0.12)
        return Plan(
            arm,
            [
                *self._taking(env, arm, grip),
                Waypoint("carry", over, 0.0, speed=0.3, check=True),
                Waypoint("lower", down, 0.0, speed=_CREEP, wait=0.1),
                Waypoint("release", down, 1.0, wait=0.3),
                Waypoint("withdraw", over, 1.0, speed=0.25, wait=0.4, check=True),
                Waypoint("done", over, 1.0),
            ],
            grip,
        )

    def succeeded(self, env: int, phase: str) -> bool:
        """Whether the thing is between the fingers, and at the end, whether it lies on the plate."""
        if phase == "withdraw":
            here, goal = self.task.pickup_pose()[env], self.task._goal()[env]
            return bool(np.linalg.norm(here[:2] - goal[:2]) < 0.09)
        return super().succeeded(env, phase)


def _raised(pose: np.ndarray, height: float) -> np.ndarray:
    up = pose.copy()
    up[2] += height
    return up
