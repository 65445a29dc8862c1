"""Commands of the actuators as JointState messages, in the units of the joints."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from sensorium.ros import topics
from sensorium.ros.messages import Columns, Topic, Values, make_encoder
from sensorium.ros.sources import Collected

if TYPE_CHECKING:
    from sensorium.worlds import Scene

POSITION, VELOCITY, EFFORT = "position", "velocity", "effort"


class CommandSource(Collected):
    """The commands of some actuators in one env, in the units of their joints."""

    def __init__(self, scene: Scene, actuators: list[int], env: int, scale: np.ndarray, offset: np.ndarray) -> None:
        super().__init__()
        self._ctrl, self._actuators, self._env = scene.world.bind("ctrl"), actuators, env
        self._scale, self._offset = scale, offset

    def take(self, now: float, offset: float) -> None:
        """Collect the commands of the last step."""
        time = np.array([now + offset])
        control = self._ctrl[self._env, self._actuators].double().numpy(force=True)
        self._keep({"": (self._scale * control + self._offset)[None]}, time, time)


def command_topics(scene: Scene, env: int, prefix: str) -> list[tuple[list[Topic], CommandSource]]:
    """Return the topics ``/command/position``, ``/command/velocity`` and ``/command/effort`` of a scene's actuators.

    Names are those of the joints that the actuators drive, or of the actuators where they drive something else.
    """
    found = []
    model = scene.world.model
    by_kind: dict[str, list[tuple[int, float, float]]] = {}
    for actuator in range(model.nu):
        kind, scale, offset = _meaning(model, actuator)
        by_kind.setdefault(kind, []).append((actuator, scale, offset))
    for kind, own in by_kind.items():
        actuators = [actuator for actuator, _, _ in own]
        scales, offsets = (np.array([each[k] for each in own]) for k in (1, 2))
        names = [_name(model, actuator) for actuator in actuators]
        constant: dict[str, Any] = {"name": len(names), kind: len(names)}
        constant |= {f"name.{i}": name for i, name in enumerate(names)}
        encoder = make_encoder(topics.JOINT_STATE, constant)
        topic = Topic(f"{prefix}/command/{kind}", topics.JOINT_STATE, encoder, _columns(kind))
        found.append(([topic], CommandSource(scene, actuators, env, scales, offsets)))
    return found


def _columns(kind: str) -> Callable[[Values], Columns]:
    return lambda values: {kind: values[""]}


def _meaning(model: mujoco.MjModel, actuator: int) -> tuple[str, float, float]:
    """Return what an actuator controls (a position, a velocity or an effort), and scale and offset from its control.

    The force of an actuator is ``gain * control + bias_0 + bias_1 * length + bias_2 * velocity``, with a length of
    gear times the position of the joint: a servo holds the position, or velocity, at which this is 0.
    """
    gain, gear = float(model.actuator_gainprm[actuator, 0]), float(model.actuator_gear[actuator, 0])
    is_affine = model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_AFFINE
    constant, length, velocity = model.actuator_biasprm[actuator, :3].tolist() if is_affine else (0.0, 0.0, 0.0)
    if not gear:
        return EFFORT, 1.0, 0.0
    if length < 0 and model.actuator_dyntype[actuator] == mujoco.mjtDyn.mjDYN_INTEGRATOR:  # "intvelocity"
        return VELOCITY, gain / -length / gear, 0.0
    if length < 0:
        return POSITION, gain / -length / gear, constant / -length / gear
    if velocity < 0:
        return VELOCITY, gain / -velocity / gear, constant / -velocity / gear
    return EFFORT, gain * gear, constant * gear


def _name(model: mujoco.MjModel, actuator: int) -> str:
    joint = int(model.actuator_trnid[actuator, 0]) if model.actuator_trntype[actuator] in (0, 1) else -1
    name: str = model.joint(joint).name if joint >= 0 else model.actuator(actuator).name
    return name.split("/")[-1]
