"""Formats in which images are stored as videos, and which readings of a suite are images."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from sensorium.errors import OptionError
from sensorium.json_files import load_json
from sensorium.suites import ObservationSensor
from sensorium.suites.purposes import Purpose, default_purpose

_MAX_DEPTH = 65535
_MAX_CHANNELS = 4
"""Length of the last axis up to which it is the channels of an image, and not its columns."""


class VideoFormat(NamedTuple):
    """How images of one kind are stored."""

    suffix: str
    codec: str
    unit: str
    scale: float
    """A stored number times ``scale`` is in ``unit``."""


VIDEO_FORMATS = {
    "rgb": VideoFormat(".mp4", "h264", "sRGB", 1.0),
    "gray": VideoFormat(".mp4", "h264", "grey, 0 to 255", 1.0),
    "depth": VideoFormat(".mkv", "ffv1", "m", 0.001),
    "segmentation": VideoFormat(".mkv", "ffv1", "body id, then geom id below it", 1),
    "planes": VideoFormat(".mkv", "ffv1", "as the sensor reads it", 1),
}
"""Image kind -> format.

Colour and grey are lossy. Depth 0 means that nothing is hit. Segmentation has 1 added, so that 0 means nothing; the
image of body ids is above that of geom ids. "planes" is every other image, without loss: channels below each other, and
numbers of more than 16 bits as planes of 16 bits, the lowest bits first."""


@dataclass(frozen=True)
class ImageEncoding:
    """The images of one sensor and how they are stored.

    Attributes:
        kind: key of :data:`VIDEO_FORMATS`.
        shape: shape of an image as the sensor reads it: (H, W), (H, W, C), or (N, H, W, ...) for a history.
        dtype: its dtype.
    """

    kind: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of_kind(cls, kind: str, height: int, width: int) -> ImageEncoding:
        """Return the format of a camera's images of kind "rgb", "depth" or "segmentation"."""
        rest, dtype = {"rgb": ((3,), np.uint8), "depth": ((), np.float32), "segmentation": ((2,), np.int32)}[kind]
        return cls(kind, (height, width, *rest), np.dtype(dtype))

    @classmethod
    def of_space(cls, name: str, space: spaces.Box) -> ImageEncoding:
        """Return the format for the images of a space.

        Raises:
            OptionError: the images have fewer than two axes, an axis without pixels, or values that are not numbers.
        """
        shape, dtype = tuple(space.shape), np.dtype(space.dtype)
        if len(shape) < 2 or 0 in shape or dtype.kind not in "buif" or dtype.itemsize > 8:
            raise OptionError(
                f"the images of {name!r} have shape {shape} and dtype {dtype}; images must be (H, W) or (H, W, C), "
                "integers, booleans or floats of at most 64 bits: change its space, or set is_image=False"
            )
        kind = "planes"
        if dtype == np.uint8 and len(shape) == 3 and shape[2] == 3:
            kind = "rgb"
        elif dtype == np.uint8 and (len(shape) == 2 or (len(shape) == 3 and shape[2] == 1)):
            kind = "gray"
        elif dtype == np.float32 and len(shape) == 2 and name.endswith("_depth"):
            kind = "depth"
        elif dtype == np.int32 and len(shape) == 3 and shape[2] == 2 and name.endswith("_segmentation"):
            kind = "segmentation"
        return cls(kind, shape, dtype)

    @property
    def video(self) -> VideoFormat:
        """Codec, suffix and unit."""
        return VIDEO_FORMATS[self.kind]

    @property
    def is_colour(self) -> bool:
        """Whether the video has 8-bit colours: "rgb" and "gray"."""
        return self.kind in ("rgb", "gray")

    @property
    def pixel_format(self) -> str:
        """PyAV's name of the pixel format in which frames are decoded."""
        if self.is_colour:
            return "rgb24"
        return "gray" if self.kind == "planes" and self.dtype.itemsize == 1 else "gray16le"

    @property
    def frame_size(self) -> tuple[int, int]:
        """Height and width of a frame of the video in pixels."""
        if self.kind == "segmentation":
            return 2 * self.shape[0], self.shape[1]
        if self.kind != "planes":
            return self.shape[0], self.shape[1]
        width = self._plane_shape[-1]
        return int(np.prod(self.shape)) // width * max(1, self.dtype.itemsize // 2), width

    @property
    def _plane_shape(self) -> tuple[int, ...]:
        """Shape of an image with its channels first."""
        has_channels = len(self.shape) > 2 and self.shape[-1] <= _MAX_CHANNELS
        return (self.shape[-1], *self.shape[:-1]) if has_channels else self.shape

    def store(self, image: np.ndarray) -> np.ndarray:
        """Return an image in the numbers of its video."""
        if self.kind == "gray":
            return np.repeat(image.reshape(*self.shape[:2], 1), 3, axis=2)
        if self.kind == "depth":
            millimetres = np.where(np.isfinite(image), image, 0.0) * 1000 + 0.5
            return np.clip(millimetres, 0, _MAX_DEPTH).astype(np.uint16)
        if self.kind == "segmentation":
            return (np.concatenate([image[..., 0], image[..., 1]]) + 1).astype(np.uint16)
        if self.kind == "rgb":
            return image
        planes = np.moveaxis(image, -1, 0) if self._plane_shape != self.shape else image
        size = self.dtype.itemsize
        bits = np.ascontiguousarray(planes, self.dtype)[..., None].view(np.uint8 if size == 1 else "<u2")
        return np.ascontiguousarray(np.moveaxis(bits, -1, 0)).reshape(self.frame_size)

    def restore(self, frame: np.ndarray, no_depth: float = np.inf) -> np.ndarray:
        """Return the image of a decoded frame; ``no_depth`` is the value of depth where nothing is hit."""
        if self.kind == "gray":
            return np.ascontiguousarray(frame[..., 1]).reshape(self.shape)
        if self.kind == "depth":
            return np.where(frame == 0, no_depth, frame * 0.001).astype(np.float32)
        if self.kind == "segmentation":
            upper, lower = np.split(frame.astype(np.int32) - 1, 2)
            return np.stack([upper, lower], axis=-1)
        if self.kind == "rgb":
            return frame
        size, shape = self.dtype.itemsize, self._plane_shape
        bits = np.moveaxis(frame.reshape(max(1, size // 2), *shape), 0, -1)
        planes = np.ascontiguousarray(bits).view(self.dtype).reshape(shape)
        return np.ascontiguousarray(np.moveaxis(planes, 0, -1)) if shape != self.shape else planes

    def attributes(self) -> dict[str, str | float]:
        """Return the attributes of the video's entry in an episode file."""
        codec, unit, scale = self.video[1:]
        form = {"kind": self.kind, "shape": json.dumps(self.shape), "dtype": self.dtype.str}
        return {"codec": codec, "unit": unit, "scale": scale, **form}

    @classmethod
    def from_attributes(cls, name: str, attributes: Mapping[str, Any], size: tuple[int, int]) -> ImageEncoding:
        """Return the format that :meth:`attributes` describes.

        Args:
            name: name of the video. Files of older versions have no kind; the name tells it.
            attributes: the attributes.
            size: height and width of a frame.
        """
        if "kind" in attributes:
            shape = tuple(load_json(attributes["shape"]))
            return cls(str(attributes["kind"]), shape, np.dtype(str(attributes["dtype"])))
        kind = next((kind for kind in ("depth", "segmentation") if name.endswith(f"_{kind}")), "rgb")
        return cls.of_kind(kind, size[0] // (2 if kind == "segmentation" else 1), size[1])


@dataclass(frozen=True)
class SensorImages:
    """Images of a sensor that become one video.

    Attributes:
        name: name of the video.
        uuid: the sensor.
        keys: keys of the images in the sensor's reading; empty if it reads nothing else.
        form: format of the images.
        purpose: purpose of the images; see :class:`sensorium.suites.ObservationSensor`.
    """

    name: str
    uuid: str
    keys: tuple[str, ...]
    form: ImageEncoding
    purpose: Purpose


def image_streams(sensor: ObservationSensor) -> list[SensorImages]:
    """Return the images of a sensor, which are stored as videos.

    These are all arrays with two or more axes of a sensor with ``is_image``, and (H, W, 3) or (H, W, 4) uint8 arrays of
    other sensors. Images in a dict have the name ``UUID_KEY``, but the images "rgb" of a camera have the name ``UUID``.

    Raises:
        OptionError: images have a shape or dtype that cannot be stored.
    """
    uuid, boxes, streams = sensor.uuid, list(boxes_of(sensor.space)), []
    chosen = [(keys, box) for keys, box in boxes if _is_image(keys, box, sensor.is_image)]
    for keys, box in chosen:
        plain = not keys or (keys == ("rgb",) and len(chosen) == len(boxes))
        name = uuid if plain else "_".join((uuid, *keys))
        named = default_purpose(name)  # the segmentation of a camera is no observation, even if its colours are
        purpose = sensor.purpose if plain or named == "observation" else named
        streams.append(SensorImages(name, uuid, keys, ImageEncoding.of_space(name, box), purpose))
    return streams


def boxes_of(space: spaces.Space[Any], keys: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], spaces.Box]]:
    """Yield the arrays of a space with their keys in it."""
    if isinstance(space, spaces.Dict):
        for key, each in space.items():
            yield from boxes_of(each, (*keys, key))
    elif isinstance(space, spaces.Box):
        yield keys, space


def _is_image(keys: tuple[str, ...], box: spaces.Box, in_image_sensor: bool) -> bool:
    if in_image_sensor:
        return not keys or len(box.shape) >= 2
    return looks_like_image(box.shape, np.dtype(box.dtype))


def looks_like_image(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Return whether arrays of this shape and dtype are certainly images: (H, W, 3) or (H, W, 4) uint8."""
    return dtype == np.uint8 and len(shape) == 3 and shape[2] in (3, 4) and min(shape[:2]) > 4
