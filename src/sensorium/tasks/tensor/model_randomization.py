"""What differs between the episodes of every tensor task: masses, friction and motors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import mujoco
import numpy as np
import torch

from sensorium.errors import OptionError
from sensorium.options import Options
from sensorium.tasks.tensor.columns import columns
from sensorium.tasks.tensor.memory import check_fits
from sensorium.tasks.tensor.ranges import FactorRange, PositiveRange, Range

if TYPE_CHECKING:
    from sensorium.tasks.tensor.hooks import TensorHooks

_WHY = {
    "payload": "the base of the robot cannot move; mass changes its other links",
    "friction": "no contact has the friction of the robot's geoms; give those that collide priority=1 in MJCF",
    "stiffness": "the robot has no servos with a position gain",
    "damping": "the robot has no servos with a velocity gain",
    "strength": "the robot has neither motors nor a maximum torque of its servos or joints",
    "mass": "no link of the robot can move",
    "object_mass": "no body besides the robot can move",
}
"""Why a range changes nothing, for messages."""
_COPIES = 2
"""Memory of a field that differs per env: its values, and those that a change starts from."""


class ModelRandomization(Options):
    """Ranges of what is drawn for the model at the start of each episode, one value for each env.

    A range that changes nothing, (1, 1), or (0, 0) for the payload, is not drawn. The critic observes the values.
    """

    payload: Range = (0.0, 0.0)
    """Mass that is added to the base of the robot, kg. The mass of that link must remain > 0."""
    friction: FactorRange = (1.0, 1.0)
    """Factor of the sliding friction of the robot's geoms. A contact has the friction of the geom with the higher
    priority, and else the greater one."""
    stiffness: FactorRange = (1.0, 1.0)
    """Factor of the position gain of the servos."""
    damping: FactorRange = (1.0, 1.0)
    """Factor of the velocity gain of the servos. The target velocity of velocity servos stays the same."""
    strength: FactorRange = (1.0, 1.0)
    """Factor of the maximum torque of servos and joints, and of the torque of motors."""
    mass: PositiveRange = (1.0, 1.0)
    """Factor of the masses and moments of inertia of the robot's links."""
    object_mass: PositiveRange = (1.0, 1.0)
    """Factor of the masses and moments of inertia of all other bodies that can move."""


class _Change(NamedTuple):
    """A change of columns of a field of the model: the model's value, times a drawn factor, plus a drawn value."""

    field: str
    ids: list[int]
    column: int | None = None
    """Which of the values of an id; None for all of them."""
    factor: str = ""
    """Name of the factor."""
    divides: bool = False
    """Whether the factor divides the value instead."""
    addend: str = ""
    """Name of the value that is added."""


class _Target(NamedTuple):
    """Where a change is written in the memory of the physics, and what was there before the first episode."""

    change: _Change
    values: torch.Tensor
    place: tuple[slice | torch.Tensor | int, ...]
    nominal: torch.Tensor


