"""Changes that replay makes to the cameras of a scene."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sensorium.cameras import Camera
from sensorium.options import Options
from sensorium.sensors.field_of_view import angle_from_focal
from sensorium.sensors.options import SensorOptions

ImageKind = Literal["rgb", "depth", "segmentation", "instance", "normals"]


class CameraChanges(Options):
    """Camera options that replace the recorded ones. Options that are not set keep their recorded values."""

    outputs: tuple[ImageKind, ...] = ()
    """Image kinds to render."""
    renderer: str | None = None
    """Name of the renderer."""
    resolution: tuple[int, int] | None = Field(default=None)
    """Width and height in pixels. The vertical field of view stays the same, and the horizontal one too if the camera
    sets both."""

    def apply(self, options: SensorOptions) -> SensorOptions:
        """Return the options of a camera with these changes. Options of other sensors are returned unchanged."""
        if not isinstance(options, Camera):
            return options
        values = {name: getattr(options, name) for name in options.model_fields_set}
        kind: type[Camera] = type(options)
        if self.outputs:
            values["outputs"] = self.outputs
        if self.renderer is not None and self.renderer != options.renderer:
            kind = Camera  # subclasses are tied to one renderer
            values = {name: value for name, value in values.items() if name in Camera.model_fields}
            values["renderer"] = self.renderer
        if self.resolution is not None:
            x, y = (new / old for new, old in zip(self.resolution, options.resolution, strict=True))
            values["resolution"] = self.resolution
            fx, fy = options.focal_lengths()
            if isinstance(options.focal_length, tuple) or (options.hfov is not None and options.vfov is not None):
                values |= {"focal_length": (fx * x, fy * y), "hfov": None, "vfov": None}  # both angles stay the same
            elif options.focal_length is not None:  # in pixels, so it scales with the resolution
                values["focal_length"] = fy * y
            elif options.hfov is not None:
                values |= {"hfov": None, "vfov": angle_from_focal(fy, options.resolution[1])}
            if options.principal_point is not None:
                values["principal_point"] = (options.principal_point[0] * x, options.principal_point[1] * y)
        return kind(**values)
