"""Sliders that move the joints and command the actuators of the env that is shown."""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import numpy as np
import viser

from sensorium.viewer.control import Control
from sensorium.worlds import Scene

_MAX_SLIDERS = 60
"""Maximum number of sliders in each folder."""
_STEPS = 500
"""Positions of a slider."""
_TURN, _SLIDE = np.pi, 1.0
"""Range to both sides of joints without limits, rad and m."""


class _Slide(NamedTuple):
    """One slider: its element, and the joint or actuator that it stands for."""

    number: int
    element: viser.GuiInputHandle


class Sliders:
    """Two folders of the panel, "Joints" and "Actuators". Changes by the user become requests to ``control``.

    Args:
        gui: the panel of a viser server.
        scene: the scene.
        control: receives the requests "joint N" and "actuator N".
    """

    def __init__(self, gui: viser.GuiApi, scene: Scene, control: Control) -> None:
        self._scene, self._control = scene, control
        model = scene.model
        kinds = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
        joints = [i for i in range(model.njnt) if model.jnt_type[i] in kinds][:_MAX_SLIDERS]
        self._joints: list[_Slide] = []
        if joints:
            with gui.add_folder("Joints", expand_by_default=False):
                self._joints = [self._add(gui, "joint", i, model.joint(i).name, _joint_range(model, i)) for i in joints]
        if model.nu:
            with gui.add_folder("Actuators"):
                for i in range(min(model.nu, _MAX_SLIDERS)):
                    self._add(gui, "actuator", i, model.actuator(i).name, _control_range(model, i))

    def _add(self, gui: viser.GuiApi, kind: str, number: int, name: str, limits: tuple[float, float]) -> _Slide:
        low, high = limits
        start = float(np.clip(0.0, low, high))
        label = name.rsplit("/", 1)[-1] or f"{kind} {number}"
        element = gui.add_slider(label, min=low, max=high, step=(high - low) / _STEPS, initial_value=start)

        def ask(event: viser.GuiEvent) -> None:
            if event.client is not None:  # moved by the user, not by the program
                self._control.ask(f"{kind} {number}", float(event.target.value))

        element.on_update(ask)
        return _Slide(number, element)

    def apply(self, what: str, value: float, env: int) -> None:
        """Act on a request, in the thread that steps.

        Args:
            what: "joint N" or "actuator N".
            value: position in rad or m, or the command.
            env: the env.
        """
        kind, number = what.split()
        world, index = self._scene.world, int(number)
        if kind == "actuator":
            world.bind("ctrl")[env, index] = value
            return
        model = self._scene.model
        world.bind("qpos")[env, int(model.jnt_qposadr[index])] = value
        world.bind("qvel")[env, int(model.jnt_dofadr[index])] = 0.0
        self._scene.forward([env])

    def update(self, data: mujoco.MjData) -> None:
        """Move the sliders of joints to the current positions."""
        model = self._scene.model
        for number, element in self._joints:
            value = float(np.clip(data.qpos[model.jnt_qposadr[number]], element.min, element.max))
            if abs(value - element.value) > (element.max - element.min) / _STEPS:
                element.value = value


def _joint_range(model: mujoco.MjModel, joint: int) -> tuple[float, float]:
    if model.jnt_limited[joint]:
        low, high = (float(each) for each in model.jnt_range[joint])
        return low, high
    size = _TURN if model.jnt_type[joint] == int(mujoco.mjtJoint.mjJNT_HINGE) else _SLIDE
    return -size, size


def _control_range(model: mujoco.MjModel, actuator: int) -> tuple[float, float]:
    """Return the range of a command: its limits, those of the joint for a position actuator, or -1 to 1."""
    if model.actuator_ctrllimited[actuator]:
        low, high = (float(each) for each in model.actuator_ctrlrange[actuator])
        return low, high
    is_joint = model.actuator_trntype[actuator] == int(mujoco.mjtTrn.mjTRN_JOINT)
    is_position = model.actuator_biastype[actuator] == int(mujoco.mjtBias.mjBIAS_AFFINE)
    if is_joint and is_position and model.actuator_biasprm[actuator, 1] != 0:
        return _joint_range(model, int(model.actuator_trnid[actuator, 0]))
    return -1.0, 1.0
