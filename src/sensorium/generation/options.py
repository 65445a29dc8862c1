"""Options of a dataset to generate."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from sensorium.options import Options
from sensorium.tasks import TASKS, default_robot

SELECTION = frozenset({"episodes", "keep_failed", "max_attempts"})
"""Options that select which episodes are made and kept, without an effect on their content. They can change later."""


class GenerateOptions(Options):
    """Everything that determines a dataset. Episode i is a function of i and these options, except :data:`SELECTION`.

    Example:
        >>> sn.generation.GenerateOptions(task="pick", episodes=100, envs=4, seed=0)
    """

    task: str
    """Name of the task."""
    robot: str = ""
    """Name of the robot. Default: the task's own robot."""
    policy: str = "planner"
    """Name of the policy."""
    episodes: int = Field(default=10, ge=1)
    """Number of episodes to keep: the first ones that succeed, by number."""
    envs: int = Field(default=4, ge=1)
    """Number of envs that are simulated together. It affects the noise of the sensors, whose RNGs the envs share."""
    seed: int = Field(default=0, ge=0)
    """Seed of all randomness."""
    options: dict[str, Any] = {}
    """Further options of the task, e.g. ``{"max_steps": 300}``."""
    keep_failed: bool = False
    """Whether failed episodes are kept, in the subfolder ``failed``."""
    max_attempts: int | None = Field(default=None, ge=1)
    """Maximum number of episodes to try. Default: ``10 * episodes + envs``."""

    @model_validator(mode="before")
    @classmethod
    def _set_default_robot(cls, values: dict[str, Any]) -> dict[str, Any]:
        if not values.get("robot") and values.get("task") in TASKS:
            values = {**values, "robot": default_robot(values["task"])}
        return values

    @property
    def attempts(self) -> int:
        """Maximum number of episodes to try."""
        return self.max_attempts or 10 * self.episodes + self.envs
