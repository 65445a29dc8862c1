"""Which outputs of the CPU engine the position and velocity stages compute, and which of them depend on contacts.

A step ends with these stages at the new state. Collision detection and constraints are most of their cost, and nothing
that they compute is read: the next ``mj_step`` computes them again. ``MujocoWorld`` disables them for this pass, unless
the model or a bound field needs them. The values of all other outputs have the same bits with and without them.
"""

from __future__ import annotations

import mujoco
import numpy as np

CONSTRAINTS = int(mujoco.mjtDisableBit.mjDSBL_CONTACT) | int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
"""Bits of ``opt.disableflags`` that skip collision detection and constraints."""
COUNTS = frozenset({"ncon", "ne", "nf", "nl", "nefc", "nJ", "nA", "nisland", "nidof"})
"""Fields of ``MjData`` that count contacts and constraints."""
ACCELERATION_FIELDS = frozenset(
    {
        *("qacc", "qacc_smooth", "qfrc_smooth", "qfrc_constraint", "qfrc_inverse", "qfrc_actuator", "qfrc_adhesion"),
        *("actuator_force", "act_dot", "cacc", "cfrc_int", "cfrc_ext", "qDeriv", "qLU", "qH", "qHDiagInv"),
        *("solver_niter", "solver_nnz", "solver_fwdinv"),
    }
)
"""Fields of ``MjData`` that the acceleration stage and the integrator compute."""
_LIMIT_SENSORS = [
    int(getattr(mujoco.mjtSensor, f"mjSENS_{name}"))
    for name in ("JOINTLIMITPOS", "JOINTLIMITVEL", "TENDONLIMITPOS", "TENDONLIMITVEL", "USER", "PLUGIN")
]


def needs_constraints(model: mujoco.MjModel) -> bool:
    """Return whether positions or velocities of this model depend on contacts or constraints.

    Adhesion actuators act on contacts, limit sensors read constraints, and plugins, callbacks and flexes may use both.
    """
    adhesion = model.actuator_trntype == int(mujoco.mjtTrn.mjTRN_BODY)
    limits = np.isin(model.sensor_type, _LIMIT_SENSORS)
    return bool(adhesion.any() or limits.any() or model.nflex or model.nplugin or model.nhistory)


def acceleration_columns(model: mujoco.MjModel) -> list[slice]:
    """Return the parts of ``sensordata`` that the acceleration stage computes."""
    parts: list[slice] = []
    for sensor in np.flatnonzero(model.sensor_needstage == int(mujoco.mjtStage.mjSTAGE_ACC)):
        first = int(model.sensor_adr[sensor])
        last = first + int(model.sensor_dim[sensor])
        if parts and parts[-1].stop == first:
            parts[-1] = slice(parts[-1].start, last)
        else:
            parts.append(slice(first, last))
    return parts


def input_columns(model: mujoco.MjModel) -> slice:
    """Return the columns of the state that hold inputs, such as controls and applied forces."""
    lasting = mujoco.mjtState.mjSTATE_PHYSICS | mujoco.mjtState.mjSTATE_TIME | mujoco.mjtState.mjSTATE_WARMSTART
    first = mujoco.mj_stateSize(model, int(lasting))
    return slice(first, first + mujoco.mj_stateSize(model, int(mujoco.mjtState.mjSTATE_USER)))


def writeable(output: np.ndarray) -> np.ndarray:
    """Return a view of a bound output that can be written, although the engine marks it as read-only."""
    view = output.view()
    view.flags.writeable = True
    return view
