"""What must not pass in silence on a GPU: envs that diverge, and contacts or constraints for which there is no room.

Both are noted on the device, in arrays that outlive a reset of the env; one word of pinned memory, copied by the graphs
themselves, tells the host that there is something to look at.
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

_HARMLESS = int(mjw.OverflowType.ITERATIONS | mjw.OverflowType.LS_ITERATIONS)
_DIVERGED = 1 << 30
"""In the news of an env, beside the bits of OverflowType."""
_HUGE = 1e10
"""Positions and velocities beyond this have diverged, as in MuJoCo (mjMAXVAL)."""
_MESSAGE = "position or velocity is NaN, infinite or huge"
_MORE = {
    "njmax": mjw.OverflowType.NEFC | mjw.OverflowType.NJMAX_NNZ,
    "nconmax": mjw.OverflowType.BROADPHASE | mjw.OverflowType.NARROWPHASE | mjw.OverflowType.CCD,
}
"""Option of ``build`` -> the overflows that more of it mends."""


@wp.func
def _pass_on(b: int, overflow: wp.array(dtype=int), news: wp.array(dtype=int), status: wp.array(dtype=int)):
    """What the engine lost becomes news; its own notes would be gone with a reset of the env."""
    lost = overflow[b] & wp.static(~_HARMLESS)
    overflow[b] = 0
    if lost != 0:
        news[b] = news[b] | lost
        wp.atomic_max(status, 0, 1)


@wp.func
def _mend(b: int, field: wp.array2d(dtype=float)):
    """What sensors read of an env that diverged is finite."""
    for i in range(field.shape[1]):
        if not wp.isfinite(field[b, i]):
            field[b, i] = 0.0


@wp.kernel(enable_backward=False)
def _look(
    qpos0: wp.array2d(dtype=float),
    dt: wp.float64,
    qpos: wp.array2d(dtype=float),
    qvel: wp.array2d(dtype=float),
    act: wp.array2d(dtype=float),
    ctrl: wp.array2d(dtype=float),
    applied: wp.array2d(dtype=float),
    wrenches: wp.array2d(dtype=wp.spatial_vector),
    qacc: wp.array2d(dtype=float),
    warmstart: wp.array2d(dtype=float),
    sensed: wp.array2d(dtype=float),
    pushed: wp.array2d(dtype=float),
    actuated: wp.array2d(dtype=float),
    passive: wp.array2d(dtype=float),
    constrained: wp.array2d(dtype=float),
    overflow: wp.array(dtype=int),
    time: wp.array(dtype=float),
    steps: wp.array(dtype=int),
    held: wp.array(dtype=int),
    news: wp.array(dtype=int),
    status: wp.array(dtype=int),
):
    """Count the step, keep time exact, and put envs that diverged back to their initial state until they are reset."""
    b = wp.tid()
    _pass_on(b, overflow, news, status)
    bad = wp.int32(0)
    for i in range(qpos.shape[1]):
        if not (wp.abs(qpos[b, i]) < wp.static(_HUGE)):
            bad += 1
    for i in range(qvel.shape[1]):
        if not (wp.abs(qvel[b, i]) < wp.static(_HUGE)):
            bad += 1
    if bad > 0 and held[b] == 0:
        held[b] = 1
        news[b] = news[b] | wp.static(_DIVERGED)
        wp.atomic_max(status, 0, 1)
    if held[b] != 0:
        for i in range(qpos.shape[1]):
            qpos[b, i] = qpos0[b % qpos0.shape[0], i]
        for i in range(qvel.shape[1]):
            qvel[b, i] = 0.0
            qacc[b, i] = 0.0
            warmstart[b, i] = 0.0
            applied[b, i] = 0.0
        for i in range(act.shape[1]):
            act[b, i] = 0.0
        for i in range(ctrl.shape[1]):
            ctrl[b, i] = 0.0  # what broke it would break it again in every step
        for i in range(wrenches.shape[1]):
            wrenches[b, i] = wp.spatial_vector()
        _mend(b, sensed)
        _mend(b, pushed)
        _mend(b, actuated)
        _mend(b, passive)
        _mend(b, constrained)
    else:
        steps[b] = steps[b] + 1
    time[b] = wp.float32(wp.float64(steps[b]) * dt)


@wp.kernel(enable_backward=False)
def _restart(
    mask: wp.array(dtype=bool),
    fresh: bool,
    dt: wp.float64,
    saved: wp.array2d(dtype=float),
    nefc: wp.array(dtype=int),
    njmax: int,
    nacon: wp.array(dtype=int),
    ncollision: wp.array(dtype=int),
    naconmax: int,
    warmstart: wp.array2d(dtype=float),
    overflow: wp.array(dtype=int),
    time: wp.array(dtype=float),
    steps: wp.array(dtype=int),
    held: wp.array(dtype=int),
    news: wp.array(dtype=int),
    status: wp.array(dtype=int),
):
    """After a forward pass of all envs: the others keep their solver's start; those restarted count anew."""
    b = wp.tid()
    # of these the engine takes notice in a step alone
    if nefc[b] > njmax:
        overflow[b] = overflow[b] | wp.static(int(mjw.OverflowType.NEFC))
    if ncollision[0] > naconmax:
        overflow[b] = overflow[b] | wp.static(int(mjw.OverflowType.BROADPHASE))
    if nacon[0] > naconmax:
        overflow[b] = overflow[b] | wp.static(int(mjw.OverflowType.NARROWPHASE))
    _pass_on(b, overflow, news, status)
    if mask[b]:
        held[b] = 0
        steps[b] = wp.where(fresh, 0, int(wp.rint(wp.float64(time[b]) / dt)))
    else:
        for i in range(warmstart.shape[1]):
            warmstart[b, i] = saved[b, i]


