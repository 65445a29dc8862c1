"""``LinearActions``: controls of actuators as linear functions of a robot's action."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sensorium.errors import ModelError
from sensorium.robots.robot_options import Action
from sensorium.worlds import World


class LinearActions:
    """The actuators that actions drive, and the gains between them.

    Args:
        world: the running engine.
        prefix: name of the robot in its scene.
        actions: at least one.
    """

    def __init__(self, world: World, prefix: str, actions: Sequence[Action]) -> None:
        driven = list(dict.fromkeys(name for action in actions for name in action.actuators))
        actuators = [world.model.actuator(number).name for number in range(world.model.nu)]
        lost = [name for name in driven if f"{prefix}/{name}" not in actuators]
        if lost:  # MuJoCo 4.0 drops them when it attaches the model
            raise ModelError(f"the actuator {lost[0]!r} of {prefix!r} drives a joint that does not exist")
        columns = [actuators.index(f"{prefix}/{name}") for name in driven]
        self._ctrl = world.bind("ctrl")
        self._columns: slice | torch.Tensor = torch.tensor(columns, device=world.device)
        if columns == list(range(columns[0], columns[0] + len(columns))):
            self._columns = slice(columns[0], columns[0] + len(columns))  # faster to write than an index
        self._gains = torch.tensor(
            [[action.actuators.get(name, 0.0) for name in driven] for action in actions],
            dtype=self._ctrl.dtype,
            device=world.device,
        )
        limits = torch.tensor([action.limits for action in actions], device=world.device)
        self._min, self._max = limits.T.contiguous()

    def apply(self, command: torch.Tensor, index: torch.Tensor | None) -> torch.Tensor:
        """Write the controls of an action.

        Args:
            command: (n envs, n_actions).
            index: ids of the envs; None for all.

        Returns:
            The action, clipped to its limits.
        """
        command = torch.clamp(command, self._min, self._max)
        control = command[:, :1] * self._gains[0]
        for number in range(1, command.shape[1]):  # term by term: the rounding of a matrix product depends on B
            control = control + command[:, number : number + 1] * self._gains[number]
        if index is None:
            self._ctrl[:, self._columns] = control
        else:
            ctrl = self._ctrl[index]
            ctrl[:, self._columns] = control
            self._ctrl[index] = ctrl
        return command
