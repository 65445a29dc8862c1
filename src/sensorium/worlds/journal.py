"""What happens to a running scene between steps, in order: what replay must do again beyond the states themselves."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from sensorium.worlds.world import env_ids


class Restart(NamedTuple):
    """Envs were put to another state, from which their sensors started afresh."""

    stepped: bool
    """Whether it came after the step, not before it."""
    call: str
    """"reset" (the model's initial state) or "state"."""
    envs: np.ndarray | None
    """Which envs; None for all."""
    state: np.ndarray | None
    """Their states, (n, n_state); None for "reset"."""


class Call(NamedTuple):
    """A sensor was changed: ``scene.sensors[uuid].method(**arguments)``."""

    stepped: bool
    uuid: str
    method: str
    arguments: dict[str, Any]


class Journal:
    """Restarts and changes of sensors since the last step, or since they were last taken.

    While nobody records, it keeps only what a recording that began now would need: the changes that are still in force,
    and the restarts since all envs were restarted, until the next step.

    Attributes:
        recording: whether somebody takes the events after each step.
        fresh: whether somebody records, or no step was made since all envs were restarted; else a step changes nothing
            here, and need not be noted.
    """

    def __init__(self, n_envs: int) -> None:
        self.recording = False
        self.fresh = True
        self._events: list[Restart | Call] = [Restart(False, "reset", None, None)]
        self._changes = _Changes(n_envs)
        self._stepped = False

    def restart(self, call: str, envs: np.ndarray | None, state: np.ndarray | None) -> None:
        """Note that envs were restarted."""
        if not self.recording:
            if envs is None:
                # sensors start afresh by what is set now, and it may be set otherwise before a recording begins
                self._events = list(self._changes)
                self.fresh = True
            elif not self.fresh:
                return
        self._events.append(Restart(self._stepped, call, envs, state))

    def call(self, uuid: str, method: str, arguments: dict[str, Any]) -> None:
        """Note that a sensor was changed."""
        event = Call(self._stepped, uuid, method, {name: _copy(value) for name, value in arguments.items()})
        self._changes.add(event)
        if self.recording or self.fresh:
            self._events.append(event)

    def step(self) -> None:
        """Note that a step was made."""
        if self.recording:
            self._stepped = True
        elif self.fresh:
            self._events.clear()
            self.fresh = False

    def begin(self, anyhow: bool = False) -> list[Restart | Call] | None:
        """Start recording; what led to the sensors as they are, or None where a restart of all envs must come first.

        ``anyhow``: start also there, for a replay that does not need to know.
        """
        if not self.fresh and not anyhow:
            return None
        self.recording = True
        return self.take()

    def take(self) -> list[Restart | Call]:
        """The events since the last call."""
        events, self._events, self._stepped = self._events, [], False
        return events

    def end(self) -> None:
        """Stop recording."""
        self.recording = self.fresh = False
        self.take()


class _Changes:
    """The changes of sensors that are in force: of each thing that was set, in every env the latest.

    Iterating gives them in the order in which they were made, as changes before a step.
    """

    def __init__(self, n_envs: int) -> None:
        self._n_envs = n_envs
        self._made = 0
        self._latest: dict[Any, np.ndarray] = {}  # what was set -> number of the latest change of it, by env
        self._calls: dict[int, Call] = {}
        self._envs: dict[int, int] = {}  # number -> envs where it is the latest one

    def __iter__(self) -> Iterator[Call]:
        return (call._replace(stepped=False) for call in self._calls.values())

    def add(self, call: Call) -> None:
        ids = env_ids(call.arguments.get("envs"), self._n_envs)
        if ids is not None and not len(ids):
            return
        self._made += 1
        key = (call.uuid, call.method, *sorted(call.arguments.keys() - {"envs"}))
        latest = self._latest.setdefault(key, np.zeros(self._n_envs, np.int64))
        rows: Any = slice(None) if ids is None else ids
        for number, count in zip(*np.unique(latest[rows], return_counts=True), strict=True):
            if number:
                self._envs[number] -= int(count)
                if not self._envs[number]:
                    del self._envs[number], self._calls[number]
        latest[rows] = self._made
        self._calls[self._made], self._envs[self._made] = call, self._n_envs if ids is None else len(ids)


def _copy(value: Any) -> Any:
    """Arrays, tensors and lists may change after the call."""
    return value.numpy(force=True).copy() if isinstance(value, torch.Tensor) else copy.deepcopy(value)
