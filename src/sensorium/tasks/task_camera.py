"""``TaskCamera``: options of a camera that a task adds to its scene."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from pydantic import Field, model_validator

from sensorium.cameras.options import OUTPUTS, Camera
from sensorium.cameras.renderer import Output

IMAGE_SUFFIXES = tuple(f"_{output}" for output in OUTPUTS[1:])
"""What follows the name of a camera in the names of its images other than colour."""
_ORIENTATIONS = ("quat", "euler")
"""Options that set the orientation instead of ``lookat``."""
_LENSES = ("focal_length", "hfov", "vfov")
"""Options that set the field of view instead of ``fov``."""


class TaskCamera(Camera):
    """Options of a camera that a task adds to its scene, and whose images are observations.

    It has every option of :class:`sensorium.Camera`: ``profile``, ``renderer``, ``rate``, ``delay``, ``exposure``, ...
    Without them the camera is ideal: it sees every step at once, without noise. ``uuid`` is another way to set
    ``name``.

    Example:
        >>> front = sn.tasks.TaskCamera(name="front", resolution=(96, 64), profile="rgbd", depth=True, rate=30)
        >>> task = sn.tasks.make("pick", cameras=[front])
    """

    name: str = Field(pattern=r"^[A-Za-z_][\w-]*$")
    """Name of its observations: NAME, NAME_depth, NAME_segmentation and sensor_param_NAME."""
    pos: tuple[float, float, float] = (1.4, 0.0, 1.1)
    """Position in metres, in the world frame or in the frame of ``link``."""
    lookat: tuple[float, float, float] | None = (0.5, 0.0, 0.45)
    """Point that it looks at in metres, in the same frame. Default: (0.5, 0, 0.45), unless ``quat`` or ``euler`` is
    set."""
    link: str | None = None
    """Link of the robot that carries it, for example "hand". Default: it is fixed in the world."""
    fov: float | None = Field(default=55.0, gt=0, lt=180)
    """Vertical field of view in degrees. Default: 55, unless another option sets it."""
    resolution: tuple[int, int] = (640, 368)
    """Width and height in pixels."""
    depth: bool = False
    """Whether depth is observed too, as with "depth" in ``outputs``."""
    segmentation: bool = False
    """Whether segmentation is observed too, as with "segmentation" in ``outputs``. It is always rendered, since
    ``object_image_points`` needs it."""
    pose_jitter: float = Field(default=0.0, ge=0)
    """Maximum random offset of its position along each axis in an episode, m. That of ``lookat`` is half of it."""
    must_see: tuple[str, ...] = ()
    """Roles of objects ("pickup_obj", ...) that must be in view when an episode begins. The camera pose is drawn again
    until they are."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: object) -> object:
        """Translate other spellings, and drop defaults that other options replace."""
        if not isinstance(values, Mapping):
            return values
        values = dict(values)
        uuid = values.get("uuid")
        if isinstance(uuid, str) and values.setdefault("name", uuid) != uuid:
            raise ValueError(f"name and uuid are the same option; set one of them, got {values['name']!r} and {uuid!r}")
        jitter = values.get("jitter")
        if isinstance(jitter, int | float) and jitter > 0 and not values.get("delay") and "pose_jitter" not in values:
            warnings.warn(
                "jitter of a task camera is the random part of its delay; for random poses use pose_jitter. In 0.3 "
                "jitter without delay will be an error",
                DeprecationWarning,
                stacklevel=2,
            )
            values["pose_jitter"] = values.pop("jitter")
        if any(values.get(option) is not None for option in _ORIENTATIONS):
            values.setdefault("lookat", None)
        if any(values.get(option) is not None for option in _LENSES):
            values.setdefault("fov", None)
        return values

    @model_validator(mode="after")
    def _check_name(self) -> TaskCamera:
        if self.name.endswith(IMAGE_SUFFIXES):
            raise ValueError(
                f"name must not end in {', '.join(IMAGE_SUFFIXES)}, the suffixes of a camera's images; got "
                f"{self.name!r}: choose another name"
            )
        return self

    @model_validator(mode="after")
    def _check_drawn_pose(self) -> TaskCamera:
        if not (self.pose_jitter or self.must_see):
            return self
        if self.link is not None:
            raise ValueError(
                f"pose_jitter and must_see need a camera that is fixed in the world, and {self.name!r} is carried by "
                f"{self.link!r}: remove link, or remove pose_jitter and must_see"
            )
        if self.lookat is None:
            raise ValueError("pose_jitter and must_see need lookat: set lookat instead of quat or euler")
        return self

    @property
    def observed(self) -> tuple[Output, ...]:
        """Outputs that are observed, in the order of :data:`sensorium.cameras.options.OUTPUTS`."""
        chosen = {*self.outputs, *(["depth"] * self.depth), *(["segmentation"] * self.segmentation)}
        return tuple(output for output in OUTPUTS if output in chosen)

    def to_camera(self, link: str | None, segmentation: bool = True) -> Camera:
        """Return the options of the camera in the scene.

        Args:
            link: full name of the link that carries it, or None.
            segmentation: whether segmentation is rendered even if it is not observed.
        """
        always = {"pos", "lookat", "fov", "resolution"}
        given = {name for name in Camera.model_fields if name in always | self.model_fields_set}
        values = {name: getattr(self, name) for name in given}
        rendered = {*self.observed, *(["segmentation"] * segmentation)}
        outputs = tuple(output for output in OUTPUTS if output in rendered)
        return Camera(**{**values, "uuid": self.name, "link": link, "outputs": outputs})
