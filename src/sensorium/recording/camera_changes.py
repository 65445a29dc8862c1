"""What replay changes in the cameras of a scene."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from sensorium.cameras import Camera
from sensorium.options import Options

ImageKind = Literal["rgb", "depth", "segmentation", "instance", "normals"]


class CameraChanges(Options):
    """Options of cameras that take the place of the recorded ones; what is left out stays."""

    outputs: tuple[ImageKind, ...] = ()
    """What to render."""
    renderer: str | None = None
    """Which renderer draws it."""
    resolution: tuple[int, int] | None = Field(default=None)
    """Width and height in pixels; the field of view stays, vertically."""

    def apply(self, options: Any) -> Any:
        """The options of a sensor as they shall be; those of other sensors stay."""
        if not isinstance(options, Camera):
            return options
        given = {name: getattr(options, name) for name in options.model_fields_set}
        kind: type[Camera] = type(options)
        if self.outputs:
            given["outputs"] = self.outputs
        if self.renderer is not None and self.renderer != options.renderer:
            kind = Camera  # other classes are those of one renderer
            given = {name: value for name, value in given.items() if name in Camera.model_fields}
            given["renderer"] = self.renderer
        if self.resolution is not None:
            x, y = (new / old for new, old in zip(self.resolution, options.resolution, strict=True))
            given["resolution"] = self.resolution
            if options.focal_length is not None:  # pixels have become smaller or larger
                both = isinstance(options.focal_length, tuple)
                along = options.focal_length if isinstance(options.focal_length, tuple) else (options.focal_length,) * 2
                given["focal_length"] = (along[0] * x, along[1] * y) if both else along[1] * y
            if options.principal_point is not None:
                given["principal_point"] = (options.principal_point[0] * x, options.principal_point[1] * y)
        return kind(**given)
