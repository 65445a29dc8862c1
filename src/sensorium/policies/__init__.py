"""What tells robots what to do: ``sn.policies.make("planner", task)``."""

import inspect
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
        made: Any = PLANNERS[task.name]
    else:
        made = {"playback": PlaybackPolicy, "function": FunctionPolicy, "checkpoint": CheckpointPolicy}[name]
    known = {
        each: form for each, form in inspect.signature(made).parameters.items() if form.kind is not form.VAR_KEYWORD
    }
    open_ended = len(known) < len(inspect.signature(made).parameters)
    for option in options:
        if (option not in known and not open_ended) or option == "task":
            hint = did_you_mean(option, known) or f"; it has {shorten(list(known)[1:])}"
            raise OptionError(f"the policy {name!r} has no option {option!r}{hint}")
    lacking = [each for each, form in known.items() if form.default is form.empty and each not in ("task", *options)]
    if lacking:
        raise OptionError(f"the policy {name!r} needs the option {lacking[0]!r}")
    policy: Policy = made(task, **options)
    return policy


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
