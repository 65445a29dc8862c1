"""Sensors of a scene as an episode describes them, for the messages that a recorder of the scene would write."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from sensorium.datasets.dataset import Episode
from sensorium.errors import SensoriumError
from sensorium.robots.rig import sensor_type
from sensorium.sensors.options import SensorOptions
from sensorium.suites.observation import PRIVILEGED, SensorDescription

Layout = dict[str, tuple[int, ...]]
"""Field of a reading -> its shape; a reading that is one array has the field ""."""


class StoredSensor:
    """A sensor whose readings an episode holds; see :class:`sensorium.ros.topics.RosSensor`.

    Args:
        uuid: its uuid in the scene.
        options: its options.
        layout: field -> shape of a reading.
        described: what the episode says about it.
        is_truth: whether the readings are ground truth.

    Attributes:
        paths: field -> path of its array in the episode.
    """

    def __init__(
        self,
        uuid: str,
        options: SensorOptions,
        layout: Layout,
        described: SensorDescription,
        paths: Mapping[str, str],
        is_truth: bool,
    ) -> None:
        self.uuid, self.options, self.paths, self.is_truth = uuid, options, dict(paths), is_truth
        self._layout = layout
        self._parameters = _StoredSpreads(described["spreads"])
        if described["joints"]:
            self.joint_names = described["joints"]

    @property
    def has_history(self) -> bool:
        """Whether a reading has several samples, newest first."""
        return bool(self.options.history_length)

    def _get_return_format(self) -> tuple[int, ...] | Layout:
        return self._layout[""] if list(self._layout) == [""] else self._layout


class _StoredSpreads:
    def __init__(self, values: Mapping[str, list[list[float]]]) -> None:
        self._values = values

    def spreads(self) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """Return channel -> standard deviations of a sample's noise and of the drift, (axes,)."""
        return {name: (torch.tensor(noise), torch.tensor(drift)) for name, (noise, drift) in self._values.items()}


def stored_sensors(episode: Episode, shapes: Mapping[str, tuple[int, ...]]) -> list[StoredSensor]:
    """Return the sensors that an episode describes. Sensors of classes that are not imported are skipped.

    Args:
        episode: the episode.
        shapes: path -> shape of a row, of all its arrays of numbers.
    """
    found = []
    for uuid, entry in episode.suite.items():
        described = entry.get("sensor")
        if described is None:
            continue
        try:
            options = sensor_type(described["type"])(**described["options"])
        except SensoriumError:
            continue
        at = entry["at"]
        paths = {path.removeprefix(at).removeprefix("/"): path for path in shapes if f"{path}/".startswith(f"{at}/")}
        first = 1 if options.history_length else 0
        layout = {name: shapes[path][first:] for name, path in paths.items()}
        if layout:
            name = uuid.removeprefix(PRIVILEGED) if entry["privileged"] else uuid
            found.append(StoredSensor(name, options, layout, described, paths, entry["privileged"]))
    return found
