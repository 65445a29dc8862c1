"""``Journal``: events of a running scene between steps, which replay must repeat in addition to the states."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from sensorium._tensors import host_array
from sensorium.worlds.world import env_ids


class Restart(NamedTuple):
    """Event: envs were set to another state, and their sensors restarted from it."""

    stepped: bool
    """Whether the event came after the step rather than before it."""
    call: str
    """"reset" (the initial state of the model) or "state"."""
    envs: np.ndarray | None
    """Which envs; None for all."""
    state: np.ndarray | None
    """Their states, (n, n_state); None for "reset"."""
    episodes: np.ndarray | None = None
    """Numbers of their episodes, (n,); None without sensors."""


class Call(NamedTuple):
    """Event: a sensor was changed by ``scene.sensors[uuid].method(**arguments)``."""

    stepped: bool
    uuid: str
    method: str
    arguments: dict[str, Any]


class Journal:
    """The restarts and sensor changes since the last step, or since they were last taken.

    Without a recorder, it keeps only what a recording that starts now would need: the sensor changes that are still in
    effect, and, until the next step, the events since the last restart of all envs.

    Attributes:
        recording: whether a recorder takes the events after each step.
        fresh: whether a recorder is active, or no step was made since the last restart of all envs. Otherwise
            :meth:`step` need not be called.
    """

    def __init__(self, n_envs: int) -> None:
        self.recording = False
        self.fresh = True
        self._events: list[Restart | Call] = [Restart(False, "reset", None, None, np.zeros(n_envs, np.int64))]
        self._changes = _Changes(n_envs)
        self._stepped = False

    def restart(
        self, call: str, envs: np.ndarray | None, state: np.ndarray | None, episodes: np.ndarray | None = None
    ) -> None:
        """Record that envs were restarted."""
        if not self.recording:
            if envs is None:
                # the sensors restart with the settings of now, which may change before a recording starts
                self._events = list(self._changes)
                self.fresh = True
            elif not self.fresh:
                return
        self._events.append(Restart(self._stepped, call, envs, state, episodes))

    def call(self, uuid: str, method: str, arguments: dict[str, Any]) -> None:
        """Record that a sensor was changed."""
        event = Call(self._stepped, uuid, method, {name: _copy(value) for name, value in arguments.items()})
        self._changes.add(event)
        if self.recording or self.fresh:
            self._events.append(event)

    def step(self) -> None:
        """Record that a step was made."""
        if self.recording:
            self._stepped = True
        elif self.fresh:
            self._events.clear()
            self.fresh = False

    def begin(self, even_if_stale: bool = False) -> list[Restart | Call] | None:
        """Start recording and return the events that led to the current state of the sensors.

        Args:
            even_if_stale: start also if that state cannot be reproduced, for a replay that does not need it.

        Returns:
            The events; None, without starting, if all envs must be restarted first.
        """
        if not self.fresh and not even_if_stale:
            return None
        self.recording = True
        return self.take()

    def take(self) -> list[Restart | Call]:
        """Return the events since the last call, and clear them."""
        events, self._events, self._stepped = self._events, [], False
        return events

    def end(self) -> None:
        """Stop recording."""
        self.recording = self.fresh = False
        self.take()


class _Changes:
    """The sensor changes that are in effect: for each parameter and env, the latest one.

    Iteration yields them in the order in which they were made, as changes before a step.
    """

    def __init__(self, n_envs: int) -> None:
        self._n_envs = n_envs
        self._made = 0
        # (uuid, method, *argument names) -> number of the latest change, by env; 0 without one
        self._latest: dict[tuple[str, ...], np.ndarray] = {}
        self._calls: dict[int, Call] = {}
        self._n_current: dict[int, int] = {}  # number of a change -> number of envs where it is the latest

    def __iter__(self) -> Iterator[Call]:
        return (call._replace(stepped=False) for call in self._calls.values())

    def add(self, call: Call) -> None:
        """Add a change, and drop those that it replaces in all envs."""
        ids = env_ids(call.arguments.get("envs"), self._n_envs)
        if ids is not None and not len(ids):
            return
        self._made += 1
        key = (call.uuid, call.method, *sorted(call.arguments.keys() - {"envs"}))
        latest = self._latest.setdefault(key, np.zeros(self._n_envs, np.int64))
        rows = slice(None) if ids is None else ids
        for number, count in zip(*np.unique(latest[rows], return_counts=True), strict=True):
            if number:
                self._n_current[number] -= int(count)
                if not self._n_current[number]:
                    del self._n_current[number], self._calls[number]
        latest[rows] = self._made
        self._calls[self._made], self._n_current[self._made] = call, self._n_envs if ids is None else len(ids)


def _copy(value: object) -> object:
    """Copy an argument: arrays, tensors and lists may change after the call."""
    return host_array("argument", value).copy() if isinstance(value, torch.Tensor) else copy.deepcopy(value)
