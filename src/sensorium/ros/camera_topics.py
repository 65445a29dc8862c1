"""Topics of cameras: images and CameraInfo."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sensorium.ros import topics
from sensorium.ros.messages import Topic, Values, make_encoder
from sensorium.ros.topics import topic

if TYPE_CHECKING:
    from sensorium.cameras import CameraProfile
    from sensorium.cameras.camera import CameraSensor

OPTICAL = "_optical"
"""End of the name of a camera's frame: x to the right, y down, z forward (REP 103)."""

_ENCODINGS: dict[str, tuple[str, type[np.generic], int]] = {
    "rgb": ("rgb8", np.uint8, 3),
    "depth": ("32FC1", np.float32, 1),
    "segmentation": ("32SC2", np.int32, 2),
    "instance": ("32SC1", np.int32, 1),
    "normals": ("32FC3", np.float32, 3),
    "points": ("32FC3", np.float32, 3),
}
"""Output of a camera -> encoding of its Image, dtype and channels."""


def optical_frame(camera: CameraSensor) -> str:
    """Return the frame of a camera's images."""
    return topic(camera.uuid)[1:] + OPTICAL


def camera_topics(camera: CameraSensor, env: int, prefix: str = "", jpeg: int | None = None) -> list[Topic]:
    """Return the topics of a camera: ``/NAME/rgb``, ``/NAME/depth``, ..., and ``/NAME/camera_info``.

    Args:
        camera: the camera, of a built scene.
        env: the env whose intrinsics CameraInfo has.
        prefix: what all topics begin with.
        jpeg: quality of JPEG for colour images, written as CompressedImage; None for Image.
    """
    found = [_info(camera, env, prefix)]
    width, height = camera.resolution
    for output in camera.outputs:
        encoding, dtype, channels = _ENCODINGS[output]
        name = prefix + topic(camera.uuid, f"/{output}")
        if output == "rgb" and jpeg is not None:
            continue  # its size changes from message to message; see encode_jpeg
        step = width * channels * np.dtype(dtype).itemsize
        constant = {
            "header.frame_id": optical_frame(camera),
            "height": height,
            "width": width,
            "encoding": encoding,
            "step": step,
            "data": step * height,
        }
        found.append(Topic(name, topics.IMAGE, make_encoder(topics.IMAGE, constant), _image_columns(output, dtype)))
    return found


def _image_columns(output: str, dtype: type[np.generic]) -> Callable[[Values], dict[str, Any]]:
    def columns(values: Values) -> dict[str, Any]:
        image = np.ascontiguousarray(values[output], dtype)
        return {"data": image.reshape(len(image), -1).view(np.uint8)}

    return columns


def _info(camera: CameraSensor, env: int, prefix: str) -> Topic:
    k = camera.intrinsics[env].double().numpy(force=True)
    constant = {
        **info_constants(optical_frame(camera), camera.resolution, camera.options.profile),
        "k": k.ravel(),
        "p": np.hstack([k, np.zeros((3, 1))]).ravel(),
    }
    name = prefix + topic(camera.uuid, "/camera_info")
    return Topic(name, topics.CAMERA_INFO, make_encoder(topics.CAMERA_INFO, constant), lambda _: {})


def info_constants(frame: str, resolution: tuple[int, int], profile: CameraProfile | None) -> dict[str, Any]:
    """Return what does not depend on the intrinsics in a CameraInfo.

    Args:
        frame: optical frame of the camera.
        resolution: width and height, pixels.
        profile: lens and image sensor; None for an ideal camera.
    """
    width, height = resolution
    model, coefficients = "plumb_bob", [0.0] * 5
    if profile is not None and profile.distorts:
        if profile.projection == "fisheye":
            model, coefficients = "equidistant", [profile.k1, profile.k2, profile.k3, profile.k4]
        else:
            coefficients = [profile.k1, profile.k2, profile.p1, profile.p2, profile.k3]
    return {
        "header.frame_id": frame,
        "height": height,
        "width": width,
        "distortion_model": model,
        "d": coefficients,
        "r": np.eye(3).ravel(),
    }


def encode_jpeg(camera: CameraSensor, image: np.ndarray, stamp: int, quality: int) -> bytes:
    """Return a CompressedImage of a colour image (H, W, 3) uint8, captured at ``stamp`` ns."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "JPEG", quality=quality)
    data = np.frombuffer(buffer.getvalue(), np.uint8)
    constant = {
        "header.frame_id": optical_frame(camera),
        "header.stamp.sec": stamp // 1_000_000_000,
        "header.stamp.nanosec": stamp % 1_000_000_000,
        "format": "rgb8; jpeg compressed bgr8",
        "data": data,
    }
    encoder = make_encoder(topics.COMPRESSED_IMAGE, constant)
    return encoder.encode({"header.stamp.sec": [stamp // 1_000_000_000]})[0].tobytes()
