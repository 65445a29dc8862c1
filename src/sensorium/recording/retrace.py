"""Bringing a scene through the steps of a recording."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import torch

from sensorium.errors import DatasetError, DivergenceError
from sensorium.recording.recording import Recording, Step, event_state
from sensorium.worlds import Scene
from sensorium.worlds.contents import decode

_CHANGES = frozenset({"set", "set_pose", "attach", "set_intrinsics"})
"""Methods of sensors that are recorded."""


class Retracer:
    """Makes a scene go through a recording, step by step, and sense on the way.

    Sensors remember (drift, filters, delays), so every step is sensed, also where only some are looked at. Restarts of
    envs and changes of sensors are done again where they happened.

    Args:
        episode: the recording.
        scene: made from it and built; it may have other sensors.
        replaced: uuids of sensors that are others than the recorded ones, though they are called the same. What was
            changed in the recorded ones is none of their business.
    """

    def __init__(self, episode: Recording, scene: Scene, replaced: Collection[str] = ()) -> None:
        self.episode, self.scene = episode, scene
        self._known = scene.sensors.keys() - set(replaced)
        self.index = -1
        self._number = int(episode.config.get("start", 0))
        entities = {id(buffer) for entity in scene.entities.values() for _, buffer in entity.named_buffers()}
        self._plain = {
            name: buffer
            for name, buffer in scene.named_buffers()
            if not buffer.is_computed and name != "physics" and id(buffer) not in entities
        }
        self._writes = [call for module in scene.children() for call in module.unrolled("write_replay_data")]
        self._updates = scene.unrolled("update_state")

    def to(self, index: int) -> Step:
        """Go on to a step, at or after the present one; what was recorded of it."""
        if index < self.index:
            raise IndexError(f"recordings are retraced forwards; {index} comes before {self.index}")
        if index == self.index:
            return self._step(index)
        while self.index < index:
            self.index += 1
            step = self._step(self.index)
            self._make(step)
        return step

    def check(self, steps: range) -> None:
        """See whether all changes of sensors that were recorded can be made again.

        Raises:
            DatasetError: one of them is of something that the sensor does not have.
        """
        for index, event in self.episode.events(steps):
            if event.get("uuid") in self._known:
                self._change(index, event)

    def _change(self, index: int, event: dict[str, Any]) -> Any:
        """The method that makes a recorded change again."""
        sensor: Any = self.scene.sensors[event["uuid"]]
        method, what = event["method"], f"{event['method']}()"
        if method in _CHANGES and hasattr(sensor, method):  # a file must not choose what code runs
            unknown = set(event["arguments"]) - {"envs", *sensor.parameter_names} if method == "set" else ()
            if not unknown:
                return getattr(sensor, method)
            what = f"set({', '.join(f'{name}=...' for name in sorted(unknown))})"
        raise DatasetError(
            f"{self.episode.folder}: step {index} has {what} of the sensor {event['uuid']!r}, and "
            f"{type(sensor.options).__name__} has no such thing; give another sensor in its place"
        )

    def _step(self, index: int) -> Step:
        """A step without the changes of sensors that are not there."""
        step = self.episode.step(index)
        if not any("uuid" in event for event in step.events):
            return step
        return step._replace(
            events=[event for event in step.events if "uuid" not in event or event["uuid"] in self._known]
        )

    def _make(self, step: Step) -> None:
        scene = self.scene
        try:
            self._happen(step, after=False)
            # what modules keep beside the physics; the physics itself follows
            self._load(step)
            for write in self._writes:
                write()
            physics = step.values["physics"]
            if step.number > self._number or step.before is None:
                scene.retrace(step.before, physics, step.number)
            self._number = step.number
            self._happen(step, after=True)
        except DivergenceError:
            pass  # it was reported when it was recorded
        for update in self._updates:
            update()
        self._load(step)

    def _load(self, step: Step) -> None:
        for name, buffer in self._plain.items():
            value = step.values.get(name)
            if name in step.values and buffer.mismatch(value) is None:
                buffer.load(value)
                buffer.loaded = True

    def _happen(self, step: Step, after: bool) -> None:
        scene = self.scene
        for event in step.events:
            if event.get("stepped") is not after:
                continue
            if "restart" in event:
                scene.step_count = step.number if after else self._number
                envs = event["envs"]
                if event["restart"] == "reset":
                    scene.reset(envs)
                else:
                    state = event_state(event, step.values["physics"].shape[1])
                    scene.set_state(torch.from_numpy(np.array(state)), envs)
            elif "uuid" in event:
                change = self._change(self.index, event)
                change(**{name: decode(form) for name, form in event["arguments"].items()})
