"""Observations of the world's state: robots, and everything else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sensorium.errors import OptionError
from sensorium.suites.observation import ArraySensor
from sensorium.worlds import Scene


class BodyStates:
    """Poses and velocities of some links, gathered at once.

    Args:
        scene: a scene that was built, on the CPU.
        bodies: ids of the links.
    """

    def __init__(self, scene: Scene, bodies: Sequence[int]) -> None:
        world, model = scene.world, scene.model
        if world.is_gpu:
            raise OptionError(f"observations of the state need the CPU engine; this scene runs on {world.device}")
        self._bodies = np.asarray(bodies, np.intp)
        self._roots = model.body_rootid[self._bodies]
        self._xpos, self._xquat, self._cvel, self._com = (
            world.bind(field).numpy() for field in ("xpos", "xquat", "cvel", "subtree_com")
        )
        self._out = np.empty((world.n_envs, len(self._bodies), 13), np.float32)

    def read(self) -> np.ndarray:
        """(B, n, 13) float32 in the world frame: pose (7), linear velocity m/s (3), angular velocity rad/s (3)."""
        from sensorium.suites import state_kernels

        fields = self._xpos, self._xquat, self._cvel, self._com
        state_kernels.gather(*fields, self._bodies, self._roots, self._out)
        return self._out


def env_states(scene: Scene) -> ArraySensor:
    """``env_states``: every actor's pose and velocity, and every articulation's joints, each by its own name.

    ``{"actors": {name: (13,)}, "articulations": {name: (2 n,)}}``: the pose of the root link in the world frame with
    linear and angular velocity, and joint positions followed by joint velocities.
    """
    actors = {name: entity for name, entity in scene.entities.items() if entity._root is not None}
    states = BodyStates(scene, [entity._body for entity in actors.values()])
    jointed = {name: entity for name, entity in scene.entities.items() if len(entity.joint_names)}
    columns = {name: (entity._qpos.numpy(), entity._dofs.numpy()) for name, entity in jointed.items()}
    qpos, qvel = (scene.world.bind(field).numpy() for field in ("qpos", "qvel"))

    def read() -> dict[str, Any]:
        rows = states.read()
        return {
            "actors": {name: rows[:, number] for number, name in enumerate(actors)},
            "articulations": {
                name: np.concatenate([qpos[:, places], qvel[:, dofs]], axis=1)
                for name, (places, dofs) in columns.items()
            },
        }

    shape = {
        "actors": dict.fromkeys(actors, (13,)),
        "articulations": {name: (2 * len(places),) for name, (places, _) in columns.items()},
    }
    return ArraySensor("env_states", read, shape)


def robot_state(robot: Any) -> list[ArraySensor]:
    """``qpos`` and ``qvel`` by move group, rad or m and per second, and ``robot_base_pose`` (7,) in the world frame."""
    groups = robot.groups
    sizes = {name: (len(group.description.joints),) for name, group in groups.items()}
    return [
        ArraySensor("qpos", lambda: {name: group.qpos for name, group in groups.items()}, sizes),
        ArraySensor("qvel", lambda: {name: group.qvel for name, group in groups.items()}, sizes),
        ArraySensor("robot_base_pose", robot.base_pose, (7,)),
    ]


def tcp_poses(robot: Any) -> list[ArraySensor]:
    """``tcp_pose`` (7,) in the frame of the robot's base; ``tcp_pose_left`` and ``_right`` where there are two arms."""
    arms = {name: group for name, group in robot.groups.items() if group.description.kind == "arm"}
    sensors = []
    for name, group in arms.items():
        side = "" if len(arms) == 1 else f"_{name.removesuffix('_arm')}"

        def read(group: Any = group) -> np.ndarray:
            return robot.in_base_frame(group.tcp_pose())  # type: ignore[no-any-return]

        sensors.append(ArraySensor(f"tcp_pose{side}", read, (7,)))
    return sensors
