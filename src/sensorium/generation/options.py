"""Options of a dataset to generate."""

from __future__ import annotations

import os
from typing import Any

from pydantic import Field, model_validator

from sensorium.generation.sources import describe_robot, policy_robot
from sensorium.options import Options
from sensorium.robots import Robot, SensorRig
from sensorium.tasks import TASKS, TENSOR_TASKS, default_robot
from sensorium.user_modules import import_modules

SELECTION = frozenset({"episodes", "keep_failed", "max_attempts"})
"""Options that select which episodes are made and kept, without an effect on their content. They can change later."""


class GenerateOptions(Options):
    """Everything that determines a dataset. Episode i is a function of i and these options, except :data:`SELECTION`.

    Example:
        >>> sn.generation.GenerateOptions(task="pick", episodes=100, envs=4, seed=0)
    """

    task: str
    """Name of the task."""
    robot: Any = ""
    """Name of the robot, or a robot object of ``sn.robots.make``. Default: the robot of the policy's entity, or
    else the task's own robot."""
    robot_options: dict[str, Any] | None = None
    """Complete description of a robot object, which ``robot`` sets."""
    rig: SensorRig | None = None
    """Sensors of the robot, also as a YAML file. Default: the robot's own."""
    policy: str = "planner"
    """The policy: a name ("planner", "random"), the folder of a training (``sensorium train``), an ONNX file, or
    ``module:name`` of a ``Policy`` class, a function from observation to action, or an entity."""
    modules: tuple[str, ...] = ()
    """Modules of your own to import first, by name or file: "my_tasks.py". They add to ``sn.tasks.TASKS`` and the like.
    Processes and machines of a cluster import them too."""
    episodes: int = Field(default=10, ge=1)
    """Number of episodes to keep: the first ones that succeed, by number; see ``successes_only``."""
    envs: int = Field(default=4, ge=1)
    """Number of envs that are simulated together. It affects the noise of actions, and which task of "multi" an episode
    has."""
    seed: int = Field(default=0, ge=0)
    """Seed of all randomness."""
    options: dict[str, Any] = {}
    """Further options of the task, e.g. ``{"max_steps": 300}``."""
    successes_only: bool = True
    """Whether only episodes that succeed count as episodes of the dataset. If False, the dataset holds every episode.
    Default: True, but False for the policy "random"."""
    keep_failed: bool = False
    """Whether failed episodes are kept, in the subfolder ``failed``."""
    max_attempts: int | None = Field(default=None, ge=1)
    """Maximum number of episodes to try. Default: ``10 * episodes + envs``."""

    @model_validator(mode="before")
    @classmethod
    def _set_defaults(cls, values: dict[str, Any]) -> dict[str, Any]:
        import_modules(values.get("modules", ()))
        if isinstance(values.get("robot"), Robot):
            body = values["robot"]
            values = {**values, "robot": body.options.kind or "own", "robot_options": describe_robot(body)}
        if not isinstance(values.get("robot", ""), str):
            raise ValueError(f"robot must be a name or a robot object, got {values['robot']!r}")
        if isinstance(values.get("rig"), str | os.PathLike):
            values = {**values, "rig": SensorRig.load(values["rig"])}
        if not values.get("robot") and str(values.get("task")) in {**TASKS, **TENSOR_TASKS}:
            robot = policy_robot(str(values.get("policy", "planner"))) or default_robot(values["task"])
            values = {**values, "robot": robot}
        if isinstance(values.get("policy"), str) and values["policy"] == "random":
            values = {"successes_only": False, **values}
        return values

    @property
    def attempts(self) -> int:
        """Maximum number of episodes to try."""
        return self.max_attempts or 10 * self.episodes + self.envs
