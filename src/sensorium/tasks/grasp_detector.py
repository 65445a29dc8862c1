"""``GraspDetector``: which fingers of a robot touch which links."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sensorium.robots import Manipulator
from sensorium.sensors.touch.contact import Contact
from sensorium.worlds import Scene


class GraspDetector:
    """Contact sensors between the fingers of a robot's grippers and some links.

    The sensors are not part of a suite.

    Args:
        scene: the scene before it is built, with the robot in it under the name "robot".
        robot: the robot.
        links: names of the links that may be gripped.
    """

    def __init__(self, scene: Scene, robot: Manipulator, links: Sequence[str]) -> None:
        self.grippers = [group for group in robot.options.move_groups if group.kind == "gripper"]
        self._contacts = {
            (gripper.name, link): [
                scene.add_sensor(
                    Contact(
                        uuid=f"_{gripper.name}_{side}_{link.replace('/', '_')}", link=f"robot/{finger}", touching=link
                    )
                )
                for side, finger in enumerate(gripper.fingers)
            ]
            for gripper in self.grippers
            for link in links
        }

    @property
    def shape(self) -> dict[str, tuple[int]]:
        """Shape of one env's result of :meth:`read`, by gripper."""
        return {gripper.name: (2,) for gripper in self.grippers}

    def read(self, links: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the grasp state of one link per env.

        Args:
            links: name of the link for each env, B names.

        Returns:
            Gripper -> (B, 2) bool: whether a finger touches the link, and whether all fingers do (it is held).
        """
        result = {}
        for gripper in self.grippers:
            fingers = {
                link: np.concatenate(
                    [sensor.read_ground_truth().numpy() for sensor in self._contacts[gripper.name, link]], 1
                )
                for link in set(links)
            }
            rows = np.stack([fingers[link][env] for env, link in enumerate(links)])
            result[gripper.name] = np.stack([rows.any(axis=1), rows.all(axis=1)], axis=1)
        return result
