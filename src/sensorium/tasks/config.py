"""Options that all tasks share, and those of their cameras and randomisation."""

from __future__ import annotations

from pydantic import Field, field_validator, model_validator

from sensorium.options import Options


class TaskCamera(Options):
    """Options of a camera that a task adds to its scene, and whose images are observations."""

    name: str = Field(pattern=r"^[A-Za-z_][\w-]*$")
    """Name of its observations: NAME, NAME_depth, NAME_segmentation and sensor_param_NAME."""
    pos: tuple[float, float, float] = (1.4, 0.0, 1.1)
    """Position in metres, in the world frame or in the frame of ``link``."""
    lookat: tuple[float, float, float] = (0.5, 0.0, 0.45)
    """Point that it looks at in metres, in the same frame."""
    link: str | None = None
    """Link of the robot that carries it, for example "hand". Default: it is fixed in the world."""
    fov: float = Field(default=55.0, gt=0, lt=170)
    """Vertical field of view in degrees."""
    resolution: tuple[int, int] = (640, 368)
    """Width and height in pixels."""
    depth: bool = False
    """Whether depth is observed too."""
    segmentation: bool = False
    """Whether segmentation is observed too. It is always rendered, since ``object_image_points`` needs it."""
    jitter: float = Field(default=0.0, ge=0)
    """Maximum random offset of its position along each axis in an episode, m. That of ``lookat`` is half of it."""
    must_see: tuple[str, ...] = ()
    """Roles of objects ("pickup_obj", ...) that must be in view when an episode begins. The camera pose is drawn again
    until they are."""

    @model_validator(mode="after")
    def _check_name(self) -> TaskCamera:
        if self.name.endswith(("_depth", "_segmentation")):
            raise ValueError(
                f"name must not end in _depth or _segmentation, the suffixes of a camera's images; got {self.name!r}: "
                "choose another name"
            )
        return self

    @model_validator(mode="after")
    def _check_link(self) -> TaskCamera:
        if self.link is not None and (self.jitter or self.must_see):
            raise ValueError(
                f"jitter and must_see need a camera that is fixed in the world, and {self.name!r} is carried by "
                f"{self.link!r}: remove link, or remove jitter and must_see"
            )
        return self


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
