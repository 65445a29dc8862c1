"""Options that all tasks share, and those of their randomisation."""

from __future__ import annotations

from pydantic import Field, field_validator

from sensorium.options import Options
from sensorium.tasks.task_camera import TaskCamera


class Randomize(Options):
    """Options of what is drawn for each episode.

    Every random value depends only on the task's seed, the env and the number of its episode.
    """

    objects: bool = True
    """Whether to draw which objects are present, and which of them is the target."""
    poses: bool = True
    """Whether to draw the poses of objects and furniture."""
    colors: float = Field(default=0.0, ge=0, le=1)
    """Maximum change of the red, green and blue of objects, as a fraction of 1."""
    lights: float = Field(default=0.0, ge=0, lt=1)
    """Maximum relative change of the brightness of lights. Their direction changes by at most as many radians."""
    robot: float = Field(default=0.0, ge=0)
    """Maximum offset of the arm's joints at the start of an episode, rad."""


class TaskConfig(Options):
    """Options that all tasks share."""

    robot: str = "franka"
    """Name of the robot, one of ``sn.robots.names()``. A robot object is passed to ``make`` directly."""
    n_envs: int = Field(default=1, ge=1)
    """Number of envs, B."""
    seed: int = Field(default=0, ge=0)
    """Seed of everything random."""
    dt: float = Field(default=0.02, gt=0)
    """Duration of one step of control and observation, s."""
    substeps: int = Field(default=10, ge=1)
    """Physics steps per step."""
    max_steps: int = Field(default=600, ge=1)
    """Steps after which an episode is truncated."""
    use_sensors: bool = True
    """Whether the task has a suite. Without it, observations are empty."""
    autoreset: bool = False
    """Whether an env that is done is reset in the same step. Its last observation is then in ``info["final_obs"]``."""
    cameras: tuple[TaskCamera, ...] = ()
    """Cameras whose images are observed. Rendering takes far longer than all other observations."""
    rig_cameras: bool | None = None
    """Whether the cameras of the robot's rig are present and observed. Default: only those of a rig of your own. An
    entity always has its cameras."""
    randomize: Randomize = Randomize()
    """What differs between episodes."""
    keep_history: bool = True
    """Whether ``get_history()`` keeps the steps. For tasks of an entity the default is False."""
    keep_images: bool = False
    """Whether the history keeps images too. They fill the memory quickly."""
    str_max_len: int | None = Field(default=2000, ge=2)
    """Bytes that one dict of a dict sensor takes on disk; None for strings of any length."""
    threads: int = Field(default=0, ge=0)
    """Threads of the physics; 0 for one per core."""

    @field_validator("cameras")
    @classmethod
    def _unique_names(cls, value: tuple[TaskCamera, ...]) -> tuple[TaskCamera, ...]:
        names = [camera.name for camera in value]
        if len(set(names)) < len(names):
            raise ValueError(f"each camera must have a different name, got {names}")
        return value
