"""Options of tasks."""

from __future__ import annotations

from pydantic import Field, field_validator, model_validator

from sensorium.options import Options


class TaskCamera(Options):
    """A camera that a task adds, and whose images are observations under its name."""

    name: str = Field(pattern=r"^[A-Za-z_][\w-]*$")
    """What its observations are called: NAME, NAME_depth, NAME_segmentation, sensor_param_NAME."""
    pos: tuple[float, float, float] = (1.4, 0.0, 1.1)
    """Position in metres: in the world, or in the frame of ``link``."""
    lookat: tuple[float, float, float] = (0.5, 0.0, 0.45)
    """What it looks at, in the same frame."""
    link: str | None = None
    """Link of the robot that carries it, as "hand". Default: it stands in the world."""
    fov: float = Field(default=55.0, gt=0, lt=170)
    """Vertical field of view in degrees."""
    resolution: tuple[int, int] = (640, 368)
    """Width and height in pixels."""
    depth: bool = False
    """Whether depth is observed too."""
    segmentation: bool = False
    """Whether segmentation is observed too. It is rendered in any case, for ``object_image_points``."""
    jitter: float = Field(default=0.0, ge=0)
    """Most by which its position (and what it looks at, by half of that) is off in an episode, along each axis, m."""
    must_see: tuple[str, ...] = ()
    """Roles of objects ("pickup_obj", ...) that have to be in view when an episode begins: its pose is drawn again
    until they are."""

    @model_validator(mode="after")
    def _check_name(self) -> TaskCamera:
        if self.name.endswith(("_depth", "_segmentation")):
            raise ValueError(f"{self.name!r} would be another camera's depth or segmentation; choose another name")
        return self

    @model_validator(mode="after")
    def _check_link(self) -> TaskCamera:
        if self.link is not None and (self.jitter or self.must_see):
            raise ValueError(
                f"camera {self.name!r} is carried by {self.link!r}: jitter and must_see need one that stands"
            )
        return self


class Randomize(Options):
    """What is drawn anew for each episode, from the task's seed, the env and the number of its episode alone."""

    objects: bool = True
    """Which of the objects are there, and which of them is meant."""
    poses: bool = True
    """Where things stand."""
    colors: float = Field(default=0.0, ge=0, le=1)
    """Most by which red, green and blue of things change, of 1."""
    lights: float = Field(default=0.0, ge=0, lt=1)
    """Most by which lights are brighter or darker, of 1; their direction changes by as many radians."""
    robot: float = Field(default=0.0, ge=0)
    """Most by which the arm's joints are off at the start, rad."""


class TaskConfig(Options):
    """What all tasks have in common."""

    robot: str = "franka"
    """Which robot: a name of ``sn.robots.names()``. A robot of your own is given to ``make`` itself."""
    n_envs: int = Field(default=1, ge=1)
    """How many envs run side by side."""
    seed: int = Field(default=0, ge=0)
    """Everything random comes from it."""
    dt: float = Field(default=0.02, gt=0)
    """Seconds of one step: of control and of observation."""
    substeps: int = Field(default=10, ge=1)
    """Physics steps in one step."""
    max_steps: int = Field(default=600, ge=1)
    """Steps after which an episode is truncated."""
    use_sensors: bool = True
    """Whether there is a suite; without it, observations are empty."""
    autoreset: bool = False
    """Whether an env that is done is reset at once; its last observation is then in ``info["final_obs"]``."""
    cameras: tuple[TaskCamera, ...] = ()
    """Cameras to observe with. Images take far longer than all else."""
    randomize: Randomize = Randomize()
    """What differs from episode to episode."""
    keep_history: bool = True
    """Whether ``get_history()`` keeps the steps. Not those of an entity, unless asked for."""
    keep_images: bool = False
    """Whether it keeps images as well, which soon fill the memory."""
    str_max_len: int | None = Field(default=2000, ge=2)
    """Bytes that a dict sensor takes on disk; None for strings of any length."""
    threads: int = Field(default=0, ge=0)
    """Threads of the physics; 0 for one per core."""

    @field_validator("cameras")
    @classmethod
    def _names(cls, value: tuple[TaskCamera, ...]) -> tuple[TaskCamera, ...]:
        names = [camera.name for camera in value]
        if len(set(names)) < len(names):
            raise ValueError(f"every camera needs a name of its own, got {names}")
        return value
