"""Conversion of RGB images to the luma and chroma planes of video codecs: ITU-R BT.601, studio range, 8 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sensorium.jit import helper, kernel

if TYPE_CHECKING:
    from av import VideoFrame

_I = np.int32


@helper
def _luma(image: np.ndarray, y: np.ndarray) -> None:
    for r in range(image.shape[0]):
        for c in range(image.shape[1]):
            red, green, blue = _I(image[r, c, 0]), _I(image[r, c, 1]), _I(image[r, c, 2])
            y[r, c] = np.uint8((_I(8414) * red + _I(16519) * green + _I(3208) * blue + _I(540672)) >> _I(15))


@kernel
def to_420(image: np.ndarray, y: np.ndarray, u: np.ndarray, v: np.ndarray) -> None:
    """Convert an (H, W, 3) image of even size to luma (H, W) and chroma (H/2, W/2), the mean of each 2 x 2 block."""
    _luma(image, y)
    for r in range(image.shape[0] // 2):
        top, low = image[2 * r], image[2 * r + 1]
        for c in range(image.shape[1] // 2):
            k, n = 2 * c, 2 * c + 1
            red = _I(top[k, 0]) + _I(top[n, 0]) + _I(low[k, 0]) + _I(low[n, 0])
            green = _I(top[k, 1]) + _I(top[n, 1]) + _I(low[k, 1]) + _I(low[n, 1])
            blue = _I(top[k, 2]) + _I(top[n, 2]) + _I(low[k, 2]) + _I(low[n, 2])
            u[r, c] = np.uint8((_I(14392) * blue - _I(4857) * red - _I(9535) * green + _I(16842752)) >> _I(17))
            v[r, c] = np.uint8((_I(14392) * red - _I(12051) * green - _I(2341) * blue + _I(16842752)) >> _I(17))


@kernel
def to_444(image: np.ndarray, y: np.ndarray, u: np.ndarray, v: np.ndarray) -> None:
    """Convert an (H, W, 3) image to three planes (H, W)."""
    _luma(image, y)
    for r in range(image.shape[0]):
        for c in range(image.shape[1]):
            red, green, blue = _I(image[r, c, 0]), _I(image[r, c, 1]), _I(image[r, c, 2])
            u[r, c] = np.uint8((_I(14392) * blue - _I(4857) * red - _I(9535) * green + _I(4210688)) >> _I(15))
            v[r, c] = np.uint8((_I(14392) * red - _I(12051) * green - _I(2341) * blue + _I(4210688)) >> _I(15))


def to_frame(image: np.ndarray) -> VideoFrame:
    """Return an (H, W, 3) uint8 image as a PyAV frame.

    The frame is yuv420p (one chroma sample per 2 x 2 pixels), or yuv444p if the width or the height is odd.
    """
    import av

    height, width = image.shape[:2]
    odd = height % 2 or width % 2
    frame = av.VideoFrame(width, height, "yuv444p" if odd else "yuv420p")
    planes = [
        np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width]  # type: ignore[call-overload]
        for plane in frame.planes
    ]
    (to_444 if odd else to_420)(np.ascontiguousarray(image), *planes)
    return frame
