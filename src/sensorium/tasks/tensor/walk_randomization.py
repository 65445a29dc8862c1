"""What differs between episodes of ``walk``: masses, friction, motors, and pushes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from pydantic import Field

from sensorium.errors import OptionError
from sensorium.options import Options
from sensorium.tasks.tensor.columns import columns
from sensorium.tasks.tensor.config import FactorRange, Range

if TYPE_CHECKING:
    from sensorium.tasks.tensor.walk import Walk


class WalkRandomization(Options):
    """Ranges of what is drawn at the start of each episode of ``walk``."""

    joints: float = Field(default=0.1, ge=0)
    """Maximum offset of the joints at the start, rad."""
    speed: float = Field(default=0.3, ge=0)
    """Maximum velocity of the torso at the start, m/s and rad/s."""
    payload: Range = (-1.0, 2.0)
    """Mass that is added to the torso, kg. The mass of the torso must remain > 0."""
    friction: FactorRange = (0.5, 1.25)
    """Factor of the sliding friction of the robot's geoms."""
    stiffness: FactorRange = (0.9, 1.1)
    """Factor of the position gain of the servos."""
    damping: FactorRange = (0.9, 1.1)
    """Factor of the velocity gain of the servos."""
    strength: FactorRange = (0.9, 1.1)
    """Factor of the maximum torque of the servos."""
    push: float = Field(default=0.5, ge=0)
    """Maximum change of the horizontal velocity by a push, m/s."""
    push_time: float = Field(default=4.0, gt=0)
    """Seconds between pushes."""


class WalkRandomizer:
    """Writes the randomised fields of the model, and pushes the robot.

    The constants that MuJoCo derives from masses for the scaling of constraints stay those of the model.

    Args:
        task: the task, in a built scene.
        base: id of the torso.
        actuators: ids of the servos.

    Raises:
        OptionError: the range of the payload makes the mass of the torso <= 0.
    """

    def __init__(self, task: Walk, base: int, actuators: list[int]) -> None:
        self._task, self._ranges = task, task.config.randomize
        world, model = task.scene.world, task.scene.model
        self._qvel, self._v = world.bind("qvel"), int(model.jnt_dofadr[model.body_jntadr[base]])
        self._push_steps = max(1, round(self._ranges.push_time / task.config.dt))
        tree = [body for body in range(model.nbody) if model.body_rootid[body] == model.body_rootid[base]]
        geoms = [geom for geom in range(model.ngeom) if model.geom_bodyid[geom] in tree]
        servos = columns(actuators, task.device)
        # name of the draw, field, index of the columns, whether the draw is added instead of a factor
        table = [
            ("payload", "body_mass", (slice(None), columns([base], task.device)), True),
            ("friction", "geom_friction", (slice(None), columns(geoms, task.device), 0), False),
            ("stiffness", "actuator_gainprm", (slice(None), servos, 0), False),
            ("stiffness", "actuator_biasprm", (slice(None), servos, 1), False),
            ("damping", "actuator_biasprm", (slice(None), servos, 2), False),
            ("strength", "actuator_forcerange", (slice(None), servos), False),
        ]
        self._rows = []
        names: list[str] = []
        for name, field, index, added in table:
            low, high = getattr(self._ranges, name)
            if (low, high) == ((0.0, 0.0) if added else (1.0, 1.0)):
                continue
            if name == "payload":
                _check_payload(low, high, float(model.body_mass[base]), model.body(base).name.rpartition("/")[2])
            values = world.expand(field)
            self._rows.append((name, values, index, values[index].clone(), added))
            names += [name] if name not in names else []
        limits = torch.tensor([getattr(self._ranges, name) for name in names], device=task.device).reshape(-1, 2)
        self._low, self._span = limits[:, 0], limits[:, 1] - limits[:, 0]
        self._drawn = torch.zeros(task.n_envs, len(names), device=task.device)
        self._columns = {name: self._drawn[:, column : column + 1] for column, name in enumerate(names)}

    def begin_episodes(self, mask: torch.Tensor) -> None:
        """Draw the values of new episodes and write them into the model."""
        if not self._rows:
            return
        # one draw for all: each draw is about ten kernels on a GPU
        new = self._low + self._span * self._task.draws.uniform("model", len(self._columns))
        self._drawn.copy_(torch.where(mask[:, None], new, self._drawn))
        for name, values, index, nominal, added in self._rows:
            drawn = self._columns[name].to(values.dtype).reshape(-1, *[1] * (nominal.dim() - 1))
            here = mask.reshape(-1, *[1] * (nominal.dim() - 1))
            new = nominal + drawn if added else nominal * drawn
            values[index] = torch.where(here, new, values[index])

    def push(self) -> None:
        """Change the velocity of the torso in the envs whose push is due."""
        if not self._ranges.push:
            return
        steps, limit = self._task.step_count, self._ranges.push
        due = (steps % self._push_steps == 0) & (steps > 0)
        if not self._task.scene.world.is_gpu and not bool(due.any()):
            return
        change = self._task.draws.uniform("push", 2, -limit, limit, counter=steps // self._push_steps)
        change = change * self._task.difficulty[:, None]
        self._qvel[:, self._v : self._v + 2] += torch.where(due[:, None], change, 0.0)

    def observe(self) -> dict[str, torch.Tensor]:
        """Return the drawn values of the running episodes, for the critic."""
        return self._columns


def _check_payload(low: float, high: float, mass: float, link: str) -> None:
    """Raise an error if a payload can make the mass of a link <= 0."""
    if low <= -mass * (1 - 1e-6):  # values are drawn as float32
        raise OptionError(
            f"randomize.payload must be > {-mass:g} kg, since the link {link!r} has a mass of {mass:g} kg; "
            f"got ({low:g}, {high:g}): raise the lower bound"
        )