class ModelRandomizer:
    """Draws ``randomize`` at the start of episodes and writes it into the fields of the model.

    The constants that MuJoCo derives from the masses of the robot for the scaling of constraints stay those of the
    model; those of objects are scaled with their mass.

    Args:
        task: the task, in a built scene.

    Raises:
        OptionError: a range was given of something that nothing in the scene has, or a payload can make the mass of the
            base <= 0.
    """

    option = "randomize"
    """The option of the task."""

    def __init__(self, task: TensorHooks[Any]) -> None:
        self._task, ranges = task, _checked(task.config.randomize)
        world, robot = task.scene.world, task.robot
        others = [f"{each.robot.name}/" for each in task.others]
        known = _changes(task.scene.model, f"{robot.name}/", robot.options.base, ranges.friction[1], others)
        names: list[str] = []
        for name in ModelRandomization.model_fields:
            if getattr(ranges, name) == _neutral(name) or (name == "object_mass" and not task.draws_shared):
                continue
            if any(name in (each.factor, each.addend) for each in known):
                names.append(name)
            elif getattr(ranges, name) != type(ranges).model_fields[name].default:
                raise OptionError(
                    f"randomize.{name} must be {_neutral(name)} for the task {task.name!r} with the robot "
                    f"{task.config.robot!r}, got {getattr(ranges, name)}: {_WHY[name]}"
                )
        if "payload" in names:
            assert robot.options.base is not None
            _check_payload(ranges, task.scene.model, f"{robot.name}/{robot.options.base}")
        limits = torch.tensor([getattr(ranges, name) for name in names], device=task.device).reshape(-1, 2)
        self._low, self._span = limits[:, 0], limits[:, 1] - limits[:, 0]
        self._drawn = torch.zeros(task.n_envs, len(names), device=task.device)
        self._by_name = {name: self._drawn[:, column : column + 1] for column, name in enumerate(names)}
        changes = [each for each in known if each.factor in names or each.addend in names]
        n_bytes = sum(np.asarray(getattr(task.scene.model, each.field)).nbytes for each in changes)
        check_fits(task.scene, "the fields of the model that randomize changes", _COPIES * n_bytes)
        self._targets = []
        for change in changes:
            values = world.expand(change.field)
            ids = slice(None), columns(change.ids, task.device)
            place = ids if change.column is None else (*ids, change.column)
            self._targets.append(_Target(change, values, place, values[place].clone()))

    def begin_episodes(self, mask: torch.Tensor) -> None:
        """Draw the values of new episodes, in the envs of a mask (B,) bool, and write them into the model."""
        if not self._targets:
            return
        # one draw for all: each draw is about ten kernels on a GPU
        new = self._low + self._span * self._task.draws.uniform("model", len(self._by_name))
        self._drawn.copy_(torch.where(mask[:, None], new, self._drawn))
        for change, values, place, nominal in self._targets:
            new = nominal
            if change.factor in self._by_name:
                factor = self._shaped(change.factor, nominal)
                new = new / factor if change.divides else new * factor
            if change.addend in self._by_name:
                new = new + self._shaped(change.addend, nominal)
            here = mask.reshape(-1, *[1] * (nominal.dim() - 1))
            values[place] = torch.where(here, new, values[place])

    def _shaped(self, name: str, like: torch.Tensor) -> torch.Tensor:
        """Return drawn values (B, 1, ...) with the type and the dimensions of a field."""
        return self._by_name[name].to(like.dtype).reshape(-1, *[1] * (like.dim() - 1))

    def observe(self) -> dict[str, torch.Tensor]:
        """Return the drawn values of the running episodes, (B, 1) each, for the critic."""
        return self._by_name


def inertia_options(ranges: ModelRandomization) -> dict[str, bool]:
    """Return the options of a scene in which masses can differ between envs, if they do: no simple bodies."""
    varies = any(getattr(_checked(ranges), name) != _neutral(name) for name in ("payload", "mass", "object_mass"))
    return {"simple_bodies": False} if varies else {}


def _neutral(name: str) -> tuple[float, float]:
    """Return the range that changes nothing."""
    return (0.0, 0.0) if name == "payload" else (1.0, 1.0)


def _checked(ranges: object) -> ModelRandomization:
    """Return the option ``randomize`` of a task if it has the right class."""
    if not isinstance(ranges, ModelRandomization):
        raise OptionError(
            "the option randomize of a tensor task must be a sn.tasks.tensor.ModelRandomization, or of a class derived "
            f"from it, got {ranges!r:.80}"
        )
    return ranges


