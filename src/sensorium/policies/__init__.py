"""Policies of tasks: ``sn.policies.make("planner", task)``."""

import inspect
from collections.abc import Callable
from typing import Any

from sensorium.errors import NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.policies.multi import MultiPlanner
from sensorium.policies.nav import NavPlanner
from sensorium.policies.opening import OpeningPlanner
from sensorium.policies.pick import PickAndPlacePlanner, PickPlanner
from sensorium.policies.planner import Plan, Planner, Waypoint
from sensorium.policies.playback import CheckpointPolicy, FunctionPolicy, PlaybackPolicy
from sensorium.policies.policy import Policy
from sensorium.policies.random_actions import RandomPolicy
from sensorium.tasks import Task

PLANNERS: dict[str, type[Policy]] = {
    "pick": PickPlanner,
    "pick_and_place": PickAndPlacePlanner,
    "opening": OpeningPlanner,
    "door_opening": OpeningPlanner,
    "nav_to_obj": NavPlanner,
    "multi": MultiPlanner,
}
"""Planner classes, by name of the task."""
POLICIES = ("planner", "random", "playback", "function", "checkpoint")
"""Names of the policies."""


def make(name: str, task: Task[Any], **options: Any) -> Policy:
    """Make a policy for a task. Pass it to ``task.register_policy``.

    Args:
        name: "planner", which knows the true state and does the task; "random"; "playback", which replays ``actions``;
            "function", which calls ``function``; or "checkpoint", which runs a network (``module``, ``keys`` and
            ``path``).
        task: the task in which it acts.
        **options: options of the policy.

    Raises:
        NameNotFoundError: there is no policy of that name.
        OptionError: there is no planner for the task, or an option is unknown or missing.

    Example:
        >>> policy = sn.policies.make("planner", task, max_retries=2)
    """
    if not isinstance(name, str) or not hasattr(task, "name"):
        raise OptionError(f"make: name must be text and task a task, got {name!r:.40} and {task!r:.40}")
    if name not in POLICIES:
        raise NameNotFoundError(
            f"there is no policy {name!r}{did_you_mean(name, POLICIES) or f'; there are {shorten(POLICIES)}'}"
        )
    if name == "planner":
        if task.name not in PLANNERS:
            raise OptionError(
                f"there is no planner for the task {task.name!r}; there are planners for {shorten(PLANNERS)}"
            )
        factory: Callable[..., Policy] = PLANNERS[task.name]
    else:
        factory = {
            "random": RandomPolicy,
            "playback": PlaybackPolicy,
            "function": FunctionPolicy,
            "checkpoint": CheckpointPolicy,
        }[name]
    parameters = inspect.signature(factory).parameters
    known = {each: parameter for each, parameter in parameters.items() if parameter.kind is not parameter.VAR_KEYWORD}
    takes_any = len(known) < len(parameters)
    for option in options:
        if (option not in known and not takes_any) or option == "task":
            hint = did_you_mean(option, known) or f"; it has {shorten(list(known)[1:])}"
            raise OptionError(f"the policy {name!r} has no option {option!r}{hint}")
    missing = [
        each
        for each, parameter in known.items()
        if parameter.default is parameter.empty and each not in ("task", *options)
    ]
    if missing:
        raise OptionError(f"the policy {name!r} needs the option {missing[0]!r}")
    return factory(task, **options)


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
    "RandomPolicy",
    "Waypoint",
    "make",
]
