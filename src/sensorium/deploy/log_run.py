"""``run_log``: a policy over the messages of a log, as it would have acted on the robot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from sensorium._arguments import checked
from sensorium.deploy.inputs import SAME_TIME
from sensorium.deploy.messages import Message
from sensorium.deploy.policy import Policy
from sensorium.errors import OptionError, StaleInputError


class LogRun(NamedTuple):
    """Decisions of a policy over a log of n decisions."""

    times: np.ndarray
    """(n,) times of the decisions, s."""
    observations: np.ndarray
    """(n, k) inputs of the network, without images."""
    commands: np.ndarray
    """(n, m) commands in the units of the contract's actions."""
    refused: list[tuple[float, str]]
    """Time and message of each decision that was refused because an input was stale or missing."""


@checked
def run_log(
    policy: Policy,
    messages: Iterable[tuple[str, Message, float]],
    commands: Mapping[str, object] | Callable[[float], Mapping[str, object]] | None = None,
) -> LogRun:
    """Run a policy over messages, from the time at which each topic has had one, at the policy's rate.

    Args:
        policy: the policy. It is reset.
        messages: (topic, message, arrival in s) in the order of arrival. Topics that the policy does not need are
            skipped.
        commands: the commands of ``act``, or a function of the time that returns them.

    Returns:
        The decisions. Decisions with stale or missing inputs are listed in ``refused``.

    Raises:
        OptionError, NameNotFoundError: as :meth:`Policy.feed` and :meth:`Policy.act`.
    """
    policy.reset()
    times, observations, taken, refused = [], [], [], []
    due, last = float("inf"), 0.0
    period = 1.0 / policy.rate

    def decide(until: float) -> None:
        nonlocal due
        while due < until:
            given = commands(due) if callable(commands) else commands
            try:
                command = policy.act(due, given)
            except StaleInputError as error:
                refused.append((due, str(error)))
            else:
                times.append(due)
                taken.append(command)
                observations.append(policy._vector[0].copy())
            due += period

    for each in messages:
        if not isinstance(each, tuple | list) or len(each) != 3:
            raise OptionError(f"messages must be (topic, message, arrival in s) each, got {each!r:.80}")
        topic, message, arrival = each
        if topic not in policy.topics:
            continue
        decide(arrival - SAME_TIME)  # messages that arrive at the time of a decision belong to it
        policy.feed(topic, message, arrival)
        last = arrival
        if due == float("inf") and policy.is_ready:
            due = arrival
    decide(last + SAME_TIME)
    return LogRun(
        np.array(times),
        np.array(observations, np.float32).reshape(len(times), policy.contract.n_observations),
        np.array(taken, np.float32).reshape(len(times), policy.contract.n_actions),
        refused,
    )
