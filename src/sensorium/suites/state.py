"""Observations of the true simulation state: the robot, and all other entities of the scene."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from sensorium._arguments import checked
from sensorium.suites.observation import ArraySensor
from sensorium.suites.protocols import MoveGroupLike, RobotLike
from sensorium.worlds import Scene


class BodyStates:
    """Poses and velocities of some links, gathered by one kernel call; on a GPU by torch.

    Args:
        scene: a built scene.
        bodies: ids of the links.
    """

    @checked
    def __init__(self, scene: Scene, bodies: Sequence[int]) -> None:
        world, model = scene.world, scene.model
        self._bodies = np.asarray(bodies, np.intp)
        self._roots = model.body_rootid[self._bodies]
        self._fields = [world.bind(field) for field in ("xpos", "xquat", "cvel", "subtree_com")]
        self._is_gpu = world.is_gpu
        self._arrays = [] if world.is_gpu else [field.numpy() for field in self._fields]
        self._out = np.empty((world.n_envs, len(self._bodies), 13), np.float32)

    def read(self) -> np.ndarray:
        """Return (B, n, 13) float32 in the world frame: pose (7), linear m/s (3) and angular velocity rad/s (3).

        The array is overwritten by the next call. On a GPU it is a copy, for which the call waits.
        """
        if self._is_gpu:
            return self.gather().numpy(force=True)
        from sensorium.suites import body_state_kernels

        body_state_kernels.gather(*self._arrays, self._bodies, self._roots, self._out)
        return self._out

    def gather(self) -> torch.Tensor:
        """Return what :meth:`read` returns, as a tensor on the device of the scene."""
        xpos, xquat, cvel, com = self._fields
        position, velocity = xpos[:, self._bodies], cvel[:, self._bodies]
        turn = velocity[..., :3]
        slide = velocity[..., 3:] + torch.linalg.cross(turn, position - com[:, self._roots])
        return torch.cat((position, xquat[:, self._bodies], slide, turn), dim=2).float()


@checked
def env_states(scene: Scene) -> ArraySensor:
    """Return the sensor ``env_states``: the state of every actor and every articulation, by name.

    It reads ``{"actors": {name: (13,)}, "articulations": {name: (2 n,)}}``. An actor's state is the pose of its root
    link in the world frame with its linear and angular velocity. An articulation's state is its joint positions
    followed by its joint velocities.

    On a GPU the state of all envs is copied to the host at once; reading waits for it.

    Args:
        scene: a built scene.
    """
    actors = {name: entity for name, entity in scene.entities.items() if entity._root is not None}
    states = BodyStates(scene, [entity._body for entity in actors.values()])
    jointed = {name: entity for name, entity in scene.entities.items() if len(entity.joint_names)}
    columns = {name: tuple(each.numpy(force=True) for each in (one._qpos, one._dofs)) for name, one in jointed.items()}
    is_gpu, qpos, qvel = scene.world.is_gpu, scene.world.bind("qpos"), scene.world.bind("qvel")
    joints = [] if is_gpu else [qpos.numpy(), qvel.numpy()]  # share their memory

    def read() -> dict[str, Any]:
        rows, q, v = _to_host(states.gather(), qpos, qvel) if is_gpu else (states.read(), *joints)
        return {
            "actors": {name: rows[:, number] for number, name in enumerate(actors)},
            "articulations": {
                name: np.concatenate([q[:, addresses], v[:, dofs]], axis=1)
                for name, (addresses, dofs) in columns.items()
            },
        }

    shape = {
        "actors": dict.fromkeys(actors, (13,)),
        "articulations": {name: (2 * len(addresses),) for name, (addresses, _) in columns.items()},
    }
    return ArraySensor("env_states", read, shape)


def _to_host(*tensors: torch.Tensor) -> list[np.ndarray]:
    """Return float32 tensors (B, ...) as arrays, by one copy."""
    flat = torch.cat([tensor.flatten(1) for tensor in tensors], dim=1).numpy(force=True)
    ends = np.cumsum([tensor[0].numel() for tensor in tensors])
    return [part.reshape(tensor.shape) for part, tensor in zip(np.split(flat, ends[:-1], axis=1), tensors, strict=True)]


@checked
def robot_state(robot: RobotLike) -> list[ArraySensor]:
    """Return the sensors ``qpos``, ``qvel`` and ``robot_base_pose`` of a robot.

    ``qpos`` (rad or m) and ``qvel`` (rad/s or m/s) are dicts by move group. ``robot_base_pose`` (7,) is in the world
    frame.
    """
    groups = robot.groups
    sizes = {name: (len(group.description.joints),) for name, group in groups.items()}
    return [
        ArraySensor("qpos", lambda: {name: group.qpos for name, group in groups.items()}, sizes),
        ArraySensor("qvel", lambda: {name: group.qvel for name, group in groups.items()}, sizes),
        ArraySensor("robot_base_pose", robot.base_pose, (7,)),
    ]


@checked
def tcp_poses(robot: RobotLike) -> list[ArraySensor]:
    """Return the sensor ``tcp_pose`` (7,) in the frame of the robot's base.

    A robot with two arms has ``tcp_pose_left`` and ``tcp_pose_right`` instead.
    """
    arms = {name: group for name, group in robot.groups.items() if group.description.kind == "arm"}
    sensors = []
    for name, group in arms.items():
        side = "" if len(arms) == 1 else f"_{name.removesuffix('_arm')}"

        def read(group: MoveGroupLike = group) -> np.ndarray:
            return robot.in_base_frame(group.tcp_pose())

        sensors.append(ArraySensor(f"tcp_pose{side}", read, (7,)))
    return sensors
