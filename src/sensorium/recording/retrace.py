"""Retracing: taking a scene through the steps of a recording."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import torch

from sensorium._arguments import checked, checked_index
from sensorium.errors import DatasetError, DivergenceError, IndexRangeError
from sensorium.recording.events import Event, Step, restart_state
from sensorium.recording.recording import Recording
from sensorium.worlds import Scene
from sensorium.worlds.contents import decode

_METHODS = frozenset({"set", "set_pose", "attach", "set_intrinsics"})
"""Methods of sensors that a recording may call: a file must not choose what code runs."""


class Retracer:
    """Takes a scene through a recording step by step, and senses every step.

    Sensors have memory (drift, filters, delays), so every step is sensed, including those that nothing reads. Restarts
    of envs and changes of sensors are repeated where they happened.

    Args:
        recording: the recording.
        scene: a scene made from it and built. It may have other sensors.
        replaced: uuids of sensors that replace recorded ones of the same name. Recorded changes of the original sensors
            are not applied to them.

    Attributes:
        index: the current step; -1 before the first one.

    Example:
        >>> scene = recording.build_scene()
        >>> sn.recording.Retracer(recording, scene).to(45)
        >>> scene.sensors["imu"].read()  # as recorded at step 45
    """

    @checked
    def __init__(self, recording: Recording, scene: Scene, replaced: Collection[str] = ()) -> None:
        self.recording, self.scene = recording, scene
        self._known = scene.sensors.keys() - set(replaced)
        self.index = -1
        self._number = int(recording.config.get("start", 0))
        physical = {id(buffer) for entity in scene.entities.values() for buffer in entity.state_buffers}
        for module in scene.modules.values():
            physical |= {id(buffer) for buffer in getattr(module, "base_buffers", ())}
        self._plain = {
            name: buffer
            for name, buffer in scene.named_buffers()
            if not buffer.is_computed and name != "physics" and id(buffer) not in physical
        }
        self._read = {"physics", *self._plain}
        self._writes = scene.unrolled("write_replay_data", own=False)
        self._updates = scene.unrolled("update_state")

    def to(self, index: int) -> Step:
        """Advance to a step and return what was recorded of it.

        Args:
            index: number of the step, at or after the current one.

        Raises:
            OptionError: ``index`` is not an integer.
            IndexRangeError: there is no such step, or it lies before the current one.
        """
        index = checked_index(self.recording.folder, "step", index, len(self.recording))
        if index < self.index:
            raise IndexRangeError(f"a recording is retraced forwards only; step {index} is before step {self.index}")
        if index == self.index:
            return self._step(index)
        while self.index < index:
            self.index += 1
            step = self._step(self.index)
            self._apply(step)
        return step

    @checked
    def check(self, steps: range) -> None:
        """Check that all recorded changes of sensors in some steps can be repeated.

        Raises:
            DatasetError: a change is not possible with the sensor that the scene has now.
        """
        for index, event in self.recording.events(steps):
            if event.get("uuid") in self._known:
                self._change(index, event)

    def _change(self, index: int, event: Event) -> Callable[..., object]:
        """Return the method that repeats a recorded change of a sensor."""
        sensor = self.scene.sensors[event["uuid"]]
        method, call = event["method"], f"{event['method']}()"
        if method in _METHODS and hasattr(sensor, method):
            known = {"envs", *getattr(sensor, "parameter_names", ())}
            unknown = set(event["arguments"]) - known if method == "set" else set()
            if not unknown:
                change: Callable[..., object] = getattr(sensor, method)
                return change
            call = f"set({', '.join(f'{name}=...' for name in sorted(unknown))})"
        raise DatasetError(
            f"{self.recording.folder}: step {index} calls {call} of the sensor {event['uuid']!r}, which "
            f"{type(sensor.options).__name__} does not support; replace it with another sensor"
        )

    def _step(self, index: int) -> Step:
        """Return the part of a step that is applied, without changes of sensors that the scene does not have."""
        step = self.recording.step(index, self._read)
        if not any("uuid" in event for event in step.events):
            return step
        return step._replace(
            events=[event for event in step.events if "uuid" not in event or event["uuid"] in self._known]
        )

    def _apply(self, step: Step) -> None:
        scene = self.scene
        try:
            self._apply_events(step, after=False)
            # buffers that modules keep beside the physics; the physics state follows
            self._load(step)
            for write in self._writes:
                write()
            physics = step.values["physics"]
            if step.number > self._number or step.before is None:
                scene.retrace(step.before, physics, step.number)
            self._number = step.number
            self._apply_events(step, after=True)
        except DivergenceError:
            pass  # it was raised when the step was recorded
        for update in self._updates:
            update()
        self._load(step)

    def _load(self, step: Step) -> None:
        for name, buffer in self._plain.items():
            value = step.values.get(name)
            if name in step.values and buffer.mismatch(value) is None:
                buffer.load(value)
                buffer.loaded = True

    def _apply_events(self, step: Step, after: bool) -> None:
        """Repeat the events that came before the physics of a step, or after it."""
        scene = self.scene
        for event in step.events:
            if event.get("stepped") is not after:
                continue
            if "restart" in event:
                scene.step_count = step.number if after else self._number
                envs = event["envs"]
                if "episodes" in event:
                    scene.set_episodes(event["episodes"], envs)
                if event["restart"] == "reset":
                    scene.reset(envs)
                else:
                    state = restart_state(event, step.values["physics"].shape[1])
                    scene.set_state(torch.from_numpy(np.array(state)), envs)
            elif "uuid" in event:
                change = self._change(self.index, event)
                change(**{name: decode(form) for name, form in event["arguments"].items()})
