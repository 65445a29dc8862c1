"""PickAndPlace: put an object on a plate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import Field

from sensorium import poses
from sensorium.suites import ObservationSensor
from sensorium.tasks.table import HEIGHT, TableConfig, TableTask
from sensorium.worlds import Cylinder, Scene

PLATE = "plate"
"""Name of the plate in the scene."""
_RADIUS, _THICKNESS = 0.09, 0.012
_MAX_HEIGHT_ERROR = 0.03
"""Maximum height of the object above or below its pose on the plate, m."""


class PickAndPlaceConfig(TableConfig):
    """Options of :class:`PickAndPlace`."""

    n_objects: int = Field(default=2, ge=1)
    """Number of objects that are present besides the plate."""
    max_steps: int = Field(default=800, ge=1)
    """Steps after which an episode is truncated."""
    rest_steps: int = Field(default=10, ge=1)
    """For how many consecutive steps the target must lie on the plate without being touched by a finger."""


class PickAndPlace(TableTask[PickAndPlaceConfig]):
    """Put the target on the plate and release it.

    Example:
        >>> task = sn.tasks.make("pick_and_place", robot="franka", n_envs=4)
    """

    name = "pick_and_place"
    config_type = PickAndPlaceConfig
    roles = ("pickup_obj", "place_receptacle")

    def add_scene(self, scene: Scene) -> None:
        super().add_scene(scene)
        shape = Cylinder(radius=_RADIUS, height=_THICKNESS, mass=0.6, rgba=(0.85, 0.87, 0.95, 1.0))
        scene.add_object(shape, name=PLATE, pos=(-3, -0.5, _THICKNESS / 2), free=True)

    def grippable(self) -> list[str]:
        return [*super().grippable(), PLATE]

    def on_build(self) -> None:
        super().on_build()
        self._plate = int(self.scene.model.body(PLATE).id)
        self._rest_steps = np.zeros(self.n_envs, np.int64)

    def _other_radii(self) -> list[float]:
        return [_RADIUS]

    def _place_others(self, env: int, spots: Sequence[tuple[float, float]]) -> None:
        self.scene.entities[PLATE].set_pose((*spots[0], HEIGHT + _THICKNESS / 2 + 0.001), (1, 0, 0, 0), [env])

    def begin_episodes(self, envs: np.ndarray, rngs: Sequence[np.random.Generator]) -> None:
        super().begin_episodes(envs, rngs)
        self._rest_steps[envs] = 0

    def plate_pose(self) -> np.ndarray:
        """Return the pose of the plate, (B, 7) in the world frame."""
        return self.body_poses(np.full(self.n_envs, self._plate))

    def _goal(self) -> np.ndarray:
        plate = self.plate_pose()
        half = np.array([self.objects[self.pickup_name(env)].half[2] for env in range(self.n_envs)])
        pos = plate[:, :3] + np.column_stack([np.zeros((self.n_envs, 2)), _THICKNESS / 2 + half])
        return poses.make(pos, self.start_pose[:, 3:])

    def judge(self) -> np.ndarray:
        here, goal = self.pickup_pose(), self._goal()
        above = np.linalg.norm(here[:, :2] - goal[:, :2], axis=1) < _RADIUS
        low = np.abs(here[:, 2] - goal[:, 2]) < _MAX_HEIGHT_ERROR
        touched = np.any([grip[:, 0] for grip in self.pickup_grips().values()], axis=0)
        self._rest_steps = np.where(above & low & ~touched, self._rest_steps + 1, 0)
        return self._rest_steps >= self.config.rest_steps

    def role_bodies(self) -> np.ndarray:
        return np.column_stack([super().role_bodies(), np.full(self.n_envs, self._plate)])

    def describe_env(self, env: int) -> dict[str, Any]:
        name = self.pickup_name(env)
        text = f"put {self.objects[name].text} on the plate"
        return {"instruction": text, "pickup_obj": name, "place_receptacle": PLATE}

    def create_task_sensors(self, config: PickAndPlaceConfig) -> list[ObservationSensor]:
        """Return the sensors of :class:`TableTask` and ``grasp_state_place_receptacle``, the plate's grasp state."""
        plates = [PLATE] * self.n_envs
        return [
            *super().create_task_sensors(config),
            self._grasps.sensor("grasp_state_place_receptacle", lambda: self.grips(plates)),
        ]
