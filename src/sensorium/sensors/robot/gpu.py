"""GPS, wheel odometry and battery on the GPU: launches of kernels, which a CUDA graph holds.

Each takes over the arrays that its class has prepared on its group, keeps state of its own in float64, and leaves the
state of envs alone that are not concerned by a reset.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import warp as wp

from sensorium.sensors.robot import warp_kernels as robot_warp


class _Stage:
    """What the three share: arrays on the device, and launches over (sensors, B)."""

    def __init__(self, group: Any) -> None:
        self._group = group
        self._dim = (len(group.sensors), group.n_envs)
        self._everyone = torch.ones(group.n_envs, dtype=torch.bool, device=group.device)

    def _array(self, values: np.ndarray) -> wp.array:
        """On the device; whole numbers as int32, others as float64."""
        values = values.astype(np.int32) if values.dtype.kind in "iu" else values
        return wp.from_torch(torch.from_numpy(np.ascontiguousarray(values)).to(self._group.device))

    def _launch(self, kernel: Any, *inputs: Any) -> None:
        wp.launch(kernel, dim=self._dim, inputs=list(inputs), device=str(self._group.device))

    def _envs(self) -> tuple[bool, wp.array]:
        """Whether this is a reset, and the mask of the envs that it, or a step, concerns."""
        mask = self._group.restarting
        return mask is not None, wp.from_torch(self._everyone if mask is None else mask)


class Receiver(_Stage):
    """The post-process of GPS receivers."""

    def __init__(self, group: Any) -> None:
        super().__init__(group)
        self._keys = self._array(group.keys.view(np.int32))
        self._origins, self._due_rows = self._array(group.origins), self._array(group.due_rows)
        self._outage, self._no_outage = self._array(group.outage), self._array(group.no_outage)
        self._due, self._counter = wp.from_torch(group.due), wp.from_torch(group.counter)

    def read(self, data: torch.Tensor, out: torch.Tensor, is_measured: bool) -> None:
        """From positions and velocities to what is read; losing and regaining fixes on the measured branch."""
        group, held, outage = self._group, False, self._no_outage
        if is_measured:
            fresh, envs = self._envs()
            loss_rate, reacquire_time, visible = group.reception
            chance = -torch.expm1(-loss_rate.double() * group.dt)
            arrays = [wp.from_torch(tensor) for tensor in (chance, reacquire_time, visible)]
            self._launch(robot_warp.receive, self._keys, *arrays, group.dt, self._counter, fresh, envs, self._outage)
            held, outage = not fresh, self._outage
        timing = (held, self._due, self._due_rows)
        self._launch(robot_warp.geodetic, wp.from_torch(data), self._origins, outage, *timing, wp.from_torch(out))


class DeadReckoning(_Stage):
    """Both branches of wheel odometry."""

    def __init__(self, group: Any) -> None:
        super().__init__(group)
        self._rates = [wp.from_torch(tensor) for tensor in (group.qpos, group.qvel)]
        names = ("wheels", "shares", "first", "angles", "pose", "geometry")
        self._arrays = [self._array(getattr(group, name)) for name in names]
        self._errors = wp.from_torch(group.errors)

    def advance(self, truth: torch.Tensor, measured: torch.Tensor) -> None:
        """Where the robot is, and believes to be, one step later."""
        branches = [wp.from_torch(tensor) for tensor in (truth, measured)]
        inputs = (*self._rates, *self._arrays, self._errors, wp.float64(self._group.dt), *self._envs())
        self._launch(robot_warp.odometry, *inputs, *branches)


class Discharge(_Stage):
    """The raw signal of batteries."""

    def __init__(self, group: Any) -> None:
        super().__init__(group)
        self._actuators = [wp.from_torch(tensor) for tensor in (group.force, group.speed)]
        self._numbers = [self._array(getattr(group, name)) for name in ("actuators", "first", "numbers", "curves")]
        self._initial = wp.from_torch(group.initial)
        self._state = [self._array(getattr(group, name)) for name in ("speeds", "drawn")]

    def advance(self, out: torch.Tensor) -> None:
        """What is left after one more step."""
        inputs = (
            *self._actuators,
            *self._numbers,
            self._initial,
            *self._state,
            wp.float64(self._group.dt),
            *self._envs(),
        )
        self._launch(robot_warp.discharge, *inputs, wp.from_torch(out))
