"""Failures on a GPU: envs that diverge, and contacts or constraints that exceed the allocated capacity.

Kernels record both on the device, in arrays that a reset of the env does not clear. One word of pinned memory, which
the CUDA graphs copy, tells the host that there is something to report.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
import warp as wp

from sensorium.worlds import warp_init as warp_init  # before MuJoCo Warp, which would start Warp itself

import mujoco_warp as mjw  # isort: skip

from sensorium.errors import CapacityError
from sensorium.worlds import watch_kernels as kernels

_MESSAGE = "position or velocity is NaN, infinite or huge"
_OVERFLOWS = {
    "njmax": mjw.OverflowType.NEFC | mjw.OverflowType.NJMAX_NNZ,
    "nconmax": mjw.OverflowType.BROADPHASE | mjw.OverflowType.NARROWPHASE | mjw.OverflowType.CCD,
}
"""Option of ``build`` -> the overflows that a larger value prevents."""


class Watch:
    """Counts steps and detects failures on the device. The graphs of the world capture its kernel launches.

    Args:
        m: MuJoCo Warp's model.
        d: MuJoCo Warp's data.
        dt: seconds of a step.
        room: the values of nconmax and njmax, for error messages.

    Attributes:
        steps: steps since the last reset of each env, (B,) int32.
        held: 1 for envs that diverged and are held until they are restarted, (B,) int32.
        status: one word that the device writes: ``status[0]`` is not 0 if there is something to :meth:`report`.
    """

    def __init__(self, m: Any, d: Any, dt: float, room: dict[str, int]) -> None:
        self._m, self._d, self._dt, self._room = m, d, dt, room
        self._device = torch.device(wp.device_to_torch(wp.get_device()))
        self.steps, self.held, self._news, self._flag = (
            torch.zeros(n, dtype=torch.int32, device=self._device) for n in (d.nworld, d.nworld, d.nworld, 1)
        )
        self._on_host = wp.zeros(1, dtype=int, device="cpu", pinned=self._device.type != "cpu")
        self.status = memoryview(self._on_host.numpy())  # a memoryview is read in 50 ns
        self._n_missed = 0  # envs that diverged and were reset before it was reported
        self._warmstart = wp.zeros_like(d.qacc_warmstart)
        self._kept = [wp.from_torch(tensor) for tensor in (self.steps, self.held, self._news, self._flag)]

    def check_step(self) -> None:
        """Launch the check of a step: after its physics, before anything that is derived from the new state."""
        d = self._d
        state = [d.qpos, d.qvel, d.act, d.ctrl, d.qfrc_applied, d.xfrc_applied, d.qacc, d.qacc_warmstart, d.sensordata]
        forces = [d.actuator_force, d.qfrc_actuator, d.qfrc_passive, d.qfrc_constraint]
        outputs = [*state, *forces, d.overflow, d.time, *self._kept]
        wp.launch(kernels.check_step, dim=d.nworld, inputs=[self._m.qpos0, self._dt], outputs=outputs)
        wp.copy(self._on_host, self._kept[-1])

    def keep(self) -> None:
        """Save the solver's warm start, before some envs restart: the others get it back."""
        wp.copy(self._warmstart, self._d.qacc_warmstart)

    def restart(self, mask: wp.array, fresh: bool) -> None:
        """Update the counts after the envs in ``mask`` restarted.

        Args:
            mask: (B,) bool.
            fresh: whether their time is 0; otherwise the step count follows from their time.
        """
        d = self._d
        counts = [d.nefc, d.njmax, d.nacon, d.ncollision, d.naconmax]
        outputs = [d.qacc_warmstart, d.overflow, d.time, *self._kept]
        inputs = [mask, fresh, self._dt, self._warmstart, *counts]
        wp.launch(kernels.restart, dim=d.nworld, inputs=inputs, outputs=outputs)
        wp.copy(self._on_host, self._kept[-1])

    def report(self) -> dict[int, str]:
        """Wait for the device and return env -> message of the envs that diverged since the last report.

        If such an env was reset in the meantime, a warning is issued instead.

        Raises:
            CapacityError: contacts or constraints were lost. Its ``failed`` holds the envs that diverged.
        """
        if self._device.type != "cpu":
            torch.cuda.synchronize(self._device)
        news, held = (array.numpy(force=True).copy() for array in (self._news, self.held))
        self._news.zero_()
        self._flag.zero_()
        self.status[0] = 0
        diverged, lost = (news & kernels.DIVERGED) != 0, news & ~np.int32(kernels.DIVERGED)
        missed = np.flatnonzero(diverged & (held == 0))
        if len(missed):
            self._n_missed += len(missed)
            warnings.warn(
                f"the physics of env {missed[0]} and {len(missed) - 1} more diverged ({_MESSAGE}); they were reset "
                f"before this was reported; {self._n_missed} so far",
                stacklevel=4,
            )
        failed = dict.fromkeys(np.flatnonzero(diverged & (held != 0)).tolist(), _MESSAGE)
        if lost.any():
            raise self._capacity_error(np.flatnonzero(lost).tolist(), int(np.bitwise_or.reduce(lost)), failed)
        return failed

    def _capacity_error(self, envs: list[int], overflows: int, failed: dict[int, str]) -> CapacityError:
        names = " | ".join(str(kind.name) for kind in mjw.OverflowType if kind.value & overflows)
        options = [f"{name}={self._room[name]}" for name, bits in _OVERFLOWS.items() if overflows & bits]
        advice = f"Build with more than {' and '.join(options)}"
        if not options:
            advice = "MuJoCo Warp fixes this capacity: use fewer, simpler or coarser shapes, or device='cpu'"
        return CapacityError(
            f"env {envs[0]} and {len(envs) - 1} more exceeded the capacity for contacts or constraints ({names}), and "
            f"some were lost. {advice}",
            envs,
            failed,
        )
