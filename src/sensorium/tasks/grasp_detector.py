"""``GraspDetector``: which fingers of a robot touch which links."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sensorium.errors import OptionError, shorten
from sensorium.robots import Manipulator
from sensorium.sensors.touch.contact import Contact
from sensorium.suites import ArraySensor
from sensorium.worlds import Scene

GRASP_KEYS = ("touched", "held")
"""Keys of a grasp state: whether a finger touches the link, and whether all fingers do."""


class GraspDetector:
    """Contact sensors between the fingers of a robot's grippers and some links.

    The sensors are not part of a suite.

    Args:
        scene: the scene before it is built, with the robot in it under the name "robot".
        robot: the robot.
        links: names of the links that may be gripped.
    """

    def __init__(self, scene: Scene, robot: Manipulator, links: Sequence[str]) -> None:
        self._scene = scene
        self.grippers = [group for group in robot.options.move_groups if group.kind == "gripper"]
        self._links = frozenset(links)
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

    def sensor(self, uuid: str, read: Callable[[], dict[str, np.ndarray]]) -> ArraySensor:
        """Return the observation sensor of a grasp state: ``{gripper: {"touched": (1,), "held": (1,)}}`` bool.

        Args:
            uuid: its key in observations.
            read: returns a result of :meth:`read`.
        """

        def named() -> dict[str, dict[str, np.ndarray]]:
            return {
                gripper: {key: state[:, column : column + 1] for column, key in enumerate(GRASP_KEYS)}
                for gripper, state in read().items()
            }

        shape = {gripper.name: dict.fromkeys(GRASP_KEYS, (1,)) for gripper in self.grippers}
        return ArraySensor(uuid, named, shape, np.bool_)

    def read(self, links: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the grasp state of one link per env.

        Args:
            links: name of the link for each env, B names.

        Returns:
            Gripper -> (B, 2) bool: whether a finger touches the link, and whether all fingers do (it is held).

        Raises:
            OptionError: ``links`` are not B links that the grippers can hold.
        """
        names = links if isinstance(links, list | tuple) else ()
        known = all(isinstance(each, str) and each in self._links for each in names)
        if not known or len(names) != self._scene.n_envs:
            raise OptionError(f"links must be one of {shorten(self._links)} for each env, got {links!r:.80}")
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
