"""``WarpLaunches``: the launches that CUDA graphs of the GPU engine hold, of a step and of a restart of envs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property

import mujoco
import torch
import warp as wp

from sensorium.worlds import warp_init as warp_init  # before MuJoCo Warp, which would start Warp itself

import mujoco_warp as mjw  # isort: skip

from sensorium.worlds.partial_forward import PartialForward
from sensorium.worlds.warp_initial import write_initial
from sensorium.worlds.warp_substeps import SubstepData
from sensorium.worlds.warp_watch import Watch
from sensorium.worlds.watch_kernels import count_down

_SENSOR = int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
_MIN_ROWS, _ENVS_PER_ROW = 64, 32
"""Size of the batch in which a few envs restart by themselves: at least 64 envs, and one for every 32 of all envs."""


class WarpLaunches:
    """The methods of :class:`~sensorium.worlds.warp_world.WarpWorld` that graphs capture. They only launch kernels."""

    model: mujoco.MjModel
    m: mjw.Model
    """MuJoCo Warp's model."""
    d: mjw.Data
    """MuJoCo Warp's data."""
    n_envs: int
    substeps: int
    nconmax: int
    njmax: int
    mask: torch.Tensor
    sensed: torch.Tensor
    _exact: bool
    _mask_wp: wp.array
    _left: wp.array
    _always: wp.array
    _watch: Watch
    _partial_forward: PartialForward | None
    _delays_substeps: bool
    _on_step: Callable[[], None]
    _after_step: Callable[[], None]
    _on_begin: Callable[[torch.Tensor], None]
    _on_restart: Callable[[torch.Tensor], None]
    _after_restart: Callable[[torch.Tensor], None]
    _on_substep: Callable[[], None] | None
    _write_start: Callable[[torch.Tensor], None] | None

    def _stream(self) -> AbstractContextManager[None]:
        """Return a context in which Warp launches on the stream that torch uses."""
        raise NotImplementedError

    @property
    def _partial(self) -> PartialForward:
        """The batch of restarting envs, with the fields that differ per env now."""
        if self._partial_forward is None:
            n_rows = min(self.n_envs, max(_MIN_ROWS, self.n_envs // _ENVS_PER_ROW))
            with self._stream():
                self._partial_forward = PartialForward(self.model, self.m, self.d, n_rows, self.nconmax, self.njmax)
        return self._partial_forward

    @cached_property
    def _substep_data(self) -> SubstepData:
        return SubstepData(self.model, self.sensed)

    def _step_body(self) -> None:
        # in a conditional node, which the device expands: the host then launches two nodes instead of a hundred
        wp.capture_if(self._always, self._whole_body)
        self._after_step()

    def _loop_body(
        self, before: Callable[[], None], end: Callable[[], None], ended: torch.Tensor, after: Callable[[], None]
    ) -> None:
        """Launch a step between code of its own, and the restart of envs that it ends, in few nodes as a step."""

        def step() -> None:
            before()
            self._whole_body()

        def restart() -> None:
            end()
            self.mask.copy_(ended)
            self._restart_any(True)

        wp.capture_if(self._always, step)
        self._after_step()
        wp.capture_if(self._always, restart)
        self._after_restart(self.mask)
        wp.capture_if(self._always, after)

    def _whole_body(self) -> None:
        # substeps are a loop on the device: the time to launch does not grow with their number
        if self._on_substep is not None and self._delays_substeps:
            mjw.step(self.m, self.d)
            self._substep_data.keep()
            self._left.fill_(self.substeps - 2)
            wp.capture_while(self._left, self._delayed_substep_body)
            self._delayed_substep_body()
        elif self.substeps > 1:
            self._left.fill_(self.substeps - 1)
            wp.capture_while(self._left, self._substep_body)
            mjw.step(self.m, self.d)
        else:
            mjw.step(self.m, self.d)
        self._watch.check_step()  # before the sensors, which must not read envs that diverged
        if self._exact:
            self._velocity_stage()
        if self._on_substep is not None:
            self._substep_data.copy()
        self._on_step()

    def _delayed_substep_body(self) -> None:
        """Make a substep, and sense the one before it: a step first computes positions and velocities at the state that
        the substep before led to, so that no extra stage is needed."""
        mjw.step(self.m, self.d)
        self._substep_data.show()
        assert self._on_substep is not None
        self._on_substep()
        wp.launch(count_down, dim=1, inputs=[self._left])

    def _substep_body(self) -> None:
        """Make a substep that is not the last one, without sensors unless they are captured at substeps."""
        if self._on_substep is None:
            flags = self.m.opt.disableflags
            self.m.opt.disableflags = flags | _SENSOR
            mjw.step(self.m, self.d)
            self.m.opt.disableflags = flags
        else:
            mjw.step(self.m, self.d)
            if self._exact:
                self._velocity_stage()
            self._substep_data.copy()
            self._on_substep()
        wp.launch(count_down, dim=1, inputs=[self._left])

    def _velocity_stage(self) -> None:
        """Compute positions, velocities and their sensors at the new state; accelerations and forces do not change."""
        mjw.fwd_kinematics(self.m, self.d)
        mjw.transmission(self.m, self.d)
        mjw.fwd_velocity(self.m, self.d)
        mjw.sensor_pos(self.m, self.d)
        mjw.sensor_vel(self.m, self.d)

    def _restart_body(self, fresh: bool) -> None:
        self._restart_any(fresh)
        self._after_restart(self.mask)

    def _restart_any(self, fresh: bool) -> None:
        # a loop of training resets in every step, mostly no env at all, and seldom more than a few
        self._partial.select(self._mask_wp)
        wp.capture_if(self._partial.any, lambda: self._restart_selected(fresh))

    def _restart_selected(self, fresh: bool) -> None:
        self._watch.keep()
        self._partial.keep()
        if fresh:
            mjw.reset_data(self.m, self.d, self._mask_wp)
            write_initial(self.model, self.m, self.d, self._mask_wp)
            self._on_begin(self.mask)
            if self._write_start is not None:
                self._write_start(self.mask)
        wp.capture_if(self._partial.few, lambda: self._partial.run(self._mask_wp))
        wp.capture_if(self._partial.many, lambda: mjw.forward(self.m, self.d))
        self._watch.restart(self._mask_wp, fresh)
        if "_substep_data" in vars(self):
            self._substep_data.copy()
        self._on_restart(self.mask)