class Watch:
    """Counts steps and looks for what went wrong, on the device; its launches are captured in the world's graphs.

    Args:
        m, d: MuJoCo Warp's model and data.
        dt: seconds of a step.
        room: nconmax and njmax, to name them.

    Attributes:
        steps: steps since each env's reset, (B,) int32.
        held: 1 for envs that diverged and hold still until they are restarted, (B,) int32.
        told: the word that the device writes: ``told[0]`` is not 0 where there is something to :meth:`report`.
    """

    def __init__(self, m: Any, d: Any, dt: float, room: dict[str, int]) -> None:
        self._m, self._d, self._dt, self._room = m, d, dt, room
        self._device = torch.device(wp.device_to_torch(wp.get_device()))
        self.steps, self.held, self._news, self._status = (
            torch.zeros(n, dtype=torch.int32, device=self._device) for n in (d.nworld, d.nworld, d.nworld, 1)
        )
        self._seen = wp.zeros(1, dtype=int, device="cpu", pinned=self._device.type != "cpu")
        self.told = memoryview(self._seen.numpy())  # looked at in 50 ns
        self._unseen = 0  # envs that diverged, and were reset before anybody knew
        self._saved = wp.zeros_like(d.qacc_warmstart)
        self._kept = [wp.from_torch(tensor) for tensor in (self.steps, self.held, self._news, self._status)]

    def look(self) -> None:
        """After the physics of a step, and before what is derived from its state."""
        d = self._d
        state = [d.qpos, d.qvel, d.act, d.ctrl, d.qfrc_applied, d.xfrc_applied, d.qacc, d.qacc_warmstart, d.sensordata]
        forces = [d.actuator_force, d.qfrc_actuator, d.qfrc_passive, d.qfrc_constraint]
        outputs = [*state, *forces, d.overflow, d.time, *self._kept]
        wp.launch(_look, dim=d.nworld, inputs=[self._m.qpos0, self._dt], outputs=outputs)
        wp.copy(self._seen, self._kept[-1])

    def keep(self) -> None:
        """Before a restart of some envs: remember what the others shall keep."""
        wp.copy(self._saved, self._d.qacc_warmstart)

    def restart(self, mask: wp.array, fresh: bool) -> None:
        """After the restart of the envs in ``mask``; ``fresh``: their time is 0, else what it says."""
        d = self._d
        counts = [d.nefc, d.njmax, d.nacon, d.ncollision, d.naconmax]
        outputs = [d.qacc_warmstart, d.overflow, d.time, *self._kept]
        wp.launch(_restart, dim=d.nworld, inputs=[mask, fresh, self._dt, self._saved, *counts], outputs=outputs)
        wp.copy(self._seen, self._kept[-1])

    def report(self) -> dict[int, str]:
        """Wait for the device, and take the news: env -> message of those that diverged.

        Raises:
            CapacityError: contacts or constraints were lost. It names those that diverged, too.
        """
        if self._device.type != "cpu":
            torch.cuda.synchronize(self._device)
        news, held = (array.numpy(force=True).copy() for array in (self._news, self.held))
        self._news.zero_()
        self._status.zero_()
        self.told[0] = 0
        diverged, lost = (news & _DIVERGED) != 0, news & ~np.int32(_DIVERGED)
        again = np.flatnonzero(diverged & (held == 0))
        if len(again):
            self._unseen += len(again)
            warnings.warn(
                f"the physics of env {again[0]} and {len(again) - 1} more diverged ({_MESSAGE}), and they were reset "
                f"before that was known; {self._unseen} so far",
                stacklevel=4,
            )
        failed = dict.fromkeys(np.flatnonzero(diverged & (held != 0)).tolist(), _MESSAGE)
        if lost.any():
            raise self._lost(np.flatnonzero(lost).tolist(), int(np.bitwise_or.reduce(lost)), failed)
        return failed

    def _lost(self, envs: list[int], kinds: int, failed: dict[int, str]) -> CapacityError:
        names = " | ".join(str(kind.name) for kind in mjw.OverflowType if kind.value & kinds)
        more = [f"{name}={self._room[name]}" for name, bits in _MORE.items() if kinds & bits]
        advice = f"Build with more than {' and '.join(more)}"
        if not more:
            advice = "That room is MuJoCo Warp's own: use fewer, simpler or coarser shapes, or device='cpu'"
        return CapacityError(
            f"env {envs[0]} and {len(envs) - 1} more ran out of room for contacts or constraints ({names}): some were "
            f"lost. {advice}",
            envs,
            failed,
        )
