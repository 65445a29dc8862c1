"""Options of a data set that is to be generated."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from sensorium.options import Options
from sensorium.tasks import TASKS, default_robot

FREE = frozenset({"episodes", "keep_failed", "max_attempts"})
"""Options that decide which episodes are made and kept, and nothing of what is in them: they may change later."""


class GenerateOptions(Options):
    """Everything that decides what is in a data set. Episode i is a function of these, but for FREE, and i alone."""

    task: str
    """Name of the task."""
    robot: str = ""
    """Name of the robot. Default: the task's own."""
    policy: str = "planner"
    """Name of the policy."""
    episodes: int = Field(default=10, ge=1)
    """How many episodes to keep: the first that succeed, by number."""
    envs: int = Field(default=4, ge=1)
    """How many run side by side. They share what noisy sensors draw from, so it is part of what decides."""
    seed: int = Field(default=0, ge=0)
    """Everything random comes from it."""
    options: dict[str, Any] = {}
    """Further options of the task, as ``{"max_steps": 300}``."""
    keep_failed: bool = False
    """Whether episodes that fail are kept, in a folder ``failed``."""
    max_attempts: int | None = Field(default=None, ge=1)
    """How many episodes to try at most. Default: ten for each to keep, and one unit of ``envs``."""

    @model_validator(mode="before")
    @classmethod
    def _own_robot(cls, values: dict[str, Any]) -> dict[str, Any]:
        if not values.get("robot") and values.get("task") in TASKS:
            values = {**values, "robot": default_robot(values["task"])}
        return values

    @property
    def attempts(self) -> int:
        """How many episodes to try at most."""
        return self.max_attempts or 10 * self.episodes + self.envs
