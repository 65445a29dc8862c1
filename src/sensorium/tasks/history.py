"""What happened in a task, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np

from sensorium.suites import SensorSuite


class History:
    """The steps since the last reset of all envs.

    Args:
        keep_images: whether images are kept as well.
    """

    def __init__(self, keep_images: bool) -> None:
        self._keep_images = keep_images
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._observations: list[dict[str, Any]] = []
        self._steps: dict[str, list[np.ndarray]] = {
            name: [] for name in ("rewards", "terminals", "truncateds", "successes", "actions")
        }
        self._left_out: list[str] = []

    def begin(self, observation: dict[str, Any], suite: SensorSuite) -> None:
        """Some envs were reset, which all see now. Takes the place of what was observed before in this step."""
        kept = self._kept(observation, suite)
        if len(self._observations) > len(self._steps["rewards"]):
            self._observations[-1] = kept
        else:
            self._observations.append(kept)

    def add(
        self,
        observation: dict[str, Any],
        action: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        success: np.ndarray,
        suite: SensorSuite | None,
    ) -> None:
        """One more step."""
        self._observations.append(self._kept(observation, suite))
        values = (reward, terminated, truncated, success.copy(), action.astype(np.float32))
        for steps, value in zip(self._steps.values(), values, strict=True):
            steps.append(value)

    def get(self) -> dict[str, Any]:
        """``observations``: a list of T + 1, the first from the reset; ``rewards``, ``terminals``, ``truncateds``,
        ``successes`` (T, B), ``actions`` (T, B, n); ``left_out``: uuids of images that were not kept."""
        stacked = {name: np.stack(steps) if steps else np.zeros((0,)) for name, steps in self._steps.items()}
        return {"observations": list(self._observations), **stacked, "left_out": list(self._left_out)}

    def _kept(self, observation: dict[str, Any], suite: SensorSuite | None) -> dict[str, Any]:
        if suite is not None and not self._keep_images:
            self._left_out = [uuid for uuid in observation if suite[uuid].is_image]
        return {uuid: _copied(value) for uuid, value in observation.items() if uuid not in self._left_out}


def _copied(value: Any) -> Any:
    """Arrays of its own, since whoever was handed the observation may change it."""
    if isinstance(value, dict):
        return {name: _copied(each) for name, each in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value
