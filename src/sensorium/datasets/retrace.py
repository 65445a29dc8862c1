"""Bringing a scene through the steps of a recording."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sensorium.datasets.episode import Episode, Step, event_state
from sensorium.errors import DivergenceError
from sensorium.worlds import Scene
from sensorium.worlds.contents import decode


class Retracer:
    """Makes a scene go through a recording, step by step, and sense on the way.

    Sensors remember (drift, filters, delays), so every step is sensed, also where only some are looked at. Restarts of
    envs and changes of sensors are done again where they happened.

    Args:
        episode: the recording.
        scene: made from it and built; it may have other sensors.
    """

    def __init__(self, episode: Episode, scene: Scene) -> None:
        self.episode, self.scene = episode, scene
        self.index = -1
        self._number = int(episode.config.get("start", 0))
        entities = {id(buffer) for entity in scene.entities.values() for _, buffer in entity.named_buffers()}
        self._plain = {
            name: buffer
            for name, buffer in scene.named_buffers()
            if not buffer.shown and name != "physics" and id(buffer) not in entities
        }
        self._writes = [call for module in scene.children() for call in module.unrolled("write_replay_data")]
        self._updates = scene.unrolled("update_state")

    def to(self, index: int) -> Step:
        """Go on to a step, at or after the present one; what was recorded of it."""
        if index < self.index:
            raise IndexError(f"recordings are retraced forwards; {index} comes before {self.index}")
        step = self.episode.step(index)
        while self.index < index:
            self.index += 1
            step = self.episode.step(self.index)
            self._make(step)
        return step

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
                scene.retrace(physics if step.before is None else step.before, physics, step.number)
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
            elif event["uuid"] in scene.sensors:
                sensor: Any = scene.sensors[event["uuid"]]
                getattr(sensor, event["method"])(**{name: decode(form) for name, form in event["arguments"].items()})
