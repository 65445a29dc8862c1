"""``History``: the steps of a task."""

from __future__ import annotations

from typing import Any

import numpy as np

from sensorium.errors import OptionError
from sensorium.suites import Reading, SensorSuite


class History:
    """The observations, actions and results of all steps since the last reset of all envs.

    Args:
        keep_images: whether to keep images too.
    """

    def __init__(self, keep_images: bool) -> None:
        self._keep_images = keep_images
        self.clear()

    def clear(self) -> None:
        """Delete all steps."""
        self._observations: list[dict[str, Any]] = []
        self._steps: dict[str, list[np.ndarray]] = {
            name: [] for name in ("rewards", "terminals", "truncateds", "successes", "actions")
        }
        self._skipped: list[str] = []

    def begin(self, observation: dict[str, Any], suite: SensorSuite) -> None:
        """Add the observation of all envs after a reset of some. It replaces the last observation of the same step."""
        _check(observation)
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
        """Add one step of all envs."""
        _check(observation)
        for name, value in {"action": action, "success": success}.items():
            if not isinstance(value, np.ndarray):
                raise OptionError(f"{name} must be an array with one row per env, got {value!r:.80}")
        self._observations.append(self._kept(observation, suite))
        values = (reward, terminated, truncated, success.copy(), action.astype(np.float32))
        for steps, value in zip(self._steps.values(), values, strict=True):
            steps.append(value)

    def get(self) -> dict[str, Any]:
        """Return the steps.

        Returns:
            ``observations``: a list of T + 1, the first after the reset. ``rewards``, ``terminals``, ``truncateds`` and
            ``successes``: (T, B). ``actions``: (T, B, n). ``skipped_images``: the uuids of images that are not kept.
        """
        stacked = {name: np.stack(steps) if steps else np.zeros((0,)) for name, steps in self._steps.items()}
        return {"observations": list(self._observations), **stacked, "skipped_images": list(self._skipped)}

    def _kept(self, observation: dict[str, Any], suite: SensorSuite | None) -> dict[str, Any]:
        if suite is not None and not self._keep_images:
            self._skipped = [uuid for uuid in observation if suite[uuid].is_image]
        return {uuid: _copied(value) for uuid, value in observation.items() if uuid not in self._skipped}


def _check(observation: object) -> None:
    if not isinstance(observation, dict):
        raise OptionError(f"observation must be a dict of arrays by uuid, got {observation!r:.80}")


def _copied(value: Reading) -> Reading:
    """Return a copy of the arrays, since the user may change the observation that was returned."""
    if isinstance(value, dict):
        return {name: _copied(each) for name, each in value.items()}  # type: ignore[misc]
    return value.copy() if isinstance(value, np.ndarray) else value
