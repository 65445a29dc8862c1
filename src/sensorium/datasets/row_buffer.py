"""``RowBuffer``: the last rows of the episodes of a task, kept in memory until they are written together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from sensorium.datasets.observation_layout import AGENT, Nested, arrays_of, group_columns, path_of
from sensorium.suites import SensorSuite
from sensorium.suites.text import length_message, to_texts

ROWS = 128
"""Rows of each env that are written together."""


class RowBuffer:
    """Rows of observations and steps. Row i holds an observation and the step that follows it.

    Args:
        suite: the sensors.
        videos: images that are stored as videos and not here: uuid and keys.
        observation: an observation of the suite, for shapes and dtypes.
        n_actions: size of an action.

    Attributes:
        observed: path -> (B, ROWS, ...).
        texts: uuid of a sensor that reads dicts -> for each row, env -> its reading as JSON.
        steps: path -> (B, ROWS, ...): actions, rewards and flags.
        empty: uuids of sensors without any array.
    """

    def __init__(
        self,
        suite: SensorSuite,
        videos: Collection[tuple[str, tuple[str, ...]]],
        observation: Mapping[str, Any],
        n_actions: int,
    ) -> None:
        self._n_envs = suite.n_envs
        self.observed: dict[str, np.ndarray] = {}
        self.texts: dict[str, list[dict[int, bytes]]] = {}
        self._of_numbers: dict[str, bool] = {}
        self._max_lengths = {uuid: sensor.str_max_len for uuid, sensor in suite.items() if sensor.is_dict}
        self.empty: list[str] = []
        self._targets: list[tuple[str, tuple[str, ...], np.ndarray]] = []
        for uuid, sensor in suite.items():
            if sensor.is_dict:
                self.texts[uuid], self._of_numbers[uuid] = [{}] * ROWS, sensor.of_numbers
            else:
                targets = self._targets_of(uuid, observation[uuid], videos)
                self._targets += [(uuid, keys, target) for keys, target in targets]
                if not targets and uuid not in {video for video, _ in videos}:
                    self.empty.append(uuid)
        flags = dict.fromkeys(("terminated", "truncated", "success", "fail"), np.bool_)
        self.steps = {
            "actions/action": np.zeros((self._n_envs, ROWS, n_actions), np.float32),
            "rewards": np.zeros((self._n_envs, ROWS), np.float32),
            **{name: np.zeros((self._n_envs, ROWS), kind) for name, kind in flags.items()},
        }

    def _targets_of(
        self, uuid: str, value: Nested, videos: Collection[tuple[str, tuple[str, ...]]]
    ) -> list[tuple[tuple[str, ...], np.ndarray]]:
        """Return the destination of each array of a sensor, with its keys."""
        if uuid in AGENT and isinstance(value, Mapping):
            parts = {name: part for name, part in value.items() if isinstance(part, np.ndarray)}
            columns = group_columns(parts)
            width = max((last for _, last in columns.values()), default=0)
            if not width:
                return []
            whole = self._new(path_of(uuid), (width,), np.result_type(*parts.values()))
            return [((name,), whole[:, :, first:last]) for name, (first, last) in columns.items()]
        return [
            (keys, self._new(path, part.shape[1:], part.dtype))
            for path, keys, part in arrays_of(uuid, value)
            if (uuid, keys) not in videos
        ]

    def _new(self, path: str, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
        array = self.observed[path] = np.zeros((self._n_envs, ROWS, *shape), dtype)
        return array

    def observe(self, row: int, observation: Mapping[str, Any], envs: Sequence[int]) -> dict[int, str]:
        """Store the observations of all envs in a row; texts only of some envs.

        Args:
            row: the row.
            observation: observation of the suite.
            envs: the envs whose texts are stored.

        Returns:
            Env -> message, of the envs with a text that is longer than its sensor's ``str_max_len``.
        """
        for uuid, keys, target in self._targets:
            value = observation[uuid]
            for key in keys:
                value = value[key]
            target[:, row] = value
        too_long: dict[int, str] = {}
        for uuid, rows in self.texts.items():  # encoded now, while the dicts are in the processor's cache
            readings = observation[uuid]
            encoded = to_texts(uuid, [readings[env] for env in envs], envs, self._of_numbers[uuid])
            rows[row] = dict(zip(envs, encoded, strict=True))
            limit = self._max_lengths[uuid]
            if limit is not None and max(map(len, encoded), default=0) > limit:
                for env, text in rows[row].items():
                    if len(text) > limit:
                        too_long.setdefault(env, length_message(uuid, env, len(text), limit))
        return too_long

    def act(self, row: int, values: Mapping[str, np.ndarray]) -> None:
        """Store the step of all envs in a row: path -> (B, ...). Call it after :meth:`observe` of the same row."""
        for path, value in values.items():
            self.steps[path][:, row] = value
