"""Warp kernels that run after the physics of a step or restart: step counts, divergence and lost contacts."""

from __future__ import annotations

import warp as wp

from sensorium.worlds import warp_init as warp_init  # before MuJoCo Warp, which would start Warp itself

import mujoco_warp as mjw  # isort: skip

DIVERGED = 1 << 30
"""Bit of ``news`` for an env that diverged; the others are those of OverflowType."""
_IGNORED = int(mjw.OverflowType.ITERATIONS | mjw.OverflowType.LS_ITERATIONS)
"""Overflows that lose no contacts: a solver that reached its iteration limit."""
_MAX_VALUE = 1e10
"""Positions and velocities beyond this have diverged, as in MuJoCo (mjMAXVAL)."""


@wp.kernel(enable_backward=False)
def count_down(left: wp.array(dtype=int)):
    """Decrement the number of substeps that are left."""
    left[0] = left[0] - 1


@wp.func
def _move_overflow(b: int, overflow: wp.array(dtype=int), news: wp.array(dtype=int), status: wp.array(dtype=int)):
    """Move the overflow bits of the engine into ``news``: a reset of the env would clear those of the engine."""
    lost = overflow[b] & wp.static(~_IGNORED)
    overflow[b] = 0
    if lost != 0:
        news[b] = news[b] | lost
        wp.atomic_max(status, 0, 1)


@wp.func
def _clear_nonfinite(b: int, field: wp.array2d(dtype=float)):
    """Set values that are not finite to 0, so that sensors of an env that diverged read finite values."""
    for i in range(field.shape[1]):
        if not wp.isfinite(field[b, i]):
            field[b, i] = 0.0


@wp.kernel(enable_backward=False)
def check_step(
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
    """Count the step, keep time exact, and hold envs that diverged in their initial state until they are reset."""
    b = wp.tid()
    _move_overflow(b, overflow, news, status)
    bad = wp.int32(0)
    for i in range(qpos.shape[1]):
        if not (wp.abs(qpos[b, i]) < wp.static(_MAX_VALUE)):
            bad += 1
    for i in range(qvel.shape[1]):
        if not (wp.abs(qvel[b, i]) < wp.static(_MAX_VALUE)):
            bad += 1
    if bad > 0 and held[b] == 0:
        held[b] = 1
        news[b] = news[b] | wp.static(DIVERGED)
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
            ctrl[b, i] = 0.0  # the same controls would make it diverge again in every step
        for i in range(wrenches.shape[1]):
            wrenches[b, i] = wp.spatial_vector()
        _clear_nonfinite(b, sensed)
        _clear_nonfinite(b, pushed)
        _clear_nonfinite(b, actuated)
        _clear_nonfinite(b, passive)
        _clear_nonfinite(b, constrained)
    else:
        steps[b] = steps[b] + 1
    time[b] = wp.float32(wp.float64(steps[b]) * dt)


@wp.kernel(enable_backward=False)
def restart(
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
    """Restart the step count of the envs in ``mask`` after a forward pass of all; the others keep their warm start."""
    b = wp.tid()
    # the engine checks these in a step only
    if nefc[b] > njmax:
        overflow[b] = overflow[b] | wp.static(int(mjw.OverflowType.NEFC))
    if ncollision[0] > naconmax:
        overflow[b] = overflow[b] | wp.static(int(mjw.OverflowType.BROADPHASE))
    if nacon[0] > naconmax:
        overflow[b] = overflow[b] | wp.static(int(mjw.OverflowType.NARROWPHASE))
    _move_overflow(b, overflow, news, status)
    if mask[b]:
        held[b] = 0
        steps[b] = wp.where(fresh, 0, int(wp.rint(wp.float64(time[b]) / dt)))
    else:
        for i in range(warmstart.shape[1]):
            warmstart[b, i] = saved[b, i]


@wp.kernel(enable_backward=False)
def copy_row(
    mask: wp.array(dtype=bool),
    values: wp.array2d(dtype=float),
    row: int,
    field: wp.array2d(dtype=float),
):
    """Copy one row of values into the envs in ``mask``."""
    b, i = wp.tid()
    if mask[b]:
        field[b, i] = values[row, i]


@wp.kernel(enable_backward=False)
def show_substep(
    is_acc: wp.array(dtype=bool),
    now: wp.array2d(dtype=float),
    kept: wp.array2d(dtype=float),
    shown: wp.array2d(dtype=float),
):
    """Put the data of one substep together, and keep that of the next."""
    i, b = wp.tid()
    value = now[i, b]
    shown[i, b] = wp.where(is_acc[i], kept[i, b], value)
    kept[i, b] = value
