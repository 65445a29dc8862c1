"""PickAndPlace: put one thing on a plate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import Field

from sensorium import poses
from sensorium.suites import ArraySensor, ObservationSensor
from sensorium.tasks.table import HEIGHT, TableConfig, TableTask
from sensorium.worlds import Cylinder, Scene

PLATE = "plate"
_RADIUS, _THICK = 0.09, 0.012


class PickAndPlaceConfig(TableConfig):
    """Options of :class:`PickAndPlace`."""

    n_objects: int = Field(default=2, ge=1)
    """How many things there are besides the plate."""
    max_steps: int = Field(default=800, ge=1)
    """Steps after which an episode is truncated."""
    rest_steps: int = Field(default=10, ge=1)
    """For how many steps the thing must lie on the plate, let go."""


class PickAndPlace(TableTask[PickAndPlaceConfig]):
    """Put the thing that is meant on the plate, and let go of it."""

    name = "pick_and_place"
    config_type = PickAndPlaceConfig
    roles = ("pickup_obj", "place_receptacle")

    def _add_scene(self, scene: Scene) -> None:
        super()._add_scene(scene)
        shape = Cylinder(radius=_RADIUS, height=_THICK, mass=0.6, rgba=(0.85, 0.87, 0.95, 1.0))
        scene.add_object(shape, name=PLATE, pos=(-3, -0.5, _THICK / 2), free=True)

    def touchable(self) -> list[str]:
        return [*super().touchable(), PLATE]

    def _start(self) -> None:
        super()._start()
        self._plate = int(self.scene.model.body(PLATE).id)
        self._rested = np.zeros(self.n_envs, np.int64)

    def _other_radii(self) -> list[float]:
        return [_RADIUS]

    def _put_others(self, env: int, spots: Sequence[tuple[float, float]]) -> None:
        plate: Any = self.scene[PLATE]
        plate.set_pose((*spots[0], HEIGHT + _THICK / 2 + 0.001), (1, 0, 0, 0), [env])

    def _begin(self, envs: np.ndarray, draws: Sequence[np.random.Generator]) -> None:
        super()._begin(envs, draws)
        self._rested[envs] = 0

    def plate_pose(self) -> np.ndarray:
        """Where the plate is, (B, 7) in the world frame."""
        return self.body_poses(np.full(self.n_envs, self._plate))

    def _goal(self) -> np.ndarray:
        plate = self.plate_pose()
        half = np.array([self.things[self.pickup_name(env)].half[2] for env in range(self.n_envs)])
        at = plate[:, :3] + np.column_stack([np.zeros((self.n_envs, 2)), _THICK / 2 + half])
        return poses.make(at, self.start_pose[:, 3:])

    def _judge(self) -> np.ndarray:
        here, goal = self.pickup_pose(), self._goal()
        near = np.linalg.norm(here[:, :2] - goal[:, :2], axis=1) < _RADIUS
        low = np.abs(here[:, 2] - goal[:, 2]) < 0.03
        touched = np.any([grip[:, 0] for grip in self.pickup_grips().values()], axis=0)
        self._rested = np.where(near & low & ~touched, self._rested + 1, 0)
        return self._rested >= self.config.rest_steps

    def role_bodies(self) -> np.ndarray:
        return np.column_stack([super().role_bodies(), np.full(self.n_envs, self._plate)])

    def describe_env(self, env: int) -> dict[str, Any]:
        name = self.pickup_name(env)
        text = f"put {self.things[name].text} on the plate"
        return {"instruction": text, "pickup_obj": name, "place_receptacle": PLATE}

    def _create_sensor_suite_from_config(self, config: Any) -> list[ObservationSensor]:
        """Adds ``grasp_state_place_receptacle``, as that of the thing."""
        grippers = {group.name: (2,) for group in self.robot.options.move_groups if group.kind == "gripper"}
        plates = [PLATE] * self.n_envs
        return [
            *super()._create_sensor_suite_from_config(config),
            ArraySensor("grasp_state_place_receptacle", lambda: self.grips(plates), grippers, np.bool_),
        ]
