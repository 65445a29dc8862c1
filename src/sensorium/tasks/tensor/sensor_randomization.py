"""``SensorRandomizer``: imperfections of sensors that differ per env and episode, drawn on the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from sensorium.errors import NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.sensors import Sensor
from sensorium.tasks.tensor.hooks import TensorHooks


class SensorRandomizer:
    """Draws parameters of sensors of the robot and of the task at the start of each episode, one value for each axis.

    The values are multiplied by the difficulty of the env, except rates. A delay whose jitter is not drawn grows from
    that jitter instead of 0, since a delay must be at least the jitter.

    Args:
        task: the task, in a built scene; see ``TensorTaskConfig.randomize_sensors``.

    Raises:
        NameNotFoundError: neither the robot nor the scene has such a sensor.
        OptionError: a key is not SENSOR.PARAMETER, an option cannot differ per env at each reset, or a range is out of
            order, or has an end that the sensor does not accept.
    """

    option = "randomize_sensors"
    """The option of the task."""

    def __init__(self, task: TensorHooks[Any]) -> None:
        self._task = task
        self._bound: list[tuple[torch.Tensor, slice]] = []
        easiest: list[float] = []
        eased: list[float] = []
        low: list[float] = []
        high: list[float] = []
        sensors = _sensors(task)
        foreign = {name for other in task.others for name in _sensors(other)}
        ranges = {  # without those for sensors that only other entities have
            key: limits
            for key, limits in task.config.randomize_sensors.items()
            if key.partition(".")[0] in sensors or key.partition(".")[0] not in foreign
        }
        _check_ranges(sensors, ranges)
        own = {*task.robot.rig.names, *task.own_sensors}
        for key, (smallest, largest) in sorted(ranges.items(), key=lambda each: each[0].partition(".")[0] not in own):
            # first its own, so that their columns, and so their values, do not depend on who draws those of the scene
            uuid, _, option = key.partition(".")
            values = sensors[uuid].bind(option)
            columns = slice(len(low), len(low) + values.shape[1])
            self._bound.append((values, columns))
            keeps_jitter = option == "delay" and f"{uuid}.jitter" not in ranges
            easiest += [_rounded_up(sensors[uuid].options.jitter) if keeps_jitter else 0.0] * values.shape[1]
            eased += [float(option != "rate")] * values.shape[1]
            low += [smallest] * values.shape[1]
            high += [largest] * values.shape[1]
        if self._bound:
            device = self._bound[0][0].device
            self._low, self._span = torch.tensor(low, device=device), torch.tensor(high, device=device)
            self._span -= self._low
            self._easiest = torch.tensor(easiest, device=device)  # the values at difficulty 0
            self._eased = torch.tensor(eased, device=device)  # 0 where the difficulty does not scale the value
            self.drawn = torch.zeros(len(self._bound[0][0]), len(low), device=device)

    def begin_episodes(self, mask: torch.Tensor) -> None:
        """Draw the values of new episodes, in the envs of a mask (B,) bool."""
        if not self._bound:
            return
        new = self._low + self._span * self._task.draws.uniform("sensors", len(self._low))
        new = torch.lerp(self._easiest, new, 1.0 + self._eased * (self._task.difficulty[:, None] - 1.0))
        self.drawn.copy_(torch.where(mask[:, None], new, self.drawn))
        for values, columns in self._bound:
            values.copy_(torch.where(mask[:, None], self.drawn[:, columns].to(values.dtype), values))

    def observe(self) -> dict[str, torch.Tensor]:
        """Return the drawn values for the critic: ``{"sensor_parameters": (B, n)}``, or nothing."""
        return {"sensor_parameters": self.drawn} if self._bound else {}


def _rounded_up(value: float) -> float:
    """Return a value as float32 that is not smaller."""
    near = np.float32(value)
    return float(near if float(near) >= value else np.nextafter(near, np.float32(np.inf)))


def _sensors(task: TensorHooks[Any]) -> dict[str, Sensor[Any]]:
    """Return the sensors whose parameters can be drawn: those of the robot by name, and others of the scene by uuid."""
    own = {name: task.robot.rig[name] for name in task.robot.rig.names if name not in task.critic_sensors}
    taken = [*own.values(), *(other.robot.rig[name] for other in task.others for name in other.robot.rig.names)]
    elsewhere = {uuid for other in task.others for uuid in other.own_sensors}
    others = {
        uuid: each
        for uuid, each in task.scene.sensors.items()
        if uuid in task.own_sensors or (task.draws_shared and each not in taken and uuid not in elsewhere)
    }
    return {name: each for name, each in (others | own).items() if isinstance(each, Sensor)}


def _check_ranges(sensors: Mapping[str, Sensor[Any]], ranges: Mapping[str, tuple[float, float]]) -> None:
    """Raise an error that names ``randomize_sensors`` if a range cannot be used."""
    ends: dict[str, list[dict[str, Any]]] = {}
    for key, (low, high) in ranges.items():
        uuid, _, option = key.partition(".")
        if not uuid or not option:
            raise OptionError(f"randomize_sensors: keys are SENSOR.PARAMETER, such as 'imu.gyro_bias'; got {key!r}")
        if uuid not in sensors:
            hint = did_you_mean(uuid, sensors) or f"; there are {shorten(sensors)}"
            raise NameNotFoundError(f"randomize_sensors: there is no sensor {uuid!r}{hint}")
        if low > high:
            raise OptionError(f"randomize_sensors: {key!r} must be (low, high) with low <= high, got {ranges[key]}")
        lows, highs = ends.setdefault(uuid, [{}, {}])
        lows[option], highs[option] = low, high
    for uuid, both in ends.items():
        sensor = sensors[uuid]
        try:
            for option in both[0]:
                sensor.bind(option)
            for values in both:  # the sensor validates them; a jitter together with its delay
                sensor.set(**values)
        except OptionError as error:
            raise OptionError(f"randomize_sensors: {uuid!r}: {error}") from error
