"""What happens to a running scene between steps, in order: what replay must do again beyond the states themselves."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch


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

    While nobody records, it keeps only what a recording that began now would need: the latest change of each parameter,
    and the restarts since all envs were restarted, until the next step.

    Attributes:
        recording: whether somebody takes the events after each step.
        fresh: whether somebody records, or no step was made since all envs were restarted; else a step changes nothing
            here, and need not be noted.
    """

    def __init__(self) -> None:
        self.recording = False
        self._events: list[Restart | Call] = [Restart(False, "reset", None, None)]
        self._changes: dict[Any, Call] = {}
        self.fresh = True
        self._stepped = False

    def restart(self, call: str, envs: np.ndarray | None, state: np.ndarray | None) -> None:
        """Note that envs were restarted."""
        if not self.recording:
            if envs is None:
                self._events.clear()
                self.fresh = True
            elif not self.fresh:
                return
        self._events.append(Restart(self._stepped, call, envs, state))

    def call(self, uuid: str, method: str, arguments: dict[str, Any]) -> None:
        """Note that a sensor was changed."""
        event = Call(self._stepped, uuid, method, {name: _copy(value) for name, value in arguments.items()})
        key = (uuid, method, str(arguments.get("envs")), *sorted(name for name in arguments if name != "envs"))
        self._changes.pop(key, None)
        self._changes[key] = event
        if self.recording or self.fresh:
            self._events.append(event)

    def step(self) -> None:
        """Note that a step was made."""
        if self.recording:
            self._stepped = True
        elif self.fresh:
            self._events.clear()
            self.fresh = False

    def begin(self) -> list[Restart | Call] | None:
        """Start recording; what led to the sensors as they are, or None where a restart of all envs must come first."""
        if not self.fresh:
            return None
        known = {id(event) for event in self._events}
        # whenever they were made, they come before the first step of this recording
        first = [change._replace(stepped=False) for change in self._changes.values() if id(change) not in known]
        self.recording = True
        return [*first, *self.take()]

    def take(self) -> list[Restart | Call]:
        """The events since the last call."""
        events, self._events, self._stepped = self._events, [], False
        return events

    def end(self) -> None:
        """Stop recording."""
        self.recording = self.fresh = False
        self.take()


def _copy(value: Any) -> Any:
    """Arrays and tensors may change after the call."""
    if isinstance(value, torch.Tensor):
        return value.numpy(force=True).copy()
    return value.copy() if isinstance(value, np.ndarray) else value