def _changes(
    model: mujoco.MjModel, prefix: str, base: str | None, friction: float, other_robots: Sequence[str]
) -> list[_Change]:
    """Return what can be changed in a scene.

    Args:
        model: the model of the scene.
        prefix: the prefix of the names of the robot.
        base: link of the robot that carries a payload.
        friction: maximum factor of friction.
        other_robots: prefixes of the names of other robots, which are no objects.
    """
    bodies = np.arange(model.nbody)
    of_bodies = [model.body(each).name for each in bodies]
    own = np.array([name.startswith(prefix) for name in of_bodies])
    foreign = np.array([name.startswith(tuple(other_robots)) for name in of_bodies])
    moving = (model.body_weldid != 0) & (model.body_mocapid < 0)
    root = -1 if base is None else int(model.body(prefix + base).id)
    links, objects = bodies[own & moving], bodies[~own & ~foreign & moving]
    geoms = _rubbing(model, own, friction)
    mine = np.array([model.actuator(each).name.startswith(prefix) for each in range(model.nu)], dtype=bool)
    gain, bias = model.actuator_gainprm, model.actuator_biasprm
    linear = mine & (model.actuator_gaintype == mujoco.mjtGain.mjGAIN_FIXED) & (gain[:, 0] != 0)
    affine = linear & (model.actuator_biastype == mujoco.mjtBias.mjBIAS_AFFINE)
    servos, speeds = affine & (bias[:, 1] != 0), affine & (bias[:, 1] == 0) & (bias[:, 2] != 0)
    motors = linear & (model.actuator_biastype == mujoco.mjtBias.mjBIAS_NONE)
    joints, tendons = _limited(model, mine)
    dofs = np.flatnonzero(np.isin(model.dof_bodyid, objects))
    payload = [root] if root >= 0 and moving[root] else []
    others = links[links != root]
    changes = [
        _change("body_mass", payload, factor="mass", addend="payload"),
        _change("body_mass", others, factor="mass"),
        _change("body_subtreemass", payload, factor="mass", addend="payload"),
        _change("body_subtreemass", others, factor="mass"),
        _change("body_inertia", links, factor="mass"),
        _change("geom_friction", geoms, 0, factor="friction"),
        _change("actuator_gainprm", np.flatnonzero(servos), 0, factor="stiffness"),
        _change("actuator_biasprm", np.flatnonzero(servos), 1, factor="stiffness"),
        _change("actuator_biasprm", np.flatnonzero((servos | speeds) & (bias[:, 2] != 0)), 2, factor="damping"),
        _change("actuator_gainprm", np.flatnonzero(speeds), 0, factor="damping"),
        _change("actuator_gainprm", np.flatnonzero(motors), 0, factor="strength"),
        _change("actuator_forcerange", np.flatnonzero(mine & (model.actuator_forcelimited != 0)), factor="strength"),
        _change("jnt_actfrcrange", joints, factor="strength"),
        _change("tendon_actfrcrange", tendons, factor="strength"),
        _change("body_mass", objects, factor="object_mass"),
        _change("body_subtreemass", objects, factor="object_mass"),
        _change("body_inertia", objects, factor="object_mass"),
        _change("body_invweight0", objects, factor="object_mass", divides=True),
        _change("dof_invweight0", dofs, factor="object_mass", divides=True),
    ]
    return [each for each in changes if each.ids]


def _rubbing(model: mujoco.MjModel, own: np.ndarray, factor: float) -> np.ndarray:
    """Return the geoms of a robot whose friction acts in some contact if it is multiplied by a factor."""
    of_robot, types, affinities = own[model.geom_bodyid], model.geom_contype, model.geom_conaffinity
    mine, others = np.flatnonzero(of_robot), np.flatnonzero(~of_robot)
    collides = (types[mine, None] & affinities[others]) | (affinities[mine, None] & types[others]) != 0
    rank, friction = model.geom_priority, model.geom_friction[:, 0]
    rubs_more = (factor * friction)[mine, None] > friction[others]
    wins = (rank[mine, None] > rank[others]) | ((rank[mine, None] == rank[others]) & rubs_more)
    found: np.ndarray = mine[(collides & wins).any(axis=1)]
    return found


def _limited(model: mujoco.MjModel, actuators: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the joints and the tendons that these actuators, a mask, drive and whose total torque is limited."""
    targets, types = model.actuator_trnid[:, 0], model.actuator_trntype
    kinds = mujoco.mjtTrn
    of_joints = actuators & np.isin(types, (kinds.mjTRN_JOINT, kinds.mjTRN_JOINTINPARENT))
    joints = np.intersect1d(targets[of_joints], np.flatnonzero(model.jnt_actfrclimited))
    of_tendons = actuators & (types == kinds.mjTRN_TENDON)
    return joints, np.intersect1d(targets[of_tendons], np.flatnonzero(model.tendon_actfrclimited))


def _change(
    field: str,
    ids: Sequence[int] | np.ndarray,
    column: int | None = None,
    factor: str = "",
    divides: bool = False,
    addend: str = "",
) -> _Change:
    return _Change(field, [int(each) for each in ids], column, factor, divides, addend)


def _check_payload(ranges: ModelRandomization, model: mujoco.MjModel, base: str) -> None:
    """Raise an error if a payload can make the mass of the base <= 0."""
    (low, high), least = ranges.payload, ranges.mass[0]
    mass = float(model.body(base).mass[0])
    if low < 0 and low <= -mass * least * (1 - 1e-6):  # values are drawn as float32
        link = base.rpartition("/")[2]
        factor = f", times randomize.mass, from {least:g}" if least != 1 else ""
        default = ", the default" if ranges.payload == type(ranges).model_fields["payload"].default else ""
        raise OptionError(
            f"randomize.payload must be > {-mass * least:g} kg, since the link {link!r} has a mass of {mass:g} kg"
            f"{factor}; got ({low:g}, {high:g}){default}: raise the lower bound"
        )
