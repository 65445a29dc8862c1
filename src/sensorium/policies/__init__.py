"""What tells robots what to do: ``sn.policies.make("planner", task)``."""

from typing import Any

from sensorium.errors import NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.policies.multi import MultiPlanner
from sensorium.policies.nav import NavPlanner
from sensorium.policies.opening import OpeningPlanner
from sensorium.policies.pick import PickAndPlacePlanner, PickPlanner
from sensorium.policies.planner import Plan, Planner, Waypoint
from sensorium.policies.playback import CheckpointPolicy, FunctionPolicy, PlaybackPolicy
from sensorium.policies.policy import Policy

PLANNERS: dict[str, type[Policy]] = {
    "pick": PickPlanner,
    "pick_and_place": PickAndPlacePlanner,
    "opening": OpeningPlanner,
    "door_opening": OpeningPlanner,
    "nav_to_obj": NavPlanner,
    "multi": MultiPlanner,
}
"""Planners by the name of the task."""
POLICIES = ("planner", "playback", "function", "checkpoint")
"""Names of the policies."""


def make(name: str, task: Any, **options: Any) -> Policy:
    """A policy for a task; give it to ``task.register_policy``.

    Args:
        name: "planner", which knows the true state and does the task; "playback" (``actions``); "function"
            (``function``); "checkpoint" (``module``, ``keys``, ``path``).
        task: what it acts in.
        **options: of the policy.
    """
    if name not in POLICIES:
        raise NameNotFoundError(
            f"there is no policy {name!r}{did_you_mean(name, POLICIES) or f'; there are {shorten(POLICIES)}'}"
        )
    if name == "planner":
        if task.name not in PLANNERS:
            raise OptionError(f"there is no planner for the task {task.name!r}; there are some for {shorten(PLANNERS)}")
        planner: Policy = PLANNERS[task.name](task, **options)
        return planner
    made = {"playback": PlaybackPolicy, "function": FunctionPolicy, "checkpoint": CheckpointPolicy}[name]
    return made(task, **options)


__all__ = [
    "PLANNERS",
    "POLICIES",
    "CheckpointPolicy",
    "FunctionPolicy",
    "MultiPlanner",
    "NavPlanner",
    "OpeningPlanner",
    "PickAndPlacePlanner",
    "PickPlanner",
    "Plan",
    "Planner",
    "PlaybackPolicy",
    "Policy",
    "Waypoint",
    "make",
]
