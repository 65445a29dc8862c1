"""``FreeLinkSensors``: engine sensors of links with a free joint, computed without the engine.

The engine computes an accelerometer from the accelerations of all bodies (``mj_rnePostConstraint``), a gyroscope from
the velocities of all bodies, and the net contact force of a link from all contacts. The free joint of a link has all
of them: ``qpos`` and ``qvel`` are pose and velocity of the link, ``qacc`` is its acceleration, and ``qfrc_constraint``
the sum of its contact forces, if only contacts constrain it. Of a link that can touch parallel planes only, such as the
ground, it also has the sum of the normal forces (``plane_contacts.py``). Values at a site follow by the kinematics of a
rigid body. They agree with the engine's to rounding. Encoders of joints are elements of ``qpos`` and ``qvel``.
Accelerations belong to the state before the last substep, of which orientation and angular velocity are kept.
``mj_step`` leaves ``qacc`` in ``qacc_warmstart``, a part of the state, where it is read: it costs no output (checked
with MuJoCo 4.0.0). ``mj_forward`` does not, so after a reset the engine computes all of its sensors.

:func:`free_link_sensors` selects the sensors by their link and by the physics, so that other sensors, the number of
envs and the number of threads do not change a bit of them. ``MujocoWorld`` returns to the engine's own sensors if a
field that they depend on differs per env.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

import mujoco
import numpy as np
from mujoco.batch import Batch

from sensorium.worlds import plane_contacts
from sensorium.worlds.current_stage import writeable

RNE_FIELDS = frozenset({"cacc", "cfrc_int", "cfrc_ext"})
"""Fields of ``MjData`` that the engine computes only if a sensor needs them, such as its accelerometer."""
_OF_FORCES = frozenset({"dof_frictionloss", "geom_adhesion", "pair_adhesion"})
_OF_ALL = frozenset({"opt.integrator", "opt.disableflags", "opt.enableflags", "site_pos", "site_quat", "sensor_cutoff"})
FIXED_FIELDS = _OF_FORCES | _OF_ALL | plane_contacts.FIXED
"""Fields of ``MjModel`` that must not differ per env for sensors of free links to be computed here."""

_TYPE, _OBJECT = mujoco.mjtSensor, mujoco.mjtObj
_ACCELEROMETER, _CONTACT = int(_TYPE.mjSENS_ACCELEROMETER), int(_TYPE.mjSENS_CONTACT)
_UP = int(_TYPE.mjSENS_FRAMEZAXIS)
_ENCODERS = [int(_TYPE.mjSENS_JOINTPOS), int(_TYPE.mjSENS_JOINTVEL)]
_MOTIONS = [int(_TYPE.mjSENS_GYRO), int(_TYPE.mjSENS_MAGNETOMETER), int(_TYPE.mjSENS_FRAMEQUAT), _UP]
"""Types of sensors, in the order of their numbers in the kernel."""
_FORCE = 1 << int(mujoco.mjtConDataField.mjCONDATA_FORCE)  # the contact sensor's data
_STRONGEST, _NET = 2, 3  # the contact sensor's "reduce": the strongest contacts, or all contacts as one


def free_link_sensors(model: mujoco.MjModel, exact_sensing: bool, expanded: Set[str] = frozenset()) -> np.ndarray:
    """Return the ids of the engine's sensors that :class:`FreeLinkSensors` can replace.

    Args:
        model: the model.
        exact_sensing: whether sensors of positions and velocities belong to the state after a step.
        expanded: model fields that differ per env.
    """
    option = model.opt
    if (
        option.integrator == int(mujoco.mjtIntegrator.mjINT_RK4)  # qacc is that of its last stage
        or option.disableflags & int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
        or option.enableflags & int(mujoco.mjtEnableBit.mjENBL_SLEEP)
        or model.nhistory
        or expanded & _OF_ALL
    ):
        return np.zeros(0, np.int32)
    at_sites = [_ACCELEROMETER, *(_MOTIONS if exact_sensing else ())]
    only_contacts = _has_only_contacts(model) and not expanded & _OF_FORCES
    only_planes = only_contacts and not expanded & plane_contacts.FIXED
    chosen = [
        sensor
        for sensor in np.flatnonzero(model.sensor_cutoff == 0).tolist()
        if (model.sensor_type[sensor] in at_sites and _is_at_free_link(model, sensor))
        or (only_contacts and _is_net_force(model, sensor))
        or (only_planes and _pressed_normal(model, sensor) is not None)
    ]
    if chosen and exact_sensing:  # other models do not need the kernels
        encoders = np.isin(model.sensor_type, _ENCODERS) & (model.sensor_cutoff == 0)
        chosen = sorted([*chosen, *np.flatnonzero(encoders).tolist()])
    return np.asarray(chosen, np.int32)


def _is_at_free_link(model: mujoco.MjModel, sensor: int) -> bool:
    """Return whether a sensor measures at a site of a free link, relative to the world."""
    if model.sensor_type[sensor] == _UP:
        return _is_up(model, sensor) and _is_free(model, int(model.site_bodyid[model.sensor_refid[sensor]]))
    if model.sensor_objtype[sensor] != _OBJECT.mjOBJ_SITE or model.sensor_refid[sensor] >= 0:
        return False
    return _is_free(model, int(model.site_bodyid[model.sensor_objid[sensor]]))


def _is_up(model: mujoco.MjModel, sensor: int) -> bool:
    """Return whether a sensor is the z axis of the world in the frame of a site."""
    of_world = int(model.sensor_objtype[sensor]) in (int(_OBJECT.mjOBJ_BODY), int(_OBJECT.mjOBJ_XBODY))
    is_at_site = model.sensor_reftype[sensor] == _OBJECT.mjOBJ_SITE
    return bool(of_world and model.sensor_objid[sensor] == 0 and is_at_site)


def _is_net_force(model: mujoco.MjModel, sensor: int) -> bool:
    """Return whether a sensor is the net force of all contacts of a free link without child links."""
    if model.sensor_type[sensor] != _CONTACT or model.sensor_objtype[sensor] != _OBJECT.mjOBJ_UNKNOWN:
        return False
    return list(model.sensor_intprm[sensor]) == [_FORCE, _NET, 1] and _is_of_lone_link(model, sensor)


def _pressed_normal(model: mujoco.MjModel, sensor: int) -> np.ndarray | None:
    """Return the direction of all normal forces, if a sensor is the strongest contacts of a free link on planes.

    The sensor must have room for all contacts. The result is a unit vector (3,) in the world frame.
    """
    if model.sensor_type[sensor] != _CONTACT or list(model.sensor_intprm[sensor, :2]) != [_FORCE, _STRONGEST]:
        return None
    of_body = model.sensor_objtype[sensor] == _OBJECT.mjOBJ_BODY
    if not (of_body or model.sensor_objtype[sensor] == _OBJECT.mjOBJ_UNKNOWN) or not _is_of_lone_link(model, sensor):
        return None
    target = int(model.sensor_objid[sensor]) if of_body else None
    most = int(model.sensor_intprm[sensor, 2])
    return plane_contacts.plane_normal(model, int(model.sensor_refid[sensor]), target, most)


def _is_of_lone_link(model: mujoco.MjModel, sensor: int) -> bool:
    """Return whether a contact sensor is that of a free link without child links and without friction in its joint."""
    if model.sensor_reftype[sensor] != _OBJECT.mjOBJ_BODY:
        return False
    link = int(model.sensor_refid[sensor])
    dofs = slice(model.body_dofadr[link], model.body_dofadr[link] + 6)
    return _is_free(model, link) and not (model.body_parentid == link).any() and not model.dof_frictionloss[dofs].any()


def _is_free(model: mujoco.MjModel, body: int) -> bool:
    joint = model.body_jntadr[body]
    return bool(model.body_jntnum[body] == 1 and model.jnt_type[joint] == int(mujoco.mjtJoint.mjJNT_FREE))


def _has_only_contacts(model: mujoco.MjModel) -> bool:
    """Return whether only contacts, and friction of its own joint, can constrain a free link."""
    adhesion = model.geom_adhesion.any() or model.pair_adhesion.any()
    attracts = model.actuator_trntype == int(mujoco.mjtTrn.mjTRN_BODY)
    return not (model.neq or model.ntendon or model.nflex or model.nplugin or adhesion or attracts.any())


class FreeLinkSensors:
    """Sensors of a batch that are computed from the state and ``qfrc_constraint``.

    Attributes:
        outputs: fields of ``MjData`` that they are computed from.
        needs_before: whether they depend on the state before the last substep.

    Args:
        batch: the engine. Its sensor data is written.
        model: its model.
        sensors: ids of the sensors, from :func:`free_link_sensors`.
    """

    def __init__(self, batch: Batch, model: mujoco.MjModel, sensors: np.ndarray) -> None:
        self._is_used = len(sensors) > 0
        if self._is_used:
            from sensorium.worlds import free_link_kernels  # imports Numba, which other scenes do not need

            self._kernels = free_link_kernels
        self._all = np.arange(batch.nsim, dtype=np.int32)
        types, columns = model.sensor_type[sensors], model.sensor_adr
        felt, contacts = sensors[types == _ACCELEROMETER], sensors[types == _CONTACT]
        is_net = model.sensor_intprm[contacts, 1] == _NET
        forces, pressed = contacts[is_net], contacts[~is_net]
        motions = sensors[np.isin(types, _MOTIONS)]
        self._sensors, self._accelerometers, self.needs_before = sensors, felt, len(felt) > 0
        joints, numbers = np.unique(_joints(model, felt), return_inverse=True)
        self._joints = _table(model.jnt_qposadr[joints], model.jnt_dofadr[joints])
        self._before = np.zeros((batch.nsim, len(joints), 7))
        self._felt = _table(numbers, self._joints[numbers, 1], columns[felt]), _mounts(model, felt)
        kinds = np.asarray([_MOTIONS.index(kind) for kind in model.sensor_type[motions]], np.int64)
        joints = _joints(model, motions)
        rotations = model.jnt_qposadr[joints] + 3, model.jnt_dofadr[joints] + 3  # after the translation
        self._moved = _table(kinds, *rotations, columns[motions]), _mounts(model, motions)
        encoders = [sensors[types == kind] for kind in _ENCODERS]
        addresses = model.jnt_qposadr, model.jnt_dofadr
        self._encoded = [
            _table(address[model.sensor_objid[kind]], columns[kind])
            for kind, address in zip(encoders, addresses, strict=True)
        ]
        self._loads = _table(model.body_dofadr[model.sensor_refid[forces]], columns[forces])
        dofs = model.body_dofadr[model.sensor_refid[pressed]]
        normals = [_pressed_normal(model, sensor) for sensor in pressed.tolist()]
        self._presses = _table(dofs, columns[pressed], model.sensor_dim[pressed])
        self._normals = np.asarray(normals, np.float64).reshape(-1, 3)
        self.outputs = frozenset({"qfrc_constraint"} if len(contacts) else ())
        qfrc = writeable(batch.bind("qfrc_constraint")) if len(contacts) else np.zeros((1, 1))
        qpos, qvel = batch.bind("qpos"), batch.bind("qvel")
        self._kept_arrays = qpos, qvel, self._joints, self._before
        self._arrays = self._before, qpos, qvel, batch.bind("qacc_warmstart"), qfrc
        self._data = writeable(batch.bind("sensordata"))
        has_weight = not model.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_GRAVITY)
        self._gravity = np.array([model.opt.gravity]) * has_weight
        self._has_weight = has_weight
        self._magnetic = np.array([model.opt.magnetic])

    def expand(self, field: str, values: np.ndarray) -> None:
        """Use the gravity or magnetic field of each env, (B, 3); other fields are ignored."""
        if field == "opt.gravity" and self._has_weight:
            self._gravity = values
        elif field == "opt.magnetic":
            self._magnetic = values

    def skipped(self, bound: Set[str]) -> np.ndarray:
        """Return the ids of the sensors that the engine does not need to compute, given the bound fields."""
        return np.setdiff1d(self._sensors, self._accelerometers) if bound & RNE_FIELDS else self._sensors

    def calls(self) -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
        """Return the kernels that are used, each with its arguments, for compiling them ahead."""
        if not self._is_used:
            return []
        kept = [(self._kernels.remember, self._kept_arrays)] if self.needs_before else []
        return [*kept, (self._kernels.sense, self._arguments(None))]

    def remember(self) -> None:
        """Keep what is needed of the current state. Call it before the substep that :meth:`fill` follows."""
        if self.needs_before:
            self._kernels.remember(*self._kept_arrays)

    def fill(self, ids: np.ndarray | None) -> None:
        """Write all sensors of the envs ``ids`` (None: all), after a substep."""
        if self._is_used:
            self._kernels.sense(*self._arguments(ids))

    def fill_motions(self, ids: np.ndarray | None) -> None:
        """Write the sensors of positions and velocities of the envs ``ids`` (None: all), at the current state."""
        if len(self._moved[0]) or any(map(len, self._encoded)):
            self._kernels.sense(*self._arguments(ids, motions_only=True))

    def _arguments(self, ids: np.ndarray | None, motions_only: bool = False) -> tuple[np.ndarray, ...]:
        (felt, mounts), loads, presses = self._felt, self._loads, self._presses
        if motions_only:
            felt, loads, presses = felt[:0], loads[:0], presses[:0]
        rows = self._all if ids is None else ids
        tables = felt, mounts, *self._moved, *self._encoded, loads, presses, self._normals
        return *tables, *self._arrays, self._gravity, self._magnetic, rows, self._data


def _sites(model: mujoco.MjModel, sensors: np.ndarray) -> np.ndarray:
    """Return the sites of sensors."""
    is_up = model.sensor_type[sensors] == _UP
    return np.where(is_up, model.sensor_refid[sensors], model.sensor_objid[sensors])


def _joints(model: mujoco.MjModel, sensors: np.ndarray) -> np.ndarray:
    """Return the free joints of the links of sensors at sites."""
    return np.asarray(model.body_jntadr[model.site_bodyid[_sites(model, sensors)]])


def _table(*columns: np.ndarray) -> np.ndarray:
    return np.stack(columns, axis=1).astype(np.int64)


def _mounts(model: mujoco.MjModel, sensors: np.ndarray) -> np.ndarray:
    """Return position, rotation matrix and quaternion of the sites of sensors in their links, (n, 16)."""
    mounts = np.zeros((len(sensors), 16))
    for mount, site in zip(mounts, _sites(model, sensors), strict=True):
        mount[:3], mount[12:] = model.site_pos[site], model.site_quat[site]
        mujoco.mju_quat2Mat(mount[3:12], model.site_quat[site])
    return mounts
