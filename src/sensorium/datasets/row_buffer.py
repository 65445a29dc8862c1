"""``RowBuffer``: the last rows of a task's episodes, in memory until there are enough of them to be written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from sensorium.datasets.observation_layout import AGENT, columns, leaves, place
from sensorium.suites import SensorSuite
from sensorium.suites.text import to_texts

ROWS = 128
"""How many rows of each env are written at once."""


class RowBuffer:
    """Row i holds what was observed at a step, and what was done then: ``observe`` comes before ``act``.

    Args:
        suite: what is observed.
        videos: uuids of images that are no part of a block.
        observation: as the suite reads it, for shapes and types.
        n_actions: how many numbers an action has.

    Attributes:
        observed: path -> (B, ROWS, ...).
        said: uuid of a sensor that reads as dicts -> by row, what it read as JSON, by env.
        done: path -> (B, ROWS, ...).
        silent: uuids of sensors that have no arrays at all.
    """

    def __init__(
        self, suite: SensorSuite, videos: Collection[str], observation: Mapping[str, Any], n_actions: int
    ) -> None:
        self._n_envs = suite.n_envs
        self.observed: dict[str, np.ndarray] = {}
        self.said: dict[str, list[dict[int, bytes]]] = {}
        self._of_numbers: dict[str, bool] = {}
        self.silent: list[str] = []
        self._targets: list[tuple[str, tuple[str, ...], np.ndarray]] = []
        for uuid, sensor in suite.items():
            if sensor.is_dict:
                self.said[uuid], self._of_numbers[uuid] = [{}] * ROWS, sensor.of_numbers
            elif uuid not in videos:
                targets = self._targets_of(uuid, observation[uuid])
                self._targets += [(uuid, keys, target) for keys, target in targets]
                self.silent += [uuid] * (not targets)
        flags = dict.fromkeys(("terminated", "truncated", "success", "fail"), np.bool_)
        self.done = {
            "actions/action": np.zeros((self._n_envs, ROWS, n_actions), np.float32),
            "rewards": np.zeros((self._n_envs, ROWS), np.float32),
            **{name: np.zeros((self._n_envs, ROWS), kind) for name, kind in flags.items()},
        }

    def _targets_of(self, uuid: str, value: Any) -> list[tuple[tuple[str, ...], np.ndarray]]:
        """Where each array of a sensor goes, by its keys."""
        if uuid in AGENT and isinstance(value, dict):
            parts = columns(value)
            width = max((last for _, last in parts.values()), default=0)
            whole = self._new(place(uuid), (width,), np.result_type(*value.values()) if value else np.float32)
            return [((name,), whole[:, :, first:last]) for name, (first, last) in parts.items()]
        return [(keys, self._new(path, part.shape[1:], part.dtype)) for path, keys, part in leaves(uuid, value)]

    def _new(self, path: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        array = self.observed[path] = np.zeros((self._n_envs, ROWS, *shape), dtype)
        return array

    def observe(self, row: int, observation: Mapping[str, Any], envs: Sequence[int]) -> None:
        """Take what all envs observed; of what is said, that of these envs alone."""
        for uuid, keys, target in self._targets:
            value = observation[uuid]
            for key in keys:
                value = value[key]
            target[:, row] = value
        for uuid, rows in self.said.items():  # at once: later, thousands of dicts would have to be looked up again
            said = observation[uuid]
            texts = to_texts(uuid, [said[env] for env in envs], envs, self._of_numbers[uuid])
            rows[row] = dict(zip(envs, texts, strict=True))

    def act(self, row: int, values: Mapping[str, np.ndarray]) -> None:
        """Take what all envs did then, and what came of it: path -> (B, ...)."""
        for path, value in values.items():
            self.done[path][:, row] = value
