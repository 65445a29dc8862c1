"""Commands of the actuators as JointState messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sensorium.ros import topics
from sensorium.ros.messages import Columns, Topic, Values, make_encoder
from sensorium.ros.sources import Collected

if TYPE_CHECKING:
    import mujoco

    from sensorium.worlds import Scene

POSITION, VELOCITY, EFFORT = "position", "velocity", "effort"


class CommandSource(Collected):
    """The commands of some actuators in one env."""

    def __init__(self, scene: Scene, actuators: list[int], env: int) -> None:
        super().__init__()
        self._ctrl, self._actuators, self._env = scene.world.bind("ctrl"), actuators, env

    def take(self, now: float, offset: float) -> None:
        """Collect the commands of the last step."""
        time = np.array([now + offset])
        self._keep({"": self._ctrl[self._env, self._actuators].double().numpy(force=True)[None]}, time, time)


def command_topics(scene: Scene, env: int, prefix: str) -> list[tuple[list[Topic], CommandSource]]:
    """Return the topics ``/command/position``, ``/command/velocity`` and ``/command/effort`` of a scene's actuators.

    Names are those of the joints that the actuators drive, or of the actuators where they drive something else.
    """
    found = []
    for kind, actuators in _by_kind(scene.world.model).items():
        names = [_name(scene.world.model, actuator) for actuator in actuators]
        constant: dict[str, Any] = {"name": len(names), kind: len(names)}
        constant |= {f"name.{i}": name for i, name in enumerate(names)}
        encoder = make_encoder(topics.JOINT_STATE, constant)
        topic = Topic(f"{prefix}/command/{kind}", topics.JOINT_STATE, encoder, _columns(kind))
        found.append(([topic], CommandSource(scene, actuators, env)))
    return found


def _columns(kind: str) -> Callable[[Values], Columns]:
    return lambda values: {kind: values[""]}


def _by_kind(model: mujoco.MjModel) -> dict[str, list[int]]:
    """Return what actuators control -> their ids: a position, a velocity or an effort."""
    found: dict[str, list[int]] = {}
    for i in range(model.nu):
        bias = model.actuator_biasprm[i]
        kind = POSITION if bias[1] < 0 else VELOCITY if bias[2] < 0 else EFFORT
        found.setdefault(kind, []).append(i)
    return found


def _name(model: mujoco.MjModel, actuator: int) -> str:
    joint = int(model.actuator_trnid[actuator, 0]) if model.actuator_trntype[actuator] in (0, 1) else -1
    name: str = model.joint(joint).name if joint >= 0 else model.actuator(actuator).name
    return name.split("/")[-1]
